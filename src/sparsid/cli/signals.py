"""Ctrl-C, and SIGTERM, with which batch systems end jobs: one and the same."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)

# Seconds after which one that was lost comes again.
AGAIN_AFTER = 0.1

# Whether one came: an import may swallow what is raised in the middle of it.
_came = False


def listen() -> None:
    """End the command at Ctrl-C and SIGTERM, in good order."""
    for number in SIGNALS:
        signal.signal(number, _end)
    sys.unraisablehook = repeating(sys.unraisablehook)


def repeating(hook: Callable[[Any], Any]) -> Callable[[Any], None]:
    """Return a hook for errors that nobody can catch: a Ctrl-C among them comes again.

    It was raised where Python can only ignore it, as in a callback of a library.
    """

    def heard(error: Any) -> None:
        if not issubclass(error.exc_type, KeyboardInterrupt):
            hook(error)
            return
        again = threading.Timer(AGAIN_AFTER, os.kill, (os.getpid(), signal.SIGINT))
        again.daemon = True
        again.start()

    return heard


def _end(number: int, frame: FrameType | None) -> None:
    global _came
    _came = True
    raise KeyboardInterrupt


class Interrupt:
    """The first Ctrl-C is a request that `asked` remembers, the second one raises.

    Within `at_once` the first one raises, too.
    """

    def __init__(self) -> None:
        self.asked = False
        self._raises = False
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread():
            self._previous = {s: signal.signal(s, self._handle) for s in SIGNALS}
            if _came:
                raise KeyboardInterrupt
        return self

    def _handle(self, number: int, frame: FrameType | None) -> None:
        again, self.asked = self.asked, True
        if again or self._raises:
            raise KeyboardInterrupt

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Raise at the first Ctrl-C, for as long as the block lasts."""
        self._raises = True
        try:
            yield
        finally:
            self._raises = False

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
