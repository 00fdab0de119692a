"""Gaussian posterior of the kept weights, from the factorised curvature.

``w ~ N(w*, C)`` with ``C = V^1/2 (I + X'X)^-1 V^1/2``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from sparsid.arrays import Array
from sparsid.bayes.curvature.diagonal import diagonal_products
from sparsid.bayes.curvature.pieces import (
    Derivative,
    dense,
    flatten,
    scales,
    unflatten,
)
from sparsid.bayes.curvature.primal import products
from sparsid.bayes.prior import Prior
from sparsid.errors import InputError
from sparsid.models.network import Factors, Params

# Above this many weights only standard deviations are kept: a full covariance would
# make model files of more than 30 MB.
LARGEST_COVARIANCE = 2000
# Entries of the system, or of the whole derivative, beyond which each weight is taken
# on its own: 0.8 GB, of which some copies are needed.
LARGEST_SYSTEM = 1e8
# Entries of a dense derivative held at once, 160 MB.
LARGEST_PIECE = 2e7


@dataclass(frozen=True, eq=False)
class Posterior:
    """Uncertainty of the weights, blocks flattened in order.

    Attributes
    ----------
    covariance
        None for very wide models; then weights count as independent. For the widest
        the deviations are those of each weight given all others: too small.
    prior_std
        What the weights were expected to be before the data, around zero; infinite
        where nothing was.
    """

    std: NDArray[np.float64]
    covariance: NDArray[np.float64] | None
    prior_std: NDArray[np.float64]

    def reduced(self, sizes: Sequence[int]) -> Posterior:
        """Return the posterior without correlations between blocks of these sizes.

        ``[1, 1, ...]`` leaves the diagonal, the sizes of the layers those inside them.
        """
        if sum(sizes) != len(self.std):
            raise InputError(
                f"blocks of {sum(sizes)} weights were given but there are "
                f"{len(self.std)}"
            )
        if self.covariance is None:
            return self
        number = np.repeat(np.arange(len(sizes)), sizes)
        same = number[:, None] == number
        return replace(self, covariance=np.where(same, self.covariance, 0.0))

    def given(self, moving: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the covariance of some weights if all others are held."""
        if self.covariance is None:
            return np.asarray(np.diag(self.std[moving] ** 2))
        others = np.setdiff1d(np.arange(len(self.std)), moving)
        C = self.covariance
        cross = C[np.ix_(moving, others)]
        held = cross @ np.linalg.pinv(C[np.ix_(others, others)], hermitian=True)
        return np.asarray(C[np.ix_(moving, moving)] - held @ cross.T)

    def predictive_variance(self, factors: Factors) -> Array:
        """Return the variance of the outputs that the weights' uncertainty causes."""
        n_y = factors.right[0].shape[1]
        ones = tuple(
            np.ones((left.shape[1], right.shape[2]))
            for left, right in zip(*factors, strict=True)
        )
        pieces = [np.zeros((0, n_y))]
        samples, outputs = len(factors.left[0]), factors.right[0].shape[1]
        for rows in _parts(samples, outputs, len(self.std)):
            piece = Factors(*(tuple(a[rows] for a in side) for side in factors))
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
            draws = noise @ square_root(self.covariance).T
        return jax.vmap(lambda d: unflatten(d, like))(draws)


def evidence_lost(
    means: NDArray[np.float64],
    covariance: NDArray[np.float64],
    prior_std: NDArray[np.float64],
) -> tuple[float, float]:
    """Return by how much the log evidence would fall without some weights.

    The ratio of their posterior to their prior density at zero (Savage and Dickey),
    for given prior variances. Second, the root of the mean squared standardised
    weight. Weights that the prior holds at zero do not count.
    """
    there = prior_std > 0.0
    w, prior = means[there], prior_std[there]
    C = covariance[np.ix_(there, there)]
    sign, log_det = np.linalg.slogdet(C)
    if not len(w) or sign <= 0 or not np.isfinite(prior).all():
        return float("nan"), float("nan")
    square = float(w @ np.linalg.solve(C, w))
    lost = 0.5 * (square + log_det - np.log(prior**2).sum())
    return float(lost), float(np.sqrt(square / len(w)))


def square_root(covariance: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ``R`` with ``R R' = covariance``, of one or of a stack of matrices.

    By eigenvalues: a pruned weight has variance zero, Cholesky would fail.
    """
    values, vectors = np.linalg.eigh(covariance)
    root: NDArray[np.float64] = vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :]
    return root


def posterior_of_rows(
    derivative: Callable[[slice], Derivative], samples: int, outputs: int, prior: Prior
) -> Posterior:
    """Return the posterior from derivatives of some rows, asked for in turn.

    Parameters
    ----------
    derivative
        Gives the derivative of some samples by the weights, at the fitted weights.
    """
    scale = scales(prior)
    s = np.asarray(flatten(scale))
    if len(s) * min(len(s), samples * outputs) > LARGEST_SYSTEM:
        pieces = _parts(samples, outputs, int(np.sqrt(len(s))))
        d = sum(np.asarray(_squares(derivative(rows), prior)) for rows in pieces)
        return Posterior(s / np.sqrt(1.0 + d), None, s)
    if len(s) > max(LARGEST_COVARIANCE, samples * outputs):
        shrinkage = np.asarray(_shrinkage(derivative(slice(None)), scale))
        return Posterior(s * np.sqrt(np.maximum(1.0 - shrinkage, 0.0)), None, s)
    B = np.zeros((len(s), len(s)))
    for rows in _parts(samples, outputs, len(s)):
        B += np.asarray(_products(derivative(rows), prior))
    return of_system(B, s)


def of_system(B: NDArray[np.float64], s: NDArray[np.float64]) -> Posterior:
    """Return the posterior from ``B = X'X``, at prior standard deviations ``s``.

    Weights that were removed since have a deviation of zero.
    """
    there = s > 0
    M = np.where(there[:, None] & there, B, 0.0) + np.eye(len(s))
    C = s[:, None] * np.linalg.inv(M) * s
    std = np.sqrt(np.maximum(np.diagonal(C), 0.0))
    return Posterior(std, C if len(s) <= LARGEST_COVARIANCE else None, s)


_products, _squares = jax.jit(products), jax.jit(diagonal_products)


@jax.jit
def _shrinkage(derivative: Derivative, scale: Params) -> Array:
    """Return the diagonal of ``X' (I + X X')^-1 X``."""
    X = dense(derivative, scale)
    K = X @ X.T + jnp.eye(len(X))
    return (X * jnp.linalg.solve(K, X)).sum(0)


def _parts(samples: int, outputs: int, weights: int) -> Iterator[slice]:
    """Yield some samples at a time, so that their dense derivative is not large."""
    step = max(1, int(LARGEST_PIECE / max(weights * outputs, 1)))
    for first in range(0, samples, step):
        yield slice(first, first + step)
