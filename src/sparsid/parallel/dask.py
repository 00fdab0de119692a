"""Calls on a Dask cluster: any number of computers, which may come and go.

Each call is a task of Dask. The Dask worker that gets it hands it on to a process of
ours beside it, restricted to one core: the same process as on a single computer, with
the same answers, whatever threads and memory limit the Dask worker has. That process
can be killed when nobody waits for its answer any more, and its end is not the end of
the Dask worker.

This module is imported by Dask workers, so it must not load the numerical libraries.
"""

from __future__ import annotations

import logging
import pickle
import platform
import re
import threading
import time
import uuid
from contextlib import suppress
from functools import cache
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from sparsid.errors import InputError
from sparsid.parallel.fingerprint import engine_fingerprint
from sparsid.parallel.local import Engine, FalseStartError, OtherEngineError, Team
from sparsid.parallel.pool import MOST_TRIES, Event, Pool, TaskCallback

if TYPE_CHECKING:
    from distributed import Client, Future

log = logging.getLogger(__name__)

# Seconds to wait for the scheduler before it counts as not there.
CONNECT_SECONDS = 5.0
# Seconds between two reports of a call: there may be hundreds of calls.
TELL_EVERY = 0.5
# Seconds after which a process beside a Dask worker is ended if it has nothing to do,
# and between two looks at them. The next fit of the same caller would use it again.
IDLE_SECONDS, LOOK_EVERY = 60.0, 10.0
# Where reports are told. One for all, as the scheduler keeps the latest of each.
TOPIC = "sparsid-reports"
# What processes for fits import before they are asked which engine they are.
FIT_MODULES = ("sparsid.automatic",)
_ADDRESS = re.compile(r"[a-z]+://.+:\d+")


class Cluster(Pool):
    """The workers of an existing Dask cluster, those that join later too.

    Parameters
    ----------
    address
        Of the scheduler, as in ``"tcp://host:8786"``.
    most
        Calls at once; None: one for every thread of the workers.
    engine
        What the processes there have to be; None: as this one.
    """

    def __init__(
        self, address: str, most: int | None = None, engine: Engine | None = None
    ) -> None:
        if not isinstance(address, str) or not _ADDRESS.fullmatch(address):
            raise InputError(
                f"scheduler={address!r} is no address of a Dask scheduler: give it as "
                "the scheduler prints it, as in 'tcp://host:8786'"
            )
        self.address, self.most = address, most
        self.engine = engine or Engine(engine_fingerprint(), FIT_MODULES)
        self._stopping = self._alone = False
        self._run = ""
        self._futures: dict[int, Future] = {}

    def __enter__(self) -> Cluster:
        self._client = _connected(self.address)
        self._client.subscribe_topic(TOPIC, self._heard)
        return self

    def __exit__(self, *reason: Any) -> None:
        # The scheduler may be gone, which is why we leave.
        with suppress(OSError, TimeoutError):
            if self._futures:
                self._client.cancel(list(self._futures.values()))
                self._everywhere(_kill, self._run)
        with suppress(OSError, TimeoutError):
            self._client.close(timeout=CONNECT_SECONDS)

    @property
    def size(self) -> int:
        """Threads of the workers at present, or the most calls at once."""
        try:
            threads = int(sum(self._client.nthreads().values()))
        except (OSError, TimeoutError) as error:
            raise self._gone() from error
        if not threads and not self._alone:
            log.warning("no worker is at %s yet: waiting for one", self.address)
        self._alone = not threads
        return threads if self.most is None else min(threads, self.most)

    # -- a run ---------------------------------------------------------------------

    def _open(self, events: SimpleQueue[Event], progress: TaskCallback | None) -> None:
        self._events, self._stopping = events, False
        self._run = f"sparsid-{uuid.uuid4().hex}"

    def _begin(self, number: int, order: bytes) -> None:
        future = self._client.submit(
            answer,
            order,
            self._run,
            number,
            tuple(self.engine),
            key=f"{self._run}-{number}",
            pure=False,
            # Of calls whose process died. How often the Dask worker may die with a
            # task is a setting of the scheduler (three times, as it comes).
            retries=MOST_TRIES - 1,
        )
        self._futures[number] = future
        events = self._events
        future.add_done_callback(lambda ended: events.put(Event(number, ended=ended)))

    def _outcome(self, ended: Future) -> tuple[str, bytes]:
        from distributed import KilledWorker

        self._futures = {k: f for k, f in self._futures.items() if f.key != ended.key}
        if ended.status in ("cancelled", "lost"):
            raise self._gone()
        try:
            kind, value = ended.result()
        except KilledWorker as error:
            raise ChildProcessError(
                f"the Dask workers that had it died, the last was {error.last_worker}: "
                "if memory ran out, give them more or have fewer on a computer"
            ) from error
        except (ModuleNotFoundError, RuntimeError) as error:
            # Dask cannot read a task: it names a function of ours.
            why = str(error).partition("\n")[0]
            raise InputError(
                f"the scheduler or a worker at {self.address} cannot read the task "
                f"({why}): install the same version of sparsid there, with the extra "
                "dask"
            ) from error
        return kind, value

    def _heard(self, event: tuple[float, Any]) -> None:
        run, number, progress = event[1]
        if run == self._run:
            self._events.put(Event(number, progress=progress))

    def _stop(self) -> None:
        self._stopping = True
        self._everywhere(_stop, self._run)

    def _look_after(self) -> None:
        if self._stopping:
            # A worker that joined since has not heard of it.
            self._stop()
        if self._client.status not in ("running", "connecting"):
            raise self._gone()

    def _everywhere(self, function: Any, *args: Any) -> None:
        """Call a small function in all Dask workers; one that just died is no error."""
        self._client.run(function, *args, on_error="ignore")

    def _gone(self) -> ConnectionError:
        return ConnectionError(
            f"the Dask scheduler at {self.address} is gone, or gave up the work: what "
            "was answered is kept; start it again and repeat the command"
        )


def _connected(address: str) -> Client:
    try:
        from distributed import Client
    except ImportError as error:
        raise InputError(
            f"scheduler={address!r} needs Dask, which is not installed: pip install "
            "'sparsid[dask]'"
        ) from error
    try:
        return Client(
            address, timeout=CONNECT_SECONDS, set_as_default=False, name="sparsid"
        )
    except (OSError, TimeoutError, ValueError) as error:
        raise InputError(
            f"no Dask scheduler answers at {address} within {CONNECT_SECONDS:g} s: "
            "check the address, start one with 'dask scheduler', or leave scheduler "
            "out to work on this computer"
        ) from error


# -- in the Dask workers -------------------------------------------------------------

_team = Team()
_stopped: set[str] = set()


def answer(
    order: bytes, run: str, number: int, engine: tuple[Any, ...]
) -> tuple[str, bytes]:
    """Return how a pickled call ended, and with what; runs in a thread of Dask."""
    from distributed import get_worker

    here, told_at = get_worker(), float("-inf")

    def tell(progress: bytes) -> bool:
        nonlocal told_at
        if time.monotonic() - told_at > TELL_EVERY:
            told_at = time.monotonic()
            here.log_event(TOPIC, (run, number, progress))
        return run in _stopped

    _start_housekeeping()
    place = f"the Dask worker {here.address} on {platform.node()}"
    wanted = Engine(*engine)
    try:
        return _team.answer(order, tell, engine=wanted, owner=run)
    except OtherEngineError as error:
        return "error", pickle.dumps(
            InputError(
                f"{place} has another engine ({error}) than the caller "
                f"({wanted.fingerprint}): install the same versions of sparsid, jax, "
                "jaxlib, numpy and scipy there"
            )
        )
    except FalseStartError as error:
        raise FalseStartError(f"{place}: {error}") from error


def _stop(run: str) -> None:
    _stopped.add(run)


def _kill(run: str) -> None:
    _team.kill(run)


@cache
def _start_housekeeping() -> None:
    """See to it that no process stays for long without work."""

    def look() -> None:
        while True:
            time.sleep(LOOK_EVERY)
            _team.dismiss(IDLE_SECONDS)

    threading.Thread(target=look, daemon=True).start()
