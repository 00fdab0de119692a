"""Work off trials in processes, one core each, keeping every answer as it comes."""

from __future__ import annotations

import multiprocessing
import signal
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

from sparsid.errors import InputError
from sparsid.processes import settle_on_one_core
from sparsid.studies.store import Result, Spec, Store, canonical, engine_fingerprint

Answer = tuple[Spec, Result, float]

# Trials handed to a process at once; each is answered as it ends.
BATCH = 4
# A trial whose process died so often is answered with an error.
MOST_TRIES = 3
# Processes in a row that may die before they are ready: more is no accident.
MOST_FALSE_STARTS = 3
# Seconds for a dying process to end by itself.
GRACE = 5.0


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
        for key in _likes(spec):
            if key in self._sums:
                total, count = self._sums[key]
                return total / count
        return None


def _likes(spec: Spec) -> list[tuple[Any, ...]]:
    """Return descriptions of a spec, the closest first."""
    kind, method, ratio = (spec.get(k) for k in ("kind", "method", "ratio"))
    return [
        (kind, method, ratio, spec.get("prior")),
        ("any", method, ratio),
        (method,),
        (),
    ]


class Crew:
    """Processes for trials: started when there is work, ended with the block.

    Parameters
    ----------
    size
        Processes at once.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.team: list[_Worker] = []

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, *reason: Any) -> None:
        for worker in self.team:
            worker.end()


def run_trials(
    store: Store,
    specs: list[Spec],
    crew: Crew,
    *,
    watch: Watch | None = None,
    later: list[Spec] | None = None,
) -> Standing:
    """Run what the store has no answer to yet; return how it ended.

    KeyboardInterrupt ends the run at once: answered trials are in the store, those
    under way are lost, and the same call continues.

    Parameters
    ----------
    watch
        Called with a ``Standing`` at the start and after every answer.
    later
        Trials of another call after this one, for the time left.
    """
    run = _Run(store, specs, crew, watch, later or [])
    run.work()
    return run.standing()


class _Run:
    """The list of trials, the processes that work it off, and what they answered."""

    def __init__(
        self,
        store: Store,
        specs: list[Spec],
        crew: Crew,
        watch: Watch | None,
        later: list[Spec],
    ) -> None:
        self.store, self.watch, self.later = store, watch, later
        self.todo = deque(store.missing(specs))
        self.total = len(specs)
        self.size, self.team = crew.size, crew.team
        self.unanswered = len(self.todo)
        self.failed = self.false_starts = 0
        self.tries: Counter[str] = Counter()
        self.pace = Pace(store.rows())

    def work(self) -> None:
        self._tell()
        for worker in self.team:
            self._check_engine(worker)
            worker.give(self._next_batch())
        while len(self.team) < min(self.size, self.unanswered):
            self.team.append(_Worker())
        while self.unanswered:
            ready = wait([worker.pipe for worker in self.team])
            for k, worker in enumerate(self.team):
                if worker.pipe in ready:
                    self._listen(k, worker)

    def standing(self) -> Standing:
        left: float | None = 0.0
        under_way = [spec for worker in self.team for spec in worker.task]
        waiting = [*self.todo, *under_way, *self.later]
        for spec in waiting:
            seconds = self.pace.seconds(spec)
            left = None if seconds is None or left is None else left + seconds
        done = self.total - self.unanswered
        if left is not None:
            left /= self.size
        return Standing(done, self.total, self.failed, left)

    def _tell(self) -> None:
        if self.watch:
            self.watch(self.standing())

    def _listen(self, k: int, worker: _Worker) -> None:
        """Take in what a process says; replace one that died."""
        try:
            message = worker.pipe.recv()
        except (EOFError, OSError):
            self._bury(worker)
            self.team[k] = _Worker()
            return
        if worker.engine is None:
            worker.engine, self.false_starts = message, 0
            self._check_engine(worker)
        else:
            worker.task.popleft()
            self._keep(*message)
        if not worker.task:
            worker.give(self._next_batch())

    def _keep(self, spec: Spec, result: Result, seconds: float) -> None:
        self.store.add(spec, result, seconds)
        self.pace.add(spec, seconds)
        self.unanswered -= 1
        self.failed += "error" in result
        self._tell()

    def _next_batch(self) -> list[Spec]:
        # Small ones at the end, so that no process waits for another for long.
        size = min(BATCH, max(1, len(self.todo) // (4 * self.size)))
        return [self.todo.popleft() for _ in range(min(size, len(self.todo)))]

    def _check_engine(self, worker: _Worker) -> None:
        if worker.engine not in (None, self.store.study.engine):
            raise InputError(
                "the code of sparsid changed while the study ran: answered trials are "
                "kept; the same command now begins another study"
            )

    def _bury(self, worker: _Worker) -> None:
        """Put the trials of a process that died back on the list."""
        # Its pipe closes a moment before it ends and has an exit code.
        worker.process.join(GRACE)
        code = worker.end()
        if worker.engine is None:
            self.false_starts += 1
            if self.false_starts > MOST_FALSE_STARTS:
                raise ChildProcessError(
                    f"{self.false_starts} worker processes in a row ended before they "
                    f"were ready (exit code {code}): answered trials are kept"
                )
            return
        spec = worker.task.popleft()
        self.todo.extendleft(reversed(worker.task))
        worker.task.clear()
        key = canonical(spec)
        self.tries[key] += 1
        if self.tries[key] < MOST_TRIES:
            self.todo.append(spec)
            return
        text = f"the process died {MOST_TRIES} times (exit code {code}): out of memory?"
        self._keep(spec, {"error": text, "died": True}, 0.0)


class _Worker:
    """A process that answers trials, and what it has to do."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs,), daemon=True)
        with _ctrl_c_held_back():
            self.process.start()
        theirs.close()
        # What it runs, known when it is ready.
        self.engine: str | None = None
        self.task: deque[Spec] = deque()

    def give(self, batch: list[Spec]) -> None:
        self.task = deque(batch)
        if batch:
            try:
                self.pipe.send(batch)
            except OSError:
                # It died in between; the next wait finds its pipe closed.
                return

    def end(self) -> int | None:
        """Stop the process; return its exit code."""
        self.process.terminate()
        self.process.join()
        self.pipe.close()
        return self.process.exitcode


@contextmanager
def _ctrl_c_held_back() -> Iterator[None]:
    """Start a process deaf to Ctrl-C: the terminal sends it to the whole group.

    It would print a traceback for each process; the caller alone decides.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# -- in the other process ------------------------------------------------------------


def _serve(pipe: Connection) -> None:
    """Say which engine this is, then answer batches until the caller is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    settle_on_one_core()
    # Loads the numerical libraries: one core must be settled before.
    from sparsid.studies import trials

    trials.load_libraries()
    try:
        pipe.send(engine_fingerprint())
        while True:
            for answer in run_batch(pipe.recv()):
                pipe.send(answer)
    except (EOFError, OSError):
        return


def run_batch(specs: list[Spec]) -> Iterator[Answer]:
    """Yield the answers to a few trials; one that fails is answered with its error.

    All that goes in and out are plain values: this may run on any machine that has the
    package and the data.
    """
    from sparsid.studies import trials

    for spec in specs:
        began = time.perf_counter()
        try:
            result = trials.run(spec)
        except Exception as error:  # the study goes on and reports it
            result = {"error": f"{type(error).__name__}: {error}"}
        yield spec, result, time.perf_counter() - began
