"""Objectives: a model on data, as a whitened residual and its derivative."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Float

from sparsid.arrays import Array
from sparsid.models.network import Factors, Network, Params


class Regression(NamedTuple):
    """Rows of the one-step regression in scaled units, over all records."""

    z: Float[Array, "time regressors"]
    y: Float[Array, "time outputs"]


class Linearised(NamedTuple):
    """Whitened residual ``r / sigma`` and derivative of the outputs over ``sigma``."""

    residual: Array
    derivative: Factors


def linearise_one_step(
    network: Network, params: Params, noise: Array, data: Regression
) -> Linearised:
    """Return residual and Jacobian factors of the one-step prediction."""
    y, factors = network.factors(params, data.z)
    sigma = jnp.sqrt(noise)
    right = tuple(d / sigma[:, None] for d in factors.right)
    return Linearised((data.y - y) / sigma, Factors(factors.left, right))


def hessian_one_step(
    network: Network, params: Params, noise: Array, data: Regression
) -> Linearised:
    """Return residual and exact layer-Hessian factors of the one-step prediction."""
    residual = data.y - network.apply(params, data.z)
    factors = network.layer_hessians(params, data.z, -residual / noise, 1.0 / noise)
    return Linearised(residual / jnp.sqrt(noise), factors)
