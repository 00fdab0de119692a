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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsid.kernel import runs
from sparsid.kernel.runs import MATRICES

Values = NDArray[np.float64]
Whole = NDArray[np.int64]


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

    def reduced(self, keep: NDArray[np.bool_]) -> tuple[Structure, NDArray[np.bool_]]:
        """Return a structure with fewer parameters, and which of them it has.

        Entries that are not kept are zero. Neurons that nothing follows from go, too,
        with everything that leads to them.

        Parameters
        ----------
        keep
            For every parameter; those of poles stay in any case.
        """
        keep = keep.copy()
        keep[: self.leading] = True
        entries = list(zip(self.free, keep[self.leading :], strict=True))
        sizes, matrices = self.sizes, self._by_name(self.fixed)
        needed = (matrices["E"] != 0.0).any(0) | (matrices["G"] != 0.0).any(0)
        for (matrix, _, j), stays in entries:
            if matrix in "EG" and stays:
                needed[j] = True
        for k, (matrix, i, _) in enumerate(self.free):
            if matrix in "FH" and not needed[i]:
                keep[self.leading + k] = False
        number = np.cumsum(needed) - 1
        free = [
            (
                matrix,
                int(number[i]) if matrix in "FH" else i,
                int(number[j]) if matrix in "EG" else j,
            )
            for k, (matrix, i, j) in enumerate(self.free)
            if keep[self.leading + k]
        ]
        fixed = [
            m[needed] if name in "FH" else m[:, needed] if name in "EG" else m
            for name, m in matrices.items()
        ]
        structure = replace(
            self,
            sizes=replace(sizes, neurons=int(needed.sum())),
            fixed=np.concatenate([m.ravel() for m in fixed]),
            free=tuple(free),
            factors=self.factors[keep[self.leading :]],
            kinds=self.kinds[needed],
            limits=self.limits[needed],
        )
        return structure, keep

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
