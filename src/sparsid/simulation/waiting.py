"""How long a search takes in all: cycles that are planned, at the pace so far."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

from sparsid.models.canonical import Sizes

# What a cycle does whatever its size, in parameters.
OVERHEAD = 15
# Seconds of cycles before a pace is believed.
SETTLED = 1.0
# How much longer it may take than it looks: bands and predictions come at the end.
RESERVE = 1.1
# How much more work a cycle of a variant is than one of what it varies.
VARIANT_SIZE = 2.0
# Share of its attempts that pruning usually needs, and cycles of each.
PRUNING_SHARE, PRUNING_CYCLES = 0.6, 18


def cycle_work(sizes: Sizes, parameters: int, samples: int) -> float:
    """Return the multiplications of one cycle, about.

    Those of the sensitivities and of their normal matrix.
    """
    count = parameters + OVERHEAD
    return float(samples * (sizes.states**2 * count + sizes.outputs * count**2))


class Waiting:
    """Work that was done, is under way and will come, and the seconds that it takes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._done = self._stage_done = self._stage = self._later = 0.0
        self._began: float | None = None

    def plan(self, work: float, later: float) -> None:
        """Take in what begins now, and what may follow it."""
        with self._lock:
            self._stage, self._later, self._stage_done = work, later, 0.0
            self._began = self._began or time.perf_counter()

    def cycle(self, work: float) -> None:
        """Count a cycle; several threads do."""
        with self._lock:
            self._done += work
            self._stage_done += work

    def seconds(self) -> float | None:
        """Return the seconds still to come; None as long as there is no telling."""
        if self._began is None:
            return None
        spent = time.perf_counter() - self._began
        if spent < SETTLED or self._done <= 0.0:
            return None
        left = max(self._stage - self._stage_done, 0.0) + self._later
        return RESERVE * left * spent / self._done


def race_work(
    rounds: Sequence[Any],
    sizes: Sequence[float],
    costly: Sequence[bool],
    first: int = 0,
) -> list[float]:
    """Return the work on each fold of the rounds from one on, if most may stay.

    Parameters
    ----------
    rounds
        As `search.Round`.
    sizes, costly
        Of each candidate the work of a cycle, and whether few members are begun.
    """
    found = []
    # Those that stay are of any size: the middle ones stand for them.
    left = sorted(zip(sizes, costly, strict=True))
    for k in range(first, len(rounds)):
        plan, work = rounds[k], 0.0
        for size, dear in left:
            begun, age = 0, plan.first
            if k:
                before = rounds[k - 1]
                begun, age = before.fewer if dear else before.starts, before.cycles
            fresh = max((plan.fewer if dear else plan.starts) - begun, 0)
            work += size * fresh * plan.first
            work += size * plan.kept * max(plan.cycles - age, 0)
        found.append(work)
        spare = max(len(left) - plan.most, 0) // 2
        left = left[spare : spare + plan.most]
    return found
