"""How weights of the canonical form share prior variances: four kinds, by evidence.

==========  ==================  ==================================================
kind        variance of m_ij    one number for
==========  ==================  ==================================================
shape       v_ij                every weight
column      c_j                 what a source does: a neuron, a state, an input
row         r_i                 what a target gets: a state, an output, a neuron
row+column  r_i c_j             both, variances multiply
==========  ==================  ==================================================

Neurons give to states and outputs alike, so the columns of E and G go together; they
get from states and inputs alike, and so do the rows of F and H. Members are begun with
columns. Under which kind they go on is chosen by what their cost becomes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsid.models.canonical import Structure
from sparsid.simulation.evidence import Prior
from sparsid.simulation.member import Member

Whole = NDArray[np.int64]

KINDS = ("column", "shape", "row", "row+column")
# What each block belongs to, by targets and by sources.
ROW_OF = {"E": "x", "G": "y", "F": "n", "H": "n"}
# Cycles under each kind before costs are compared; a gain has to be larger than this.
CYCLES, GAIN = 12, 2.0


def row_groups(structure: Structure, learnt: NDArray[np.bool_]) -> Whole:
    """Return groups of what each target gets, for parameters whose variance is learnt.

    Parameters
    ----------
    learnt
        For every parameter of the structure, those of poles included.
    """
    found = np.full(structure.parameters, -1, dtype=np.int64)
    numbers: dict[tuple[str, int], int] = {}
    for k, (matrix, i, _) in enumerate(structure.free):
        p = structure.leading + k
        if learnt[p]:
            # A and B of a cascade have a target each of their own.
            key = (ROW_OF.get(matrix, matrix), i)
            found[p] = numbers.setdefault(key, len(numbers))
    return found


def regrouped(structure: Structure, prior: Prior, kind: str) -> Prior:
    """Return a prior of another kind; what was grouped by columns is learnt in it."""
    p, behind = structure.parameters, len(prior.groups) - structure.parameters
    learnt = prior.groups[:p] >= 0
    rows = np.append(row_groups(structure, learnt), np.full(behind, -1))
    if kind == "column":
        return Prior(prior.mean, prior.variance, prior.groups)
    if kind == "row+column":
        return Prior(prior.mean, prior.variance, prior.groups, rows)
    if kind == "row":
        return Prior(prior.mean, _levelled(prior.variance, rows), rows)
    alone = np.where(prior.groups >= 0, np.arange(len(prior.groups)), -1)
    # Groups are counted, so their numbers have no holes.
    used = np.flatnonzero(alone >= 0)
    alone[used] = np.arange(len(used))
    return Prior(prior.mean, prior.variance, alone)


def _levelled(variance: NDArray[np.float64], groups: Whole) -> NDArray[np.float64]:
    """Return variances that are one number in each group, their geometric mean."""
    found = variance.copy()
    for group in np.unique(groups[groups >= 0]):
        own = groups == group
        found[own] = np.exp(np.log(variance[own]).mean())
    return found


def under(member: Member, kind: str) -> Member:
    """Return a member that goes on from here with a prior of another kind."""
    prior = regrouped(member.structure, member.prior, kind)
    fresh = Member(
        member.structure,
        member.runs,
        member.theta,
        member.starts,
        prior,
        member.noise,
    )
    fresh.age = member.age
    return fresh


def costs_of(
    members: Sequence[Member],
    go_on: Callable[[Member, int], Member],
    each: Callable[[Callable[[Any], float], list[Any]], list[float]],
) -> dict[str, float]:
    """Return the cost of members after some cycles under each kind, summed over them.

    Parameters
    ----------
    go_on
        Advances a member by so many cycles.
    each
        Does a piece of work for every item of a list.
    """
    jobs = [(kind, member) for kind in KINDS for member in members]

    def one(job: tuple[str, Member]) -> float:
        kind, member = job
        return go_on(under(member, kind), CYCLES).rest().cost

    found = each(one, jobs)
    count = len(members)
    return {
        kind: float(sum(found[k * count : (k + 1) * count]))
        for k, kind in enumerate(KINDS)
    }


def preferred(costs: dict[str, float]) -> str:
    """Return the kind of least cost; columns, unless another is better by a margin."""
    best = min(costs, key=lambda kind: costs[kind])
    return best if costs[best] < costs["column"] - GAIN else "column"
