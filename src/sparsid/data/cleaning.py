"""Single channels: straight lines taken away, filters, outliers; NaN stays NaN."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]

# Samples of the running median that outliers are compared with: what lasts for less
# than half of them can be an outlier.
WINDOW = 7
# A sample counts as many deviations away as it is from that median, in deviations of
# what the median leaves over; that deviation is at least so many of the channel's own.
SMALLEST_SPREAD = 0.2
# Percentile of the absolute values of a Gaussian of deviation 1, and what it is; the
# distance of two percentiles of it. Up to a tenth of the samples may be outliers, and a
# signal that jumps more often than that is not taken for one of outliers.
USUAL, USUAL_OF_GAUSSIAN = 90, 1.645
ENDS, ENDS_OF_GAUSSIAN = (5, 95), 3.29


def runs_of(seen: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Return (first, stop) of each run of true values."""
    padded = np.concatenate([[False], seen, [False]])
    edges = np.flatnonzero(padded[1:] != padded[:-1]).tolist()
    return list(zip(edges[::2], edges[1::2], strict=True))


def line_of(time: Values, values: Values, linear: bool) -> tuple[float, float]:
    """Return value at time 0 and slope of the straight line through a channel."""
    seen = ~np.isnan(values)
    t, v = time[seen], values[seen]
    if not len(v):
        return 0.0, 0.0
    middle = float(t.mean())
    away = t - middle
    square = float(away @ away)
    slope = float(away @ v) / square if linear and square > 0.0 else 0.0
    return float(v.mean()) - slope * middle, slope


def filtered(values: Values, sections: Values, gain: float) -> Values:
    """Return a channel filtered forward and backward, each measured run on its own.

    Parameters
    ----------
    sections
        Of the filter, as `scipy.signal` designs them.
    gain
        At frequency 0: what a run too short to be filtered is multiplied with.
    """
    from scipy.signal import sosfiltfilt

    found = values.copy()
    usual = 3 * (2 * len(sections) + 1)
    for first, stop in runs_of(~np.isnan(values)):
        run = values[first:stop]
        if len(run) < 2:
            found[first:stop] = gain * run
            continue
        padding = min(usual, len(run) - 1)
        found[first:stop] = sosfiltfilt(sections, run, padlen=padding)
    return found


def outliers_of(values: Values, threshold: float) -> NDArray[np.bool_]:
    """Return which samples stand out from their neighbours."""
    from scipy.ndimage import median_filter

    seen = ~np.isnan(values)
    out = np.zeros(len(values), dtype=bool)
    v = values[seen]
    if len(v) < WINDOW:
        return out
    left = v - median_filter(v, WINDOW, mode="nearest")
    low, high = np.percentile(v, ENDS)
    own = (high - low) / ENDS_OF_GAUSSIAN
    spread = float(np.percentile(np.abs(left), USUAL)) / USUAL_OF_GAUSSIAN
    spread = max(spread, SMALLEST_SPREAD * own)
    if spread > 0.0:
        out[seen] = np.abs(left) > threshold * spread
    return out
