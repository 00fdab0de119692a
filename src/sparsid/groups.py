"""Members apart: one fit of many members in groups, each on a computer of its own.

Members know nothing of each other but when to end: a fit ends with the first cycle
after which the cost of every member has settled. So every group runs until its own
members have settled, those that were early go on to the cycle of the latest, and so on
until they agree on a cycle. It is the one in which a single batch would have ended: the
groups change nothing but the order in which numbers are added up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Protocol, TypeVar

import jax

from sparsid.crews import Crew
from sparsid.history import Progress, Report
from sparsid.outcomes import Outcome


class Fit(Protocol):
    """A fit of some members that can be sent elsewhere, and go on there."""

    report: Report | None

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


def run_apart(
    parts: Sequence[F], crew: Crew, report: Report | None
) -> tuple[list[F], Outcome]:
    """Return the parts of a fit, each run by the crew to the cycle where all end.

    A part that was stopped may be behind the others.
    """
    fits, stopped = list(parts), False
    outcomes: list[Outcome | None] = [None] * len(fits)
    behind, least = list(range(len(fits))), 0

    def told(task: int, progress: Progress) -> bool:
        nonlocal stopped
        progress = replace(progress, start=behind[task], starts=len(fits))
        stopped = stopped or (report is not None and bool(report(progress)))
        return stopped

    while behind and not stopped:
        tasks = [(fits[k], least) for k in behind]
        for task, answer in crew.run(advance, tasks, report=told):
            fits[behind[task]], outcomes[behind[task]] = _alive(answer)
        least = max(fit.cycles for fit in fits)
        behind = [k for k, fit in enumerate(fits) if fit.cycles < least]
    if stopped or Outcome.STOPPED in outcomes:
        return fits, Outcome.STOPPED
    settled = all(outcome is Outcome.CONVERGED for outcome in outcomes)
    return fits, Outcome.CONVERGED if settled else Outcome.CYCLES


def find_apart(parts: Sequence[Fit], crew: Crew) -> list[Any]:
    """Return the members of all parts, in their order."""
    found: dict[int, list[Any]] = {}
    for k, answer in crew.run(members_of, [(part,) for part in parts]):
        found[k] = _alive(answer)
    return [member for k in sorted(found) for member in found[k]]


def _alive(answer: Any) -> Any:
    """Return the answer of a group; an ensemble without it would be another one."""
    if isinstance(answer, ChildProcessError):
        raise answer
    return answer


# -- where the crew works ------------------------------------------------------------


def advance(fit: F, least: int, *, report: Report) -> tuple[F, Outcome]:
    """Return a part after some more cycles, and how these ended."""
    fit.report = report
    with jax.enable_x64(True):
        return fit, fit.run(least)


def members_of(fit: Fit, *, report: Report) -> list[Any]:
    """Return the members of a part that came to something."""
    with jax.enable_x64(True):
        return fit.found()
