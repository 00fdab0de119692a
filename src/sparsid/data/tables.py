"""Whatever a user hands to ``fit``, as records: arrays, tables, lists of records."""

from itertools import pairwise
from typing import Any

import numpy as np

from sparsid.data.record import Record
from sparsid.data.sampling_time import index_samples
from sparsid.data.table_steps import notes_of, step_decided
from sparsid.errors import InputError


def as_records(u: Any, y: Any = None, dt: float | None = None) -> list[Record]:
    """Return records from a record, several records, arrays or tables.

    Tables are cut where their index jumps; arrays count as one record.
    """
    if y is None:
        u = recorded(u)
        u = list(map(recorded, u)) if isinstance(u, list | tuple) else u
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
    return [Record(u, y, dt)]


def recorded(data: Any) -> Any:
    """Return an object that has u, y and sampling_time as a record, others as they are.

    Data of the package nonlinear_benchmarks are of that kind.
    """
    parts = [getattr(data, name, None) for name in ("u", "y", "sampling_time")]
    if isinstance(data, Record) or parts[1] is None or parts[2] is None:
        return data
    name = getattr(data, "name", None)
    return Record(*parts, name=name if isinstance(name, str) else "")


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
        Sampling time in seconds; by default the usual step of a time index, what
        `Record.to_frames` noted in the tables, or 1 with a warning.
    **settings
        Names, units and name, as for `Record`; units are by default those noted.
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
    if dt is None and index.dtype.kind in "iu":
        dt = step_decided(u, y, None)
    samples, dt = index_samples(index, dt)
    for side, data in (("input_units", u), ("output_units", y)):
        units = notes_of(data).get("units", {})
        if units and settings.get(side) is None:
            columns = getattr(data, "columns", [getattr(data, "name", None)])
            settings[side] = [units.get(column, "") for column in columns]
    # The jumps are dealt with below, so that the record need not see them.
    u, y = (data if data is None else data.reset_index(drop=True) for data in (u, y))
    whole = Record(u, y, dt, **settings)
    jumps = np.flatnonzero(np.diff(samples) != 1) + 1
    edges = [0, *jumps.tolist(), len(whole)]
    return [whole._cut(a, b, int(samples[a])) for a, b in pairwise(edges)]
