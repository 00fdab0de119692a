"""A step table as a short list of operations on named vectors.

Six operations are enough for every kind of model, so a writer for a new language has
six things to say. Every vector is written once, before it is read.

There are three programs, all in the data's units:

    start    (u, s)    -> x          the state before the first sample
    step     (x, u)    -> x_next, y
    observe  (x, u, y) -> x_next     moved towards measured outputs

``s`` is the part of the start state that may be chosen, ``x`` that with the past inputs
that dead times and lags remember; before the first sample inputs were as at the first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparsid.kernel.activations import CORNER

Values = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Affine:
    """``out = bias + sum of matrix times vector``."""

    out: str
    terms: tuple[tuple[Values, str], ...]
    bias: Values

    @property
    def size(self) -> int:
        """Length of ``out``."""
        return len(self.bias)


@dataclass(frozen=True, eq=False)
class Activate:
    """``out = phi(source)``, one kind for all; polynomials hold their argument."""

    out: str
    source: str
    kind: str
    limits: Values

    @property
    def size(self) -> int:
        """Length of ``out``."""
        return len(self.limits)


@dataclass(frozen=True, eq=False)
class Clip:
    """``out = source`` between ``low`` and ``high``, which may be infinite."""

    out: str
    source: str
    low: Values
    high: Values

    @property
    def size(self) -> int:
        """Length of ``out``."""
        return len(self.low)


@dataclass(frozen=True, eq=False)
class Scale:
    """``out = (source - before) factor + after``, element by element."""

    out: str
    source: str
    before: Values
    factor: Values
    after: Values

    @property
    def size(self) -> int:
        """Length of ``out``."""
        return len(self.factor)


@dataclass(frozen=True)
class Pick:
    """``out[i]`` is element ``items[i][1]`` of the vector ``items[i][0]``."""

    out: str
    items: tuple[tuple[str, int], ...]

    @property
    def size(self) -> int:
        """Length of ``out``."""
        return len(self.items)

    @property
    def pieces(self) -> list[tuple[str, int, int]]:
        """Vector, first element and length of each stretch without a jump."""
        found: list[tuple[str, int, int]] = []
        for source, k in self.items:
            if found and found[-1][0] == source and sum(found[-1][1:]) == k:
                found[-1] = (source, found[-1][1], found[-1][2] + 1)
            else:
                found.append((source, k, 1))
        return found


@dataclass(frozen=True)
class Median:
    """``out`` is the median over vectors, element by element."""

    out: str
    sources: tuple[str, ...]
    size: int


Operation = Affine | Activate | Clip | Scale | Pick | Median


@dataclass(frozen=True, eq=False)
class Program:
    """Operations from inputs to outputs, in order.

    Attributes
    ----------
    inputs
        Name and length of each vector that is given.
    outputs
        What each result is called, and the vector that it is.
    """

    name: str
    inputs: Mapping[str, int]
    operations: tuple[Operation, ...]
    outputs: Mapping[str, str]

    @property
    def sizes(self) -> dict[str, int]:
        """Length of every vector."""
        return {**self.inputs, **{o.out: o.size for o in self.operations}}

    @property
    def used(self) -> set[str]:
        """Names of the vectors that anything reads."""
        return set().union(*(reads(o) for o in self.operations))


class Programs(NamedTuple):
    """What a model can do, and the start state that it has of its own."""

    start: Program
    step: Program
    observe: Program
    own_start: Values
    start_names: tuple[str, ...]

    @property
    def states(self) -> int:
        """Numbers in a state."""
        return self.step.inputs["x"]


def reads(operation: Operation) -> set[str]:
    """Return the names of the vectors that an operation reads."""
    match operation:
        case Affine():
            return {source for _, source in operation.terms}
        case Pick():
            return {source for source, _ in operation.items}
        case Median():
            return set(operation.sources)
        case _:
            return {operation.source}


# -- the reference for all writers -----------------------------------------------------


def execute(program: Program, given: Mapping[str, Values]) -> dict[str, Values]:
    """Return the outputs of a program, computed with NumPy."""
    values = {name: np.asarray(given[name], dtype=float) for name in program.inputs}
    for operation in program.operations:
        values[operation.out] = _applied(operation, values)
    return {name: values[source] for name, source in program.outputs.items()}


def _applied(operation: Operation, v: Mapping[str, Values]) -> Values:
    match operation:
        case Affine(terms=terms, bias=bias):
            found = bias.copy()
            for matrix, source in terms:
                found += matrix @ v[source]
            return found
        case Activate(source=source, kind=kind, limits=limits):
            return activated(kind, v[source], limits)
        case Clip(source=source, low=low, high=high):
            return np.clip(v[source], low, high)
        case Scale(source=source, before=before, factor=factor, after=after):
            return (v[source] - before) * factor + after
        case Pick(items=items):
            return np.array([v[source][k] for source, k in items])
        case Median(sources=sources):
            return np.asarray(np.median([v[source] for source in sources], axis=0))


def activated(kind: str, z: Values, limits: Values) -> Values:
    """Return what neurons of a kind make of their arguments."""
    if kind in ("square", "cube"):
        return np.clip(z, -limits, limits) ** (2 if kind == "square" else 3)
    if kind == "tanh":
        return np.tanh(z)
    if kind == "sigmoid":
        return 0.5 * (1.0 + np.tanh(0.5 * z))
    if kind == "softroot":
        return np.sqrt(1.0 + np.log1p(np.exp(-np.abs(z))) + np.maximum(z, 0.0)) - 1.0
    if kind == "modulus":
        return np.sqrt(z * z + CORNER**2) - CORNER
    if kind == "relu":
        return np.maximum(z, 0.0)
    raise ValueError(f"there is no activation {kind!r}")


# -- drawing ---------------------------------------------------------------------------


class Drawing:
    """A program being drawn: operations are added, and answer with their vector."""

    def __init__(self, name: str, inputs: Mapping[str, int]) -> None:
        self.name, self.inputs = name, inputs
        self.operations: list[Operation] = []

    def add(self, operation: Operation) -> str:
        """Add an operation and return its vector."""
        self.operations.append(operation)
        return operation.out

    def fresh(self, stem: str) -> str:
        """Return the name of a new vector."""
        return f"{stem}{len(self.operations)}"

    def affine(
        self, stem: str, terms: Sequence[tuple[Values, str]], bias: Values
    ) -> str:
        """Add a sum of products; what is zero anyway is left out."""
        kept = tuple((np.array(M), v) for M, v in terms if np.any(M))
        return self.add(Affine(self.fresh(stem), kept, np.array(bias)))

    def activate(self, source: str, kind: str, limits: Values) -> str:
        """Add neurons of one kind."""
        return self.add(Activate(self.fresh("n"), source, kind, limits))

    def clip(self, source: str, low: Values, high: Values) -> str:
        """Add bounds, if there are any."""
        if np.isneginf(low).all() and np.isposinf(high).all():
            return source
        return self.add(Clip(self.fresh("held"), source, low, high))

    def finish(self, **outputs: str) -> Program:
        """Return the program."""
        done = Program(self.name, self.inputs, tuple(self.operations), outputs)
        return _pruned(done)


def _pruned(program: Program) -> Program:
    """Return the program without what no output needs."""
    needed, kept = set(program.outputs.values()), []
    for operation in reversed(program.operations):
        if operation.out in needed:
            kept.append(operation)
            needed |= reads(operation)
    return replace(program, operations=tuple(reversed(kept)))
