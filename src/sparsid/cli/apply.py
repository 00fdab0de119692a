"""``sparsid predict`` and ``sparsid simulate``: a model file on other data."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sparsid.cli.data import shaped, tell_steps
from sparsid.cli.results import add_forecast, as_json, check_new_file, record_columns
from sparsid.cli.shaping import OPTIONS, Shape, Steps
from sparsid.cli.terminal import notes, results_console, side_console
from sparsid.data.files import read, write_csv
from sparsid.data.pieces import stretches_of
from sparsid.data.record import Record
from sparsid.errors import InputError
from sparsid.estimators import Model
from sparsid.plots import error_text
from sparsid.results.forecast import Forecast
from sparsid.results.storage import load

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Request:
    """What the user asked for; see the options of the commands."""

    model: Path
    data: Path
    out: Path
    overwrite: bool
    table: dict[str, Any]
    quiet: bool
    json: bool


def predict(request: Request, horizon: int) -> None:
    """Write predictions ``horizon`` samples ahead over a file."""
    model = _begin(request)
    with notes(side_console(request.quiet)):
        record = _read(request, model)
    lag = model.max_lag_ + max(horizon, 1) - 1
    if horizon >= 1:
        check_length(record, lag)

    _finish(request, record, model.predict(record, horizon=horizon), "predicted")


def simulate(request: Request, inputs_only: bool) -> None:
    """Write the free run over a file."""
    model = _begin(request)
    measured = True
    with notes(side_console(request.quiet)):
        if inputs_only:
            record, inputs, measured = _read_inputs(request, model)
            run = model.simulate(inputs)
        else:
            record = _read(request, model)
            check_length(record, model.max_lag_)
            run = model.simulate(record)
    _finish(request, record, run, "simulated", measured)


def _begin(request: Request) -> Model:
    check_new_file(request.out, request.overwrite)
    return load(request.model)


def check_length(record: Record, lag: int) -> None:
    """Refuse a record in which no forecast can start."""
    longest = max((len(s) for s in stretches_of([record])), default=0)
    if longest <= max(lag, 1):
        raise InputError(
            f"the longest stretch with all inputs has {longest} samples but {lag} are "
            "needed before the first forecast: give a longer record"
        )


# -- reading -------------------------------------------------------------------------


def _read(request: Request, model: Model) -> Record:
    return read_record(request.data, request.table, model)


def read_record(path: Path, table: dict[str, Any], model: Model) -> Record:
    """Read a file with the channels of a model."""
    channels = model.fitted_.channels
    names = list(channels.input_names), list(channels.output_names)
    return sampled(path, table, model, *names)


def fitted_steps(model: Model) -> Steps:
    """Return what was done to the first record that a model learnt from, uncut."""
    shaping = model.fitted_.details.get("shaping") or [[]]
    return [
        (step["name"], step["arguments"])
        for step in shaping[0]
        if step["name"] in OPTIONS and step["name"] != "slice"
    ]


def _read_inputs(request: Request, model: Model) -> tuple[Record, Any, bool]:
    """Return a record, the inputs in it, and whether it has outputs as well."""
    names = list(model.fitted_.channels.input_names)
    if not names:
        raise InputError("the model has no inputs: leave --inputs-only out")
    try:
        record = _read(request, model)
    except InputError as error:
        # A file of inputs alone is read as if they were outputs.
        record = sampled(request.data, request.table, model, [], names)
        logger.info("no measured outputs: %s", error)
        return record, record.y, False
    return record, record.u, True


def sampled(
    path: Path,
    table: dict[str, Any],
    model: Model,
    inputs: list[str],
    outputs: list[str],
) -> Record:
    """Read a file; one that does not tell its sampling time has that of the model."""
    channels, learnt = model.fitted_.channels, fitted_steps(model)
    table = dict(table)
    shape = table.pop("shape", None) or Shape()
    steps = shape.steps() if not shape.as_fitted else list(learnt)
    new_dt = next((a["dt"] for name, a in steps if name == "resample"), None)
    record = read(path, inputs, outputs, default_dt=channels.dt, uneven=new_dt, **table)
    record = shaped(record, steps)
    tell_steps([record])
    if learnt and not shape:
        logger.warning(
            "the model learnt from data that were shaped (%s), these are taken as they "
            "are: give --as-fitted to do the same to them",
            ", ".join(dict.fromkeys(name for name, _ in learnt)),
        )
    if not math.isclose(record.dt, channels.dt, rel_tol=1e-3):
        raise InputError(
            f"{path} is sampled every {record.dt:g} s but the model every "
            f"{channels.dt:g} s: give --resample {channels.dt:g}, or --dt "
            f"{channels.dt:g} if its clock is wrong"
        )
    return record


# -- reporting -----------------------------------------------------------------------


def _finish(
    request: Request,
    record: Record,
    forecast: Forecast,
    label: str,
    measured: bool = True,
) -> None:
    """Write the table and tell the errors, if outputs were measured."""
    columns, units = record_columns(record)
    add_forecast(columns, units, forecast, label)
    write_csv(request.out, columns, units)
    if request.json:
        print(as_json(_facts(request, record, forecast, measured)))
    elif not request.quiet:
        console = results_console()
        for k, name in enumerate(forecast.output_names if measured else ()):
            text = error_text(record, forecast, k)
            console.print(f"{name}: {text}", markup=False, soft_wrap=True)
        console.print(f"written: {request.out}", markup=False, soft_wrap=True)


def _facts(
    request: Request, record: Record, forecast: Forecast, measured: bool
) -> dict[str, Any]:
    facts = {
        "model": str(request.model),
        "data": str(request.data),
        "file": str(request.out),
        "outputs": list(forecast.output_names),
        "horizon": forecast.horizon,
        "first": forecast.start,
        "diverged_at": forecast.diverged_at,
    }
    if not measured:
        return facts
    error = np.where(np.isnan(record.y), np.nan, forecast.mean - record.y)
    counts = np.isfinite(error).sum(0)
    with np.errstate(invalid="ignore"):
        rmse = np.sqrt(np.nansum(error**2, axis=0) / counts)
    if forecast.diverged_at is not None:
        rmse = np.full(len(rmse), np.inf)
    return facts | {"rmse": rmse, "samples": counts}
