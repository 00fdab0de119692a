"""What an output error tells about the state: the gain of the observer.

    x+ = hold(f(x, u) + K (y - y_model))

``K`` is the steady gain of a Kalman filter for the model linearised at the mean state
of the estimation records and the mean input,

    K = A P C' (C P C' + R)^-1,   P = A P A' + Q - K C P A'

``R`` is the variance of what free runs leave over, output by output. ``Q = S / k^2``
with the covariance ``S`` of the states over the records and the number ``k`` of
measured outputs that settle a start state. So each sample may move a state by a
``k``-th of its spread: where the noise is smaller than the signal, ``k`` samples are
enough to settle, and where it is larger the observer averages over more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsid.kernel.activations import NAMES, activate

Values = NDArray[np.float64]

# Most steps of the recursion for P: as many as the slowest model needs.
STEPS, SETTLED = 5_000, 1e-12


def observer_gain(
    matrices: Mapping[str, Values],
    first: Any,
    deeper: Sequence[Any],
    states: tuple[Values, Values],
    noise: Values,
    known: int,
) -> Values:
    """Return the gain K, (state, output).

    Parameters
    ----------
    matrices
        Canonical matrices.
    first, deeper
        Layers of neurons: ``weights``, ``bias``, ``kinds`` and ``limits``.
    states
        Mean and covariance of the states over the estimation records.
    noise
        Variance of what free runs leave over, by output.
    known
        Measured outputs that settle a start state.
    """
    mean, spread = states
    value, slope = _activated(first, first.weights @ mean + first.bias)
    J = slope[:, None] * first.weights
    for layer in deeper:
        value, slope = _activated(layer, layer.weights @ value + layer.bias)
        J = slope[:, None] * (layer.weights @ J)
    A, C = matrices["A"] + matrices["E"] @ J, matrices["C"] + matrices["G"] @ J
    Q, R = spread / max(known, 1) ** 2, np.diag(noise)
    P, K = spread, np.zeros((len(A), len(C)))
    for _ in range(STEPS):
        before, K = K, np.linalg.solve(C @ P @ C.T + R, C @ P @ A.T).T
        P = A @ P @ A.T + Q - K @ C @ P @ A.T
        P = 0.5 * (P + P.T)
        if np.abs(K - before).max() < SETTLED:
            break
    return np.asarray(K)


def _activated(layer: Any, z: Values) -> tuple[Values, Values]:
    """Return values and slopes of the neurons of a layer."""
    rows = [
        (max(a, 0.0), float(a > 0.0), 0.0)
        if kind == "relu"
        else activate(NAMES.index(kind), float(a), float(limit))
        for kind, a, limit in zip(layer.kinds, z, layer.limits, strict=True)
    ]
    found = np.array(rows, dtype=float).reshape(-1, 3)
    return found[:, 0], found[:, 1]
