"""A structure being drawn: entries are freed, fixed or given poles one by one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from sparsid.kernel.activations import TANH
from sparsid.models.canonical import Pole, Sizes, Structure

Values = NDArray[np.float64]

# Polynomials hold their argument beyond so many times what they were fitted to.
BEYOND = 1.5


class Draft:
    """What will be a structure.

    Parameters
    ----------
    kinds
        Activation of every neuron; hyperbolic tangents if not given.
    """

    def __init__(self, sizes: Sizes, kinds: Sequence[int] | None = None) -> None:
        self.sizes = sizes
        self.kinds = np.array(
            [TANH] * sizes.neurons if kinds is None else kinds, dtype=np.int64
        )
        self.fixed = np.zeros(sizes.offsets[""])
        self.free_entries: list[tuple[str, int, int]] = []
        self.poles: list[Pole] = []
        self.bounds = np.array([[-np.inf], [np.inf]]).repeat(
            sizes.states + sizes.outputs, axis=1
        )

    def free(
        self,
        matrix: str,
        rows: Iterable[int] | None = None,
        columns: Iterable[int] | None = None,
    ) -> Draft:
        """Let entries of a matrix be parameters: all, or those of rows and columns."""
        shape = self.sizes.shapes[matrix]
        inner = list(range(shape[1]) if columns is None else columns)
        for i in range(shape[0]) if rows is None else rows:
            self.free_entries += [(matrix, i, j) for j in inner]
        return self

    def fix(self, matrix: str, row: int, column: int, value: float) -> Draft:
        """Give an entry a value that no parameter moves."""
        self.fixed[self.sizes.at(matrix, row, column)] = value
        return self

    def finish(
        self,
        name: str,
        factors: Values | None = None,
        limits: Values | None = None,
    ) -> Structure:
        """Return the structure."""
        ones = np.ones(len(self.free_entries))
        held = np.full(self.sizes.neurons, BEYOND * 3.0) if limits is None else limits
        return Structure(
            name,
            self.sizes,
            tuple(self.poles),
            self.fixed,
            tuple(self.free_entries),
            ones if factors is None else factors,
            self.kinds,
            held,
            self.bounds,
        )
