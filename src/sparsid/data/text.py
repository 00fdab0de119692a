"""Tables of named columns, and how a text file becomes one."""

import codecs
import csv
import difflib
import io
import logging
import re
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sparsid.data.cells import BAD, MISSING_SPELLINGS, is_float, shown, to_float
from sparsid.data.layout import Layout, all_cells, layout_of
from sparsid.errors import FileFormatError, InputError

UNIT_PATTERN = re.compile(r"(.*\S)\s*(?:\[(.*)\]|\((.*)\))")
# Most names that a message lists.
LISTED = 20
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Table:
    """Named columns of a file: (time,) or (time, channel), possibly text."""

    path: Path
    columns: Mapping[str, Any]
    units: dict[str, str]
    spellings: dict[str, str]
    lines: Sequence[int] | None = None
    decimal: str = "."
    # The times of each column in seconds, where columns bring their own.
    clocks: Mapping[str, Any] | None = None

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
        """Return the column names, for messages: not more than can be read."""
        names = list(self.columns)
        more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
        return ", ".join(shown(name) for name in names[:LISTED]) + more

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
            if not is_float(text, self.decimal):
                raise InputError(
                    f"{self.path}, column {name!r}, {self.where(row)}: {shown(text)} "
                    "is not a number; correct it or leave the cell empty."
                )
        bad = [text for text in values if text.lower() in BAD]
        if bad:
            logger.warning(
                "%s: %d cells of %r that say %s count as missing.",
                self.path,
                len(bad),
                name,
                " or ".join(repr(text) for text in dict.fromkeys(bad)),
            )
        return np.array([to_float(text, self.decimal) for text in values])


def split_unit(label: str) -> tuple[str, str]:
    """Return name and unit of a header such as "level [V]"."""
    match = UNIT_PATTERN.fullmatch(label)
    return (match[1], match[2] or match[3] or "") if match else (label, "")


def read_text(path: Path) -> str:
    """Return the content of a text file, in UTF-8, UTF-16 or else Latin-1."""
    content = path.read_bytes()
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        try:
            return content.decode("utf-16")
        except UnicodeDecodeError as error:
            raise FileFormatError(f"{path} is no text in UTF-16: {error}.") from error
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
    layout = layout_of(path, text, separator, decimal)
    return _fast_table(path, layout), lambda: _exact_table(path, layout)


def _fast_table(path: Path, layout: Layout) -> Table | None:
    """Return the table as pandas reads it, None where it might misread it."""
    blank, width = layout.separator == " ", len(layout.names)
    quoted = '"' in layout.body
    if (blank and quoted) or layout.separator == layout.decimal:
        return None
    # Looking for many spellings of "missing" takes as long as reading numbers.
    frame = _parsed(layout, [""])
    texts = [] if frame is None else _texts(frame)
    if frame is None or texts:
        frame = _parsed(layout, sorted(MISSING_SPELLINGS))
        if frame is None:
            return None
        texts = _texts(frame)
    if (
        len(frame) != len(layout.lines)
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


def _parsed(layout: Layout, missing: list[str]) -> Any:
    """Return the rows as pandas reads them, None where it refuses them."""
    import pandas as pd

    # From 3.1 on pandas rounds numbers correctly, and wants no option for it.
    old = tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1)
    exact: dict[str, Any] = {"float_precision": "round_trip"} if old else {}
    quoted = '"' in layout.body
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return pd.read_csv(
                io.BytesIO(layout.body.encode()),
                sep=r"\s+" if layout.separator == " " else layout.separator,
                decimal=layout.decimal,
                header=None,
                # One more, as a row may end with a separator.
                names=list(range(len(layout.names) + 1)),
                index_col=False,
                na_values=missing,
                keep_default_na=False,
                skip_blank_lines=False,
                skipinitialspace=True,
                quoting=csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE,
                low_memory=False,
                **exact,
            )
    except (ValueError, Warning):
        return None


def _texts(frame: Any) -> list[int]:
    return [k for k in frame if frame[k].dtype.kind not in "iuf"]


def _exact_table(path: Path, layout: Layout) -> Table:
    """Return the table with every cell as text, or say which line is at fault."""
    names = layout.names
    numbered = list(zip(layout.lines, layout.rows, strict=True))
    cells = all_cells(path, numbered, layout.separator)
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


def _split_units(path: Path, columns: dict[str, Any], layout: Layout) -> Table:
    """Return the table with "level [V]" taken apart into name and unit."""
    matches = {full: UNIT_PATTERN.fullmatch(full) for full in columns}
    bare = {full: m[1] if m else full for full, m in matches.items()}
    # "level [V]" and "level [m]" stay apart under their full names.
    many = Counter(bare.values())
    short = {full: full if many[name] > 1 else name for full, name in bare.items()}
    units = {short[full]: m[2] or m[3] or "" for full, m in matches.items() if m}
    named = {short[full]: values for full, values in columns.items()}
    for full, unit in zip(layout.names, layout.units, strict=False):
        if unit and full in short:
            units.setdefault(short[full], unit)
    return Table(path, named, units, short, layout.lines, layout.decimal)
