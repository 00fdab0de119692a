"""What leads from inputs to an output: dead times, coherence, feedback, memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparsid.data.advice.findings import Values

# Orders of the autoregressions that whiten signals before they are correlated.
WHITENING = 15
# Correlations beyond so many deviations of those of unrelated signals count: over some
# hundred lags one in twenty thousand does by chance.
SIGNIFICANT = 4.0
# Orders of the regressions that compete, and the ridge, relative, of their solution.
ORDERS, RIDGE = (1, 2, 3, 4, 6), 1e-10
# Most samples that regressions use: they are for a first look.
MOST_ROWS = 20_000


def whitened(values: Values) -> Values:
    """Return the part of a signal that its own past does not predict, deviation 1."""
    v = values - values.mean()
    order = min(WHITENING, len(v) // 10)
    past = np.stack([v[order - k : len(v) - k] for k in range(1, order + 1)], 1)
    gram = past.T @ past
    gram[np.diag_indices_from(gram)] += 1e-9 * max(np.trace(gram), 1e-300)
    left = v[order:] - past @ np.linalg.solve(gram, past.T @ v[order:])
    deviation = float(left.std())
    return np.asarray(left / deviation if deviation > 0.0 else left)


def cross_correlation(
    u: Values, y: Values, most: int
) -> tuple[NDArray[np.int64], Values]:
    """Return lags from -most to most and the correlation of u(t) with y(t + lag).

    Both are whitened first, each by itself: else one slow signal seems to follow any
    other.
    """
    a, b = whitened(u), whitened(y)
    size = 2 ** int(np.ceil(np.log2(2 * len(a))))
    product = np.fft.irfft(
        np.conj(np.fft.rfft(a, size)) * np.fft.rfft(b, size), size
    ) / len(a)
    lags = np.arange(-most, most + 1)
    return lags, product[lags]


def limit(samples: int) -> float:
    """Return the correlation that unrelated signals hardly ever reach."""
    return SIGNIFICANT / float(np.sqrt(samples))


class Regression(NamedTuple):
    """The linear regression that the criterion of Schwarz prefers."""

    order: int
    delays: tuple[int, ...]
    criteria: list[Values]
    poles: NDArray[np.complex128]
    explained: float


def regression(u: Values, y: Values, most: int) -> Regression | None:
    """Return order and dead time of each input, or None if there are too few samples.

    ``y(t) = sum_k a_k y(t-k) + sum_i sum_k b_ik u_i(t - d_i - k) + c``: all lags are
    put into one Gram matrix, in which the competing regressions are parts.
    """
    u, y = u[:MOST_ROWS], y[:MOST_ROWS]
    inputs, past = u.shape[1], max(ORDERS)
    first = past + most
    if len(y) - first < 4 * (past + inputs * (first + 1)):
        return None
    columns = [y[first - k : len(y) - k] for k in range(1, past + 1)]
    for i in range(inputs):
        columns += [u[first - k : len(y) - k, i] for k in range(first + 1)]
    table = np.stack([*columns, np.ones(len(y) - first), y[first:]], 1)
    scale = np.sqrt((table**2).mean(0))
    scale[scale == 0.0] = 1.0
    gram = (table / scale).T @ (table / scale)
    rows = len(table)

    def places(order: int, delays: Sequence[int]) -> list[int]:
        chosen = list(range(order))
        for i, d in enumerate(delays):
            base = past + i * (first + 1)
            chosen += [base + d + k for k in range(order + 1)]
        return [*chosen, len(gram) - 2]

    def solved(order: int, delays: Sequence[int]) -> tuple[Values, float]:
        at = places(order, delays)
        G = gram[np.ix_(at, at)] + RIDGE * rows * np.eye(len(at))
        theta = np.linalg.solve(G, gram[at, -1])
        return theta, max(float(gram[-1, -1] - gram[at, -1] @ theta) / rows, 1e-14)

    def criterion(order: int, delays: Sequence[int]) -> float:
        left = solved(order, delays)[1]
        free = len(places(order, delays))
        return float(rows * np.log(left) + free * np.log(rows))

    delays, criteria = [0] * inputs, [np.zeros(0)] * inputs
    for _ in range(2 if inputs > 1 else 1):
        for i in range(inputs):
            tried = [[*delays[:i], d, *delays[i + 1 :]] for d in range(most + 1)]
            criteria[i] = np.array(
                [min(criterion(n, t) for n in ORDERS) for t in tried]
            )
            delays[i] = int(criteria[i].argmin())
    order = min(ORDERS, key=lambda n: criterion(n, delays))
    theta, left = solved(order, delays)
    a = theta[:order] / scale[:order] * scale[-1]
    share = 1.0 - left * scale[-1] ** 2 / max(float(y[first:].var()), 1e-300)
    poles = np.asarray(np.roots([1.0, *-a]), complex)
    return Regression(order, tuple(delays), criteria, poles, share)


class Coherence(NamedTuple):
    """How much of an output inputs explain linearly, by frequency and in all."""

    frequency: Values
    coherence: Values
    power: Values
    explained: float


def coherence(u: Values, y: Values, dt: float) -> Coherence:
    """Return the multiple coherence of an output with all inputs (Welch's method)."""
    import scipy.signal

    csd: Any = scipy.signal.csd
    # Few pieces overstate the coherence, by the number of inputs over theirs.
    length = int(min(1024, max(len(y) // (8 * u.shape[1]), 8)))

    def cross(a: Values, b: Values) -> NDArray[np.complex128]:
        return np.asarray(csd(a, b, fs=1.0 / dt, nperseg=length, detrend="linear")[1])

    inputs = range(u.shape[1])
    S = np.array([[cross(u[:, i], u[:, j]) for j in inputs] for i in inputs])
    s = np.array([cross(u[:, i], y) for i in inputs])
    S, s = np.moveaxis(S, -1, 0), s.T
    power = cross(y, y).real
    S = S + 1e-9 * np.trace(S, axis1=1, axis2=2).real.max() * np.eye(u.shape[1])
    led = np.einsum("fi,fi->f", s.conj(), np.linalg.solve(S, s[..., None])[..., 0])
    found = np.clip(led.real / np.maximum(power, 1e-300), 0.0, 1.0)
    frequency = np.asarray(np.fft.rfftfreq(length, dt), np.float64)
    total = float(power[1:].sum())
    share = float((found * power)[1:].sum() / total) if total > 0.0 else 0.0
    return Coherence(frequency[1:], found[1:], power[1:], share)
