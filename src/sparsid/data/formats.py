"""Tables in Excel, Parquet, HDF5, MATLAB 7.3, TDMS and MDF files.

Each library is loaded when a file of its kind is read; all come with the extra
``files``.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime, time, timedelta
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from sparsid.data.matlab import Load
from sparsid.data.text import Table, parse_text, split_unit
from sparsid.errors import FileFormatError, InputError

# Types of numbers that channels are made of, as NumPy abbreviates them.
NUMBERS = "biuf"
# What MATLAB calls arrays of numbers; text is stored as numbers, too.
MATLAB_NUMBERS = re.compile(rb"u?int(8|16|32|64)|single|double|logical")
UNIT_ATTRIBUTES = ("unit", "units", "Unit", "Units")
# In a cell of a table that is written as text these would end it.
BREAKS = re.compile(r"[\t\r\n]+")


def needed(module: str, path: Path) -> Any:
    """Return a library that comes with the extra, or say how to get it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise InputError(
            f"{path} needs {module.partition('.')[0]} to be read: "
            'pip install "sparsid[files]".'
        ) from error


def refused(path: Path, kind: str, error: Exception) -> FileFormatError:
    """Return the error for a file that its library cannot read."""
    told = " ".join(str(error).split())[:200]
    return FileFormatError(f"{path} is no readable {kind} file: {told}.")


# -- tables ----------------------------------------------------------------------------


def excel_tables(path: Path) -> Iterator[Table]:
    """Yield the first sheet, read as a text table would be."""
    openpyxl = needed("openpyxl", path)
    try:
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
        rows = list(book.worksheets[0].iter_rows(values_only=True))
        book.close()
    # A damaged archive or another kind of file: no common error.
    except Exception as error:
        raise refused(path, "Excel", error) from error
    width = max((len(row) for row in rows), default=0)
    text = io.StringIO()
    for row in rows:
        cells = [_cell(value) for value in row]
        text.write("\t".join(cells + [""] * (width - len(cells))) + "\n")
    fast, exact = parse_text(path, text.getvalue(), "\t", ".")
    if fast is not None:
        yield fast
    yield exact()


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return repr(value.total_seconds())
    if isinstance(value, bool | int | float):
        return repr(value + 0)
    return BREAKS.sub(" ", str(value))


def parquet_tables(path: Path) -> Iterator[Table]:
    """Yield the columns of a Parquet file; an index with a name is a column."""
    needed("pyarrow", path)
    import pandas as pd

    try:
        frame = pd.read_parquet(path)
    except Exception as error:
        raise refused(path, "Parquet", error) from error
    if any(name is not None for name in frame.index.names):
        frame = frame.reset_index()
    columns: dict[str, Any] = {}
    units: dict[str, str] = {}
    spellings: dict[str, str] = {}
    for key in frame:
        values = frame[key]
        name, unit = split_unit(str(key))
        name = str(key) if name in columns else name
        units |= {name: unit} if unit else {}
        spellings[str(key)] = name
        kind = getattr(values.dtype, "kind", "O")
        if kind == "M":
            values = pd.to_datetime(values, utc=True).dt.tz_localize(None)
            columns[name] = values.to_numpy()
        elif kind in NUMBERS:
            columns[name] = values.to_numpy(dtype=np.float64, na_value=np.nan)
        elif kind == "m":
            columns[name] = values.to_numpy()
        else:
            texts = values.astype(object).where(values.notna(), "")
            columns[name] = texts.map(_cell).to_numpy(dtype=object)
    if not columns:
        raise FileFormatError(f"{path} has no columns.")
    yield Table(path, columns, units, spellings)


# -- arrays by name --------------------------------------------------------------------


def hdf5_loads(path: Path) -> tuple[dict[str, Load], dict[str, str]]:
    """Return what reads each array of numbers in an HDF5 file, and units."""
    return _walked(path, matlab=False)


def matlab73_loads(path: Path) -> dict[str, Load]:
    """Return what reads each array of numbers in a MATLAB 7.3 file."""
    return _walked(path, matlab=True)[0]


def _walked(path: Path, matlab: bool) -> tuple[dict[str, Load], dict[str, str]]:
    h5py = needed("h5py", path)
    loads: dict[str, Load] = {}
    units: dict[str, str] = {}

    def visit(place: str, node: Any) -> None:
        if not isinstance(node, h5py.Dataset) or place.startswith("#"):
            return
        if matlab and not MATLAB_NUMBERS.fullmatch(
            bytes(node.attrs.get("MATLAB_class", b""))
        ):
            return
        if matlab and "MATLAB_empty" in node.attrs:
            return
        name = place.replace("/", ".")
        fields = node.dtype.names or (None,)
        for field in fields:
            kind = node.dtype.kind if field is None else node.dtype[field].kind
            if kind in NUMBERS and 0 < node.ndim <= 2:
                own = name if field is None else f"{name}.{field}"
                loads[own] = partial(_h5_values, path, place, field, matlab)
        for key in UNIT_ATTRIBUTES:
            if isinstance(node.attrs.get(key), str | bytes):
                unit = node.attrs[key]
                units[name] = unit.decode() if isinstance(unit, bytes) else unit

    try:
        with h5py.File(path, "r") as file:
            file.visititems(visit)
    except Exception as error:
        raise refused(path, "MATLAB 7.3" if matlab else "HDF5", error) from error
    return loads, units


def _h5_values(path: Path, place: str, field: str | None, matlab: bool) -> Any:
    import h5py

    try:
        with h5py.File(path, "r") as file:
            values = file[place][()]
    except Exception as error:
        raise refused(path, "HDF5", error) from error
    values = values if field is None else values[field]
    # MATLAB counts along columns first.
    return np.asarray(values).T if matlab else np.asarray(values)


# -- channels with clocks of their own -------------------------------------------------


def tdms_tables(path: Path) -> Iterator[Table]:
    """Yield the channels of a TDMS file, with the clocks that their properties tell."""
    nptdms = needed("nptdms", path)
    try:
        file = nptdms.TdmsFile.read(path)
        found = {
            f"{group.name}.{channel.name}": channel
            for group in file.groups()
            for channel in group.channels()
            if len(channel) and getattr(channel.dtype, "kind", "O") in NUMBERS + "M"
        }
        values = {name: np.asarray(channel[:]) for name, channel in found.items()}
    except Exception as error:
        raise refused(path, "TDMS", error) from error
    clocks: dict[str, Any] = {}
    for name, channel in found.items():
        step = channel.properties.get("wf_increment")
        if step:
            offset = float(channel.properties.get("wf_start_offset", 0.0))
            clocks[name] = offset + float(step) * np.arange(len(values[name]))
    units = {
        name: str(channel.properties["unit_string"])
        for name, channel in found.items()
        if channel.properties.get("unit_string")
    }
    yield clocked_table(path, values, units, clocks)


def mdf_tables(path: Path) -> Iterator[Table]:
    """Yield the channels of an MDF file, each with its clock."""
    asammdf = needed("asammdf", path)
    values: dict[str, Any] = {}
    units: dict[str, str] = {}
    clocks: dict[str, Any] = {}
    try:
        with asammdf.MDF(path) as file:
            for signal in file.iter_channels(skip_master=True):
                kind, count = signal.samples.dtype.kind, len(signal.samples)
                if kind in NUMBERS and signal.samples.ndim == 1 and count:
                    name = signal.name
                    while name in values:
                        name += "'"
                    values[name], units[name] = signal.samples, signal.unit or ""
                    clocks[name] = np.asarray(signal.timestamps, dtype=np.float64)
    except Exception as error:
        raise refused(path, "MDF", error) from error
    yield clocked_table(path, values, units, clocks)


def clocked_table(
    path: Path, values: dict[str, Any], units: dict[str, str], clocks: dict[str, Any]
) -> Table:
    """Return channels as a table, under short names where these are enough."""
    if not values:
        raise FileFormatError(f"{path} holds no channels of numbers.")
    short = short_names(values)
    return Table(
        path,
        {short[name]: column for name, column in values.items()},
        {short[name]: unit for name, unit in units.items()},
        short,
        clocks={short[name]: clocks.get(name) for name in values},
    )


def short_names(names: Mapping[str, Any]) -> dict[str, str]:
    """Return the last part of each dotted name, where no other has the same."""
    last = {name: name.rpartition(".")[2] for name in names}
    parts = list(last.values())
    return {
        name: end if end and parts.count(end) == 1 else name
        for name, end in last.items()
    }


READERS: dict[str, Callable[[Path], Iterator[Table]]] = {
    ".xlsx": excel_tables,
    ".xlsm": excel_tables,
    ".parquet": parquet_tables,
    ".tdms": tdms_tables,
    ".mf4": mdf_tables,
    ".mdf": mdf_tables,
}
