"""Work in threads that a listener, or the clock, may end."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from sparsid.simulation.candidates import Bases
from sparsid.simulation.rounds import Trial
from sparsid.simulation.signals import Signals
from sparsid.simulation.waiting import Waiting

Values = NDArray[np.float64]
Job = TypeVar("Job")
Done = TypeVar("Done")

# Seconds between two looks at whether to stop.
LISTEN_EVERY = 0.5


@dataclass(frozen=True, eq=False)
class Stage:
    """What a listener hears: where the search is.

    ``place`` says it in words, ``left`` is how many seconds are still to come in all.
    """

    name: str
    done: int
    total: int
    place: str = ""
    left: float | None = None


Told = Callable[[Stage], bool]


class StoppedError(Exception):
    """The listener, or the clock, ended the search.

    Attributes
    ----------
    done
        What was finished by then, None for jobs that were not.
    """

    done: Sequence[Any] = ()


@dataclass(eq=False)
class Work:
    """What all parts of a search share: the signals, threads, and when to stop.

    Parameters
    ----------
    signals
        What candidates are compared on.
    told
        Hears of progress and may end the search by returning True.
    deadline
        Time of `time.perf_counter` at which no more is tried.
    last_samples
        Samples of all final members together, for the time it takes.
    """

    signals: Signals
    seed: int = 0
    workers: int = 2
    told: Told | None = None
    deadline: float = np.inf
    last_samples: float = 0.0
    notes: list[str] = field(default_factory=list)
    trials: list[Trial] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.bases = Bases(self.signals, self.over)
        # Whether to stop now; whether something was left out because of that.
        self.stopped = self.cut_short = False
        self.waiting = Waiting()
        # Cost of the winner's members under each kind of prior.
        self.prior_costs: dict[str, float] = {}

    def over(self) -> bool:
        """Return whether the listener, or the clock, wants an end."""
        return self.stopped or time.perf_counter() > self.deadline

    def listening(self, name: str, work: Callable[[Job], Done], job: Job) -> Done:
        """Do work that looks at `over` by itself, in a thread."""
        return self._map(name, work, [job], ends=False)[0]

    def _map(
        self,
        name: str,
        work: Callable[[Job], Done],
        jobs: Sequence[Job],
        whose: Sequence[Trial] = (),
        trials: Sequence[Trial] = (),
        ends: bool = True,
    ) -> list[Done]:
        """Do jobs in threads, in order, telling how far they are.

        Parameters
        ----------
        whose, trials
            The candidate of each job, and all candidates of the round.
        ends
            Whether a listener who wants an end gets none of the answers; else the jobs
            are left to bring what they have.
        """
        with threadpool_limits(1), ThreadPoolExecutor(self.workers) as pool:
            futures = [pool.submit(work, job) for job in jobs]
            left: set[Future[Done]] = set(futures)
            try:
                while left:
                    _, left = wait(left, LISTEN_EVERY, FIRST_COMPLETED)
                    count = len(jobs) - len(left)
                    place = _place(whose, trials, count)
                    stage = Stage(name, count, len(jobs), place, self.waiting.seconds())
                    if self.told is not None and self.told(stage):
                        self.stopped = True
                        if ends:
                            raise StoppedError
                done = [future.result() for future in futures]
            except BaseException as error:
                self.stopped = True
                for future in futures:
                    future.cancel()
                if isinstance(error, StoppedError):
                    error.done = [_result(future) for future in futures]
                raise
        return done


def _result(future: Future[Done]) -> Done | None:
    """Return what a job gave before the search was stopped, if anything."""
    if not future.done() or future.cancelled() or future.exception() is not None:
        return None
    return future.result()


def _place(whose: Sequence[Trial], trials: Sequence[Trial], done: int) -> str:
    """Return which candidate is under way, in words."""
    if not whose:
        return ""
    trial = whose[min(done, len(whose) - 1)]
    return f"candidate {list(trials).index(trial) + 1} of {len(trials)}, {trial.name}"
