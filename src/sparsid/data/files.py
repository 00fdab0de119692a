"""Records from files: CSV, MAT and NPZ; and tables back into CSV."""

import csv
import logging
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sparsid.data.archives import archived_arrays
from sparsid.data.matlab import Load, arrays_of_numbers
from sparsid.data.record import Record
from sparsid.data.sampling_time import (
    STEP_NAMES,
    TIME_NAMES,
    check_gaps,
    pieces_of,
    sample_rows,
    sampling_time,
    seconds_of,
    step_of,
)
from sparsid.data.text import Table, masked, parse_text, read_text, shown
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
    wanted = _Wanted(inputs, outputs, time, dt, default_dt, units)
    return _one_record(_tables(Path(path), separator, decimal), wanted)


def read_records(
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
) -> list[Record]:
    """Return the records in a file, cut where the time makes a long jump.

    Short gaps are inside a record, as for `read`; the longest ones cut it, so that no
    more samples are filled with NaN than were recorded, or 1000 if that is more.

    Parameters
    ----------
    path, inputs, outputs, time, dt, default_dt, units, separator, decimal
        As for `read`.
    """
    wanted = _Wanted(inputs, outputs, time, dt, default_dt, units)
    return _first_good(
        _tables(Path(path), separator, decimal),
        lambda table: _records(table, wanted, pieces_of),
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
        "t" or "timestamp". Where it jumps by several samples the record gets a gap;
        a very long jump is refused, `sparsid.data.files.read_records` cuts there.
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
    wanted = _Wanted(inputs, outputs, time, dt, default_dt, units)
    return _one_record(_text_tables(_existing(path), separator, decimal), wanted)


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
    wanted = _Wanted(inputs, outputs, time, dt, default_dt, units)
    return _one_record(_mat_tables(_existing(path)), wanted)


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
    wanted = _Wanted(inputs, outputs, time, dt, default_dt, units)
    return _one_record(_npz_tables(_existing(path)), wanted)


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
        1-D values by name. A name that a spreadsheet would take for a formula gets an
        apostrophe in front, which `read_csv` takes away.
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
    header = [masked(f"{n} [{units[n]}]" if units.get(n) else n) for n in values]
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


class _Wanted(NamedTuple):
    """What is asked of a file; see `read_csv`."""

    inputs: Choice
    outputs: Choice
    time: str | None
    dt: float | None
    default_dt: float | None
    units: Mapping[str, str] | None


def _tables(path: Path, separator: str | None, decimal: str | None) -> Iterator[Table]:
    """Return the table in a file, read according to its suffix."""
    suffix = path.suffix.lower()
    if suffix in TEXT_SUFFIXES:
        return _text_tables(_existing(path), separator, decimal)
    readers = {".mat": _mat_tables, ".npz": _npz_tables}
    if suffix not in readers:
        raise InputError(
            f"{path} has the suffix {suffix!r} but only "
            f"{', '.join((*TEXT_SUFFIXES, *readers))} are known."
        )
    return readers[suffix](_existing(path))


def _text_tables(
    path: Path, separator: str | None, decimal: str | None
) -> Iterator[Table]:
    """Yield the table; if it is refused a second one, which says where the fault is."""
    fast, exact = parse_text(path, read_text(path), separator, decimal)
    if fast is not None:
        yield fast
    yield exact()


def _mat_tables(path: Path) -> Iterator[Table]:
    yield _variables(path, arrays_of_numbers(path))


def _npz_tables(path: Path) -> Iterator[Table]:
    yield _variables(path, archived_arrays(path))


def _variables(path: Path, loads: Mapping[str, Load]) -> Table:
    """Return arrays as columns, each loaded when it is first used."""
    found = {name: load for name, load in loads.items() if not name.startswith("__")}
    if not found:
        raise FileFormatError(
            f"{path} holds no arrays of numbers; pickled ones are refused "
            "(allow_pickle)."
        )
    return Table(path, _Columns(found), {}, {})


class _Columns(Mapping[str, Any]):
    """Arrays that are loaded when they are first used; row vectors stand up."""

    def __init__(self, loads: Mapping[str, Load]) -> None:
        self._loads = loads
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            value = np.atleast_1d(self._loads[name]())
            single = value.size == max(value.shape)
            self._loaded[name] = value.reshape(-1) if single else value
        return self._loaded[name]

    def __contains__(self, name: object) -> bool:
        return name in self._loads

    def __iter__(self) -> Iterator[str]:
        return iter(self._loads)

    def __len__(self) -> int:
        return len(self._loads)


def _first_good(
    tables: Iterator[Table], use: Callable[[Table], list[Record]]
) -> list[Record]:
    """Return what comes of the first table that is not refused."""
    refusal = None
    for table in tables:
        try:
            return use(table)
        except InputError as error:
            refusal = error
    assert refusal is not None
    raise refusal


def _one_record(tables: Iterator[Table], wanted: _Wanted) -> Record:
    (record,) = _first_good(tables, lambda table: _records(table, wanted, None))
    return record


def _records(
    table: Table,
    wanted: _Wanted,
    pieces_of: Callable[[Any], list[tuple[int, int]]] | None,
) -> list[Record]:
    """Return the chosen columns in pieces, with gaps where time jumps.

    ``pieces_of`` gives (first, stop) of the rows of each piece, from the sample number
    of every row. None stands for one piece, if its gaps are short enough.
    """
    inputs, outputs, time, dt, default_dt, units = wanted
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
    rows = np.arange(len(y))
    if clock is not None:
        try:
            seconds = seconds_of(table, clock, units.get(clock, ""))
            numbers, told = sample_rows(table, clock, seconds, default_dt)
            _check_lengths(table, len(numbers), u, y)
            dt = told if dt is None else _agreed(table, dt, told, clock, time)
            rows = numbers
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
    # Checked as a whole: a channel may be missing throughout a piece.
    whole = Record(
        u if u_names else None,
        y,
        dt,
        input_names=u_labels,
        output_names=y_labels,
        input_units=u_units,
        output_units=y_units,
        name=table.path.stem,
    )
    if pieces_of is None:
        check_gaps(table, clock, rows)
        return [whole._placed(rows)]
    return [whole._cut(a, b)._placed(rows[a:b]) for a, b in pieces_of(rows)]


def _check_lengths(table: Table, samples: int, *sides: Any) -> None:
    """Refuse channels that do not have one value for each time."""
    for side in sides:
        if side.shape[1] and len(side) != samples:
            raise InputError(
                f"{table.path}: the time has {samples} samples but the chosen "
                f"variables have {len(side)}: both need the same number."
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
    found = [table.find(name) for name in names]
    for name in found:
        if found.count(name) > 1:
            raise InputError(f"{what} has {shown(name)} more than once: give it once.")
    return found


def read_table(path: str | Path) -> Table:
    """Return all columns of a file, before any of them is an input or an output."""
    return next(_tables(Path(path), None, None))
