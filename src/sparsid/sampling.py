"""The sampling time of a table, from its time column or a column of its own."""

from typing import Any

import numpy as np

from sparsid.errors import InputError
from sparsid.frames import JITTER_TOLERANCE
from sparsid.text_tables import Table, is_date

TIME_NAMES = ("time", "Time", "TIME", "t", "timestamp", "Timestamp")
STEP_NAMES = ("Ts", "dt")
SECONDS = {
    **dict.fromkeys(("", "s", "sec", "seconds"), 1.0),
    **{"ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9, "min": 60.0, "h": 3600.0},
}
# Gaps are filled with NaN; beyond this many samples two files are meant.
GAP_LIMIT = 10_000_000


def seconds_of(table: Table, clock: str, unit: str) -> Any:
    """Return the time column in seconds, from numbers or dates."""
    values = table.columns[clock]
    if values.ndim != 1:
        raise InputError(
            f"{table.path}: the time {clock!r} has shape {values.shape} but one column "
            "is needed."
        )
    texts = [value for value in values.tolist() if isinstance(value, str)]
    if values.dtype.kind != "M" and not (texts and is_date(texts[0])):
        seconds = _in_seconds(table, clock, unit)
    else:
        import pandas as pd

        dates = pd.to_datetime(
            pd.Series(values), format="ISO8601", errors="coerce", utc=True
        )
        seconds = (dates - dates.iloc[0]).dt.total_seconds().to_numpy()
    missing = np.flatnonzero(np.isnan(seconds))
    if missing.size:
        raise InputError(
            f"{table.path}, column {clock!r}, {table.where(int(missing[0]))}: "
            f"{str(values[missing[0]])!r} is no time; correct it, or give dt instead."
        )
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
    counts = np.maximum(np.rint(step / usual), 1)
    uneven = np.flatnonzero(np.abs(step / usual - counts) > JITTER_TOLERANCE * counts)
    if uneven.size:
        place = table.where(int(uneven[0]) + 1)
        raise InputError(
            f"{table.path}: the steps of {clock!r} range from {step.min():g} to "
            f"{step.max():g} s, the first uneven one at {place}: "
            f"resample to even steps of about {usual:g} s, or give dt if the clock is "
            "at fault."
        )
    rows = np.concatenate([[0], np.cumsum(counts)])
    if rows[-1] > GAP_LIMIT + len(rows):
        raise InputError(
            f"{table.path}: {clock!r} has a gap of {step.max():g} s at steps of "
            f"{usual:g} s: put the two parts into files of their own."
        )
    # Twelve digits: what was written as 0.1 comes back as 0.1.
    return rows.astype(int), float(f"{(seconds[-1] - seconds[0]) / rows[-1]:.12g}")


def spread(table: Table, side: Any, rows: Any) -> Any:
    """Return the channels with NaN at the samples that were not recorded."""
    if side.shape[1] == 0:
        return side
    if len(side) != len(rows):
        raise InputError(
            f"{table.path}: the time has {len(rows)} samples but the chosen variables "
            f"have {len(side)}: both need the same number."
        )
    filled = np.full((rows[-1] + 1, side.shape[1]), np.nan)
    filled[rows] = side
    return filled


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
