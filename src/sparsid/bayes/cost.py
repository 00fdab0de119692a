"""The cost of a fit, which is -2 log evidence for sparse Bayes, and its gradient.

For residuals ``r``, prior variances ``V`` and noise ``sigma2``::

    L = ||r||^2/sigma2 + N log(2 pi sigma2)
        + penalty * sum w^2/upsilon + volume * log|I + J V J'/sigma2| + offset

With ``penalty = volume = 1`` this is ``-2 log evidence`` of the linearised model at
the fitted ``w``, since ``log|S| = N log sigma2 + log|I + J V J'/sigma2|``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from sparsid.arrays import Array
from sparsid.bayes.curvature import Curvature, block_rows
from sparsid.bayes.curvature.pieces import Dense, Derivative, Factorised, scales
from sparsid.bayes.objective import Objective, Regression
from sparsid.bayes.prior import Prior, Sums, energy, safe_divide
from sparsid.bayes.variance_rules import Rule
from sparsid.models.network import Factors, Params

# Most effective weights of an output, as a share of its samples.
MOST_EFFECTIVE = 0.99


@dataclass(frozen=True)
class Problem:
    """What a compiled program is specialised to: structure and form, no data."""

    objective: Objective
    curvature: Curvature


class State(NamedTuple):
    """Everything that is learnt: weights, prior variances, noise."""

    params: Params
    prior: Prior
    noise: Any


class CostTerms(NamedTuple):
    """How much the cost counts energy and volume."""

    penalty: float
    volume: float


class Evaluation(NamedTuple):
    """The cost at a state, and what a step or an update from there needs.

    ``gradient`` is half the cost's gradient in whitened weights; ``log_det``, ``gamma``
    and ``gamma_outputs`` (effective weights per group and per output) and the
    gradient's evidence part are there if the evaluation was full. There is no
    ``derivative`` where rows went through some at a time, or of many members; of these
    there are ``signals``, residuals and derivatives before they were whitened.
    """

    cost: Array
    squares: Array
    energy: Array
    log_det: Array
    gradient: Params
    system: Any
    derivative: Derivative | None
    gamma: tuple[Sums, ...] | None
    gamma_outputs: Array | None
    signals: Array | None = None


@partial(jax.jit, static_argnames=("problem", "full"))
def evaluate(
    problem: Problem,
    state: State,
    metric: Prior,
    data: Any,
    weights: CostTerms,
    offset: Array | float,
    full: bool,
) -> Evaluation:
    """Return the cost at ``state``, its gradient and the factorised curvature.

    Parameters
    ----------
    metric
        The prior whose deviations whiten the weights: the state's own, or one with
        smaller variances, which bounds the penalty from above.
    full
        Count the log-determinant and differentiate it: effective weights for the
        updates, and its gradient added to the gradient of the fit.
    """
    at = (_blockwise if problem.curvature.blockwise else _at_once)(
        problem, state, metric, data, weights, full
    )
    return _evaluation(state, metric, at, weights, offset)


def evaluate_members(
    problem: Problem, state: State, data: Any, volume: Array | float
) -> Evaluation:
    """Return the same for many members of a model, along a first axis of everything.

    Parameters
    ----------
    volume
        How much the cost counts the log-determinant.
    """
    weights = CostTerms(1.0, volume)
    fit = _at_once(problem, state, state.prior, data, weights, True, jax.vmap)
    found: Evaluation = jax.vmap(
        lambda state, fit: _evaluation(state, state.prior, fit, weights, 0.0)
    )(state, fit._replace(derivative=None, signals=None))
    return found._replace(signals=fit.signals)


def _evaluation(
    state: State, metric: Prior, at: _Fit, weights: CostTerms, offset: Array | float
) -> Evaluation:
    total_energy = sum(
        (e.sum() for e in energy(state.prior, state.params)), jnp.zeros(())
    )
    cost = (
        at.squares.sum()
        + at.noise_volume
        + weights.penalty * total_energy
        + weights.volume * at.log_det
        + offset
    )
    gradient = tuple(
        s * (g + weights.penalty * safe_divide(w, p.variances(), 0.0))
        for s, g, w, p in zip(
            scales(metric), at.slope, state.params, state.prior, strict=True
        )
    )
    return Evaluation(
        cost,
        at.squares,
        total_energy,
        at.log_det,
        gradient,
        at.system,
        at.derivative,
        at.gamma,
        at.gamma_outputs,
    )


class _Fit(NamedTuple):
    """What the data say: ``slope`` is half the gradient of squares and volume."""

    squares: Array
    noise_volume: Array
    slope: Params
    log_det: Array
    system: Any
    derivative: Derivative | None
    gamma: tuple[Sums, ...] | None
    gamma_outputs: Array | None
    signals: Array | None = None


def _at_once(
    problem: Problem,
    state: State,
    metric: Prior,
    data: Any,
    weights: CostTerms,
    full: bool,
    each: Callable[..., Any] = lambda function: function,
) -> _Fit:
    """Return what all rows say; ``each`` makes functions of one those of many."""
    curvature = problem.curvature

    def linearise(params: Params) -> tuple[tuple[Array, Derivative], Any]:
        found = problem.objective.linearise(params, state.noise, data, curvature.exact)
        return (found.residual, found.derivative), (found.volume, found.signals)

    (residual, derivative), pullback, (volume, signals) = jax.vjp(
        linearise, state.params, has_aux=True
    )
    factorised = each(partial(curvature.factorise, full=full))(derivative, metric)
    cotangent = factorised.cotangent or jax.tree.map(jnp.zeros_like, derivative)
    cotangent = jax.tree.map(lambda c: weights.volume * c, cotangent)
    (slope,) = pullback((residual, cotangent))
    return _Fit(
        each(lambda r: (r**2).sum(0))(residual),
        volume,
        slope,
        factorised.log_det,
        factorised.system,
        derivative,
        factorised.gamma,
        each(
            partial(_gamma_outputs, outputs=residual.shape[-1], exact=curvature.exact)
        )(derivative, factorised),
        signals,
    )


def _blockwise(
    problem: Problem,
    state: State,
    metric: Prior,
    data: Regression,
    weights: CostTerms,
    full: bool,
) -> _Fit:
    """Return the same from rows that come some at a time, twice.

    First their products are summed up; then, with the inverse known, their gradients.
    """
    curvature, params = problem.curvature, state.params
    rows = max(1, block_rows([w.shape for w in params]) // data.y.shape[1])

    def linearise(params: Params, block: tuple[Regression, Array]) -> Any:
        part, here = block
        found = problem.objective.linearise(params, state.noise, part, False)
        derivative = found.derivative
        assert isinstance(derivative, Factors)
        left = tuple(a * here[:, None] for a in derivative.left)
        right = tuple(d * here[:, None, None] for d in derivative.right)
        return found.residual * here[:, None], Factors(left, right)

    def products(block: Any) -> Any:
        return curvature.products(linearise(params, block)[1], metric)

    def add_products(sums: Any, block: Any) -> Any:
        return jax.tree.map(jnp.add, sums, products(block)), None

    def gradients(sums: Any, block: Any) -> Any:
        (residual, derivative), pullback = jax.vjp(
            lambda params: linearise(params, block), params
        )
        if full:
            cotangent = curvature.cotangent(inverses, derivative, metric)
        else:
            cotangent = jax.tree.map(jnp.zeros_like, derivative)
        paid = _paid_for(derivative, cotangent)
        cotangent = jax.tree.map(lambda c: weights.volume * c, cotangent)
        (slope,) = pullback((residual, cotangent))
        found = ((residual**2).sum(0), slope, paid)
        return jax.tree.map(jnp.add, sums, found), None

    blocks = _cut(data, rows)
    first = jax.tree.map(lambda rows: rows[0], blocks)
    shapes = jax.eval_shape(products, first)
    nothing = jax.tree.map(lambda like: jnp.zeros(like.shape, like.dtype), shapes)
    sums, _ = jax.lax.scan(add_products, nothing, blocks)
    systems = curvature.finish(sums, len(data.y))
    log_det, inverses, gamma = curvature.evidence_of(systems, metric)
    outputs = jnp.zeros(data.y.shape[1])
    start = (outputs, jax.tree.map(jnp.zeros_like, params), outputs)
    (squares, slope, paid), _ = jax.lax.scan(gradients, start, blocks)
    # Weights taken on their own may seem to be more than the samples pay for.
    paid = jnp.minimum(paid, MOST_EFFECTIVE * len(data.y))
    volume = len(data.y) * jnp.log(2 * jnp.pi * state.noise).sum()
    if not full:
        return _Fit(squares, volume, slope, jnp.zeros(()), systems, None, None, None)
    return _Fit(squares, volume, slope, log_det, systems, None, gamma, paid)


def _cut(data: Regression, rows: int) -> tuple[Regression, Array]:
    """Return blocks of rows along a first axis, and where there is a row."""
    count = -(-len(data.y) // rows)
    missing = count * rows - len(data.y)

    def cut(a: Array) -> Array:
        padded = jnp.pad(a, ((0, missing), *((0, 0),) * (a.ndim - 1)))
        return padded.reshape(count, rows, *a.shape[1:])

    return jax.tree.map(cut, data), cut(jnp.ones(len(data.y)))


def _gamma_outputs(
    derivative: Derivative, factorised: Factorised, outputs: int, exact: bool
) -> Array | None:
    """Return the effective weights that each output's samples pay for."""
    cotangent, gamma = factorised.cotangent, factorised.gamma
    if cotangent is None or gamma is None:
        return None
    if outputs == 1 or exact or isinstance(derivative, Dense):
        total = sum((g.rows.sum() for g in gamma), jnp.zeros(()))
        return jnp.full(outputs, total / outputs)
    return _paid_for(derivative, cotangent)


def _paid_for(derivative: Derivative, cotangent: Derivative) -> Array:
    """Return the effective weights by output, from the factors of its samples."""
    assert isinstance(derivative, Factors)
    assert isinstance(cotangent, Factors)
    return sum(
        (
            (right * cot).sum((0, 2))
            for right, cot in zip(derivative.right, cotangent.right, strict=True)
        ),
        jnp.zeros(()),
    )


@partial(jax.jit, static_argnames="problem")
def step(
    problem: Problem,
    params: Params,
    metric: Prior,
    at: Evaluation,
    penalty: Array | float,
    damping: Array | float,
) -> tuple[Params, Array]:
    """Return the weights after one damped Gauss-Newton step, and the gain it promises.

    Levenberg-Marquardt in whitened weights, ``(B + (penalty + damping) I) d = -g``:
    damping acts in the prior's own metric, no ``1/upsilon`` appears, and a removed
    weight stays at zero. The promise is half the predicted fall of the cost.
    """
    t = penalty + damping
    d = problem.curvature.solve(at.system, at.derivative, metric, at.gradient, t)
    moved = tuple(w + s * x for w, s, x in zip(params, scales(metric), d, strict=True))
    along = sum((g * x).sum() for g, x in zip(at.gradient, d, strict=True))
    length = sum((x**2).sum() for x in d)
    return moved, 0.5 * (damping * length - along)


def log_evidence(rule: Rule, at: Evaluation, noise: Array, rows: int) -> float:
    """Return the log evidence of the linearised model; NaN for rules without one."""
    if rule.volume == 0.0:
        return float("nan")
    squares = float(np.sum(at.squares))
    constant = rows * float(np.log(2 * np.pi * np.asarray(noise)).sum())
    return -0.5 * (squares + constant + float(at.energy) + float(at.log_det))
