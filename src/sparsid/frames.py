"""Whatever a user hands to ``fit``, as records: arrays, tables, lists of records."""

from itertools import pairwise
from typing import Any

import numpy as np

from sparsid.errors import InputError
from sparsid.records import Record, sampling_time

# Steps of a time index may differ from dt by this share before they count as a jump.
JITTER_TOLERANCE = 0.01


def as_records(u: Any, y: Any = None, dt: float | None = None) -> list[Record]:
    """Return records from a record, several records, arrays or tables.

    Tables are cut where their index jumps; arrays count as one record.
    """
    if isinstance(u, Record):
        u = [u]
    if isinstance(u, list | tuple) and u and all(isinstance(r, Record) for r in u):
        if y is not None:
            raise InputError("records carry their outputs: leave y out")
        return list(u)
    if y is None:
        raise InputError(
            f"u is a {type(u).__name__} and no y was given: pass a Record, a list of "
            "Records, or inputs and outputs, as in fit(u, y)"
        )
    if hasattr(y, "iloc") and (u is None or hasattr(u, "iloc")):
        return records_from_frames(u, y, dt)
    return [Record(u, y, 1.0 if dt is None else dt)]


def records_from_frames(
    u: Any, y: Any, dt: float | None = None, **settings: Any
) -> list[Record]:
    """Return one record for each stretch of rows without a jump in the index.

    Splitters such as scikit-learn's glue distant samples together; the index still
    tells them apart.

    Parameters
    ----------
    u, y
        DataFrames or Series with the same index: sample numbers, seconds or dates.
        u may be None.
    dt
        Sampling time in seconds; by default the usual step of a time index, or 1.
    **settings
        Names, units and name, as for `Record`.
    """
    index = getattr(y, "index", None)
    if index is None or callable(index):
        raise InputError(
            f"y is a {type(y).__name__} but a DataFrame or Series is needed: "
            "for arrays make a Record directly."
        )
    if u is not None and not index.equals(getattr(u, "index", None)):
        raise InputError(
            "u and y have different indices: align them first, for example with "
            "u.loc[y.index]."
        )
    samples, dt = _sample_numbers(index, dt)
    whole = Record(u, y, dt, **settings)
    jumps = np.flatnonzero(np.diff(samples) != 1) + 1
    edges = [0, *jumps.tolist(), len(whole)]
    return [whole._cut(a, b, int(samples[a])) for a, b in pairwise(edges)]


def _sample_numbers(index: Any, dt: float | None) -> tuple[Any, float]:
    """Return the sample number of each row, and the sampling time."""
    kind = index.dtype.kind
    if kind not in "iufmM":
        raise InputError(
            f"The index holds {index.dtype} values, but sample numbers, seconds or "
            "dates are needed to see which rows follow each other: use reset_index()."
        )
    if kind in "mM":
        position = (index - index[:1].repeat(len(index))).total_seconds().to_numpy()
    else:
        position = index.to_numpy()
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
        return position // (step.min() if step.size else 1), 1.0 if dt is None else dt
    if dt is None:
        dt = float(np.median(step)) if step.size else 1.0
    dt = sampling_time(dt)
    ratio = step / dt
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
