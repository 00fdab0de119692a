"""The app's server in a thread, asked over a real socket."""

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import uvicorn

from sparsid.app.security import new_token
from sparsid.app.server import create_app
from sparsid.app.session import Session

JSON = "application/json"
BINARY = "application/octet-stream"


class Answer(NamedTuple):
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Running(NamedTuple):
    """A server that runs."""

    port: int
    token: str
    folder: Path

    def ask(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        headers: dict[str, str] | None = None,
        kind: str = JSON,
    ) -> Answer:
        """Ask as the page does; headers given here replace its own, None leaves out."""
        own: dict[str, Any] = {
            "Host": f"127.0.0.1:{self.port}",
            "X-Sparsid-Token": self.token,
            "Content-Type": kind,
            "Content-Length": str(len(body)),
        } | (headers or {})
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        try:
            link.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in own.items():
                if value is not None:
                    link.putheader(name, value)
            link.endheaders(body)
            found = link.getresponse()
            told = {k.lower(): v for k, v in found.getheaders()}
            return Answer(found.status, told, found.read())
        finally:
            link.close()

    def get(self, path: str) -> Any:
        """Return plain values that the server tells."""
        answer = self.ask("GET", path)
        assert answer.status == 200, answer.body
        return answer.json()

    def send(self, method: str, path: str, value: Any) -> Any:
        """Send plain values and return those of the answer."""
        answer = self.ask(method, path, json.dumps(value).encode())
        assert answer.status == 200, answer.body
        return answer.json()

    def upload(self, name: str, body: bytes) -> Answer:
        """Send a file."""
        return self.ask("POST", f"/api/files?name={name}", body, kind=BINARY)

    def ended(self, model: str, seconds: float = 120.0) -> dict[str, Any]:
        """Return a model when its fit has ended."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            found = {m["id"]: m for m in self.get("/api/state")["models"]}[model]
            if found["state"] in ("done", "failed"):
                return dict(found)
            time.sleep(0.2)
        raise AssertionError("the fit did not end")


@contextmanager
def running(folder: Path, largest_file: int = 5_000_000) -> Iterator[Running]:
    """Yield a server of a session."""
    token = new_token()
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
        app = create_app(Session(folder), token, port, largest_file)
        config = uvicorn.Config(app, log_level="critical", ws="none", lifespan="on")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        until = time.monotonic() + 60.0
        while not server.started:
            assert thread.is_alive(), "the server did not start"
            assert time.monotonic() < until
            time.sleep(0.02)
        try:
            yield Running(port, token, folder)
        finally:
            server.should_exit = True
            thread.join(60.0)
            assert not thread.is_alive()
