"""Two simple predictors that a model has to beat, on the same rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsid.data.pieces import stretches_of
from sparsid.data.record import Record
from sparsid.data.scaling import Scaling
from sparsid.errors import InputError
from sparsid.models.narx import Lags, regression_rows
from sparsid.results.forecast import DIVERGED, first_whole

Values = NDArray[np.float64]
# Samples in a row from which a linear model can be told.
FEWEST_SAMPLES = 8


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
        inputs, outputs = [r.u for r in records], [r.y for r in records]
        return Arx.fit_arrays(inputs, outputs, lags, scaling)

    @staticmethod
    def fit_arrays(
        inputs: list[Values], outputs: list[Values], lags: Lags, scaling: Scaling
    ) -> Arx:
        """Return the fit to the rows of which everything was measured."""
        rows, targets = [], []
        for u, y in zip(inputs, outputs, strict=True):
            if len(y) > lags.max_lag:
                u_s, y_s = scaling.scale_u(u), scaling.scale_y(y)
                rows.append(_rows(lags, u_s, y_s))
                targets.append(y_s[lags.max_lag :])
        z, target = np.concatenate(rows), np.concatenate(targets)
        whole = ~(np.isnan(z).any(1) | np.isnan(target).any(1))
        weights = np.linalg.lstsq(z[whole], target[whole], rcond=None)[0]
        return Arx(lags, scaling, weights)

    @staticmethod
    def chosen(records: list[Record], scaling: Scaling, largest: int = 20) -> Arx:
        """Return the fit with the lag that the Bayesian information criterion prefers.

        All lags are compared on the rows that the largest leaves.
        """
        first = records[0]
        segments = [s for r in records for s in r.segments()]
        longest = max((len(s) for s in segments), default=0)
        if longest < FEWEST_SAMPLES:
            raise InputError(
                f"the longest stretch without gaps has {longest} samples: at least "
                f"{FEWEST_SAMPLES} are needed for a linear model"
            )
        largest = max(1, min(largest, longest // 4))
        kept = [s for s in segments if len(s) > largest]
        rows = sum(len(s) - largest for s in kept)
        found: list[tuple[float, Arx]] = []
        for lag in range(1, largest + 1):
            lags = Lags(first.n_inputs, first.n_outputs, lag, lag)
            # With few rows for each weight the criterion only sees how well they fit.
            if found and len(lags.table) + 1 > rows / 3:
                break
            model = Arx.fit(records, lags, scaling)
            errors = np.concatenate([(s.y - model.predict(s))[largest:] for s in kept])
            mean = ((errors / scaling.y_std) ** 2).mean(0)
            fit = rows * np.log(np.maximum(mean, 1e-300)).sum()
            found.append((fit + model.weights.size * np.log(rows), model))
        return min(found, key=lambda pair: pair[0])[1]

    def predict(self, record: Record) -> Values:
        """Return one-step predictions over a record, NaN where a lag is missing."""
        u = self.scaling.scale_u(record.u)
        y = self.scaling.scale_y(record.y)
        return self._whole(_rows(self.lags, u, y) @ self.weights, len(record))

    def simulate(self, record: Record) -> Values:
        """Return the free run over a record, infinite from where it diverges.

        As the runs of models it goes through missing outputs, and begins anew where
        inputs were missing.
        """
        found = np.full(record.y.shape, np.nan)
        lag = self.lags.max_lag
        for stretch in stretches_of([record]):
            first = first_whole(np.isnan(stretch.y).any(1), lag)
            if len(stretch) - first > lag:
                at = stretch.start - record.start
                own = self._run(stretch[first:])
                found[at + first : at + len(stretch)] = own
        return found

    def _run(self, stretch: Record) -> Values:
        """Return the free run from the first outputs."""
        lags, lag = self.lags, self.lags.max_lag
        u = self.scaling.scale_u(stretch.u)
        y = np.zeros((len(u), lags.n_outputs))
        y[:lag] = self.scaling.scale_y(stretch.y[:lag])
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
                y[t:] = np.inf
                break
        return self._whole(y[lag:], len(stretch))

    def _whole(self, values: Any, length: int) -> Values:
        """Return values in the data's units, NaN before the first."""
        whole = np.full((length, self.lags.n_outputs), np.nan)
        whole[length - len(values) :] = self.scaling.unscale_y(values)
        return whole


def _rows(lags: Lags, u: Any, y: Any) -> Values:
    z = regression_rows(lags.table, lags.max_lag, u, y)
    return np.column_stack([z, np.ones(len(z))])
