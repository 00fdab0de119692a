"""Records from files: CSV, MAT and NPZ; and tables back into CSV."""

import contextlib
import csv
import logging
import math
import re
from collections.abc import Iterable, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

import numpy as np

from sparsid.data.matlab import arrays_of_numbers
from sparsid.data.record import Record
from sparsid.data.sampling_time import (
    STEP_NAMES,
    TIME_NAMES,
    sample_rows,
    sampling_time,
    seconds_of,
    spread,
    step_of,
)
from sparsid.data.text import Table, parse_text, read_text
from sparsid.data.whole_file import whole_file
from sparsid.errors import FileFormatError, InputError

TEXT_SUFFIXES = (".csv", ".txt", ".tsv")
INPUT_PATTERN = re.compile(r"(u\d*|inputs?\d*|uEst)", re.IGNORECASE)
OUTPUT_PATTERN = re.compile(r"(y\d*|outputs?\d*|yEst)", re.IGNORECASE)

# A given sampling time may differ from the clock's by this share: rounding.
CLOCK_TOLERANCE = 1e-3

Choice = str | Sequence[str] | None
logger = logging.getLogger(__name__)


def read(
    path: str | Path,
    inputs: Choice = None,
    outputs: Choice = None,
    *,
    time: str | None = None,
    dt: float | None = None,
    default_dt: float | None = None,
    units: Mapping[str, str] | None = None,
    separator: str | None = None,
    decimal: str | None = None,
) -> Record:
    """Return the record in a file, read according to its suffix.

    Parameters
    ----------
    path
        A .csv, .txt, .tsv, .mat or .npz file.
    inputs, outputs, time, dt, default_dt, units
        As for `read_csv`, `read_mat` and `read_npz`.
    separator, decimal
        As for `read_csv`; of no effect for the other formats.
    """
    suffix = Path(path).suffix.lower()
    if suffix in TEXT_SUFFIXES:
        return read_csv(
            path,
            inputs,
            outputs,
            time=time,
            dt=dt,
            default_dt=default_dt,
            units=units,
            separator=separator,
            decimal=decimal,
        )
    readers = {".mat": read_mat, ".npz": read_npz}
    if suffix not in readers:
        raise InputError(
            f"{path} has the suffix {suffix!r} but only "
            f"{', '.join((*TEXT_SUFFIXES, *readers))} are known."
        )
    return readers[suffix](
        path, inputs, outputs, time=time, dt=dt, default_dt=default_dt, units=units
    )


def read_csv(
    path: str | Path,
    inputs: Choice = None,
    outputs: Choice = None,
    *,
    time: str | None = None,
    dt: float | None = None,
    default_dt: float | None = None,
    units: Mapping[str, str] | None = None,
    separator: str | None = None,
    decimal: str | None = None,
) -> Record:
    """Return the record in a text table, with or without a header.

    Parameters
    ----------
    path
        The file. A header "level [V]" or "level (V)" gives a name and a unit.
    inputs, outputs
        Column names. By default columns named like u, u1, input and y, y1, output;
        of two columns the first is the input. `inputs=[]` means no inputs.
    time
        Column of the time, in seconds or as ISO dates; by default one named "time",
        "t" or "timestamp". Where it jumps by several samples the record gets a gap.
    dt
        Sampling time in seconds; by default from the time column, or from a column
        "Ts" or "dt".
    default_dt
        Sampling time in seconds if neither `dt` nor the file gives one; by default
        1, except for a single row with a time, which is refused.
    units
        Units by column name, in place of those in the header.
    separator, decimal
        By default found out by looking at the first lines.
    """
    path = _existing(path)
    fast, exact = parse_text(path, read_text(path), separator, decimal)
    if fast is not None:
        # Whatever is wrong, the exact table says where.
        with contextlib.suppress(InputError):
            return _record(fast, inputs, outputs, time, dt, default_dt, units)
    return _record(exact(), inputs, outputs, time, dt, default_dt, units)


def read_mat(
    path: str | Path,
    inputs: Choice = None,
    outputs: Choice = None,
    *,
    time: str | None = None,
    dt: float | None = None,
    default_dt: float | None = None,
    units: Mapping[str, str] | None = None,
) -> Record:
    """Return the record in a MATLAB file: vectors or (time, channel) matrices.

    Parameters
    ----------
    path
        The file, in a format up to version 7 (not 7.3).
    inputs, outputs, time, dt, default_dt, units
        As for `read_csv`, with variables in place of columns; uEst and yEst are
        known as well.
    """
    path = _existing(path)
    variables = {name: load() for name, load in arrays_of_numbers(path).items()}
    return _record(
        _variables(path, variables), inputs, outputs, time, dt, default_dt, units
    )


def read_npz(
    path: str | Path,
    inputs: Choice = None,
    outputs: Choice = None,
    *,
    time: str | None = None,
    dt: float | None = None,
    default_dt: float | None = None,
    units: Mapping[str, str] | None = None,
) -> Record:
    """Return the record in a NumPy archive: vectors or (time, channel) matrices.

    Parameters
    ----------
    path
        The file, written by `numpy.savez`; pickled objects are refused.
    inputs, outputs, time, dt, default_dt, units
        As for `read_mat`.
    """
    path = _existing(path)
    try:
        with np.load(path, allow_pickle=False) as archive:
            variables = dict(archive)
    # A damaged zip, a plain .npy, pickled objects: np.load has no common error.
    except Exception as error:
        raise FileFormatError(f"{path} is no readable NPZ file: {error}.") from error
    return _record(
        _variables(path, variables), inputs, outputs, time, dt, default_dt, units
    )


def write_csv(
    path: str | Path,
    columns: Mapping[str, Any],
    units: Mapping[str, str] | None = None,
) -> None:
    """Write columns of equal length under a header "name [unit]".

    Parameters
    ----------
    path
        The file; it appears only when it is complete. NaN becomes an empty cell.
    columns
        1-D values by name.
    units
        Units by name.
    """
    path, units = Path(path), units or {}
    values = {name: np.asarray(column) for name, column in columns.items()}
    shapes = {name: column.shape for name, column in values.items()}
    if len(set(shapes.values())) != 1 or any(len(s) != 1 for s in shapes.values()):
        raise InputError(
            f"The columns have shapes {shapes}: a table needs 1-D columns of one "
            "length."
        )
    if not path.parent.is_dir():
        raise InputError(f"The folder {path.parent} does not exist: make it first.")
    header = [f"{n} [{units[n]}]" if units.get(n) else n for n in values]
    with (
        whole_file(path) as part,
        part.open("w", newline="", encoding="utf-8") as file,
    ):
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        for row in zip(*(c.tolist() for c in values.values()), strict=True):
            writer.writerow("" if cell != cell else cell for cell in row)


def _existing(path: str | Path) -> Path:
    path = Path(path)
    if path.is_dir():
        raise InputError(f"{path} is a folder: give the path of a file in it.")
    if not path.is_file():
        raise InputError(f"{path} does not exist: check the name and the folder.")
    return path


def _variables(path: Path, variables: Mapping[str, Any]) -> Table:
    """Return the numeric variables as columns; row vectors stand up."""
    columns = {}
    for name, value in variables.items():
        if name.startswith("__") or np.asarray(value).dtype.kind not in "biufmM":
            continue
        value = np.atleast_1d(value)
        single = value.size == max(value.shape)
        columns[name] = value.reshape(-1) if single else value
    if not columns:
        raise FileFormatError(f"{path} holds no arrays of numbers.")
    return Table(path, columns, {}, {})


def _record(
    table: Table,
    inputs: Choice,
    outputs: Choice,
    time: str | None,
    dt: float | None,
    default_dt: float | None,
    units: Mapping[str, str] | None,
) -> Record:
    """Return the record of the chosen columns, with gaps where time jumps."""
    if not isinstance(units, Mapping | None):
        raise InputError(
            f'units is {units!r} but a dictionary such as {{"level": "V"}} is needed.'
        )
    units = table.units | {table.find(k): v for k, v in (units or {}).items()}
    clock = next((n for n in TIME_NAMES if n in table.columns), None)
    clock = table.find(time) if time is not None else clock
    u_names, y_names = _choose(table, inputs, outputs, clock)
    sides = []
    for chosen in (u_names, y_names):
        parts = {name: table.numbers(name) for name in chosen}
        sides.append(_side(table, parts, units))
    (u, u_labels, u_units), (y, y_labels, y_units) = sides
    if clock is not None:
        try:
            seconds = seconds_of(table, clock, units.get(clock, ""))
            rows, told = sample_rows(table, clock, seconds, default_dt)
            u, y = (spread(table, side, rows) for side in (u, y))
            dt = told if dt is None else _agreed(table, dt, told, clock, time)
        except InputError as error:
            # A clock that nobody asked for may be at fault if dt is given.
            if dt is None or time is not None:
                raise
            logger.warning("%s is ignored, as dt was given: %s", clock, error)
    if dt is None:
        dt = step_of(table)
    if dt is None:
        dt = default_dt
    if dt is None:
        logger.info("%s does not tell its sampling time: 1 s is assumed.", table.path)
        dt = 1.0
    return Record(
        u if u_names else None,
        y,
        dt,
        input_names=u_labels,
        output_names=y_labels,
        input_units=u_units,
        output_units=y_units,
        name=table.path.stem,
    )


def _agreed(
    table: Table, dt: float, told: float, clock: str, time: str | None
) -> float:
    """Return the given sampling time; refuse one that a clock asked for contradicts.

    A clock that nobody asked for may count samples or milliseconds: it shows the gaps.
    """
    dt = sampling_time(dt)
    if math.isclose(dt, told, rel_tol=CLOCK_TOLERANCE):
        return dt
    found = f"{table.path}: dt is given as {dt:g} s but {clock!r} has steps of {told:g}"
    if time is not None:
        raise InputError(
            f"{found} s: leave dt out, or leave the time column out if it does not "
            "count seconds."
        )
    logger.warning("%s: dt counts.", found)
    return dt


def _side(
    table: Table, parts: dict[str, Any], units: Mapping[str, str]
) -> tuple[Any, list[str], list[str]]:
    """Return channels side by side, with names and units."""
    lengths = {name: len(values) for name, values in parts.items()}
    if len(set(lengths.values())) > 1:
        raise InputError(
            f"{table.path}: the chosen variables have lengths {lengths}: they need "
            "the same number of samples."
        )
    labels, label_units = [], []
    for name, values in parts.items():
        if values.ndim > 2:
            raise InputError(
                f"{table.path}: {name!r} has shape {values.shape} but (time, channel) "
                "is needed."
            )
        count = 1 if values.ndim == 1 else values.shape[1]
        labels += [name] if count == 1 else [f"{name}{k + 1}" for k in range(count)]
        label_units += [units.get(name, "")] * count
    stacked = np.column_stack(list(parts.values())) if parts else np.empty((0, 0))
    return stacked, labels, label_units


def _choose(
    table: Table, inputs: Choice, outputs: Choice, clock: str | None
) -> tuple[list[str], list[str]]:
    """Return the columns of inputs and outputs, chosen or recognised by name."""
    u, y = _found(table, inputs, "inputs"), _found(table, outputs, "outputs")
    taken = {clock, *STEP_NAMES, *(u or []), *(y or [])}
    free = [name for name in table.columns if name not in taken]
    like_u = [name for name in free if INPUT_PATTERN.fullmatch(name)]
    like_y = [name for name in free if OUTPUT_PATTERN.fullmatch(name)]
    if u is None and y is None:
        if like_u and like_y:
            u, y = like_u, like_y
        elif len(free) == 2:
            swapped = like_y == free[:1] or like_u == free[1:]
            u, y = (free[1:], free[:1]) if swapped else (free[:1], free[1:])
    elif u is None:
        u = like_u or (free if len(free) == 1 else None)
    elif y is None:
        y = like_y or (free if len(free) == 1 else None)
    if u is None or not y:
        raise InputError(
            f"{table.path} has the columns {table.listing()}, and it is not clear "
            "which are inputs and outputs: choose with inputs and outputs (for a "
            "series without inputs an empty list of inputs, or --no-input)."
        )
    return u, y


def _found(table: Table, choice: Choice, what: str) -> list[str] | None:
    if choice is None:
        return None
    # The order of a set is left to chance.
    several = isinstance(choice, Iterable) and not isinstance(choice, str | Set)
    names: list[Any] = list(choice) if several else [choice]
    if not all(isinstance(name, str) for name in names):
        raise InputError(
            f"{what} is {choice!r} but names of columns are needed, as text or a list "
            f"of texts: {table.path} has {table.listing()}."
        )
    return [table.find(name) for name in names]
