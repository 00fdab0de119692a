"""What a member runs over, what it expects, and what it knows of a point."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

Values = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Run:
    """A stretch to run over, in scaled units.

    ``u`` is delayed and ends with the constant; ``seen`` is one where an output was
    measured and may be learnt from.
    """

    u: Values
    y: Values
    seen: Values

    @staticmethod
    def of(u: Values, y: Values, hidden: Any = None) -> Run:
        """Return a run, without some samples of the outputs."""
        seen = np.isfinite(y)
        if hidden is not None:
            seen &= ~np.asarray(hidden)[:, None]
        full = np.concatenate([u, np.ones((len(u), 1))], axis=1)
        return Run(
            np.ascontiguousarray(full), np.where(seen, y, 0.0), seen.astype(float)
        )


@dataclass(frozen=True, eq=False)
class Prior:
    """Independent Gaussians; variances of a group are one number that is learnt.

    ``groups`` is the number of each parameter's group, -1 where the variance stays.
    With ``across`` a variance is the product of two numbers: that of its group, and
    that of its group there.
    """

    mean: Values
    variance: Values
    groups: NDArray[np.int64]
    across: NDArray[np.int64] | None = None

    def take(self, keep: NDArray[Any]) -> Prior:
        """Return the prior of some of the parameters."""
        across = None if self.across is None else self.across[keep]
        return Prior(self.mean[keep], self.variance[keep], self.groups[keep], across)

    def with_starts(self, parameters: int, count: int, variance: float) -> Prior:
        """Return the prior with other start states behind the parameters."""
        none = np.full(count, -1)

        def longer(values: Any, more: Any) -> Any:
            return np.append(values[:parameters], more)

        return Prior(
            longer(self.mean, np.zeros(count)),
            longer(self.variance, np.full(count, variance)),
            longer(self.groups, none),
            None if self.across is None else longer(self.across, none),
        )


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What a fit needs to know of a point."""

    normal: Values
    gradient: Values
    squares: float
    log_noise: float
    raw: list[Values]

    def cost(self, w: Values, prior: Prior) -> float:
        """Return the whole cost."""
        if not np.isfinite(self.squares):
            return np.inf
        scale = np.sqrt(prior.variance)
        B = scale[:, None] * self.normal * scale
        B[np.diag_indices_from(B)] += 1.0
        try:
            L = np.linalg.cholesky(B)
        except np.linalg.LinAlgError:
            return np.inf
        paid = ((w - prior.mean) ** 2 / prior.variance).sum()
        volume = 2.0 * np.log(np.diagonal(L)).sum()
        return float(self.log_noise + self.squares + paid + volume)

    def covariance(self, prior: Prior) -> Values:
        """Return the covariance of the parameters."""
        scale = np.sqrt(prior.variance)
        B = scale[:, None] * self.normal * scale
        B[np.diag_indices_from(B)] += 1.0
        try:
            inverse = scipy.linalg.cho_solve(
                (np.linalg.cholesky(B), True), np.eye(len(B)), check_finite=False
            )
        except np.linalg.LinAlgError:
            # Derivatives so large that rounding made an eigenvalue negative.
            values, vectors = np.linalg.eigh(B)
            inverse = (vectors / np.maximum(values, 1.0)) @ vectors.T
        return np.asarray(scale[:, None] * inverse * scale)
