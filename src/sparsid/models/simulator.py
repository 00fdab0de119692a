"""Models that run on their own, from a start state with inputs alone."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp

from sparsid.arrays import Array
from sparsid.models.network import Params


@runtime_checkable
class Simulator(Protocol):
    """A model that runs on its own: state, inputs, next state, outputs.

    The last block of its weights are the start states, one for each record.
    """

    @property
    def states(self) -> int:
        """Numbers in a state."""

    def start(self, params: Params, record: Array) -> Array:
        """Return the state at the first sample of a record."""

    def advance(self, params: Params, x: Array, u: Array) -> Array:
        """Return the next state."""

    def emit(self, params: Params, x: Array, u: Array) -> Array:
        """Return the outputs at a state."""


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

    For any model, by automatic differentiation of its steps. With ``F`` and ``H`` the
    derivatives of the next state and the outputs, all of them computed in one batch,
    only ``S+ = F_x S + F_w`` goes from sample to sample.
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
