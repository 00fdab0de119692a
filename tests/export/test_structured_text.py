"""Structured Text: parsed by blark, and run by a few lines that read it as Python."""

import math
import re
import warnings

import numpy as np
import pytest
from exported_models import MODELS, free_run, inputs, relative, simulator

from sparsid.export.package import design_of, write_export
from sparsid.export.structured_text import text_files

KNOWN = {
    "EXP": math.exp,
    "LN": math.log,
    "SQRT": math.sqrt,
    "ABS": abs,
    "MAX": max,
    "MIN": min,
    "LIMIT": lambda low, value, high: min(max(value, low), high),
    "TRUE": True,
    "FALSE": False,
}
WORDS = [
    (r"FOR (\w+) := (.+) TO (.+) DO", r"for \1 in range(\2, \3 + 1):"),
    (r"WHILE (.+) DO", r"while \1:"),
    (r"IF (.+) THEN", r"if \1:"),
    (r" := ", " = "),
    (r"\bNOT\b", "not"),
    (r"\bOR\b", "or"),
]


def as_python(lines):
    """Statements of our subset as Python; its blocks are indented already."""
    found = []
    for line in lines:
        if re.match(r"\s*END_\w+;", line):
            continue
        for word, plain in WORDS:
            line = re.sub(word, plain, line)
        found.append(line.rstrip(";"))
    return "\n".join(found)


def declared(text):
    """Variables of a block with their first values."""
    found = {}
    pattern = r"(\w+) : (ARRAY\[0\.\.(\d+)\] OF )?\w+( := ([^;]+))?;"
    for name, _, last, _, value in re.findall(pattern, text):
        if last:
            listed = re.findall(r"[-+.\dE]+", value)
            found[name] = [float(v) for v in listed] or [0.0] * (int(last) + 1)
            assert len(found[name]) == int(last) + 1, name
        else:
            found[name] = value == "TRUE"
    return found


class Block:
    """A function block, run by Python."""

    def __init__(self, text):
        self.names = dict(KNOWN)
        head, block = text.split("FUNCTION_BLOCK", 1)
        for name, body in re.findall(
            r"FUNCTION (\w+) : .*?\n(.*?)END_FUNCTION", head, re.DOTALL
        ):
            lines = as_python(body.split("END_VAR\n")[-1].splitlines()).splitlines()
            inner = "\n".join(f"    {line}" for line in lines)
            inner = re.sub(rf"\b{name}\b", "found", inner)
            exec(f"def {name}(z):\n{inner}\n    return found", self.names)
        variables, body = block.rsplit("END_VAR\n", 1)
        self.names |= declared(variables)
        body = body.split("END_FUNCTION_BLOCK")[0]
        self.code = compile(as_python(body.splitlines()), "block", "exec")

    def __call__(self, u, measured=None):
        self.names |= {"u": u.tolist(), "observe": measured is not None}
        if measured is not None:
            self.names["measured"] = measured.tolist()
        exec(self.code, self.names)
        return list(self.names["y"])


@pytest.mark.parametrize("kind", MODELS)
def test_steps_are_the_free_run(kind):
    model = MODELS[kind]()
    u = inputs(model, 200)
    block = Block(text_files(design_of(model))["model.st"])
    found = np.array([block(now) for now in u])
    assert relative(found, free_run(model, u)) < 1e-9


def test_measured_outputs_move_the_state():
    design = design_of(MODELS["several channels and delays"]())
    block, vectors = Block(text_files(design)["model.st"]), design.vectors
    pairs = zip(vectors.u, vectors.measured, strict=True)
    found = np.array([block(u, y) for u, y in pairs])
    np.testing.assert_allclose(found, vectors.observed, atol=1e-9)


def test_blocks_and_checks_can_be_parsed():
    # blark is slow: the shortest model that has dead times, bounds and a median.
    model = simulator("cascade", members=2, delays=[1], states=1, neurons=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import blark

        for text in text_files(design_of(model, precision="float")).values():
            assert blark.parse_source_code(text) is not None


def test_it_says_that_it_is_experimental(tmp_path):
    folder = write_export(simulator("linear"), "st", tmp_path / "out")
    assert "**Experimental**" in (folder / "README.md").read_text()
    assert "Experimental" in (folder / "model.st").read_text()
