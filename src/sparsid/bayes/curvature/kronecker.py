"""Two averages for each layer in place of its block of the primal form."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp

from sparsid.arrays import Array
from sparsid.bayes.prior import Prior, Sums
from sparsid.models.network import Factors, Params


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
