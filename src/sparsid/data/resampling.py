"""Signals at other times: low-pass filter and interpolation, gaps kept as gaps."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]

# The low-pass filter: its cut-off as a share of the new sampling rate (half of it is
# the highest frequency that can be told apart), and half its length in new samples.
CUT_OFF, HALF_LENGTH = 0.4, 8.0
# A sampling time that is longer by less than this share is the same one: no filter.
SAME = 1e-6
# Times may differ by this share of a step and count as equal.
NEAR = 1e-6
# Steps of a clock that are so many times the usual one are gaps.
GAP = 3.0
# A signal of which this share of all neighbours is equal is one that is held.
HELD_SHARE = 0.5
# Most entries of a table of filter weights at a time.
CHUNK = 2_000_000


class Resampled(NamedTuple):
    """Values at the new times, and how they were found."""

    values: Values
    way: str


def resampled(
    times: Values, values: Values, new_times: Values, longest: float, smooth: bool
) -> Resampled:
    """Return a signal at other times.

    Where the new steps are longer than those of the signal it is a weighted mean, by a
    windowed low-pass filter of gain 1 at frequency 0; else interpolation: held values
    stay held, others follow a monotone cubic. NaN where nothing was measured within a
    gap, before the first and behind the last sample.

    Parameters
    ----------
    times, values
        The signal; times increase, steps may differ. NaN is no measurement.
    new_times
        Evenly spaced.
    longest
        Steps between two measurements that are longer than this are gaps.
    smooth
        Whether the filter is used where it is needed.
    """
    seen = ~np.isnan(values)
    times, values = times[seen], values[seen]
    found = np.full(len(new_times), np.nan)
    if not len(times):
        return Resampled(found, "nothing measured")
    new_step = float(new_times[1] - new_times[0]) if len(new_times) > 1 else 0.0
    usual = float(np.median(np.diff(times))) if len(times) > 1 else new_step
    filtered = smooth and new_step > usual * (1 + SAME)
    held = not filtered and _is_held(values)
    edges = np.flatnonzero(np.diff(times) > longest * (1 + NEAR)) + 1
    for first, stop in zip([0, *edges], [*edges, len(times)], strict=True):
        t, v = times[first:stop], values[first:stop]
        slack = NEAR * max(usual, new_step)
        inside = (new_times >= t[0] - slack) & (new_times <= t[-1] + slack)
        if not inside.any():
            continue
        at = np.clip(new_times[inside], t[0], t[-1])
        if filtered and len(t) > 1:
            found[inside] = _low_pass(t, v, at, new_step)
        else:
            found[inside] = _between(t, v, at, held, slack)
    way = "low-pass filtered" if filtered else "held" if held else "interpolated"
    return Resampled(found, way)


def _is_held(values: Values) -> bool:
    """Return whether a signal moves in steps, as a controller's output does."""
    if len(values) < 3:
        return False
    return float(np.mean(np.diff(values) == 0.0)) >= HELD_SHARE


def _between(t: Values, v: Values, at: Values, held: bool, slack: float) -> Values:
    if len(t) == 1:
        return np.full(len(at), v[0])
    if held:
        return v[np.searchsorted(t, at + slack, side="right") - 1]
    from scipy.interpolate import PchipInterpolator

    return np.asarray(PchipInterpolator(t, v)(at))


def _low_pass(t: Values, v: Values, at: Values, step: float) -> Values:
    """Return weighted means around the wanted times.

    Behind the ends the signal goes on as its mirror image through the end point, so
    that a straight line stays one.
    """
    reach = HALF_LENGTH * step
    before = np.flatnonzero((t[1:] - t[0]) <= reach)[::-1] + 1
    after = np.flatnonzero((t[-1] - t[:-1]) <= reach)[::-1]
    spread = np.gradient(t)
    times = np.concatenate([2 * t[0] - t[before], t, 2 * t[-1] - t[after]])
    values = np.concatenate([2 * v[0] - v[before], v, 2 * v[-1] - v[after]])
    share = np.concatenate([spread[before], spread, spread[after]])
    first = np.searchsorted(times, at - reach)
    stop = np.searchsorted(times, at + reach, side="right")
    width = int((stop - first).max())
    found = np.empty(len(at))
    rows = max(CHUNK // width, 1)
    for k in range(0, len(at), rows):
        part = slice(k, k + rows)
        places = first[part, None] + np.arange(width)
        used = places < stop[part, None]
        places = np.minimum(places, len(times) - 1)
        distance = (times[places] - at[part, None]) / step
        window = 0.5 + 0.5 * np.cos(np.pi * np.clip(distance / HALF_LENGTH, -1, 1))
        weights = np.sinc(2 * CUT_OFF * distance) * window * share[places] * used
        found[part] = (weights * values[places]).sum(1) / weights.sum(1)
    return found


def grid(first: float, last: float, step: float) -> tuple[int, Values]:
    """Return the number of the first multiple of a step in a range, and all of them."""
    start = int(np.ceil(first / step - NEAR))
    stop = int(np.floor(last / step + NEAR))
    return start, np.arange(start, stop + 1, dtype=np.float64) * step


def usual_step(times: Any) -> float:
    """Return the step that most samples of a clock have, about."""
    return float(np.percentile(np.diff(times), 50, method="lower"))
