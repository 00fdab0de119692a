"""Fits from the page: to the end, stopped, died, and with a server that was killed."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from app_server import BINARY, Running, running

from sparsid.app.places import Lock, read_json, write_json
from sparsid.app.session import Session

SAMPLES = 200


def csv(samples: int = SAMPLES) -> bytes:
    rng = np.random.default_rng(3)
    u = np.repeat(rng.uniform(-1, 1, samples // 5 + 1), 5)[:samples]
    y = np.zeros(samples)
    for t in range(1, samples):
        y[t] = 0.8 * y[t - 1] + 0.3 * u[t - 1]
    y += 0.01 * rng.normal(size=samples)
    rows = [f"{0.5 * t},{u[t]:.4f},{y[t]:.5f}" for t in range(samples)]
    return ("time,valve [%],flow [l/s]\n" + "\n".join(rows)).encode()


LINEAR = {"structure": "linear", "states": 1, "seed": 4, "name": "First"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("fits") / "pump.session") as found:
        assert found.upload("pump.csv", csv()).status == 200
        found.send("POST", "/api/steps", {"op": "detrend", "kind": "constant"})
        keep = {"op": "keep", "record": 0, "first": 10, "stop": 190}
        found.send("POST", "/api/steps", keep)
        state = found.send("POST", "/api/models", LINEAR)
        model = found.ended(state["models"][0]["id"])
        assert model["state"] == "done", model
        yield found


@pytest.fixture(scope="module")
def model(server: Running) -> dict[str, Any]:
    found: dict[str, Any] = server.get("/api/state")["models"][0]
    return found


def packed(body: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    length = int.from_bytes(body[:4], "little")
    head = json.loads(body[4 : 4 + length])
    values = np.frombuffer(body[4 + length :], "<f4").astype(float)
    blocks = values.reshape(len(head["series"]), 2, head["columns"])
    bases = np.array(head["bases"])[:, None, None]
    return head, dict(zip(head["series"], blocks + bases, strict=True))


def test_a_fit_tells_what_it_tried_and_found(model: dict[str, Any]) -> None:
    assert model["name"] == "First"
    assert model["outcome"] == "converged"
    assert not model["stopped"]
    assert model["candidates"][0]["name"] == "linear, 1 states"
    assert model["progress"]["candidates"][0][1] > 0.0
    assert "Simulator" in model["summary"] or "model of flow" in model["summary"]


def test_figures_and_forecasts_belong_together(
    server: Running, model: dict[str, Any]
) -> None:
    told = server.get(f"/api/models/{model['id']}/evaluation")
    assert told["held_out"]
    assert told["units"] == ["l/s"]
    body = server.ask("GET", f"/api/forecast?models={model['id']}&width=500").body
    head, found = packed(body)
    assert head["columns"] == told["records"][0]["samples"] == 45
    error = found[f"{model['id']} error"][0]
    assert np.sqrt(np.nanmean(error**2)) == pytest.approx(
        told["scores"]["free_run"]["rmse"][0], rel=1e-4
    )
    low, high = found[f"{model['id']} band"]
    assert (low < high)[np.isfinite(low)].all()


def test_the_script_gives_the_same_numbers(
    server: Running, model: dict[str, Any], tmp_path: Path
) -> None:
    script = server.ask("GET", "/api/script")
    assert "attachment" in script.headers["content-disposition"]
    path = tmp_path / "script.py"
    path.write_bytes(script.body)
    done = subprocess.run(
        [sys.executable, str(path), str(server.folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = server.get(f"/api/models/{model['id']}/evaluation")["scores"]
    printed = dict(re.findall(r"First (\w+) \[([^\]]+)\]", done.stdout))
    for name, kind in (("simulation", "free_run"), ("prediction", "one_step")):
        assert float(printed[name]) == pytest.approx(told[kind]["rmse"][0], rel=1e-9)


def test_a_stopped_fit_keeps_its_best_and_the_script_loads_it(
    server: Running,
) -> None:
    state = server.send("POST", "/api/models", {"structure": "auto", "seed": 1})
    identity = state["models"][-1]["id"]
    until = time.monotonic() + 120
    while time.monotonic() < until:
        found = {m["id"]: m for m in server.get("/api/state")["models"]}[identity]
        if (found.get("progress") or {}).get("candidates"):
            break
        time.sleep(0.1)
    server.send("POST", f"/api/models/{identity}/stop", {})
    found = server.ended(identity)
    assert found["state"] == "done", found
    assert found["stopped"]
    text = server.ask("GET", "/api/script").body.decode()
    assert f"'models' / '{identity}'".replace("'models'", '"models"') in text
    compile(text, "script.py", "exec")
    removed = server.ask("DELETE", f"/api/models/{identity}")
    assert removed.status == 200
    assert not (server.folder / "models" / identity).exists()


def test_news_end_when_no_fit_is_running(server: Running) -> None:
    lines = server.ask("GET", "/api/news").body.decode().splitlines()
    assert [m["state"] for m in json.loads(lines[-1])] == ["done"]


def test_another_test_part_is_scored_anew(
    server: Running, model: dict[str, Any]
) -> None:
    before = server.get(f"/api/models/{model['id']}/evaluation")
    server.send("PUT", "/api/split", {"ranges": [[0, 20, 60]]})
    after = server.get(f"/api/models/{model['id']}/evaluation")
    assert after["records"][0] == {
        "name": "pump",
        "start": 30,
        "samples": 40,
        "dt": 0.5,
    }
    assert after["scores"] != before["scores"]
    assert not server.get("/api/state")["models"][0]["current"]
    server.send("PUT", "/api/split", {"fraction": 0.25})
    assert server.get("/api/state")["models"][0]["current"]


def test_drawn_inputs_are_simulated(server: Running, model: dict[str, Any]) -> None:
    import sparsid

    points = {"shape": "hold", "points": [[0, 0.0], [5, 0.7]]}
    wish = {"seconds": 20, "inputs": [points]}
    at = f"/api/models/{model['id']}"
    told = server.send("POST", f"{at}/simulate", wish)
    assert told == {"samples": 40, "dt": 0.5, "diverged_at": None}
    _, found = packed(server.ask("GET", f"{at}/run?width=500").body)
    u = np.where(np.arange(40) < 10, 0.0, 0.7)
    assert found["u0"][0] == pytest.approx(u, abs=1e-6)
    own = sparsid.load(server.folder / "models" / model["id"] / "model.sparsid")
    assert found["run"][0] == pytest.approx(own.simulate(u).mean[:, 0], abs=1e-6)
    table = server.ask("GET", f"{at}/run.csv").body.decode().splitlines()
    assert table[0].startswith("time,valve [%],flow [l/s]")
    assert len(table) == 41


def test_uploaded_inputs_are_simulated(server: Running, model: dict[str, Any]) -> None:
    at = f"/api/models/{model['id']}"
    body = b"valve\n" + b"0.1\n" * 30
    answer = server.ask("POST", f"{at}/inputs?name=a.csv", body, kind=BINARY)
    assert answer.status == 200
    assert server.send("POST", f"{at}/simulate", {"uploaded": True})["samples"] == 30


@pytest.mark.parametrize(
    "wish",
    [
        {},
        {"seconds": 20, "inputs": []},
        {"seconds": 1e12, "inputs": [{"shape": "hold", "points": [[0, 1]]}]},
        {"seconds": 20, "inputs": [{"shape": "curve", "points": [[0, 1]]}]},
        {"seconds": 20, "inputs": [{"shape": "hold", "points": [[0]]}]},
        {"seconds": 20, "inputs": [{"shape": "line", "points": [[0, "a"]]}]},
    ],
)
def test_inputs_that_make_no_sense_are_refused(
    server: Running, model: dict[str, Any], wish: dict[str, Any]
) -> None:
    body = json.dumps(wish).encode()
    answer = server.ask("POST", f"/api/models/{model['id']}/simulate", body)
    assert answer.status == 400
    assert answer.json()["error"]


def test_a_model_is_linearised_exported_and_reported(
    server: Running, model: dict[str, Any]
) -> None:
    at = f"/api/models/{model['id']}"
    linear = server.send("POST", f"{at}/linearise", {"at": [0.0]})
    assert linear["stable"]
    assert linear["poles"][0]["real"] == pytest.approx(0.8, abs=0.05)
    assert len(linear["responses"]) == 1
    archive = server.ask("POST", f"{at}/export", b'{"to": "c"}')
    names = zipfile.ZipFile(io.BytesIO(archive.body)).namelist()
    assert {"model.c", "model.h"} <= set(names)
    assert server.ask("POST", f"{at}/export", b'{"to": "../x"}').status == 400
    report = server.ask("POST", f"{at}/report", b"{}")
    assert report.body.startswith(b"<!doctype html>")
    assert "attachment" in report.headers["content-disposition"]


def test_a_session_is_one_file_without_the_token(
    server: Running, model: dict[str, Any]
) -> None:
    body = server.ask("GET", "/api/archive").body
    archive = zipfile.ZipFile(io.BytesIO(body))
    assert {
        "script.py",
        "session.json",
        "uploads/f1/pump.csv",
        f"models/{model['id']}/model.sparsid",
    } <= set(archive.namelist())
    assert not any(
        name.endswith((".lock", ".html", ".log")) for name in archive.namelist()
    )


# -- servers and processes that end ----------------------------------------------------


def prepared_session(folder: Path) -> tuple[Session, str]:
    session = Session(folder)
    identity, place = session.new_file("pump.csv")
    place.write_bytes(csv())
    session.add_file(identity, place, "pump.csv")
    settings = {"structure": "linear", "states": 1, "seed": 0}
    return session, session.add_model(settings, "")["id"]


def test_a_fit_goes_on_when_its_server_is_killed(tmp_path: Path) -> None:
    session, model = prepared_session(tmp_path / "killed")
    command = [sys.executable, "-m", "sparsid", "app", "--no-browser"]
    server = subprocess.Popen(
        [*command, "--session", str(session.folder)], stdout=subprocess.PIPE
    )
    folder = session.folder / "models" / model
    until = time.monotonic() + 60
    lock = Lock(folder / "running.lock")
    while not lock.held_elsewhere() and time.monotonic() < until:
        time.sleep(0.05)
    os.kill(server.pid, signal.SIGKILL)
    server.wait()
    assert server.stdout is not None
    server.stdout.close()
    with running(session.folder) as found:
        state = found.get("/api/state")
        assert [m["id"] for m in state["models"]] == [model]
        assert found.ended(model)["state"] == "done"
    # It was not begun a second time.
    assert read_json(folder / "attempts.json") == 1


def test_a_fit_whose_process_died_is_begun_again(tmp_path: Path) -> None:
    session, model = prepared_session(tmp_path / "died")
    folder = session.folder / "models" / model
    write_json(folder / "attempts.json", 1)
    (folder / "running.lock").touch()
    (folder / "stop").touch()
    with running(session.folder) as found:
        assert found.ended(model)["state"] == "done"


def test_a_fit_that_dies_each_time_is_given_up(tmp_path: Path) -> None:
    session, model = prepared_session(tmp_path / "dies")
    folder = session.folder / "models" / model
    write_json(folder / "attempts.json", 2)
    (folder / "worker.log").write_text("one\nKilled for want of memory\n")
    with running(session.folder) as found:
        ended = found.ended(model)
        assert ended["state"] == "failed"
        assert "want of memory" in ended["error"]
        assert found.ask("GET", f"/api/models/{model}/evaluation").status == 400


def test_a_record_too_short_for_a_fit_says_so(tmp_path: Path) -> None:
    with running(tmp_path / "short") as found:
        found.upload("a.csv", csv(25))
        state = found.send("POST", "/api/models", {"structure": "linear"})
        ended = found.ended(state["models"][0]["id"])
        assert ended["state"] == "failed"
        assert "longer record" in ended["error"]
