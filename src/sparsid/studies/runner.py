"""Work off trials, keeping every answer as it comes."""

from __future__ import annotations

import platform
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sparsid.errors import DatasetUnavailable
from sparsid.parallel.local import Engine
from sparsid.parallel.pool import MOST_TRIES, Pool, open_pool
from sparsid.studies.store import Result, Spec, Store, canonical

# What trials need, imported before a process says which engine it is.
MODULES = ("sparsid.studies.trials", "sparsid.studies.comparators", "sparsid.automatic")


@dataclass(frozen=True)
class Standing:
    """How far a run is.

    Attributes
    ----------
    done, total
        Trials answered, also by earlier runs, and all trials.
    failed
        Those answered with an error in this run.
    seconds_left
        Time left for this run and what comes after it, None if there is no telling.
    """

    done: int
    total: int
    failed: int
    seconds_left: float | None


Watch = Callable[[Standing], None]
# Runs the trials of a part of a study: its name, their specs, and as ``later`` those
# that come after it, as far as they are known.
Run = Callable[..., None]


# Descriptions of a trial, the closest first.
Likes = tuple[tuple[Any, ...], ...]


class Pace:
    """What trials take, from those of the same kind, method and ratio before them."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self._sums: dict[tuple[Any, ...], list[float]] = defaultdict(lambda: [0.0, 0.0])
        for row in rows:
            self.add(row, row["seconds"])

    def add(self, spec: Spec, seconds: float) -> None:
        """Take in the duration of a trial."""
        for key in _likes(spec):
            entry = self._sums[key]
            entry[0] += seconds
            entry[1] += 1.0

    def seconds(self, spec: Spec) -> float | None:
        """Return what a trial will take, None before the first."""
        return self._of(_likes(spec))

    def total(self, counts: Counter[Likes]) -> float | None:
        """Return what so many trials will take, one after the other."""
        parts = [(self._of(likes), count) for likes, count in counts.items() if count]
        total = 0.0
        for seconds, count in parts:
            if seconds is None:
                return None
            total += count * seconds
        return total

    def _of(self, likes: Likes) -> float | None:
        for key in likes:
            if key in self._sums:
                total, count = self._sums[key]
                return total / count
        return None


def _likes(spec: Spec) -> Likes:
    kind, method, ratio = (spec.get(k) for k in ("kind", "method", "ratio"))
    return (
        (kind, method, ratio, spec.get("prior")),
        ("any", method, ratio),
        (method,),
        (),
    )


def pool_for_trials(store: Store, size: int | None, scheduler: str | None) -> Pool:
    """Return a pool whose processes run the engine of the store's study.

    Parameters
    ----------
    size
        Most trials at once; None: one for every core, here or of the cluster.
    scheduler
        Address of a Dask scheduler; None: processes of this computer.
    """
    return open_pool(scheduler, size, Engine(store.study.engine, MODULES))


def run_trials(
    store: Store,
    specs: list[Spec],
    pool: Pool,
    *,
    watch: Watch | None = None,
    later: list[Spec] | None = None,
) -> Standing:
    """Run what the store has no answer to yet; return how it ended.

    KeyboardInterrupt ends the run at once: answered trials are in the store, those
    under way are lost, and the same call continues. A trial whose process or computer
    died is done again by another, and answered with an error if that happens every
    time.

    Parameters
    ----------
    watch
        Called with a ``Standing`` at the start and after every answer.
    later
        Trials of another call after this one, for the time left.
    """
    todo = list({canonical(s): s for s in store.missing(specs)}.values())
    waiting = Counter(_likes(spec) for spec in [*todo, *(later or [])])
    unanswered, failed = len(todo), 0
    pace = Pace(store.rows())

    def standing() -> Standing:
        left = pace.total(waiting)
        if left is not None:
            left /= max(pool.size, 1)
        return Standing(len(specs) - unanswered, len(specs), failed, left)

    def tell() -> None:
        if watch:
            watch(standing())

    tell()
    for k, answer in pool.run(answer_trial, [(spec,) for spec in todo]):
        if isinstance(answer, ChildProcessError):
            text = f"the process died {MOST_TRIES} times: {answer}"
            answer = {"error": text, "died": True}, 0.0
        spec, (result, seconds) = todo[k], answer
        store.add(spec, result, seconds)
        pace.add(spec, seconds)
        waiting[_likes(spec)] -= 1
        unanswered -= 1
        failed += "error" in result
        tell()
    return standing()


def answer_trial(
    spec: Spec, *, progress: Callable[[Any], bool]
) -> tuple[Result, float]:
    """Return the answer to a trial and its seconds; a failure is an answer too.

    All that goes in and out are plain values: this may run on any machine that has the
    package and the data. Without the data there is no answer.
    """
    from sparsid.studies import trials

    began = time.perf_counter()
    try:
        result = trials.run(spec)
    except DatasetUnavailable as error:
        raise DatasetUnavailable(f"On {platform.node()}: {error}") from error
    except Exception as error:  # the study goes on and reports it
        result = {"error": f"{type(error).__name__}: {error}"}
    return result, time.perf_counter() - began
