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
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from sparsid.caching import keep_compiled_programs

# Read by jaxlib and by the linear algebra libraries when they are loaded.
ONE_CORE = {"NPROC": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
# glibc's names for what to set: largest number of mapped blocks, what may stay free at
# the top of the heap before it is given back, and what is added when it grows.
_MMAP_MAX, _TRIM_THRESHOLD, _TOP_PAD = -4, -1, -2
# What a worker runs, and where it finds it.
_SERVE = "from sparsid.processes import serve; serve()"
_PACKAGES = str(Path(__file__).parents[1])


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
        report: Callable[[Any], bool],
    ) -> Any:
        """Return ``function(*args, report=report)`` computed there.

        Parameters
        ----------
        function
            One that can be imported; it and all that goes in and out are pickled.
        report
            Called here whenever the function calls its own ``report`` there.
        """
        kind, value = self._ask((function, args))
        while kind == "report":
            kind, value = self._ask(report(value))
        if kind == "error":
            raise value
        return value

    def _ask(self, message: Any) -> tuple[str, Any]:
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

    def report(value: Any) -> bool:
        _send(answers, ("report", value))
        return bool(pickle.load(orders))

    while True:
        try:
            function, args = pickle.load(orders)
        except EOFError:
            return
        try:
            answer = ("done", function(*args, report=report))
        except Exception as error:  # raised again where the caller waits
            answer = ("error", _portable(error))
        _send(answers, answer)


def _portable(error: Exception) -> Exception:
    """Return an error that another process can raise, with where it came from."""
    text = "in a worker process:\n" + traceback.format_exc()
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # whatever an error is made of, its text goes through
        error = RuntimeError(f"{type(error).__name__}: {error}")
    error.add_note(text)
    return error
