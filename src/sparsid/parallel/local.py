"""Work in other processes, one core each.

Two fits in threads of one process contend inside the numerical runtime; in processes of
their own, restricted to one core, they do not. A worker is a fresh interpreter that is
told what to do through its standard input, so nothing is asked of the caller's script.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, NamedTuple

from sparsid.parallel.cache import keep_compiled_programs
from sparsid.parallel.fingerprint import loaded_engine

# Read by jaxlib and by the linear algebra libraries when they are loaded.
ONE_CORE = {"NPROC": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
# glibc's names for what to set: largest number of mapped blocks, what may stay free at
# the top of the heap before it is given back, what is added when it grows, and how many
# heaps there are: those of threads cannot hold large blocks, and map them after all.
_MMAP_MAX, _TRIM_THRESHOLD, _TOP_PAD, _ARENA_MAX = -4, -1, -2, -8
# What a worker runs, and where it finds it.
_SERVE = "from sparsid.parallel.local import serve; serve()"
_PACKAGES = str(Path(__file__).parents[2])
# Seconds between two looks of a worker at whether its caller is still there.
LOOK_EVERY = 1.0

# A call and what comes of it travel pickled: whoever passes them on need not know them.
Tell = Callable[[bytes], bool]


def cores() -> int:
    """Return the cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def settle_on_one_core() -> None:
    """Restrict this process to one core, before the numerical libraries are loaded."""
    os.environ.update(ONE_CORE)
    keep_compiled_programs()
    keep_freed_memory()


def keep_freed_memory() -> None:
    """Have the C library keep what is freed, for a process of ours alone.

    It would return large blocks to the system, and every evaluation would begin with
    page faults, which take a third of its time.
    """
    if sys.platform == "linux" and hasattr(ctypes.CDLL(None), "mallopt"):
        library = ctypes.CDLL(None)
        library.mallopt(_MMAP_MAX, 0)
        library.mallopt(_TRIM_THRESHOLD, 2**31 - 1)
        library.mallopt(_TOP_PAD, 2**28)
        library.mallopt(_ARENA_MAX, 1)


class OtherEngineError(Exception):
    """A process with other code than that of the caller; its fingerprint."""


class FalseStartError(ChildProcessError):
    """A process that ended before it was ready."""


class Engine(NamedTuple):
    """What a process has to be before it gets work.

    Attributes
    ----------
    fingerprint
        Of its code and libraries, None: no matter.
    modules
        To be imported before, so that no code is read later.
    """

    fingerprint: str | None = None
    modules: tuple[str, ...] = ()


class Worker:
    """A process that does one call at a time; ended with the block."""

    def __init__(self) -> None:
        # -P: a file named like a library in the caller's folder is no library.
        code = f"import sys; sys.path.append({_PACKAGES!r}); {_SERVE}"
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **ONE_CORE},
            # Out of reach of Ctrl-C in the terminal: the caller decides.
            start_new_session=True,
        )
        self.busy = False

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *reason: Any) -> None:
        self.end()

    def end(self) -> None:
        """End the process, whatever it is doing."""
        self.process.kill()
        self.process.communicate()

    def call(
        self,
        function: Callable[..., Any],
        *args: Any,
        progress: Callable[[Any], bool],
    ) -> Any:
        """Return ``function(*args, progress=progress)`` computed there.

        Parameters
        ----------
        function
            One that can be imported; it and all that goes in and out are pickled.
        progress
            Called here whenever the function calls its own ``progress`` there.
        """
        order = pickle.dumps((function, args))
        return opened(*self.answer(order, lambda value: progress(pickle.loads(value))))

    def answer(self, order: bytes, tell: Tell) -> tuple[str, bytes]:
        """Return how a pickled call ended, "done" or "error", and with what."""
        self.busy = True
        kind, value = self._ask(order)
        while kind == "progress":
            kind, value = self._ask(tell(value))
        self.busy = False
        return kind, value

    def _ask(self, message: Any) -> tuple[str, bytes]:
        """Send something and return the answer."""
        try:
            _send(self._stream("stdin"), message)
            kind, value = pickle.load(self._stream("stdout"))
        except (EOFError, BrokenPipeError, pickle.UnpicklingError) as error:
            self.end()
            raise ChildProcessError(
                "a worker process ended in the middle of its work (exit code "
                f"{self.process.returncode}): if memory ran out, use fewer workers or "
                "a narrower network"
            ) from error
        return kind, value

    def _stream(self, name: str) -> IO[bytes]:
        stream: IO[bytes] = getattr(self.process, name)
        return stream


def opened(kind: str, value: bytes) -> Any:
    """Return what a call returned, or raise what it raised."""
    result = pickle.loads(value)
    if kind == "error":
        raise result
    return result


class Team:
    """Worker processes for calls of several threads; one that is idle is used again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Since when, and what it was found to be.
        self._idle: list[tuple[float, Engine, Worker]] = []
        self._busy: list[tuple[str, Worker]] = []
        self._closed = False

    def answer(
        self, order: bytes, tell: Tell, *, engine: Engine, owner: str = ""
    ) -> tuple[str, bytes]:
        """Return how a pickled call ended in one of the processes, and with what.

        Parameters
        ----------
        engine
            What the process has to be.
        owner
            For whom the call is, see ``kill``.
        """
        worker, new = self._take(engine, owner)
        try:
            if new and engine.fingerprint is not None:
                self._meet(worker, engine)
            return worker.answer(order, tell)
        finally:
            self._give_back(worker, engine, owner)

    def kill(self, owner: str = "") -> None:
        """Kill the processes at work for somebody; their calls end with an error."""
        with self._lock:
            for name, worker in self._busy:
                if name == owner:
                    worker.process.kill()

    def dismiss(self, seconds: float = 0.0) -> None:
        """End the processes that have been idle for so long."""
        limit = time.monotonic() - seconds
        with self._lock:
            ended = [worker for since, _, worker in self._idle if since <= limit]
            self._idle = [entry for entry in self._idle if entry[0] > limit]
        for worker in ended:
            worker.end()

    def close(self) -> None:
        """Kill every process, and start no other."""
        with self._lock:
            self._closed = True
            for _, worker in self._busy:
                worker.process.kill()
        self.dismiss()

    @property
    def closed(self) -> bool:
        """Whether there is no more work."""
        return self._closed

    @property
    def workers(self) -> list[Worker]:
        """The processes, busy or idle."""
        with self._lock:
            busy = [worker for _, worker in self._busy]
            return busy + [worker for _, _, worker in self._idle]

    def _take(self, engine: Engine, owner: str) -> tuple[Worker, bool]:
        """Return a process for a call, and whether it is a new one."""
        with self._lock:
            if self._closed:
                raise ChildProcessError("the work was given up")
            fitting = [entry for entry in self._idle if entry[1] == engine]
            others = [entry for entry in self._idle if entry[1] != engine]
            new = not fitting
            worker = Worker() if new else fitting.pop()[-1]
            self._idle = fitting
            self._busy.append((owner, worker))
        for _, _, other in others:
            other.end()
        return worker, new

    def _meet(self, worker: Worker, engine: Engine) -> None:
        """Refuse a process that runs other code."""
        try:
            there = worker.call(loaded_engine, engine.modules, progress=lambda _: False)
            if there != engine.fingerprint:
                raise OtherEngineError(there)
        except ChildProcessError as error:
            raise FalseStartError(
                "a worker process ended before it was ready (exit code "
                f"{worker.process.returncode})"
            ) from error
        except Exception:
            # Not to be taken for one that was checked.
            worker.end()
            raise

    def _give_back(self, worker: Worker, engine: Engine, owner: str) -> None:
        with self._lock:
            self._busy.remove((owner, worker))
            usable = worker.process.returncode is None and not worker.busy
            keep = usable and not self._closed
            if keep:
                self._idle.append((time.monotonic(), engine, worker))
        if not keep:
            worker.end()


def _send(stream: IO[bytes], message: Any) -> None:
    pickle.dump(message, stream)
    stream.flush()


def serve() -> None:
    """Do the calls that come in, until the caller is gone."""
    try:
        _serve()
    except (BrokenPipeError, EOFError):
        # Nobody waits for an answer.
        os._exit(1)


def _serve() -> None:
    orders, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    # What libraries print must not mix with the answers.
    os.dup2(2, 1)
    settle_on_one_core()
    threading.Thread(target=_leave_with, args=(os.getppid(),), daemon=True).start()

    def progress(value: Any) -> bool:
        _send(answers, ("progress", pickle.dumps(value)))
        return bool(pickle.load(orders))

    while True:
        try:
            order = pickle.load(orders)
        except EOFError:
            return
        try:
            function, args = pickle.loads(order)
            answer = ("done", pickle.dumps(function(*args, progress=progress)))
        except Exception as error:  # raised again where the caller waits
            answer = ("error", pickle.dumps(_portable(error)))
        _send(answers, answer)


def _leave_with(parent: int) -> None:
    """End this process soon after its caller, even in the middle of its work."""
    while os.getppid() == parent:
        time.sleep(LOOK_EVERY)
    os._exit(1)


def _portable(error: Exception) -> Exception:
    """Return an error that another process can raise, with where it came from."""
    text = "in a worker process:\n" + traceback.format_exc()
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # whatever an error is made of, its text goes through
        error = RuntimeError(f"{type(error).__name__}: {error}")
    error.add_note(text)
    return error
