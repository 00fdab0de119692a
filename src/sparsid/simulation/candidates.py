"""What is tried: each candidate knows how to begin a member on a fold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

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
from sparsid.simulation.waiting import cycle_work

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
    def work(self) -> float:
        """Multiplications of one evaluation, about."""

    @property
    def family(self) -> str:
        """What candidates that differ only in size have in common."""

    def begin(
        self, fold: int | None, start: int, rng: np.random.Generator
    ) -> Member | None:
        """Return a member before its first step; None if there is nothing to begin at.

        Parameters
        ----------
        start
            Number of the start, within a fold.
        """


class Way(NamedTuple):
    """How inputs reach a linear model, and whether it adds up what it gets."""

    delays: tuple[int, ...]
    integrator: bool = False

    def __str__(self) -> str:
        late = " and ".join(str(d) for d in self.delays)
        parts = [f"dead time {late}"] * any(self.delays)
        return ", ".join(["integrator"] * self.integrator + parts)


class Bases:
    """Linear models of every fold, way and order: each is fitted once."""

    def __init__(self, signals: Signals, stop: Stop | None = None) -> None:
        self.signals, self.stop = signals, stop
        self._found: dict[tuple[Way, int, int | None], Member] = {}

    def fitted(
        self, way: Way, fold: int | None, orders: Sequence[int]
    ) -> dict[int, Member]:
        """Return models of some orders."""
        return candidates(
            self.signals,
            way.delays,
            fold,
            orders,
            integrator=way.integrator,
            stop=self.stop,
        )

    def add(self, way: Way, fold: int | None, found: dict[int, Member]) -> None:
        """Keep models that were fitted together."""
        for order, member in found.items():
            self._found[way, order, fold] = member

    def known(self, way: Way, order: int, fold: int | None) -> bool:
        """Return whether a model was fitted already."""
        return (way, order, fold) in self._found

    def get(self, way: Way, order: int, fold: int | None) -> Member | None:
        """Return a model, if there is one of this order."""
        key = (way, order, fold)
        if key not in self._found:
            self.add(way, fold, self.fitted(way, fold, [order]))
        return self._found.get(key)


@dataclass(frozen=True, eq=False)
class LinearFirst:
    """Neurons beside a linear model.

    Attributes
    ----------
    polynomial
        A square and a cube, too.
    slow
        States added for what forces leave behind.
    chain
        Nothing leads back from behind the neurons.
    """

    bases: Bases
    way: Way
    order: int
    neurons: int = linear_first.NEURONS
    polynomial: bool = False
    slow: int = 0
    chain: bool = False

    @property
    def delays(self) -> tuple[int, ...]:
        """Those of its way."""
        return self.way.delays

    @property
    def name(self) -> str:
        """What tells it from others."""
        first = "filters around neurons" if self.chain else "linear first"
        states = f"{self.order} states"
        if self.slow:
            states += f" and {self.slow} slow"
        parts = [first, states, f"{self.neurons} neurons"]
        parts += ["square and cube"] * self.polynomial + [str(self.way)]
        return ", ".join(part for part in parts if part)

    @property
    def work(self) -> float:
        """Multiplications of one evaluation, about."""
        states = self.order * (2 if self.chain else 1) + self.slow
        return _work(self.bases.signals, states, self.neurons)

    @property
    def family(self) -> str:
        """What candidates that differ only in size have in common."""
        return "filters" if self.chain else "linear first"

    def begin(
        self, fold: int | None, start: int, rng: np.random.Generator
    ) -> Member | None:
        """Return a member beside the fold's linear model, along one direction."""
        base = self.bases.get(self.way, self.order, fold)
        if base is None:
            return None
        kinds = [TANH] * self.neurons + [SQUARE, CUBE] * self.polynomial
        ways = linear_first.DIRECTIONS
        way = ways[start % len(ways)]
        if self.chain:
            return linear_first.chained(base, way, rng, kinds)
        return linear_first.begun(base, way, rng, kinds, self.slow)


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
    def work(self) -> float:
        """Multiplications of one evaluation, about."""
        return _work(self.signals, self.states, self.neurons)

    @property
    def family(self) -> str:
        """What candidates that differ only in size have in common."""
        return "cascade"

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
    def work(self) -> float:
        """Multiplications of one evaluation, about."""
        return _work(self.signals, self.order, self.neurons)

    @property
    def family(self) -> str:
        """What candidates that differ only in size have in common."""
        return "even output"

    def begin(
        self, fold: int | None, start: int, rng: np.random.Generator
    ) -> Member | None:
        """Return a member beside the fold's linear model of the signed outputs."""
        base = self.signed.get(Way(self.delays), self.order, fold)
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


def _work(signals: Signals, states: int, neurons: int) -> float:
    """Return the multiplications of one cycle, about."""
    sizes = Sizes(states, signals.inputs, neurons, signals.outputs)
    enter, leave = states + signals.inputs + 1, states + signals.outputs
    parameters = (neurons + leave) * enter + neurons * leave
    return cycle_work(sizes, parameters, signals.samples)
