"""Primal, dual and Gram forms of the Gauss-Newton curvature, and the layer Hessian.

Each form has two functions: ``factorise(derivative, prior)`` returning a
:class:`Factorised`, and ``solve(system, derivative, prior, g, t)``. Forms of rows that
come some at a time have one for each step: products, evidence, cotangent, solve.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.layout import Layout, with_layout_constraint
from jax.scipy.linalg import cho_solve, solve_triangular

from sparsid.arrays import Array
from sparsid.bayes.prior import BlockPrior, Prior, Sums
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


# -- shared pieces ---------------------------------------------------------------


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


def _pull_back(T: Array, derivative: Derivative, scale: Params) -> Derivative:
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


def _element_gamma(gamma: Array, scale: Params) -> tuple[Sums, ...]:
    return tuple(Sums.of(g) for g in unflatten(gamma, scale))


def _log_det(L: Array) -> Array:
    return 2.0 * jnp.log(jnp.diagonal(L)).sum()


def _inverse(L: Array) -> Array:
    return cho_solve((L, True), jnp.eye(len(L), dtype=L.dtype))


def _plus_identity(B: Array, t: Array | float) -> Array:
    return B + t * jnp.eye(len(B), dtype=B.dtype)


# -- primal ----------------------------------------------------------------------


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
    return _row_major(transposed @ transposed.T)


def primal_evidence(B: Array, prior: Prior) -> tuple[Array, Array, tuple[Sums, ...]]:
    """Return the log-determinant, ``(I + B)^-1`` and the effective weights."""
    L = jnp.linalg.cholesky(_plus_identity(B, 1.0))
    M_inv = _row_major(_inverse_by_halves(L))
    gamma = 1.0 - jnp.diagonal(M_inv)
    return _log_det(L), M_inv, _element_gamma(gamma, scales(prior))


def primal_cotangent(derivative: Derivative, prior: Prior, M_inv: Array) -> Derivative:
    """Return the derivative of ``log_det / 2`` by the derivatives of some rows."""
    scale = scales(prior)
    return _pull_back(dense(derivative, scale) @ M_inv, derivative, scale)


def primal_solve(
    B: Array, derivative: Derivative, prior: Prior, g: Params, t: Array
) -> Params:
    """Return ``d`` with ``(B + t I) d = -g``."""
    return blockwise_solve(B, g, t)


def blockwise_solve(B: Array, g: Params, t: Array) -> Params:
    """Return the same when nothing but the system is left of the rows."""
    L = jnp.linalg.cholesky(_plus_identity(B, t))
    return unflatten(-cho_solve((L, True), flatten(g)), g)


# -- diagonal --------------------------------------------------------------------


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
    gamma = _element_gamma(d / (1.0 + d), scales(prior))
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


# -- Kronecker -------------------------------------------------------------------


class Spectrum(NamedTuple):
    """Eigenvalues and eigenvectors of both factors of one block's curvature.

    ``X'X`` is taken as ``(A'A) (x) (D'D) / N``, which is exact if the inputs of a layer
    and the derivatives by its sums vary independently of each other.
    """

    inputs: Array
    U: Array
    derivatives: Array
    V: Array
    rows: Array

    @staticmethod
    def of(factors: tuple[Array, Array], rows: int) -> Spectrum:
        """Return the spectrum of both factors, summed up over so many rows."""
        inputs, U = jnp.linalg.eigh(factors[0])
        derivatives, V = jnp.linalg.eigh(factors[1] / rows)
        inputs, derivatives = jnp.maximum(inputs, 0.0), jnp.maximum(derivatives, 0.0)
        return Spectrum(inputs, U, derivatives, V, jnp.asarray(float(rows)))

    @property
    def known(self) -> Array:
        """The eigenvalues of the product."""
        return jnp.outer(self.inputs, self.derivatives)


def kronecker_products(derivative: Factors, prior: Prior) -> tuple[Array, Array]:
    """Return both factors of some rows, whitened."""
    ((left,), (right,)), (p,) = derivative, prior
    A = left * jnp.sqrt(p.rows)
    rows, outputs, columns = right.shape
    D = right.reshape(rows * outputs, columns) * jnp.sqrt(p.columns)
    return A.T @ A, D.T @ D


def kronecker_evidence(
    spectrum: Spectrum, prior: Prior
) -> tuple[Array, tuple[Array, Array], tuple[Sums, ...]]:
    """Return the log-determinant, its slopes by both factors, effective weights."""
    inputs, U, derivatives, V, rows = spectrum
    left = 1.0 / (1.0 + spectrum.known)
    by_inputs, by_derivatives = left @ derivatives, inputs @ left
    slopes = (U * by_inputs) @ U.T, (V * (by_derivatives / rows)) @ V.T
    gamma = Sums(
        U**2 @ (inputs * by_inputs), V**2 @ (derivatives * by_derivatives), None
    )
    return jnp.log1p(spectrum.known).sum(), slopes, (gamma,)


def kronecker_cotangent(
    derivative: Factors, prior: Prior, slopes: tuple[Array, Array]
) -> Factors:
    """Return the derivative of ``log_det / 2`` by the derivatives of some rows."""
    ((left,), (right,)), (p,) = derivative, prior
    rows, columns = jnp.sqrt(p.rows), jnp.sqrt(p.columns)
    by_left = (left * rows) @ slopes[0] * rows
    by_right = (right * columns) @ slopes[1] * columns
    return Factors((by_left,), (by_right,))


def kronecker_solve(spectrum: Spectrum, g: Params, t: Array) -> Params:
    """Return ``d`` with ``(B + t I) d = -g``."""
    U, V = spectrum.U, spectrum.V
    return (-(U @ (U.T @ g[0] @ V / (spectrum.known + t)) @ V.T),)


# -- dual ------------------------------------------------------------------------


def dual_factorise(derivative: Factors, prior: Prior, full: bool) -> Factorised:
    """Return the curvature from ``K = X X'``, one row and column per sample."""
    scale = scales(prior)
    X = dense(derivative, scale)
    K = X @ X.T
    if not full:
        return Factorised(jnp.zeros(()), K, None, None)
    L = jnp.linalg.cholesky(_plus_identity(K, 1.0))
    T = cho_solve((L, True), X)
    return Factorised(
        _log_det(L),
        K,
        _pull_back(T, derivative, scale),
        _element_gamma((T * X).sum(0), scale),
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
    L = jnp.linalg.cholesky(_plus_identity(K, t))
    v = cho_solve((L, True), Xg.ravel()).reshape(Xg.shape)
    return tuple(
        (s * (left.T @ jnp.einsum("to,toj->tj", v, right)) - b) / t
        for left, right, s, b in zip(*derivative, scale, g, strict=True)
    )


# -- gram ------------------------------------------------------------------------


def _row_major(matrix: Array) -> Array:
    """Keep the layout that LAPACK wants from spreading to the products around it.

    Without this the compiler makes those column-major too, at half their speed.
    """
    return with_layout_constraint(  # type: ignore[no-untyped-call]
        matrix, Layout((0, 1))
    )


def _inverse_by_halves(L: Array) -> Array:
    """Return ``(L L')^-1``, leaving the zeros of ``L`` out where that pays.

    With ``L = [a 0; b c]``, ``y = b a^-1`` and ``Q = (c c')^-1`` it is
    ``[(a a')^-1 + y' Q y, -y' Q; -Q y, Q]``, and both inverses are found so again.
    """
    h = len(L) // 2
    if h < SMALLEST_HALF:
        return _inverse(L)
    a, b, c = L[:h, :h], L[h:, :h], L[h:, h:]
    Q = _inverse_by_halves(c)
    y = solve_triangular(a, b.T, lower=True, trans=1).T
    corner = -Q @ y
    return jnp.block([[_inverse_by_halves(a) - y.T @ corner, corner.T], [corner, Q]])


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
    K = _row_major(sum((g.product() for g in grams), start=jnp.zeros(())))
    if not full:
        return Factorised(jnp.zeros(()), K, None, None)
    L = jnp.linalg.cholesky(_plus_identity(K, 1.0))
    Q = _row_major(_inverse_by_halves(L))
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
    return Factorised(_log_det(L), K, cotangent, tuple(gamma))


gram_solve = dual_solve


# -- exact layer Hessian ---------------------------------------------------------


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
    return Factorised(log_det, system, cotangent, _element_gamma(gamma, scale))


def hessian_solve(
    system: tuple[Array, Array], derivative: Factors, prior: Prior, g: Params, t: Array
) -> Params:
    """Return ``d`` with ``(B_+ + t I) d = -g`` from the eigen-decomposition."""
    values, vectors = system
    d = -vectors @ ((vectors.T @ flatten(g)) / (values + t))
    return unflatten(d, g)
