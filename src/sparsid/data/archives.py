"""Arrays in NumPy archives."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Any
from zipfile import ZipFile, ZipInfo

from numpy.lib import format as npy
from numpy.typing import NDArray

from sparsid.data.matlab import Load
from sparsid.errors import FileFormatError

SUFFIX = ".npy"
# Whole numbers, floats, truth values, dates and durations, as NumPy abbreviates them.
KINDS = "biufmM"


def archived_arrays(path: Path) -> dict[str, Load]:
    """Return what reads each array of numbers, dates or durations.

    Nothing but the description of the arrays is read before.
    """
    found: dict[str, Load] = {}
    try:
        with ZipFile(path) as archive:
            for member in archive.infolist():
                if member.filename.endswith(SUFFIX) and _serves(archive, member):
                    name = member.filename.removesuffix(SUFFIX)
                    found[name] = partial(_load, path, member)
    # A damaged archive or another kind of file: the libraries have no common error.
    except Exception as error:
        raise _refusal(path, error) from error
    return found


def _refusal(path: Path, error: Exception) -> FileFormatError:
    return FileFormatError(f"{path} is no readable NPZ file: {error}.")


def _serves(archive: ZipFile, member: ZipInfo) -> bool:
    """Return whether a member is an array of a kind that is read."""
    with archive.open(member) as file:
        version = npy.read_magic(file)
        if version > (2, 0):
            # Only arrays of structures need a later one.
            return False
        header = (
            npy.read_array_header_1_0
            if version == (1, 0)
            else npy.read_array_header_2_0
        )
        shape, _, dtype = header(file)
    size = math.prod(shape) * dtype.itemsize
    if dtype.kind in KINDS and size > member.file_size:
        raise ValueError(f"{member.filename} is shorter than it says")
    return dtype.kind in KINDS


def _load(path: Path, member: ZipInfo) -> NDArray[Any]:
    try:
        with ZipFile(path) as archive, archive.open(member) as file:
            values: NDArray[Any] = npy.read_array(file, allow_pickle=False)
            # The checksum is compared at the end.
            file.read(1)
    except Exception as error:
        raise _refusal(path, error) from error
    return values
