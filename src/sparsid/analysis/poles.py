"""Poles in the z plane: in a common order, and what they tell."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]


def matched(
    poles: NDArray[np.complex128], centre: NDArray[np.complex128]
) -> NDArray[np.complex128]:
    """Return poles in the order of those that they are nearest to, by their speed."""
    from scipy.optimize import linear_sum_assignment

    a, b = logarithm(centre)[:, None], logarithm(poles)[None]
    apart = np.abs(a - b) / (np.abs(a) + np.abs(b) + 1e-12)
    return np.asarray(poles[linear_sum_assignment(apart)[1]])


def logarithm(poles: NDArray[np.complex128]) -> NDArray[np.complex128]:
    """Return ``log z``, large where a pole is zero."""
    tiny = np.abs(poles) < 1e-300
    return np.asarray(np.log(np.where(tiny, 1e-300, poles)))


def damping_ratios(poles: NDArray[np.complex128]) -> Values:
    """Return ``-cos(angle(log z))``; zero at one."""
    s = logarithm(poles)
    size = np.abs(s)
    return np.where(size > 0.0, -s.real / np.where(size > 0.0, size, 1.0), 0.0)


def time_constants(poles: NDArray[np.complex128], dt: float) -> Values:
    """Return ``-dt / log|z|``, infinite on the unit circle."""
    speed = -logarithm(poles).real
    with np.errstate(divide="ignore"):
        return np.where(speed == 0.0, np.inf, dt / speed)
