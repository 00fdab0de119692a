"""A finished model against what was measured: forecasts, errors, baselines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sparsid.data.record import Record
from sparsid.results.base import FittedModel, HasResult, result_of
from sparsid.results.forecast import BAND, SURPRISE_LIMIT, Forecast, over_record
from sparsid.results.outcome import Outcome
from sparsid.validation.baselines import Arx, persistence
from sparsid.validation.scores import fit_percent, rmse

PartName = Literal["estimation", "test"]
Values = NDArray[np.float64]


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
    return Part(name, records, numbers, *forecasts_over(result_of(model), records))


def forecasts_over(
    fitted: FittedModel, records: list[Record], samples: int = 100, seed: int = 0
) -> tuple[list[Forecast], list[Forecast]]:
    """Return predictions one step ahead and free runs over each record.

    Parameters
    ----------
    samples, seed
        Draws behind the bands of the free run.
    """
    # The weights of a diverged model are not finite, and there is nothing to draw.
    samples = 0 if fitted.outcome is Outcome.DIVERGED else samples
    lag = fitted.start_samples

    def run(record: Record) -> Forecast:
        return fitted.simulate(record, samples=samples, seed=seed)

    return (
        [over_record(record, lag, fitted.predict) for record in records],
        [over_record(record, lag, run) for record in records],
    )


def scores(
    part: Part, model: FittedModel | HasResult, arx: Arx | None
) -> dict[str, Any]:
    """Return the errors of model and baselines over all records together.

    Those of the model count every measured sample that it has a forecast for, as `rmse`
    does; baselines count those of them that they have a forecast for, too. A run that
    diverged has an infinite error.
    """
    records = part.records
    y = np.concatenate([record.y for record in records])
    one_step, free_run = (
        np.concatenate([_present(f) for f in forecasts])
        for forecasts in (part.one_step, part.free_run)
    )
    counted = np.isfinite(y) & ~np.isnan(free_run)
    predicted = np.isfinite(y) & ~np.isnan(one_step)
    if not (counted.any(0) & predicted.any(0)).all():
        return {"samples": 0}

    def errors(values: Any, rows: Values) -> list[float]:
        both = np.isnan(values) | np.isnan(rows)
        measured = np.where(both, np.nan, y)
        if np.isnan(measured).all(0).any():
            return []
        return [float(e) for e in rmse(measured, np.where(both, 0.0, values))]

    def baseline(predictor: Callable[[Record], Any]) -> Any:
        return np.concatenate([predictor(record) for record in records])

    linear = {}
    if arx is not None:
        linear = {
            "one_step": errors(baseline(arx.predict), one_step),
            "free_run": errors(baseline(arx.simulate), free_run),
        }
    std = np.concatenate([f.std for f in part.one_step])
    inside = np.abs(y - one_step) <= BAND * std
    return {
        "samples": int(counted.any(1).sum()),
        "model": {
            "one_step": errors(one_step, one_step),
            "free_run": errors(free_run, free_run),
        },
        "linear_arx": linear if all(linear.values()) else {},
        "persistence": {"one_step": errors(baseline(persistence), one_step)},
        "free_run_fit_percent": _fit_percent(
            np.where(counted, y, np.nan), np.where(counted, free_run, 0.0)
        ),
        "one_step_inside_band": inside.mean(0, where=predicted).tolist(),
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


def _fit_percent(y: Values, run: Values) -> list[float]:
    """Return how much of the measured samples runs explain; minus infinity if none."""
    return [float(f) for f in fit_percent(y, run)]


def _present(forecast: Forecast) -> Values:
    """Return a forecast, infinite where it diverged, NaN where there is none."""
    mean = forecast.mean
    if forecast.diverged_at is None:
        return mean
    late = np.arange(len(mean))[:, None] >= forecast.diverged_at
    return np.where(late & np.isnan(mean), np.inf, mean)
