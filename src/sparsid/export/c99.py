"""A model in C99: the caller owns the state, nothing is allocated."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

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
from sparsid.export.text import number, rendered, wrapped


def c99_files(design: Design) -> dict[str, str]:
    """Return header, source, and a program that checks them."""
    return {
        f"{design.name}.h": rendered("model.h", design),
        f"{design.name}.c": source(design),
        "check.c": rendered("check.c", design),
    }


def source(design: Design) -> str:
    """Return the source; every name in it begins with that of the model."""
    writer = _Writer(design.name, design.precision)
    programs = design.programs
    bodies = {p.name: writer.body(p) for p in programs[:3]}
    return rendered(
        "model.c",
        design,
        bodies=bodies,
        unread={p.name: sorted(set(p.inputs) - p.used) for p in programs[:3]},
        own_start=writer.constant(programs.own_start),
        constants=writer.constants,
        helpers=writer.helpers,
        # Literals of the right type, and functions of the right precision.
        f="f" if design.precision == "float" else "",
    )


class _Writer:
    """Writes programs, and keeps the constants and helpers that they share."""

    def __init__(self, name: str, precision: str) -> None:
        self.name, self.precision = name, precision
        self.constants: dict[str, tuple[str, int]] = {}
        self.helpers: set[str] = set()

    def literal(self, value: float) -> str:
        """Return a number of the model's type."""
        return number(value, self.precision) + (
            "f" if self.precision == "float" else ""
        )

    def constant(self, values: NDArray[Any]) -> str:
        """Return the name of an array."""
        flat = np.ravel(values)
        text = wrapped([self.literal(v) for v in flat.tolist()])
        fresh = (f"{self.name}_c{len(self.constants)}", flat.size)
        return self.constants.setdefault(text, fresh)[0]

    def helper(self, what: str) -> str:
        """Return the name of a helper, which will be there."""
        self.helpers.add(what)
        return f"{self.name}_{what}"

    def body(self, program: Program) -> list[str]:
        """Return the lines of a program, results copied to where they belong."""
        real = f"{self.name}_real"
        lines = [f"{real} v_{o.out}[{o.size}];" for o in program.operations]
        for operation in program.operations:
            lines += self.statements(operation)
        targets = {"x": "state->x", "x_next": "state->x", "y": "y"}
        for name, found in program.outputs.items():
            lines.append(_copied(targets[name], _vector(found), program.sizes[found]))
        return lines

    def statements(self, operation: Operation) -> list[str]:
        """Return what computes an operation."""
        out, size = f"v_{operation.out}", operation.size
        match operation:
            case Affine(terms=terms, bias=bias):
                lines = [_copied(out, self.constant(bias), size)]
                for M, v in terms:
                    given = f"{self.constant(M)}, {_vector(v)}, {size}, {M.shape[1]}"
                    lines.append(f"{self.helper('add')}({out}, {given});")
                return lines
            case Activate(source=source, kind=kind, limits=limits):
                given = f"{_vector(source)}, {size}"
                if kind in ("square", "cube"):
                    given += f", {self.constant(limits)}"
                return [f"{self.helper(kind)}({out}, {given});"]
            case Clip(source=source, low=low, high=high):
                return self._clipped(out, _vector(source), low, high)
            case Scale(source=source, before=before, factor=factor, after=after):
                arrays = ", ".join(self.constant(a) for a in (before, factor, after))
                given = f"{_vector(source)}, {arrays}, {size}"
                return [f"{self.helper('scale')}({out}, {given});"]
            case Pick():
                lines, at = [], 0
                for v, first, count in operation.pieces:
                    target = f"{out} + {at}" if at else out
                    origin = f"{_vector(v)} + {first}" if first else _vector(v)
                    lines.append(_copied(target, origin, count))
                    at += count
                return lines
            case Median(sources=sources):
                median = self.helper("median")
                return [
                    line
                    for i in range(size)
                    for line in (
                        "{",
                        f"    {self.name}_real sorted[{len(sources)}];",
                        *(
                            f"    sorted[{k}] = {_vector(v)}[{i}];"
                            for k, v in enumerate(sources)
                        ),
                        f"    {out}[{i}] = {median}(sorted, {len(sources)});",
                        "}",
                    )
                ]

    def _clipped(self, out: str, source: str, low: Any, high: Any) -> list[str]:
        """Return what holds a vector; where there is no bound, there is no line."""
        lines = [_copied(out, source, len(low))]
        for sign, bounds in (("<", low), (">", high)):
            for i in np.flatnonzero(np.isfinite(bounds)).tolist():
                bound = self.literal(bounds[i])
                lines += [
                    f"if ({out}[{i}] {sign} {bound}) {{",
                    f"    {out}[{i}] = {bound};",
                    "}",
                ]
        return lines


def _vector(name: str) -> str:
    """Return what a vector is called in C."""
    return {"x": "state->x", "u": "u", "s": "s", "y": "y"}.get(name, f"v_{name}")


def _copied(target: str, origin: str, count: int) -> str:
    return f"memcpy({target}, {origin}, {count} * sizeof(*({origin})));"
