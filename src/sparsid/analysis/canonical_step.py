"""The canonical form, from sample to sample."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sparsid.analysis.step import Derivatives, Step, Values
from sparsid.kernel import runs
from sparsid.kernel.activations import activate
from sparsid.kernel.runs import MATRICES
from sparsid.models.canonical import Structure
from sparsid.results.simulator_member import SimulatorMember

# What moves the states, and the outputs.
MOVED = (("A", "B", "E"), ("C", "D", "G"))


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
        free = np.concatenate([M[a] @ x + M[b] @ u + M[e] @ n for a, b, e in MOVED])
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
        parts = moves[: len(x)], moves[len(x) :]
        for (a, b, e), m in zip(MOVED, parts, strict=True):
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
        return np.array(states[-1])
