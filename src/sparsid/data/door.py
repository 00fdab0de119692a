"""What is checked before numbers become a record."""

import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np

from sparsid.data.sampling_time import INDEX_KINDS, index_samples
from sparsid.data.table_steps import index_of
from sparsid.errors import InputError

# Values up to this size can be squared and summed without overflow.
LARGEST = 1e100


def channels_of(data: Any, what: str) -> tuple[Any, tuple[str, ...]]:
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


def check_indices(u: Any, y: Any) -> None:
    """Refuse tables whose rows are not aligned, or do not follow each other."""
    indices = [index for index in map(index_of, (u, y)) if index is not None]
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


def check_values(values: Any, names: tuple[str, ...]) -> None:
    """Refuse what cannot be computed with, and channels without any value."""
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


def labels(
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


def check_names(names: tuple[str, ...]) -> None:
    """Refuse names that are given twice, or taken."""
    for name in names:
        if names.count(name) > 1 or name == "time":
            raise InputError(
                f"The channel name {name!r} is taken ('time' always is): give each "
                "input and output its own name with input_names and output_names."
            )


def whole_number(value: Any, what: str) -> int:
    """Return a whole number as one."""
    if not isinstance(value, numbers.Integral):
        raise InputError(f"{what} is {value!r} but must be a whole number.")
    return int(value)
