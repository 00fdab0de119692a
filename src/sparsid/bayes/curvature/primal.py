"""Primal form, ``I + X'X``: one row and column for each weight."""

from __future__ import annotations

import jax.numpy as jnp
from jax.scipy.linalg import cho_solve

from sparsid.arrays import Array
from sparsid.bayes.curvature.pieces import (
    Dense,
    Derivative,
    Factorised,
    dense,
    element_gamma,
    flatten,
    inverse_by_halves,
    log_det_of,
    plus_identity,
    pull_back,
    row_major,
    scales,
    unflatten,
)
from sparsid.bayes.prior import Prior, Sums
from sparsid.models.network import Params


def primal_factorise(derivative: Derivative, prior: Prior, full: bool) -> Factorised:
    """Return the curvature from ``B = X'X``, one row and column per weight."""
    B = products(derivative, prior)
    if not full:
        return Factorised(jnp.zeros(()), B, None, None)
    log_det, M_inv, gamma = primal_evidence(B, prior)
    return Factorised(log_det, B, primal_cotangent(derivative, prior, M_inv), gamma)


def products(derivative: Derivative, prior: Prior) -> Array:
    """Return ``X'X``: of some rows, or of all."""
    scale = scales(prior)
    if isinstance(derivative, Dense):
        X = dense(derivative, scale)
        return X.T @ X
    # Samples side by side in memory: so the product is faster.
    columns = [
        (
            left.T[:, None, :, None]
            * s[:, :, None, None]
            * right.transpose(2, 0, 1)[None]
        ).reshape(s.size, left.shape[0] * right.shape[1])
        for left, right, s in zip(*derivative, scale, strict=True)
    ]
    transposed = jnp.concatenate(columns)
    return row_major(transposed @ transposed.T)


def primal_evidence(B: Array, prior: Prior) -> tuple[Array, Array, tuple[Sums, ...]]:
    """Return the log-determinant, ``(I + B)^-1`` and the effective weights."""
    L = jnp.linalg.cholesky(plus_identity(B, 1.0))
    M_inv = row_major(inverse_by_halves(L))
    gamma = 1.0 - jnp.diagonal(M_inv)
    return log_det_of(L), M_inv, element_gamma(gamma, scales(prior))


def primal_cotangent(derivative: Derivative, prior: Prior, M_inv: Array) -> Derivative:
    """Return the derivative of ``log_det / 2`` by the derivatives of some rows."""
    scale = scales(prior)
    return pull_back(dense(derivative, scale) @ M_inv, derivative, scale)


def primal_solve(
    B: Array, derivative: Derivative, prior: Prior, g: Params, t: Array
) -> Params:
    """Return ``d`` with ``(B + t I) d = -g``."""
    return blockwise_solve(B, g, t)


def blockwise_solve(B: Array, g: Params, t: Array) -> Params:
    """Return the same when nothing but the system is left of the rows."""
    L = jnp.linalg.cholesky(plus_identity(B, t))
    return unflatten(-cho_solve((L, True), flatten(g)), g)
