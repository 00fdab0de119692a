"""What the forms of the curvature share."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax.experimental.layout import Layout, with_layout_constraint
from jax.scipy.linalg import cho_solve, solve_triangular

from sparsid.arrays import Array
from sparsid.bayes.prior import Prior, Sums
from sparsid.models.network import Factors, Params

# Below this size halving a matrix costs more than it saves.
SMALLEST_HALF = 128


class Factorised(NamedTuple):
    """What a form hands back.

    When only the ``system`` was asked for, ``log_det`` is zero and the others None.
    """

    log_det: Array
    system: Any
    cotangent: Derivative | None
    gamma: tuple[Sums, ...] | None


class Dense(NamedTuple):
    """A derivative without structure: a row per residual, a column per weight."""

    J: Array


Derivative = Factors | Dense


def scales(prior: Prior) -> Params:
    """Return prior standard deviations per block."""
    return tuple(jnp.sqrt(p.variances()) for p in prior)


def dense(derivative: Derivative, scale: Params) -> Array:
    """Return ``X = J V^1/2`` with one row per sample and output."""
    if isinstance(derivative, Dense):
        return derivative.J * flatten(scale)
    columns = [
        ((left[:, :, None] * s)[:, None] * right[:, :, None, :]).reshape(
            left.shape[0] * right.shape[1], s.size
        )
        for left, right, s in zip(*derivative, scale, strict=True)
    ]
    return jnp.concatenate(columns, axis=1)


def flatten(blocks: Params) -> Array:
    """Return all blocks as one vector."""
    return jnp.concatenate([b.ravel() for b in blocks])


def unflatten(vector: Array, like: Params) -> Params:
    """Return the blocks of a vector."""
    out, start = [], 0
    for block in like:
        out.append(vector[start : start + block.size].reshape(block.shape))
        start += block.size
    return tuple(out)


def pull_back(T: Array, derivative: Derivative, scale: Params) -> Derivative:
    """Pull a cotangent of dense ``X`` back to the derivative."""
    if isinstance(derivative, Dense):
        return Dense(T * flatten(scale))
    lefts, rights, start = [], [], 0
    for left, right, s in zip(*derivative, scale, strict=True):
        shape = (len(left), right.shape[1], *s.shape)
        block = T[:, start : start + s.size].reshape(shape) * s
        lefts.append(jnp.einsum("toij,toj->ti", block, right))
        rights.append(jnp.einsum("toij,ti->toj", block, left))
        start += s.size
    return Factors(tuple(lefts), tuple(rights))


def element_gamma(gamma: Array, scale: Params) -> tuple[Sums, ...]:
    """Return the effective weights block by block, given weight by weight."""
    return tuple(Sums.of(g) for g in unflatten(gamma, scale))


def log_det_of(L: Array) -> Array:
    """Return ``log|L L'|``."""
    return 2.0 * jnp.log(jnp.diagonal(L)).sum()


def inverse(L: Array) -> Array:
    """Return ``(L L')^-1``."""
    return cho_solve((L, True), jnp.eye(len(L), dtype=L.dtype))


def plus_identity(B: Array, t: Array | float) -> Array:
    """Return ``B + t I``."""
    return B + t * jnp.eye(len(B), dtype=B.dtype)


def row_major(matrix: Array) -> Array:
    """Keep the layout that LAPACK wants from spreading to the products around it.

    Without this the compiler makes those column-major too, at half their speed.
    """
    constrain: Any = with_layout_constraint
    kept: Array = constrain(matrix, Layout((0, 1)))
    return kept


def inverse_by_halves(L: Array) -> Array:
    """Return ``(L L')^-1``, leaving the zeros of ``L`` out where that pays.

    With ``L = [a 0; b c]``, ``y = b a^-1`` and ``Q = (c c')^-1`` it is
    ``[(a a')^-1 + y' Q y, -y' Q; -Q y, Q]``, and both inverses are found so again.
    """
    h = len(L) // 2
    if h < SMALLEST_HALF:
        return inverse(L)
    a, b, c = L[:h, :h], L[h:, :h], L[h:, h:]
    Q = inverse_by_halves(c)
    y = solve_triangular(a, b.T, lower=True, trans=1).T
    corner = -Q @ y
    return jnp.block([[inverse_by_halves(a) - y.T @ corner, corner.T], [corner, Q]])
