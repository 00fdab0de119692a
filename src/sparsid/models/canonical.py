"""One form for everything that simulates.

    n(t)   = phi(F x + H u)
    x(t+1) = hold(A x + B u + E n)
    y(t)   = hold(C x + D u + G n)

``u`` are the inputs, each delayed on its own, and a constant one; ``hold`` keeps states
and outputs within bounds. A *structure* is a map from free parameters to these
matrices: entries that are a parameter times a constant, entries that are fixed, and
poles, which stay inside the unit circle whatever their parameters.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparsid.kernel import runs
from sparsid.kernel.runs import MATRICES

Values = NDArray[np.float64]
Whole = NDArray[np.int64]

# What rows and columns of the matrices are of: states, neurons, or neither.
_ROWS = dict(zip(MATRICES, "xxxnnyyy", strict=True))
_COLUMNS = dict(zip(MATRICES, "xunxuxun", strict=True))


@dataclass(frozen=True)
class Sizes:
    """How many there are of each; ``inputs`` does not count the constant."""

    states: int
    inputs: int
    neurons: int
    outputs: int

    @property
    def shapes(self) -> dict[str, tuple[int, int]]:
        """Shape of every matrix."""
        return runs.shapes(self.states, self.inputs + 1, self.neurons, self.outputs)

    @cached_property
    def offsets(self) -> dict[str, int]:
        """Where each matrix begins in the vector of all."""
        sizes = [rows * columns for rows, columns in self.shapes.values()]
        firsts = np.concatenate([[0], np.cumsum(sizes)])
        return {
            **dict(zip(MATRICES, firsts.tolist(), strict=False)),
            "": int(firsts[-1]),
        }

    def at(self, matrix: str, row: int, column: int) -> int:
        """Return the place of an entry in the vector of all matrices."""
        return self.offsets[matrix] + row * self.shapes[matrix][1] + column


@dataclass(frozen=True)
class Pole:
    """A block of A with its poles inside the circle of radius ``most``.

    ``kind`` is one of

    - ``"pair"``: two parameters. With ``d = most^2 tanh p1`` and ``t = (most + d/most)
      tanh p2`` the block ``[[t/2, scale], [(t^2/4 - d)/scale, t/2]]`` has determinant d
      and trace t: every stable pair, real or complex, without a seam between them.
    - ``"real"``: one parameter, the pole is ``most tanh p``.
    - ``"leak"``: one parameter, ``exp(-scale exp p)``.
    - ``"one"``: no parameter, the pole is exactly one.
    """

    kind: str
    state: int
    scale: float = 1.0
    most: float = 1.0

    @property
    def parameters(self) -> int:
        """How many there are."""
        return {"pair": 2, "real": 1, "leak": 1, "one": 0}[self.kind]

    @property
    def states(self) -> int:
        """How many states it has."""
        return 2 if self.kind == "pair" else 1

    def entries(self, p: Values) -> list[tuple[int, int, float, tuple[float, ...]]]:
        """Return row, column, value of the entries of A, and derivatives by ``p``."""
        i = self.state
        if self.kind == "one":
            return [(i, i, 1.0, ())]
        if self.kind == "leak":
            speed = self.scale * np.exp(min(p[0], 700.0))
            value = float(np.exp(-speed))
            return [(i, i, value, (-speed * value,))]
        if self.kind == "real":
            value = float(np.tanh(p[0]))
            return [(i, i, self.most * value, (self.most * (1.0 - value**2),))]
        m = self.most
        a, b = np.tanh(p)
        da, db = 1.0 - a**2, 1.0 - b**2
        d, t = m * m * a, m * (1.0 + a) * b
        d_by, t_by = (m * m * da, 0.0), (m * da * b, m * (1.0 + a) * db)
        low = (t * t / 4.0 - d) / self.scale
        low_by = tuple(
            (t / 2.0 * ty - dy) / self.scale for ty, dy in zip(t_by, d_by, strict=True)
        )
        half = tuple(ty / 2.0 for ty in t_by)
        return [
            (i, i, t / 2.0, half),
            (i + 1, i + 1, t / 2.0, half),
            (i, i + 1, self.scale, (0.0, 0.0)),
            (i + 1, i, low, low_by),
        ]

    def of(self, poles: NDArray[Any]) -> list[float]:
        """Return the parameters that give these poles."""
        if self.kind == "one":
            return []
        inside = 1.0 - 1e-4
        if self.kind == "leak":
            value = float(np.clip(np.real(poles[0]), 1e-9, inside))
            return [float(np.log(-np.log(value) / self.scale))]
        if self.kind == "real":
            share = np.real(poles[0]) / self.most
            return [float(np.arctanh(np.clip(share, -inside, inside)))]
        d = float(np.real(poles[0] * poles[1])) / self.most**2
        t = float(np.real(poles[0] + poles[1])) / self.most
        d = float(np.clip(d, -inside, inside))
        return [
            float(np.arctanh(d)),
            float(np.arctanh(np.clip(t / (1.0 + d), -inside, inside))),
        ]


class Reduction(NamedTuple):
    """A structure with less in it, and which parameters and states it still has."""

    structure: Structure
    parameters: NDArray[np.bool_]
    states: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Structure:
    """A map from parameters to the canonical matrices.

    Parameters
    ----------
    name
        What people call it.
    poles
        Blocks of A, whose parameters come first.
    fixed
        The vector of all matrices with what no parameter moves.
    free
        Rows (matrix, row, column) of the entries that are a parameter each.
    factors
        What each of those parameters is multiplied with.
    kinds, limits
        Activation of every neuron, and where its argument is held.
    bounds
        Lowest and highest value of states, then outputs.
    """

    name: str
    sizes: Sizes
    poles: tuple[Pole, ...]
    fixed: Values
    free: tuple[tuple[str, int, int], ...]
    factors: Values
    kinds: Whole
    limits: Values
    bounds: Values
    # Parameters that have the poles, before those of the entries.
    leading: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "leading", sum(p.parameters for p in self.poles))

    @property
    def parameters(self) -> int:
        """Free parameters, start states not counted."""
        return self.leading + len(self.free)

    @cached_property
    def _places(self) -> Whole:
        return np.array([self.sizes.at(*entry) for entry in self.free], dtype=np.int64)

    @cached_property
    def _free_rows(self) -> list[list[tuple[int, int, int]]]:
        rows: list[list[tuple[int, int, int]]] = [[] for _ in MATRICES]
        for k, (matrix, i, j) in enumerate(self.free):
            rows[MATRICES.index(matrix)].append((i, j, self.leading + k))
        return rows

    def where(self, matrix: str) -> Whole:
        """Return which parameters are entries of a matrix."""
        return np.array(
            [
                self.leading + k
                for k, entry in enumerate(self.free)
                if entry[0] == matrix
            ],
            dtype=np.int64,
        )

    def needed(
        self, keep: NDArray[np.bool_]
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return which states and which neurons still reach an output.

        Parameters
        ----------
        keep
            For every parameter, whether it stays.
        """
        moved = np.zeros(self.sizes.offsets[""], dtype=bool)
        moved[self._places[keep[self.leading :]]] = True
        for pole in self.poles:
            for i, j, _, _ in pole.entries(np.ones(pole.parameters)):
                moved[self.sizes.at("A", i, j)] = True
        M = self._by_name(((self.fixed != 0.0) | moved).astype(float))
        states: NDArray[np.bool_] = np.asarray(M["C"].any(0))
        neurons: NDArray[np.bool_] = np.asarray(M["G"].any(0))
        # What leads to something needed is needed: as often as there are elements.
        for _ in range(len(states) + len(neurons)):
            neurons |= M["E"][states].any(0)
            states |= M["A"][states].any(0) | M["F"][neurons].any(0)
        if not states.any():
            # A model without any state is no form of its own.
            states[[p.state + k for p in self.poles[:1] for k in range(p.states)]] = (
                True
            )
        return states, neurons

    def reduced(self, keep: NDArray[np.bool_]) -> Reduction:
        """Return a structure with fewer parameters.

        Entries that are not kept are zero. Neurons and states that nothing follows from
        go, too, with everything that leads to them and with their poles.

        Parameters
        ----------
        keep
            For every parameter; those of poles stay as long as their states do.
        """
        states, neurons = self.needed(keep)
        state, neuron = np.cumsum(states) - 1, np.cumsum(neurons) - 1
        # Rows and columns of every matrix, by what they are of.
        axes = {"x": (states, state), "n": (neurons, neuron)}
        ends = {m: (_ROWS[m], _COLUMNS[m]) for m in MATRICES}

        def moved(end: str, k: int) -> int:
            return int(axes[end][1][k]) if end in axes else k

        poles, stays = [], []
        for pole in self.poles:
            stays += [bool(states[pole.state])] * pole.parameters
            if states[pole.state]:
                poles.append(replace(pole, state=moved("x", pole.state)))
        free = []
        for (matrix, i, j), kept in zip(self.free, keep[self.leading :], strict=True):
            there = (
                axes[end][0][k] if end in axes else True
                for end, k in zip(ends[matrix], (i, j), strict=True)
            )
            stays.append(bool(kept) and all(there))
            if stays[-1]:
                row, column = ends[matrix]
                free.append((matrix, moved(row, i), moved(column, j)))
        fixed = []
        for name, values in self._by_name(self.fixed).items():
            for axis, end in enumerate(ends[name]):
                if end in axes:
                    values = values.compress(axes[end][0], axis)
            fixed.append(values.ravel())
        mask, outputs = np.array(stays, dtype=bool), np.ones(self.sizes.outputs, bool)
        structure = replace(
            self,
            sizes=replace(
                self.sizes, states=int(states.sum()), neurons=int(neurons.sum())
            ),
            poles=tuple(poles),
            fixed=np.concatenate(fixed),
            free=tuple(free),
            factors=self.factors[mask[self.leading :]],
            kinds=self.kinds[neurons],
            limits=self.limits[neurons],
            bounds=np.ascontiguousarray(self.bounds[:, np.append(states, outputs)]),
        )
        return Reduction(structure, mask, states)

    def _pole_entries(self, theta: Values) -> Any:
        first = 0
        for pole in self.poles:
            own = theta[first : first + pole.parameters]
            for i, j, value, slopes in pole.entries(own):
                yield (
                    i,
                    j,
                    value,
                    [(first + k, slope) for k, slope in enumerate(slopes)],
                )
            first += pole.parameters

    def matrices(self, theta: Values) -> Values:
        """Return the vector of all matrices."""
        c = self.fixed.copy()
        np.add.at(c, self._places, self.factors * theta[self.leading : self.parameters])
        for i, j, value, _ in self._pole_entries(theta):
            c[self.sizes.at("A", i, j)] += value
        return c

    def table(self, theta: Values) -> tuple[Whole, Values, Whole]:
        """Return which entries each parameter moves, by how much, matrix by matrix."""
        rows, weights = [], []
        for i, j, _, slopes in self._pole_entries(theta):
            for p, slope in slopes:
                if slope != 0.0:
                    rows.append((i, j, p))
                    weights.append(slope)
        ends = []
        for own in self._free_rows:
            rows += own
            weights += [self.factors[p - self.leading] for _, _, p in own]
            ends.append(len(rows))
        return (
            np.array(rows, dtype=np.int64).reshape(-1, 3),
            np.array(weights, dtype=float),
            np.array(ends, dtype=np.int64),
        )

    def named(self, theta: Values) -> dict[str, Values]:
        """Return the matrices by name."""
        return self._by_name(self.matrices(theta))

    def _by_name(self, c: Values) -> dict[str, Values]:
        sizes = self.sizes
        return {
            name: c[sizes.offsets[name] :][: shape[0] * shape[1]].reshape(shape)
            for name, shape in sizes.shapes.items()
        }

    def run(self, theta: Values, start: Values, u: Values) -> tuple[Values, Values]:
        """Return outputs (time, outputs) and states (time + 1, states) of a free run.

        Parameters
        ----------
        u
            Scaled and delayed inputs with the constant, (time, inputs + 1).
        """
        y = np.empty((len(u), self.sizes.outputs))
        x = np.empty((len(u) + 1, self.sizes.states))
        matrices = tuple(self.named(theta).values())
        runs.run(matrices, self.kinds, self.limits, self.bounds, start, u, y, x)
        return y, x

    def sensitivities(
        self, theta: Values, start: Values, u: Values, carry: Values | None = None
    ) -> tuple[Values, Values, Values]:
        """Return outputs, states, and derivatives of outputs.

        Parameters
        ----------
        carry
            Derivatives of the start state, (states, parameters and start states); by
            default the start state depends on itself. Those of the end take its place.
        """
        sizes, count = self.sizes, self.parameters + self.sizes.states
        y = np.empty((len(u), sizes.outputs))
        x = np.empty((len(u) + 1, sizes.states))
        dy = np.empty((len(u), sizes.outputs, count + 1))
        if carry is None:
            carry = np.eye(sizes.states, count, self.parameters)
        runs.sensitivities(
            tuple(self.named(theta).values()),
            self.kinds,
            self.limits,
            self.bounds,
            *self.table(theta),
            start,
            u,
            y,
            x,
            dy,
            carry,
        )
        return y, x, dy
