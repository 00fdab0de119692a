"""Networks of lagged samples, and leaky states, from sample to sample."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparsid.analysis.step import Derivatives, Step, Values
from sparsid.models.network import Network
from sparsid.models.state_space import TYPICAL_LEAK, StateNetwork
from sparsid.results.narx import Fitted

# -- networks of lagged samples --------------------------------------------------------


class Plan(NamedTuple):
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
    def of(fitted: Fitted) -> Plan:
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
        return Plan(delays, from_x, from_v, shift, enter, back)


@dataclass(frozen=True, eq=False)
class NarxStep(Step):
    """A network of lagged samples: its states are what it remembers."""

    network: Network
    params: list[Values]
    plan: Plan

    def rest(self) -> Values:
        """Return the mean of the records: zero in scaled units."""
        return np.zeros(len(self.plan.shift))

    def _regressors(self, x: Values, v: Values) -> Values:
        return self.plan.from_x @ x + self.plan.from_v @ v

    def emit(self, x: Values, v: Values) -> Values:
        """Return the outputs."""
        z = self._regressors(x, v)
        found: Values = np.asarray(self.network.apply(tuple(self.params), z[None]))
        return np.array(found[0])

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
