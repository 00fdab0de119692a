"""One fit, in a process of its own: ``python -m sparsid.app.worker SESSION MODEL``."""

from __future__ import annotations

import sys
import time
import traceback
from pathlib import Path
from typing import Any

from sparsid.app.places import Lock, read_json, write_json
from sparsid.app.recipe import Kitchen
from sparsid.errors import InputError


class Course:
    """What a running fit tells, kept in its folder; and whether it is to stop.

    Attributes
    ----------
    points
        Seconds and best held-out error so far, where it has changed.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.points: list[list[float]] = []
        self.phases: list[dict[str, Any]] = []

    def __call__(self, progress: Any) -> bool:
        """Note the progress; return whether the fit is to end."""
        error = float(progress.cost)
        if error < 1e6 and (not self.points or error < self.points[-1][1]):
            self.points.append([progress.seconds, error])
        if not self.phases or self.phases[-1]["name"] != progress.phase:
            self.phases.append({"name": progress.phase, "seconds": progress.seconds})
        told = {
            "phase": progress.phase,
            "done": progress.cycle,
            "total": progress.max_cycles,
            "seconds": progress.seconds,
            "text": progress.text,
            "best": error,
            "course": self.points,
            "phases": self.phases,
            "candidates": progress.candidates,
        }
        write_json(self.folder / "progress.json", told)
        return (self.folder / "stop").exists()


def fit(session: Path, identity: str) -> None:
    """Fit a model of a session, and leave it in its folder with its figures."""
    folder = session / "models" / identity
    lock = Lock(folder / "running.lock")
    if not lock.take():
        return
    began = time.perf_counter()
    try:
        found = _fitted(session, folder, began)
    except InputError as error:
        found = {"state": "failed", "error": str(error)}
    except Exception as error:
        traceback.print_exc()
        found = {"state": "failed", "error": f"{type(error).__name__}: {error}"}
    write_json(folder / "outcome.json", found)
    lock.free()


def _fitted(session: Path, folder: Path, began: float) -> dict[str, Any]:
    from sparsid.app.tasks import evaluate, evaluation_folder

    job = read_json(folder / "job.json")
    course, kitchen, recipe = Course(folder), Kitchen(session), job["recipe"]
    estimation, _ = kitchen.parts(recipe)
    model = _model(job["settings"]).fit(estimation, progress=course)
    seconds = time.perf_counter() - began
    model.save(folder / "model.sparsid")
    fitted, summary = model.fitted_, ""
    notes = [str(note) for note in fitted.details.get("notes", [])]
    try:
        summary = model.summary()
        evaluate(model, recipe, kitchen, evaluation_folder(folder, recipe))
    except Exception as error:
        # The model is there: what cannot be said of it must not take it away.
        traceback.print_exc()
        notes.append(f"not all figures could be made: {type(error).__name__}: {error}")
    return {
        "state": "done",
        "seconds": seconds,
        "outcome": str(model.outcome_),
        "stopped": model.outcome_.name != "CONVERGED",
        "described": fitted.described(),
        "kept": fitted.kept_text(),
        "size": fitted.weights_kept,
        "summary": summary,
        "candidates": fitted.details.get("candidates", []),
        "notes": notes,
    }


def _model(settings: dict[str, Any]) -> Any:
    from sparsid.estimators import Simulator

    return Simulator(**settings)


if __name__ == "__main__":
    fit(Path(sys.argv[1]), sys.argv[2])
