"""Checks of one channel: constant, clipped, coarse, drifting, with outliers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from sparsid.data.advice.findings import Finding, Values, counted
from sparsid.data.cleaning import line_of, outliers_of, runs_of

# Share of samples at exactly an extreme that looks clipped, if so many are in a row.
CLIPPED_SHARE, CLIPPED_ROW = 0.01, 3
# A signal of so few levels is switched, not clipped or coarse.
FEW_LEVELS = 10
# Steps of a converter that are this share of the deviation are coarse.
COARSE = 0.2
# A stretch without any change over this share of the record is told.
RESTING = 0.2
# A straight line through a channel that rises by so many deviations is a drift.
DRIFT = 2.0
# Deviations at which a sample is told as an outlier, and at which it can hardly be
# anything else. Long records of good signals have a few beyond what `Record.outliers`
# takes.
OUTLIER, CLEAR_OUTLIER = 6.0, 10.0
# Visits to an extreme that tell a limit from a largest move.
STAYS = 2


class Channel(NamedTuple):
    """A channel to look at; an input moves by itself, so some checks are milder."""

    name: str
    unit: str
    values: Values
    time: Values
    is_input: bool


def channel_findings(channel: Channel) -> Iterator[Finding]:
    """Yield what stands out in one channel."""
    values = channel.values
    seen = values[~np.isnan(values)]
    missing = 1.0 - len(seen) / max(len(values), 1)
    if missing > 0.0:
        yield Finding(
            "warning" if missing > 0.2 else "note",
            "gaps",
            channel.name,
            f"{100 * missing:.3g} % of the samples are missing",
            "fits use the stretches between; give more data if they are short",
        )
    if len(seen) < 2 or np.ptp(seen) == 0.0:
        yield Finding(
            "warning",
            "constant",
            channel.name,
            "never changes",
            "leave the channel out, or record it while it moves",
        )
        return
    yield from _outliers(channel)
    yield from _clipping(channel, seen)
    yield from _resolution(channel, seen)
    yield from _rest(channel)
    yield from _drift(channel)


def _outliers(channel: Channel) -> Iterator[Finding]:
    out = np.flatnonzero(outliers_of(channel.values, OUTLIER))
    if out.size:
        clear = outliers_of(channel.values, CLEAR_OUTLIER).any()
        yield Finding(
            "warning" if clear else "note",
            "outliers",
            channel.name,
            f"{counted(out.size, 'sample')} out of line with the neighbours, the first "
            f"at {channel.time[out[0]]:g} s ({channel.values[out[0]]:g})",
            "look at them; if they are no real movement mark them as missing: "
            "outliers()",
        )


def _clipping(channel: Channel, seen: Values) -> Iterator[Finding]:
    if len(np.unique(seen)) <= FEW_LEVELS:
        return
    for word, extreme in (("largest", seen.max()), ("smallest", seen.min())):
        at = channel.values == extreme
        stays = [b - a for a, b in runs_of(at) if b - a >= CLIPPED_ROW]
        if at.mean() >= CLIPPED_SHARE and len(stays) >= STAYS:
            what = "the actuator" if channel.is_input else "the output or its sensor"
            yield Finding(
                "note",
                "saturation",
                channel.name,
                f"{100 * at.mean():.3g} % of the samples are at exactly the {word} "
                f"value, {extreme:g}, up to {max(stays)} in a row: {what} saturates",
                "models of structure 'auto' and 'cascade' hold outputs there"
                if not channel.is_input
                else "record what reaches the system, not what was asked for",
            )


def _resolution(channel: Channel, seen: Values) -> Iterator[Finding]:
    levels = np.unique(seen)
    if len(levels) <= FEW_LEVELS and channel.is_input:
        return
    # Rounding makes several sizes out of one step.
    steps = np.diff(levels)
    step = float(steps[steps > 1e-9 * np.ptp(seen)].min())
    regular = np.median(np.abs(steps / step - np.rint(steps / step))) < 1e-3
    if regular and step > COARSE * seen.std():
        yield Finding(
            "note",
            "quantisation",
            channel.name,
            f"has only {len(levels)} levels, {step:g} apart, "
            f"{100 * step / seen.std():.0f} % of its deviation",
            "use a finer range of the converter, or average faster samples: resample()",
        )


def _rest(channel: Channel) -> Iterator[Finding]:
    still = np.diff(channel.values) == 0.0
    first, stop = max(runs_of(still), key=lambda run: run[1] - run[0], default=(0, 0))
    if stop - first >= RESTING * len(channel.values):
        yield Finding(
            "note",
            "rest",
            channel.name,
            f"does not change from {channel.time[first]:g} to {channel.time[stop]:g} s",
            "nothing is learnt there; cut it off with slice() if the system was off",
        )


def _drift(channel: Channel) -> Iterator[Finding]:
    offset, slope = line_of(channel.time, channel.values, linear=True)
    left = channel.values - offset - slope * channel.time
    rise = slope * float(channel.time[-1] - channel.time[0])
    if abs(rise) > DRIFT * float(np.nanstd(left)):
        yield Finding(
            "note" if channel.is_input else "warning",
            "drift",
            channel.name,
            f"moves by {rise:+.3g} {channel.unit}".rstrip()
            + " along a straight line, more than it varies around that",
            'if no input explains it: detrend("linear") or filter(low=...)',
        )
