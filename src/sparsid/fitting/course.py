"""The course of a fit: what is kept and told of its cycles, and when it ends.

Every fit is a loop of the same kind. A cycle moves weights, variances and noise;
`Course.record` keeps its figures, tells the caller and stops if asked; `Course.run`
goes on until the cost no longer falls. What a cycle does is the fit's own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparsid.progress import Progress, ProgressCallback
from sparsid.results.outcome import Outcome

Values = NDArray[np.float64]

# Bounds of the damping of all steps.
SMALLEST_DAMPING, LARGEST_DAMPING = 1e-8, 1e12


class Stopped(Exception):  # noqa: N818
    """The caller asked for an end."""


class Look(NamedTuple):
    """What decides after a cycle whether to go on.

    Attributes
    ----------
    cost
        That of the fit, or those of all members.
    tolerance
        The fall of a cost in a cycle that no longer counts.
    measure
        What the cost is counted by: costs of different measures are not compared.
    end
        How the fit has ended already; None: it has not.
    """

    cost: ArrayLike
    tolerance: float
    measure: Hashable = None
    end: Outcome | None = None


class Window:
    """The costs over whose last cycles a fall is judged.

    Parameters
    ----------
    cycles
        Cycles that are judged together.
    """

    def __init__(self, cycles: int) -> None:
        self.cycles = cycles
        self.costs: list[Values] = []
        self.measure: Hashable = None
        self.tolerance = 0.0

    def add(self, look: Look) -> None:
        """Take in the cost after a cycle, or before the first."""
        if look.measure != self.measure:
            self.costs = []
        self.measure, self.tolerance = look.measure, look.tolerance
        self.costs.append(np.atleast_1d(np.asarray(look.cost, dtype=float)))

    @property
    def settled(self) -> bool:
        """Whether no cost falls by more than the tolerance any longer.

        A member without a finite cost goes nowhere, and does not count.
        """
        if len(self.costs) <= self.cycles:
            return False
        finite = np.isfinite(self.costs[-1])
        fall = (self.costs[-1 - self.cycles] - self.costs[-1])[finite]
        return bool((fall < self.cycles * self.tolerance).all())


class Course:
    """The cycles of a fit. Can be pickled between two runs, to go on elsewhere.

    Parameters
    ----------
    progress
        Called after every cycle; if it returns True the fit ends there.
    spent
        Seconds that went before.

    Attributes
    ----------
    history
        Figures of every cycle, by name. ``cost`` never rises while ``structure`` and
        ``rows`` stay as they are: each removal, folding or change of the rows in use
        begins another structure.
    """

    def __init__(
        self,
        max_cycles: int,
        progress: ProgressCallback | None = None,
        spent: float = 0.0,
    ) -> None:
        self.max_cycles, self.progress = max_cycles, progress
        self.history: dict[str, list[float]] = {}
        self._spent, self._began = spent, time.perf_counter()

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "progress": None, "_spent": self.seconds}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _began=time.perf_counter())

    @property
    def cycles(self) -> int:
        """Cycles so far."""
        return len(self.history.get("cost", ()))

    @property
    def seconds(self) -> float:
        """Seconds so far."""
        return self._spent + time.perf_counter() - self._began

    def record(self, phase: str, figures: dict[str, float], noise: Values) -> None:
        """Keep the figures of a cycle and tell the caller; raise if asked to stop.

        Parameters
        ----------
        figures
            By name, ``cost``, ``kept`` and ``seconds`` among them.
        noise
            Variance for each scaled output.
        """
        self.keep(figures)
        if self.progress is None:
            return
        step = Progress(
            phase,
            self.cycles,
            self.max_cycles,
            figures["cost"],
            noise,
            figures["kept"],
            figures["seconds"],
        )
        if self.progress(step):
            raise Stopped

    def keep(self, figures: dict[str, float]) -> None:
        """Keep the figures of a cycle."""
        for name, value in figures.items():
            self.history.setdefault(name, []).append(value)

    def run(
        self,
        cycle: Callable[[], None],
        look: Callable[[], Look],
        window: Window,
        *,
        limit: int | None = None,
        least: int = 0,
    ) -> Outcome:
        """Cycle until the cost settles; return how that ended.

        Parameters
        ----------
        cycle
            Does a cycle and records it.
        look
            Tells where the fit is.
        window
            Costs so far, empty to begin with.
        limit
            Last cycle; None: that of the course.
        least
            Cycle before which no cost counts as settled.
        """
        limit = self.max_cycles if limit is None else limit
        here = look()
        if not window.costs:
            window.add(here)
        while here.end is None and self.cycles < limit:
            cycle()
            here = look()
            window.add(here)
            if here.end is None and self.cycles >= least and window.settled:
                return Outcome.CONVERGED
        return here.end or Outcome.CYCLES

    def arrays(self) -> dict[str, Values]:
        """Return the history as arrays."""
        return {name: np.array(values) for name, values in self.history.items()}


def eased(damping: Any, gain: Any, larger: Callable[[Any, Any], Any]) -> Any:
    """Return the damping after a step that was taken, by Nielsen's rule.

    ``mu <- mu max(1/3, 1 - (2 g - 1)^3)`` for the ratio ``g``, at most 1, of the fall
    of the cost to the fall that was promised. After a step that was refused the damping
    is multiplied with a factor that doubles each time.

    Parameters
    ----------
    larger
        The maximum of two numbers, or of arrays of one number for each member.
    """
    return damping * larger(1.0 / 3.0, 1.0 - (2.0 * gain - 1.0) ** 3)
