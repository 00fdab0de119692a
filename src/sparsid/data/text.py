"""Tables of named columns, and how a text file becomes one."""

import csv
import difflib
import io
import math
import re
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from sparsid.errors import FileFormatError, InputError

UNIT_PATTERN = re.compile(r"(.*\S)\s*(?:\[(.*)\]|\((.*)\))")
DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d+(?:[eE][+-]?\d+)?")
MISSING = {"", "na", "n/a", "nan", "null", "none"}
# The spellings that pandas shall know; cells in others are read one by one.
MISSING_SPELLINGS = {"NaN", *MISSING} | {
    case(text) for text in MISSING for case in (str.upper, str.capitalize)
}
# What a formula begins with in spreadsheets; the apostrophe, as it is the mask.
FORMULA_SIGNS = ("=", "+", "-", "@", "'")
# Most characters of a cell or a name that a message shows.
SHOWN = 60


@dataclass(frozen=True)
class Table:
    """Named columns of a file: (time,) or (time, channel), possibly text."""

    path: Path
    columns: Mapping[str, Any]
    units: dict[str, str]
    spellings: dict[str, str]
    lines: list[int] | None = None
    decimal: str = "."

    def find(self, wanted: str) -> str:
        """Return the column meant by a name, in either spelling or case."""
        if not isinstance(wanted, str):
            raise InputError(
                f"{wanted!r} is no name of a column: {self.path} has {self.listing()}."
            )
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
        return ", ".join(shown(name) for name in self.columns)

    def where(self, row: int) -> str:
        """Return where in the file a row is, for messages."""
        return f"row {row + 1}" if self.lines is None else f"line {self.lines[row]}"

    def numbers(self, name: str) -> Any:
        """Return a column as floats, or say which cell is text."""
        values = self.columns[name]
        if values.dtype.kind in "biuf":
            return values.astype(np.float64)
        if values.dtype.kind in "mM":
            raise InputError(
                f"{self.path}: {name!r} holds dates or durations, but numbers are "
                "needed: convert it, or choose other columns."
            )
        for row, text in enumerate(values):
            if not _is_float(text, self.decimal):
                raise InputError(
                    f"{self.path}, column {name!r}, {self.where(row)}: {shown(text)} "
                    "is not a number; correct it or leave the cell empty."
                )
        return np.array([_to_float(text, self.decimal) for text in values])


def shown(text: str) -> str:
    """Return a text for a message: quoted, and not endless."""
    return repr(text if len(text) <= SHOWN else f"{text[:SHOWN]}...")


def masked(name: str) -> str:
    """Return a name for a header, as one that no spreadsheet takes for a formula."""
    return f"'{name}" if name.startswith(FORMULA_SIGNS) else name


def _unmasked(name: str) -> str:
    return name[1:] if name[:1] == "'" and name[1:].startswith(FORMULA_SIGNS) else name


def read_text(path: Path) -> str:
    """Return the content of a text file, in UTF-8 or else Latin-1."""
    content = path.read_bytes()
    if b"\0" in content:
        raise FileFormatError(f"{path} is no text file: export it as CSV in UTF-8.")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        # Spreadsheets on Windows; it cannot fail, and matters for units only.
        return content.decode("latin-1")


def parse_text(
    path: Path, text: str, separator: str | None, decimal: str | None
) -> tuple[Table | None, Callable[[], Table]]:
    """Return the columns of a text table under names without units, in two ways.

    The first is pandas' reading, with columns of numbers where every cell is one, and
    None where pandas cannot be trusted with the table. The second gives the columns as
    text, cell by cell as in the file, and raises errors that name the line.
    """
    layout = _layout(path, text, separator, decimal)
    return _fast_table(path, layout), lambda: _exact_table(path, layout)


@dataclass(frozen=True)
class _Layout:
    """A dialect, the names of the columns ("" for none), and lines with numbers."""

    separator: str
    decimal: str
    names: list[str]
    rows: list[str]
    lines: list[int]


def _layout(
    path: Path, text: str, separator: str | None, decimal: str | None
) -> _Layout:
    kept = [(n, s) for n, s in enumerate(re.split(r"\r\n?|\n", text), 1) if s.strip()]
    start, end = 0, len(kept)
    while start < end and kept[start][1].lstrip()[0] in "#%":
        start += 1
    while start < end and not kept[end - 1][1].strip(" \t;,"):
        end -= 1
    kept = kept[start:end]
    if not kept:
        raise InputError(f"{path} is empty: a header and rows of numbers are needed.")
    head = [line for _, line in kept[:20]]
    separator = _sniff(head) if separator is None else separator
    if not isinstance(separator, str) or len(separator) != 1:
        raise InputError(
            f"The separator is {separator!r} but must be one character; a blank stands "
            "for any white space."
        )
    top = _all_cells(path, kept[:20], separator)
    decimal = _sniff_decimal(top, separator) if decimal is None else decimal
    if decimal not in (".", ","):
        raise InputError(f"decimal is {decimal!r} but must be a point or a comma.")
    first = top[0]
    headed = not all(
        _is_float(cell, decimal) or is_date(cell) for cell in first if cell
    )
    rows = kept[headed:]
    if not rows:
        raise InputError(f"{path} has a header but no rows: nothing was recorded.")
    names = [_unmasked(n) for n in first] if headed else [""] * len(first)
    return _Layout(
        separator, decimal, names, [s for _, s in rows], [n for n, _ in rows]
    )


def _fast_table(path: Path, layout: _Layout) -> Table | None:
    """Return the table as pandas reads it, None where it might misread it."""
    import pandas as pd

    blank, width = layout.separator == " ", len(layout.names)
    quoted = any('"' in line for line in layout.rows)
    if (blank and quoted) or layout.separator == layout.decimal:
        return None
    # From 3.1 on pandas rounds numbers correctly, and wants no option for it.
    old = tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1)
    exact: dict[str, Any] = {"float_precision": "round_trip"} if old else {}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            frame = pd.read_csv(
                io.StringIO("\n".join(layout.rows)),
                sep=r"\s+" if blank else layout.separator,
                decimal=layout.decimal,
                header=None,
                # One more, as a row may end with a separator.
                names=list(range(width + 1)),
                index_col=False,
                na_values=sorted(MISSING_SPELLINGS),
                keep_default_na=False,
                skip_blank_lines=False,
                skipinitialspace=True,
                quoting=csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE,
                low_memory=False,
                **exact,
            )
    except (ValueError, Warning):
        return None
    texts = [k for k in frame if frame[k].dtype.kind not in "iuf"]
    if (
        len(frame) != len(layout.rows)
        or frame[width].notna().any()
        or any(frame[k].dtype.kind == "b" for k in texts)
        or (blank and texts)
    ):
        return None
    columns: dict[str, Any] = {}
    for k, name in enumerate(layout.names):
        values = frame[k]
        if not name and values.isna().all():
            continue
        name = name or f"column{k + 1}"
        if name in columns:
            return None
        if k in texts:
            values = values.fillna("").astype(str).str.strip()
            columns[name] = values.to_numpy(dtype=object)
        else:
            columns[name] = values.to_numpy()
    return _split_units(path, columns, layout)


def _exact_table(path: Path, layout: _Layout) -> Table:
    """Return the table with every cell as text, or say which line is at fault."""
    names = layout.names
    numbered = list(zip(layout.lines, layout.rows, strict=True))
    cells = _all_cells(path, numbered, layout.separator)
    for number, row in zip(layout.lines, cells, strict=True):
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
    return _split_units(path, columns, layout)


def _split_units(path: Path, columns: dict[str, Any], layout: _Layout) -> Table:
    """Return the table with "level [V]" taken apart into name and unit."""
    matches = {full: UNIT_PATTERN.fullmatch(full) for full in columns}
    bare = {full: m[1] if m else full for full, m in matches.items()}
    # "level [V]" and "level [m]" stay apart under their full names.
    many = Counter(bare.values())
    short = {full: full if many[name] > 1 else name for full, name in bare.items()}
    units = {short[full]: m[2] or m[3] or "" for full, m in matches.items() if m}
    named = {short[full]: values for full, values in columns.items()}
    return Table(path, named, units, short, layout.lines, layout.decimal)


def _all_cells(
    path: Path, numbered: list[tuple[int, str]], separator: str
) -> list[list[str]]:
    """Return the cells of lines, or say which line cannot be taken apart."""
    rows = []
    for number, line in numbered:
        try:
            rows.append(_cells(line, separator))
        except csv.Error as error:
            raise FileFormatError(
                f"{path}: line {number} cannot be taken apart ({error}): correct it, "
                f"or give the separator; a cell has at most {csv.field_size_limit()} "
                "characters."
            ) from error
    return rows


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


def _sniff_decimal(rows: list[list[str]], separator: str) -> str:
    cells = [cell for row in rows for cell in row]
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


def is_date(text: str) -> bool:
    """Return whether a text is an ISO date."""
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True
