"""Pools: who does calls that need not be done here.

One interface, two homes of the work: processes of this computer, or the workers of a
Dask cluster (:mod:`sparsid.parallel.dask`). A call is a function that can be imported
and arguments that can be pickled. What it returns does not depend on who does it.
"""

from __future__ import annotations

import pickle
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, Self

from sparsid.errors import InputError
from sparsid.parallel.local import (
    Engine,
    FalseStartError,
    OtherEngineError,
    Team,
    cores,
    opened,
)

# A call whose process died so often is answered with that.
MOST_TRIES = 3
# Seconds after which the pool is looked after if nothing happens.
WAKE_EVERY = 1.0

# Called with the number of a task and what its call reports; True asks all to stop.
TaskCallback = Callable[[int, Any], "bool | None"]


class Event(NamedTuple):
    """What the pool says of a task: progress, pickled, or the future that ended."""

    task: int
    progress: bytes | None = None
    ended: Any = None


def open_pool(
    scheduler: str | None = None, size: int | None = None, engine: Engine | None = None
) -> Pool:
    """Return a pool, to be used in a ``with`` block.

    Parameters
    ----------
    scheduler
        Address of a Dask scheduler, as in ``"tcp://host:8786"``; None: processes of
        this computer.
    size
        Most calls at once; None: one for every core, here or of the cluster.
    engine
        What the processes have to be; None: here anything, on a cluster the engine of
        this process.
    """
    if scheduler is None:
        return LocalPool(size or cores(), engine or Engine())
    from sparsid.parallel.dask import Cluster

    return Cluster(scheduler, size, engine)


class Pool(ABC):
    """Takes tasks as it has hands for them and answers them as they end."""

    def __enter__(self) -> Self:
        return self

    @abstractmethod
    def __exit__(self, *reason: Any) -> None:
        """Give up what is under way."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Calls at once, at present."""

    def run(
        self,
        function: Callable[..., Any],
        tasks: Iterable[tuple[Any, ...]],
        *,
        progress: TaskCallback | None = None,
    ) -> Iterator[tuple[int, Any]]:
        """Yield the number of each task and ``function(*task, progress=...)``.

        In the order in which they end, each once. A task whose process died every time
        is answered with the ``ChildProcessError``; what else goes wrong is raised. An
        exception or the end of the ``with`` block gives up what is under way.

        Parameters
        ----------
        tasks
            Taken one by one, when somebody is free.
        progress
            Gets what the function reports there, one at a time, maybe in another
            thread; not every one of many in a second may come through. After True,
            every call under way is told to stop.
        """
        events: SimpleQueue[Event] = SimpleQueue()
        numbered = enumerate(tasks)
        under_way, more = 0, True
        self._open(events, progress)
        while True:
            while more and under_way < max(self.size, 1):
                number, task = next(numbered, (0, None))
                if task is None:
                    more = False
                else:
                    self._begin(number, pickle.dumps((function, task)))
                    under_way += 1
            if not under_way:
                return
            try:
                event = events.get(timeout=WAKE_EVERY)
            except Empty:
                self._look_after()
                continue
            if event.progress is not None:
                if progress and progress(event.task, pickle.loads(event.progress)):
                    self._stop()
                continue
            under_way -= 1
            try:
                answer = opened(*self._outcome(event.ended))
            except FalseStartError:
                raise
            except ChildProcessError as error:
                answer = error
            yield event.task, answer

    # -- what pools differ in ------------------------------------------------------

    @abstractmethod
    def _open(self, events: SimpleQueue[Event], progress: TaskCallback | None) -> None:
        """Begin a run: from now on this is where to say what happens."""

    @abstractmethod
    def _begin(self, number: int, order: bytes) -> None:
        """Have somebody do a pickled call."""

    @abstractmethod
    def _outcome(self, ended: Any) -> tuple[str, bytes]:
        """Return how a call ended, or raise why it did not."""

    @abstractmethod
    def _stop(self) -> None:
        """Tell all calls under way to stop."""

    @abstractmethod
    def _look_after(self) -> None:
        """See to what needs it from time to time."""


class LocalPool(Pool):
    """Processes of this computer, one core each, started as there is work.

    Parameters
    ----------
    size
        Processes at once.
    """

    def __init__(self, size: int, engine: Engine) -> None:
        self.team, self.engine = Team(), engine
        self._size = size
        self._lanes = ThreadPoolExecutor(size)
        self._lock = threading.Lock()
        self._stopped = False

    def __exit__(self, *reason: Any) -> None:
        self.team.close()
        self._lanes.shutdown(cancel_futures=True)

    @property
    def size(self) -> int:
        """Processes at once."""
        return self._size

    def _open(self, events: SimpleQueue[Event], progress: TaskCallback | None) -> None:
        self._events, self._progress, self._stopped = events, progress, False

    def _begin(self, number: int, order: bytes) -> None:
        events = self._events

        def ended(future: Future[tuple[str, bytes]]) -> None:
            events.put(Event(number, ended=future))

        self._lanes.submit(self._do, number, order).add_done_callback(ended)

    def _do(self, number: int, order: bytes) -> tuple[str, bytes]:
        """Have a process do a call, and another one if it dies."""

        def tell(value: bytes) -> bool:
            with self._lock:
                if self._progress is not None:
                    asked = self._progress(number, pickle.loads(value))
                    self._stopped = self._stopped or bool(asked)
                return self._stopped

        for _ in range(MOST_TRIES - 1):
            try:
                return self.team.answer(order, tell, engine=self.engine)
            except ChildProcessError:
                if self.team.closed:
                    raise
        return self.team.answer(order, tell, engine=self.engine)

    def _stop(self) -> None:
        self._stopped = True

    def _look_after(self) -> None:
        """Nothing: a process that died is noticed by its lane."""

    def _outcome(self, ended: Future[tuple[str, bytes]]) -> tuple[str, bytes]:
        try:
            return ended.result()
        except OtherEngineError as error:
            raise InputError(
                "the code of sparsid changed while the work was under way: what was "
                "answered is kept; the same command now begins anew"
            ) from error
