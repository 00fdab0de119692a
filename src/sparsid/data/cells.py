"""Cells of tables: numbers in two spellings, and the ways to say that there is none."""

from __future__ import annotations

import math

MISSING = {"", "na", "n/a", "nan", "null", "none"}
# The spellings that pandas shall know; cells in others are read one by one.
MISSING_SPELLINGS = {"NaN", *MISSING} | {
    case(text) for text in MISSING for case in (str.upper, str.capitalize)
}
# What historians and spreadsheets write where they have no value; it is counted.
BAD = {
    *("bad input", "bad data", "no data", "no good data", "i/o timeout"),
    *("calc failed", "comm fail", "pt created", "scan off", "scan timeout", "shutdown"),
    *("out of serv", "not connect", "under range", "over range"),
    *("#n/a", "#value!", "#ref!", "#div/0!", "#num!", "#name?", "#null!", "-", "--"),
    "---",
}
# What a formula begins with in spreadsheets; the apostrophe, as it is the mask.
FORMULA_SIGNS = ("=", "+", "-", "@", "'")
# Most characters of a cell or a name that a message shows.
SHOWN = 60


def shown(text: str) -> str:
    """Return a text for a message: quoted, and not endless."""
    return repr(text if len(text) <= SHOWN else f"{text[:SHOWN]}...")


def masked(name: str) -> str:
    """Return a name for a header, as one that no spreadsheet takes for a formula."""
    return f"'{name}" if name.startswith(FORMULA_SIGNS) else name


def unmasked(name: str) -> str:
    """Return a name without the mask."""
    return name[1:] if name[:1] == "'" and name[1:].startswith(FORMULA_SIGNS) else name


def to_float(text: str, decimal: str) -> float:
    """Return the number in a cell, NaN where it says that there is none."""
    low = text.lower()
    if low in MISSING or low in BAD:
        return math.nan
    return float(text.replace(decimal, "."))


def is_float(text: str, decimal: str) -> bool:
    """Return whether a cell holds a number, or says that there is none."""
    try:
        to_float(text, decimal)
    except ValueError:
        return False
    return True
