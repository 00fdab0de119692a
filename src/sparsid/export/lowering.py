"""From a step table to its three programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsid.export.program import Drawing, Median, Pick, Program, Programs, Scale
from sparsid.export.table import Layer, Regression, StateMember, StepTable

Values = NDArray[np.float64]
# Vectors of neurons, and which neurons of the layer each of them holds.
Neurons = list[tuple[str, list[int]]]


def programs_of(table: StepTable) -> Programs:
    """Return the programs of a step table."""
    lowering = _Lowering(table)
    return Programs(
        lowering.start(),
        lowering.step(),
        lowering.observe(),
        lowering.own_start,
        lowering.start_names,
    )


class _Lowering:
    """Draws programs; states are remembered inputs, then what starts may choose."""

    def __init__(self, table: StepTable) -> None:
        self.table = table
        channels, regression = table.channels, table.regression
        self.nu, self.ny = channels.n_inputs, channels.n_outputs
        # Samples of each input that are remembered.
        self.depths = list(table.delays)
        if regression is None:
            self.own_start = np.concatenate([m.start for m in table.members])
            self.start_names: tuple[str, ...] = tuple(
                f"member {k}, state {i + 1}"
                for k, member in enumerate(table.members)
                for i in range(len(member.start))
            )
        else:
            for signal, channel, lag in regression.sources:
                if signal == "u":
                    self.depths[channel] = max(self.depths[channel], lag)
            own = [lag for signal, _, lag in regression.sources if signal == "y"]
            self.back = max(own, default=1)
            self.own_start = np.tile(regression.start_outputs, self.back)
            self.start_names = tuple(
                f"{name}(t-{lag}), scaled"
                for lag in range(1, self.back + 1)
                for name in channels.output_names
            )
        self.memory = sum(self.depths)
        self.sizes = {"x": self.memory + len(self.own_start), "u": self.nu}
        # Neurons that are there already: next state and outputs read the same ones.
        self.neurons: dict[tuple[str, int], Neurons] = {}

    # -- the programs --------------------------------------------------------------

    def start(self) -> Program:
        """Return the state before a first sample with given inputs."""
        sizes = {"u": self.nu, "s": len(self.own_start)}
        draw = Drawing("start", sizes)
        scaled = self._scaled_inputs(draw)
        held = [
            (scaled, k) for k, depth in enumerate(self.depths) for _ in range(depth)
        ]
        chosen = [("s", i) for i in range(len(self.own_start))]
        return draw.finish(x=draw.add(Pick("start", (*held, *chosen))))

    def step(self) -> Program:
        """Return state and inputs to next state and outputs."""
        draw = Drawing("step", self.sizes)
        scaled = self._scaled_inputs(draw)
        if self.table.regression is not None:
            y = self._regressed(draw, scaled, self.table.regression)
            following = self._shifted(y)
        else:
            late, outputs, following = self._late(draw, scaled), [], []
            for k, x in self._members(draw):
                following += self._moved(draw, k, x, late)
                outputs.append(self._shown(draw, k, x, late))
            y = self._combined(draw, outputs)
        return draw.finish(
            x_next=self._next(draw, scaled, following), y=self._unscaled(draw, y)
        )

    def observe(self) -> Program:
        """Return state, inputs and measured outputs to the next state."""
        draw = Drawing("observe", {**self.sizes, "y": self.ny})
        scaled = self._scaled_inputs(draw)
        scaling = self.table.scaling
        zero, factor = np.zeros(self.ny), 1.0 / scaling.y_std
        y = draw.add(Scale("measured", "y", scaling.y_mean, factor, zero))
        if self.table.regression is not None:
            following = self._shifted(y)
        else:
            late, following = self._late(draw, scaled), []
            for k, x in self._members(draw):
                shown = self._shown(draw, k, x, late)
                following += self._moved(draw, k, x, late, (y, shown))
        return draw.finish(x_next=self._next(draw, scaled, following))

    # -- pieces --------------------------------------------------------------------

    def _scaled_inputs(self, draw: Drawing) -> str:
        if not self.nu:
            return ""
        scaling, zero = self.table.scaling, np.zeros(self.nu)
        factor = 1.0 / scaling.u_std
        return draw.add(Scale("scaled", "u", scaling.u_mean, factor, zero))

    def _unscaled(self, draw: Drawing, y: str) -> str:
        scaling, zero = self.table.scaling, np.zeros(self.ny)
        return draw.add(Scale("outputs", y, zero, scaling.y_std, scaling.y_mean))

    def _remembered(self, channel: int, lag: int, scaled: str) -> tuple[str, int]:
        """Return where an input of so many samples ago is."""
        if lag == 0:
            return scaled, channel
        return "x", sum(self.depths[:channel]) + lag - 1

    def _late(self, draw: Drawing, scaled: str) -> str:
        """Return the inputs that act now."""
        if not any(self.depths):
            return scaled
        items = [self._remembered(k, d, scaled) for k, d in enumerate(self.depths)]
        return draw.add(Pick(draw.fresh("late"), tuple(items)))

    def _next(
        self, draw: Drawing, scaled: str, following: Sequence[tuple[str, int]]
    ) -> str:
        """Return the next state: inputs move on by one sample."""
        items = [
            self._remembered(k, lag, scaled)
            for k, depth in enumerate(self.depths)
            for lag in range(depth)
        ]
        return draw.add(Pick("following", (*items, *following)))

    # -- members -------------------------------------------------------------------

    def _members(self, draw: Drawing) -> Any:
        """Yield each member's number and its state."""
        at = self.memory
        for k, member in enumerate(self.table.members):
            items = tuple(("x", at + i) for i in range(len(member.start)))
            at += len(items)
            yield k, draw.add(Pick(draw.fresh("own"), items))

    def _sources(
        self, member: StateMember, names: str, x: str, u: str
    ) -> tuple[list[tuple[Values, str]], Values]:
        """Return products with state and inputs, and the bias."""
        by_state, by_input = (member.matrices[name] for name in names)
        terms = [(by_state, x)]
        if self.nu:
            terms.append((by_input[:, :-1], u))
        return terms, by_input[:, -1]

    def _neurons(self, draw: Drawing, k: int, x: str, u: str) -> Neurons:
        """Return the last neurons of a member, kind by kind, with their numbers."""
        key = (draw.name, k)
        if key not in self.neurons:
            member = self.table.members[k]
            terms, bias = self._sources(member, "FH", x, u)
            found = _by_kind(draw, terms, bias, member.kinds, member.limits)
            for layer in member.deeper:
                found = _layer(draw, layer, found)
            self.neurons[key] = found
        return self.neurons[key]

    def _moved(
        self, draw: Drawing, k: int, x: str, u: str, seen: tuple[str, str] | None = None
    ) -> list[tuple[str, int]]:
        """Return where the next state of a member is."""
        member = self.table.members[k]
        terms, bias = self._sources(member, "AB", x, u)
        E, n = member.matrices["E"], len(member.start)
        terms += [(E[:, at], v) for v, at in self._neurons(draw, k, x, u)]
        if seen is not None:
            measured, shown = seen
            terms += [(member.gain, measured), (-member.gain, shown)]
        moved = draw.affine("moved", terms, bias)
        moved = draw.clip(moved, *member.bounds[:, :n])
        return [(moved, i) for i in range(n)]

    def _shown(self, draw: Drawing, k: int, x: str, u: str) -> str:
        """Return the outputs of a member."""
        member = self.table.members[k]
        terms, bias = self._sources(member, "CD", x, u)
        G, n = member.matrices["G"], len(member.start)
        terms += [(G[:, at], v) for v, at in self._neurons(draw, k, x, u)]
        return draw.clip(draw.affine("shown", terms, bias), *member.bounds[:, n:])

    def _combined(self, draw: Drawing, outputs: Sequence[str]) -> str:
        if len(outputs) == 1:
            return outputs[0]
        if self.table.combine == "median":
            return draw.add(Median("middle", tuple(outputs), self.ny))
        share = np.eye(self.ny) / len(outputs)
        return draw.affine("mean", [(share, y) for y in outputs], np.zeros(self.ny))

    # -- regressions ---------------------------------------------------------------

    def _regressed(self, draw: Drawing, scaled: str, regression: Regression) -> str:
        """Return the outputs of a network on past inputs and outputs."""
        items = [
            self._remembered(channel, lag, scaled)
            if signal == "u"
            else ("x", self.memory + (lag - 1) * self.ny + channel)
            for signal, channel, lag in regression.sources
        ]
        found: Neurons = []
        if items:
            every = list(range(len(items)))
            found = [(draw.add(Pick("regressors", tuple(items))), every)]
        terms = []
        if regression.straight is not None:
            terms = [(regression.straight, z) for z, _ in found]
        for layer in regression.layers[:-1]:
            found = _layer(draw, layer, found)
        last = regression.layers[-1]
        terms += [(last.weights[:, at], v) for v, at in found]
        return draw.affine("shown", terms, last.bias)

    def _shifted(self, y: str) -> list[tuple[str, int]]:
        """Return where past outputs are when ``y`` has become one of them."""
        now = [(y, k) for k in range(self.ny)]
        kept = len(self.own_start) - self.ny
        return now + [("x", self.memory + k) for k in range(kept)]


def _layer(draw: Drawing, layer: Layer, found: Neurons) -> Neurons:
    """Return the neurons of a layer behind others."""
    terms = [(layer.weights[:, at], v) for v, at in found]
    return _by_kind(draw, terms, layer.bias, layer.kinds, layer.limits)


def _by_kind(
    draw: Drawing,
    terms: Sequence[tuple[Values, str]],
    bias: Values,
    kinds: Sequence[str],
    limits: Values,
) -> Neurons:
    """Return neurons kind by kind, so that each operation has one kind only."""
    found = []
    for kind in dict.fromkeys(kinds):
        at = [k for k, other in enumerate(kinds) if other == kind]
        z = draw.affine("z", [(M[at], v) for M, v in terms], bias[at])
        found.append((draw.activate(z, kind, limits[at]), at))
    return found
