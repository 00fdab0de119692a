"""How far inputs and states of a run are from those of the estimation records."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]

# Directions in which states and inputs hardly moved count as if they had moved by this
# share of the widest one.
NARROWEST = 1e-3


@dataclass(frozen=True, eq=False)
class Seen:
    """Where states and inputs were: an ellipsoid around their mean.

    Attributes
    ----------
    mean
        Of states and inputs, scaled.
    whitening
        Their deviations times this have unit covariance.
    largest
        The largest distance from the mean in the estimation records.
    """

    mean: Values
    whitening: Values
    largest: float

    @staticmethod
    def of(states: Values, u: Values) -> Seen:
        """Return what a run over the estimation records showed."""
        z = np.concatenate([states, u], axis=1)
        mean, spread = z.mean(axis=0), np.maximum(z.std(axis=0), 1e-12)
        apart = (z - mean) / spread
        values, vectors = np.linalg.eigh(apart.T @ apart / len(apart))
        values = np.maximum(values, NARROWEST**2 * values.max())
        whitening = (vectors / np.sqrt(values)) / spread[:, None]
        distance = np.linalg.norm((z - mean) @ whitening, axis=1)
        return Seen(mean, whitening, max(float(distance.max()), 1e-12))

    def surprise(self, states: Values, u: Values) -> Values:
        """Return the distance of each sample, as a share of the largest one seen."""
        z = np.concatenate([states, u], axis=1)
        # A run that left all bounds is infinitely far away.
        with np.errstate(over="ignore", invalid="ignore"):
            distance = np.linalg.norm((z - self.mean) @ self.whitening, axis=1)
        return np.asarray(np.nan_to_num(distance, nan=np.inf) / self.largest)
