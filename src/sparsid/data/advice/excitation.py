"""How much an input moves: order of excitation, bandwidth, levels, moves."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparsid.data.advice.findings import Values

# Most lags that are looked at, and the share of the power below which a combination of
# them counts as not excited.
MOST_LAGS, WEAK = 40, 1e-4
# Share of the power that counts as the bandwidth.
BAND = 0.95
# Share of the power of the strongest line that counts as a line.
LINE = 0.01


class Excitation(NamedTuple):
    """What an input excites.

    Attributes
    ----------
    order
        Persistent excitation: so many lags can be told apart.
    bandwidth
        In Hz: most of the power lies below.
    frequencies
        Number of lines of the spectrum that have some power.
    levels, moves
        Different values, and changes from one sample to the next.
    """

    order: int
    bandwidth: float
    frequencies: int
    levels: int
    moves: int


def excitation(u: Values, dt: float) -> Excitation:
    """Return what a gap-free stretch of an input excites."""
    v = u - u.mean()
    frequency, power = spectrum(u, dt)
    summed = np.cumsum(power)
    within = int(np.searchsorted(summed, BAND * summed[-1]))
    bandwidth = float(frequency[min(within, len(frequency) - 1)])
    moves = int(np.count_nonzero(np.diff(u)))
    lines = np.abs(np.fft.rfft(v * np.hanning(len(v)))) ** 2
    count = int((lines > LINE * lines.max()).sum())
    return Excitation(_order(v), bandwidth, count, len(np.unique(u)), moves)


def spectrum(values: Values, dt: float) -> tuple[Values, Values]:
    """Return frequencies above zero and the power density (Welch's method)."""
    from scipy.signal import welch

    length = min(1024, len(values))
    frequency, power = welch(values, fs=1.0 / dt, nperseg=length, detrend="constant")
    return np.asarray(frequency[1:]), np.asarray(power[1:])


def _order(v: Values) -> int:
    """Return the largest number of lags whose covariance is far from singular."""
    from scipy.linalg import toeplitz

    most = min(MOST_LAGS, len(v) // 4)
    size = 2 ** int(np.ceil(np.log2(2 * len(v))))
    transformed = np.abs(np.fft.rfft(v, size)) ** 2
    r: NDArray[np.float64] = np.fft.irfft(transformed, size)[: most + 1]
    if not r[0] > 0.0:
        return 0
    R = toeplitz(r / r[0])
    order = 0
    for n in range(1, most + 1):
        if np.linalg.eigvalsh(R[:n, :n])[0] < WEAK:
            break
        order = n
    return order
