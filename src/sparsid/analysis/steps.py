"""The members of a model as steps, and draws of their parameters."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sparsid.analysis.canonical_step import CanonicalStep
from sparsid.analysis.network_steps import LeakyStep, NarxStep, Plan
from sparsid.analysis.spread import SHARE
from sparsid.analysis.step import Step, Values
from sparsid.bayes.posterior import square_root
from sparsid.results.base import FittedModel
from sparsid.results.ensemble import Ensemble
from sparsid.results.narx import Fitted
from sparsid.results.simulator import FittedSimulator
from sparsid.results.simulator_member import SimulatorMember


class Waiting(NamedTuple):
    """The members of a model, what the data leave open of each, and dead times.

    Attributes
    ----------
    members, draws
        Members, and models at `SHARE` of the way to draws of the parameters of each.
    delays
        Samples by which each input comes late; not part of the states.
    """

    members: list[Step]
    draws: list[list[Step]]
    delays: tuple[int, ...]


def steps_of(fitted: FittedModel, draws: int, seed: int) -> Waiting:
    """Return the members of a model as steps, with ``draws`` of each."""
    return fitted.steps(draws, seed)


def simulator_steps(fitted: FittedSimulator, draws: int, seed: int) -> Waiting:
    """Return members in the canonical form as steps."""
    members: list[Step] = [CanonicalStep.of(m, m.theta) for m in fitted.members]
    drawn = [_simulator_draws(m, draws, seed, k) for k, m in enumerate(fitted.members)]
    return Waiting(members, drawn, fitted.delays)


def ensemble_steps(fitted: Ensemble, draws: int, seed: int) -> Waiting:
    """Return leaky members as steps."""
    found = [_ensemble_steps(fitted, k, draws, seed) for k in range(len(fitted))]
    delays = (0,) * fitted.channels.n_inputs
    return Waiting([m for m, _ in found], [d for _, d in found], delays)


def narx_steps(fitted: Fitted, draws: int, seed: int) -> Waiting:
    """Return a regression as a step."""
    plan = Plan.of(fitted)
    params = [np.asarray(w, dtype=float) for w in fitted.params]
    posterior = fitted.posterior
    C = posterior.covariance
    C = np.diag(posterior.std**2) if C is None else C
    moved = _drawn(params, C, posterior.prior_std**2, draws, [seed, 0])
    steps: list[Step] = [NarxStep(fitted.network, p, plan) for p in moved]
    return Waiting([NarxStep(fitted.network, params, plan)], [steps], plan.delays)


def _ensemble_steps(
    fitted: Ensemble, k: int, draws: int, seed: int
) -> tuple[Step, list[Step]]:
    model = fitted.model
    params = [np.asarray(w[k], dtype=float) for w in fitted.params]
    prior = np.asarray(fitted.prior_std[k]) ** 2
    moved = _drawn(params, fitted.covariance[k], prior, draws, [seed, k])
    return LeakyStep.of(model, params), [LeakyStep.of(model, p) for p in moved]


# -- draws -----------------------------------------------------------------------------


def informed_root(covariance: Values, prior_variance: Values) -> Values:
    """Return a root of the part of a covariance that comes from the data.

    Along directions that the data leave open a parameter is as wide as its prior; a
    long way along them says nothing about the system. ``C - C V^-1 C`` leaves them out.
    """
    known = prior_variance > 0.0
    root = np.sqrt(np.where(known, prior_variance, 1.0))
    weak = np.where(known, covariance / root, 0.0)
    return square_root(covariance - weak @ weak.T)


def _simulator_draws(
    member: SimulatorMember, count: int, seed: int, k: int
) -> list[Step]:
    if not count:
        return []
    rng = np.random.default_rng([seed, k])
    R = informed_root(member.covariance, member.prior_variance)
    R = SHARE * R[: member.structure.parameters]
    return [
        CanonicalStep.of(member, member.theta + R @ rng.normal(size=R.shape[1]))
        for _ in range(count)
    ]


def _drawn(
    params: list[Values],
    covariance: Values,
    prior_variance: Values,
    count: int,
    seed: list[int],
) -> list[list[Values]]:
    """Return blocks of weights at `SHARE` of the way to draws."""
    if not count:
        return []
    rng = np.random.default_rng(seed)
    R = informed_root(covariance, prior_variance)
    ends = np.cumsum([w.size for w in params])[:-1]
    centre = np.concatenate([w.ravel() for w in params])
    found = []
    for _ in range(count):
        flat = centre + SHARE * (R @ rng.normal(size=len(R)))
        parts = zip(np.split(flat, ends), params, strict=True)
        found.append([part.reshape(w.shape) for part, w in parts])
    return found
