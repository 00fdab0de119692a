"""A member of a model as a map from sample to sample, with derivatives, scaled units.

    x(t+1) = f(x(t), v(t)),   y(t) = g(x(t), v(t))

``v`` are scaled inputs that have waited for their dead time. All is NumPy: nothing is
compiled for a model.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]
Derivatives = tuple[Values, Values, Values, Values]


class Step(ABC):
    """One member, from sample to sample."""

    @abstractmethod
    def rest(self) -> Values:
        """Return a state to search from: the middle of what was learnt from."""

    @abstractmethod
    def advance(self, x: Values, v: Values) -> Values:
        """Return the next state."""

    @abstractmethod
    def emit(self, x: Values, v: Values) -> Values:
        """Return the outputs."""

    @abstractmethod
    def derivatives(self, x: Values, v: Values) -> Derivatives:
        """Return A, B, C, D: of the next state and of the outputs."""

    def is_held(self, x: Values, v: Values) -> bool:
        """Return whether a state or an output is at a bound, where it does not move."""
        del x, v
        return False

    def run(self, x: Values, v: Values, samples: int) -> Values:
        """Return the state after so many samples with the inputs held."""
        for _ in range(samples):
            x = self.advance(x, v)
        return x
