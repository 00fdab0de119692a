"""Where the command speaks: results to stdout; progress, notes, errors to stderr."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

from sparsid.errors import DatasetUnavailable, InputError

if TYPE_CHECKING:
    from rich.console import Console

# Exit codes: as for the usage errors that typer finds, and as shells count Ctrl-C.
REFUSED, STOPPED, DIVERGED = 2, 130, 1


class Commands(TyperGroup):
    """Commands whose expected errors are one line on stderr and exit code 2."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command; errors that are no fault of the program get no traceback."""
        try:
            return super().invoke(ctx)
        except (InputError, OSError, DatasetUnavailable) as error:
            print(f"sparsid: {_one_line(error)}", file=sys.stderr)
            raise typer.Exit(REFUSED) from None


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def results_console() -> Console:
    """Return the console for results, on stdout."""
    from rich.console import Console

    return Console(highlight=False)


def side_console(quiet: bool = False) -> Console:
    """Return the console for progress and notes, on stderr."""
    from rich.console import Console

    return Console(stderr=True, quiet=quiet, highlight=False)


@contextmanager
def notes(console: Console) -> Iterator[None]:
    """Show what the library logs, for as long as a command runs."""
    from rich.text import Text

    class Show(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            console.print(Text(f"note: {record.getMessage()}", style="yellow"))

    logger, handler = logging.getLogger("sparsid"), Show()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
