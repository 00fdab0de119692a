"""Recordings: what was measured, when, and in which units."""

import math
import numbers
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from sparsid.data.sampling_time import INDEX_KINDS, index_samples, sampling_time
from sparsid.errors import InputError

if TYPE_CHECKING:
    import pandas

# Two sampling times count as equal within this share: a file rounds its time stamps.
DT_TOLERANCE = 1e-6
# Values up to this size can be squared and summed without overflow.
LARGEST = 1e100
# Where a table keeps what it cannot say itself: `frame.attrs[NOTES]`.
NOTES = "sparsid"


@dataclass(frozen=True, eq=False, init=False, repr=False)
class Record:
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
        Sampling time in seconds.
    input_names, output_names
        Channel names; by default column names, else "u", "y" (or "u1", "u2", ...).
    input_units, output_units
        Units, one for each channel.
    name
        Name of the recording, for reports.
    start
        Number of the first sample inside the recording this one was cut from.
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

    def __init__(
        self,
        u: Any,
        y: Any,
        dt: float = 1.0,
        *,
        input_names: str | Sequence[str] | None = None,
        output_names: str | Sequence[str] | None = None,
        input_units: str | Sequence[str] | None = None,
        output_units: str | Sequence[str] | None = None,
        name: str = "",
        start: int = 0,
    ) -> None:
        y_values, y_columns = _channels(y, "y")
        if y_values.shape[1] == 0:
            raise InputError("y has no channels: a record needs at least one output.")
        u_values, u_columns = _channels(
            np.empty((len(y_values), 0)) if u is None else u, "u"
        )
        if len(u_values) != len(y_values):
            raise InputError(
                f"y has {len(y_values)} samples but u has {len(u_values)}: both need "
                "the same number (arrays are (time, channel))."
            )
        _check_indices(u, y)
        u_names = _labels(input_names, u_columns, "input_names")
        y_names = _labels(output_names, y_columns, "output_names")
        _check_names(u_names + y_names)
        _check_values(u_values, u_names)
        _check_values(y_values, y_names)
        vars(self).update(
            u=u_values,
            y=y_values,
            dt=sampling_time(dt),
            input_names=u_names,
            output_names=y_names,
            input_units=_labels(input_units, ("",) * len(u_names), "input_units"),
            output_units=_labels(output_units, ("",) * len(y_names), "output_units"),
            name=name,
            start=_whole(start, "start"),
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
        if not 1 <= _whole(n, "n") <= len(self):
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


def _channels(data: Any, what: str) -> tuple[Any, tuple[str, ...]]:
    """Return a private (time, channel) copy, and the names its columns have."""
    columns = getattr(data, "columns", [getattr(data, "name", None)])
    values = _numbers(data, what)
    if values.ndim not in (1, 2):
        raise InputError(
            f"{what} has {values.ndim} dimensions, shape {values.shape}: give one "
            "channel as 1-D or several as (time, channel)."
        )
    if len(values) == 0:
        hint = " (None stands for no inputs)" if what == "u" else ""
        raise InputError(f"{what} is empty: a record needs samples{hint}.")
    values = values[:, None] if values.ndim == 1 else values
    if all(isinstance(column, str) for column in columns):
        return values, tuple(columns)
    count = values.shape[1]
    return values, (what,) if count == 1 else tuple(
        f"{what}{k + 1}" for k in range(count)
    )


def _check_indices(u: Any, y: Any) -> None:
    """Refuse tables whose rows are not aligned, or do not follow each other."""
    indices = [data.index for data in (u, y) if hasattr(data, "iloc")]
    if not indices:
        return
    import pandas as pd

    if len(indices) == 2 and not indices[0].equals(indices[1]):
        raise InputError(
            "u and y have different indices: align them first, for example with "
            "u.loc[y.index]."
        )
    index = indices[0]
    # What is always even, or no clock, need not be looked through.
    even = isinstance(index, pd.RangeIndex) and index.step > 0
    if even or index.dtype.kind not in INDEX_KINDS:
        return
    plain = "If the index is no clock, drop it: reset_index(drop=True)."
    try:
        samples, _ = index_samples(index)
    except InputError as error:
        raise InputError(f"{error} {plain}") from None
    jumps = np.flatnonzero(np.diff(samples) != 1)
    if jumps.size:
        row = int(jumps[0])
        raise InputError(
            f"The index jumps from {index[row]} to {index[row + 1]} at row {row + 1}, "
            "but the rows of a record follow each other: give the tables to fit(u, y) "
            "or to sparsid.data.tables.records_from_frames, which cut them at jumps, "
            f"or split them. {plain}"
        )


def _numbers(data: Any, what: str) -> Any:
    """Return the data as a new float64 array, or say what is no number."""
    if hasattr(data, "isna"):
        # pandas knows several ways to write "missing"; NaN is ours.
        data = data.to_numpy(na_value=np.nan)
    elif np.ma.isMaskedArray(data):
        data = np.ma.filled(data.astype(np.float64), np.nan)
    try:
        values = np.asarray(data)
    except ValueError as error:
        raise InputError(
            f"{what} has rows of different lengths: every sample needs all channels."
        ) from error
    if values.dtype.kind not in "biuf":
        for position, value in np.ndenumerate(values):
            if value is not None and not isinstance(value, numbers.Real):
                raise InputError(
                    f"{what} holds {value!r} at sample {position[0] if position else 0}"
                    ", but only real numbers are possible: convert it or leave the "
                    "channel out."
                )
    values = values.astype(np.float64)
    values.flags.writeable = False
    return values


def _check_values(values: Any, names: tuple[str, ...]) -> None:
    infinite = np.argwhere(np.isinf(values))
    if infinite.size:
        sample, channel = infinite[0]
        raise InputError(
            f"Channel {names[channel]!r} is infinite at sample {sample}: mark missing "
            "values with NaN."
        )
    huge = np.argwhere(np.abs(values) > LARGEST)
    if huge.size:
        sample, channel = huge[0]
        raise InputError(
            f"Channel {names[channel]!r} is {values[sample, channel]:g} at sample "
            f"{sample}, but only values up to {LARGEST:g} can be computed with: "
            "correct it, use another unit, or mark missing values with NaN."
        )
    empty = np.flatnonzero(np.isnan(values).all(axis=0))
    if empty.size:
        raise InputError(
            f"Channel {names[empty[0]]!r} is NaN throughout: leave it out."
        )


def _labels(
    given: str | Sequence[str] | None, default: tuple[str, ...], what: str
) -> tuple[str, ...]:
    """Return one text for each channel."""
    texts = default if given is None else given
    texts = (texts,) if isinstance(texts, str) else tuple(texts)
    if len(texts) != len(default) or not all(isinstance(text, str) for text in texts):
        raise InputError(
            f"{what} is {list(texts)} but {len(default)} text(s) are needed, one for "
            "each channel."
        )
    return texts


def _check_names(names: tuple[str, ...]) -> None:
    for name in names:
        if names.count(name) > 1 or name == "time":
            raise InputError(
                f"The channel name {name!r} is taken ('time' always is): give each "
                "input and output its own name with input_names and output_names."
            )


def _whole(value: Any, what: str) -> int:
    if not isinstance(value, numbers.Integral):
        raise InputError(f"{what} is {value!r} but must be a whole number.")
    return int(value)
