"""Cases in children of their own: forked, limited in memory and time, looked at.

The libraries are imported once, before the first fork; a case then costs what it does.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

# Bytes that a case may take beyond what this process has.
MEMORY = 2 << 30
# Seconds after which a case counts as hanging.
PATIENCE = 120.0
# Seconds between two looks at a child.
LOOK_EVERY = 0.01
# What a child ends with after an exception that nobody expected.
UNEXPECTED = 70


@dataclass(frozen=True)
class Ended:
    """How a case ended.

    Attributes
    ----------
    code
        None after a hang; negative: the signal that ended it.
    """

    code: int | None
    out: str
    err: str
    seconds: float


@dataclass
class Found:
    """What is wrong with a case, by kind; empty if nothing is."""

    name: str
    wrong: dict[str, str] = field(default_factory=dict)
    # What happened, for the table: refused, read, stopped, ...
    ended: str = ""
    seconds: float = 0.0

    def blame(self, kind: str, why: str) -> None:
        """Note what is wrong."""
        self.wrong.setdefault(kind, why)


def forked(
    work: Callable[[], Any],
    room: Path,
    *,
    memory: int = MEMORY,
    patience: float = PATIENCE,
    meanwhile: Callable[[int, float], bool] | None = None,
) -> Ended:
    """Return how a call ended in a child of this process.

    Parameters
    ----------
    room
        Empty folder: what the child prints goes there.
    meanwhile
        Called with the child's number and the seconds since; False: no more.
    """
    out, err = room / "stdout", room / "stderr"
    out.touch()
    err.touch()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        _be_the_child(work, out, err, memory)
    began = time.monotonic()
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        seconds = time.monotonic() - began
        if done:
            code: int | None = os.waitstatus_to_exitcode(status)
            break
        if seconds > patience:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            code = None
            break
        if meanwhile is not None and not meanwhile(child, seconds):
            meanwhile = None
        time.sleep(LOOK_EVERY)
    texts = [p.read_text(errors="replace") for p in (out, err)]
    return Ended(code, texts[0], texts[1], seconds)


def _be_the_child(work: Callable[[], Any], out: Path, err: Path, memory: int) -> None:
    code: Any = UNEXPECTED
    try:
        os.setsid()
        for number, path in ((1, out), (2, err)):
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(file, number)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        limit = _address_space() + memory
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        code = work()
        code = 0 if code is None else code
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _address_space() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return pages * resource.getpagesize()


def command(arguments: list[str], folder: Path) -> Callable[[], int]:
    """Return a call of the command ``sparsid`` in a folder."""

    def run() -> int:
        from sparsid.cli.app import main

        os.chdir(folder)
        sys.argv = ["sparsid", *arguments]
        main()
        return 0

    return run


def judged(found: Found, ended: Ended, codes: Iterable[int]) -> None:
    """Blame a case for what no command may do."""
    found.seconds = ended.seconds
    last = (ended.err.strip().splitlines() or [""])[-1][:300]
    if ended.code is None:
        found.blame("hang", f"no end after {ended.seconds:.0f} s: {last}")
    elif ended.code < 0:
        found.blame("crash", f"{signal.Signals(-ended.code).name}: {last}")
    elif "Traceback (most recent call last)" in ended.err:
        found.blame("traceback", last)
    elif ended.code not in codes:
        found.blame("exit code", f"{ended.code}: {last}")


# -- many cases ----------------------------------------------------------------------


def lanes(cases: Callable[[int], Found], count: int, workers: int) -> Iterator[Found]:
    """Yield what was found of all cases, done by so many processes side by side.

    Parameters
    ----------
    cases
        Does the case of a number.
    """
    import json

    pipes = []
    for lane in range(workers):
        read, write = os.pipe()
        sys.stdout.flush()
        if os.fork() == 0:
            os.close(read)
            with os.fdopen(write, "w") as told:
                for k in range(lane, count, workers):
                    try:
                        found = cases(k)
                    except Exception:  # of the harness itself: told like the others
                        found = Found(f"case {k}", {"harness": traceback.format_exc()})
                    told.write(json.dumps(asdict(found)) + "\n")
                    told.flush()
            os._exit(0)
        os.close(write)
        pipes.append(os.fdopen(read))
    for pipe in _merged(pipes):
        yield Found(**json.loads(pipe))
    for _ in pipes:
        os.wait()


def _merged(pipes: list[Any]) -> Iterator[str]:
    import selectors

    chosen = selectors.DefaultSelector()
    for pipe in pipes:
        chosen.register(pipe, selectors.EVENT_READ)
    while chosen.get_map():
        for key, _ in chosen.select():
            line = key.fileobj.readline()  # type: ignore[union-attr]
            if line:
                yield line
            else:
                chosen.unregister(key.fileobj)


@dataclass
class Tally:
    """What an attack came to."""

    name: str
    cases: int = 0
    ends: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    slowest: float = 0.0
    examples: list[tuple[str, str, str]] = field(default_factory=list)

    def add(self, found: Found) -> None:
        """Count a case."""
        self.cases += 1
        self.ends[found.ended] += 1
        self.slowest = max(self.slowest, found.seconds)
        for kind, why in found.wrong.items():
            self.wrong[kind] += 1
            self.examples.append((found.name, kind, why))
