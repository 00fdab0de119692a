"""What the steps of `sparsid.data.shapes` check, and how they tell it."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping, Sequence
from typing import Any

from sparsid.errors import InputError

# Sampling times of records that are merged may differ by this share.
DT_TOLERANCE = 1e-6


def check_merged(parts: Sequence[Any]) -> None:
    """Refuse records that cannot stand side by side."""
    for number, other in enumerate(parts[1:], 2):
        if type(other) is not type(parts[0]):
            raise InputError(
                f"A {type(other).__name__} was given but a Record is needed."
            )
        if not math.isclose(other.dt, parts[0].dt, rel_tol=DT_TOLERANCE):
            raise InputError(
                f"Record {number} has dt {other.dt:g} s but record 1 has "
                f"{parts[0].dt:g} s: resample one of them."
            )
    names = [name for p in parts for name in (*p.input_names, *p.output_names)]
    for name in names:
        if names.count(name) > 1:
            raise InputError(
                f"The channel {name!r} is in more than one of the records: each "
                "needs its own name."
            )


def finite_number(value: Any, what: str) -> float:
    """Return a number that is finite."""
    if not isinstance(value, numbers.Real) or not math.isfinite(float(value)):
        raise InputError(f"{what} is {value!r} but must be a finite number.")
    return float(value)


def line_for(trend: Mapping[str, Sequence[float]], name: str) -> tuple[float, float]:
    """Return offset and slope of a channel from a trend that was given."""
    line = trend.get(name)
    if line is None:
        raise InputError(
            f"trend has no channel {name!r}, only {', '.join(map(str, trend))}."
        )
    offset, slope = line
    return finite_number(offset, "an offset"), finite_number(slope, "a slope")


def ways_of(names: tuple[str, ...], ways: list[str]) -> str:
    """Return what was done to which channels."""
    if len(set(ways)) == 1:
        return f"all {ways[0]}"
    return ", ".join(f"{n} {w}" for n, w in zip(names, ways, strict=True))
