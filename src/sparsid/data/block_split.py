"""Contiguous blocks for scikit-learn's model selection."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsid.checks import whole
from sparsid.errors import InputError


class BlockSplit:
    """Rotating contiguous blocks: each in turn is held out.

    What is left after a block in the middle is taken out are two stretches, and a
    regressor must not cross the seam. Tables carry their index along, so ``fit`` sees
    the jump and treats the stretches as separate records; plain arrays would be glued
    together, so they are refused: use ``record.to_frames()``.

    Parameters
    ----------
    n_splits
        Number of blocks.

    Examples
    --------
    >>> u, y = record.to_frames()                                   # doctest: +SKIP
    >>> GridSearchCV(NARX(), grid, cv=BlockSplit(4)).fit(u, y)      # doctest: +SKIP
    """

    def __init__(self, n_splits: int = 5) -> None:
        self.n_splits = whole("n_splits", n_splits, 2, 10_000)

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of blocks."""
        return self.n_splits

    def split(
        self, X: Any, y: Any = None, groups: Any = None
    ) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """Yield rows to learn from and the block held out."""
        if not hasattr(X, "iloc") or (y is not None and not hasattr(y, "iloc")):
            raise InputError(
                f"X is a {type(X).__name__}: plain arrays do not remember which "
                "samples follow each other, and taking a block out of the middle would "
                "glue distant ones together. Pass DataFrames: "
                "u, y = record.to_frames()"
            )
        rows = np.arange(len(X))
        if len(rows) < self.n_splits:
            raise InputError(
                f"{len(rows)} samples cannot be cut into {self.n_splits} blocks"
            )
        for block in np.array_split(rows, self.n_splits):
            yield np.setdiff1d(rows, block), block
