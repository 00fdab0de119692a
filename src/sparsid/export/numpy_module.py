"""A model as one Python module that imports NumPy and nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparsid.export.design import Design
from sparsid.export.program import (
    Activate,
    Affine,
    Clip,
    Median,
    Operation,
    Pick,
    Program,
    Scale,
)
from sparsid.export.text import python_text, rendered
from sparsid.kernel.activations import CORNER

_ACTIVATIONS = {
    "tanh": "np.tanh({v})",
    "sigmoid": "0.5 * (1.0 + np.tanh(0.5 * {v}))",
    "softroot": "np.sqrt(1.0 + np.logaddexp({v}, 0.0)) - 1.0",
    "square": "np.clip({v}, -{limit}, {limit}) ** 2",
    "cube": "np.clip({v}, -{limit}, {limit}) ** 3",
    "modulus": f"np.sqrt({{v}} * {{v}} + {CORNER**2!r}) - {CORNER!r}",
    "relu": "np.maximum({v}, 0.0)",
}


def numpy_files(design: Design) -> dict[str, str]:
    """Return the module and a program that checks it."""
    writer = _Writer()
    programs = design.programs
    bodies = {p.name: writer.body(p) for p in programs[:3]}
    module = rendered(
        "model.py",
        design,
        bodies=bodies,
        own_start=writer.constant(programs.own_start),
        constants=writer.constants,
    )
    return {
        f"{design.name}.py": module,
        "check.py": rendered("check_numpy.py", design),
    }


class _Writer:
    """Writes programs, and keeps the constants that they share."""

    def __init__(self) -> None:
        self.constants: dict[str, str] = {}

    def constant(self, values: Any) -> str:
        """Return the name of an array."""
        text = python_text(np.asarray(values))
        return self.constants.setdefault(text, f"C{len(self.constants)}")

    def body(self, program: Program) -> list[str]:
        """Return the lines of a program."""
        lines = [f"{o.out} = {self.expression(o)}" for o in program.operations]
        return [*lines, f"return {', '.join(program.outputs.values())}"]

    def expression(self, operation: Operation) -> str:
        """Return what an operation computes."""
        match operation:
            case Affine(terms=terms, bias=bias):
                products = [f"{self.constant(M)} @ {v}" for M, v in terms]
                # A copy if there is nothing to add: constants stay as they are.
                return " + ".join([self.constant(bias), *(products or ["0.0"])])
            case Activate(source=source, kind=kind, limits=limits):
                held = kind in ("square", "cube")
                limit = self.constant(limits) if held else ""
                return _ACTIVATIONS[kind].format(v=source, limit=limit)
            case Clip(source=source, low=low, high=high):
                return f"np.clip({source}, {self.constant(low)}, {self.constant(high)})"
            case Scale(source=source, before=before, factor=factor, after=after):
                moved = f"({source} - {self.constant(before)})"
                return f"{moved} * {self.constant(factor)} + {self.constant(after)}"
            case Pick():
                parts = [f"{v}[{k}:{k + n}]" for v, k, n in operation.pieces]
                return f"np.concatenate([{', '.join(parts)}])"
            case Median(sources=sources):
                return f"np.median([{', '.join(sources)}], axis=0)"
