"""How a running fit is stopped from the terminal; how it is shown, see `watching`."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

from sparsid.estimators.watching import FitProgress as FitProgress
from sparsid.estimators.watching import TimeLeft as TimeLeft


class Interrupt:
    """The first Ctrl-C is a request that `asked` remembers, the second one raises."""

    def __init__(self) -> None:
        self.asked = False
        self._previous: Any = None

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread():
            self._previous = signal.signal(signal.SIGINT, self._handle)
        return self

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._previous is not None:
            signal.signal(signal.SIGINT, self._previous)
