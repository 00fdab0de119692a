"""Single values that users give, each checked at the door."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np

from sparsid.errors import InputError

# Settings beyond these are slips of the keyboard, not models.
LARGEST_LAG = 10_000
LARGEST_COUNT = 10_000_000


def whole(name: str, value: Any, smallest: int, largest: int) -> int:
    """Return a whole number within bounds, or say what is wrong with it."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise InputError(f"{name}={value!r}: give a whole number")
    if not smallest <= int(value) <= largest:
        raise InputError(
            f"{name}={value}: give a whole number from {smallest} to {largest}"
        )
    return int(value)


def number(name: str, value: Any, smallest: float) -> float:
    """Return a finite number that is not too small, or say what is wrong with it."""
    good = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not good or not np.isfinite(value) or value < smallest:
        raise InputError(f"{name}={value!r}: give a number of {smallest:g} or more")
    return float(value)


def yes_or_no(name: str, value: Any) -> bool:
    """Return a truth value; a word such as "no" would count as true."""
    if not isinstance(value, bool | np.bool_):
        raise InputError(f"{name}={value!r}: give True or False")
    return bool(value)


def one_of(name: str, value: Any, known: Any) -> str:
    """Return a known name, or list those that are."""
    if value not in tuple(known):
        raise InputError(
            f"{name}={value!r} is not known: choose one of {', '.join(known)}"
        )
    return str(value)
