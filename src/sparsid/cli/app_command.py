"""``sparsid app``: the local page."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from sparsid.errors import InputError

# What the folder of a session is called, after the file or the program.
SUFFIX = ".session"


def app_command(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Files to begin with, more can be dropped; or a session as one file."
        ),
    ] = None,
    session: Annotated[
        Path | None,
        typer.Option(
            help="Folder that keeps everything; opening it again goes on. By default "
            "named after the file, here."
        ),
    ] = None,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="0: any that is free.")
    ] = 0,
    browser: Annotated[bool, typer.Option(help="Whether to open the browser.")] = True,
) -> None:
    """Open the local page: from a file to a believed model, without code.

    It listens on this computer only, and everything stays in the folder of the session.
    Ctrl-C ends it; running fits are stopped with the best so far and kept.

    [bold]Example[/]: sparsid app pump.csv
    """
    from sparsid.cli.terminal import results_console

    try:
        from sparsid.app.archive import unpack
        from sparsid.app.server import serve
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in ("starlette", "uvicorn"):
            raise
        raise InputError(
            'the app needs more packages: pip install "sparsid[app]"'
        ) from error

    paths = files or []
    stem = paths[0].stem if paths else "sparsid"
    folder = session or Path(stem.removesuffix(SUFFIX) + SUFFIX)
    if paths and paths[0].suffix.lower() == ".zip":
        unpack(paths.pop(0), folder)
    console = results_console()

    def said(address: str) -> None:
        console.print(f"The app is at {address}", soft_wrap=True)
        console.print(
            f"Everything is kept in {folder}; Ctrl-C ends the app.", soft_wrap=True
        )

    serve(folder, paths, port, said, webbrowser.open if browser else None)
