"""Who may ask: this computer's browser, on the page that the command opened.

Other pages in the same browser, other computers and other users of this one are kept
out by four checks: the server listens on 127.0.0.1 only; the Host header must name it
(a foreign name that points here is DNS rebinding); Origin and Sec-Fetch-Site must not
be another page's; and whatever says or changes anything needs a token, sent in a
header that no foreign page can set. There is no cookie, so there is nothing to ride on.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

TOKEN_HEADER = b"x-sparsid-token"
# 256 bits: nobody guesses it.
TOKEN_BYTES = 32
# Largest body with settings; files have a limit of their own.
LARGEST_SETTINGS = 1_000_000
UPLOADS = re.compile(r"/api/(files|models/[a-z0-9]+/inputs)")

# No inline code, nothing from elsewhere, no frames, no forms.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = [
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
]
METHODS = {"GET", "HEAD", "POST", "PATCH", "PUT", "DELETE"}
READING = {"GET", "HEAD"}


def new_token() -> str:
    """Return a token that nobody guesses."""
    return secrets.token_urlsafe(TOKEN_BYTES)


@dataclass(frozen=True)
class Guard:
    """The server behind its checks.

    Parameters
    ----------
    port
        The port that the server listens on.
    largest_file
        Bytes that an uploaded file may have.
    """

    app: App
    token: str
    port: int
    largest_file: int

    async def __call__(
        self, scope: MutableMapping[str, Any], receive: Receive, send: Send
    ) -> None:
        """Answer, or refuse with the reason."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        refusal = self._refusal(scope)
        if refusal is not None:
            await _refuse(_protected(send), *refusal)
            return
        limited = _Limited(receive, self._limit(scope["path"]))
        await self.app(scope, limited.receive, _protected(send))

    def _refusal(self, scope: MutableMapping[str, Any]) -> tuple[int, str] | None:
        """Return status and reason for a request that is not answered."""
        names = {b"host", b"origin", b"sec-fetch-site", b"content-length"}
        names |= {TOKEN_HEADER, b"content-type"}
        given: dict[bytes, list[str]] = {name: [] for name in names}
        for name, value in scope["headers"]:
            if name.lower() in given:
                given[name.lower()].append(value.decode("latin-1"))
        if any(len(values) > 1 for values in given.values()):
            return 400, "a header was sent twice"
        only = {name: values[0] for name, values in given.items() if values}
        hosts = {f"127.0.0.1:{self.port}", f"localhost:{self.port}"}
        if only.get(b"host") not in hosts:
            return 421, "this server answers to 127.0.0.1 only"
        origin = only.get(b"origin")
        if origin is not None and origin not in {f"http://{host}" for host in hosts}:
            return 403, "requests of other pages are refused"
        if scope["method"] not in METHODS:
            return 405, "this method is not known"
        if not scope["path"].startswith("/api/"):
            # The page itself says nothing about anybody's data.
            if scope["method"] not in READING:
                return 405, "the page can only be read"
            return None
        if only.get(b"sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return 403, "requests of other pages are refused"
        told = only.get(TOKEN_HEADER, "").encode("latin-1")
        if not secrets.compare_digest(told, self.token.encode()):
            return 401, "the token is missing or wrong: open the link again"
        return self._body_refusal(scope, only)

    def _body_refusal(
        self, scope: MutableMapping[str, Any], only: dict[bytes, str]
    ) -> tuple[int, str] | None:
        """Return status and reason for a body that is not taken."""
        length = only.get(b"content-length", "0")
        if not (length.isascii() and length.isdigit()):
            return 400, "the length of the body is no number"
        limit = self._limit(scope["path"])
        if int(length) > limit:
            return 413, _too_large(limit)
        if scope["method"] in READING | {"DELETE"}:
            return None
        kind = only.get(b"content-type", "").split(";")[0].strip().lower()
        wanted = "application/json"
        if UPLOADS.fullmatch(scope["path"]):
            wanted = "application/octet-stream"
        if kind != wanted:
            return 415, f"a body of the type {wanted} is expected"
        return None

    def _limit(self, path: str) -> int:
        return self.largest_file if UPLOADS.fullmatch(path) else LARGEST_SETTINGS


class TooLargeError(Exception):
    """A body that goes on beyond its limit; the server answers 413."""


class _Limited:
    """The body of a request, cut off where it goes on for too long."""

    def __init__(self, receive: Receive, limit: int) -> None:
        self._receive, self.limit, self._seen = receive, limit, 0

    async def receive(self) -> Message:
        message = await self._receive()
        self._seen += len(message.get("body", b""))
        if self._seen > self.limit:
            raise TooLargeError(_too_large(self.limit))
        return message


def _protected(send: Send) -> Send:
    """Return a sender that adds the headers that every answer carries."""

    async def protected(message: Message) -> None:
        if message["type"] == "http.response.start":
            own = {name for name, _ in HEADERS}
            kept = [(n, v) for n, v in message.get("headers", []) if n not in own]
            message = {**message, "headers": [*kept, *HEADERS]}
        await send(message)

    return protected


async def _refuse(send: Send, status: int, reason: str) -> None:
    body = json.dumps({"error": reason}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _too_large(limit: int) -> str:
    return f"the body is larger than the {limit / 1e6:g} MB that are allowed"
