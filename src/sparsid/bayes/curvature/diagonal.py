"""The diagonal of the primal form, which takes no more memory than the weights."""

from __future__ import annotations

import jax.numpy as jnp

from sparsid.arrays import Array
from sparsid.bayes.curvature.pieces import (
    Dense,
    Derivative,
    dense,
    element_gamma,
    flatten,
    scales,
    unflatten,
)
from sparsid.bayes.prior import Prior, Sums
from sparsid.models.network import Factors, Params


def diagonal_products(derivative: Derivative, prior: Prior) -> Array:
    """Return the diagonal of ``X'X``, without X."""
    scale = scales(prior)
    if isinstance(derivative, Dense):
        return (dense(derivative, scale) ** 2).sum(0)
    return flatten(
        tuple(
            s**2 * ((left**2).T @ (right**2).sum(1))
            for left, right, s in zip(*derivative, scale, strict=True)
        )
    )


def diagonal_evidence(d: Array, prior: Prior) -> tuple[Array, Array, tuple[Sums, ...]]:
    """Return the log-determinant, ``1 / (1 + d)`` and the effective weights."""
    gamma = element_gamma(d / (1.0 + d), scales(prior))
    return jnp.log1p(d).sum(), 1.0 / (1.0 + d), gamma


def diagonal_cotangent(derivative: Factors, prior: Prior, inverse: Array) -> Factors:
    """Return the derivative of ``log_det / 2`` by the derivatives of some rows."""
    lefts, rights = [], []
    scale = scales(prior)
    for left, right, s, block in zip(
        *derivative, scale, unflatten(inverse, scale), strict=True
    ):
        weights = s**2 * block
        lefts.append(left * ((right**2).sum(1) @ weights.T))
        rights.append(right * (left**2 @ weights)[:, None])
    return Factors(tuple(lefts), tuple(rights))


def diagonal_solve(d: Array, g: Params, t: Array) -> Params:
    """Return ``-g / (d + t)``."""
    return unflatten(-flatten(g) / (d + t), g)
