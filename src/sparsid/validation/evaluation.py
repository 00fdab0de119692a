"""A finished model against what was measured: forecasts, errors, baselines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sparsid.data.record import Record
from sparsid.datasets import Benchmark
from sparsid.errors import InputError
from sparsid.estimators import Model
from sparsid.fitting.outcome import Outcome
from sparsid.results.forecast import BAND, SURPRISE_LIMIT, Forecast, over_segments
from sparsid.validation.baselines import Arx, persistence
from sparsid.validation.scores import rmse

PartName = Literal["estimation", "test"]


@dataclass(frozen=True, eq=False)
class Part:
    """Estimation or test records, with the model's forecasts over each.

    Attributes
    ----------
    numbers
        Numbers of the records, for tables.
    """

    name: PartName
    records: list[Record]
    numbers: list[int]
    one_step: list[Forecast]
    free_run: list[Forecast]


def forecast_part(
    model: Model, name: PartName, records: list[Record], numbers: list[int]
) -> Part:
    """Return one-step predictions and free runs over records."""
    # The weights of a diverged model are not finite, and there is nothing to draw.
    samples = 0 if model.outcome_ is Outcome.DIVERGED else 100
    lag = model.max_lag_

    def run(segment: Record) -> Forecast:
        return model.simulate(segment, samples=samples)

    return Part(
        name,
        records,
        numbers,
        [over_segments(record, lag, model.predict) for record in records],
        [over_segments(record, lag, run) for record in records],
    )


def usable(record: Record, lag: int) -> list[Record]:
    """Return the gap-free stretches that are longer than the largest lag."""
    return [s for s in record.segments() if len(s) > max(lag, 1)]


def scores(part: Part, model: Model, arx: Arx | None) -> dict[str, Any]:
    """Return the errors of model and baselines on the same rows of all records.

    Rows count that have all their lags inside one gap-free stretch. A run that
    diverged has an infinite error.
    """
    lag = model.max_lag_
    rows = [_scored(record, lag) for record in part.records]
    y = _stacked([record.y for record in part.records], rows)
    if not len(y):
        return {"samples": 0}

    def error(values: list[Any]) -> list[float]:
        return [float(e) for e in rmse(y, _stacked(values, rows))]

    def each(predictor: Callable[[Record], Any]) -> list[Any]:
        return [_assembled(record, lag, predictor) for record in part.records]

    mean = _stacked([f.mean for f in part.one_step], rows)
    std = _stacked([f.std for f in part.one_step], rows)
    return {
        "samples": len(y),
        "model": {
            "one_step": error([f.mean for f in part.one_step]),
            "free_run": error([f.mean for f in part.free_run]),
        },
        "linear_arx": {}
        if arx is None
        else {
            "one_step": error(each(arx.predict)),
            "free_run": error(each(arx.simulate)),
        },
        "persistence": {"one_step": error(each(persistence))},
        "one_step_inside_band": (np.abs(y - mean) <= BAND * std).mean(0).tolist(),
        **_surprise(part.free_run),
    }


def _surprise(forecasts: list[Forecast]) -> dict[str, Any]:
    """Return how far free runs went from what was seen; nothing if that is unknown."""
    known = [f.surprise for f in forecasts if f.surprise is not None]
    if not known:
        return {}
    values = np.concatenate(known)
    beyond = np.concatenate([f.beyond for f in forecasts])
    caveats = [f.caveat for f in forecasts if f.caveat]
    facts = {
        "largest": float(np.nanmax(values)),
        "limit": SURPRISE_LIMIT,
        "samples_beyond": int(beyond.sum()),
        "coverage_promised": not caveats,
        "caveats": caveats,
    }
    return {"surprise": facts}


class _MeanOnly:
    """A model that leaves out the standard deviations, which scores do not need."""

    def __init__(self, model: Model) -> None:
        self.max_lag_ = model.max_lag_
        self.predict = model.predict
        self._model = model

    def simulate(self, u: Any, y_init: Any = None) -> Forecast:
        return self._model.simulate(u, y_init, samples=0)


def protocol_scores(benchmark: Benchmark, model: Model) -> dict[str, Any]:
    """Return the errors on the benchmark's test record, protocol by protocol."""
    found: dict[str, Any] = {}
    own = ("A", "B", "C") if benchmark.window is None else ("window",)
    for protocol in ("one-step", *own):
        try:
            score = benchmark.score(_MeanOnly(model), protocol)
        except InputError as error:
            found[protocol] = {"rmse": None, "reason": str(error)}
            continue
        found[protocol] = {
            "rmse": score.rmse.tolist(),
            "first": score.first,
            "samples": score.samples,
        }
    return found


def _scored(record: Record, lag: int) -> NDArray[np.bool_]:
    """Return which rows have all their lags inside one stretch."""
    rows = np.zeros(len(record), dtype=bool)
    for segment in usable(record, lag):
        at = segment.start - record.start
        rows[at + max(lag, 1) : at + len(segment)] = True
    return rows


def _assembled(record: Record, lag: int, predictor: Callable[[Record], Any]) -> Any:
    values = np.full(record.y.shape, np.nan)
    for segment in usable(record, lag):
        at = segment.start - record.start
        values[at : at + len(segment)] = predictor(segment)
    return values


def _stacked(values: list[Any], rows: list[NDArray[np.bool_]]) -> Any:
    return np.concatenate([v[r] for v, r in zip(values, rows, strict=True)])
