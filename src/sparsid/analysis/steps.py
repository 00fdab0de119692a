"""Members of a model as maps from sample to sample, with derivatives, scaled units.

    x(t+1) = f(x(t), v(t)),   y(t) = g(x(t), v(t))

``v`` are scaled inputs that have waited for their dead time. All is NumPy: nothing is
compiled for a model.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparsid.bayes.posterior import square_root
from sparsid.errors import InputError
from sparsid.kernel import runs
from sparsid.kernel.activations import activate
from sparsid.kernel.runs import MATRICES
from sparsid.models.canonical import Structure
from sparsid.models.network import Network
from sparsid.models.state_space import TYPICAL_LEAK, StateNetwork
from sparsid.results.base import FittedModel
from sparsid.results.ensemble import Ensemble
from sparsid.results.narx import Fitted
from sparsid.results.simulator import FittedSimulator, SimulatorMember

Values = NDArray[np.float64]
Derivatives = tuple[Values, Values, Values, Values]


class Step(ABC):
    """One member, from sample to sample."""

    @abstractmethod
    def rest(self) -> Values:
        """Return a state to search from: the middle of what was learnt from."""

    @abstractmethod
    def advance(self, x: Values, v: Values) -> Values:
        """Return the next state."""

    @abstractmethod
    def emit(self, x: Values, v: Values) -> Values:
        """Return the outputs."""

    @abstractmethod
    def derivatives(self, x: Values, v: Values) -> Derivatives:
        """Return A, B, C, D: of the next state and of the outputs."""

    def is_held(self, x: Values, v: Values) -> bool:
        """Return whether a state or an output is at a bound, where it does not move."""
        del x, v
        return False

    def run(self, x: Values, v: Values, samples: int) -> Values:
        """Return the state after so many samples with the inputs held."""
        for _ in range(samples):
            x = self.advance(x, v)
        return x


class Waiting(NamedTuple):
    """The members of a model, what the data leave open of each, and dead times.

    Attributes
    ----------
    members, draws
        Members, and draws of the parameters of each.
    delays
        Samples by which each input comes late; not part of the states.
    """

    members: list[Step]
    draws: list[list[Step]]
    delays: tuple[int, ...]


def steps_of(fitted: FittedModel, draws: int, seed: int) -> Waiting:
    """Return the members of a model as steps, with ``draws`` of each."""
    if isinstance(fitted, FittedSimulator):
        members: list[Step] = [CanonicalStep.of(m, m.theta) for m in fitted.members]
        drawn = [
            _simulator_draws(m, draws, seed, k) for k, m in enumerate(fitted.members)
        ]
        return Waiting(members, drawn, fitted.delays)
    if isinstance(fitted, Ensemble):
        found = [_ensemble_steps(fitted, k, draws, seed) for k in range(len(fitted))]
        delays = (0,) * fitted.channels.n_inputs
        return Waiting([m for m, _ in found], [d for _, d in found], delays)
    if isinstance(fitted, Fitted):
        plan = _Plan.of(fitted)
        params = [np.asarray(w, dtype=float) for w in fitted.params]
        posterior = fitted.posterior
        C = posterior.covariance
        C = np.diag(posterior.std**2) if C is None else C
        moved = _drawn(params, C, posterior.prior_std**2, draws, [seed, 0])
        steps: list[Step] = [NarxStep(fitted.network, p, plan) for p in moved]
        return Waiting([NarxStep(fitted.network, params, plan)], [steps], plan.delays)
    raise InputError(
        f"a {type(fitted).__name__} has no states to linearise: give a Simulator, a "
        "StateSpace or a NARX model"
    )


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
    R = R[: member.structure.parameters]
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
    """Return draws of blocks of weights."""
    if not count:
        return []
    rng = np.random.default_rng(seed)
    R = informed_root(covariance, prior_variance)
    ends = np.cumsum([w.size for w in params])[:-1]
    centre = np.concatenate([w.ravel() for w in params])
    found = []
    for _ in range(count):
        flat = centre + R @ rng.normal(size=len(R))
        parts = zip(np.split(flat, ends), params, strict=True)
        found.append([part.reshape(w.shape) for part, w in parts])
    return found


# -- the canonical form ----------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class CanonicalStep(Step):
    """``x+ = hold(A x + B u + E n)``, ``y = hold(C x + D u + G n)``."""

    structure: Structure
    matrices: dict[str, Values]
    middle: Values

    @staticmethod
    def of(member: SimulatorMember, theta: Values) -> CanonicalStep:
        """Return a member with these parameters."""
        structure = member.structure
        return CanonicalStep(structure, structure.named(theta), member.state_mean)

    def rest(self) -> Values:
        """Return the mean state over the records."""
        return self.middle

    def is_held(self, x: Values, v: Values) -> bool:
        """Return whether a state or an output is at a bound, where it does not move."""
        return not self._moves(x, v)[0].all()

    def _moves(self, x: Values, v: Values) -> tuple[NDArray[np.bool_], Values]:
        """Return which states and outputs are not held, and slopes of neurons."""
        _, held, s = self._both(x, v)
        low, high = self.structure.bounds
        return (held > low) & (held < high), s

    def _neurons(self, x: Values, u: Values) -> tuple[Values, Values]:
        z = self.matrices["F"] @ x + self.matrices["H"] @ u
        structure = self.structure
        found = [
            activate(int(kind), float(at), float(limit))[:2]
            for kind, at, limit in zip(
                structure.kinds, z, structure.limits, strict=True
            )
        ]
        n, s = np.array(found).reshape(-1, 2).T
        return n, s

    def _both(self, x: Values, v: Values) -> tuple[Values, Values, Values]:
        """Return next states, then outputs, what they are held to, and slopes."""
        M, u = self.matrices, np.append(v, 1.0)
        n, s = self._neurons(x, u)
        free = np.concatenate(
            [M[a] @ x + M[b] @ u + M[e] @ n for a, b, e in ("ABE", "CDG")]
        )
        return free, np.clip(free, *self.structure.bounds), s

    def advance(self, x: Values, v: Values) -> Values:
        """Return the next state."""
        return self._both(x, v)[1][: len(x)]

    def emit(self, x: Values, v: Values) -> Values:
        """Return the outputs."""
        return self._both(x, v)[1][len(x) :]

    def derivatives(self, x: Values, v: Values) -> Derivatives:
        """Return ``A + E s F`` and so on; zero where a value is held."""
        M = self.matrices
        free, s = self._moves(x, v)
        moves = free[:, None].astype(float)
        found = []
        for (a, b, e), m in zip(
            ("ABE", "CDG"), (moves[: len(x)], moves[len(x) :]), strict=True
        ):
            inner = M[e] * s
            found += [m * (M[a] + inner @ M["F"]), m * (M[b] + inner @ M["H"])[:, :-1]]
        A, B, C, D = found
        return A, B, C, D

    def run(self, x: Values, v: Values, samples: int) -> Values:
        """Return the state after so many samples with the inputs held."""
        structure = self.structure
        u = np.ascontiguousarray(np.tile(np.append(v, 1.0), (samples, 1)))
        y = np.empty((samples, structure.sizes.outputs))
        states = np.empty((samples + 1, structure.sizes.states))
        runs.run(
            tuple(self.matrices[name] for name in MATRICES),
            structure.kinds,
            structure.limits,
            structure.bounds,
            np.array(x),
            u,
            y,
            states,
        )
        return states[-1]


# -- networks of lagged samples --------------------------------------------------------


class _Plan(NamedTuple):
    """How the states of a NARX model are past inputs and outputs.

    ``z = from_x x + from_v v`` are the regressors, ``x+ = shift x + enter v + back y``.
    """

    delays: tuple[int, ...]
    from_x: Values
    from_v: Values
    shift: Values
    enter: Values
    back: Values

    @staticmethod
    def of(fitted: Fitted) -> _Plan:
        """Return the plan for the regressors that are left."""
        inputs, outputs = fitted.channels.n_inputs, fitted.channels.n_outputs
        lags: dict[tuple[str, int], list[int]] = {}
        for r in fitted.regressors:
            lags.setdefault((r.signal, r.channel), []).append(r.lag)
        delays = tuple(min(lags.get(("u", k), [0])) for k in range(inputs))
        # Where the latest past sample of each signal is, and how many there are.
        first: dict[tuple[str, int], int] = {}
        chains, size = [], 0
        for signal, channel in sorted(lags):
            base = delays[channel] if signal == "u" else 0
            depth = max(lags[signal, channel]) - base
            first[signal, channel] = size
            chains.append((signal, channel, size, depth))
            size += depth
        from_x = np.zeros((len(fitted.regressors), size))
        from_v = np.zeros((len(fitted.regressors), inputs))
        for row, r in enumerate(fitted.regressors):
            late = r.lag - (delays[r.channel] if r.signal == "u" else 0)
            if late:
                from_x[row, first[r.signal, r.channel] + late - 1] = 1.0
            else:
                from_v[row, r.channel] = 1.0
        shift, enter = np.zeros((size, size)), np.zeros((size, inputs))
        back = np.zeros((size, outputs))
        for signal, channel, at, depth in chains:
            if depth:
                (enter if signal == "u" else back)[at, channel] = 1.0
            for j in range(1, depth):
                shift[at + j, at + j - 1] = 1.0
        return _Plan(delays, from_x, from_v, shift, enter, back)


@dataclass(frozen=True, eq=False)
class NarxStep(Step):
    """A network of lagged samples: its states are what it remembers."""

    network: Network
    params: list[Values]
    plan: _Plan

    def rest(self) -> Values:
        """Return the mean of the records: zero in scaled units."""
        return np.zeros(len(self.plan.shift))

    def _regressors(self, x: Values, v: Values) -> Values:
        return self.plan.from_x @ x + self.plan.from_v @ v

    def emit(self, x: Values, v: Values) -> Values:
        """Return the outputs."""
        z = self._regressors(x, v)
        return np.asarray(self.network.apply(tuple(self.params), z[None]))[0]

    def advance(self, x: Values, v: Values) -> Values:
        """Return the next state."""
        plan = self.plan
        return plan.shift @ x + plan.enter @ v + plan.back @ self.emit(x, v)

    def derivatives(self, x: Values, v: Values) -> Derivatives:
        """Return A, B, C, D."""
        plan = self.plan
        J = by_regressors(self.network, self.params, self._regressors(x, v))
        C, D = J @ plan.from_x, J @ plan.from_v
        return plan.shift + plan.back @ C, plan.enter + plan.back @ D, C, D


def by_regressors(network: Network, params: list[Values], z: Values) -> Values:
    """Return the derivative of the outputs of a network by what enters it."""
    inputs, pre, _ = network.forward(tuple(params), z[None])
    J = params[network.layers - 1][:-1].T
    for k in range(network.layers - 1, 0, -1):
        slope = network.slope(pre[k - 1], inputs[k][:, :-1])[0]
        J = (J * np.asarray(slope)) @ params[k - 1][:-1].T
    return J + params[-1].T if network.linear_path else J


# -- leaky states ----------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class LeakyStep(Step):
    """``x+ = decay x + rate (C' x + B' u + net([x; u]))``, held where it saturates."""

    model: StateNetwork
    layers: list[Values]
    drive: Values
    coupling: Values
    decay: Values

    @staticmethod
    def of(model: StateNetwork, params: list[Values]) -> LeakyStep:
        """Return the step with these weights."""
        *layers, drive, coupling, leak, _ = params
        decay = np.exp(-model.rate * TYPICAL_LEAK * np.exp(leak[0]))
        return LeakyStep(model, layers, drive, coupling, decay)

    def rest(self) -> Values:
        """Return the mean of the records, where hidden states are small."""
        return np.zeros(self.model.states)

    def is_held(self, x: Values, v: Values) -> bool:
        """Return whether a state is at a bound, where it does not move."""
        return not self._moves(x, v).all()

    def _moves(self, x: Values, v: Values) -> NDArray[np.bool_]:
        low, high = self.model.bounds
        free = self._free(x, v)
        return np.asarray((free > low) & (free < high))

    def _free(self, x: Values, v: Values) -> Values:
        z = np.concatenate([x, v])[None]
        push = np.asarray(self.model.network.apply(tuple(self.layers), z))[0]
        push = push + v @ self.drive + x @ self.coupling
        return np.asarray(self.decay * x + self.model.rate * push)

    def advance(self, x: Values, v: Values) -> Values:
        """Return the next state."""
        return np.clip(self._free(x, v), *self.model.bounds)

    def emit(self, x: Values, v: Values) -> Values:
        """Return the outputs."""
        return np.clip(x, *self.model.bounds)[: self.model.outputs]

    def derivatives(self, x: Values, v: Values) -> Derivatives:
        """Return A, B, C, D; zero where a state is held."""
        model, n = self.model, self.model.states
        low, high = model.bounds
        z = np.concatenate([x, v])
        J = model.rate * by_regressors(model.network, self.layers, z)
        A = J[:, :n] + np.diag(self.decay) + model.rate * self.coupling.T
        B = J[:, n:] + model.rate * self.drive.T
        moves = self._moves(x, v)[:, None]
        C = np.diag(((x > low) & (x < high)).astype(float))[: model.outputs]
        return A * moves, B * moves, C, np.zeros((model.outputs, len(v)))


def _ensemble_steps(
    fitted: Ensemble, k: int, draws: int, seed: int
) -> tuple[Step, list[Step]]:
    model = fitted.model
    params = [np.asarray(w[k], dtype=float) for w in fitted.params]
    prior = np.asarray(fitted.prior_std[k]) ** 2
    moved = _drawn(params, fitted.covariance[k], prior, draws, [seed, k])
    return LeakyStep.of(model, params), [LeakyStep.of(model, p) for p in moved]
