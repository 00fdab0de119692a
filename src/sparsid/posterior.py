"""Gaussian posterior of the kept weights, from the factorised curvature.

``w ~ N(w*, C)`` with ``C = V^1/2 (I + X'X)^-1 V^1/2``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from sparsid.arrays import Array
from sparsid.curvature.forms import dense, flatten, scales, unflatten
from sparsid.models.network import Factors, Params
from sparsid.objectives import Linearised
from sparsid.priors import Prior

# Above this many weights only standard deviations are kept: a full covariance would
# make model files of more than 30 MB.
LARGEST_COVARIANCE = 2000
# Entries of a dense derivative held at once, 160 MB.
LARGEST_PIECE = 2e7


@dataclass(frozen=True, eq=False)
class Posterior:
    """Uncertainty of the weights, blocks flattened in order.

    ``covariance`` is None for very wide models; then weights count as independent.
    """

    std: NDArray[np.float64]
    covariance: NDArray[np.float64] | None

    def predictive_variance(self, factors: Factors) -> Array:
        """Return the variance of the outputs that the weights' uncertainty causes."""
        n_y, rows = factors.right[0].shape[1], len(factors.left[0])
        ones = tuple(
            np.ones((left.shape[1], right.shape[2]))
            for left, right in zip(*factors, strict=True)
        )
        step = max(1, int(LARGEST_PIECE / max(len(self.std) * n_y, 1)))
        pieces = [np.zeros((0, n_y))]
        for first in range(0, rows, step):
            piece = jax.tree.map(lambda a, k=first: a[k : k + step], factors)
            J = np.asarray(dense(piece, ones))
            if self.covariance is None:
                variance = (J**2) @ self.std**2
            else:
                variance = ((J @ self.covariance) * J).sum(1)
            pieces.append(variance.reshape(-1, n_y))
        return np.concatenate(pieces)

    def sample(self, like: Params, count: int, *, key: Array) -> Params:
        """Return ``count`` draws of the weights' deviation, along a first axis."""
        noise = jax.random.normal(key, (count, len(self.std)))
        if self.covariance is None:
            draws = noise * self.std
        else:
            # Eigenvalues: a pruned weight has variance zero, Cholesky would fail.
            values, vectors = np.linalg.eigh(self.covariance)
            draws = noise @ (vectors * np.sqrt(np.maximum(values, 0.0))).T
        return jax.vmap(lambda d: unflatten(d, like))(draws)


@partial(jax.jit, static_argnames="full")
def _covariance(derivative: Factors, prior: Prior, full: bool) -> Array:
    scale = scales(prior)
    s = flatten(scale)
    X = dense(derivative, scale)
    if full:
        M = X.T @ X + jnp.eye(X.shape[1])
        return s[:, None] * jnp.linalg.inv(M) * s
    K = X @ X.T + jnp.eye(len(X))
    return s**2 * (1.0 - (X * jnp.linalg.solve(K, X)).sum(0))


def laplace(linearised: Linearised, prior: Prior) -> Posterior:
    """Return the posterior at the fitted weights."""
    weights = sum(p.rows.size * p.columns.size for p in prior)
    if weights <= LARGEST_COVARIANCE:
        C = np.asarray(_covariance(linearised.derivative, prior, full=True))
        return Posterior(np.sqrt(np.maximum(np.diagonal(C), 0.0)), C)
    variance = np.asarray(_covariance(linearised.derivative, prior, full=False))
    return Posterior(np.sqrt(np.maximum(variance, 0.0)), None)
