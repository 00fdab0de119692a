"""Texts that writers share: templates, numbers, and names that need care."""

from __future__ import annotations

import keyword
import re
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsid.errors import InputError
from sparsid.export.design import Design

# Words that C, C++, Python or IEC 61131-3 keep for themselves, or that our files need.
WORDS = """
auto bool by case char const default do double end enum extern float function goto int
long lreal main namespace new program real register repeat short signed sizeof static
string struct switch template then this to typedef union unsigned until var void
volatile check run start step observe math stdio np numpy casadi fmpy onnxruntime
pathlib tempfile
"""
TAKEN = frozenset(word.lower() for word in [*keyword.kwlist, *WORDS.split()])
WIDTH = 76


def checked_name(name: str) -> str:
    """Return a name that functions and files can begin with, or refuse it."""
    good = re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,39}", name)
    if not good or name.lower() in TAKEN or name.lower().startswith("fmi"):
        raise InputError(
            f"name={name!r}: functions and files begin with it, so give letters, "
            "digits and underscores, a letter first, and no word of C or Python, as in "
            "'tanks'"
        )
    return name


def number(value: float, precision: str = "double") -> str:
    """Return a number that reads back as the same."""
    if np.isinf(value):
        raise ValueError("an infinite number cannot be written")
    if precision == "float":
        return repr(float(np.format_float_scientific(np.float32(value))))
    return repr(float(value))


def python_text(values: NDArray[Any]) -> str:
    """Return an array as an expression in Python."""
    text = repr(values.tolist()).replace("inf", "np.inf")
    return (
        f"np.array({text}).reshape({values.shape})"
        if not values.size
        else (f"np.array({text})")
    )


def comment(text: str) -> str:
    """Return a text that cannot end a comment, or begin one within."""
    return re.sub(r"[*\\\r\n\t]", " ", text).replace('"', "'").strip(" ,")


def wrapped(items: list[str], indent: str = "    ") -> str:
    """Return items with commas, line by line."""
    lines, line = [], indent
    for item in items:
        if len(line) + len(item) > WIDTH and line.strip():
            lines.append(line.rstrip())
            line = indent
        line += f"{item}, "
    return "\n".join([*lines, line.rstrip().removesuffix(",")])


def rendered(template: str, design: Design, **values: Any) -> str:
    """Return a template of the folder ``templates``, filled."""
    found = _environment().get_template(f"{template}.jinja")
    table = design.table
    text = found.render(
        name=design.name,
        upper=design.name.upper(),
        design=design,
        programs=design.programs,
        inputs=design.inputs,
        outputs=design.outputs,
        states=design.programs.states,
        starts=len(design.programs.own_start),
        dt=table.channels.dt,
        real=design.precision,
        start_inputs=[repr(u) for u in table.scaling.u_mean.tolist()],
        tolerances=[repr(t) for t in design.tolerances.tolist()],
        **values,
    )
    return str(text)


@cache
def _environment() -> Any:
    import jinja2

    # Source code, not HTML: nothing is to be escaped.
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("sparsid.export"),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
    )
    made.filters["comment"] = comment
    made.filters["wrapped"] = wrapped
    return made
