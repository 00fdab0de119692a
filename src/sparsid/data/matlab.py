"""Arrays of real numbers in MATLAB files up to version 7.

Every size is compared with the file before it is used: SciPy's reader trusts them, and
a damaged file can end the whole process.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparsid.errors import FileFormatError

Load = Callable[[], NDArray[Any]]

# How numbers are stored, by the codes of version 5 and of version 4.
STORED = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8"}
STORED |= {12: "i8", 13: "u8"}
STORED_4 = {0: "f8", 1: "f4", 2: "i4", 3: "i2", 4: "u2", 5: "u1"}
# Codes of elements, the classes of arrays of numbers, and a flag of theirs.
INT8, INT32, UINT32, MATRIX, COMPRESSED, UTF8 = 1, 5, 6, 14, 15, 16
NUMERIC = range(6, 16)
COMPLEX = 0x0800
# Bytes of the file header; bytes in which an array says what it is, at most.
HEADER, DESCRIPTION = 128, 4096
# The class of structures, and the bytes that one of them has at most.
STRUCTURE, LARGEST_STRUCTURE = 2, 2**30


def arrays_of_numbers(path: Path) -> dict[str, Load]:
    """Return what reads each array of real numbers; text and lists are left out.

    Arrays in structures are called "name.field". Of the others nothing but the
    description is read before.
    """
    source = _Source(path, path.stat().st_size)
    try:
        # Version 4 has no file header, and a zero among the first bytes.
        if 0 in source.read(0, 4):
            return _version_4(source)
        version, order = struct.unpack("<H2s", source.read(124, 4))
        sign = "<" if order == b"IM" else ">"
        version = version >> 8 if sign == "<" else version & 0xFF
        if version != 1 or order not in (b"IM", b"MI"):
            raise _Damage("it does not begin as one")
        return _version_5(source, sign)
    except (_Damage, struct.error, zlib.error) as error:
        raise _refusal(path, error) from error


def is_version_73(path: Path) -> bool:
    """Return whether a file is a MATLAB 7.3 file: HDF5 behind a header."""
    with path.open("rb") as file:
        head = file.read(HEADER)
    return head[124:128] in (b"\x00\x02IM", b"\x02\x00MI")


class _Damage(Exception):  # noqa: N818 (it never leaves this module)
    """What is wrong with a file."""


def _refusal(path: Path, error: Exception) -> FileFormatError:
    return FileFormatError(f"{path} is no readable MAT file: {error}.")


class _Source(NamedTuple):
    """A file of which parts are read."""

    path: Path
    size: int

    def read(self, place: int, count: int) -> bytes:
        if place + count > self.size:
            raise _Damage(f"it ends after {self.size} bytes")
        with self.path.open("rb") as file:
            file.seek(place)
            return file.read(count)


class _Array(NamedTuple):
    """Name and form of an array, where its numbers begin, and the bytes in all."""

    name: str
    shape: tuple[int, ...]
    stored: np.dtype[Any]
    first: int
    whole: int

    @property
    def size(self) -> int:
        """Bytes of its numbers."""
        return math.prod(self.shape) * self.stored.itemsize


def _add(
    found: dict[str, Load], source: _Source, array: _Array, read: Callable[[int], bytes]
) -> None:
    """Add an array; ``read`` gives its first bytes, as many as are wanted or there."""

    def load() -> NDArray[Any]:
        try:
            content = read(array.whole + 1)
            if len(content) != array.whole:
                raise _Damage(f"{array.name!r} is not as long as it says")
        except (_Damage, zlib.error) as error:
            raise _refusal(source.path, error) from error
        values = np.frombuffer(
            content, array.stored, math.prod(array.shape), array.first
        )
        native = array.stored.newbyteorder("=")
        return values.reshape(array.shape, order="F").astype(native)

    if array.name in found:
        raise _Damage(f"it has two variables named {array.name!r}")
    found[array.name] = load


def _version_5(source: _Source, sign: str) -> dict[str, Load]:
    found: dict[str, Load] = {}
    place = HEADER
    while place < source.size:
        kind, count = struct.unpack(f"{sign}2I", source.read(place, 8))
        begin, place = place + 8, place + 8 + count
        if kind not in (MATRIX, COMPRESSED) or count == 0 or place > source.size:
            raise _Damage(f"the variable at byte {begin - 8} is cut off or damaged")
        packed = kind == COMPRESSED

        def read(
            wanted: int, begin: int = begin, count: int = count, packed: bool = packed
        ) -> bytes:
            if not packed:
                return source.read(begin - 8, min(wanted, count + 8))
            # What cannot be packed grows by less than this.
            longest = wanted + wanted // 1000 + 1024
            content = source.read(begin, min(longest, count))
            return zlib.decompressobj().decompress(content, wanted)

        head = read(DESCRIPTION)
        if _is_structure(head, sign):
            content = read(LARGEST_STRUCTURE)
            if len(content) == LARGEST_STRUCTURE:
                raise _Damage(f"a structure has more than {LARGEST_STRUCTURE} bytes")
            _structure(found, source, content, sign, "")
            continue
        array = _described(head, sign)
        if array is not None and array.name:
            _add(found, source, array, read)
    return found


def _is_structure(head: bytes, sign: str) -> bool:
    kind, place, count, _ = _element(head, 8, sign)
    return (
        kind == UINT32
        and count == 8
        and struct.unpack_from(f"{sign}I", head, place)[0] & 0xFF == STRUCTURE
    )


def _structure(
    found: dict[str, Load], source: _Source, content: bytes, sign: str, above: str
) -> None:
    """Add the arrays in the fields of a structure, as "name.field"."""
    _, _, _, following = _element(content, 8, sign)
    kind, place, count, following = _element(content, following, sign)
    if kind not in (INT32, UINT32) or count % 4 or not 8 <= count <= 128:
        raise _Damage("a structure has no dimensions")
    shape = struct.unpack_from(f"{sign}{count // 4}i", content, place)
    kind, place, count, following = _element(content, following, sign)
    name = above or content[place : place + count].decode(errors="replace")
    _, place, count, following = _element(content, following, sign)
    if count != 4:
        raise _Damage(f"the structure {name!r} has no names")
    (width,) = struct.unpack_from(f"{sign}i", content, place)
    _, place, count, following = _element(content, following, sign)
    if width <= 0 or place + count > len(content):
        raise _Damage(f"the structure {name!r} has no names")
    fields = [content[k : k + width] for k in range(place, place + count, width)]
    if math.prod(shape) != 1:
        # A list of structures is no record.
        return
    for field in fields:
        label = f"{name}.{field.split(bytes(1))[0].decode(errors='replace')}"
        kind, count = struct.unpack_from(f"{sign}2I", content, following)
        stop = following + 8 + count
        if kind != MATRIX or stop > len(content):
            raise _Damage(f"{label!r} is cut off")
        part, following = content[following:stop], stop
        if not count:
            continue
        if _is_structure(part, sign):
            _structure(found, source, part, sign, label)
            continue
        array = _described(part, sign)
        if array is not None:

            def read(wanted: int, part: bytes = part) -> bytes:
                return part[:wanted]

            _add(found, source, array._replace(name=label), read)


def _described(head: bytes, sign: str) -> _Array | None:
    """Return what an array says of itself, or None if it holds no real numbers."""
    kind, whole = struct.unpack_from(f"{sign}2I", head)
    flags_kind, place, count, following = _element(head, 8, sign)
    if kind != MATRIX or flags_kind != UINT32 or count != 8:
        raise _Damage("a variable has no header")
    (flags,) = struct.unpack_from(f"{sign}I", head, place)
    if flags & 0xFF not in NUMERIC:
        return None
    kind, place, count, following = _element(head, following, sign)
    if kind not in (INT32, UINT32) or count % 4 or not 8 <= count <= 128:
        raise _Damage("a variable has no dimensions")
    shape = struct.unpack_from(f"{sign}{count // 4}i", head, place)
    kind, place, count, following = _element(head, following, sign)
    if kind not in (INT8, UTF8) or place + count > len(head):
        raise _Damage("a variable has no name")
    name = head[place : place + count].decode(errors="replace")
    if flags & COMPLEX:
        return None
    kind, first, count, _ = _element(head, following, sign)
    if kind not in STORED or min(shape) < 0:
        raise _Damage(f"{name!r} is no array of numbers")
    array = _Array(name, shape, np.dtype(sign + STORED[kind]), first, whole + 8)
    if array.size != count or first + count > array.whole:
        raise _Damage(f"{name!r} has shape {shape} but {count} bytes of numbers")
    return array


def _element(head: bytes, place: int, sign: str) -> tuple[int, int, int, int]:
    """Return code, place and size of a part, and the place of the next."""
    kind, count = struct.unpack_from(f"{sign}2I", head, place)
    if kind >> 16:
        # Up to four bytes are put where their number would be.
        kind, count = kind & 0xFFFF, kind >> 16
        if count > 4:
            raise _Damage("a small part is too large")
        return kind, place + 4, count, place + 8
    return kind, place + 8, count, place + 8 + -(-count // 8) * 8


def _version_4(source: _Source) -> dict[str, Load]:
    found: dict[str, Load] = {}
    (first,) = struct.unpack("<i", source.read(0, 4))
    sign = "<" if 0 <= first <= 5000 else ">"
    place = 0
    while place < source.size:
        code, rows, columns, imaginary, length = struct.unpack(
            f"{sign}5i", source.read(place, 20)
        )
        kind, stored = code % 10, STORED_4.get(code // 10 % 10)
        if (
            not 0 <= code < 2000
            or code // 100 % 10
            or kind > 2
            or stored is None
            or min(rows, columns) < 0
            or imaginary not in (0, 1)
            or length < 1
        ):
            raise _Damage(f"the variable at byte {place} is damaged")
        name = source.read(place + 20, length).strip(b"\0").decode("latin-1")
        begin = place + 20 + length
        form = np.dtype(sign + stored)
        size = rows * columns * form.itemsize
        place = begin + size * (2 if imaginary and kind != 2 else 1)
        if place > source.size:
            raise _Damage(f"{name!r} is cut off")
        if kind == 0 and not imaginary:

            def read(wanted: int, begin: int = begin, size: int = size) -> bytes:
                return source.read(begin, min(wanted, size))

            array = _Array(name, (rows, columns), form, 0, size)
            _add(found, source, array, read)
    return found
