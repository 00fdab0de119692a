"""A finished model against what was measured: forecasts, errors, baselines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sparsid.data.record import Record
from sparsid.results.base import FittedModel, HasResult, result_of
from sparsid.results.forecast import BAND, Forecast, over_segments
from sparsid.results.outcome import Outcome
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
    model: FittedModel | HasResult,
    name: PartName,
    records: list[Record],
    numbers: list[int],
) -> Part:
    """Return one-step predictions and free runs over records."""
    # The weights of a diverged model are not finite, and there is nothing to draw.
    fitted = result_of(model)
    samples = 0 if fitted.outcome is Outcome.DIVERGED else 100
    lag = fitted.start_samples

    def run(segment: Record) -> Forecast:
        return fitted.simulate(segment, samples=samples)

    return Part(
        name,
        records,
        numbers,
        [over_segments(record, lag, fitted.predict) for record in records],
        [over_segments(record, lag, run) for record in records],
    )


def usable(record: Record, lag: int) -> list[Record]:
    """Return the gap-free stretches that are longer than the largest lag."""
    return [s for s in record.segments() if len(s) > max(lag, 1)]


def scores(
    part: Part, model: FittedModel | HasResult, arx: Arx | None
) -> dict[str, Any]:
    """Return the errors of model and baselines on the same rows of all records.

    Rows count that have all their lags inside one gap-free stretch. A run that
    diverged has an infinite error.
    """
    lag = result_of(model).start_samples
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
    }


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
