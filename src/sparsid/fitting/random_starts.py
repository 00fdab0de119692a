"""Many random starts of one identification, spread over cores or computers."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import jax
from threadpoolctl import threadpool_limits

from sparsid.bayes.objective import Regression
from sparsid.fitting.narx_one_step import Found, fit_one_step
from sparsid.fitting.settings import Settings
from sparsid.models.network import Network
from sparsid.parallel.pool import open_pool
from sparsid.progress import Progress, ProgressCallback

log = logging.getLogger(__name__)


def fit_starts(
    network: Network,
    data: Regression,
    settings: Settings,
    *,
    seed: int,
    starts: int,
    workers: int | None = None,
    scheduler: str | None = None,
    progress: ProgressCallback | None = None,
) -> list[Found]:
    """Return the results of all starts, in the order of their seeds.

    One start runs here. Several run in worker processes of one core each, of this
    computer or of a Dask cluster, however many there are of these: start ``k`` depends
    on ``(seed, k)`` alone, not on where it runs or how many run at once. When the
    caller stops, starts that have not begun are left out; one whose process died again
    and again is lost, with a warning.

    Parameters
    ----------
    workers
        Starts at once; None: one for every core.
    scheduler
        Address of a Dask scheduler; a single start goes there too.
    """
    args = (network, data, settings, seed)
    if starts == 1 and scheduler is None:
        return [fit_start(*args, 0, progress=progress)]
    stopped = False

    def tasks() -> Iterator[tuple[Any, ...]]:
        for start in range(starts):
            # The first is run even then: there has to be a result.
            if stopped and start:
                return
            yield (*args, start)

    def told(start: int, step: Progress) -> bool:
        nonlocal stopped
        step = replace(step, starts=starts)
        if progress is not None and progress(step):
            stopped = True
        return stopped

    found: dict[int, Found] = {}
    deaths: list[ChildProcessError] = []
    with open_pool(scheduler, workers) as pool:
        for start, answer in pool.run(fit_start, tasks(), progress=told):
            if isinstance(answer, ChildProcessError):
                deaths.append(answer)
            else:
                found[start] = answer
    if deaths:
        if not found:
            raise deaths[0]
        log.warning(
            "%d of %d starts were lost: %s", starts - len(found), starts, deaths[0]
        )
    return [found[start] for start in sorted(found)]


def fit_start(
    network: Network,
    data: Regression,
    settings: Settings,
    seed: int,
    start: int,
    *,
    progress: ProgressCallback | None = None,
) -> Found:
    """Return the result of one start, in this process."""

    def told(step: Progress) -> bool | None:
        return None if progress is None else progress(replace(step, start=start))

    # The switch to 64 bit is per thread. Threads of LAPACK's own would go on spinning
    # between two calls, on the cores that the products need.
    with jax.enable_x64(True), threadpool_limits(1, user_api="blas"):
        key = jax.random.fold_in(jax.random.key(seed), start)
        return fit_one_step(network, data, settings, key=key, progress=told)
