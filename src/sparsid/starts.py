"""Many random starts of one identification, spread over the cores."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

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
    stopped = threading.Event()
    lock = threading.Lock()
    left = iter(range(starts))
    found: dict[int, Found] = {}
    crew: list[Worker] = []
    deaths: list[ChildProcessError] = []

    def next_start() -> int | None:
        with lock:
            start = next(left, None)
        # The first is run even then: there has to be a result.
        return None if stopped.is_set() and start else start

    def run_some() -> None:
        """Have one worker do start after start."""

        def told(progress: Progress) -> bool:
            with lock:
                if report is not None and report(replace(progress, starts=starts)):
                    stopped.set()
            return stopped.is_set()

        try:
            with Worker() as worker:
                crew.append(worker)
                while (start := next_start()) is not None:
                    args = (network, data, settings, seed, start)
                    found[start] = worker.call(identify_start, *args, report=told)
        except ChildProcessError as error:
            # The others go on, and do what it has left.
            deaths.append(error)
        except BaseException:
            stopped.set()
            raise

    count = min(starts, workers or cores())
    with ThreadPoolExecutor(count) as pool:
        lanes = [pool.submit(run_some) for _ in range(count)]
        try:
            for lane in lanes:
                lane.result()
        except BaseException:  # an interrupt too: end the others, then pass it on
            stopped.set()
            for worker in crew:
                worker.process.kill()
            raise
    if deaths:
        if not found:
            raise deaths[0]
        log.warning(
            "%d of %d starts were lost: %s", starts - len(found), starts, deaths[0]
        )
    return [found[start] for start in sorted(found)]


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
