"""Work off trials in processes, one core each, keeping every answer as it comes."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparsid.studies.store import Result, Spec, Store

# Trials handed to a process at once: few, so that an interruption loses little.
BATCH = 4


@dataclass(frozen=True)
class Standing:
    """How far a run is."""

    done: int
    total: int
    seconds: float
    failed: int

    @property
    def seconds_left(self) -> float | None:
        """Time left at the present pace, None before the first answer."""
        if not self.done:
            return None
        return self.seconds / self.done * (self.total - self.done)


Watch = Callable[[Standing], None]


def run_trials(
    store: Store,
    specs: list[Spec],
    *,
    workers: int,
    watch: Watch | None = None,
    cache: Path | None = None,
) -> Standing:
    """Run what the store has no answer to yet; return how it ended.

    KeyboardInterrupt ends the run at once: answered trials are in the store, those
    under way are lost, and the same call continues.
    """
    todo = store.missing(specs)
    batches = [todo[k : k + BATCH] for k in range(0, len(todo), BATCH)]
    began, done, failed = time.perf_counter(), 0, 0

    def standing() -> Standing:
        return Standing(done, len(todo), time.perf_counter() - began, failed)

    if watch:
        watch(standing())
    if not batches:
        return standing()
    context = multiprocessing.get_context("spawn")
    cores = context.Queue()
    for k in range(workers):
        cores.put(k)
    pool = ProcessPoolExecutor(
        workers, mp_context=context, initializer=_prepare, initargs=(cores, cache)
    )
    try:
        waiting: set[Future[list[tuple[Spec, Result, float]]]] = set()
        queue = iter(batches)
        while True:
            while len(waiting) < 2 * workers and (batch := next(queue, None)):
                waiting.add(pool.submit(_run_batch, batch))
            if not waiting:
                return standing()
            ready, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            for future in ready:
                for spec, result, seconds in future.result():
                    store.add(spec, result, seconds)
                    done += 1
                    failed += "error" in result
            if watch:
                watch(standing())
    finally:
        for process in list((pool._processes or {}).values()):
            process.terminate()
        pool.shutdown(wait=False, cancel_futures=True)


def _prepare(cores: Any, cache: Path | None) -> None:
    """Give a worker one core and the shared cache of compiled programs."""
    core = cores.get()
    if hasattr(os, "sched_setaffinity"):
        available = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {available[core % len(available)]})
    if cache is not None:
        import jax

        jax.config.update("jax_compilation_cache_dir", str(cache))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)


def _run_batch(specs: list[Spec]) -> list[tuple[Spec, Result, float]]:
    """Run a few trials; one that fails is answered with its error."""
    from sparsid.studies.trials import run

    answers = []
    for spec in specs:
        began = time.perf_counter()
        try:
            result = run(spec)
        except Exception as error:  # the study goes on and reports it
            result = {"error": f"{type(error).__name__}: {error}"}
        answers.append((spec, result, time.perf_counter() - began))
    return answers
