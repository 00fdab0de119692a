"""Objectives: a model on data, as a whitened residual and its derivative.

Everything the evidence needs of a model is here, so every model goes through the same
engine: a network one step ahead, a network or a latent-state model in free run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Float

from sparsid.arrays import Array
from sparsid.curvature.forms import Dense, Derivative
from sparsid.models.network import Factors, Network, Params
from sparsid.noise import Noise, whiten


class Linearised(NamedTuple):
    """Whitened residual, derivative of the whitened outputs, and the noise's volume.

    ``volume`` is the log-determinant of the noise covariance times ``2 pi``.
    """

    residual: Array
    derivative: Derivative
    volume: Array


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


class Runs(NamedTuple):
    """Records of equal length in scaled units, the shorter ones filled up.

    ``measured`` is one where an output was measured and zero where not.
    """

    u: Float[Array, "records time inputs"]
    y: Float[Array, "records time outputs"]
    measured: Float[Array, "records time outputs"]


@runtime_checkable
class Simulator(Protocol):
    """A model that runs on its own: state, inputs, next state, outputs."""

    def start(self, params: Params, record: Array) -> Array:
        """Return the state at the first sample of a record."""

    def advance(self, params: Params, x: Array, u: Array) -> Array:
        """Return the next state."""

    def emit(self, params: Params, x: Array, u: Array) -> Array:
        """Return the outputs at a state."""


@dataclass(frozen=True)
class FreeRun:
    """The free run of a model; the noise is AR(1) plus white."""

    model: Simulator

    def linearise(
        self, params: Params, noise: Noise, data: Runs, exact: bool = False
    ) -> Linearised:
        """Return residual and sensitivities, whitened by the noise filter."""
        del exact
        return self.whitened(self.signals(params, data), noise, data)

    def signals(self, params: Params, data: Runs) -> Array:
        """Return residuals and sensitivities in one array, residuals first."""
        y, J = jax.vmap(lambda *run: sensitivities(self.model, params, *run))(
            jnp.arange(len(data.u)), data.u
        )
        residual = jnp.where(data.measured > 0, data.y - y, 0.0)
        return jnp.concatenate([residual[..., None], J], axis=-1)

    def whitened(self, signals: Array, noise: Noise, data: Runs) -> Linearised:
        """Return the linearised run under a noise."""
        values, log_det = jax.vmap(lambda *run: whiten(noise, *run))(
            data.measured, signals
        )
        values = values.reshape(-1, values.shape[-1])
        volume = log_det.sum() + data.measured.sum() * jnp.log(2 * jnp.pi)
        return Linearised(values[:, :1], Dense(values[:, 1:]), volume)


@dataclass(frozen=True)
class ManyRuns(FreeRun):
    """The same for many runs, whose start states are the last block of the weights.

    A run depends on its own start alone, so its sensitivities get columns for the
    others only when all come together.

    Parameters
    ----------
    start_size
        Numbers in a start state.
    """

    start_size: int

    def signals(self, params: Params, data: Runs) -> Array:
        """Return residuals and sensitivities by the weights and a run's own start."""
        weights, first = params[:-1], jnp.array(0)
        y, J = jax.vmap(
            lambda x, u: sensitivities(self.model, (*weights, x[None]), first, u)
        )(params[-1], data.u)
        residual = jnp.where(data.measured > 0, data.y - y, 0.0)
        return jnp.concatenate([residual[..., None], J], axis=-1)

    def whitened(self, signals: Array, noise: Noise, data: Runs) -> Linearised:
        """Return the linearised runs under a noise, a column for every start."""
        found, runs = super().whitened(signals, noise, data), len(data.u)
        assert isinstance(found.derivative, Dense)
        J = found.derivative.J
        by_weights, by_start = J[:, : -self.start_size], J[:, -self.start_size :]
        own = by_start.reshape(runs, -1, 1, self.start_size)
        own = own * jnp.eye(runs)[:, None, :, None]
        J = jnp.concatenate([by_weights, own.reshape(len(by_start), -1)], axis=1)
        return found._replace(derivative=Dense(J))


def states(model: Simulator, params: Params, x: Array, u: Array) -> Array:
    """Return the states of a free run from ``x`` on."""

    def advance(x: Array, now: Array) -> tuple[Array, Array]:
        return model.advance(params, x, now), x

    return jax.lax.scan(advance, x, u)[1]


def outputs(model: Simulator, params: Params, x: Array, u: Array) -> Array:
    """Return the outputs of a free run from state ``x`` on."""
    X = states(model, params, x, u)
    return jax.vmap(lambda x, now: model.emit(params, x, now))(X, u)


def sensitivities(
    model: Simulator, params: Params, record: Array, u: Array
) -> tuple[Array, Array]:
    """Return the outputs of a free run and their derivative by all weights.

    With ``F`` and ``H`` the derivatives of the next state and the outputs, all of them
    computed in one batch, only ``S+ = F_x S + F_w`` goes from sample to sample.
    """

    def derivatives(f: Any) -> Any:
        by_weights, by_state = jax.vmap(
            lambda x, now: jax.jacrev(f, (0, 1))(params, x, now)
        )(X, u)
        return _joined(by_weights, 2), by_state

    X = states(model, params, model.start(params, record), u)
    (F_w, F_x), (H_w, H_x) = derivatives(model.advance), derivatives(model.emit)
    start = _joined(jax.jacrev(model.start)(params, record), 1)

    def move(S: Array, F: tuple[Array, Array]) -> tuple[Array, Array]:
        # A product so small is faster as one fused loop than as a matrix product.
        return (F[1][:, :, None] * S).sum(1) + F[0], S

    S = jax.lax.scan(move, start, (F_w, F_x))[1]
    y = jax.vmap(lambda x, now: model.emit(params, x, now))(X, u)
    return y, jnp.einsum("ton,tnp->top", H_x, S) + H_w


def _joined(blocks: Params, axes: int) -> Array:
    """Return derivatives by all blocks in one array, behind so many other axes."""
    return jnp.concatenate([b.reshape(*b.shape[:axes], -1) for b in blocks], axis=-1)
