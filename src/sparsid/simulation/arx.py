"""Linear regressions on past outputs and inputs: dead times, and impulse responses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sparsid.simulation.evidence import Run
from sparsid.simulation.signals import Signals

Values = NDArray[np.float64]

# Orders that the scan for dead times looks at.
SCANNED_ORDERS = (1, 2, 3, 4, 6, 8)
# Ridge, relative to the energy of a regressor.
RIDGE = 1e-9

# With fewer rows for each column than this, short gaps of the outputs are bridged.
FEW_ROWS, LONGEST_BRIDGE = 1.5, 10


@dataclass(frozen=True, eq=False)
class Lagged:
    """Normal matrices of outputs on their past and on inputs, for every lag at once.

    Columns of ``gram``: outputs lag by lag from 1, inputs lag by lag from 0, the
    constant, the outputs themselves.
    """

    gram: Values
    rows: int
    past: int
    deepest: int
    outputs: int
    inputs: int

    @staticmethod
    def of(runs: Sequence[Run], past: int, deepest: int) -> Lagged:
        """Collect samples whose past outputs were all measured."""
        ny, nu = runs[0].y.shape[1], runs[0].u.shape[1] - 1
        size = past * ny + (deepest + 1) * nu + 1 + ny
        gram, rows = np.zeros((size, size)), 0
        first = max(past, deepest)
        whole_rows = [np.asarray(run.seen.all(axis=1)) for run in runs]
        measured = [run.y for run in runs], whole_rows
        if _usable(whole_rows, past) < FEW_ROWS * size:
            measured = _bridged(runs)
        for run, y, whole in zip(runs, *measured, strict=True):
            length = len(run.y)
            if length <= first:
                continue
            u = run.u[:, :nu]
            good = np.ones(length - first, dtype=bool)
            for k in range(past + 1):
                good &= whole[first - k : length - k]
            columns = [y[first - k : length - k] for k in range(1, past + 1)]
            columns += [u[first - k : length - k] for k in range(deepest + 1)]
            columns += [np.ones((length - first, 1)), y[first:]]
            stack = np.concatenate(columns, axis=1)[good]
            gram += stack.T @ stack
            rows += len(stack)
        return Lagged(gram, rows, past, deepest, ny, nu)

    def columns(self, order: int, delays: Sequence[int]) -> NDArray[np.int64]:
        """Return the columns of a regression: that many past outputs and inputs."""
        ny, nu = self.outputs, self.inputs
        y = np.arange(order * ny)
        base = self.past * ny
        u = [
            base + (d + k) * nu + i
            for i, d in enumerate(delays)
            for k in range(order + 1)
        ]
        return np.concatenate(
            [y, np.array(u, dtype=int), [base + (self.deepest + 1) * nu]]
        )

    def solve(self, columns: NDArray[np.int64]) -> tuple[Values, Values]:
        """Return coefficients (regressor, output) and residual covariance."""
        G = self.gram[np.ix_(columns, columns)]
        scale = 1.0 / np.sqrt(np.maximum(np.diagonal(G), 1e-300))
        M = scale[:, None] * G * scale
        M[np.diag_indices_from(M)] += RIDGE
        ny = self.outputs
        right = self.gram[columns, -ny:]
        theta = scale[:, None] * np.linalg.solve(M, scale[:, None] * right)
        left = self.gram[-ny:, -ny:] - right.T @ theta
        return theta, (left + left.T) / 2.0 / max(self.rows, 1)

    def bic(self, order: int, delays: Sequence[int]) -> float:
        """Return the criterion of Schwarz of a regression."""
        columns = self.columns(order, delays)
        _, left = self.solve(columns)
        variances = np.maximum(np.diagonal(left), 1e-12)
        free = len(columns) * self.outputs
        return float(
            self.rows * np.log(variances).sum() + free * np.log(max(self.rows, 1))
        )


def _usable(whole: Sequence[NDArray[np.bool_]], lags: int) -> int:
    """Return how many samples have all of so many samples before them."""
    kernel = np.ones(lags + 1)
    counts = (np.convolve(w, kernel, "valid") for w in whole if len(w) > lags)
    return sum(int((c > lags + 0.5).sum()) for c in counts)


def _bridged(runs: Sequence[Run]) -> tuple[list[Values], list[NDArray[np.bool_]]]:
    """Return outputs with straight lines across short gaps, and where they are whole.

    A regression on them is biased; it only has to be a beginning.
    """
    outputs, whole = [], []
    for run in runs:
        y, there = run.y.copy(), np.ones(len(run.y), dtype=bool)
        for o in range(y.shape[1]):
            at = np.flatnonzero(run.seen[:, o] > 0)
            if not len(at):
                there[:] = False
                continue
            places = np.arange(len(y))
            y[:, o] = np.interp(places, at, y[at, o])
            after = np.searchsorted(at, places, side="left")
            gap = at[np.minimum(after, len(at) - 1)] - at[np.maximum(after - 1, 0)]
            seen = run.seen[:, o] > 0
            inside = (after > 0) & (after < len(at)) & (gap <= LONGEST_BRIDGE)
            there &= seen | inside
        outputs.append(y)
        whole.append(there)
    return outputs, whole


def dead_times(
    signals: Signals, stop: Callable[[], bool] | None = None
) -> tuple[int, ...]:
    """Return the delay of every input, in samples, by the smallest criterion.

    Told to stop, inputs that were not looked at have none.
    """
    nothing = (0,) * signals.inputs
    orders = [m for m in SCANNED_ORDERS if m * 12 * signals.inputs < signals.samples]
    if not orders:
        return nothing
    longest = int(min(60, signals.samples // 20, max(len(y) for y in signals.y) // 8))
    past = max(orders)
    lagged = Lagged.of(signals.runs(nothing), past, past + longest)
    if lagged.rows < 4 * len(lagged.gram) / 2:
        return nothing
    delays = list(nothing)
    for _ in range(2 if signals.inputs > 1 else 1):
        for i in range(signals.inputs):
            scores = {}
            for d in range(longest + 1):
                if stop is not None and stop():
                    return tuple(delays)
                tried = [*delays[:i], d, *delays[i + 1 :]]
                scores[d] = min(lagged.bic(m, tried) for m in orders)
            delays[i] = min(scores, key=lambda d: scores[d])
    return tuple(delays)


def impulse_response(
    theta: Values, order: int, outputs: int, inputs: int, length: int
) -> Values:
    """Return Markov parameters (time, outputs, inputs) of an undelayed regression."""
    ny, nu = outputs, inputs
    past = theta[: order * ny].reshape(order, ny, ny)
    direct = theta[order * ny : order * ny + (order + 1) * nu].reshape(
        nu, order + 1, ny
    )
    h = np.zeros((length, ny, nu))
    for t in range(length):
        if t <= order:
            h[t] = direct[:, t].T
        for k in range(1, min(order, t) + 1):
            h[t] += past[k - 1].T @ h[t - k]
        if not np.abs(h[t]).max(initial=0.0) < 1e6:
            h[t:] = 0.0
            break
    return h
