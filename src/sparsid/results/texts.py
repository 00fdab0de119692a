"""Small texts about numbers, names and units."""

from __future__ import annotations

import math
from collections.abc import Sequence

# A label and what is said of it: a line of a summary.
Row = tuple[str, str]


def with_unit(value: float, unit: str) -> str:
    """Return a number of four digits and its unit."""
    number = f"{value:#.4g}".rstrip(".") if math.isfinite(value) else "diverged"
    return f"{number} {unit}".rstrip() if math.isfinite(value) else number


def percent(share: float) -> str:
    """Return a share such as "0.23 %" or "41 %"."""
    value = 100.0 * share
    return f"{value:.0f} %" if value >= 10.0 else f"{value:.2g} %"


def joined(names: Sequence[str], units: Sequence[str]) -> str:
    """Return names with their units, one behind the other."""
    return ", ".join(
        f"{n} [{u}]" if u else n for n, u in zip(names, units, strict=True)
    )


def each(values: Sequence[float], names: Sequence[str], units: Sequence[str]) -> str:
    """Return one value with unit for each channel, named if there are several."""
    texts = [with_unit(v, u) for v, u in zip(values, units, strict=True)]
    if len(texts) == 1:
        return texts[0]
    return ", ".join(f"{n} {t}" for n, t in zip(names, texts, strict=True))


def counted(number: int, what: str) -> str:
    """Return a number of things."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def clock(seconds: float) -> str:
    """Return a duration in words, to two digits or so."""
    if seconds < 180:
        return f"{max(seconds, 1.0):.0f} s"
    minutes = round(seconds / 60)
    if minutes < 100:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60:02d} min"
