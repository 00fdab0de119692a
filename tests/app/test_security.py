"""Requests that are none of the page's are refused; the page gets strict headers."""

import json
import re
from collections.abc import Iterator
from importlib.resources import files

import pytest
from app_server import BINARY, Running, running

CSV = b"time,u,y\n" + b"".join(b"%d,%d,%d\n" % (t, t % 7, t % 5) for t in range(60))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("secure") / "session"
    with running(folder, largest_file=100_000) as found:
        assert found.upload("data.csv", CSV).status == 200
        yield found


# Method, path, body, headers in place of the page's own, type, and the refusal.
HOSTILE = [
    ("GET", "/api/state", b"", {"X-Sparsid-Token": None}, None, 401),
    ("GET", "/api/state", b"", {"X-Sparsid-Token": ""}, None, 401),
    ("GET", "/api/state", b"", {"X-Sparsid-Token": "A" * 43}, None, 401),
    ("GET", "/api/state", b"", {"X-Sparsid-Token": "\xe9" * 43}, None, 401),
    ("GET", "/api/state?token=x", b"", {"X-Sparsid-Token": None}, None, 401),
    ("GET", "/api/state", b"", {"Host": "evil.example"}, None, 421),
    ("GET", "/", b"", {"Host": "evil.example:80"}, None, 421),
    ("GET", "/", b"", {"Host": "127.0.0.1"}, None, 421),
    ("GET", "/", b"", {"Host": "127.0.0.1.evil.example"}, None, 421),
    ("GET", "/api/state", b"", {"Host": None}, None, 400),
    ("GET", "/api/state", b"", {"Origin": "http://evil.example"}, None, 403),
    ("GET", "/api/state", b"", {"Origin": "null"}, None, 403),
    ("POST", "/api/steps", b"{}", {"Origin": "http://127.0.0.1:1"}, None, 403),
    ("GET", "/api/state", b"", {"Sec-Fetch-Site": "cross-site"}, None, 403),
    ("GET", "/api/state", b"", {"Sec-Fetch-Site": "same-site"}, None, 403),
    ("OPTIONS", "/api/state", b"", {}, None, 405),
    ("TRACE", "/", b"", {}, None, 405),
    ("POST", "/", b"{}", {}, None, 405),
    ("POST", "/api/steps", b"a=1", {}, "application/x-www-form-urlencoded", 415),
    ("POST", "/api/steps", b"{}", {}, "text/plain", 415),
    ("POST", "/api/files?name=a.csv", CSV, {}, "multipart/form-data", 415),
    ("POST", "/api/files?name=a.csv", b"1" * 100_001, {}, BINARY, 413),
    ("POST", "/api/steps", b" " * 1_000_001, {}, None, 413),
    ("GET", "/../pyproject.toml", b"", {}, None, 404),
    ("GET", "/%2e%2e/%2e%2e/etc/passwd", b"", {}, None, 404),
    ("GET", "//etc/passwd", b"", {}, None, 404),
    ("GET", "/session.json", b"", {}, None, 404),
    ("GET", "/api/models/..%2f..%2fsession/file", b"", {}, None, 404),
    ("DELETE", "/api/files/..", b"", {}, None, 404),
    ("POST", "/api/files?name=a.exe", CSV, {}, BINARY, 400),
    ("POST", "/api/files?name=", CSV, {}, BINARY, 400),
    ("POST", "/api/files?name=a%0Ab.csv", CSV, {}, BINARY, 400),
    ("POST", "/api/files?name=a.csv", b"\x00\x01", {}, BINARY, 400),
    ("POST", "/api/steps", b'{"op": "eval"}', {}, None, 400),
    ("POST", "/api/steps", b"[1, 2", {}, None, 400),
    ("POST", "/api/steps", b"\xff\xfe", {}, None, 400),
    ("GET", "/api/signals?width=1e9", b"", {}, None, 400),
    ("GET", "/api/signals?record=99", b"", {}, None, 400),
    ("POST", "/api/models", b'{"structure": "__import__"}', {}, None, 400),
    ("POST", "/api/models", b'{"budget": 1e999}', {}, None, 400),
]


@pytest.mark.parametrize("hostile", HOSTILE, ids=lambda h: f"{h[0]} {h[1]} {h[5]}")
def test_hostile_requests_are_refused(server: Running, hostile: tuple) -> None:
    method, path, body, headers, kind, status = hostile
    before = server.get("/api/state")
    answer = server.ask(method, path, body, headers, kind or "application/json")
    assert answer.status == status, answer.body
    assert b"Traceback" not in answer.body
    assert "access-control-allow-origin" not in answer.headers
    assert server.get("/api/state") == before


def test_a_body_without_a_length_is_cut_off_at_the_limit(server: Running) -> None:
    headers = {"Content-Length": None, "Transfer-Encoding": "chunked"}
    chunk = b"4000\r\n" + b"1" * 0x4000 + b"\r\n"
    body = chunk * 10 + b"0\r\n\r\n"
    answer = server.ask("POST", "/api/files?name=a.csv", body, headers, BINARY)
    assert answer.status == 413
    assert len(list((server.folder / "uploads").iterdir())) == 1


def test_a_header_sent_twice_is_refused(server: Running) -> None:
    answer = server.ask("GET", "/api/state", headers={"host": "evil.example"})
    assert answer.status == 400


@pytest.mark.parametrize("path", ["/", "/main.js", "/style.css", "/api/state"])
def test_every_answer_is_protected(server: Running, path: str) -> None:
    headers = server.ask("GET", path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http:" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cache-control"] == "no-store"


def test_refusals_are_protected_as_well(server: Running) -> None:
    answer = server.ask("GET", "/api/state", headers={"X-Sparsid-Token": "x"})
    assert "content-security-policy" in answer.headers


def test_the_token_has_256_bits_and_is_new_each_time() -> None:
    from sparsid.app.security import new_token

    found = {new_token() for _ in range(50)}
    assert len(found) == 50
    assert all(re.fullmatch(r"[\w-]{43}", token) for token in found)


def test_names_from_the_browser_never_become_paths(server: Running) -> None:
    before = {p for p in server.folder.parent.rglob("*") if p.is_file()}
    name = "..%2F..%2F%2Fetc%2Fcron.d%2F..evil.csv"
    state = server.upload(name, CSV).json()
    entry = state["files"][-1]
    assert entry["name"] == "../..//etc/cron.d/..evil.csv"
    inside = server.folder / "uploads" / entry["stored"]
    new = {p for p in server.folder.parent.rglob("*") if p.is_file()} - before
    assert new == {inside}
    assert re.fullmatch(r"f\d+/[A-Za-z0-9_-]+\.csv", entry["stored"])
    assert server.ask("DELETE", f"/api/files/{entry['id']}").status == 200


def test_the_page_never_makes_markup_from_text() -> None:
    folder = files("sparsid.app") / "static"
    forbidden = ("innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval(")
    for item in folder.iterdir():
        text = item.read_text(encoding="utf-8")
        assert not any(word in text for word in forbidden), item.name
        # Nothing is loaded from elsewhere.
        outside = re.findall(r"https?://(?!www\.w3\.org/2000/svg)[^\s\"']+", text)
        assert not outside, item.name
    page = (folder / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\son\w+=|\sstyle=", page)


def test_markup_in_names_stays_text_all_the_way(server: Running) -> None:
    header = b'time,"<img src=x onerror=alert(1)>",y\n'
    state = server.upload("<b>x</b>.csv", header + CSV.split(b"\n", 1)[1]).json()
    answer = server.ask("GET", "/api/state")
    assert answer.headers["content-type"] == "application/json"
    names = [c["name"] for c in state["files"][-1]["columns"]]
    assert "<img src=x onerror=alert(1)>" in names
    assert "<" not in state["files"][-1]["stored"]
    server.ask("DELETE", f"/api/files/{state['files'][-1]['id']}")


def test_the_server_listens_on_this_computer_only(server: Running) -> None:
    import socket

    own = socket.gethostbyname(socket.gethostname())
    if own.startswith("127."):
        own = "127.0.0.2"
    with socket.socket() as other:
        other.settimeout(2.0)
        with pytest.raises(OSError, match=r"refused|timed out"):
            other.connect((own, server.port))


def test_what_the_session_keeps_does_not_hold_the_token(server: Running) -> None:
    for path in server.folder.rglob("*"):
        if path.is_file():
            assert server.token.encode() not in path.read_bytes()
    assert json.loads((server.folder / "session.json").read_text())["version"] == 1
