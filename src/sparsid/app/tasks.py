"""What is asked of finished models: figures, runs, reports, files.

Done in a process of their own, so that the page never waits for the numerics.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import zipfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsid.app.operations import positive, real
from sparsid.app.places import plain, write_json
from sparsid.app.recipe import Kitchen, Recipe
from sparsid.data.files import read_table
from sparsid.data.record import Record
from sparsid.data.whole_file import whole_file
from sparsid.errors import InputError

Values = NDArray[np.float64]
# Samples of a run over an input that was drawn.
MOST_DRAWN = 1_000_000
SHAPES = ("hold", "line")


def recipe_key(recipe: Recipe) -> str:
    """Return a name for what a recipe makes."""
    text = json.dumps(recipe, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def evaluation_folder(model_folder: Path, recipe: Recipe) -> Path:
    """Return where figures and forecasts of a model on a recipe's test part lie."""
    return model_folder / f"on_{recipe_key(recipe)}"


# -- figures ---------------------------------------------------------------------------


def evaluate(model: Any, recipe: Recipe, kitchen: Kitchen, folder: Path) -> None:
    """Write figures and forecasts of a model over the test part of a recipe.

    Without a test part they are over what there is, and say so.
    """
    from sparsid.validation.diagnosis import diagnose

    estimation, test = kitchen.parts(recipe)
    records = test or estimation
    found = diagnose(model, records)
    channels = model.fitted_.channels
    told = {
        "held_out": bool(test),
        "outputs": list(channels.output_names),
        "units": list(channels.output_units),
        "records": [_placed(r) for r in records],
        "scores": found.scores,
        "verdicts": [{"good": bool(g), "text": t} for g, t in found.verdicts],
        "residuals": [_correlation(test) for test in found.residuals],
        "ranges": [
            {"output": r.output, "unit": r.unit, "verdict": r.verdict}
            | {"rows": r.table.to_dict("records")}
            for r in found.ranges
        ],
        "bands": {
            name: None if c is None else c.facts()
            for name, c in (
                ("one_step", found.calibration_one_step),
                ("free_run", found.calibration_free_run),
            )
        },
        "equations": model.equations(),
    }
    arrays: dict[str, Values] = {}
    for k, record in enumerate(records):
        arrays[f"y_{k}"] = record.y
        for kind in ("free_run", "one_step"):
            forecast = getattr(found, kind)[k]
            for part in ("mean", "std", "model_std"):
                arrays[f"{kind}_{part}_{k}"] = getattr(forecast, part)
    folder.mkdir(exist_ok=True)
    with whole_file(folder / "forecast.npz") as place:
        np.savez(place, **arrays)  # type: ignore[arg-type]
    write_json(folder / "evaluation.json", told)


def _placed(record: Record) -> dict[str, Any]:
    """Return what a chart needs to know of a record."""
    told = {"name": record.name, "start": record.start, "samples": len(record)}
    return told | {"dt": record.dt}


def _correlation(test: Any) -> dict[str, Any]:
    told = {k: getattr(test, k) for k in ("output", "source", "lags", "values")}
    told |= {k: getattr(test, k) for k in ("limit", "passed", "verdict")}
    return told


# -- use -------------------------------------------------------------------------------


class Bench:
    """Finished models of a session, and what can be done with them.

    Parameters
    ----------
    session
        The folder of the session.
    """

    def __init__(self, session: Path) -> None:
        self.session = session
        self.kitchen = Kitchen(session)
        self._models: dict[str, Any] = {}
        self.tasks: dict[str, Callable[[dict[str, Any]], Any]] = {
            "get ready": self.get_ready,
            "evaluate": self.evaluate,
            "simulate": self.simulate,
            "linearise": self.linearise,
            "export": self.export,
            "report": self.report,
        }

    def do(self, wish: dict[str, Any]) -> Any:
        """Return the answer to a wish, as plain values."""
        return plain(self.tasks[wish["do"]](wish))

    def folder(self, identity: str) -> Path:
        """Return the folder of a model."""
        return self.session / "models" / identity

    def model(self, identity: str) -> Any:
        """Return a fitted model."""
        if identity not in self._models:
            from sparsid.results.storage import load

            path = self.folder(identity) / "model.sparsid"
            if not path.exists():
                raise InputError("the fit of this model has not ended yet")
            self._models[identity] = load(path)
        return self._models[identity]

    def get_ready(self, _: dict[str, Any]) -> Any:
        """Load the numerics while nobody waits for them."""
        import_module("sparsid.results.storage")
        import_module("sparsid.validation.diagnosis")
        return {}

    def evaluate(self, wish: dict[str, Any]) -> Any:
        """Write figures of a model on the test part of a recipe."""
        folder = evaluation_folder(self.folder(wish["model"]), wish["recipe"])
        evaluate(self.model(wish["model"]), wish["recipe"], self.kitchen, folder)
        return {}

    def simulate(self, wish: dict[str, Any]) -> Any:
        """Write the run of a model over inputs that were drawn or uploaded."""
        model = self.model(wish["model"])
        channels = model.fitted_.channels
        if wish.get("uploaded"):
            u = self._uploaded(wish["model"], channels)
        else:
            u = drawn(wish, channels)
        run = model.simulate(u)
        place = self.folder(wish["model"]) / "run.npz"
        with whole_file(place) as part:
            np.savez(part, u=u, mean=run.mean, std=run.std, model_std=run.model_std)
        return {"samples": len(u), "dt": channels.dt, "diverged_at": run.diverged_at}

    def _uploaded(self, identity: str, channels: Any) -> Values:
        found = sorted(self.folder(identity).glob("inputs.*"))
        if not found:
            raise InputError("no file with inputs was uploaded for this model")
        table = read_table(found[0])
        names = [table.find(name) for name in channels.input_names]
        u: Values = np.column_stack([table.numbers(name) for name in names])
        return u

    def linearise(self, wish: dict[str, Any]) -> Any:
        """Return poles, frequency response and step response at an operating point."""
        from sparsid.app.linear import linear_view

        return linear_view(self.model(wish["model"]), wish.get("at"))

    def export(self, wish: dict[str, Any]) -> Any:
        """Write a model for use elsewhere, as one archive."""
        from sparsid.export.package import write_export

        folder = self.folder(wish["model"]) / "export"
        shutil.rmtree(folder, ignore_errors=True)
        write_export(self.model(wish["model"]).fitted_, wish["to"], folder)
        archive = self.folder(wish["model"]) / "export.zip"
        files = sorted(p for p in folder.rglob("*") if p.is_file())
        with (
            whole_file(archive) as part,
            zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as out,
        ):
            for path in files:
                out.write(path, path.relative_to(folder).as_posix())
        names = [p.relative_to(folder).as_posix() for p in files]
        shutil.rmtree(folder)
        return {"files": names}

    def report(self, wish: dict[str, Any]) -> Any:
        """Write the report of a model on the test part of a recipe."""
        from sparsid.report import write_report

        estimation, test = self.kitchen.parts(wish["recipe"])
        part = "test part" if test else "records it learnt from"
        place = self.folder(wish["model"]) / "report.html"
        model = self.model(wish["model"])
        write_report(model, test or estimation, place, part=part, title=wish["title"])
        return {}


def drawn(wish: dict[str, Any], channels: Any) -> Values:
    """Return inputs that were drawn as points: (time, channel).

    Parameters
    ----------
    wish
        ``seconds``, and for every input ``points``, a list of (seconds, value), with
        ``shape``: values are held until the next point, or joined by lines.
    """
    samples = round(positive(wish, "seconds") / channels.dt)
    if not 2 <= samples <= MOST_DRAWN:
        raise InputError(
            f"{samples} samples of {channels.dt:g} s: choose from 2 to {MOST_DRAWN}"
        )
    given = wish.get("inputs")
    if not isinstance(given, list) or len(given) != channels.n_inputs:
        raise InputError(f"the model has {channels.n_inputs} inputs: give as many")
    times = np.arange(samples) * channels.dt
    return np.column_stack([_signal(one, times) for one in given])


def _signal(given: Any, times: Values) -> Values:
    points = given.get("points") if isinstance(given, dict) else None
    if not isinstance(points, list) or not points:
        raise InputError("every input needs at least one point: a time and a value")
    if given.get("shape") not in SHAPES:
        raise InputError(f"shape must be one of {', '.join(SHAPES)}")
    pairs = []
    for point in points:
        if not isinstance(point, list) or len(point) != 2:
            raise InputError(f"{point!r} is no point: give a time and a value")
        values = {"time": point[0], "value": point[1]}
        pairs.append((real(values, "time"), real(values, "value")))
    pairs.sort(key=lambda pair: pair[0])
    at, values = np.array(pairs).T
    if given["shape"] == "line":
        joined: Values = np.interp(times, at, values)
        return joined
    # A hair of room: 0.3 is not quite three times 0.1.
    number = np.searchsorted(at - 1e-9 * max(abs(at).max(), 1.0), times, "right") - 1
    held: Values = values[np.maximum(number, 0)]
    return held
