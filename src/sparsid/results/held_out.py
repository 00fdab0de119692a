"""Errors in blocks that were held out: which of two models they prefer."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

# How much smaller an error has to be to count as clearly so.
CLEARLY = 0.95


class BlockErrors(Protocol):
    """Squared errors over what each block held out, and how many they are."""

    @property
    def squares(self) -> NDArray[np.float64]:
        """Sums of squares, block by block."""

    @property
    def counts(self) -> NDArray[np.float64]:
        """How many errors, block by block."""

    @property
    def rms(self) -> float:
        """Root of the mean over all blocks."""


def clearly_below(errors: BlockErrors, others: BlockErrors) -> bool:
    """Return whether errors are smaller by a margin, and not by one block alone.

    The mean gain has to be larger than its standard error, both over the blocks.
    """
    if not np.isfinite([errors.rms, others.rms]).all():
        # One of them ran away.
        return errors.rms < others.rms
    here = (errors.counts > 0) & (others.counts > 0)
    before, after = (e.squares[here] / e.counts[here] for e in (others, errors))
    gain = before - after
    error = gain.std(ddof=1) / np.sqrt(len(gain)) if len(gain) > 1 else 0.0
    return errors.rms < CLEARLY * others.rms and bool(gain.mean() > error)
