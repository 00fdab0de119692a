"""Two simple predictors that a model has to beat, on the same rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsid.forecasts import DIVERGED
from sparsid.models.narx import Lags, regression_rows
from sparsid.records import Record
from sparsid.scaling import Scaling

Values = NDArray[np.float64]


def persistence(record: Record) -> Values:
    """Return the forecast that nothing changes: ``y(t-1)``, NaN at the first sample."""
    return np.concatenate([np.full((1, record.n_outputs), np.nan), record.y[:-1]])


@dataclass(frozen=True, eq=False)
class Arx:
    """Linear model with constant, of the same lags as a NARX model.

    Attributes
    ----------
    weights
        (regressors + 1, outputs), scaled units; the last row is the constant.
    """

    lags: Lags
    scaling: Scaling
    weights: Values

    @staticmethod
    def fit(records: list[Record], lags: Lags, scaling: Scaling) -> Arx:
        """Return the least-squares fit to the one-step error over all records."""
        rows, targets = [], []
        for record in records:
            for segment in record.segments():
                if len(segment) > lags.max_lag:
                    u, y = scaling.scale_u(segment.u), scaling.scale_y(segment.y)
                    rows.append(_rows(lags, u, y))
                    targets.append(y[lags.max_lag :])
        weights = np.linalg.lstsq(
            np.concatenate(rows), np.concatenate(targets), rcond=None
        )[0]
        return Arx(lags, scaling, weights)

    @staticmethod
    def chosen(records: list[Record], scaling: Scaling, largest: int = 20) -> Arx:
        """Return the fit with the lag that the Bayesian information criterion prefers.

        All lags are compared on the rows that the largest leaves.
        """
        first = records[0]
        longest = max(len(s) for r in records for s in r.segments())
        largest = max(1, min(largest, longest // 4))
        best, least = 1, np.inf
        for lag in range(1, largest + 1):
            lags = Lags(first.n_inputs, first.n_outputs, lag, lag)
            model = Arx.fit(records, lags, scaling)
            residuals = []
            for segment in (s for r in records for s in r.segments()):
                if len(segment) > largest:
                    error = (segment.y - model.predict(segment)) / scaling.y_std
                    residuals.append(error[largest:])
            errors = np.concatenate(residuals)
            rows = len(errors)
            fit = rows * np.log(np.maximum((errors**2).mean(0), 1e-300)).sum()
            criterion = fit + model.weights.size * np.log(rows)
            if criterion < least:
                best, least = lag, criterion
        return Arx.fit(
            records, Lags(first.n_inputs, first.n_outputs, best, best), scaling
        )

    def predict(self, segment: Record) -> Values:
        """Return one-step predictions over a record without gaps."""
        u = self.scaling.scale_u(segment.u)
        y = self.scaling.scale_y(segment.y)
        return self._whole(_rows(self.lags, u, y) @ self.weights, len(segment))

    def simulate(self, segment: Record) -> Values:
        """Return the free run from the first outputs; NaN from where it diverges."""
        lags, lag = self.lags, self.lags.max_lag
        u = self.scaling.scale_u(segment.u)
        y = np.zeros((len(u), lags.n_outputs))
        y[:lag] = self.scaling.scale_y(segment.y[:lag])
        # With outputs of zero the rows hold the inputs' part and the constant.
        driven = _rows(lags, u, np.zeros_like(y)) @ self.weights
        fed_back = [
            (k, r.lag, r.channel) for k, r in enumerate(lags.table) if r.signal == "y"
        ]
        places, ages, channels = np.array(fed_back, dtype=int).reshape(-1, 3).T
        weights = self.weights[places]
        for t in range(lag, len(y)):
            y[t] = driven[t - lag] + y[t - ages, channels] @ weights
            if not (np.abs(y[t]) < DIVERGED).all():
                y[t:] = np.nan
                break
        return self._whole(y[lag:], len(segment))

    def _whole(self, values: Any, length: int) -> Values:
        """Return values in the data's units, NaN before the first."""
        whole = np.full((length, self.lags.n_outputs), np.nan)
        whole[length - len(values) :] = self.scaling.unscale_y(values)
        return whole


def _rows(lags: Lags, u: Any, y: Any) -> Values:
    z = regression_rows(lags.table, lags.max_lag, u, y)
    return np.column_stack([z, np.ones(len(z))])
