"""A running fit before the eyes of who waits: on a terminal, in a notebook, in a file.

Nothing is shown unless it is asked for.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from sparsid.results.texts import clock, percent

if TYPE_CHECKING:
    from rich.console import Console

    from sparsid.progress import Progress, ProgressCallback

# Cycles that the phases of the guarded algorithm usually take, in order; prune and
# converge vary, so the time left is a rough one.
USUAL_CYCLES = {"warm up": 20, "settle": 20, "prune": 5, "converge": 10}
# The same for the stage that follows for a free run.
USUAL_RUN_CYCLES = {"ease in": 35, "fit run": 35, "prune run": 5}
# Gaps between reports that the pace is judged by, and the share of the longest that
# do not count: they hold compilations.
RECENT_GAPS, LONG_SHARE = 20, 0.2
# Seconds between lines where the output is no terminal.
LINE_EVERY = 10.0
# Seconds between two pictures in a notebook.
DRAW_EVERY = 0.4


class Asked(Protocol):
    """Knows whether an end was asked for."""

    asked: bool


class TimeLeft:
    """How long a fit will take, from its pace and the usual number of cycles."""

    def __init__(self) -> None:
        self._gaps: deque[float] = deque(maxlen=RECENT_GAPS)
        self._last: float | None = None
        self._starts = 0
        self._cycle: dict[int, int] = {}
        self._left: dict[int, float] = {}
        self._phase: dict[int, tuple[str, int]] = {}
        self._recent: list[int] = []

    def update(self, progress: Progress, now: float) -> None:
        """Take in one report.

        Parameters
        ----------
        now
            Time of the report in seconds.
        """
        start = progress.start
        if progress.starts != self._starts or progress.cycle < self._cycle.get(
            start, 0
        ):
            # Another round, with groups of its own.
            self._starts = progress.starts
            self._cycle, self._left, self._phase, self._recent = {}, {}, {}, []
        if self._last is not None:
            # Of calls far away not every cycle is reported.
            cycles = progress.cycle - self._cycle.get(start, 0)
            self._gaps.append((now - self._last) / max(cycles, 1))
        self._last, self._cycle[start] = now, progress.cycle
        phase, began = self._phase.get(start, ("", 0))
        if phase != progress.phase:
            phase, began = progress.phase, progress.cycle - 1
            self._phase[start] = phase, began
        self._left[start] = _cycles_left(progress, progress.cycle - began)
        self._recent = [start, *(k for k in self._recent if k != start)]

    def seconds(self, starts: int) -> float | None:
        """Return the estimate, None as long as there is no telling.

        Starts share the processor, so their cycles add up.
        """
        if len(self._gaps) < 3:
            return None
        gaps = sorted(self._gaps)
        pace = float(np.mean(gaps[: max(1, round(len(gaps) * (1 - LONG_SHARE)))]))
        running = self._recent[: min(starts, os.cpu_count() or 1)]
        cycles = sum(self._left[k] for k in running)
        cycles += (starts - len(self._recent)) * sum(USUAL_CYCLES.values())
        return pace * cycles


def _cycles_left(progress: Progress, done: int) -> float:
    """Return the cycles that one start still needs, given those of its phase."""
    bound = max(progress.max_cycles - progress.cycle, 0)
    tables = (USUAL_CYCLES, USUAL_RUN_CYCLES)
    usual_cycles = next((table for table in tables if progress.phase in table), None)
    if usual_cycles is None:
        return float(bound)
    phases = list(usual_cycles)
    later = phases[phases.index(progress.phase) + 1 :]
    # A phase that outlasts its usual length will likely go on for a quarter more.
    usual = usual_cycles[progress.phase]
    here = usual - done if done <= usual else done / 4.0
    left = here + sum(usual_cycles[phase] for phase in later)
    return min(left, bound) if progress.phase == "converge" else left


class FitProgress:
    """Shows a fit, and ends it when asked to.

    On a terminal one line is kept up to date, in a notebook a bar; elsewhere a line is
    printed now and then.
    """

    def __init__(self, console: Console, interrupt: Asked | None = None) -> None:
        self.console, self.interrupt = console, interrupt
        self._began = self._line_at = time.monotonic()
        self._time_left = TimeLeft()
        self._latest: Progress | None = None
        self._live: Any = None
        self._share = 0.0

    def __enter__(self) -> FitProgress:
        if self.console.quiet:
            return self
        if self.console.is_jupyter:
            self._live = _Bar(self)
        elif self.console.is_terminal:
            from rich.live import Live

            self._live = Live(
                console=self.console, get_renderable=self._line, transient=True
            )
        if self._live is not None:
            self._live.__enter__()
        return self

    def __exit__(self, *reason: Any) -> None:
        if self._live is not None:
            self._live.__exit__(*reason)

    def __call__(self, progress: Progress) -> bool:
        """Take in one report; True asks the fit to end."""
        now = time.monotonic()
        self._time_left.update(progress, now)
        new = self._latest is None or self._latest.phase != progress.phase
        several = progress.starts > 1
        self._latest = progress
        due = now - self._line_at > LINE_EVERY or (new and not several)
        if isinstance(self._live, _Bar):
            self._live.draw()
        elif self._live is None and (due or self._asked):
            self._line_at = now
            self.console.print(self.text(), soft_wrap=True, markup=False)
        return self._asked

    @property
    def _asked(self) -> bool:
        return self.interrupt is not None and self.interrupt.asked

    def _line(self) -> Any:
        from rich.spinner import Spinner
        from rich.text import Text

        if not hasattr(self, "_spinner"):
            self._spinner = Spinner("dots")
        self._spinner.update(text=Text(self.text()))
        return self._spinner

    def _left(self) -> float | None:
        """Return the seconds to come, None if there is no telling."""
        p = self._latest
        if p is None or p.text:
            return None if p is None else p.left
        return self._time_left.seconds(p.starts)

    def share(self) -> float | None:
        """Return the share of the time that is over, None if there is no telling."""
        left, spent = self._left(), time.monotonic() - self._began
        if left is not None:
            # A bar does not go back.
            self._share = max(self._share, spent / max(spent + left, 1e-9))
        return self._share or None

    def text(self) -> str:
        """Return the state of the fit in one line."""
        spent = time.monotonic() - self._began
        if self._latest is None:
            return f"preparing (the first run compiles), {clock(spent)}"
        p = self._latest
        parts = [p.text]
        if not p.text:
            parts = [
                f"{p.phase}, cycle {p.cycle}",
                f"cost {p.cost:.5g}",
                f"noise {percent(float(np.sqrt(np.mean(p.noise))))}",
                f"kept {percent(p.kept)}",
            ]
        if p.starts > 1:
            parts.insert(0, f"{p.part} {p.start + 1} of {p.starts}")
        if self._asked:
            parts += [clock(spent)]
            parts.append("stopping with the best so far (Ctrl-C again: give up)")
            return " · ".join(parts)
        left = self._left()
        if left is None:
            parts.append(clock(spent))
        else:
            parts.append(f"{clock(spent)} of about {clock(spent + left)} in all")
        return " · ".join(parts)


class _Bar:
    """A bar with a line of text below the cell of a notebook."""

    def __init__(self, shown: FitProgress) -> None:
        self._shown, self._at = shown, 0.0
        self._handle: Any = None

    def __enter__(self) -> _Bar:
        from IPython.display import display

        self._handle = display(_Html(self._html()), display_id=True)
        return self

    def __exit__(self, *reason: Any) -> None:
        if self._handle is not None:
            self._handle.update(_Html(""))

    def draw(self) -> None:
        """Show where the fit is, unless it was just shown."""
        now = time.monotonic()
        if self._handle is not None and now - self._at > DRAW_EVERY:
            self._at = now
            self._handle.update(_Html(self._html()))

    def _html(self) -> str:
        from html import escape

        share = self._shown.share()
        value = "" if share is None else f' value="{share:.3f}"'
        bar = f'<progress max="1"{value} style="width: 20em"></progress>'
        return f"<div>{bar}<br><small>{escape(self._shown.text())}</small></div>"


class _Html:
    """What a notebook shows as it is, and text elsewhere."""

    def __init__(self, html: str) -> None:
        self._html = html

    def _repr_html_(self) -> str:
        return self._html

    def __repr__(self) -> str:
        return ""


@contextmanager
def watched(
    progress: ProgressCallback | None, verbose: bool
) -> Iterator[ProgressCallback | None]:
    """Yield what hears of a fit: the caller's listener, and a display if wanted.

    A notebook shows the display below the cell, everything else on stderr.
    """
    if not verbose:
        yield progress
        return
    from rich.console import Console

    with FitProgress(Console(stderr=True, highlight=False)) as shown:

        def both(now: Progress) -> bool:
            shown(now)
            return progress is not None and bool(progress(now))

        yield both
