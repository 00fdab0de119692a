"""Fits in processes of their own, one after the other, which outlive the server.

All that a server knows of a fit is in the fit's folder: what is to be done, how far it
is, how it ended, a lock that lives as long as the process, and a flag that asks for an
end. A server that is started again therefore finds fits as they are: running ones go
on, those whose process died are begun again.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from sparsid.app.places import Lock, read_json, write_json
from sparsid.app.session import Session
from sparsid.errors import InputError

# A fit whose process dies so often is given up.
MOST_ATTEMPTS = 2


class Jobs:
    """The fits of a session.

    Parameters
    ----------
    session
        Its models are what there is to fit.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._lock = threading.Lock()

    def folder(self, identity: str) -> Path:
        """Return the folder of a fit."""
        return self.session.folder / "models" / identity

    def status(self, identity: str) -> dict[str, Any]:
        """Return how far a fit is: its state, its progress and how it ended."""
        folder = self.folder(identity)
        found = {"progress": read_json(folder / "progress.json")}
        outcome: dict[str, Any] | None = read_json(folder / "outcome.json")
        if outcome is not None:
            return found | outcome
        if self._running(identity):
            stopping = (folder / "stop").exists()
            return found | {"state": "stopping" if stopping else "running"}
        return {"state": "waiting", "progress": None}

    def tend(self) -> None:
        """Begin the next fit if none is running."""
        with self._lock:
            models = [m["id"] for m in self.session.state["models"]]
            states = {m: self.status(m)["state"] for m in models}
            if any(s in ("running", "stopping") for s in states.values()):
                return
            waiting = [m for m, state in states.items() if state == "waiting"]
            if waiting:
                self._begin(waiting[0])

    def stop(self, identity: str) -> None:
        """Ask a running fit to end with its best; a waiting one never begins."""
        folder = self.folder(identity)
        with self._lock:
            state = self.status(identity)["state"]
            if state == "waiting":
                text = "it was stopped before it began"
                write_json(folder / "outcome.json", {"state": "failed", "error": text})
            elif state == "running":
                (folder / "stop").touch()

    def check_idle(self, identity: str) -> None:
        """Refuse what cannot be done to a fit that is running."""
        if self.status(identity)["state"] in ("running", "stopping"):
            raise InputError("the fit is still running: stop it first")

    def stop_all(self) -> None:
        """Ask every running fit to end; what they found so far is kept."""
        for model in self.session.state["models"]:
            if self.status(model["id"])["state"] == "running":
                self.stop(model["id"])

    def wait(self, seconds: float) -> None:
        """Wait for processes begun here to end."""
        for process in self._processes.values():
            try:
                process.wait(seconds)
            except subprocess.TimeoutExpired:
                continue

    def _running(self, identity: str) -> bool:
        process = self._processes.get(identity)
        if process is not None and process.poll() is None:
            return True
        return Lock(self.folder(identity) / "running.lock").held_elsewhere()

    def _begin(self, identity: str) -> None:
        folder = self.folder(identity)
        attempts = read_json(folder / "attempts.json", 0)
        if attempts >= MOST_ATTEMPTS:
            text = f"the process of the fit died {attempts} times: {_last(folder)}"
            write_json(folder / "outcome.json", {"state": "failed", "error": text})
            return
        write_json(folder / "attempts.json", attempts + 1)
        for left in ("stop", "progress.json"):
            (folder / left).unlink(missing_ok=True)
        command = [sys.executable, "-m", "sparsid.app.worker"]
        command += [str(self.session.folder), identity]
        with (folder / "worker.log").open("wb") as log:
            self._processes[identity] = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Ctrl-C is for the server, which asks fits to stop.
                start_new_session=True,
                env=os.environ | {"PYTHONUNBUFFERED": "1"},
            )


def _last(folder: Path) -> str:
    """Return the last line that a process wrote, or that there is none."""
    log = folder / "worker.log"
    text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "it left no message"
