"""Sampling time and sample numbers, from a time column, an index or a step column."""

import math
import numbers
from itertools import pairwise
from typing import Any

import numpy as np

from sparsid.data.text import Table
from sparsid.data.times import UNDERSTOOD, AmbiguousError, elapsed, is_time
from sparsid.errors import InputError

TIME_NAMES = (
    *("time", "Time", "TIME", "t", "timestamp", "Timestamp"),
    *("datetime", "Datetime", "DateTime", "Date/Time", "Zeit"),
)
STEP_NAMES = ("Ts", "dt")
SECONDS = {
    **dict.fromkeys(("", "s", "sec", "seconds"), 1.0),
    **{"ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9, "min": 60.0, "h": 3600.0},
}
# Steps of a clock may differ from dt by this share before they count as a jump.
JITTER_TOLERANCE = 0.01
# Whole numbers, floats, durations and dates, as NumPy abbreviates them.
INDEX_KINDS = "iufmM"
# Seconds beyond which no clock counts; differences of what is below stay finite.
LATEST = 1e100
# Numbers of samples that floats can tell apart.
MOST_SAMPLES = 2.0**53
# A record with gaps has at most this many samples, or so many times its rows.
MOST_WITH_GAPS, GROWTH = 1_000_000, 10
# Where a record may be cut, at most this many samples are filled, or as many as rows.
FILLED = 1000


class UnevenError(InputError):
    """A clock whose steps are not even: the signals can be resampled."""


def seconds_of(table: Table, clock: str, unit: str) -> Any:
    """Return the time column in seconds, from numbers or dates."""
    values = table.columns[clock]
    if values.ndim != 1:
        raise InputError(
            f"{table.path}: the time {clock!r} has shape {values.shape} but one column "
            "is needed."
        )
    if not len(values):
        raise InputError(f"{table.path}: the time {clock!r} is empty.")
    kind = values.dtype.kind
    texts = [v for v in values.tolist() if isinstance(v, str)] if kind in "OUT" else []
    if kind not in "mM" and not (texts and is_time(texts[0])):
        seconds = _in_seconds(table, clock, unit)
    else:
        try:
            seconds = _elapsed(values) if kind in "mM" else elapsed(values)
        except AmbiguousError as error:
            raise InputError(
                f"{table.path}: {str(values[0])!r} in the column {clock!r} has two "
                f"readings, as {error}: write dates as 2024-03-31, or give dt."
            ) from error
        except (TypeError, ValueError, OverflowError) as error:
            raise InputError(
                f"{table.path}: the dates of {clock!r} cannot be read ({error}): give "
                "dt instead."
            ) from error
    missing = np.flatnonzero(~(np.abs(seconds) <= LATEST))
    if missing.size:
        raise InputError(
            f"{table.path}, column {clock!r}, {table.where(int(missing[0]))}: "
            f"{str(values[missing[0]])!r} is no time; understood are {UNDERSTOOD}. "
            "Correct it, choose another column for the time, or give dt instead."
        )
    return seconds


def _elapsed(values: Any) -> Any:
    """Return the seconds of dates since the first, or of durations."""
    if values.dtype.kind == "m":
        return values / np.timedelta64(1, "s")
    seconds: Any = (values - values[0]) / np.timedelta64(1, "s")
    return seconds


def sample_rows(
    table: Table, clock: str, seconds: Any, default_dt: float | None = None
) -> tuple[Any, float]:
    """Return the sample number of each row, and the sampling time.

    The default is for a single row, which has a time but no step.
    """
    if len(seconds) == 1 and default_dt is not None:
        stated = step_of(table)
        return np.zeros(1, dtype=int), default_dt if stated is None else stated
    if len(seconds) < 2:
        raise InputError(
            f"{table.path} has one row, which does not tell the sampling time: give dt."
        )
    step = np.diff(seconds)
    wrong = np.flatnonzero(step <= 0)
    if wrong.size:
        place = table.where(int(wrong[0]) + 1)
        raise InputError(
            f"{table.path}, column {clock!r}, {place}: time does not increase (it "
            f"moves by {step[wrong[0]]:g} s); sort the rows and remove "
            "duplicates, or give dt."
        )
    usual = np.percentile(step, 50, method="lower")
    with np.errstate(over="ignore", invalid="ignore"):
        counts = np.maximum(np.rint(step / usual), 1)
        even = np.abs(step / usual - counts) <= JITTER_TOLERANCE * counts
    uneven = np.flatnonzero(~even)
    if uneven.size:
        place = table.where(int(uneven[0]) + 1)
        raise UnevenError(
            f"{table.path}: the steps of {clock!r} range from {step.min():g} to "
            f"{step.max():g} s, the first uneven one at {place}: "
            f"bring them to even steps with uneven={usual:.3g} (--resample "
            f"{usual:.3g}), or give dt if the clock is at fault."
        )
    rows = np.concatenate([[0], np.cumsum(counts)])
    if rows[-1] > MOST_SAMPLES:
        raise InputError(
            f"{table.path}: {clock!r} has a gap of {step.max():g} s at steps of "
            f"{usual:g} s: correct it, or give dt if the clock is at fault."
        )
    # Twelve digits: what was written as 0.1 comes back as 0.1.
    return rows.astype(int), float(f"{(seconds[-1] - seconds[0]) / rows[-1]:.12g}")


def check_gaps(table: Table, clock: str | None, rows: Any) -> None:
    """Refuse gaps that would make a record much longer than what was recorded."""
    if rows[-1] < max(MOST_WITH_GAPS, GROWTH * len(rows)):
        return
    missing = np.diff(rows) - 1
    row = int(missing.argmax())
    raise InputError(
        f"{table.path}: {clock!r} has a gap of {missing[row]:g} samples after "
        f"{table.where(row)}: put the parts into files of their own, or read them with "
        "sparsid.data.files.read_records."
    )


def pieces_of(rows: Any) -> list[tuple[int, int]]:
    """Return (first, stop) of the rows between the longest gaps."""
    missing = np.diff(rows) - 1
    ordered = np.sort(missing)
    too_many = np.cumsum(ordered) > max(len(rows), FILLED)
    if not too_many.any():
        return [(0, len(rows))]
    cuts = np.flatnonzero(missing >= ordered[too_many][0]) + 1
    return list(pairwise([0, *cuts.tolist(), len(rows)]))


def step_of(table: Table) -> float | None:
    """Return the sampling time from a column that holds nothing else, or None."""
    for name in STEP_NAMES:
        if name in table.columns:
            values = _in_seconds(table, name, table.units.get(name, ""))
            values = np.unique(values[~np.isnan(values)])
            if len(values) != 1:
                raise InputError(
                    f"{table.path}: the sampling time {name!r} has {len(values)} "
                    "different values but one is needed: give dt."
                )
            return float(values[0])
    return None


def _in_seconds(table: Table, name: str, unit: str) -> Any:
    if unit not in SECONDS:
        raise InputError(
            f"{table.path}: {name!r} has the unit {unit!r}, but only "
            f"{', '.join(filter(None, SECONDS))} are known: give dt in seconds."
        )
    return table.numbers(name) * SECONDS[unit]


def index_samples(index: Any, dt: float | None = None) -> tuple[Any, float]:
    """Return the sample number of each row, and the sampling time."""
    kind = index.dtype.kind
    if not len(index):
        raise InputError("The tables have no rows: a record needs samples.")
    if kind not in INDEX_KINDS:
        raise InputError(
            f"The index holds {index.dtype} values, but sample numbers, seconds or "
            "dates are needed to see which rows follow each other: use reset_index()."
        )
    if kind in "mM":
        position = (index - index[:1].repeat(len(index))).total_seconds().to_numpy()
    else:
        position = index.to_numpy()
        # Differences of unsigned numbers are never negative.
        position = position.astype(np.int64) if kind == "u" else position
    endless = np.flatnonzero(np.abs(position) > LATEST)
    if endless.size:
        row = int(endless[0])
        raise InputError(f"The index holds {index[row]} at row {row}: that is no time.")
    step = np.diff(position)
    wrong = np.flatnonzero(~(step > 0))
    if wrong.size:
        raise InputError(
            f"The index does not increase at row {wrong[0] + 1} "
            f"({index[wrong[0]]} is followed by {index[wrong[0] + 1]}): "
            "sort the rows by time and remove duplicates."
        )
    if kind in "iu":
        # A thinned-out table counts in larger steps; the smallest one is a sample.
        usual = step.min() if step.size else 1
        counts = np.concatenate([[0], np.cumsum(-(-step // usual))])
        return position[:1] // usual + counts, 1.0 if dt is None else dt
    if dt is None:
        dt = float(np.percentile(step, 50, method="lower")) if step.size else 1.0
    dt = sampling_time(dt)
    usual = float(np.percentile(step, 50, method="lower")) if step.size else dt
    if usual > dt * (1 + JITTER_TOLERANCE):
        raise InputError(
            f"The index has steps of {usual:g} s but the sampling time is {dt:g} s: "
            "resample the data, or leave dt out."
        )
    with np.errstate(over="ignore"):
        ratio = step / dt
    if not ratio.sum() + abs(float(position[0])) / dt < MOST_SAMPLES:
        raise InputError(
            f"The index reaches from {index[0]} to {index[-1]}, too far for samples "
            f"every {dt:g} s: correct it, or give the right dt."
        )
    uneven = np.flatnonzero(ratio < 1 - JITTER_TOLERANCE)
    if uneven.size:
        raise InputError(
            f"Rows {uneven[0]} and {uneven[0] + 1} are {step[uneven[0]]:g} s apart, "
            f"less than the sampling time of {dt:g} s: resample to an even step or "
            "give the right dt."
        )
    jump = np.maximum(np.rint(ratio), 2)
    counts = np.where(ratio <= 1 + JITTER_TOLERANCE, 1, jump)
    first = 0 if kind in "mM" else round(float(position[0]) / dt)
    return first + np.concatenate([[0], np.cumsum(counts)]).astype(int), dt


def sampling_time(dt: Any) -> float:
    """Return a sampling time that is a positive number of seconds."""
    if not isinstance(dt, numbers.Real) or not 0 < float(dt) < math.inf:
        raise InputError(f"dt is {dt!r} but must be a positive number of seconds.")
    return float(dt)
