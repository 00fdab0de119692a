"""The nonlinear model: neurons beside a linear one that was fitted first.

Neurons begin along a direction that may carry the nonlinearity (an output, an input,
the states, at random) with hardly any effect, so that the first step starts from the
linear model's error. Everything is then refined together by the evidence: a neuron's
effects share a prior variance, and so do the weights from each state and each input.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sparsid.models.canonical import Pole, Sizes, Structure
from sparsid.models.structures.chain import chain
from sparsid.models.structures.linear import linear
from sparsid.simulation.evidence import Prior
from sparsid.simulation.member import Member

Values = NDArray[np.float64]

DIRECTIONS = ("output", "input", "states", "random", "output and input", "free")
NEURONS = 8
# Effect of a neuron at first; spread of the arguments' offsets.
EFFECT, OFFSETS = 1e-3, 1.5
# Weight of states that are added, at first.
SLOW_SOURCE = 0.1
# Poles of states that are added, at first; how close to one they may come.
SLOW_POLES, LARGEST_RADIUS = (0.9, 0.98), 1.0 - 1e-4


@dataclass(frozen=True)
class Variances:
    """Prior variances at first; those of effects and sources are learnt."""

    poles: float = 1.0
    linear: float = 1.0
    effect: float = 0.1
    source: float = 1.0
    offset: float = 4.0
    start: float = 4.0


def directions(
    kind: str,
    states: Values,
    outputs: Values,
    u: Values,
    count: int,
    rng: np.random.Generator,
) -> tuple[Values, Values]:
    """Return F and H of neurons whose arguments have unit variance.

    Parameters
    ----------
    states, outputs, u
        What the linear model goes through, sample by sample; ``u`` with the constant.
    """
    nx, nu = states.shape[1], u.shape[1] - 1
    F, H = np.zeros((count, nx)), np.zeros((count, nu + 1))
    each = count if kind == "free" else 1
    draw_x, draw_u = rng.normal(size=(each, nx)), rng.normal(size=(each, nu))
    through = np.linalg.lstsq(states, outputs - outputs.mean(axis=0), rcond=None)[0].T
    mixed = rng.normal(size=(each, outputs.shape[1])) @ through
    if kind in ("output", "output and input"):
        F[:] = mixed
    if kind in ("input", "output and input"):
        H[:, :nu] = draw_u if nu > 1 or kind != "input" else 1.0
    if kind in ("states", "random", "free"):
        F[:] = draw_x
    if kind in ("random", "free"):
        H[:, :nu] = draw_u
    z = states @ F.T + u @ H.T
    spread = np.maximum(z.std(axis=0), 1e-9)
    slopes = np.exp(rng.uniform(np.log(0.5), np.log(1.5), size=count)) / spread
    F, H = F * slopes[:, None], H * slopes[:, None]
    H[:, nu] = np.linspace(-OFFSETS, OFFSETS, count) - z.mean(axis=0) * slopes
    return F, H


def begun(
    base: Member,
    kind: str,
    rng: np.random.Generator,
    kinds: Sequence[int],
    slow: int = 0,
    variances: Variances = Variances(),
) -> Member:
    """Return a member that starts from a linear one.

    Parameters
    ----------
    kinds
        Activation of every neuron.
    slow
        States that are added to those of the linear model: slow, and reached through
        neurons, as a memory that a force leaves behind.
    """
    old, sizes = base.structure, base.structure.sizes
    n = sizes.states
    more = [Pole("real", n + k, 1.0, LARGEST_RADIUS) for k in range(slow)]
    new = linear(
        Sizes(n + slow, sizes.inputs, len(kinds), sizes.outputs),
        [*old.poles, *more],
        kinds,
    )
    theta = np.zeros(new.parameters)
    theta[: old.leading] = base.theta[: old.leading]
    for k, pole in enumerate(more):
        theta[old.leading + k] = pole.of(np.array([SLOW_POLES[k % len(SLOW_POLES)]]))[0]
    _copied(base, new, theta, "BCD")
    F, H = _directed(base, kind, len(kinds), rng)
    if slow:
        F = np.concatenate([F, SLOW_SOURCE * rng.normal(size=(len(F), slow))], axis=1)
    theta[new.where("F")], theta[new.where("H")] = F.ravel(), H.ravel()
    theta[new.where("E")] = EFFECT * rng.normal(size=new.where("E").size)
    starts = np.concatenate([base.starts, np.zeros((len(base.runs), slow))], axis=1)
    prior = prior_of(new, theta, len(base.runs), variances)
    return Member(new, base.runs, theta, starts, prior, base.noise)


def chained(
    base: Member, kind: str, rng: np.random.Generator, kinds: Sequence[int]
) -> Member:
    """Return a member without feedback: back states have the poles of the linear model.

    What neurons give begins with hardly any effect, on its way through those poles.
    """
    old, sizes = base.structure, base.structure.sizes
    n = sizes.states
    behind = [replace(pole, state=n + pole.state) for pole in old.poles]
    new = chain(
        Sizes(2 * n, sizes.inputs, len(kinds), sizes.outputs),
        [*old.poles, *behind],
        n,
        kinds,
    )
    theta = np.zeros(new.parameters)
    theta[: new.leading] = np.tile(base.theta[: old.leading], 2)
    _copied(base, new, theta, "BD")
    C = old.named(base.theta)["C"]
    theta[new.where("C")] = np.concatenate([C, C], axis=1).ravel()
    F, H = _directed(base, kind, len(kinds), rng)
    theta[new.where("F")], theta[new.where("H")] = F.ravel(), H.ravel()
    theta[new.where("E")] = EFFECT * rng.normal(size=new.where("E").size)
    starts = np.concatenate([base.starts, np.zeros_like(base.starts)], axis=1)
    prior = prior_of(new, theta, len(base.runs), Variances())
    return Member(new, base.runs, theta, starts, prior, base.noise)


def _copied(base: Member, new: Structure, theta: Values, names: str) -> None:
    """Take entries of matrices over from a linear model; those it lacks stay zero."""
    where = {entry: k for k, entry in enumerate(new.free)}
    for k, entry in enumerate(base.structure.free):
        if entry[0] in names:
            theta[new.leading + where[entry]] = base.theta[base.structure.leading + k]


def _directed(
    base: Member, kind: str, count: int, rng: np.random.Generator
) -> tuple[Values, Values]:
    """Return F and H along a direction of what a linear model goes through."""
    structure = base.structure
    passed = [
        structure.run(base.theta, x, run.u)
        for x, run in zip(base.starts, base.runs, strict=True)
    ]
    states = np.concatenate([x[:-1] for _, x in passed])
    outputs = np.concatenate([y for y, _ in passed])
    u = np.concatenate([run.u for run in base.runs])
    return directions(kind, states, outputs, u, count, rng)


def prior_of(
    structure: Structure, theta: Values, runs: int, variances: Variances
) -> Prior:
    """Return the prior: around the linear model, and around no neuron."""
    sizes = structure.sizes
    count = structure.parameters + runs * sizes.states
    mean, variance = np.zeros(count), np.ones(count)
    groups = np.full(count, -1, dtype=np.int64)
    variance[: structure.leading] = variances.poles
    mean[: structure.leading] = theta[: structure.leading]
    variance[structure.parameters :] = variances.start
    for k, (matrix, _, j) in enumerate(structure.free):
        p = structure.leading + k
        if matrix in "ABCD":
            mean[p], variance[p] = theta[p], variances.linear
        elif matrix in "EG":
            groups[p], variance[p] = j, variances.effect
        elif matrix == "F":
            groups[p], variance[p] = sizes.neurons + j, variances.source
        elif j < sizes.inputs:
            groups[p] = sizes.neurons + sizes.states + j
            variance[p] = variances.source
        else:
            variance[p] = variances.offset
    return Prior(mean, variance, groups)


def column_groups(structure: Structure) -> NDArray[np.int64]:
    """Return groups of what each neuron does, and each state and input to neurons."""
    theta = np.zeros(structure.parameters)
    found = prior_of(structure, theta, 0, Variances()).groups
    return np.asarray(found)
