"""Where the command speaks: results to stdout; progress, notes, errors to stderr."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
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

    def get_params(self, ctx: Any) -> Any:
        """Return the options, flags as what they are."""
        return _plain_flags(super().get_params(ctx))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command, its flags as what they are."""
        found = super().get_command(ctx, cmd_name)
        for command in (found, *getattr(found, "commands", {}).values()):
            if command is not None:
                _plain_flags(command.get_params(ctx))
        return found

    def invoke(self, ctx: Any) -> Any:
        """Run a command; errors that are no fault of the program get no traceback."""
        try:
            return super().invoke(ctx)
        except (InputError, OSError, DatasetUnavailable) as error:
            print(f"sparsid: {_one_line(error)}", file=sys.stderr)
            raise typer.Exit(REFUSED) from None


def _plain_flags(params: Any) -> Any:
    """Return parameters of which flags do not look as if they took a value."""
    for param in params:
        if getattr(param, "is_flag", False) and param.metavar is None:
            param.metavar = ""
    return params


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def check_files(*paths: Path) -> None:
    """Refuse files that do not exist, before anything heavy is loaded."""
    for path in paths:
        if path.exists():
            continue
        text = f"{path} does not exist: check the name and the folder."
        home = path.parent
        if home.is_dir():
            names = [p.name for p in home.iterdir()]
            near = get_close_matches(path.name, names, n=1)
            text += f" Is it {home / near[0]}?" if near else ""
        raise InputError(text)


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
