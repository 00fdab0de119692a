"""How far members and draws of their parameters are apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from sparsid.checks import whole
from sparsid.results.texts import with_unit

# Share of members and draws that lies between the ends of a spread.
LEVEL = 0.9
# Draws of the parameters, over all members.
DRAWS = 100
# Share of the way to a draw that is gone through the model itself; the rest follows the
# straight line. The posterior is Gaussian for the linearised model alone: draws that go
# all the way lead neurons out of their range, and bands to one side of the model.
SHARE = 0.1


class Spread(NamedTuple):
    """A value of the chosen member, and where 90 % of members and draws lie."""

    value: Any
    low: Any
    high: Any


def per_member(draws: int, members: int) -> int:
    """Return the draws of each member, at least two if there are any."""
    whole("draws", draws, 0, 1_000_000)
    return max(-(-draws // members), 2) if draws else 0


def ends(pool: Any) -> Any:
    """Return the ends between which 90 % of the first axis lie."""
    # No mean of two values: one of them may be infinite.
    level = (0.5 - 0.5 * LEVEL, 0.5 + 0.5 * LEVEL)
    return np.quantile(pool, level, axis=0, method="nearest")


def extrapolated(member: Any, near: Any) -> Any:
    """Return what a draw has, from what a model at `SHARE` of the way to it has."""
    return member + (near - member) / SHARE


def spread_text(value: float, low: float, high: float, unit: str = "") -> str:
    """Return a value and its ends, such as "41.2 s (39.0 to 43.5)"."""
    return f"{with_unit(value, unit)} ({low:#.3g} to {high:#.3g})"


def named_values(values: Any, names: Sequence[str], units: Sequence[str]) -> str:
    """Return values with their names and units, such as "pump 0.87 V"."""
    found = zip(names, values.tolist(), units, strict=True)
    return ", ".join(f"{name} {with_unit(value, unit)}" for name, value, unit in found)
