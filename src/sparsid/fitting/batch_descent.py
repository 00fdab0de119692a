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
from sparsid.bayes.cost import Evaluation, Problem, State, evaluate_members, step
from sparsid.bayes.curvature.pieces import Dense, flatten, scales
from sparsid.bayes.noise import Noise
from sparsid.bayes.objective import FreeRun
from sparsid.bayes.prior import Prior, energy, safe_divide
from sparsid.bayes.variance_rules import SparseBayes
from sparsid.data.runs import Runs
from sparsid.fitting.course import LARGEST_DAMPING, SMALLEST_DAMPING, eased

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
# Leaps far from the present noise, as many as there are directions: one part of it may
# have vanished.
LEAPS = (
    (0, 0, 0),
    *((white, 0, 0) for white in (-3, 3, 6, 9)),
    *((0, innovation, 0) for innovation in (-3, 3)),
    *((0, 0, phi) for phi in (-4, -2, 2)),
    (6, -1, 0),
    (6, -1, -2),
    (9, -1, -2),
)
SMALLEST_STRIDE, LARGEST_STRIDE = 0.1, 2.0
Directions = tuple[tuple[int, ...], ...]


class Members(NamedTuple):
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


def begin(problem: Problem, state: State, data: Runs, volume: float) -> Members:
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
    return Members(state, at, START_DAMPING * ones, 2.0 * ones, strides, counted)


def count_volume(
    problem: Problem, d: Members, data: Runs, volume: Array | float
) -> Members:
    """Return the members with another cost, where they are."""
    counted = jnp.asarray(volume, float)
    return d._replace(at=_evaluate(problem, d.state, data, counted), volume=counted)


def take_step(problem: Problem, d: Members, data: Runs) -> Members:
    """Move the weights of the members whose cost falls by it.

    Nielsen's control of the damping, as for a single network, but with one try a call.
    """
    state, promised = _moved(problem, d)
    moved: Members = _accept(
        d, state, _evaluate(problem, state, data, d.volume), promised
    )
    return moved


def update(
    problem: Problem,
    rule: SparseBayes,
    d: Members,
    data: Runs,
    directions: Directions | None = None,
) -> Members:
    """Update the variances of the members whose cost falls by it.

    Parameters
    ----------
    directions
        Look around each member's noise, too, one stride in each of these; None: not.
    """
    return _changed(problem, d, _updated(rule, d), data, directions)


def update_noise(
    problem: Problem, d: Members, data: Runs, directions: Directions = DIRECTIONS
) -> Members:
    """Look around each member's noise, one stride in every direction."""
    return _changed(problem, d, d.state, data, directions)


def _changed(
    problem: Problem,
    d: Members,
    state: State,
    data: Runs,
    directions: Directions | None,
) -> Members:
    """Return the members with other variances, and noise if asked for."""
    stride = d.stride
    if directions is not None:
        ways = jnp.array(directions, float)
        state, stride = _other_noise(problem, d, state, data, ways)
    moved: Members = _adopt(d, state, _evaluate(problem, state, data, d.volume))
    return moved._replace(stride=stride)


# -- compiled ------------------------------------------------------------------------


@partial(jax.jit, static_argnames="problem")
def _evaluate(problem: Problem, state: State, data: Runs, volume: Array) -> Evaluation:
    return evaluate_members(problem, state, data, volume)


@partial(jax.jit, static_argnames="problem")
def _moved(problem: Problem, d: Members) -> tuple[State, Array]:
    params, promised = jax.vmap(
        lambda state, at, damping: step(
            problem, state.params, state.prior, at, 1.0, damping
        )
    )(d.state, d.at._replace(signals=None), d.damping)
    return d.state._replace(params=params), promised


@jax.jit
def _accept(d: Members, state: State, at: Evaluation, promised: Array) -> Members:
    fall = d.at.cost - at.cost
    better = jnp.isfinite(at.cost) & (fall > 0)
    gain = jnp.minimum(fall / jnp.maximum(2.0 * promised, 1e-300), 1.0)
    smaller = eased(d.damping, gain, jnp.maximum)
    damping = jnp.where(better, smaller, d.damping * d.growth)
    return Members(
        _pick(better, state, d.state),
        _pick_evaluation(better, at, d.at),
        jnp.clip(damping, SMALLEST_DAMPING, LARGEST_DAMPING),
        jnp.where(better, 2.0, 2.0 * d.growth),
        d.stride,
        d.volume,
    )


@jax.jit
def _adopt(d: Members, state: State, at: Evaluation) -> Members:
    better = jnp.isfinite(at.cost) & (at.cost <= d.at.cost)
    state = _pick(better, state, d.state)
    return d._replace(state=state, at=_pick_evaluation(better, at, d.at))


@partial(jax.jit, static_argnames="rule")
def _updated(rule: SparseBayes, d: Members) -> State:
    """Return the members with new variances where the cost falls by it.

    Weights and noise stay, so the curvature only gets other scales.
    """

    def one(state: State, at: Evaluation) -> tuple[Prior, Array]:
        prior = rule.update(state.prior, state.params, at.gamma, 1)
        before, after = (flatten(scales(p)) for p in (state.prior, prior))
        change = safe_divide(after, before, 0.0)
        log_det = _log_det(change[:, None] * at.system * change)
        paid = sum(e.sum() for e in energy(prior, state.params))
        return prior, at.energy - paid + d.volume * (at.log_det - log_det)

    prior, fall = jax.vmap(one)(d.state, d.at._replace(signals=None))
    return d.state._replace(prior=_pick(fall >= 0, prior, d.state.prior))


@partial(jax.jit, static_argnames="problem")
def _other_noise(
    problem: Problem, d: Members, state: State, data: Runs, directions: Array
) -> tuple[State, Array]:
    """Return the members with the best noise around theirs, and the next strides.

    A search without derivatives, output after output: three numbers each, and the
    whitening is cheap.
    """
    objective, signals, stride = problem.objective, d.at.signals, d.stride
    assert isinstance(objective, FreeRun)
    scale = jax.vmap(lambda prior: flatten(scales(prior)))(state.prior)

    def cost(noise: Noise) -> Array:
        found = objective.whitened(signals, noise, data)
        assert isinstance(found.derivative, Dense)
        B = jnp.einsum("mnp,mnq->mpq", found.derivative.J, found.derivative.J)
        log_det = jax.vmap(_log_det)(scale[:, :, None] * B * scale[:, None])
        return (found.residual**2).sum((1, 2)) + found.volume + d.volume * log_det

    def moved(noise: Noise, k: Array, ways: Array) -> Noise:
        pairs = zip(noise, jnp.moveaxis(ways, -1, 0), LOWEST, HIGHEST, strict=True)
        return Noise(
            *(
                c.at[:, k].set(jnp.clip(c[:, k] + stride[:, k] * way, low, high))
                for c, way, low, high in pairs
            )
        )

    def improve(noise: Noise, k: Array) -> tuple[Noise, Array]:
        costs = jax.lax.map(lambda way: cost(moved(noise, k, way)), directions)
        best = jnp.argmin(jnp.where(jnp.isfinite(costs), costs, jnp.inf), axis=0)
        return moved(noise, k, directions[best]), best

    noise, best = jax.lax.scan(improve, state.noise, jnp.arange(stride.shape[1]))
    stride = jnp.where(best.T == 0, 0.5 * stride, 1.5 * stride)
    stride = jnp.clip(stride, SMALLEST_STRIDE, LARGEST_STRIDE)
    return state._replace(noise=noise), stride


def _log_det(B: Array) -> Array:
    """Return ``log|I + B|``."""
    L = jnp.linalg.cholesky(B + jnp.eye(len(B)))
    return 2.0 * jnp.log(jnp.diagonal(L)).sum()


def _pick_evaluation(better: Array, new: Evaluation, old: Evaluation) -> Evaluation:
    """Return the new where better; of signals members are the last axis."""
    assert new.signals is not None
    assert old.signals is not None
    lanes = jnp.repeat(better, new.signals.shape[-1] // len(better))
    signals = jnp.where(lanes, new.signals, old.signals)
    bare = (at._replace(signals=None) for at in (new, old))
    picked: Evaluation = _pick(better, *bare)
    return picked._replace(signals=signals)


def _pick(better: Array, new: Any, old: Any) -> Any:
    """Return the new where better, member by member."""

    def choose(a: Array, b: Array) -> Array:
        return jnp.where(better.reshape(-1, *[1] * (a.ndim - 1)), a, b)

    return jax.tree.map(choose, new, old)
