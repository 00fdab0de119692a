"""How much is left of structures: of each member, and of all of them in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sparsid.models.canonical import Structure

Entry = tuple[str, int, int]


def middle_count(structures: Sequence[Structure]) -> int:
    """Return the median number of parameters, the larger one between two."""
    return sorted(s.parameters for s in structures)[len(structures) // 2]


def in_common(structures: Sequence[Structure]) -> int:
    """Return how many parameters all members have.

    States and inputs are compared by their number. Neurons have none that means the
    same in two members: those that resemble each other most are taken for the same.
    """
    first, *others = structures
    shared = _entries(first)
    poles = {(p.kind, p.state): p.parameters for p in first.poles}
    for other in others:
        there = {(p.kind, p.state): p.parameters for p in other.poles}
        poles = {pole: count for pole, count in poles.items() if pole in there}
        shared &= _renumbered(other, shared, first.sizes.neurons)
    return sum(poles.values()) + len(shared)


def groups_left(structure: Structure) -> dict[str, Any]:
    """Return how many of each kind of group a structure still has."""
    sizes = structure.sizes
    free = structure.free
    inputs = {j for m, _, j in free if m in "BDH" and j < sizes.inputs}
    return {
        "states": sizes.states,
        "neurons": sizes.neurons,
        "inputs": len(inputs),
        "direct_paths": len({(i, j) for m, i, j in free if m == "D" and j in inputs}),
        "blocks": sorted({m for m, _, _ in free}),
    }


def _entries(structure: Structure) -> set[Entry]:
    return {(str(m), int(i), int(j)) for m, i, j in structure.free}


def _neuron(entry: Entry) -> int | None:
    """Return the neuron that an entry belongs to."""
    matrix, i, j = entry
    return i if matrix in "FH" else j if matrix in "EG" else None


def _with(entry: Entry, neuron: int) -> Entry:
    matrix, i, j = entry
    return (matrix, neuron, j) if matrix in "FH" else (matrix, i, neuron)


def _renumbered(other: Structure, shared: set[Entry], neurons: int) -> set[Entry]:
    """Return entries of a structure, its neurons numbered as those they resemble."""
    own = _entries(other)
    found = {e for e in own if _neuron(e) is None}
    of = [
        {_with(e, 0) for e in own if _neuron(e) == k}
        for k in range(other.sizes.neurons)
    ]
    target = [{_with(e, 0) for e in shared if _neuron(e) == k} for k in range(neurons)]
    score = np.array([[len(a & b) for b in target] for a in of]).reshape(
        len(of), len(target)
    )
    while score.size and score.max() > 0:
        a, b = np.unravel_index(int(score.argmax()), score.shape)
        found |= {_with(e, int(b)) for e in of[a]}
        score[a], score[:, b] = -1, -1
    return found
