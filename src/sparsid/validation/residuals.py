"""Residuals one step ahead: correlated with themselves, or with an input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from sparsid.data.record import Record
from sparsid.errors import InputError
from sparsid.results.forecast import Forecast, half_width, paired

Values = NDArray[np.float64]
# Largest lag, and the confidence of the limits.
LAGS, CONFIDENCE = 25, 0.99
# Beyond so many limits a single lag is no chance: one in ten thousand.
FAR_OUTSIDE = 1.5


@dataclass(frozen=True, eq=False)
class Correlation:
    """Correlation of residuals with themselves or with an input, lag by lag.

    Attributes
    ----------
    source
        The input, None for the residuals themselves.
    lags, values
        ``corr(e(t), source(t - lag))``; lag 0 of the residuals themselves is left out.
    limit
        99 % of independent residuals stay below it, at each lag.
    p_value
        Probability of correlations as large in all if there were none (Ljung and Box);
        for the residuals themselves.
    """

    output: str
    source: str | None
    lags: NDArray[np.int64]
    values: Values
    limit: float
    p_value: float | None

    @property
    def outside(self) -> int:
        """Number of lags beyond the limit."""
        return int((np.abs(self.values) > self.limit).sum())

    @property
    def passed(self) -> bool:
        """Whether no more lags are outside, and no further, than chance puts there."""
        allowed = max(1, round(2 * (1 - CONFIDENCE) * len(self.values)))
        far = np.abs(self.values).max() > FAR_OUTSIDE * self.limit
        return bool(self.outside <= allowed and not far)

    @property
    def verdict(self) -> str:
        """The result in plain words."""
        worst = int(np.argmax(np.abs(self.values)))
        most = f"largest {self.values[worst]:+.2f} at lag {self.lags[worst]}"
        what = (
            f"residuals of {self.output}"
            if self.source is None
            else f"residuals of {self.output} and {self.source}"
        )
        if self.passed:
            return f"{what}: no correlation beyond chance ({most})"
        counted = f"{self.outside} of {len(self.lags)} lags outside the limits, {most}"
        if self.source is None:
            return f"{what} are correlated: {counted}; dynamics or noise are left over"
        return f"{what} are correlated: {counted}; not all of its effect is modelled"


def residual_tests(
    records: Record | Sequence[Record],
    forecasts: Forecast | Sequence[Forecast],
    lags: int = LAGS,
) -> list[Correlation]:
    """Return the correlation tests of one-step residuals.

    Parameters
    ----------
    forecasts
        One-step predictions over the records.
    lags
        Largest lag.
    """
    records, forecasts = paired(records, forecasts)
    first = records[0]
    errors = [r.y - f.mean for r, f in zip(records, forecasts, strict=True)]
    tests = []
    for k, output in enumerate(first.output_names):
        e = [error[:, k] for error in errors]
        count = sum(int(np.isfinite(v).sum()) for v in e)
        used = min(lags, count // 4)
        if used < 1:
            raise InputError(
                f"{count} residuals of {output} are too few for correlations: give a "
                "longer record"
            )
        own = _correlations(e, e, used)
        shares = own[1:] ** 2 / (count - np.arange(1, used + 1))
        p_value = float(chi2.sf(count * (count + 2) * shares.sum(), used))
        steps = np.arange(1, used + 1)
        limit = half_width(CONFIDENCE) / np.sqrt(count)
        tests.append(Correlation(output, None, steps, own[1:], limit, p_value))
        for i, source in enumerate(first.input_names):
            u = [r.u[:, i] for r in records]
            input_own = _correlations(u, u, used)
            # What two independent but coloured signals correlate by chance.
            spread = 1.0 + 2.0 * float((own[1:] * input_own[1:]).sum())
            wide = limit * np.sqrt(max(spread, 0.1))
            cross = _correlations(e, u, used)
            tests.append(
                Correlation(output, source, np.arange(used + 1), cross, wide, None)
            )
    return tests


def _correlations(a: list[Values], b: list[Values], lags: int) -> Values:
    """Return ``corr(a(t), b(t - k))`` for k up to ``lags``, without missing samples."""
    a = [v - np.nanmean(np.concatenate(a)) for v in a]
    b = [v - np.nanmean(np.concatenate(b)) for v in b]
    scale = np.sqrt(
        np.nanmean(np.concatenate(a) ** 2) * np.nanmean(np.concatenate(b) ** 2)
    )
    found = []
    for k in range(lags + 1):
        pairs = zip(a, b, strict=True)
        products = np.concatenate([x[k:] * y[: len(y) - k] for x, y in pairs])
        known = products[np.isfinite(products)]
        # Over all samples, not over the pairs: so that they form a covariance.
        total = sum(int(np.isfinite(v).sum()) for v in a)
        found.append(known.sum() / (total * scale) if scale > 0.0 else 0.0)
    return np.array(found)
