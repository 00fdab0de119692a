"""How a text file is laid out: preamble, separator, decimal sign, header, units."""

from __future__ import annotations

import csv
import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sparsid.data.cells import BAD, is_float, unmasked
from sparsid.data.times import is_time
from sparsid.errors import FileFormatError, InputError

DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d+(?:[eE][+-]?\d+)?")
# Lines that are looked at for separator and decimal sign, the most lines in front of a
# header, and the rows of numbers in a row that show where the table begins.
HEAD, MOST_PREAMBLE, IN_A_ROW = 20, 100, 3
# What a row of units below the header is made of: symbols, and words for them.
UNIT = re.compile(
    r"\[.*\]|\(.*\)|[-%°]|"
    r"(?:[numkMGµcdh]?(?:m|s|g|V|A|W|Pa|bar|N|Nm|K|Hz|l|L|J|rad|mol|Ohm|VA|var|Wh|eV|T)"
    r"|sec|seconds?|ms|min|h|hours?|d|°C|°F|degC|degF|deg|C|F|rpm|RPM|U/min|1/min|"
    r"psi|ft|in|lb|gal|gpm|cfm|kg|volts?|amps?|percent|counts?|bool|dB|g|pH|ppm|1)"
    r"(?:[/*·^.]?(?:[a-zA-Z°³²]{1,4}|-?\d))*"
)
BLANK_LINES = re.compile(r"\n[ \t]*\n")
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Layout:
    """A dialect, the names of the columns ("" for none), units, and the rows.

    ``lines`` are the numbers of the rows in the file.
    """

    separator: str
    decimal: str
    names: list[str]
    body: str
    lines: Sequence[int]
    units: list[str] = field(default_factory=list)

    @property
    def rows(self) -> list[str]:
        """The rows, line by line."""
        return self.body.split("\n")


def layout_of(
    path: Path, text: str, separator: str | None, decimal: str | None
) -> Layout:
    """Return how a text is laid out."""
    body, lines = _without_blanks(text)
    head = list(zip(lines, body.split("\n", MOST_PREAMBLE + HEAD), strict=False))
    head = head[: MOST_PREAMBLE + HEAD]
    start = next((k for k, (_, s) in enumerate(head) if s.lstrip()[:1] not in "#%"), 0)
    if not body or head[start][1].lstrip()[:1] in ("#", "%"):
        raise InputError(f"{path} is empty: a header and rows of numbers are needed.")
    below: list[str] = []
    if separator is not None and (
        not isinstance(separator, str) or len(separator) != 1
    ):
        raise InputError(
            f"The separator is {separator!r} but must be one character; a blank stands "
            "for any white space."
        )
    above, has_units = _preamble([line for _, line in head[start:]], separator)
    if above:
        logger.info(
            "%s: the first %d lines are taken as a preamble and left out.", path, above
        )
    start += above
    if separator is None:
        separator = _sniff([s for _, s in head[start : start + HEAD]])
    top = all_cells(path, head[start : start + HEAD], separator)
    decimal = _sniff_decimal(top, separator) if decimal is None else decimal
    if decimal not in (".", ","):
        raise InputError(f"decimal is {decimal!r} but must be a point or a comma.")
    first = top[0]
    headed = not all(is_float(cell, decimal) or is_time(cell) for cell in first if cell)
    if headed and has_units:
        below = [cell.strip("[]() ") for cell in top[1]]
    skipped = start + headed + bool(below)
    rest = body.split("\n", skipped)[skipped:]
    if not rest:
        raise InputError(f"{path} has a header but no rows: nothing was recorded.")
    names = [unmasked(n) for n in first] if headed else [""] * len(first)
    return Layout(separator, decimal, names, rest[0], lines[skipped:], below)


def _without_blanks(text: str) -> tuple[str, Sequence[int]]:
    """Return the text without blank lines, and the numbers of its lines."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    text = text.rstrip()
    while text and not text[text.rfind("\n") + 1 :].strip(" \t;|,"):
        text = text[: max(text.rfind("\n"), 0)].rstrip()
    # Most files have none of these pairs, and a search by pattern takes its time.
    suspect = any(pair in text for pair in ("\n\n", "\n ", "\n\t"))
    blank = suspect and BLANK_LINES.search(text)
    if text and text.split("\n", 1)[0].strip() and not blank:
        return text, range(1, text.count("\n") + 2)
    kept = [(n, s) for n, s in enumerate(text.split("\n"), 1) if s.strip()]
    return "\n".join(s for _, s in kept), [n for n, _ in kept]


def all_cells(
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


# -- where the table begins ------------------------------------------------------------


def _preamble(lines: list[str], given: str | None) -> tuple[int, bool]:
    """Return the number of lines above the header, and whether units are below it.

    The table begins where some rows of numbers follow each other; the line above that
    holds nothing but texts, one for each number, is the header. Where that is not so
    everything counts as table.
    """
    for first in range(1, min(len(lines), MOST_PREAMBLE)):
        separator = given or _sniff(lines[first - 1 : first + HEAD])
        try:
            rows = [_cells(s, separator) for s in lines[max(first - 2, 0) : first + 3]]
        except csv.Error:
            return 0, False
        above, data = rows[: min(first, 2)], rows[min(first, 2) :]
        blank = separator == " "
        if not all(_is_data(row) and len(row) == len(data[0]) for row in data):
            continue
        # Sentences have blanks, too, and a number here and there.
        if blank and not all(_is_value(cell) for row in data for cell in row):
            continue
        if _is_data(above[-1]) or len(above[-1]) < _filled(data[0]):
            return 0, False
        if blank and len(above[-1]) > len(data[0]):
            return 0, False
        units = (
            len(above) == 2
            and _is_unit_row(above[1])
            and not _is_data(above[0])
            and len(above[0]) >= _filled(data[0])
        )
        return first - 1 - units, units
    return 0, False


def _is_unit_row(row: list[str]) -> bool:
    """Return whether a row has units, one of which is a text other than "-"."""
    cells = [cell for cell in row if cell]
    plain = any(not is_float(cell, ".") for cell in cells)
    return plain and all(UNIT.fullmatch(cell) for cell in cells)


def _is_data(row: list[str]) -> bool:
    """Return whether a row has a number or a time in it."""
    return any(cell and cell.lower() not in BAD and _is_value(cell) for cell in row)


def _is_value(cell: str) -> bool:
    return _is_number(cell) or is_time(cell)


def _is_number(cell: str) -> bool:
    return is_float(cell, ".") or bool(DECIMAL_COMMA.fullmatch(cell))


def _filled(row: list[str]) -> int:
    """Return the number of cells up to the last that is not empty."""
    return max((k for k, cell in enumerate(row, 1) if cell), default=0)


def _sniff(head: list[str]) -> str:
    body = head[1:] or head
    for candidate in "\t;|,":
        if all(candidate in line for line in body):
            return candidate
    return " " if any(" " in line.strip() for line in body) else ","


def _sniff_decimal(rows: list[list[str]], separator: str) -> str:
    cells = [cell for row in rows for cell in row]
    commas = separator != "," and any(DECIMAL_COMMA.fullmatch(c) for c in cells)
    return "," if commas else "."
