"""The exact Hessian of each layer, by the recursion of the paper."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from sparsid.arrays import Array
from sparsid.bayes.curvature.pieces import (
    Factorised,
    element_gamma,
    flatten,
    scales,
    unflatten,
)
from sparsid.bayes.prior import Prior
from sparsid.models.network import Factors, Params


def block_hessian(left: Array, hessians: Array) -> Array:
    """Return ``sum_t (a a')_t (x) H_t`` over the row-major weights of one block."""
    n, m = left.shape[1], hessians.shape[1]
    (i, k), of_left = _triangle(n)
    (j, h), of_right = _triangle(m)
    # Both factors are symmetric: multiply their upper triangles, a quarter of the work.
    product = (left[:, i] * left[:, k]).T @ hessians[:, j, h]
    full = product[of_left[:, None, :, None], of_right[None, :, None, :]]
    return full.reshape(n * m, n * m)


def _triangle(n: int) -> tuple[tuple[Array, Array], Array]:
    """Return the upper triangle's indices, and where each entry of all is in it."""
    upper = np.triu_indices(n)
    place = np.zeros((n, n), int)
    place[upper] = np.arange(len(upper[0]))
    return upper, np.maximum(place, place.T)


def hessian_factorise(derivative: Factors, prior: Prior, full: bool) -> Factorised:
    """Return the curvature from one block's exact Hessian, negative part cut off.

    The Hessian of a hidden layer is indefinite wherever ``f''`` times the back-
    propagated residual is, so its eigenvalues are clipped at zero in the whitened
    space, where the prior's precision is the identity.
    """
    (left,), (hessians,) = derivative
    scale = scales(prior)
    s = scale[0].ravel()

    def whitened(left: Array, hessians: Array) -> Array:
        return s[:, None] * block_hessian(left, hessians) * s

    B, pullback = jax.vjp(whitened, left, hessians)
    values, vectors = jnp.linalg.eigh((B + B.T) / 2.0)
    positive = jnp.maximum(values, 0.0)
    system = (positive, vectors)
    if not full:
        return Factorised(jnp.zeros(()), system, None, None)
    log_det = jnp.log1p(positive).sum()
    curved = jnp.where(values > 0, 1.0, 0.0) / (1.0 + positive)
    cot_left, cot_right = pullback((vectors * curved) @ vectors.T / 2.0)
    gamma = ((vectors**2) * (positive / (1.0 + positive))).sum(1)
    cotangent = Factors((cot_left,), (cot_right,))
    return Factorised(log_det, system, cotangent, element_gamma(gamma, scale))


def hessian_solve(
    system: tuple[Array, Array], derivative: Factors, prior: Prior, g: Params, t: Array
) -> Params:
    """Return ``d`` with ``(B_+ + t I) d = -g`` from the eigen-decomposition."""
    values, vectors = system
    d = -vectors @ ((vectors.T @ flatten(g)) / (values + t))
    return unflatten(d, g)
