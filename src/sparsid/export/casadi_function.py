"""A model as CasADi functions, with exact derivatives."""

from __future__ import annotations

import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from sparsid.errors import InputError
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
from sparsid.export.text import rendered
from sparsid.kernel.activations import CORNER


def casadi_files(design: Design) -> dict[str, str | bytes]:
    """Return the functions as CasADi writes them, and a program that checks them."""
    files: dict[str, str | bytes] = {"check.py": rendered("check_casadi.py", design)}
    with TemporaryDirectory() as room:
        for key, function in casadi_functions(design).items():
            path = Path(room) / f"{design.name}_{key}.casadi"
            # Only what CasADi saves itself can be loaded by `Function.load`.
            function.save(str(path))
            files[path.name] = path.read_bytes()
    return files


def casadi_functions(design: Design) -> dict[str, Any]:
    """Return ``start``, ``step`` and ``observe`` as CasADi functions.

    A median is a network of minima and maxima: exact, with a kink where two members
    cross. For smooth derivatives take the mean, one member or the compact form.
    """
    ca = _casadi()
    return {
        program.name: _function(ca, design.name, program)
        for program in design.programs[:3]
    }


def _casadi() -> Any:
    try:
        with warnings.catch_warnings():
            # Its compiled part has names that Python will want elsewhere one day.
            warnings.simplefilter("ignore", DeprecationWarning)
            import casadi
    except ImportError as error:
        raise InputError(
            'CasADi is not installed: pip install "sparsid[casadi]"'
        ) from error
    return casadi


def _function(ca: Any, name: str, program: Program) -> Any:
    values = {key: ca.SX.sym(key, size) for key, size in program.inputs.items()}
    given = list(values.values())
    for operation in program.operations:
        values[operation.out] = _applied(ca, operation, values)
    return ca.Function(
        f"{name}_{program.name}",
        given,
        [values[source] for source in program.outputs.values()],
        list(program.inputs),
        list(program.outputs),
    )


def _applied(ca: Any, operation: Operation, v: dict[str, Any]) -> Any:
    match operation:
        case Affine(terms=terms, bias=bias):
            found = ca.SX(ca.DM(bias))
            for M, source in terms:
                # Sparse: what is zero is not even a multiplication.
                found += ca.mtimes(ca.sparsify(ca.DM(M)), v[source])
            return found
        case Activate(source=source, kind=kind, limits=limits):
            return _activated(ca, kind, v[source], limits)
        case Clip(source=source, low=low, high=high):
            found = v[source]
            for bounds, hold in ((low, ca.fmax), (high, ca.fmin)):
                for i in np.flatnonzero(np.isfinite(bounds)).tolist():
                    found = ca.SX(found)
                    found[i] = hold(found[i], bounds[i])
            return found
        case Scale(source=source, before=before, factor=factor, after=after):
            return (v[source] - ca.DM(before)) * ca.DM(factor) + ca.DM(after)
        case Pick():
            return ca.vertcat(*(v[s][k : k + n] for s, k, n in operation.pieces))
        case Median(sources=sources):
            return _median(ca, [v[source] for source in sources])


def _activated(ca: Any, kind: str, z: Any, limits: Any) -> Any:
    if kind in ("square", "cube"):
        held = ca.fmin(ca.fmax(z, -ca.DM(limits)), ca.DM(limits))
        return held * held if kind == "square" else held * held * held
    if kind == "softroot":
        return ca.sqrt(1.0 + ca.log1p(ca.exp(-ca.fabs(z))) + ca.fmax(z, 0.0)) - 1.0
    if kind == "modulus":
        return ca.sqrt(z * z + CORNER**2) - CORNER
    if kind == "sigmoid":
        return 0.5 * (1.0 + ca.tanh(0.5 * z))
    return ca.fmax(z, 0.0) if kind == "relu" else ca.tanh(z)


def _median(ca: Any, values: list[Any]) -> Any:
    """Return the middle of vectors, sorted by exchanges of neighbours."""
    count = len(values)
    for round_ in range(count):
        for k in range(round_ % 2, count - 1, 2):
            low, high = values[k], values[k + 1]
            values[k], values[k + 1] = ca.fmin(low, high), ca.fmax(low, high)
    return 0.5 * (values[(count - 1) // 2] + values[count // 2])
