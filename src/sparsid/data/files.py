"""Records from files: CSV, MAT and NPZ; and tables back into CSV."""

import csv
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sparsid.data.cells import masked
from sparsid.data.columns import Choice, Wanted, records_of
from sparsid.data.readers import (
    existing,
    mat_tables,
    npz_tables,
    tables_in,
    text_tables,
)
from sparsid.data.record import Record
from sparsid.data.sampling_time import pieces_of
from sparsid.data.text import Table
from sparsid.data.whole_file import whole_file
from sparsid.errors import InputError


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
    uneven: float | None = None,
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
    uneven
        Sampling time in seconds to which a clock with uneven steps, or channels with
        clocks of their own, are brought; by default uneven steps are refused. Files
        with even steps stay as they are: see `Record.resample`.
    """
    wanted = Wanted(inputs, outputs, time, dt, default_dt, units, uneven)
    return _one_record(tables_in(Path(path), separator, decimal), wanted)


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
    uneven: float | None = None,
) -> list[Record]:
    """Return the records in a file, cut where the time makes a long jump.

    Short gaps are inside a record, as for `read`; the longest ones cut it, so that no
    more samples are filled with NaN than were recorded, or 1000 if that is more.

    Parameters
    ----------
    path, inputs, outputs, time, dt, default_dt, units, separator, decimal, uneven
        As for `read`.
    """
    wanted = Wanted(inputs, outputs, time, dt, default_dt, units, uneven)
    return _first_good(
        tables_in(Path(path), separator, decimal),
        lambda table: records_of(table, wanted, pieces_of),
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
    wanted = Wanted(inputs, outputs, time, dt, default_dt, units)
    return _one_record(text_tables(existing(path), separator, decimal), wanted)


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
    wanted = Wanted(inputs, outputs, time, dt, default_dt, units)
    return _one_record(mat_tables(existing(path)), wanted)


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
    wanted = Wanted(inputs, outputs, time, dt, default_dt, units)
    return _one_record(npz_tables(existing(path)), wanted)


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


def _one_record(tables: Iterator[Table], wanted: Wanted) -> Record:
    (record,) = _first_good(tables, lambda table: records_of(table, wanted, None))
    return record


def read_table(path: str | Path) -> Table:
    """Return all columns of a file, before any of them is an input or an output."""
    return next(tables_in(Path(path), None, None))
