"""The sampling time of arrays and tables: one rule, wherever they are handed over."""

from __future__ import annotations

import logging
import math
from typing import Any

import numpy as np

from sparsid.data.sampling_time import index_samples, sampling_time
from sparsid.errors import InputError

# Where a table keeps what it cannot say itself: `frame.attrs[NOTES]`.
NOTES = "sparsid"
# A given sampling time may differ from that of an index by this share: rounding.
TOLERANCE = 1e-3
# Floats, durations and dates, as NumPy abbreviates them: whole numbers count samples.
CLOCKS = "fmM"
logger = logging.getLogger(__name__)


def index_of(data: Any) -> Any:
    """Return the index of the rows of a table or an xarray, or None."""
    if hasattr(data, "iloc"):
        return data.index
    dims, indexes = getattr(data, "dims", None), getattr(data, "indexes", None)
    return indexes[dims[0]] if dims and indexes and dims[0] in indexes else None


def step_decided(u: Any, y: Any, dt: float | None) -> float:
    """Return the sampling time: given, told by an index, noted, or 1 with a warning."""
    indices = [i for i in map(index_of, (y, u)) if i is not None]
    clocks = [i for i in indices if i.dtype.kind in CLOCKS and len(i) > 1]
    if clocks:
        told = index_samples(clocks[0])[1]
        if dt is None:
            return told
        dt = sampling_time(dt)
        if not math.isclose(dt, told, rel_tol=TOLERANCE):
            raise InputError(
                f"dt is {dt:g} s but the index has steps of {told:g} s: leave dt out, "
                "resample the record, or drop an index that does not count seconds: "
                "reset_index(drop=True)."
            )
        return dt
    if dt is not None:
        return sampling_time(dt)
    whole = [i for i in indices if i.dtype.kind in "iu"]
    noted = noted_step(u, y, whole[0]) if whole else None
    if noted is not None:
        return noted
    logger.warning("The data do not tell their sampling time: 1 s is assumed; give dt.")
    return 1.0


def notes_of(data: Any) -> dict[str, Any]:
    """Return what `Record.to_frames` noted in a table, if anything."""
    notes: dict[str, Any] = getattr(data, "attrs", {}).get(NOTES, {})
    return notes


def noted_step(u: Any, y: Any, index: Any) -> float | None:
    """Return the time between the rows of tables that came from a record."""
    noted = {sampling_time(n["dt"]) for n in map(notes_of, (u, y)) if "dt" in n}
    if len(noted) > 1:
        first, second = sorted(noted)
        raise InputError(
            f"u and y come from records with dt {first:g} s and {second:g} s: resample "
            "one of them, or give dt."
        )
    if not noted:
        return None
    # Every second row of a record is sampled at twice its dt.
    steps = np.diff(index.to_numpy())
    return noted.pop() * (int(steps.min()) if steps.size else 1)
