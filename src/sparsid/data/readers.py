"""Tables of named columns in files of every kind that is known."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sparsid.data import formats
from sparsid.data.archives import archived_arrays
from sparsid.data.matlab import Load, arrays_of_numbers, is_version_73
from sparsid.data.text import Table, parse_text, read_text
from sparsid.errors import FileFormatError, InputError

TEXT_SUFFIXES = (".csv", ".txt", ".tsv", ".dat")


def existing(path: str | Path) -> Path:
    """Return the path of a file that is there."""
    path = Path(path)
    if path.is_dir():
        raise InputError(f"{path} is a folder: give the path of a file in it.")
    if not path.is_file():
        raise InputError(f"{path} does not exist: check the name and the folder.")
    return path


def tables_in(
    path: Path, separator: str | None, decimal: str | None
) -> Iterator[Table]:
    """Return the table in a file, read according to its suffix."""
    suffix = path.suffix.lower()
    if suffix in TEXT_SUFFIXES:
        return text_tables(existing(path), separator, decimal)
    readers: dict[str, Callable[[Path], Iterator[Table]]] = {
        ".mat": mat_tables,
        ".npz": npz_tables,
        **dict.fromkeys((".h5", ".hdf5", ".hdf"), hdf5_tables),
        **formats.READERS,
    }
    if suffix not in readers:
        hint = "; save it as .xlsx" if suffix in (".xls", ".ods") else ""
        raise InputError(
            f"{path} has the suffix {suffix!r} but only "
            f"{', '.join((*TEXT_SUFFIXES, *readers))} are known{hint}."
        )
    return readers[suffix](existing(path))


def text_tables(
    path: Path, separator: str | None, decimal: str | None
) -> Iterator[Table]:
    """Yield the table; if it is refused a second one, which says where the fault is."""
    fast, exact = parse_text(path, read_text(path), separator, decimal)
    if fast is not None:
        yield fast
    yield exact()


def mat_tables(path: Path) -> Iterator[Table]:
    """Yield the arrays of a MATLAB file, those in structures too."""
    if is_version_73(path):
        yield _variables(path, formats.matlab73_loads(path))
    else:
        yield _variables(path, arrays_of_numbers(path))


def npz_tables(path: Path) -> Iterator[Table]:
    """Yield the arrays of a NumPy archive."""
    yield _variables(path, archived_arrays(path))


def hdf5_tables(path: Path) -> Iterator[Table]:
    """Yield the arrays of an HDF5 file."""
    loads, units = formats.hdf5_loads(path)
    yield _variables(path, loads, units)


def _variables(
    path: Path, loads: Mapping[str, Load], units: Mapping[str, str] | None = None
) -> Table:
    """Return arrays as columns, each loaded when it is first used.

    "z.u" is called "u" where nothing else is.
    """
    found = {name: load for name, load in loads.items() if not name.startswith("__")}
    if not found:
        raise FileFormatError(
            f"{path} holds no arrays of numbers; pickled ones are refused "
            "(allow_pickle)."
        )
    short = formats.short_names(found)
    named = {short[name]: load for name, load in found.items()}
    known = {short[n]: unit for n, unit in (units or {}).items() if n in short}
    return Table(path, _Columns(named), known, short)


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
