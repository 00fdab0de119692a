"""How free runs behave over long times, and from other starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsid.data.record import Record, value_range
from sparsid.errors import InputError
from sparsid.results.base import FittedModel, HasResult, result_of
from sparsid.results.texts import clock

Values = NDArray[np.float64]
# A perturbed run has forgotten its start when it is this close, in its perturbation.
FORGOTTEN = 0.05
# Samples of the long run: so many times the record, within these bounds.
REPEATS, LONGEST_RUN = 5, 20_000
# A long run is bounded if it stays so many estimation ranges around their middle.
FAR = 3.0


@dataclass(frozen=True, eq=False)
class Stability:
    """A long free run, and runs from other starts.

    Attributes
    ----------
    samples
        Length of the long run: the inputs of the record over and over.
    bounded
        Whether it stayed within reason.
    apart
        Distance of runs that start a standard deviation higher and lower, in standard
        deviations, sample by sample: the largest over outputs.
    forgotten
        Sample after which they stay within 5 % of it; None if they never do.
    """

    samples: int
    bounded: bool
    apart: Values
    forgotten: int | None
    dt: float

    @property
    def verdict(self) -> str:
        """The result in plain words."""
        long = (
            f"a run of {self.samples} samples stays bounded"
            if self.bounded
            else f"a run of {self.samples} samples leaves all bounds: do not simulate "
            "far beyond the record"
        )
        if self.forgotten is None:
            return f"{long}; a wrong start is not forgotten within the record"
        took = f"{self.forgotten} samples ({_clock(self.forgotten * self.dt)})"
        return f"{long}; a wrong start is forgotten after {took}"


def _clock(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds < 180.0 else clock(seconds)


def stability(model: FittedModel | HasResult, record: Record) -> Stability:
    """Return how free runs behave over long times and from other starts.

    Parameters
    ----------
    record
        Its longest stretch without gaps gives the inputs.
    """
    fitted = result_of(model)
    lag = fitted.start_samples
    usable = [s for s in record.segments() if len(s) > lag]
    if not usable:
        raise InputError(
            f"no stretch of the record is longer than {lag} samples, which start a run"
        )
    stretch = max(usable, key=len)
    ends = np.array(
        (fitted.details.get("range") or value_range([stretch]))["outputs"], dtype=float
    )
    times = max(1, min(REPEATS, LONGEST_RUN // len(stretch)))
    inputs = np.tile(stretch.u, (times, 1))
    first = stretch.y[:lag] if lag else None

    def run(u: Values, y_init: Any) -> Values:
        return fitted.simulate(u, y_init, samples=0).mean

    whole = run(inputs, first)[lag:]
    reach = FAR * np.maximum(ends[:, 1] - ends[:, 0], 1e-12)
    bounded = bool((np.abs(whole - ends.mean(1)) <= reach).all())
    std = fitted.scaling.y_std
    apart = np.zeros(len(stretch) - lag)
    if first is not None:
        high, low = (run(stretch.u, first + side * std) for side in (1.0, -1.0))
        distance = np.nan_to_num(np.abs(high - low)[lag:] / std, nan=np.inf)
        apart = distance.max(1)
    late = np.flatnonzero(apart > 2.0 * FORGOTTEN)
    forgotten: int | None = int(late[-1]) + 1 if late.size else 0
    if forgotten is not None and forgotten >= len(apart):
        forgotten = None
    return Stability(len(inputs), bounded, apart, forgotten, record.dt)
