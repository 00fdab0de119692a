"""The residual's model found: order and form by the Bayesian information criterion.

From free runs in blocks that their models had not learnt from: what is left over there
is what will be left over on other records.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sparsid.models.residual_model import ResidualModel

Values = NDArray[np.float64]

# Orders that are tried, and rows that each coefficient needs.
ORDERS = range(21)
ROWS_EACH = 5
FORMS = ("autoregression", "driven", "regression")


def residual_model(
    residuals: Sequence[Values],
    errors: Sequence[Values],
    u: Sequence[Values],
    runs: Sequence[Values],
) -> ResidualModel:
    """Return the model of what free runs leave over, stretch by stretch.

    Parameters
    ----------
    residuals
        Errors of the runs that are to be predicted, (time, output); others are NaN.
    errors
        Errors of the runs that predictions may know; NaN where nothing was measured.
    u, runs
        Inputs and free runs.
    """
    ny, nu = residuals[0].shape[1], u[0].shape[1]
    most = max(ORDERS)
    X, Y = _rows(residuals, errors, u, runs, most)
    if len(Y) < 2 * ROWS_EACH:
        whole = np.concatenate(residuals)
        variance = np.nanmean(whole**2, axis=0) if np.isfinite(whole).any() else 1.0
        return ResidualModel.none(nu, np.broadcast_to(variance, (ny,)).copy())
    # Of a slow system all lags are nearly the same: squares of their columns would lose
    # the digits that tell them apart.
    both = np.concatenate([X, Y], axis=1)
    triangle = np.asarray(np.linalg.qr(both, mode="r"))
    own, target = triangle[:, : X.shape[1]], triangle[:, X.shape[1] :]
    best: tuple[float, Values, Values] | None = None
    for order in ORDERS:
        for form in FORMS:
            free, fixed = _form(form, order, most, ny, nu)
            if free.shape[1] * ROWS_EACH > len(Y):
                continue
            columns, goal = own @ free, target - own @ fixed
            size = np.linalg.norm(columns, axis=0)
            size[size == 0.0] = 1.0
            theta = np.linalg.lstsq(columns / size, goal, rcond=None)[0]
            error = goal - columns / size @ theta
            left = error.T @ error
            variance = np.maximum(np.diagonal(left) / len(Y), 1e-14)
            score = len(Y) * np.log(variance).sum() + np.log(len(Y)) * theta.size
            if best is None or score < best[0]:
                whole = fixed + free @ (theta / size[:, None])
                spare = max(len(Y) - free.shape[1], 1)
                best = (float(score), whole, left / spare)
    assert best is not None
    return _unpacked(best[1], best[2], most, ny, nu)


def _rows(
    residuals: Sequence[Values],
    errors: Sequence[Values],
    u: Sequence[Values],
    runs: Sequence[Values],
    most: int,
) -> tuple[Values, Values]:
    """Return regressors and residuals of the samples whose lags are all known.

    Columns: residuals of lag 1 to ``most``, inputs and runs of lag 0 to ``most``, one.
    """
    X, Y = [], []
    for r, e, v, s in zip(residuals, errors, u, runs, strict=True):
        n = len(r) - most
        if n <= 0:
            continue
        columns = [e[most - k : len(r) - k] for k in range(1, most + 1)]
        for signal in (v, s):
            columns += [signal[most - k : len(r) - k] for k in range(most + 1)]
        stack = np.concatenate([*columns, np.ones((n, 1))], axis=1)
        good = np.isfinite(stack).all(1) & np.isfinite(r[most:]).all(1)
        X.append(stack[good])
        Y.append(r[most:][good])
    if not X:
        width = most * residuals[0].shape[1] + 1
        return np.zeros((0, width)), np.zeros((0, residuals[0].shape[1]))
    return np.concatenate(X), np.concatenate(Y)


def _form(form: str, order: int, most: int, ny: int, nu: int) -> tuple[Values, Values]:
    """Return how a form's free coefficients make up those of all columns.

    Coefficients are ``fixed + free @ theta``. An "autoregression" of the residual knows
    nothing else; "driven", it sees inputs and runs, too; a "regression" is that of
    outputs on outputs and inputs, whatever the run says.
    """
    inputs, runs = most * ny, most * ny + (most + 1) * nu
    one = np.eye(runs + (most + 1) * ny + 1)
    fixed = np.zeros((len(one), ny))
    past = one[:, : order * ny]
    seen = one[:, inputs : inputs + (order + 1) * nu]
    if form == "autoregression":
        return past, fixed
    if form == "driven":
        run = one[:, runs : runs + (order + 1) * ny]
        return np.concatenate([past, seen, run, one[:, -1:]], axis=1), fixed
    before = one[:, runs + ny : runs + (order + 1) * ny]
    fixed[runs : runs + ny] = -np.eye(ny)
    return np.concatenate([past + before, seen, one[:, -1:]], axis=1), fixed


def _unpacked(
    theta: Values, covariance: Values, most: int, ny: int, nu: int
) -> ResidualModel:
    """Return the model with rows of coefficients, without lags that are all zero."""

    def matrices(first: int, lags: int, width: int) -> Values:
        block = theta[first : first + lags * width].reshape(lags, width, ny)
        used = np.flatnonzero(np.abs(block).sum((1, 2)))
        length = int(used[-1]) + 1 if used.size else 0
        return np.ascontiguousarray(block[:length].transpose(0, 2, 1))

    after = most * ny + (most + 1) * nu
    return ResidualModel(
        matrices(0, most, ny),
        matrices(most * ny, most + 1, nu),
        matrices(after, most + 1, ny),
        theta[-1].copy(),
        covariance,
    )
