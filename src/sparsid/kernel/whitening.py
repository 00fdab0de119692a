"""Residuals and derivatives made independent: an AR filter that minds gaps.

What a free run leaves over is taken as an autoregression of order p,

    v(t) = a_1 v(t-1) + ... + a_p v(t-p) + e(t),

At the start of a run, and after p or more samples without a measurement, the best
predictors of orders 0, 1, ... take its place (`predictors`), so that the likelihood is
exact for a run without gaps. Across a shorter gap what is missing is replaced by what
was expected, with the variance of so many steps ahead.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sparsid.kernel.compiling import compiled

Values = NDArray[np.float64]


@compiled("f8(f8[:,::1],f8[::1],f8[::1],f8[::1],f8[:,:])")
def whiten(
    predictors: Values, variances: Values, ahead: Values, seen: Values, columns: Values
) -> float:
    """Whiten columns in place; return the log-determinant of the noise.

    Parameters
    ----------
    predictors, variances
        Row k: coefficients of the predictor of order k, and the variance of its error.
    ahead
        Variance of a prediction 1, 2, ... p steps ahead, at full order.
    seen
        One where a sample was measured, zero where not: there columns become zero.
    columns
        (time, column): residual and derivatives.
    """
    order, count = len(predictors) - 1, columns.shape[1]
    ring = np.zeros((order + 1, count))
    expected = np.zeros(count)
    known, gap, log_det = 0, 0, 0.0
    for t in range(len(columns)):
        for q in range(count):
            expected[q] = 0.0
        for k in range(known):
            a = predictors[known, k]
            row = (t - 1 - k) % (order + 1)
            for q in range(count):
                expected[q] += a * ring[row, q]
        here = t % (order + 1)
        if seen[t] > 0.0:
            F = variances[known] if gap == 0 else ahead[gap]
            if known < order and gap > 0:
                F = variances[0]
            scale = 1.0 / np.sqrt(F)
            log_det += np.log(F)
            for q in range(count):
                ring[here, q] = columns[t, q]
                columns[t, q] = (columns[t, q] - expected[q]) * scale
            gap = 0
            known = min(known + 1, order)
        else:
            gap += 1
            for q in range(count):
                ring[here, q] = expected[q]
                columns[t, q] = 0.0
            # What was expected of nothing known is not known either.
            lost = known == 0 or gap >= order
            known = 0 if lost else min(known + 1, order)
            if lost:
                gap = 0
    return log_det
