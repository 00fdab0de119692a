"""Members: many starts of one model going downhill together.

One compiled program serves a whole batch of starts. Members may even learn from
different samples of the records, which makes cross-validation one more batch. Every
step, update and evaluation goes over all members; each has its own damping and takes
only what lowers its cost.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from sparsid.arrays import Array
from sparsid.curvature.forms import dense, scales
from sparsid.descent import LARGEST_DAMPING, SMALLEST_DAMPING
from sparsid.evidence import Evaluation, Problem, State, Weights, evaluate, step
from sparsid.noise import Noise
from sparsid.objectives import FreeRun, Objective, Runs
from sparsid.rules import SparseBayes

START_DAMPING = 10.0
# Bounds of the noise coordinates, in logarithms of scaled variances.
LOWEST, HIGHEST = (-18.0, -18.0, -4.0), (1.0, 1.0, 9.0)
# Directions in which the noise is looked for: white, innovation, correlation.
DIRECTIONS = (
    (0, 0, 0),
    *((s, 0, 0) for s in (1, -1)),
    *((0, s, 0) for s in (1, -1)),
    *((0, 0, s) for s in (1, -1)),
    *((s, s, 0) for s in (1, -1)),
    *((0, s, s) for s in (1, -1)),
    *((s, -s, -s) for s in (1, -1)),
)
# The same number of directions that leave the coloured part alone.
WHITE_ALONE = tuple((white, 0, 0) for white, *_ in DIRECTIONS)
SMALLEST_STRIDE, LARGEST_STRIDE = 0.1, 2.0
# What members have of their own in the data: which samples they may learn from.
OWN_DATA = Runs(u=None, y=None, measured=0)


class Descent(NamedTuple):
    """Where the members are, and how each goes on."""

    state: State
    at: Evaluation
    damping: Array
    growth: Array
    stride: Array
    volume: Array

    @property
    def cost(self) -> NDArray[np.float64]:
        """The present cost of every member."""
        return np.asarray(self.at.cost)


def begin(problem: Problem, state: State, data: Runs, volume: float) -> Descent:
    """Return the members at their first state.

    Parameters
    ----------
    volume
        How much the cost counts the log-determinant: 1, or 0 to begin with.
    """
    # An array from the first call on: programs are compiled for types.
    counted = jnp.asarray(volume, float)
    at = _evaluate(problem, state, data, counted)
    ones = jnp.ones(at.cost.shape)
    strides = jnp.ones_like(state.noise.log_white)
    return Descent(state, at, START_DAMPING * ones, 2.0 * ones, strides, counted)


def count_volume(
    problem: Problem, d: Descent, data: Runs, volume: Array | float
) -> Descent:
    """Return the members with another cost, where they are."""
    counted = jnp.asarray(volume, float)
    return d._replace(at=_evaluate(problem, d.state, data, counted), volume=counted)


def take_step(problem: Problem, d: Descent, data: Runs) -> Descent:
    """Move the weights of the members whose cost falls by it.

    Nielsen's control of the damping, as for a single network, but with one try a call.
    """
    state, promised = _moved(problem, d)
    moved: Descent = _accept(
        d, state, _evaluate(problem, state, data, d.volume), promised
    )
    return moved


def update(problem: Problem, rule: SparseBayes, d: Descent, data: Runs) -> Descent:
    """Update the variances of the members whose cost falls by it."""
    state = _updated(rule, d)
    moved: Descent = _adopt(d, state, _evaluate(problem, state, data, d.volume))
    return moved


def update_noise(
    problem: Problem,
    d: Descent,
    data: Runs,
    directions: tuple[tuple[int, ...], ...] | None = None,
) -> Descent:
    """Look around each member's noise, one stride in every direction."""
    ways = jnp.array(directions or DIRECTIONS, float)
    state, stride = _other_noise(problem, d, data, ways)
    moved: Descent = _adopt(d, state, _evaluate(problem, state, data, d.volume))
    return moved._replace(stride=stride)


# -- compiled ------------------------------------------------------------------------


@partial(jax.jit, static_argnames="problem")
def _evaluate(problem: Problem, state: State, data: Runs, volume: Array) -> Evaluation:
    weights = Weights(1.0, volume)
    at: Evaluation = jax.vmap(
        lambda s, d: evaluate(problem, s, s.prior, d, weights, 0.0, full=True),
        in_axes=(0, OWN_DATA),
    )(state, data)
    return at


@partial(jax.jit, static_argnames="problem")
def _moved(problem: Problem, d: Descent) -> tuple[State, Array]:
    params, promised = jax.vmap(
        lambda state, at, damping: step(
            problem, state.params, state.prior, at, 1.0, damping
        )
    )(d.state, d.at, d.damping)
    return d.state._replace(params=params), promised


@jax.jit
def _accept(d: Descent, state: State, at: Evaluation, promised: Array) -> Descent:
    fall = d.at.cost - at.cost
    better = jnp.isfinite(at.cost) & (fall > 0)
    gain = jnp.minimum(fall / jnp.maximum(2.0 * promised, 1e-300), 1.0)
    eased = d.damping * jnp.maximum(1.0 / 3.0, 1.0 - (2.0 * gain - 1.0) ** 3)
    damping = jnp.where(better, eased, d.damping * d.growth)
    return Descent(
        _pick(better, state, d.state),
        _pick(better, at, d.at),
        jnp.clip(damping, SMALLEST_DAMPING, LARGEST_DAMPING),
        jnp.where(better, 2.0, 2.0 * d.growth),
        d.stride,
        d.volume,
    )


@jax.jit
def _adopt(d: Descent, state: State, at: Evaluation) -> Descent:
    better = jnp.isfinite(at.cost) & (at.cost <= d.at.cost)
    return d._replace(state=_pick(better, state, d.state), at=_pick(better, at, d.at))


@partial(jax.jit, static_argnames="rule")
def _updated(rule: SparseBayes, d: Descent) -> State:
    prior = jax.vmap(lambda s, at: rule.update(s.prior, s.params, at.gamma, 1))(
        d.state, d.at
    )
    return d.state._replace(prior=prior)


@partial(jax.jit, static_argnames="problem")
def _other_noise(
    problem: Problem, d: Descent, data: Runs, directions: Array
) -> tuple[State, Array]:
    noise, stride = jax.vmap(
        lambda *member: _better_noise(problem.objective, directions, d.volume, *member),
        in_axes=(0, OWN_DATA, 0),
    )(d.state, data, d.stride)
    return d.state._replace(noise=noise), stride


def _better_noise(
    objective: Objective,
    directions: Array,
    volume: Array,
    state: State,
    data: Runs,
    stride: Array,
) -> tuple[Noise, Array]:
    """Return the best noise around the present one, and the next strides.

    A search without derivatives, output after output: three numbers each, and the
    whitening is cheap.
    """
    assert isinstance(objective, FreeRun)
    signals, scale = objective.signals(state.params, data), scales(state.prior)

    def cost(noise: Noise) -> Array:
        found = objective.whitened(signals, noise, data)
        X = dense(found.derivative, scale)
        L = jnp.linalg.cholesky(X.T @ X + jnp.eye(X.shape[1]))
        log_det = 2.0 * jnp.log(jnp.diagonal(L)).sum()
        return (found.residual**2).sum() + found.volume + volume * log_det

    def moved(noise: Noise, k: Array, direction: Array) -> Noise:
        pairs = zip(noise, direction, LOWEST, HIGHEST, strict=True)
        return Noise(
            *(c.at[k].set(jnp.clip(c[k] + stride[k] * s, a, b)) for c, s, a, b in pairs)
        )

    def improve(noise: Noise, k: Array) -> tuple[Noise, Array]:
        costs = jax.lax.map(lambda way: cost(moved(noise, k, way)), directions)
        best = jnp.argmin(jnp.where(jnp.isfinite(costs), costs, jnp.inf))
        return moved(noise, k, directions[best]), best

    outputs = jnp.arange(len(stride))
    noise, best = jax.lax.scan(improve, state.noise, outputs)
    stride = jnp.where(best == 0, 0.5 * stride, 1.5 * stride)
    return noise, jnp.clip(stride, SMALLEST_STRIDE, LARGEST_STRIDE)


def _pick(better: Array, new: Any, old: Any) -> Any:
    """Return the new where better, member by member."""

    def choose(a: Array, b: Array) -> Array:
        return jnp.where(better.reshape(-1, *[1] * (a.ndim - 1)), a, b)

    return jax.tree.map(choose, new, old)
