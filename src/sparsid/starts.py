"""Many random starts of one identification, spread over the cores.

Starts run in threads and share every compilation. On two cores this is no faster than
one after the other yet (`benchmarks/starts.py`): they contend inside the runtime.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import jax

from sparsid.history import Progress, Report
from sparsid.identification import Found, identify
from sparsid.models.network import Network
from sparsid.objectives import Regression
from sparsid.settings import Settings


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

    Start ``k`` depends on ``(seed, k)`` alone, not on how many run at once. When the
    caller stops, starts that have not begun are left out.
    """
    stopped = threading.Event()
    lock = threading.Lock()

    def watch(start: int) -> Callable[[Progress], bool]:
        def told(progress: Progress) -> bool:
            with lock:
                progress = replace(progress, start=start, starts=starts)
                if report is not None and report(progress):
                    stopped.set()
            return stopped.is_set()

        return told

    def run(start: int) -> Found | None:
        if stopped.is_set() and start > 0:
            return None
        try:
            # The switch to 64 bit is per thread.
            with jax.enable_x64(True):
                key = jax.random.fold_in(jax.random.key(seed), start)
                return identify(network, data, settings, key=key, report=watch(start))
        except BaseException:
            stopped.set()
            raise

    threads = min(starts, workers or os.cpu_count() or 1)
    if threads == 1:
        found = [run(k) for k in range(starts)]
    else:
        with ThreadPoolExecutor(threads) as pool:
            try:
                found = list(pool.map(run, range(starts)))
            except BaseException:  # an interrupt too: end the others, then pass it on
                stopped.set()
                raise
    return [f for f in found if f is not None]
