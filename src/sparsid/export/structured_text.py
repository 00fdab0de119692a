"""A model in Structured Text (IEC 61131-3): a function block, and a check in the PLC.

Experimental: it is parsed in our tests, but no PLC has run it there.
"""

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
from sparsid.export.text import number, rendered

# Samples in the check: PLCs have little room.
SHOWN = 20
LINE = 90


def text_files(design: Design) -> dict[str, str]:
    """Return the function block, and a program that checks it."""
    writer = _Writer(design)
    programs = design.programs
    bodies = {p.name: writer.body(p) for p in programs[:3]}
    own_start = writer.constant(programs.own_start)
    vectors = {p.name: writer.vectors(p) for p in programs[:3]}
    block = rendered(
        "model.st",
        design,
        bodies=bodies,
        vectors=vectors,
        own_start=own_start,
        constants=writer.constants,
        real_type=writer.real,
        helpers=writer.helpers,
        longest=writer.longest,
    )
    return {
        f"{design.name}.st": block,
        "check.st": rendered("check.st", design, **_check(design, writer)),
    }


def _check(design: Design, writer: _Writer) -> dict[str, Any]:
    vectors = design.vectors
    count = min(SHOWN, len(vectors.u))
    u = vectors.u[:count] if design.inputs else np.zeros((count, 1))
    return {
        "given": writer.listed(u),
        "expected": writer.listed(vectors.y[:count]),
        "allowed": writer.listed(design.tolerances),
        "count": count,
        "columns": max(design.inputs, 1),
        "real_type": writer.real,
    }


class _Writer:
    """Writes programs; vectors and constants are arrays that begin with 0."""

    def __init__(self, design: Design) -> None:
        self.precision = design.precision
        self.real = "LREAL" if design.precision == "double" else "REAL"
        self.constants: dict[str, tuple[str, int]] = {}
        self.helpers: set[str] = set()
        self.longest = 0

    def listed(self, values: Any) -> str:
        """Return numbers with commas, in lines."""
        lines = [""]
        for value in np.ravel(values).tolist():
            text = number(value, self.precision).upper()
            # Real literals have a point, with an exponent, too.
            if "." not in text:
                text = text.replace("E", ".0E")
            if len(lines[-1]) + len(text) > LINE:
                lines.append("")
            lines[-1] += f"{text}, "
        return "\n        ".join(line.rstrip() for line in lines).removesuffix(",")

    def constant(self, values: Any) -> str:
        """Return the name of an array among the constants."""
        fresh = (f"c{len(self.constants)}", np.size(values))
        return self.constants.setdefault(self.listed(values), fresh)[0]

    def vectors(self, program: Program) -> dict[str, int]:
        """Return the vectors of a program, with their lengths."""
        return {_vector(program, o.out): o.size for o in program.operations}

    def body(self, program: Program) -> list[str]:
        """Return the lines of a program; results go where they belong."""
        lines: list[str] = []
        for operation in program.operations:
            lines += self.statements(program, operation)
        for name, source in program.outputs.items():
            target = "y" if name == "y" else "x"
            found = _vector(program, source)
            lines += _loop(program.sizes[source], f"{target}[i] := {found}[i];")
        return lines

    def statements(self, program: Program, operation: Operation) -> list[str]:
        """Return what computes an operation."""
        out, size = _vector(program, operation.out), operation.size
        match operation:
            case Affine(terms=terms, bias=bias):
                lines = _loop(size, f"{out}[i] := {self.constant(bias)}[i];")
                for M, source in terms:
                    product = f"{self.constant(M)}[{M.shape[1]} * i + j] * " + (
                        f"{_vector(program, source)}[j]"
                    )
                    inner = [
                        f"FOR j := 0 TO {M.shape[1] - 1} DO",
                        f"    {out}[i] := {out}[i] + {product};",
                        "END_FOR;",
                    ]
                    lines += _loop(size, *inner)
                return lines
            case Activate(source=source, kind=kind, limits=limits):
                return self._activated(
                    out, _vector(program, source), kind, limits, size
                )
            case Clip(source=source, low=low, high=high):
                lines = _loop(size, f"{out}[i] := {_vector(program, source)}[i];")
                for function, bounds in (("MAX", low), ("MIN", high)):
                    for i in np.flatnonzero(np.isfinite(bounds)).tolist():
                        bound = self.listed(bounds[i])
                        line = f"{out}[{i}] := {function}({out}[{i}], {bound});"
                        lines.append(line)
                return lines
            case Scale(source=source, before=before, factor=factor, after=after):
                before_, factor_, after_ = map(self.constant, (before, factor, after))
                moved = f"({_vector(program, source)}[i] - {before_}[i])"
                line = f"{out}[i] := {moved} * {factor_}[i] + {after_}[i];"
                return _loop(size, line)
            case Pick():
                lines, at = [], 0
                for source, first, count in operation.pieces:
                    name = _vector(program, source)
                    line = f"{out}[{at} + i] := {name}[{first} + i];"
                    lines += _loop(count, line)
                    at += count
                return lines
            case Median(sources=sources):
                names = [_vector(program, source) for source in sources]
                return self._median(out, names, size)

    def _activated(
        self, out: str, source: str, kind: str, limits: Any, size: int
    ) -> list[str]:
        argument = f"{source}[i]"
        if kind in ("square", "cube"):
            limit = f"{self.constant(limits)}[i]"
            argument = f"LIMIT(-{limit}, {argument}, {limit})"
        self.helpers.add(kind)
        return _loop(size, f"{out}[i] := @{kind}({argument});")

    def _median(self, out: str, sources: list[str], size: int) -> list[str]:
        """Return an insertion sort of every element over the vectors."""
        count = len(sources)
        self.longest = max(self.longest, count)
        lines = [f"sorted[{k}] := {name}[i];" for k, name in enumerate(sources)]
        lines += [
            f"FOR j := 1 TO {count - 1} DO",
            "    now := sorted[j];",
            "    k := j;",
            "    searching := TRUE;",
            "    WHILE searching DO",
            "        searching := FALSE;",
            "        IF k > 0 THEN",
            "            IF sorted[k - 1] > now THEN",
            "                sorted[k] := sorted[k - 1];",
            "                k := k - 1;",
            "                searching := TRUE;",
            "            END_IF;",
            "        END_IF;",
            "    END_WHILE;",
            "    sorted[k] := now;",
            "END_FOR;",
            f"{out}[i] := 0.5 * (sorted[{(count - 1) // 2}] + sorted[{count // 2}]);",
        ]
        return _loop(size, *lines)


def _vector(program: Program, name: str) -> str:
    """Return what a vector is called: those of each program have their own names."""
    if name in program.inputs:
        return {"y": "measured"}.get(name, name)
    return f"{program.name}_{name}"


def _loop(size: int, *lines: str) -> list[str]:
    """Return lines for every element."""
    inner = [f"    {line}" for line in lines]
    return [f"FOR i := 0 TO {size - 1} DO", *inner, "END_FOR;"]
