"""Recorded signals as the free-run engine sees them: standardised, in runs, in blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sparsid.simulation.member import Run

Values = NDArray[np.float64]

# Held-out blocks of a record, and folds: fold f hides blocks f, f + FOLDS, ...
BLOCKS, FOLDS = 8, 4
# Outputs at the start of a run that are never hidden: they fix its start state.
SHOWN = 20


@dataclass(frozen=True, eq=False)
class Signals:
    """Inputs and outputs run by run, standardised; gaps in outputs are NaN.

    ``zero`` are the standardised values of inputs and outputs that measure nothing.
    """

    u: tuple[Values, ...]
    y: tuple[Values, ...]
    zero: tuple[Values, Values] | None = None

    @property
    def inputs(self) -> int:
        """Number of inputs."""
        return self.u[0].shape[1]

    @property
    def outputs(self) -> int:
        """Number of outputs."""
        return self.y[0].shape[1]

    @property
    def samples(self) -> int:
        """Samples of all runs."""
        return sum(len(y) for y in self.y)

    @cached_property
    def fold_of(self) -> tuple[NDArray[np.int64], ...]:
        """Fold that hides each sample, -1 for those that are always shown."""
        place = np.arange(self.samples) * BLOCKS // max(self.samples, 1) % FOLDS
        parts = np.split(place, np.cumsum([len(y) for y in self.y])[:-1])
        for part in parts:
            part[: min(SHOWN, len(part) // 4)] = -1
        return tuple(parts)

    def runs(self, delays: Sequence[int], fold: int | None = None) -> list[Run]:
        """Return runs with delayed inputs, without the outputs that a fold hides."""
        return [
            Run.of(delayed(u, delays), y, None if fold is None else where == fold)
            for u, y, where in zip(self.u, self.y, self.fold_of, strict=True)
        ]

    def shortened(self, samples: int) -> Signals:
        """Return the first samples only, as many whole or cut runs as they fill."""
        u, y, left = [], [], samples
        for ui, yi in zip(self.u, self.y, strict=True):
            if left < SHOWN:
                break
            u.append(ui[:left])
            y.append(yi[:left])
            left -= len(ui)
        return Signals(tuple(u), tuple(y), self.zero)

    def held_out(self, outputs: Sequence[Values], fold: int) -> tuple[float, float]:
        """Return the sum of squared errors in hidden blocks, and how many they are."""
        total = count = 0.0
        for run, y, where in zip(outputs, self.y, self.fold_of, strict=True):
            counted = (where == fold)[:, None] & np.isfinite(y)
            errors = np.where(counted, run - np.nan_to_num(y), 0.0)
            total += float((errors**2).sum())
            count += float(counted.sum())
        return total, count


def delayed(u: Values, delays: Sequence[int]) -> Values:
    """Return inputs that arrive later; before, the first value held."""
    out = np.empty_like(u)
    for k, d in enumerate(delays):
        out[d:, k] = u[: len(u) - d, k] if d else u[:, k]
        out[:d, k] = u[0, k]
    return out
