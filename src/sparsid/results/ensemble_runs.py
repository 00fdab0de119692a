"""Free runs of many members of a latent-state model, compiled."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from sparsid.arrays import Array
from sparsid.bayes.noise import Noise, sampled, whiten
from sparsid.models.network import Params
from sparsid.models.simulator import outputs
from sparsid.models.state_space import START_VARIANCE, StateNetwork

# Iterations that fit a start state; damping of the first.
START_STEPS, START_DAMPING = 15, 0.1


@partial(jax.jit, static_argnames="model")
def member_runs(model: StateNetwork, params: Params, u: Array) -> Array:
    """Return the runs of all members over all records, (member, record, time, output).

    Parameters
    ----------
    u
        Scaled inputs, (record, time, input).
    """

    def one(params: Params) -> Array:
        return jax.vmap(lambda x, v: outputs(model, params, x, v))(params[-1], u)

    return jax.vmap(one)(params)


@partial(jax.jit, static_argnames=("model", "sampled"))
def moved_runs(
    model: StateNetwork, params: Params, moved: Params, u: Array, sampled: bool
) -> Array:
    """Return runs with the weights moved, of the linearised or of the model itself."""

    def one(params: Params, direction: Params) -> Array:
        if sampled:
            there = tuple(p + d for p, d in zip(params, direction, strict=True))
            return outputs(model, there, there[-1][0], u)
        run, change = jax.jvp(
            lambda p: outputs(model, p, p[-1][0], u), (params,), (direction,)
        )
        return run + change

    return jax.vmap(one)(params, moved)


@jax.jit
def drawn_noise(noise: Noise, u: Array, keys: Array) -> Array:
    """Return a draw of each noise, as long as the inputs."""
    return jax.vmap(lambda n, key: sampled(n, len(u), key=key))(noise, keys)


@partial(jax.jit, static_argnames="model")
def fitted_starts(
    model: StateNetwork, params: Params, noise: Noise, u: Array, y: Array, start: Array
) -> tuple[Array, Array]:
    """Return each member's first state, fitted to the outputs ``y``, and covariance.

    The prior is that of the fit: mean zero, variance START_VARIANCE.
    """
    measured = jnp.asarray(~jnp.isnan(y), y.dtype)

    def one(weights: Params, noise: Noise, x: Array) -> tuple[Array, Array]:
        def residual(x: Array) -> Array:
            r = jnp.nan_to_num(y - outputs(model, weights, x, u))
            fit = whiten(noise, measured, r[..., None])[0].ravel()
            return jnp.concatenate([fit, x / np.sqrt(START_VARIANCE)])

        def improve(_: int, carry: tuple[Array, Array]) -> tuple[Array, Array]:
            x, damping = carry
            r, J = residual(x), jax.jacfwd(residual)(x)
            B = J.T @ J
            d = jnp.linalg.solve(B + damping * jnp.diag(jnp.diagonal(B)), -J.T @ r)
            better = (residual(x + d) ** 2).sum() < (r**2).sum()
            return jnp.where(better, x + d, x), damping * jnp.where(better, 0.2, 5.0)

        x = x.at[: model.outputs].set(jnp.nan_to_num(y[0]))
        x, _ = jax.lax.fori_loop(0, START_STEPS, improve, (x, START_DAMPING))
        J = jax.jacfwd(residual)(x)
        return x, jnp.linalg.inv(J.T @ J)

    states, spread = jax.vmap(one)(params, noise, start)
    return states, spread
