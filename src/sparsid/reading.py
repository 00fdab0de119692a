"""Records from files: CSV, MAT and NPZ; and tables back into CSV."""

import csv
import difflib
import logging
import math
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from sparsid.errors import FileFormatError, InputError
from sparsid.frames import JITTER_TOLERANCE
from sparsid.records import Record

TEXT_SUFFIXES = (".csv", ".txt", ".tsv")
TIME_NAMES = ("time", "Time", "TIME", "t", "timestamp", "Timestamp")
STEP_NAMES = ("Ts", "dt")
INPUT_PATTERN = re.compile(r"(u\d*|inputs?\d*|uEst)", re.IGNORECASE)
OUTPUT_PATTERN = re.compile(r"(y\d*|outputs?\d*|yEst)", re.IGNORECASE)
UNIT_PATTERN = re.compile(r"(.*\S)\s*(?:\[(.*)\]|\((.*)\))")
DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d+(?:[eE][+-]?\d+)?")
SECONDS = {
    **dict.fromkeys(("", "s", "sec", "seconds"), 1.0),
    **{"ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9, "min": 60.0, "h": 3600.0},
}
MISSING = {"", "na", "n/a", "nan", "null", "none"}
# Gaps are filled with NaN; beyond this many samples two files are meant.
GAP_LIMIT = 10_000_000

Choice = str | Sequence[str] | None
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Table:
    """Named columns of a file: (time,) or (time, channel), possibly text."""

    path: Path
    columns: dict[str, Any]
    units: dict[str, str]
    spellings: dict[str, str]
    lines: list[int] | None = None
    decimal: str = "."

    def find(self, wanted: str) -> str:
        """Return the column meant by a name, in either spelling or case."""
        known = {name: name for name in self.columns} | self.spellings
        if wanted in known:
            return known[wanted]
        same = {known[name] for name in known if name.lower() == wanted.lower()}
        if len(same) == 1:
            return same.pop()
        near = difflib.get_close_matches(wanted, known, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else "."
        raise InputError(
            f"{self.path} has no column {wanted!r}, only {self.listing()}{hint}"
        )

    def listing(self) -> str:
        """Return all column names, for messages."""
        return ", ".join(repr(name) for name in self.columns)

    def where(self, row: int) -> str:
        """Return where in the file a row is, for messages."""
        return f"row {row + 1}" if self.lines is None else f"line {self.lines[row]}"

    def numbers(self, name: str) -> Any:
        """Return a column as floats, or say which cell is text."""
        values = self.columns[name]
        if values.dtype.kind in "biuf":
            return values.astype(np.float64)
        for row, text in enumerate(values):
            if not _is_float(text, self.decimal):
                raise InputError(
                    f"{self.path}, column {name!r}, {self.where(row)}: {text!r} is not "
                    "a number; correct it or leave the cell empty."
                )
        return np.array([_to_float(text, self.decimal) for text in values])


def read(
    path: str | Path,
    inputs: Choice = None,
    outputs: Choice = None,
    *,
    time: str | None = None,
    dt: float | None = None,
    units: Mapping[str, str] | None = None,
    separator: str | None = None,
    decimal: str | None = None,
) -> Record:
    """Return the record in a file, read according to its suffix.

    Parameters
    ----------
    path
        A .csv, .txt, .tsv, .mat or .npz file.
    inputs, outputs, time, dt, units
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
    return readers[suffix](path, inputs, outputs, time=time, dt=dt, units=units)


def read_csv(
    path: str | Path,
    inputs: Choice = None,
    outputs: Choice = None,
    *,
    time: str | None = None,
    dt: float | None = None,
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
        "Ts" or "dt", else 1.
    units
        Units by column name, in place of those in the header.
    separator, decimal
        By default found out by looking at the first lines.
    """
    path = _existing(path)
    table = _parse_text(path, _read_text(path), separator, decimal)
    return _record(table, inputs, outputs, time, dt, units)


def read_mat(
    path: str | Path,
    inputs: Choice = None,
    outputs: Choice = None,
    *,
    time: str | None = None,
    dt: float | None = None,
    units: Mapping[str, str] | None = None,
) -> Record:
    """Return the record in a MATLAB file: vectors or (time, channel) matrices.

    Parameters
    ----------
    path
        The file, in a format up to version 7 (not 7.3).
    inputs, outputs, time, dt, units
        As for `read_csv`, with variables in place of columns; uEst and yEst are
        known as well.
    """
    from scipy.io import loadmat

    path = _existing(path)
    try:
        variables = loadmat(path)
    except NotImplementedError as error:
        raise FileFormatError(
            f"{path} is a MATLAB 7.3 file: save it with the option '-v7'."
        ) from error
    # Whatever loadmat stumbles over, the file is at fault: it has no error class.
    except Exception as error:
        raise FileFormatError(f"{path} is no readable MAT file: {error}.") from error
    return _record(_variables(path, variables), inputs, outputs, time, dt, units)


def read_npz(
    path: str | Path,
    inputs: Choice = None,
    outputs: Choice = None,
    *,
    time: str | None = None,
    dt: float | None = None,
    units: Mapping[str, str] | None = None,
) -> Record:
    """Return the record in a NumPy archive: vectors or (time, channel) matrices.

    Parameters
    ----------
    path
        The file, written by `numpy.savez`; pickled objects are refused.
    inputs, outputs, time, dt, units
        As for `read_mat`.
    """
    path = _existing(path)
    try:
        with np.load(path, allow_pickle=False) as archive:
            variables = dict(archive)
    # A damaged zip, a plain .npy, pickled objects: np.load has no common error.
    except Exception as error:
        raise FileFormatError(f"{path} is no readable NPZ file: {error}.") from error
    return _record(_variables(path, variables), inputs, outputs, time, dt, units)


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
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(header)
            for row in zip(*(c.tolist() for c in values.values()), strict=True):
                writer.writerow("" if cell != cell else cell for cell in row)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _existing(path: str | Path) -> Path:
    path = Path(path)
    if path.is_dir():
        raise InputError(f"{path} is a folder: give the path of a file in it.")
    if not path.is_file():
        raise InputError(f"{path} does not exist: check the name and the folder.")
    return path


def _read_text(path: Path) -> str:
    content = path.read_bytes()
    if b"\0" in content:
        raise FileFormatError(f"{path} is no text file: export it as CSV in UTF-8.")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        # Spreadsheets on Windows; it cannot fail, and matters for units only.
        return content.decode("latin-1")


def _parse_text(
    path: Path, text: str, separator: str | None, decimal: str | None
) -> _Table:
    """Return the columns of a text table, as text, under names without units."""
    kept = [(n, s) for n, s in enumerate(re.split(r"\r\n?|\n", text), 1) if s.strip()]
    while kept and kept[0][1].lstrip()[0] in "#%":
        del kept[0]
    while kept and not kept[-1][1].strip(" \t;,"):
        del kept[-1]
    if not kept:
        raise InputError(f"{path} is empty: a header and rows of numbers are needed.")
    head = [line for _, line in kept[:20]]
    separator = _sniff(head) if separator is None else separator
    if len(separator) != 1:
        raise InputError(
            f"The separator is {separator!r} but must be one character; a blank stands "
            "for any white space."
        )
    decimal = _sniff_decimal(head, separator) if decimal is None else decimal
    first = _cells(head[0], separator)
    headed = not all(
        _is_float(cell, decimal) or _is_date(cell) for cell in first if cell
    )
    rows = kept[headed:]
    if not rows:
        raise InputError(f"{path} has a header but no rows: nothing was recorded.")
    names = first if headed else [""] * len(first)
    cells = [_cells(line, separator) for _, line in rows]
    for (number, _), row in zip(rows, cells, strict=True):
        # A separator at the end of a row opens a cell without content.
        if any(row[len(names) :]):
            raise FileFormatError(
                f"{path}: line {number} has {len(row)} cells but there are "
                f"{len(names)} columns: correct it, or give the separator."
            )
    columns: dict[str, Any] = {}
    for k, name in enumerate(names):
        texts = [row[k] if k < len(row) else "" for row in cells]
        if not name and not any(texts):
            continue
        name = name or f"column{k + 1}"
        if name in columns:
            raise InputError(
                f"{path} has two columns named {name!r}: rename one in the header."
            )
        columns[name] = np.array(texts, dtype=object)
    return _split_units(path, columns, [n for n, _ in rows], decimal)


def _split_units(
    path: Path, columns: dict[str, Any], lines: list[int], decimal: str
) -> _Table:
    """Return the table with "level [V]" taken apart into name and unit."""
    matches = {full: UNIT_PATTERN.fullmatch(full) for full in columns}
    bare = {full: m[1] if m else full for full, m in matches.items()}
    # "level [V]" and "level [m]" stay apart under their full names.
    many = Counter(bare.values())
    short = {full: full if many[name] > 1 else name for full, name in bare.items()}
    units = {short[full]: m[2] or m[3] or "" for full, m in matches.items() if m}
    named = {short[full]: values for full, values in columns.items()}
    return _Table(path, named, units, short, lines, decimal)


def _cells(line: str, separator: str) -> list[str]:
    if separator == " ":
        # A unit after a blank belongs to the name before it.
        return re.split(r"\s+(?![\[(])", line.strip())
    (row,) = csv.reader([line], delimiter=separator, skipinitialspace=True)
    return [cell.strip() for cell in row]


def _sniff(head: list[str]) -> str:
    body = head[1:] or head
    for candidate in "\t;,":
        if all(candidate in line for line in body):
            return candidate
    return " " if any(" " in line.strip() for line in body) else ","


def _sniff_decimal(head: list[str], separator: str) -> str:
    cells = [cell for line in head for cell in _cells(line, separator)]
    commas = separator != "," and any(DECIMAL_COMMA.fullmatch(c) for c in cells)
    return "," if commas else "."


def _to_float(text: str, decimal: str) -> float:
    return math.nan if text.lower() in MISSING else float(text.replace(decimal, "."))


def _is_float(text: str, decimal: str) -> bool:
    try:
        _to_float(text, decimal)
    except ValueError:
        return False
    return True


def _is_date(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _variables(path: Path, variables: Mapping[str, Any]) -> _Table:
    """Return the numeric variables as columns; row vectors stand up."""
    columns = {}
    for name, value in variables.items():
        if name.startswith("__") or np.asarray(value).dtype.kind not in "biufM":
            continue
        value = np.atleast_1d(value)
        single = value.size == max(value.shape)
        columns[name] = value.reshape(-1) if single else value
    if not columns:
        raise FileFormatError(f"{path} holds no arrays of numbers.")
    return _Table(path, columns, {}, {})


def _record(
    table: _Table,
    inputs: Choice,
    outputs: Choice,
    time: str | None,
    dt: float | None,
    units: Mapping[str, str] | None,
) -> Record:
    """Return the record of the chosen columns, with gaps where time jumps."""
    units = table.units | {table.find(k): v for k, v in (units or {}).items()}
    clock = next((n for n in TIME_NAMES if n in table.columns), None)
    clock = table.find(time) if time is not None else clock
    u_names, y_names = _choose(table, inputs, outputs, clock)
    sides = []
    for chosen in (u_names, y_names):
        parts = {name: table.numbers(name) for name in chosen}
        sides.append(_side(table, parts, units))
    (u, u_labels, u_units), (y, y_labels, y_units) = sides
    if dt is None and clock is not None:
        seconds = _seconds(table, clock, units.get(clock, ""))
        rows, dt = _sample_rows(table, clock, seconds)
        u, y = (_spread(table, side, rows) for side in (u, y))
    return Record(
        u if u_names else None,
        y,
        _step(table) if dt is None else dt,
        input_names=u_labels,
        output_names=y_labels,
        input_units=u_units,
        output_units=y_units,
        name=table.path.stem,
    )


def _side(
    table: _Table, parts: dict[str, Any], units: Mapping[str, str]
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
    table: _Table, inputs: Choice, outputs: Choice, clock: str | None
) -> tuple[list[str], list[str]]:
    """Return the columns of inputs and outputs, chosen or recognised by name."""
    u, y = _found(table, inputs), _found(table, outputs)
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
            "which are inputs and outputs: choose with inputs and outputs (an empty "
            "list of inputs for a series without inputs)."
        )
    return u, y


def _found(table: _Table, choice: Choice) -> list[str] | None:
    if choice is None:
        return None
    return [table.find(n) for n in ([choice] if isinstance(choice, str) else choice)]


def _in_seconds(table: _Table, name: str, unit: str) -> Any:
    if unit not in SECONDS:
        raise InputError(
            f"{table.path}: {name!r} has the unit {unit!r}, but only "
            f"{', '.join(filter(None, SECONDS))} are known: give dt in seconds."
        )
    return table.numbers(name) * SECONDS[unit]


def _seconds(table: _Table, clock: str, unit: str) -> Any:
    """Return the time column in seconds, from numbers or dates."""
    values = table.columns[clock]
    if values.ndim != 1:
        raise InputError(
            f"{table.path}: the time {clock!r} has shape {values.shape} but one column "
            "is needed."
        )
    texts = [value for value in values.tolist() if isinstance(value, str)]
    if values.dtype.kind != "M" and not (texts and _is_date(texts[0])):
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


def _sample_rows(table: _Table, clock: str, seconds: Any) -> tuple[Any, float]:
    """Return the sample number of each row, and the sampling time."""
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


def _spread(table: _Table, side: Any, rows: Any) -> Any:
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


def _step(table: _Table) -> float:
    """Return the sampling time from a column that holds nothing else."""
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
    logger.info("%s does not tell its sampling time: 1 s is assumed.", table.path)
    return 1.0
