"""Many random starts of one identification, spread over the cores."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import jax

from sparsid.history import Progress, Report
from sparsid.identification import Found, identify
from sparsid.models.network import Network
from sparsid.objectives import Regression
from sparsid.processes import Worker, cores
from sparsid.settings import Settings

log = logging.getLogger(__name__)


def identify_many(
    network: Network,
    data: Regression,
    settings: Settings,
    *,
    seed: int,
    starts: int,
    workers: int | None = None,
    report: Report | None = None,
) -> list[Found]:
    """Return the results of all starts, in the order of their seeds.

    One start runs here. Several run in worker processes of one core each, however many
    there are of these: start ``k`` depends on ``(seed, k)`` alone, not on how many run
    at once. When the caller stops, starts that have not begun are left out; one whose
    process died is lost, with a warning.
    """
    if starts == 1:
        return [identify_start(network, data, settings, seed, 0, report=report)]
    many = _Many((network, data, settings, seed), starts, report)
    return many.run(min(starts, workers or cores()))


class _Many:
    """Several starts, taken one after the other by the worker that is free."""

    def __init__(
        self, args: tuple[Any, ...], starts: int, report: Report | None
    ) -> None:
        self.args, self.starts, self.report = args, starts, report
        self.left = iter(range(starts))
        self.found: dict[int, Found] = {}
        self.crew: list[Worker] = []
        self.deaths: list[ChildProcessError] = []
        self.stopped, self.lock = threading.Event(), threading.Lock()

    def run(self, workers: int) -> list[Found]:
        """Return what all starts found, with so many workers at once."""
        with ThreadPoolExecutor(workers) as pool:
            lanes = [pool.submit(self._lane) for _ in range(workers)]
            try:
                for lane in lanes:
                    lane.result()
            except BaseException:  # an interrupt too: end the others, then pass it on
                self.stopped.set()
                for worker in self.crew:
                    worker.process.kill()
                raise
        if self.deaths:
            if not self.found:
                raise self.deaths[0]
            lost = self.starts - len(self.found)
            why = self.deaths[0]
            log.warning("%d of %d starts were lost: %s", lost, self.starts, why)
        return [self.found[start] for start in sorted(self.found)]

    def _lane(self) -> None:
        """Have one worker do start after start."""
        try:
            with Worker() as worker:
                self.crew.append(worker)
                while (start := self._next()) is not None:
                    args = (*self.args, start)
                    found = worker.call(identify_start, *args, report=self._told)
                    self.found[start] = found
        except ChildProcessError as error:
            # The others go on, and do what it has left.
            self.deaths.append(error)
        except BaseException:
            self.stopped.set()
            raise

    def _next(self) -> int | None:
        with self.lock:
            start = next(self.left, None)
        # The first is run even then: there has to be a result.
        return None if self.stopped.is_set() and start else start

    def _told(self, progress: Progress) -> bool:
        with self.lock:
            progress = replace(progress, starts=self.starts)
            if self.report is not None and self.report(progress):
                self.stopped.set()
        return self.stopped.is_set()


def identify_start(
    network: Network,
    data: Regression,
    settings: Settings,
    seed: int,
    start: int,
    *,
    report: Report | None = None,
) -> Found:
    """Return the result of one start, in this process."""

    def told(progress: Progress) -> bool | None:
        return None if report is None else report(replace(progress, start=start))

    # The switch to 64 bit is per thread.
    with jax.enable_x64(True):
        key = jax.random.fold_in(jax.random.key(seed), start)
        return identify(network, data, settings, key=key, report=told)
