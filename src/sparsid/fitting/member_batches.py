"""Members apart: fits of many members in groups, each in a process of its own.

Members know nothing of each other but when to end: a fit ends with the first cycle
after which the cost of every member has settled. So every group runs until its own
members have settled, those that were early go on to the cycle of the latest, and so on
until they agree on a cycle. It is the one in which a single batch would have ended: the
groups change nothing but the order in which numbers are added up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import jax

from sparsid.parallel.pool import Pool
from sparsid.progress import Progress, ProgressCallback
from sparsid.results.outcome import Outcome


class Fit(Protocol):
    """A fit of some members that can be sent elsewhere, and go on there."""

    progress: ProgressCallback | None

    @property
    def cycles(self) -> int:
        """Cycles so far."""

    def run(self, least: int = 0) -> Outcome:
        """Cycle until all members have settled, after so many cycles at the least."""

    def found(self) -> list[Any]:
        """Return the members that came to something."""


F = TypeVar("F", bound=Fit)


def split(count: int, groups: int) -> list[range]:
    """Return the numbers of so many members in groups of almost equal size."""
    groups = max(1, min(groups, count))
    borders = [count * k // groups for k in range(groups + 1)]
    return [range(a, b) for a, b in pairwise(borders)]


class Apart(NamedTuple, Generic[F]):
    """A fit after its parts have run: these, how they ended, what they found.

    ``failure`` says why a part could not be computed: a fit without it would be
    another one.
    """

    parts: list[F]
    outcome: Outcome
    found: list[Any]
    failure: ChildProcessError | None


def run_apart(
    fits: Sequence[Sequence[F]], pool: Pool, progress: ProgressCallback | None
) -> list[Apart[F]]:
    """Return the fits, each in parts that the pool ran to the cycle where all end.

    When all are asked to stop, parts that are under way end, and others do not begin.
    """
    # The first parts of all fits come first: whoever takes one compiles its programs,
    # and likely goes on with the next part of the same fit.
    deepest = max(map(len, fits))
    places = [(f, k) for k in range(deepest) for f in range(len(fits))]
    places = [(f, k) for f, k in places if k < len(fits[f])]
    parts = {(f, k): fits[f][k] for f, k in places}
    outcomes = dict.fromkeys(places, Outcome.STOPPED)
    found: dict[tuple[int, int], list[Any]] = {place: [] for place in places}
    failures: dict[int, ChildProcessError] = {}
    behind, least, stopped = places, [0] * len(fits), False

    def told(task: int, step: Progress) -> bool:
        nonlocal stopped
        number = places.index(behind[task])
        step = replace(step, start=number, starts=len(places), part="group")
        stopped = stopped or (progress is not None and bool(progress(step)))
        return stopped

    def tasks() -> Iterator[tuple[F, int]]:
        for place in behind:
            if stopped:
                return
            yield parts[place], least[place[0]]

    while behind and not stopped:
        for task, answer in pool.run(advance, tasks(), progress=told):
            place = behind[task]
            if isinstance(answer, ChildProcessError):
                failures[place[0]] = answer
            else:
                parts[place], outcomes[place], found[place] = answer
        for f, k in places:
            least[f] = max(least[f], parts[f, k].cycles)
        behind = [
            (f, k)
            for f, k in places
            if f not in failures and parts[f, k].cycles < least[f]
        ]
    run = []
    for f, fit in enumerate(fits):
        own = [(f, k) for k in range(len(fit))]
        even = all(parts[place].cycles == least[f] for place in own)
        outcome = _joint([outcomes[place] for place in own]) if even else None
        together = [member for place in own for member in found[place]]
        run.append(
            Apart(
                [parts[place] for place in own],
                outcome or Outcome.STOPPED,
                together,
                failures.get(f),
            )
        )
    return run


def _joint(outcomes: Sequence[Outcome]) -> Outcome:
    """Return how a fit ended whose parts ended so."""
    if Outcome.STOPPED in outcomes:
        return Outcome.STOPPED
    settled = all(outcome is Outcome.CONVERGED for outcome in outcomes)
    return Outcome.CONVERGED if settled else Outcome.CYCLES


# -- where the pool works ------------------------------------------------------------


def advance(
    fit: F, least: int, *, progress: ProgressCallback
) -> tuple[F, Outcome, list[Any]]:
    """Return a part after some more cycles, how these ended, and its members."""
    fit.progress = progress
    with jax.enable_x64(True):
        outcome = fit.run(least)
        return fit, outcome, fit.found()
