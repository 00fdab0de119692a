"""Members: many starts of one model going downhill together.

Free runs are long chains of small operations, so a batch of starts costs little more
than one. Members may even learn from different samples of the records, which makes
cross-validation one more batch. Every step, update and evaluation is one small compiled
program over all members; each has its own damping and takes only what lowers its cost.
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
# Directions in which the noise is looked for: white, coloured, correlation.
DIRECTIONS = (
    (0, 0, 0),
    *((s, 0, 0) for s in (1, -1)),
    *((0, s, 0) for s in (1, -1)),
    *((0, 0, s) for s in (1, -1)),
    *((s, s, 0) for s in (1, -1)),
    *((0, s, s) for s in (1, -1)),
    *((s, -s, -s) for s in (1, -1)),
)
LARGEST_STRIDE = 2.0
# What members have of their own in the data: which samples they may learn from.
OWN_DATA = Runs(u=None, y=None, measured=0, first=None)


class Descent(NamedTuple):
    """Where the members are, and how each goes on."""

    state: State
    at: Evaluation
    damping: Array
    growth: Array
    stride: Array

    @property
    def cost(self) -> NDArray[np.float64]:
        """The present cost of every member."""
        return np.asarray(self.at.cost)


def begin(problem: Problem, state: State, data: Runs) -> Descent:
    """Return the members at their first state."""
    at = _evaluate(problem, state, data)
    ones = jnp.ones(at.cost.shape)
    return Descent(state, at, START_DAMPING * ones, 2.0 * ones, ones)


def take_step(problem: Problem, d: Descent, data: Runs) -> Descent:
    """Move the weights of the members whose cost falls by it.

    Nielsen's control of the damping, as for a single network, but with one try a call.
    """
    state, promised = _moved(problem, d)
    moved: Descent = _accept(d, state, _evaluate(problem, state, data), promised)
    return moved


def update(problem: Problem, rule: SparseBayes, d: Descent, data: Runs) -> Descent:
    """Update the variances of the members whose cost falls by it."""
    state = _updated(rule, d)
    moved: Descent = _adopt(d, state, _evaluate(problem, state, data))
    return moved


def update_noise(problem: Problem, d: Descent, data: Runs) -> Descent:
    """Look around each member's noise, one stride in every direction."""
    state, stride = _other_noise(problem, d, data)
    moved: Descent = _adopt(d, state, _evaluate(problem, state, data))
    return moved._replace(stride=stride)


# -- compiled ------------------------------------------------------------------------


@partial(jax.jit, static_argnames="problem")
def _evaluate(problem: Problem, state: State, data: Runs) -> Evaluation:
    weights = Weights(1.0, 1.0)
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
def _other_noise(problem: Problem, d: Descent, data: Runs) -> tuple[State, Array]:
    noise, stride = jax.vmap(
        lambda *member: _better_noise(problem.objective, *member),
        in_axes=(0, OWN_DATA, 0),
    )(d.state, data, d.stride)
    return d.state._replace(noise=noise), stride


def _better_noise(
    objective: Objective, state: State, data: Runs, stride: Array
) -> tuple[Noise, Array]:
    """Return the best noise around the present one, and the next stride.

    A search without derivatives: three numbers an output, and the whitening is cheap.
    All outputs move alike.
    """
    assert isinstance(objective, FreeRun)
    signals, scale = objective.signals(state.params, data), scales(state.prior)

    def cost(noise: Noise) -> Array:
        found = objective.whitened(signals, noise, data)
        X = dense(found.derivative, scale)
        L = jnp.linalg.cholesky(X.T @ X + jnp.eye(X.shape[1]))
        log_det = 2.0 * jnp.log(jnp.diagonal(L)).sum()
        return (found.residual**2).sum() + found.volume + log_det

    def moved(direction: Array) -> Noise:
        pairs = zip(state.noise, direction, LOWEST, HIGHEST, strict=True)
        return Noise(*(jnp.clip(c + stride * s, a, b) for c, s, a, b in pairs))

    directions = jnp.array(DIRECTIONS, float)
    costs = jax.lax.map(lambda direction: cost(moved(direction)), directions)
    best = jnp.argmin(jnp.where(jnp.isfinite(costs), costs, jnp.inf))
    grown = jnp.minimum(1.5 * stride, LARGEST_STRIDE)
    return moved(directions[best]), jnp.where(best == 0, 0.5 * stride, grown)


def _pick(better: Array, new: Any, old: Any) -> Any:
    """Return the new where better, member by member."""

    def choose(a: Array, b: Array) -> Array:
        return jnp.where(better.reshape(-1, *[1] * (a.ndim - 1)), a, b)

    return jax.tree.map(choose, new, old)
