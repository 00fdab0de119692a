"""A fitted model that goes on sample by sample, in microseconds per call."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsid.errors import InputError
from sparsid.export.lowering import programs_of
from sparsid.export.program import (
    Activate,
    Affine,
    Clip,
    Median,
    Operation,
    Pick,
    Program,
    Scale,
)
from sparsid.export.table import table_of
from sparsid.kernel import steps
from sparsid.kernel.activations import NAMES
from sparsid.results.base import FittedModel

Values = NDArray[np.float64]


class Stepper:
    """A model online: give inputs, get outputs; give measured outputs to correct it.

    Parameters
    ----------
    fitted
        A fitted model.
    combine
        ``"median"`` or ``"mean"`` over members, ``"member:K"`` or ``"compact"``.

    Attributes
    ----------
    state
        All that it remembers; it may be kept and set again.
    """

    def __init__(self, fitted: FittedModel, combine: str = "median") -> None:
        self._channels = fitted.channels
        programs = programs_of(table_of(fitted, combine))
        self._start, self._step, self._observe = (
            _Compiled(program) for program in programs[:3]
        )
        self._own = programs.own_start
        self._chosen = self._own
        self._state: Values | None = None

    @property
    def state(self) -> Values | None:
        """All that it remembers; None before the first sample."""
        return None if self._state is None else self._state.copy()

    @state.setter
    def state(self, values: Any) -> None:
        self._state = (
            None if values is None else _vector("state", values, self._step.sizes["x"])
        )

    def reset(self, start: Any = None) -> None:
        """Go back to before the first sample.

        Parameters
        ----------
        start
            The part of the start state that may be chosen; None: the model's own.
            Inputs count as held before the first sample.
        """
        self._chosen = (
            self._own if start is None else _vector("start", start, len(self._own))
        )
        self._state = None

    def step(self, u: Any) -> Values:
        """Return the outputs at these inputs, and go on to the next sample."""
        given = _vector("u", u, self._channels.n_inputs)
        self._state, y = self._step(self._before(given), given)
        return y

    def update(self, u: Any, y: Any) -> Values:
        """Return the outputs expected at these inputs, and go on towards measured ones.

        Parameters
        ----------
        y
            Measured outputs of this sample. If one of them is NaN, none of them counts.
        """
        given = _vector("u", u, self._channels.n_inputs)
        measured = _vector("y", y, self._channels.n_outputs)
        x = self._before(given)
        following, expected = self._step(x, given)
        if not np.isnan(measured).any():
            (following,) = self._observe(x, given, measured)
        self._state = following
        return expected

    def _before(self, u: Values) -> Values:
        if self._state is None:
            (self._state,) = self._start(u, self._chosen)
        return self._state


def _vector(name: str, values: Any, size: int) -> Values:
    found = np.asarray(values, dtype=float).reshape(-1)
    if len(found) != size:
        raise InputError(f"{name} has {len(found)} values: give {size}")
    return found


class _Compiled:
    """A program as rows of numbers, and room for its vectors."""

    def __init__(self, program: Program) -> None:
        self.sizes = program.sizes
        self.places: dict[str, int] = {}
        self.code: list[tuple[int, ...]] = []
        self.constants: list[Values] = []
        self.length = self.used = 0
        self.widest = 1
        for name in program.inputs:
            self._placed(name, self.sizes[name])
        for operation in program.operations:
            self._write(operation)
        self._inputs = [self._part(name) for name in program.inputs]
        self._outputs = [self._part(name) for name in program.outputs.values()]
        self._code = np.array(self.code, dtype=np.int64).reshape(-1, 6)
        self._constants = np.concatenate([np.zeros(1), *self.constants])
        self._v, self._sorted = np.zeros(self.length + 1), np.zeros(self.widest)

    def __call__(self, *given: Values) -> list[Values]:
        """Return the outputs of the program."""
        v = self._v
        for part, values in zip(self._inputs, given, strict=True):
            v[part] = values
        steps.execute(self._code, self._constants, v, self._sorted)
        return [v[part].copy() for part in self._outputs]

    def _part(self, name: str) -> slice:
        first = self.places[name]
        return slice(first, first + self.sizes[name])

    def _placed(self, name: str, size: int) -> int:
        """Return where a new vector begins."""
        self.places[name], self.length = self.length, self.length + size
        return self.places[name]

    def _constant(self, *values: Values) -> int:
        """Return where constants begin."""
        # The first number is nothing: no row refers to it.
        first = 1 + self.used
        for part in values:
            self.constants.append(np.ravel(part))
            self.used += part.size
        return first

    def _write(self, operation: Operation) -> None:
        """Add the rows of an operation."""
        places, size = self.places, operation.size
        if isinstance(operation, Median):
            # Side by side, so that one row reads all of them.
            first = self._placed(
                f"{operation.out} given", size * len(operation.sources)
            )
            for k, source in enumerate(operation.sources):
                row = (steps.COPY, first + k * size, size, places[source], 0, 0)
                self.code.append(row)
            count = len(operation.sources)
            self.widest = max(self.widest, count)
            out = self._placed(operation.out, size)
            self.code.append((steps.MEDIAN, out, size, first, count, 0))
            return
        out = self._placed(operation.out, size)
        match operation:
            case Affine(terms=terms, bias=bias):
                self.code.append((steps.SET, out, size, 0, 0, self._constant(bias)))
                for M, source in terms:
                    at = places[source], M.shape[1], self._constant(M)
                    self.code.append((steps.ADD, out, size, *at))
            case Activate(source=source, kind=kind, limits=limits):
                number = steps.RELU if kind == "relu" else NAMES.index(kind)
                at = places[source], number, self._constant(limits)
                self.code.append((steps.ACTIVATE, out, size, *at))
            case Clip(source=source, low=low, high=high):
                at = places[source], 0, self._constant(low, high)
                self.code.append((steps.CLIP, out, size, *at))
            case Scale(source=source, before=before, factor=factor, after=after):
                at = places[source], 0, self._constant(before, factor, after)
                self.code.append((steps.SCALE, out, size, *at))
            case Pick():
                for source, first, count in operation.pieces:
                    row = (steps.COPY, out, count, places[source] + first, 0, 0)
                    self.code.append(row)
                    out += count
