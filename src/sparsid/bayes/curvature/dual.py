"""Dual form, ``I + X X'``: one row and column for each residual; X dense or not."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax.scipy.linalg import cho_solve

from sparsid.arrays import Array
from sparsid.bayes.curvature.pieces import (
    Factorised,
    dense,
    element_gamma,
    inverse_by_halves,
    log_det_of,
    plus_identity,
    pull_back,
    row_major,
    scales,
)
from sparsid.bayes.prior import BlockPrior, Prior, Sums
from sparsid.models.network import Factors, Params


def dual_factorise(derivative: Factors, prior: Prior, full: bool) -> Factorised:
    """Return the curvature from ``K = X X'``, one row and column per sample."""
    scale = scales(prior)
    X = dense(derivative, scale)
    K = X @ X.T
    if not full:
        return Factorised(jnp.zeros(()), K, None, None)
    L = jnp.linalg.cholesky(plus_identity(K, 1.0))
    T = cho_solve((L, True), X)
    return Factorised(
        log_det_of(L),
        K,
        pull_back(T, derivative, scale),
        element_gamma((T * X).sum(0), scale),
    )


def dual_solve(
    K: Array, derivative: Factors, prior: Prior, g: Params, t: Array
) -> Params:
    """Return ``d = -(g - X'(t I + K)^-1 X g) / t``, which solves the primal system."""
    scale = scales(prior)
    scaled = tuple(s * b for s, b in zip(scale, g, strict=True))
    Xg: Array = sum(
        jnp.einsum("tj,toj->to", left @ b, right)
        for left, right, b in zip(*derivative, scaled, strict=True)
    )
    L = jnp.linalg.cholesky(plus_identity(K, t))
    v = cho_solve((L, True), Xg.ravel()).reshape(Xg.shape)
    return tuple(
        (s * (left.T @ jnp.einsum("to,toj->tj", v, right)) - b) / t
        for left, right, s, b in zip(*derivative, scale, g, strict=True)
    )


def _expand(left: Array, outputs: int) -> Array:
    """Repeat layer inputs for every output: rows ordered (sample, output)."""
    return left if outputs == 1 else jnp.repeat(left, outputs, axis=0)


class _Gram(NamedTuple):
    """One block's part of ``K``: ``(A R A') o (D C D')``, signals and variances.

    A single column ``D`` only scales the rows of ``A``: then ``scaled`` is ``D o A``,
    and there is no second matrix to multiply with.
    """

    A: Array
    D: Array
    KA: Array
    KD: Array | None
    prior: BlockPrior

    @staticmethod
    def of(left: Array, right: Array, p: BlockPrior) -> _Gram:
        A = _expand(left, right.shape[1])
        D = right.reshape(-1, right.shape[2])
        if D.shape[1] == 1:
            scaled = D * A
            return _Gram(A, D, (scaled * (p.rows * p.columns)) @ scaled.T, None, p)
        return _Gram(A, D, (A * p.rows) @ A.T, (D * p.columns) @ D.T, p)

    def product(self) -> Array:
        return self.KA if self.KD is None else self.KA * self.KD

    def cotangents(self, Q: Array) -> tuple[Array, Array]:
        """Return the derivatives of ``log_det / 2`` by ``A`` and by ``D``."""
        p = self.prior
        if self.KD is None:
            pulled = Q @ (self.D * self.A * (p.rows * p.columns))
            return self.D * pulled, (self.A * pulled).sum(1, keepdims=True)
        by_A = (Q * self.KD) @ (self.A * p.rows)
        return by_A, (Q * self.KA) @ (self.D * p.columns)


def gram_factorise(derivative: Factors, prior: Prior, full: bool) -> Factorised:
    """Return the curvature from products of layer Gram matrices, X never formed.

    With ``upsilon_ij = r_i c_j``, ``K = sum_l (A R A') o (D C D')`` and
    ``Q = (I + K)^-1``::

        d(log_det/2)/dA = (Q o D C D') A R,    d(log_det/2)/dD = (Q o A R A') D C
    """
    grams = [_Gram.of(*block) for block in zip(*derivative, prior, strict=True)]
    K = row_major(sum((g.product() for g in grams), start=jnp.zeros(())))
    if not full:
        return Factorised(jnp.zeros(()), K, None, None)
    L = jnp.linalg.cholesky(plus_identity(K, 1.0))
    Q = row_major(inverse_by_halves(L))
    lefts, rights, gamma = [], [], []
    for gram, left, right in zip(grams, *derivative, strict=True):
        by_A, by_D = gram.cotangents(Q)
        cot_left = by_A.reshape(len(left), right.shape[1], -1).sum(1)
        cot_right = by_D.reshape(right.shape)
        lefts.append(cot_left)
        rights.append(cot_right)
        gamma.append(
            Sums((left * cot_left).sum(0), (right * cot_right).sum((0, 1)), None)
        )
    cotangent = Factors(tuple(lefts), tuple(rights))
    return Factorised(log_det_of(L), K, cotangent, tuple(gamma))


gram_solve = dual_solve
