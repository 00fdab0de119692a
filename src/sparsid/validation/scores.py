"""How far a forecast is from what was measured, one number for each output."""

from typing import Any

import numpy as np
from jaxtyping import Float

from sparsid.errors import InputError

Scores = Float[np.ndarray, " outputs"]


def rmse(measured: Any, forecast: Any) -> Scores:
    """Return the root of the mean squared error, in the unit of each output.

    Parameters
    ----------
    measured
        A record, or outputs as 1-D or (time, channel). Samples that are NaN are left
        out.
    forecast
        An object with `mean` and `start`, or an array. Samples before `start` are
        left out, and so is where an array begins with NaN. A NaN later on, at a
        measured sample, means that the run diverged, and the score is inf; unless the
        forecast has a field `diverged_at` that says it did not: then there was no
        forecast for that sample, after a gap say, and it is left out.
    """
    y, error = _compare(measured, forecast)
    with np.errstate(over="ignore"):
        root: np.ndarray = np.sqrt(_mean(error**2, y))
    return root


def r2(measured: Any, forecast: Any) -> Scores:
    """Return 1 - |error|^2 / |y - mean(y)|^2; -inf for a run that diverged.

    For a measured output that is constant any error counts as infinitely bad.

    Parameters
    ----------
    measured, forecast
        As for `rmse`.
    """
    return 1 - _relative_error(measured, forecast) ** 2


def fit_percent(measured: Any, forecast: Any) -> Scores:
    """Return 100 (1 - |error| / |y - mean(y)|), the fit usual in identification.

    Parameters
    ----------
    measured, forecast
        As for `rmse`.
    """
    return 100 * (1 - _relative_error(measured, forecast))


def _relative_error(measured: Any, forecast: Any) -> Scores:
    y, error = _compare(measured, forecast)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        spread = _mean((y - _mean(y, y)) ** 2, y)
        ratio = np.sqrt(_mean(error**2, y) / spread)
    # 0/0: a constant output that was met exactly.
    return np.where(np.isnan(ratio), 0.0, ratio)


def _mean(values: Any, y: Any) -> Any:
    """Return the mean over the samples at which y was measured."""
    return np.mean(values, axis=0, where=~np.isnan(y))


def _compare(measured: Any, forecast: Any) -> tuple[Any, Any]:
    """Return measured outputs and errors over the samples that count."""
    y = _columns(getattr(measured, "y", measured), "measured")
    start, complete = 0, False
    # Arrays and tables have a *method* mean, forecasts a field.
    if hasattr(forecast, "mean") and not callable(forecast.mean):
        start = int(getattr(forecast, "start", 0))
        complete = getattr(forecast, "diverged_at", 0) is None
        forecast = forecast.mean
    mean = _columns(forecast, "forecast")
    if y.shape != mean.shape:
        raise InputError(
            f"The measured outputs have shape {y.shape} but the forecast has "
            f"{mean.shape}: both need the same samples and channels."
        )
    y, mean = y[start:], mean[start:]
    # What only starts a run has no forecast yet; all NaN is no start.
    known = np.logical_or.accumulate(~np.isnan(mean), axis=0)
    y = np.where(known | ~known[-1:], y, np.nan) if len(y) else y
    if complete:
        y = np.where(np.isnan(mean), np.nan, y)
    missing = np.isnan(y).all(axis=0)
    if missing.any():
        raise InputError(
            f"Output channel {int(np.argmax(missing)) + 1} has no measured sample from "
            f"sample {start} on: there is nothing to score."
        )
    return y, np.where(np.isnan(mean), np.inf, mean - y)


def _columns(values: Any, what: str) -> Any:
    try:
        values = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"The {what} outputs are a {type(values).__name__} that is no array of "
            "numbers: give a record, a forecast or (time, channel) values."
        ) from error
    if values.ndim not in (1, 2):
        raise InputError(
            f"The {what} outputs have shape {values.shape} but 1-D or (time, channel) "
            "is needed."
        )
    return values[:, None] if values.ndim == 1 else values
