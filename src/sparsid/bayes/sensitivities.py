"""Free runs with their sensitivities, many side by side.

With ``F`` the map to the next state, ``S+ = F_x S + F_w`` goes from sample to sample.
Time comes first in all arrays, and they end in *lanes*, one for every record of every
member: so a scan takes its slices as they lie, and arithmetic runs along what is side
by side in memory.

For latent-state models both directions are written by hand: derivatives of steps keep
their factors, and the reverse sweep needs no run back through the states, as how these
depend on the weights is what the first sweep has found.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from sparsid.arrays import Array
from sparsid.models.network import Params
from sparsid.models.simulator import Simulator, sensitivities
from sparsid.models.state_space import StateNetwork, Steps

# Sensitivities of the states: by each layer but the last, and by all weights whose
# columns are states (last layer, drive, coupling, leak, start), row by row.
Blocks = tuple[Array, ...]


def free_runs(
    model: Simulator,
    params: Params,
    u: Float[Array, "records time inputs"],
) -> tuple[Array, Array]:
    """Return the outputs of free runs and their derivative by the weights.

    Parameters
    ----------
    params
        Weights of all members, along a first axis.

    Returns
    -------
    y, J
        Of shapes (time, output, lane) and (time, output, weight, lane), the records of
        a member side by side. The last columns are for the start state of a run's own
        record: it does not depend on those of others.
    """
    if isinstance(model, StateNetwork):
        found: tuple[Array, Array] = _state_runs(model, params, u)
        return found

    def run(weights: Params, start: Array, u: Array) -> tuple[Array, Array]:
        return sensitivities(model, (*weights, start[None]), jnp.array(0), u)

    of_member = jax.vmap(run, in_axes=(None, 0, 0))
    y, J = jax.vmap(of_member, in_axes=(0, 0, None))(params[:-1], params[-1], u)
    y, J = (found.reshape(-1, *found.shape[2:]) for found in (y, J))
    return jnp.moveaxis(y, 0, -1), jnp.moveaxis(J, 0, -1)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _state_runs(model: StateNetwork, params: Params, u: Array) -> tuple[Array, Array]:
    y, J = _forward(model, params, u)[0]
    return y, J


def _forward(model: StateNetwork, params: Params, u: Array) -> tuple[Any, Any]:
    weights, start = _in_lanes(params)
    U = jnp.tile(u.transpose(1, 2, 0), len(params[0]))

    def advance(x: Array, now: Array) -> tuple[Array, Array]:
        return model.advance(weights, x, now), x

    X = jax.lax.scan(advance, start, U)[1]
    steps, pull = jax.vjp(
        lambda weights, X: jax.vmap(lambda x, now: model.derivatives(weights, x, now))(
            X, U
        ),
        weights,
        X,
    )

    def move(S: Blocks, now: Steps) -> tuple[Blocks, Blocks]:
        pushes = [
            left[None, :, None] * right[:, None]
            for left, right in zip(now.left, now.right, strict=True)
        ]
        pushes.append(now.own * _same_state(now.own))
        pairs = zip(S, pushes, strict=True)
        return tuple(_along(now.by_state, s) + push for s, push in pairs), S

    S = jax.lax.scan(move, _start(model, steps), steps)[1]
    y, seen = model.seen(X)
    J = [s[:, : model.outputs] * seen[:, :, None, None] for s in S]
    return (y, jnp.concatenate([_flat(j) for j in J], axis=2)), (
        S,
        steps,
        pull,
        seen,
        u,
    )


def _backward(
    model: StateNetwork, kept: Any, cotangents: tuple[Array, Array]
) -> tuple[Params, None]:
    """Return the cotangent of the weights."""
    S, steps, pull, seen, u = kept
    by_y, by_J = cotangents
    ends = np.cumsum([s.shape[2] * s.shape[3] for s in S])[:-1]
    by_S = tuple(
        part.reshape(*part.shape[:2], *s.shape[2:]) * seen[:, :, None, None]
        for part, s in zip(jnp.split(by_J, ends, axis=2), S, strict=True)
    )

    def move(A: Blocks, now: tuple[Blocks, Steps, Blocks]) -> tuple[Blocks, Steps]:
        S, steps, pushes = now
        found = Steps(
            sum((a[:, None] * s).sum((2, 3)) for a, s in zip(A, S, strict=True)),
            tuple(
                (a * right[:, None]).sum((0, 2))
                for a, right in zip(A, steps.right, strict=False)
            ),
            tuple(
                (a * left[:, None]).sum(1)
                for a, left in zip(A, steps.left, strict=False)
            ),
            (A[-1] * _same_state(steps.own)).sum(0),
        )
        back = jnp.swapaxes(steps.by_state, 0, 1)
        pairs = zip(A, pushes, strict=True)
        A = tuple(_along(back, a).at[: model.outputs].add(push) for a, push in pairs)
        return A, found

    end = tuple(jnp.zeros_like(s[0]) for s in S)
    _, by_steps = jax.lax.scan(move, end, (S, steps, by_S), reverse=True)
    by_weights, by_X = pull(by_steps)
    by_X = by_X.at[:, : model.outputs].add(by_y * seen)
    through = [(by_X[:, :, None, None] * s).sum((0, 1)) for s in S]
    return _from_lanes(by_weights, through, len(u)), None


_state_runs.defvjp(_forward, _backward)


# -- pieces --------------------------------------------------------------------------


def _in_lanes(params: Params) -> tuple[Params, Array]:
    """Return weights and start states with lanes as their last axis."""
    *weights, start = params
    records = start.shape[1]
    lanes = [jnp.repeat(jnp.moveaxis(w, 0, -1), records, axis=-1) for w in weights]
    start = jnp.moveaxis(start, -1, 0).reshape(start.shape[-1], -1)
    # The model's own order: start states last, of which a step takes no notice.
    return (*lanes, start[None]), start


def _from_lanes(by_weights: Params, through: list[Array], records: int) -> Params:
    """Return cotangents in the members' own shapes.

    Parameters
    ----------
    by_weights
        At given states.
    through
        By the states, in blocks of sensitivities.
    """
    *layers, own = through
    rows = np.cumsum([w.shape[0] for w in by_weights[len(layers) : -1]])
    *parts, start = jnp.split(own, rows, axis=0)

    def by_member(lanes: Array) -> Array:
        # Without inputs there are blocks of no rows: their sizes have to be told.
        members = lanes.shape[-1] // records
        apart = lanes.reshape(*lanes.shape[:-1], members, records)
        return jnp.moveaxis(apart, (-2, -1), (0, 1))

    return (
        *(
            by_member(direct + part).sum(1)
            for direct, part in zip(by_weights[:-1], [*layers, *parts], strict=True)
        ),
        by_member(start[0]),
    )


def _start(model: StateNetwork, steps: Steps) -> Blocks:
    """Return the sensitivities at the first sample: the start states' own."""
    n, lanes = model.states, steps.by_state.shape[-1]
    layers = [
        jnp.zeros((n, left.shape[1], right.shape[2], lanes))
        for left, right in zip(steps.left, steps.right, strict=True)
    ]
    own = (
        jnp.zeros((n, *steps.own.shape[1:])).at[:, -1].set(_same_state(steps.own)[:, 0])
    )
    return (*layers, own)


def _along(by_state: Array, S: Array) -> Array:
    """Return ``F_x S``: so small a product is faster as one fused loop."""
    return (by_state[:, :, None, None] * S).sum(1)


def _same_state(own: Array) -> Array:
    """Return ones where a column belongs to the state of a row."""
    return jnp.eye(own.shape[-2])[:, None, :, None]


def _flat(block: Array) -> Array:
    """Return a block with its rows and columns as one axis."""
    return block.reshape(*block.shape[:2], -1, *block.shape[4:])
