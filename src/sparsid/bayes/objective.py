"""Objectives: a model on data, as a whitened residual and its derivative.

Everything the evidence needs of a model is here, so every model goes through the same
engine: a network one step ahead, a network or a latent-state model in free run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax.numpy as jnp
from jaxtyping import Float

from sparsid.arrays import Array
from sparsid.bayes.curvature.pieces import Dense, Derivative
from sparsid.bayes.noise import Noise, whiten
from sparsid.bayes.sensitivities import free_runs
from sparsid.data.runs import Runs
from sparsid.models.network import Factors, Network, Params
from sparsid.models.simulator import Simulator


class Linearised(NamedTuple):
    """Whitened residual, derivative of the whitened outputs, and the noise's volume.

    ``volume`` is the log-determinant of the noise covariance times ``2 pi``. Of free
    runs there are ``signals``, what was whitened.
    """

    residual: Array
    derivative: Derivative
    volume: Array
    signals: Array | None = None


@runtime_checkable
class Objective(Protocol):
    """A model on data."""

    def linearise(
        self, params: Params, noise: Any, data: Any, exact: bool
    ) -> Linearised:
        """Return residual and derivative; ``exact`` asks for layer Hessians."""


# -- one step ahead ------------------------------------------------------------------


class Regression(NamedTuple):
    """Rows of the one-step regression in scaled units, over all records."""

    z: Float[Array, "time regressors"]
    y: Float[Array, "time outputs"]


@dataclass(frozen=True)
class OneStep:
    """The one-step prediction of a network; the noise is a variance per output."""

    network: Network

    def linearise(
        self, params: Params, noise: Array, data: Regression, exact: bool = False
    ) -> Linearised:
        """Return residual and Jacobian factors, or exact layer-Hessian factors."""
        volume = len(data.y) * jnp.log(2 * jnp.pi * noise).sum()
        sigma = jnp.sqrt(noise)
        if exact:
            residual = data.y - self.network.apply(params, data.z)
            factors = self.network.layer_hessians(
                params, data.z, -residual / noise, 1.0 / noise
            )
            return Linearised(residual / sigma, factors, volume)
        y, factors = self.network.factors(params, data.z)
        right = tuple(d / sigma[:, None] for d in factors.right)
        return Linearised((data.y - y) / sigma, Factors(factors.left, right), volume)


# -- free run ------------------------------------------------------------------------


@dataclass(frozen=True)
class FreeRun:
    """Free runs of many members of a model; the noise is AR(1) plus white.

    Members are along a first axis of weights, noise and what was measured. Inside,
    every record of every member is a *lane*, and lanes are the last axis
    (:mod:`sparsid.bayes.sensitivities`).
    """

    model: Simulator

    def linearise(
        self, params: Params, noise: Noise, data: Runs, exact: bool = False
    ) -> Linearised:
        """Return residuals and sensitivities, whitened by the noise filter."""
        del exact
        return self.whitened(self.signals(params, data), noise, data)

    def signals(
        self, params: Params, data: Runs
    ) -> Float[Array, "time outputs columns lanes"]:
        """Return residuals, first, and sensitivities by weights and own start state."""
        members = len(params[0])
        y, J = free_runs(self.model, params, data.u)
        measured = jnp.tile(data.y.transpose(1, 2, 0), members)
        residual = jnp.where(_in_lanes(data.measured) > 0, measured - y, 0.0)
        return jnp.concatenate([residual[:, :, None], J], axis=2)

    def whitened(self, signals: Array, noise: Noise, data: Runs) -> Linearised:
        """Return the linearised runs under a noise, a column for every start state."""
        runs = len(data.u)
        own = Noise(*(jnp.repeat(part.T, runs, axis=1) for part in noise))
        values, log_det = whiten(own, _in_lanes(data.measured), signals)
        members = len(data.measured)
        # Member, record, time, output, column.
        values = values.reshape(*values.shape[:-1], members, runs)
        values = values.transpose(3, 4, 0, 1, 2)
        count = data.measured.sum((1, 2, 3))
        volume = log_det.reshape(members, runs).sum(1) + count * jnp.log(2 * jnp.pi)
        J = self._with_all_starts(values[..., 1:])
        residual = values[..., :1].reshape(members, -1, 1)
        J = J.reshape(*residual.shape[:2], -1)
        return Linearised(residual, Dense(J), volume, signals)

    def _with_all_starts(self, J: Array) -> Array:
        """Return the derivative with columns for the start states of other records."""
        runs, weights = J.shape[1], J.shape[-1] - self.model.states
        if runs == 1:
            return J
        by_weights, by_start = J[..., :weights], J[..., weights:]
        own = by_start[..., None, :] * jnp.eye(runs)[:, None, None, :, None]
        return jnp.concatenate([by_weights, own.reshape(*J.shape[:-1], -1)], axis=-1)


def _in_lanes(measured: Array) -> Array:
    """Return what members measured, (time, output, lane)."""
    members, records, time, outputs = measured.shape
    return measured.reshape(members * records, time, outputs).transpose(1, 2, 0)
