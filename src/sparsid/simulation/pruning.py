"""Removals that the evidence checks: what the data do not support is taken away.

Near a fitted member the parameters are Gaussian, N(w, C), with the prior N(m, V).
Taking a group g away changes -2 log evidence by

    w_g' C_gg^-1 w_g + log|C_gg| - log|V_gg| - m_g' V_gg^-1 m_g,

the ratio of both densities at zero (Savage and Dickey). Groups whose removal lowers it
are taken away one after the other. That is how they are found only: they fade while the
member takes steps, because zero may be far, and stay away if the cost of the whole
member fell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsid.models.canonical import Structure
from sparsid.simulation.evidence import Prior
from sparsid.simulation.member import Member

Values = NDArray[np.float64]
Whole = NDArray[np.int64]
Chosen = NDArray[np.bool_]

# Share of the entries that may go at once; attempts at most.
SHARE, ATTEMPTS = 0.3, 12
# Cycles in which entries fade, the variance of their prior falling by this factor each
# time, and cycles without them.
FADING, FACTOR, CYCLES = 10, 0.2, 8


@dataclass(frozen=True, eq=False)
class Gaussian:
    """Where the parameters are, how sure that is, and what was expected of them."""

    w: Values
    covariance: Values
    prior: Prior

    def changes(self, groups: list[Whole]) -> Values:
        """Return by how much -2 log evidence grows without each group."""
        found = np.full(len(groups), np.inf)
        for k, own in enumerate(groups):
            C, v = self.covariance[np.ix_(own, own)], self.prior.variance[own]
            sign, volume = np.linalg.slogdet(C)
            if sign > 0:
                w, m = self.w[own], self.prior.mean[own]
                found[k] = w @ np.linalg.solve(C, w) + volume
                found[k] -= np.log(v).sum() + (m**2 / v).sum()
        return found

    def without(self, own: Whole) -> Gaussian:
        """Return what is left if parameters are zero."""
        C = self.covariance
        along = np.linalg.solve(C[np.ix_(own, own)], C[own])
        w, covariance = self.w - along.T @ self.w[own], C - C[own].T @ along
        w[own] = 0.0
        return Gaussian(w, covariance, self.prior)


def pruned(
    member: Member,
    go_on: Callable[[Member, int], Member],
    attempts: int = ATTEMPTS,
    allowed: Callable[[Member, Member], bool] | None = None,
    slack: Sequence[float] = (0.0,),
    check: Callable[[], None] = lambda: None,
) -> Member:
    """Return a member without what the evidence does not support.

    Parameters
    ----------
    go_on
        Advances a member by so many cycles.
    attempts
        How often removals are tried.
    allowed
        Whether a member with less in it may take the place of one; by default, whether
        its cost is lower.
    slack
        By how much -2 log evidence may seem to grow by a removal that is tried: one
        number after the other, as soon as nothing is left to try below it.
    check
        Raises where it is time to end.
    """
    better = _cheaper if allowed is None else allowed
    steps = iter(slack)
    most_lost = next(steps)
    # Which parameter of the first member each one is, and groups that have to stay.
    names = np.arange(member.structure.parameters)
    firm: set[frozenset[int]] = set()
    share = SHARE
    for _ in range(attempts):
        most = max(int(share * len(member.structure.free)), 1)
        found = _removals(member, names, firm, most, most_lost, check)
        if not found:
            wider = next(steps, None)
            if wider is None:
                break
            most_lost = wider
            continue
        gone = np.zeros(len(member.w), dtype=bool)
        gone[np.concatenate(found)] = True
        fresh = _faded(member, gone, go_on)
        if better(fresh, member):
            stay = member.structure.reduced(~gone[: len(names)]).parameters
            member, names = fresh, names[stay]
        elif len(found) == 1:
            firm.add(frozenset(names[found[0]]))
        else:
            share = min(share, len(np.concatenate(found)) / len(names)) / 3.0
    return member


def _cheaper(fresh: Member, member: Member) -> bool:
    """Return whether the cost fell."""
    return fresh.cost < member.cost


def _removals(
    member: Member,
    names: Whole,
    firm: set[frozenset[int]],
    most: int,
    lost: float,
    check: Callable[[], None],
) -> list[Whole]:
    """Return groups that go, about ``most`` parameters, worst first."""
    at = Gaussian(member.w, member.at.covariance(member.prior), member.prior)
    gone = np.zeros(len(member.w), dtype=bool)
    found: list[Whole] = []
    for groups in groupings(member.structure):
        groups = [own for own in groups if frozenset(names[own]) not in firm]
        while gone.sum() < most:
            check()
            left = [own for own in groups if not gone[own].any()]
            changes = at.changes(left)
            if not len(changes) or not changes.min() < lost:
                break
            own = left[int(np.argmin(changes))]
            at = at.without(own)
            gone[own] = True
            found.append(own)
    return found


def _faded(
    member: Member, gone: Chosen, go_on: Callable[[Member, int], Member]
) -> Member:
    """Return a member whose entries were pulled to zero step by step, then left out."""
    old, prior = member.structure, member.prior
    groups, mean = prior.groups.copy(), prior.mean.copy()
    groups[gone], mean[gone] = -1, 0.0
    across = prior.across
    if across is not None:
        across = np.where(gone, -1, across)
    variance = np.minimum(prior.variance, 4.0 * member.w**2 + 1e-8)
    fading = Member(old, member.runs, member.theta, member.starts, prior, member.noise)
    fading.age = member.age
    for k in range(1, FADING + 1):
        now = np.where(gone, variance * FACTOR**k, fading.prior.variance)
        fading.expect(Prior(mean, now, groups, across))
        fading = go_on(fading, 1)
    return go_on(without(fading, gone), CYCLES)


def groupings(structure: Structure) -> Iterator[list[Whole]]:
    """Return groups of parameters: what neurons do, what states, inputs and paths do.

    In turn neurons; states, by the blocks of their poles; inputs; whole blocks of the
    form: what inputs do to outputs, to neurons and to states, what neurons do to
    outputs; single parameters; what each source does in each block.
    """
    sizes = structure.sizes
    pole_of = {p.state + k: b for b, p in enumerate(structure.poles) for k in (0, 1)}
    pole_of |= {p.state: b for b, p in enumerate(structure.poles)}
    by: dict[str, dict[Any, list[int]]] = {
        kind: {} for kind in ("neuron", "state", "input", "block", "single", "path")
    }
    for k, (matrix, _, j) in enumerate(structure.free):
        p = structure.leading + k
        source = matrix in "BDH" and j < sizes.inputs
        belongs = {
            "neuron": matrix in "EG" and j,
            "state": matrix in "ACF" and pole_of[j],
            "input": source and j,
            "block": (source or matrix == "G") and matrix,
            "single": matrix != "A" and p,
            "path": matrix in "FHD" and (matrix, j),
        }
        for kind, key in belongs.items():
            if key is not False:
                by[kind].setdefault(key, []).append(p)
    for kind, found in by.items():
        sets = [np.array(own) for own in found.values()]
        if kind in ("block", "path"):
            sets = [own for own in sets if len(own) > 1]
        yield sets


def without(member: Member, gone: Chosen) -> Member:
    """Return a member whose structure lacks parameters."""
    old, w = member.structure, member.w
    structure, stay, states = old.reduced(~gone[: old.parameters])
    keep = np.concatenate([stay, np.tile(states, len(member.runs))])
    fresh = Member(
        structure,
        member.runs,
        w[: old.parameters][stay],
        member.starts[:, states],
        member.prior.take(keep),
        member.noise,
    )
    fresh.age = member.age
    return fresh
