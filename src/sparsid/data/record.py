"""Recordings: what was measured, when, and in which units."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from sparsid.data.door import (
    channels_of,
    check_indices,
    check_names,
    check_values,
    labels,
    whole_number,
)
from sparsid.data.shapes import Shaping
from sparsid.data.shaping import Step
from sparsid.data.table_steps import NOTES, step_decided
from sparsid.errors import InputError

if TYPE_CHECKING:
    import pandas

    from sparsid.data.advice import Advice

# Two sampling times count as equal within this share: a file rounds its time stamps.
DT_TOLERANCE = 1e-6


@dataclass(frozen=True, eq=False, init=False, repr=False)
class Record(Shaping):
    """One recording of inputs and outputs at a fixed sampling time.

    Parameters
    ----------
    u
        Inputs, 1-D or (time, channel); None for a series without inputs.
    y
        Outputs, 1-D or (time, channel). NaN marks a gap; values beyond 1e100 are
        refused. Tables need the same index, without jumps;
        `sparsid.data.tables.records_from_frames` cuts at jumps.
    dt
        Sampling time in seconds; None: the step of a time index (pandas) or of a time
        coordinate (xarray), what `to_frames` noted, or 1 with a logged warning. One
        that contradicts a time index is refused.
    input_names, output_names
        Channel names; by default column names, else "u", "y" (or "u1", "u2", ...).
    input_units, output_units
        Units, one for each channel.
    name
        Name of the recording, for reports.
    start
        Number of the first sample inside the recording this one was cut from.

    Attributes
    ----------
    history
        What was done to the measured values, step by step: see `resample`, `detrend`
        and the other methods that shape. `notes` tells it in words.
    """

    u: Float[np.ndarray, "time inputs"]
    y: Float[np.ndarray, "time outputs"]
    dt: float
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
    input_units: tuple[str, ...]
    output_units: tuple[str, ...]
    name: str
    start: int
    history: tuple[Step, ...]

    def __init__(
        self,
        u: Any,
        y: Any,
        dt: float | None = None,
        *,
        input_names: str | Sequence[str] | None = None,
        output_names: str | Sequence[str] | None = None,
        input_units: str | Sequence[str] | None = None,
        output_units: str | Sequence[str] | None = None,
        name: str = "",
        start: int = 0,
    ) -> None:
        y_values, y_columns = channels_of(y, "y")
        if y_values.shape[1] == 0:
            raise InputError("y has no channels: a record needs at least one output.")
        u_values, u_columns = channels_of(
            np.empty((len(y_values), 0)) if u is None else u, "u"
        )
        if len(u_values) != len(y_values):
            raise InputError(
                f"y has {len(y_values)} samples but u has {len(u_values)}: both need "
                "the same number (arrays are (time, channel))."
            )
        check_indices(u, y)
        u_names = labels(input_names, u_columns, "input_names")
        y_names = labels(output_names, y_columns, "output_names")
        check_names(u_names + y_names)
        check_values(u_values, u_names)
        check_values(y_values, y_names)
        vars(self).update(
            u=u_values,
            y=y_values,
            dt=step_decided(u, y, dt),
            input_names=u_names,
            output_names=y_names,
            input_units=labels(input_units, ("",) * len(u_names), "input_units"),
            output_units=labels(output_units, ("",) * len(y_names), "output_units"),
            name=name,
            start=whole_number(start, "start"),
            history=(),
        )

    @classmethod
    def from_channels(
        cls,
        inputs: Mapping[str, Any] | None,
        outputs: Mapping[str, Any],
        dt: float | None = None,
        *,
        units: Mapping[str, str] | None = None,
        name: str = "",
        smooth: bool = True,
    ) -> "Record":
        """Return one record of channels that have clocks of their own.

        Each channel is resampled as `resample` does; its steps may differ. The record
        reaches over the time that all have in common. Where a clock makes a step of
        more than three long ones (the 95th percentile) there is a gap.

        Parameters
        ----------
        inputs, outputs
            By name: a pair of times and values, or a Series whose index is the time.
            Times are seconds, dates or durations.
        dt
            Sampling time in seconds; None: the longest usual step of any channel.
        units
            By name.
        name
            Of the record.
        smooth
            As for `resample`.
        """
        from sparsid.data.clocks import record_of_channels

        return record_of_channels(
            inputs or {}, outputs, dt, units=units or {}, name=name, smooth=smooth
        )

    def _cut(self, first: int, stop: int, start: int | None = None) -> "Record":
        """Return samples first to stop; the checks at the door are not repeated.

        A cut that lies wholly inside a gap is therefore allowed.
        """
        cut = object.__new__(Record)
        vars(cut).update(
            vars(self),
            u=self.u[first:stop],
            y=self.y[first:stop],
            start=self.start + first if start is None else start,
        )
        return cut

    def _with(self, **changes: Any) -> "Record":
        """Return the same with other values; the checks at the door are not repeated.

        The number of channels may change only together with names and units.
        """
        changed = object.__new__(Record)
        for side in ("u", "y"):
            if side in changes:
                values = np.array(changes[side], dtype=np.float64)
                values.flags.writeable = False
                changes[side] = values
        vars(changed).update(vars(self), **changes)
        return changed

    def _placed(self, rows: Any) -> "Record":
        """Return the samples under other numbers, with NaN for those between them."""
        first, length = int(rows[0]), int(rows[-1] - rows[0]) + 1
        placed = self._cut(0, len(self), first)
        if length > len(self):
            for side in ("u", "y"):
                values = getattr(self, side)
                filled = np.full((length, values.shape[1]), np.nan)
                filled[rows - first] = values
                filled.flags.writeable = False
                vars(placed)[side] = filled
        return placed

    def __len__(self) -> int:
        return len(self.y)

    def __repr__(self) -> str:
        return (
            f"Record({self.name!r}, {len(self)} samples, dt={self.dt:g} s, "
            f"{', '.join(self.input_names)} -> {', '.join(self.output_names)})"
        )

    def __getitem__(self, key: slice) -> "Record":
        if not isinstance(key, slice) or key.step not in (None, 1):
            raise InputError(
                f"A record was indexed with {key!r}, but only contiguous slices such "
                "as record[100:300] keep the samples in order; for one value take "
                "record.y[i], to thin out resample the data before making a record."
            )
        first, stop, _ = key.indices(len(self))
        if stop <= first:
            raise InputError(
                f"The slice [{key.start}:{key.stop}] of a record with {len(self)} "
                "samples is empty: choose a range inside the record."
            )
        return self._cut(first, stop)

    @property
    def n_inputs(self) -> int:
        """Number of input channels."""
        return len(self.input_names)

    @property
    def n_outputs(self) -> int:
        """Number of output channels."""
        return len(self.output_names)

    @property
    def time(self) -> Float[np.ndarray, " time"]:
        """Time of each sample in seconds, counted from the original recording."""
        return (self.start + np.arange(len(self))) * self.dt

    @property
    def gaps(self) -> list[tuple[int, int]]:
        """Ranges (first, stop) of samples in which a channel is missing."""
        return _runs(~self._complete())

    def _complete(self) -> Any:
        return ~(np.isnan(self.u).any(axis=1) | np.isnan(self.y).any(axis=1))

    def segments(self) -> list["Record"]:
        """Return the gap-free parts, in order."""
        return [self._cut(first, stop) for first, stop in _runs(self._complete())]

    def blocks(self, n: int) -> list["Record"]:
        """Return n contiguous records of nearly equal length."""
        if not 1 <= whole_number(n, "n") <= len(self):
            raise InputError(
                f"A record of {len(self)} samples cannot be cut into {n} blocks: "
                f"choose between 1 and {len(self)}."
            )
        edges = [len(self) * k // n for k in range(n + 1)]
        return [self._cut(a, b) for a, b in pairwise(edges)]

    def split(self, fraction: float) -> tuple["Record", "Record"]:
        """Return the first part and the last part, which holds this fraction."""
        last = round(fraction * len(self)) if 0 < fraction < 1 else 0
        if not 0 < last < len(self):
            raise InputError(
                f"The fraction {fraction!r} of {len(self)} samples leaves one part "
                "empty: choose a fraction between 0 and 1 that gives both a sample."
            )
        return self._cut(0, len(self) - last), self._cut(len(self) - last, len(self))

    def advice(self) -> "Advice":
        """Return what a first look finds, before any fit, and what to do about it.

        Excitation, dead times, coherence, feedback, saturation, outliers, drift,
        quantisation, rest, sampling, length. ``print`` it, or ``save`` it as a page.
        """
        from sparsid.data.advice import advise

        return advise(self)

    def to_frames(self) -> tuple["pandas.DataFrame", "pandas.DataFrame"]:
        """Return inputs and outputs as tables, indexed by sample number.

        Sampling time and units are in `attrs["sparsid"]`, for the way back.
        """
        import pandas as pd

        index = pd.RangeIndex(self.start, self.start + len(self), name="sample")
        u = pd.DataFrame(self.u, index=index, columns=list(self.input_names))
        y = pd.DataFrame(self.y, index=index, columns=list(self.output_names))
        for frame, units in ((u, self.input_units), (y, self.output_units)):
            named = dict(zip(frame.columns, units, strict=True))
            frame.attrs[NOTES] = {"dt": self.dt, "units": named}
        return u, y

    def to_frame(self) -> "pandas.DataFrame":
        """Return one table: time and all channels; units in `attrs["units"]`."""
        import pandas as pd

        frame = pd.concat(self.to_frames(), axis=1)
        frame.insert(0, "time", self.time)
        names = self.input_names + self.output_names
        units = self.input_units + self.output_units
        frame.attrs["units"] = {"time": "s", **dict(zip(names, units, strict=True))}
        return frame

    def plot(self) -> Any:
        """Return a figure with all channels: outputs, and inputs below them."""
        from sparsid import plots

        return plots.recording(self)

    def _repr_html_(self) -> str:
        from sparsid.plots.notebook import record_html

        return record_html(self)


def value_range(records: Iterable[Record]) -> dict[str, list[list[float]]]:
    """Return the smallest and the largest value of every channel, as plain values."""
    records = listed(records)
    found = {}
    for what in ("u", "y"):
        values = np.concatenate([getattr(r, what) for r in records])
        # A channel that was never measured in these has no range.
        low = np.fmin.reduce(values, axis=0)
        high = np.fmax.reduce(values, axis=0)
        found["inputs" if what == "u" else "outputs"] = np.stack([low, high], 1)
    return {side: ends.tolist() for side, ends in found.items()}


def check_compatible(records: Record | Iterable[Record]) -> None:
    """Refuse records that differ in channels, units or sampling time.

    A channel without a unit goes with any.
    """
    first, *others = listed(records)
    units = {
        what: [(unit, 1) for unit in getattr(first, f"{what}_units")]
        for what in ("input", "output")
    }
    for number, other in enumerate(others, 2):
        for what in ("input_names", "output_names"):
            if getattr(first, what) != getattr(other, what):
                raise InputError(
                    f"Record {number} has {what} {list(getattr(other, what))} but "
                    f"record 1 has {list(getattr(first, what))}: all records of one "
                    "fit need the same channels in the same order."
                )
        for what, known in units.items():
            names = getattr(first, f"{what}_names")
            for k, unit in enumerate(getattr(other, f"{what}_units")):
                before, where = known[k]
                if not before:
                    known[k] = (unit, number)
                elif unit not in ("", before):
                    raise InputError(
                        f"Record {number} has {names[k]!r} in {unit} but record "
                        f"{where} in {before}: convert one of them."
                    )
        if not math.isclose(first.dt, other.dt, rel_tol=DT_TOLERANCE):
            raise InputError(
                f"Record {number} has dt {other.dt:g} s but record 1 has "
                f"{first.dt:g} s: resample one of them."
            )


def listed(records: Record | Iterable[Record]) -> list[Record]:
    """Return one or several records as a list that is not empty."""
    records = [records] if isinstance(records, Record) else list(records)
    if not records:
        raise InputError("No record was given: at least one is needed.")
    return records


def _runs(mask: Any) -> list[tuple[int, int]]:
    """Return (first, stop) of each run of true values."""
    padded = np.concatenate([[False], mask, [False]])
    edges = np.flatnonzero(padded[1:] != padded[:-1]).tolist()
    return list(zip(edges[::2], edges[1::2], strict=True))
