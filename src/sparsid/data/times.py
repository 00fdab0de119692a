"""Times as people write them: dates in several orders, and hours of the day."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]

# What is understood, for messages.
UNDERSTOOD = (
    "seconds, 2024-03-31 10:00:00, 31.03.2024 10:00:00, 31/03/2024 10:00, "
    "3/31/2024 10:00:00 AM and 10:00:00"
)
CLOCK = re.compile(r"(\d{1,4}):(\d{2}):(\d{2}(?:[.,]\d+)?)")
DATE = re.compile(
    r"(?P<first>\d{1,4})(?P<sign>[./-])\d{1,2}(?P=sign)(?P<last>\d{1,4})"
    r"(?P<gap>[ T,]+)?(?P<time>\d{1,2}:\d{2}(?P<seconds>:\d{2})?(?P<part>[.,]\d+)?)?"
    r"(?P<half>\s*[AaPp][Mm])?"
)
DAY = 86_400.0
# Hours of the day go on after midnight if they fall back by more than this.
HALF_DAY = 43_200.0
# Steps are even if they differ by less than this share.
EVEN = 0.01


class AmbiguousError(ValueError):
    """Dates that can be read with the day first, and with the month first."""


def is_time(text: str) -> bool:
    """Return whether a text is a date, or an hour of the day."""
    return bool(is_iso(text) or CLOCK.fullmatch(text) or DATE.fullmatch(text))


def is_iso(text: str) -> bool:
    """Return whether a text is an ISO date."""
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def elapsed(texts: Any) -> Values:
    """Return the seconds since the first of times in a column, NaN for what is none."""
    import pandas as pd

    first = str(texts[0])
    if CLOCK.fullmatch(first):
        return _clock(texts)
    if is_iso(first) or not DATE.fullmatch(first):
        dates = pd.to_datetime(
            pd.Series(texts), format="ISO8601", errors="coerce", utc=True
        )
        return _since_first(dates)
    found = list(_orders(first, pd.Series(texts)))
    good = [s for s in found if not np.isnan(s).any()]
    if not good:
        # The one with the fewest faults, so that a message can point at them.
        return min(found, key=lambda s: int(np.isnan(s).sum()))
    for test in (_different, _increasing, _even):
        good = test(good) or good
    if len(good) > 1:
        raise AmbiguousError("the day or the month may come first")
    return good[0]


def _since_first(dates: Any) -> Values:
    return np.asarray((dates - dates.iloc[0]).dt.total_seconds(), dtype=np.float64)


def _clock(texts: Any) -> Values:
    """Return hours of the day as seconds that go on after midnight."""
    seconds = np.full(len(texts), np.nan)
    for k, text in enumerate(texts):
        match = CLOCK.fullmatch(text)
        if match:
            hours, minutes, rest = match.groups()
            part = float(rest.replace(",", "."))
            seconds[k] = 3600.0 * int(hours) + 60.0 * int(minutes) + part
    late = np.concatenate([[0.0], np.cumsum(np.diff(seconds) < -HALF_DAY)])
    return seconds + DAY * late


def _orders(first: str, texts: Any) -> Iterator[Values]:
    """Yield the seconds of dates for every order of day and month that may be meant."""
    import pandas as pd

    texts = texts.str.replace(",", ".", regex=False).str.replace(
        r"(?<=\d)[T\s.]+(?=\d{1,2}:)", " ", regex=True
    )
    match = DATE.fullmatch(first)
    assert match is not None
    sign = match["sign"]
    # Points stand behind the day; a year of four digits in front leaves no choice.
    orders = ["%d{0}%m{0}{1}", "%m{0}%d{0}{1}"]
    if len(match["first"]) == 4:
        orders = ["%Y{0}%m{0}%d"]
    elif sign == ".":
        orders = orders[:1]
    year = "%y" if len(match["last"]) == 2 else "%Y"
    hour = "%I" if match["half"] else "%H"
    seconds = ":%S" if match["seconds"] else ""
    half = "%p" if match["half"] else ""
    if half:
        texts = texts.str.replace(r"\s*([AaPp][Mm])$", r"\1", regex=True)
    for order in orders:
        form = order.format(sign, year)
        if match["time"]:
            form += f" {hour}:%M{seconds}"
        dates = pd.to_datetime(texts, format=form + half, errors="coerce")
        if seconds and dates.isna().any():
            with_part = pd.to_datetime(
                texts, format=f"{form}.%f{half}", errors="coerce"
            )
            dates = dates.fillna(with_part)
        yield _since_first(dates)


def _different(found: list[Values]) -> list[Values]:
    """Return one of those that say the same."""
    return found[:1] if all(np.array_equal(s, found[0]) for s in found) else found


def _increasing(found: list[Values]) -> list[Values]:
    return [s for s in found if (np.diff(s) > 0).all()]


def _even(found: list[Values]) -> list[Values]:
    steps = [np.diff(s) for s in found]
    return [
        s
        for s, d in zip(found, steps, strict=True)
        if len(d) > 1 and np.ptp(d) <= EVEN * np.median(d)
    ]
