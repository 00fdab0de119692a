"""What is tried: each candidate knows how to begin a member on a fold."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sparsid.data.pieces import saturation
from sparsid.kernel.activations import CUBE, SQUARE, TANH
from sparsid.models.canonical import Sizes
from sparsid.models.structures.cascade import cascade
from sparsid.simulation import even_output, linear_first
from sparsid.simulation.cascade import random_start
from sparsid.simulation.linear import Stop, candidates
from sparsid.simulation.member import Member
from sparsid.simulation.signals import Signals

Values = NDArray[np.float64]

# Typical change per sample of a cascade, in steps from sample to sample of the outputs.
RATE_FACTOR = 2.0


class Candidate(Protocol):
    """A kind of model, with the delays that its inputs have."""

    @property
    def name(self) -> str:
        """What tells it from others."""

    @property
    def delays(self) -> tuple[int, ...]:
        """Samples by which each input comes late."""

    @property
    def parameters(self) -> int:
        """How many there are, about."""

    def begin(
        self, fold: int | None, start: int, rng: np.random.Generator
    ) -> Member | None:
        """Return a member before its first step; None if there is nothing to begin at.

        Parameters
        ----------
        start
            Number of the start, within a fold.
        """


class Bases:
    """Linear models of every fold, delay and order: each is fitted once."""

    def __init__(self, signals: Signals, stop: Stop | None = None) -> None:
        self.signals, self.stop = signals, stop
        self._found: dict[tuple[tuple[int, ...], int, int | None], Member] = {}

    def add(
        self, delays: tuple[int, ...], fold: int | None, found: dict[int, Member]
    ) -> None:
        """Keep models that were fitted together."""
        for order, member in found.items():
            self._found[delays, order, fold] = member

    def known(self, delays: tuple[int, ...], order: int, fold: int | None) -> bool:
        """Return whether a model was fitted already."""
        return (delays, order, fold) in self._found

    def get(
        self, delays: tuple[int, ...], order: int, fold: int | None
    ) -> Member | None:
        """Return a model, if there is one of this order."""
        key = (delays, order, fold)
        if key not in self._found:
            found = candidates(self.signals, delays, fold, [order], stop=self.stop)
            self.add(delays, fold, found)
        return self._found.get(key)


@dataclass(frozen=True, eq=False)
class LinearFirst:
    """Neurons beside a linear model; with ``polynomial``, a square and a cube, too."""

    bases: Bases
    delays: tuple[int, ...]
    order: int
    neurons: int = linear_first.NEURONS
    polynomial: bool = False

    @property
    def name(self) -> str:
        """What tells it from others."""
        late = f", dead time {_listed(self.delays)}" if any(self.delays) else ""
        more = ", square and cube" if self.polynomial else ""
        return f"linear first, {self.order} states, {self.neurons} neurons{more}{late}"

    @property
    def parameters(self) -> int:
        """How many there are, about."""
        return _parameters(self.bases.signals, self.order, self.neurons)

    def begin(
        self, fold: int | None, start: int, rng: np.random.Generator
    ) -> Member | None:
        """Return a member beside the fold's linear model, along one direction."""
        base = self.bases.get(self.delays, self.order, fold)
        if base is None:
            return None
        kinds = [TANH] * self.neurons + [SQUARE, CUBE] * self.polynomial
        ways = linear_first.DIRECTIONS
        return linear_first.begun(base, ways[start % len(ways)], rng, kinds=kinds)


@dataclass(frozen=True, eq=False)
class Cascade:
    """Leaky states in a row, held where outputs saturate."""

    signals: Signals
    states: int
    neurons: int = 6

    @property
    def delays(self) -> tuple[int, ...]:
        """None: slow states need no dead time."""
        return (0,) * self.signals.inputs

    @property
    def name(self) -> str:
        """What tells it from others."""
        return f"cascade, {self.states} states, {self.neurons} neurons"

    @property
    def parameters(self) -> int:
        """How many there are, about."""
        return _parameters(self.signals, self.states, self.neurons)

    def begin(
        self, fold: int | None, start: int, rng: np.random.Generator
    ) -> Member | None:
        """Return a member with random weights."""
        signals = self.signals
        floor, ceiling = saturated(signals)
        sizes = Sizes(self.states, signals.inputs, self.neurons, signals.outputs)
        structure = cascade(sizes, rate_of(signals), floor, ceiling)
        return random_start(structure, signals.runs(self.delays, fold), rng)


@dataclass(frozen=True, eq=False)
class EvenOutput:
    """The modulus of a linear-first model, through a filter."""

    signals: Signals
    signed: Bases
    delays: tuple[int, ...]
    order: int
    neurons: int = 4
    ways: tuple[str, ...] = field(default=("output", "free", "states"), repr=False)

    @property
    def name(self) -> str:
        """What tells it from others."""
        return f"even output, {self.order} states, {self.neurons} neurons"

    @property
    def parameters(self) -> int:
        """How many there are, about."""
        return _parameters(self.signals, self.order, self.neurons)

    def begin(
        self, fold: int | None, start: int, rng: np.random.Generator
    ) -> Member | None:
        """Return a member beside the fold's linear model of the signed outputs."""
        base = self.signed.get(self.delays, self.order, fold)
        if base is None:
            return None
        way = self.ways[start % len(self.ways)]
        return even_output.begun(
            base, self.signals, self.delays, fold, way, self.neurons, rng
        )


def saturated(signals: Signals) -> tuple[list[float], list[float]]:
    """Return where outputs stop falling and rising; infinite where they do not."""
    floor, ceiling = [], []
    for o in range(signals.outputs):
        low = saturation([-y[:, o] for y in signals.y])
        high = saturation([y[:, o] for y in signals.y])
        floor.append(-np.inf if low is None else -low)
        ceiling.append(np.inf if high is None else high)
    return floor, ceiling


def rate_of(signals: Signals) -> float:
    """Return the typical change from sample to sample of a cascade's states."""
    steps = np.concatenate([np.diff(y, axis=0).ravel() for y in signals.y])
    steps = steps[np.isfinite(steps)]
    return float(np.clip(RATE_FACTOR * np.sqrt(np.mean(steps**2)), 0.01, 1.0))


def _listed(delays: tuple[int, ...]) -> str:
    return " and ".join(str(d) for d in delays)


def _parameters(signals: Signals, states: int, neurons: int) -> int:
    enter, leave = states + signals.inputs + 1, states + signals.outputs
    return (neurons + leave) * enter + neurons * leave
