"""Signals as the free-run engine sees them: standardised, in runs, in blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sparsid.data.record import Record
from sparsid.data.scaling import Scaling
from sparsid.simulation.evidence import Run

Values = NDArray[np.float64]

# Held-out blocks of a record, and folds: fold f hides blocks f, f + FOLDS, ...
BLOCKS, FOLDS = 8, 4
# How much smaller an error has to be to count as clearly so.
CLEARLY = 0.95
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

    @staticmethod
    def of(scaling: Scaling, stretches: Sequence[Record]) -> Signals:
        """Return gap-free stretches of records, standardised."""
        nothing = (
            scaling.scale_u(np.zeros_like(scaling.u_mean)),
            scaling.scale_y(np.zeros_like(scaling.y_mean)),
        )
        return Signals(
            tuple(np.ascontiguousarray(scaling.scale_u(s.u)) for s in stretches),
            tuple(np.ascontiguousarray(scaling.scale_y(s.y)) for s in stretches),
            nothing,
        )

    @property
    def inputs(self) -> int:
        """Number of inputs."""
        return int(self.u[0].shape[1])

    @property
    def outputs(self) -> int:
        """Number of outputs."""
        return int(self.y[0].shape[1])

    @property
    def samples(self) -> int:
        """Samples of all runs."""
        return sum(len(y) for y in self.y)

    @cached_property
    def block_of(self) -> tuple[NDArray[np.int64], ...]:
        """Block of each sample, -1 for those that are always shown."""
        place = np.arange(self.samples) * BLOCKS // max(self.samples, 1)
        parts = np.split(place, np.cumsum([len(y) for y in self.y])[:-1])
        for part in parts:
            part[: min(SHOWN, len(part) // 4)] = -1
        return tuple(parts)

    def runs(self, delays: Sequence[int], fold: int | None = None) -> list[Run]:
        """Return runs with delayed inputs, without the outputs that a fold hides."""
        return [
            Run.of(delayed(u, delays), y, None if fold is None else hidden(where, fold))
            for u, y, where in zip(self.u, self.y, self.block_of, strict=True)
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

    def held_out(self, outputs: Sequence[Values], fold: int) -> Errors:
        """Return the errors of free runs in the blocks that a fold hides."""
        errors = Errors.none()
        for run, y, where in zip(outputs, self.y, self.block_of, strict=True):
            counted = hidden(where, fold)[:, None] & np.isfinite(y)
            squares = np.where(counted, run - np.nan_to_num(y), 0.0) ** 2
            at = np.maximum(where, 0)
            errors.squares[:] += np.bincount(at, squares.sum(1), BLOCKS)
            errors.counts[:] += np.bincount(at, counted.sum(1), BLOCKS)
        return errors


@dataclass(frozen=True, eq=False)
class Errors:
    """Squared errors in blocks that were not learnt from, and how many they are."""

    squares: Values
    counts: Values

    @staticmethod
    def none() -> Errors:
        """Return those of blocks that nothing is known of yet."""
        return Errors(np.zeros(BLOCKS), np.zeros(BLOCKS))

    def __add__(self, other: Errors) -> Errors:
        return Errors(self.squares + other.squares, self.counts + other.counts)

    @property
    def rms(self) -> float:
        """Root of the mean over all blocks, in standard deviations of the outputs."""
        if not self.counts.sum():
            return np.inf
        found = float(np.sqrt(self.squares.sum() / self.counts.sum()))
        return found if np.isfinite(found) else np.inf

    def clearly_below(self, others: Errors) -> bool:
        """Return whether these are smaller by a margin, and not by one block alone.

        The mean gain has to be larger than its standard error, both over the blocks.
        """
        if not np.isfinite([self.rms, others.rms]).all():
            return self.rms < others.rms
        here = (self.counts > 0) & (others.counts > 0)
        before, after = (e.squares[here] / e.counts[here] for e in (others, self))
        gain = before - after
        error = gain.std(ddof=1) / np.sqrt(len(gain)) if len(gain) > 1 else 0.0
        return self.rms < CLEARLY * others.rms and bool(gain.mean() > error)


def hidden(block: NDArray[np.int64], fold: int) -> NDArray[np.bool_]:
    """Return which samples a fold hides, from the block of each."""
    return np.asarray((block >= 0) & (block % FOLDS == fold))


def delayed(u: Values, delays: Sequence[int]) -> Values:
    """Return inputs that arrive later; before, the first value held."""
    out = np.empty_like(u)
    for k, d in enumerate(delays):
        out[d:, k] = u[: len(u) - d, k] if d else u[:, k]
        out[:d, k] = u[0, k]
    return out
