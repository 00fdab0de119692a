"""Descent of the cost at fixed structure: guarded steps and hyper-parameter updates."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial

import jax
import jax.numpy as jnp
import numpy as np

from sparsid.arrays import PLAINLY, Array
from sparsid.bayes.cost import (
    CostTerms,
    Evaluation,
    Problem,
    State,
    evaluate,
    step,
)
from sparsid.bayes.curvature import Curvature
from sparsid.bayes.objective import OneStep, Regression
from sparsid.bayes.prior import Prior, product_bound
from sparsid.bayes.variance_rules import Rule
from sparsid.fitting.course import LARGEST_DAMPING, SMALLEST_DAMPING, eased
from sparsid.models.network import Network

# Standardised outputs: below this the noise variance is round-off, not noise.
SMALLEST_NOISE = 1e-10
START_DAMPING = 1.0
# A promised fall below this share of the cost cannot be told from rounding.
ROUND_OFF = 1e-13


class Descent:
    """A state going downhill: every method leaves the cost lower, or as it was.

    Nothing is computed, nor is a form of the curvature chosen, before it is needed: a
    wide network on all rows may be on its way to be folded only.

    Parameters
    ----------
    curvature
        Chooses the curvature for this network and data.
    evidence_steps
        Count the log-determinant in the steps' gradient and guard. Without it a step
        minimises data misfit and penalty alone, as in the paper.
    fixed_noise
        Keep the noise variance as it is.
    """

    def __init__(
        self,
        network: Network,
        curvature: Callable[[], Curvature],
        data: Regression,
        rule: Rule,
        state: State,
        *,
        evidence_steps: bool = True,
        fixed_noise: bool = False,
        damping: float = START_DAMPING,
    ) -> None:
        self.network, self._curvature = network, curvature
        self.data, self.rule = data, rule
        self.evidence_steps, self.fixed_noise = evidence_steps, fixed_noise
        self.damping, self._growth = damping, 2.0
        self.state = state
        self._at: Evaluation | None = None

    @cached_property
    def problem(self) -> Problem:
        """Structure and form that programs are compiled for."""
        return Problem(OneStep(self.network), self._curvature())

    @property
    def evaluated(self) -> bool:
        """Whether the present state has been evaluated."""
        return self._at is not None

    @property
    def at(self) -> Evaluation:
        """The evaluation at the present state."""
        if self._at is None:
            self._at = self.evaluate(self.state)
        return self._at

    @property
    def cost(self) -> float:
        """The present cost."""
        return float(self.at.cost)

    @property
    def weights(self) -> CostTerms:
        """What the steps count."""
        volume = self.rule.volume if self.evidence_steps else 0.0
        return CostTerms(self.rule.penalty, volume)

    @property
    def full(self) -> bool:
        """Whether evaluations count and differentiate the log-determinant."""
        return self.rule.volume > 0.0

    def metric(self, prior: Prior) -> Prior:
        """Return the prior that whitens: its product bound if the form needs one."""
        factored = {"gram", "kronecker"} & set(self.problem.curvature.forms)
        return product_bound(prior) if factored else prior

    def evaluate(self, state: State) -> Evaluation:
        """Return the evaluation at a state."""
        offset = self.rule.offset(state.prior, len(self.data.y))
        at: Evaluation = evaluate(
            self.problem,
            state,
            self.metric(state.prior),
            self.data,
            self.weights,
            offset,
            full=self.full,
        )
        return at

    def step(self, tries: int = 6) -> float:
        """Move the weights; return how much the cost fell (zero: no step found).

        Nielsen's control of the damping by the ratio of the actual to the promised
        gain. A step is taken only if the cost it is judged by falls.
        """
        for _ in range(tries):
            params, promised = step(
                self.problem,
                self.state.params,
                self.metric(self.state.prior),
                self.at,
                self.rule.penalty,
                self.damping,
            )
            if not 2.0 * float(promised) > ROUND_OFF * abs(self.cost):
                return 0.0
            state = self.state._replace(params=params)
            at = self.evaluate(state)
            fall = self.cost - float(at.cost)
            if np.isfinite(fall) and fall > 0.0:
                gain = min(fall / max(2.0 * float(promised), 1e-300), 1.0)
                self.damping = max(eased(self.damping, gain, max), SMALLEST_DAMPING)
                self._growth = 2.0
                self.state, self._at = state, at
                return fall
            self.damping = min(self.damping * self._growth, LARGEST_DAMPING)
            self._growth *= 2.0
        return 0.0

    def update(self) -> float:
        """Update variances and noise; return how much the cost fell."""
        learn_noise = self.rule.learns_noise and not self.fixed_noise
        state = _updated(self.rule, learn_noise, self.state, self.at, len(self.data.y))
        at = self.evaluate(state)
        fall = self.cost - float(at.cost)
        if self.evidence_steps and not fall > -1e-9 * abs(self.cost):
            return 0.0
        self.state, self._at = state, at
        return fall


@partial(jax.jit, static_argnames=("rule", "learn_noise"), compiler_options=PLAINLY)
def _updated(
    rule: Rule, learn_noise: bool, state: State, at: Evaluation, rows: Array | int
) -> State:
    """Return the state with new variances and noise.

    ``sigma2 <- sigma2 ((SSE / sigma2) / (N - gamma))^1/2`` per output.
    """
    prior = rule.update(state.prior, state.params, at.gamma, rows)
    if not learn_noise:
        return state._replace(prior=prior)
    effective = 0.0 if at.gamma_outputs is None else at.gamma_outputs
    left = jnp.maximum(rows - rule.volume * effective, 1.0)
    noise = state.noise * jnp.sqrt(at.squares / left)
    return State(state.params, prior, jnp.maximum(noise, SMALLEST_NOISE))
