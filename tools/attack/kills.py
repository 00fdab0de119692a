"""Kills at random moments: nothing is lost, nothing is left, nothing is a mixture.

``identify`` gets Ctrl-C, SIGTERM or SIGKILL; ``reproduce`` is killed again and again
and has to come to the same trials as a run that was left alone.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from attack.forks import Ended, Found, command, forked, judged

STOPPED = 130
FULL = {"model.sparsid", "predictions.csv", "result.json", "simulation.png"}
# Seconds that an answer to Ctrl-C may take on a computer that does nothing else.
ANSWER = 5.0
# Kinds of model, and how long an undisturbed run takes, about.
KINDS: dict[str, list[str]] = {
    "auto": ["--workers", "2"],
    "linear": ["--structure", "linear"],
    "narx": ["--model", "narx", "--hidden", "4", "--lags", "2", "--starts", "3"],
    "state-space": ["--model", "state-space", "--starts", "4", "--max-cycles", "40"],
}
SHARES = ("auto", "auto", "auto", "linear", "linear", "narx", "state-space")
# Share of the kills that wait for the run to be over: the last phases are short.
LATE = 0.3
STUDY = ("simulation", "--quick", "--repeats", "1", "--methods", "shape,none")


def data(folder: Path) -> Path:
    """Write a record that keeps a search busy for a while; return the file."""
    rng = np.random.default_rng(5)
    n = 400
    u, y, x = np.repeat(rng.normal(size=n), 4)[:n], np.zeros(n), np.zeros(2)
    for t in range(n):
        y[t] = x[0]
        force = np.clip(u[t] - x[0] - 0.8 * x[0] ** 3, -3.0, 3.0)
        speed = 0.8 * x[1] + 0.3 * force
        x = np.array([x[0] + 0.3 * speed, speed])
    table = np.column_stack([np.arange(n), u, y + 0.01 * rng.normal(size=n)])
    path = folder / "data.csv"
    np.savetxt(path, table, delimiter=",", header="time,u,y", comments="", fmt="%.9g")
    return path


def arguments(path: Path, kind: str) -> list[str]:
    """Return the command that identifies."""
    columns = ["--input", "u", "--output", "y", "--out", "out"]
    return ["identify", str(path), *columns, *KINDS[kind]]


class Sender:
    """Sends a signal at a moment, or some time after a line was printed."""

    def __init__(self, number: int, after: float, line: str, err: Path) -> None:
        self.number, self.after, self.line, self.err = number, after, line, err
        self.sent_at: float | None = None
        self._seen: float | None = None if line else 0.0

    def __call__(self, child: int, seconds: float) -> bool:
        """Look; return whether to be called again."""
        if self._seen is None and self.line in self.err.read_text(errors="replace"):
            self._seen = seconds
        if self._seen is None or seconds < self._seen + self.after:
            return True
        os.kill(child, self.number)
        self.sent_at = seconds
        return False


def identify_case(path: Path, usual: dict[str, float], seed: int, number: int) -> Found:
    """Kill an identification."""
    rng = random.Random(f"kill {seed} {number}")
    kind = rng.choice(SHARES)
    how = rng.choice((signal.SIGINT, signal.SIGINT, signal.SIGTERM, signal.SIGKILL))
    found = Found(f"kill {seed}/{number}, {kind}, {how.name}")
    room = Path(tempfile.mkdtemp(prefix="attack-"))
    folder = room / "here"
    folder.mkdir()
    late = rng.random() < LATE
    after = rng.uniform(0.0, 2.0) if late else rng.uniform(0.0, usual[kind])
    line = rng.choice(("Fitted in", "Writing the report")) if late else ""
    sender = Sender(how, after, line, room / "stderr")
    try:
        ended = forked(
            command(arguments(path, kind), folder),
            room,
            memory=8 << 30,
            patience=600.0,
            meanwhile=sender,
        )
        _judge(found, ended, sender, how, folder)
    finally:
        shutil.rmtree(room, ignore_errors=True)
    return found


def _judge(
    found: Found, ended: Ended, sender: Sender, how: signal.Signals, folder: Path
) -> None:
    out = folder / "out"
    made = {p.name for p in out.iterdir()} if out.exists() else set()
    if ended.code == -how:
        # As the system does it: SIGKILL, or before the program could listen.
        found.ended = "killed"
        if how != signal.SIGKILL and made:
            found.blame("lost", f"killed by {how.name}")
        if made and not made >= FULL:
            found.blame("mixture", str(sorted(made)))
        return
    judged(found, ended, (0, STOPPED))
    found.seconds = ended.seconds - (sender.sent_at or ended.seconds)
    found.ended = "finished before" if ended.code == 0 else "stopped"
    left = sorted(p.name for p in folder.iterdir() if p.name != "out")
    left += [name for name in made if name.startswith(".")]
    if left:
        found.blame("leftover", ", ".join(left))
    # From the first line on there is a fit, whose model must not be lost.
    if "Data:" in ended.err or "Fitted" in ended.err:
        began = "Fitted in" in ended.err
        if "model.sparsid" not in made:
            if began or "stopping" in ended.err:
                found.blame("lost", ended.err[-300:])
            else:
                found.ended = "stopped before a model"
        else:
            _judge_model(found, out, made, ended)
    elif made:
        _judge_model(found, out, made, ended)


def _judge_model(found: Found, out: Path, made: set[str], ended: Ended) -> None:
    import sparsid

    try:
        model = sparsid.load(out / "model.sparsid")
    except ValueError as error:
        found.blame("lost", str(error))
        return
    if "result.json" in made:
        result = json.loads((out / "result.json").read_text())
        if set(result["files"]) - made:
            found.blame("mixture", f"{result['files']} but {sorted(made)}")
        if result["model"]["outcome"] != model.outcome_.value:
            found.blame("mixture", "result and model are of different fits")
        if result["stopped"] != (ended.code == STOPPED):
            found.blame("exit code", f"{ended.code} but stopped: {result['stopped']}")


# -- studies -------------------------------------------------------------------------


def study_case(wanted: list[Any], folder: Path, seed: int, number: int) -> Found:
    """Kill a study, start it again and kill it, then let it end: the same trials."""
    rng = random.Random(f"study {seed} {number}")
    found = Found(f"study {seed}/{number}")
    out = folder / f"study{number}"
    for _ in range(rng.choice((1, 2, 3))):
        how = rng.choice((signal.SIGINT, signal.SIGTERM, signal.SIGKILL))
        run = _study(out)
        time.sleep(rng.uniform(1.0, 40.0))
        run.send_signal(how)
        began = time.monotonic()
        err = run.communicate()[1]
        if how != signal.SIGKILL:
            found.seconds = max(found.seconds, time.monotonic() - began)
        if "Traceback" in err:
            found.blame("traceback", err.strip().splitlines()[-1])
    last = _study(out)
    err = last.communicate()[1]
    if last.returncode:
        found.blame("exit code", f"{last.returncode}: {err[-300:]}")
    elif trials(out) != wanted:
        found.blame("lost", f"{len(trials(out))} trials, or others than undisturbed")
    left = [p.name for p in out.iterdir() if p.name.startswith(".")]
    if left:
        found.blame("leftover", ", ".join(left))
    found.ended = "continued"
    return found


def trials(out: Path) -> list[Any]:
    """Return specs and results of the trials of a study, without durations."""
    with sqlite3.connect(out / "trials.sqlite") as db:
        rows = db.execute("SELECT spec, result FROM trials ORDER BY key").fetchall()
    found = []
    for spec, result in rows:
        values = json.loads(result)
        known = {
            k: v for k, v in values.items() if "second" not in k and "peak" not in k
        }
        found.append((spec, json.dumps(known, sort_keys=True)))
    return found


def undisturbed(out: Path) -> list[Any]:
    """Return the trials of a study that nobody stops."""
    run = _study(out)
    err = run.communicate()[1]
    if run.returncode:
        raise SystemExit(f"the study fails by itself: {err[-500:]}")
    return trials(out)


def _study(out: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "sparsid", "reproduce", *STUDY),
            *("--dataset", "simulated-tanks", "--out", str(out)),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
