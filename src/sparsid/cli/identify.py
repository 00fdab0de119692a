"""``sparsid identify``: from files to a model, its scores and a picture."""

from __future__ import annotations

import platform
import shutil
import time
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from sparsid.cli.data import Data, check_test, data_lines, load_data
from sparsid.cli.results import (
    FILES,
    MODEL,
    PICTURE,
    PICTURES,
    PREDICTIONS,
    REPORT,
    RESULT,
    ResultFolder,
    as_json,
    write_picture,
    write_predictions,
    write_result,
)
from sparsid.cli.signals import Interrupt
from sparsid.cli.tables import print_end, print_result
from sparsid.cli.terminal import (
    DIVERGED,
    STOPPED,
    notes,
    results_console,
    side_console,
)
from sparsid.datasets.benchmark import MeanOnly, protocol_scores
from sparsid.errors import InputError
from sparsid.estimators import NARX, Model, Simulator, StateSpace
from sparsid.estimators.recalibration import recalibrate
from sparsid.estimators.watching import FitProgress
from sparsid.fitting.settings import make_lags
from sparsid.report import write_report
from sparsid.results.nearest import compact_text
from sparsid.results.outcome import Outcome
from sparsid.results.summary import result_dict
from sparsid.results.texts import clock
from sparsid.validation.baselines import Arx
from sparsid.validation.evaluation import Part, forecast_part, poor_runs, scores

FORMAT, SCHEMA = "sparsid-result", 1
KINDS: dict[str, type[Model]] = {
    "auto": Simulator,
    "narx": NARX,
    "state-space": StateSpace,
}
# What can be set for each kind of model; the first that knows all that was given.
SETTINGS = {name: set(kind().get_params()) for name, kind in KINDS.items()}
REPORTED_VERSIONS = (
    "sparsid",
    "jax",
    "jaxlib",
    "numba",
    "numpy",
    "scipy",
    "scikit-learn",
)


@dataclass(frozen=True)
class Request:
    """What the user asked for; see the options of the command."""

    files: list[Path]
    inputs: list[str] | None
    outputs: list[str] | None
    table: dict[str, Any]
    test_fraction: float | None
    out: Path
    overwrite: bool
    quiet: bool
    json: bool
    model: str
    settings: dict[str, Any]
    recalibrate: bool
    report: bool
    scheduler: str | None
    benchmark: str | None = None
    compact: bool = False


def identify(request: Request) -> int:
    """Fit, score, write and report; return the exit code."""
    console = side_console(request.quiet)
    with notes(console):
        data = load_data(
            request.files,
            request.inputs,
            request.outputs,
            test_fraction=request.test_fraction,
            benchmark=request.benchmark,
            **request.table,
        )
        check_test(data, _longest_lag(request, data))
        with (
            # First of all: what is made from here on is cleared away or published.
            Interrupt() as interrupt,
            ResultFolder(request.out, request.overwrite) as folder,
        ):
            for line in data_lines(data):
                console.print(line, soft_wrap=True, markup=False)
            model, seconds = _fit(request, data, console, interrupt)
            model.save(folder.part / MODEL)
            written = Written(stopped=interrupt.asked)
            try:
                with suppress(KeyboardInterrupt), interrupt.at_once():
                    _write_all(request, model, data, folder.part, console, written)
            except Exception:
                # Whatever goes wrong from here on, hours of fitting are not lost.
                written.settle(folder.part, seconds, interrupt.asked)
                folder.publish()
                console.print(f"The model is in {request.out}.", markup=False)
                raise
            written.settle(folder.part, seconds, interrupt.asked)
            files = folder.publish()
    if written.missing:
        names = ", ".join(written.missing)
        line = f"Stopped: {names} not written. The model is in {request.out}."
        console.print(line, markup=False, soft_wrap=True)
    if request.json and written.result is not None:
        print(as_json(written.result))
    elif written.result is not None and not request.quiet:
        print_result(results_console(), model, written.scores, files)
        print_end(results_console(), data.title, model, written.scores, request.out)
    if written.stopped:
        return STOPPED
    return DIVERGED if model.outcome_ is Outcome.DIVERGED else 0


@dataclass
class Written:
    """What became of the files beside the model; Ctrl-C may leave some out.

    Attributes
    ----------
    result
        None until everything it tells of is known.
    missing
        Files that were wanted but are not there.
    """

    stopped: bool
    scores: dict[str, Any] = field(default_factory=dict)
    result: dict[str, Any] | None = None
    missing: list[str] = field(default_factory=list)

    def settle(self, folder: Path, seconds: float, stopped: bool) -> None:
        """Leave whole files only, and write the result that tells of them."""
        self.stopped = stopped
        if not (folder / REPORT).exists():
            shutil.rmtree(folder / PICTURES, ignore_errors=True)
        wanted = list(FILES) if self.result is None else self.result["files"]
        made = [f for f in wanted if f == RESULT or (folder / f).exists()]
        if self.result is None:
            made.remove(RESULT)
        else:
            self.result |= {"seconds": seconds, "stopped": stopped, "files": made}
            write_result(folder / RESULT, self.result)
        self.missing = [f for f in wanted if f not in made]


def _write_all(
    request: Request,
    model: Model,
    data: Data,
    folder: Path,
    console: Any,
    written: Written,
) -> None:
    """Score the model and write everything about it; Ctrl-C ends it anywhere."""
    console.print("Scoring and writing the results ...")
    parts = _parts(model, data)
    found = _scores(model, data, parts)
    result = _result(request, model, data, found)
    written.scores, written.result = found, result
    _write(folder, data, parts)
    # Who stops a fit is not made to wait for a report.
    if request.report and not written.stopped:
        console.print("Writing the report ...")
        _report(folder, model, data, parts[-1], found)


def _longest_lag(request: Request, data: Data) -> int:
    """Return the most outputs that the model may need to start a run."""
    if request.model != "narx":
        return int(StateSpace().start_samples)
    first, params = data.estimation[0], NARX(**request.settings).get_params()
    return make_lags(params, first.n_inputs, first.n_outputs).max_lag


def _fit(
    request: Request, data: Data, console: Any, interrupt: Interrupt
) -> tuple[Model, float]:
    """Return the model fitted to the estimation records, and the seconds it took."""
    began = time.perf_counter()
    with FitProgress(console, interrupt) as progress:
        model = KINDS[request.model](**request.settings)
        model.fit(data.estimation, progress=progress, scheduler=request.scheduler)
        if request.recalibrate and not interrupt.asked:
            recalibrate(model, data.estimation, progress=progress)
    if request.compact and not interrupt.asked:
        console.print("Looking for one small model ...")
        model = model.compact(data.estimation)
        price = compact_text(model.fitted_)
        console.print(price or "There is one model only: it stays as it is.")
    seconds = time.perf_counter() - began
    console.print(f"Fitted in {clock(seconds)}: {model.outcome_.value}")
    return model, seconds


def _parts(model: Model, data: Data) -> list[Part]:
    """Return forecasts over estimation and test; the model is finished by now."""
    count = len(data.estimation)
    numbers = list(range(1, count + 1))
    parts = [forecast_part(model, "estimation", data.estimation, numbers)]
    test = data.reveal_test()
    if test:
        # The test record of a benchmark is a record of its own.
        numbers = [count + 1] if data.benchmark is not None else numbers
        parts.append(forecast_part(model, "test", test, numbers))
    return parts


def _scores(model: Model, data: Data, parts: list[Part]) -> dict[str, Any]:
    fitted = model.fitted_
    arx: Arx | None
    lags = fitted.regressor_lags
    if lags is not None:
        arx = Arx.fit(data.estimation, lags, fitted.scaling)
    else:
        try:
            arx = Arx.chosen(data.estimation, fitted.scaling, model.max_lag_)
        except InputError:
            # Outputs with so many gaps have no linear model to compare with.
            arx = None
    found: dict[str, Any] = {part.name: scores(part, model, arx) for part in parts}
    if data.benchmark is not None:
        found["protocols"] = protocol_scores(data.benchmark, MeanOnly(model))
    return found


def _result(
    request: Request, model: Model, data: Data, found: dict[str, Any]
) -> dict[str, Any]:
    versions = {name: version(name) for name in REPORTED_VERSIONS}
    return {
        "format": FORMAT,
        "schema": SCHEMA,
        "versions": {**versions, "python": platform.python_version()},
        "seed": model.seed,
        "kind": type(model).__name__,
        "settings": model.get_params(deep=False),
        "data": {**data.facts(), "files": [str(path) for path in request.files]},
        "model": result_dict(model.fitted_),
        "scores": found,
        "warnings": poor_runs(found, model.fitted_.channels.output_names),
        "files": [f for f in FILES if f != REPORT or request.report],
    }


def _report(
    folder: Path, model: Model, data: Data, shown: Part, found: dict[str, Any]
) -> None:
    names = {"linear_arx": "linear ARX", "persistence": "persistence"}
    scores = found[shown.name]
    write_report(
        model,
        shown.records,
        folder / REPORT,
        part=f"{shown.name} record{'s' * (len(shown.records) > 1)}",
        title=data.title,
        comparison={
            name: scores[key] for key, name in names.items() if scores.get(key)
        },
        pictures=folder / PICTURES,
        forecasts=(shown.one_step, shown.free_run),
    )


def _write(folder: Path, data: Data, parts: list[Part]) -> None:
    write_predictions(folder / PREDICTIONS, parts)
    shown = parts[-1]
    title = f"{data.title}: free run over the {shown.name} record"
    write_picture(folder / PICTURE, shown, title + "s" * (len(shown.records) > 1))
