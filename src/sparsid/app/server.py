"""The server behind the page: its routes, and how it begins and ends."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

import sparsid
from sparsid.app.data_routes import data_routes
from sparsid.app.desk import Desk
from sparsid.app.jobs import Jobs
from sparsid.app.model_routes import model_routes
from sparsid.app.places import private_text
from sparsid.app.security import Guard, TooLargeError, new_token
from sparsid.app.session import MissingError, Session
from sparsid.data.readers import existing
from sparsid.errors import InputError

LARGEST_FILE = 500_000_000
# Seconds between looks at waiting fits.
TEND_EVERY = 0.5
# Seconds that running fits get to end with their best when the server is closed.
LAST_WORDS = 20.0
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}

Handler = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True)
class Office:
    """What routes work with."""

    session: Session
    jobs: Jobs
    desk: Desk


def create_app(
    session: Session, token: str, port: int, largest_file: int = LARGEST_FILE
) -> Guard:
    """Return the server of a session, behind its checks."""
    office = Office(session, Jobs(session), Desk(session.folder))
    routes = [*_static_routes(), *data_routes(office), *model_routes(office)]

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        session.open()
        await run_in_threadpool(office.desk.start)
        tending = asyncio.create_task(_tend(office))
        try:
            yield
        finally:
            tending.cancel()
            await run_in_threadpool(_close, office)

    app = Starlette(
        routes=routes,
        lifespan=lifespan,
        exception_handlers={
            InputError: _refused,
            MissingError: _missing,
            json.JSONDecodeError: _refused,
            UnicodeDecodeError: _refused,
            TooLargeError: _too_large,
        },
    )
    return Guard(app, token, port, largest_file)


async def _tend(office: Office) -> None:
    while True:
        await run_in_threadpool(office.jobs.tend)
        await asyncio.sleep(TEND_EVERY)


def _close(office: Office) -> None:
    office.jobs.stop_all()
    office.desk.close()
    office.jobs.wait(LAST_WORDS)
    office.session.close()


async def _refused(_: Request, error: Exception) -> Response:
    return JSONResponse({"error": str(error)}, 400)


async def _missing(_: Request, error: Exception) -> Response:
    return JSONResponse({"error": str(error)}, 404)


async def _too_large(_: Request, error: Exception) -> Response:
    return JSONResponse({"error": str(error)}, 413)


def _static_routes() -> list[Route]:
    """Return a route for each file of the page: no other file can be asked for."""
    folder = files("sparsid.app") / "static"
    found = {
        item.name: (item.read_bytes(), TYPES[Path(item.name).suffix])
        for item in folder.iterdir()
        if Path(item.name).suffix in TYPES
    }

    def answer(name: str) -> Handler:
        async def send(_: Request) -> Response:
            body, kind = found[name]
            return Response(body, media_type=kind)

        return send

    routes = [Route(f"/{name}", answer(name), methods=["GET"]) for name in found]
    return [Route("/", answer("index.html"), methods=["GET"]), *routes]


def serve(
    folder: Path,
    paths: list[Path],
    port: int,
    said: Callable[[str], None],
    show: Callable[[str], Any] | None,
) -> None:
    """Serve a session until Ctrl-C.

    Parameters
    ----------
    folder
        Of the session.
    paths
        Files to load, if the session does not have them yet.
    port
        0 for any that is free.
    said
        Called with the address, which carries the token.
    show
        Opens the browser at a page on disk that leads there; None opens nothing. The
        token is not put on a command line, which other users could read.
    """
    import uvicorn

    # A mistyped name leaves no folder behind.
    paths = [existing(path) for path in paths]
    session = Session(folder)
    session.open()
    for path in paths:
        load(session, path)
    session.close()
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind(("127.0.0.1", port))
        except OSError as error:
            raise InputError(
                f"port {port} cannot be used ({error.strerror}): leave --port out"
            ) from error
        port, token = listening.getsockname()[1], new_token()
        address = f"http://127.0.0.1:{port}/#{token}"
        app = create_app(session, token, port)
        server = uvicorn.Server(
            uvicorn.Config(
                app,
                log_level="warning",
                access_log=False,
                server_header=False,
                ws="none",
                timeout_graceful_shutdown=2,
            )
        )
        leading = folder / "open.html"
        private_text(leading, _leading_page(address))
        said(address)
        if show is not None:
            # Once the server listens, the browser's question waits in the queue.
            threading.Timer(0.5, show, [leading.resolve().as_uri()]).start()
        try:
            # Ctrl-C is the way to end it, no mishap.
            with suppress(KeyboardInterrupt):
                server.run(sockets=[listening])
        finally:
            leading.unlink(missing_ok=True)


def _leading_page(address: str) -> str:
    return (
        '<!doctype html><meta charset="utf-8"><title>sparsid</title>'
        f'<meta http-equiv="refresh" content="0;url={address}">'
        f'<a href="{address}">sparsid {sparsid.__version__}</a>'
    )


def load(session: Session, path: Path) -> None:
    """Copy a file of this computer into a session that does not have it."""
    if session.has_file(path):
        return
    identity, place = session.new_file(path.name)
    place.write_bytes(path.read_bytes())
    session.add_file(identity, place, path.name)
