"""What a chart needs of long signals: ends in every column of pixels, packed."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]

# Half a 95 % band; `sparsid.results.forecast.BAND` would bring all numerics along.
BAND = 1.96
# Most columns a chart may ask for: the widest screens have fewer pixels.
MOST_COLUMNS = 8192
# Up to so many samples for each column are sent as they are.
SPARSE = 2


class View(NamedTuple):
    """A range of samples, and in how many columns it is shown."""

    first: int
    stop: int
    columns: int

    @staticmethod
    def of(length: int, first: int, stop: int, width: int) -> View:
        """Return the part of a request that lies inside a signal."""
        first = min(max(first, 0), max(length - 1, 0))
        stop = min(max(stop, first + 1), length)
        count = stop - first
        width = min(max(width, 1), MOST_COLUMNS)
        return View(first, stop, count if count <= SPARSE * width else width)

    def starts(self) -> NDArray[np.int64]:
        """Return the first sample of each column, counted from ``first``."""
        count = self.stop - self.first
        return np.arange(self.columns, dtype=np.int64) * count // self.columns


def ends(values: Values, view: View) -> tuple[Values, Values]:
    """Return the smallest and the largest value in each column of a view.

    Spikes survive whatever the zoom: every sample is in some column. NaN only where
    all samples of a column are missing.

    Parameters
    ----------
    values
        One value for each sample.
    """
    part = values[view.first : view.stop]
    if view.columns == len(part):
        return part, part
    starts = view.starts()
    low: Values = np.fmin.reduceat(part, starts)
    high: Values = np.fmax.reduceat(part, starts)
    return low, high


def packed(header: dict[str, Any], series: dict[str, tuple[Values, Values]]) -> bytes:
    """Return series for a chart: a header in JSON, then single precision.

    Each series is sent as differences from a base of its own, so that small changes of
    a large value keep their digits. The length of the header comes first, in four
    bytes; the header is filled up with blanks to a multiple of four.

    Parameters
    ----------
    series
        Lowest and highest value of each column, by name.
    """
    bases, blocks = [], []
    for low, high in series.values():
        known = low[np.isfinite(low)]
        base = float(known.mean()) if known.size else 0.0
        bases.append(base)
        blocks += [low - base, high - base]
    told = header | {"series": list(series), "bases": bases}
    text = json.dumps(told, allow_nan=False).encode()
    text += b" " * (-len(text) % 4)
    body = b"".join(block.astype("<f4").tobytes() for block in blocks)
    return len(text).to_bytes(4, "little") + text + body
