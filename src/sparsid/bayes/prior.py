"""Prior variances: how the weights of a block share them.

A block of weights ``w_ij`` has prior ``N(0, upsilon_ij)``. How the variances are
shared is the *kind* of the prior:

========== ============================== ==========================================
kind       variance                       groups
========== ============================== ==========================================
shape      ``upsilon_ij``                 every weight (the paper's shape-wise)
row        ``r_i``                        all weights leaving an input
column     ``c_j``                        all weights entering a neuron
row+column ``r_i c_j``                    both, variances multiply
added      ``1 / (1/r_i + 1/c_j)``        both, precisions add
========== ============================== ==========================================

**Biases.** The bias row of a block is a row group of its own. Under ``row+column`` and
``column`` it takes its neuron's column factor too, so a neuron and its bias vanish
together; under ``added`` it has its row variance alone; under ``shape`` every bias has
its own variance. Biases are never pruned alone and never counted as weights. The
conventional methods (ridge, lasso, group lasso) leave them practically free.

``fixed`` is no choice of the user's: variances given per weight that no rule changes,
for what is no weight of a network, such as a start state.

How the variances follow from the weights is the *rule*: see
:mod:`sparsid.bayes.variance_rules`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import jax
import jax.numpy as jnp

from sparsid.arrays import Array, namespace
from sparsid.errors import InputError
from sparsid.models.network import Block, Network, Params

KINDS = ("shape", "row", "column", "row+column", "added")


class Sums(NamedTuple):
    """A per-weight quantity summed over rows and columns, and itself if affordable."""

    rows: Array
    columns: Array
    elements: Array | None

    @staticmethod
    def of(elements: Array) -> Sums:
        """Return the sums of a full matrix."""
        return Sums(elements.sum(1), elements.sum(0), elements)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class BlockPrior:
    """Prior variances of one block.

    ``rows`` and ``columns`` are the factors; ``elements`` is used by ``shape`` only.
    A variance of zero means removed, for good.
    """

    rows: Array
    columns: Array
    elements: Array | None
    kind: str = field(metadata={"static": True})
    bias: bool = field(metadata={"static": True})

    @property
    def separable(self) -> bool:
        """Whether the variances are a product of row and column factors."""
        return self.kind in ("row", "column", "row+column")

    def variances(self) -> Array:
        """Return ``upsilon_ij`` as a matrix."""
        if self.elements is not None:
            return self.elements
        if self.separable:
            return self.rows[:, None] * self.columns
        xp = namespace(self.rows)
        inner = self.rows[:-1] if self.bias else self.rows
        precision = _inverse(inner)[:, None] + _inverse(self.columns)
        variances = _inverse(precision)
        if self.bias:
            bias = xp.where(self.columns > 0, self.rows[-1], 0.0)
            variances = xp.concatenate([variances, bias[None]])
        return variances

    def with_rows_scaled(self, factors: Array) -> BlockPrior:
        """Return the prior with a factor on every row's variance.

        Added precisions have no such factor on the whole: it goes to the row part.
        """
        if self.elements is not None:
            return replace(self, elements=self.elements * factors[:, None])
        return replace(self, rows=self.rows * factors)

    def scaled(self, factor: float) -> BlockPrior:
        """Return the prior with all variances multiplied by one factor."""
        if self.elements is not None:
            return replace(self, elements=self.elements * factor)
        columns = self.columns * factor if self.kind == "added" else self.columns
        return replace(self, rows=self.rows * factor, columns=columns)

    def masked(self, rows: Array, columns: Array) -> BlockPrior:
        """Return the prior with the rows and columns marked False removed."""
        xp, elements = namespace(self.rows), self.elements
        if elements is not None:
            elements = xp.where(rows[:, None] & columns, elements, 0.0)
        return replace(
            self,
            rows=xp.where(rows, self.rows, 0.0),
            columns=xp.where(columns, self.columns, 0.0),
            elements=elements,
        )

    def take(self, rows: Array, columns: Array) -> BlockPrior:
        """Return the prior of the chosen rows and columns."""
        elements = None if self.elements is None else self.elements[rows][:, columns]
        return replace(
            self, rows=self.rows[rows], columns=self.columns[columns], elements=elements
        )


Prior = tuple[BlockPrior, ...]


def start_prior(network: Network, kinds: Sequence[str]) -> Prior:
    """Return variances ``1 / n_in`` for every weight, the spread they start with."""
    return tuple(
        start_block(block, shape, kind)
        for block, shape, kind in zip(
            network.blocks, network.shapes, kinds, strict=True
        )
    )


def start_block(block: Block, shape: tuple[int, int], kind: str) -> BlockPrior:
    """Return variances ``1 / n_in`` for one block."""
    variance = 1.0 / max(shape[0] - block.bias, 1)
    # With their type: numbers without one would have every program compiled twice.
    rows = jnp.full(shape[0], 1.0 if kind == "column" else variance, float)
    own = variance if kind in ("column", "added") else 1.0
    columns = jnp.full(shape[1], own, float)
    elements = jnp.full(shape, variance, float) if kind == "shape" else None
    if kind == "added":
        rows, columns = 2.0 * rows, 2.0 * columns
    return BlockPrior(rows, columns, elements, kind, block.bias)


def resolve_kinds(prior: str | Sequence[str], network: Network) -> tuple[str, ...]:
    """Return the prior kind of every block from one name or one per layer."""
    names = [prior] * len(network.blocks) if isinstance(prior, str) else list(prior)
    if len(names) != len(network.blocks):
        raise InputError(
            f"prior has {len(names)} entries but the network has "
            f"{len(network.blocks)} weight blocks "
            f"({', '.join(b.name for b in network.blocks)}): give one name, or one each"
        )
    for name in names:
        if name not in KINDS:
            raise InputError(
                f"prior={name!r} is not known: choose one of {', '.join(KINDS)}"
            )
    return tuple(names)


def energy(prior: Prior, params: Params) -> tuple[Array, ...]:
    """Return ``w_ij^2 / upsilon_ij`` per block; a removed weight counts zero."""
    return tuple(
        safe_divide(w**2, p.variances(), 0.0)
        for p, w in zip(prior, params, strict=True)
    )


@jax.jit
def product_bound(prior: Prior) -> Prior:
    """Return a prior of product variances, none larger than those of ``prior``.

    Added precisions ``p_i + q_j`` are bounded by ``(p_i + s)(q_j + s) / s``; ``s`` is
    their typical size, where the bound is off by a factor of two.
    """
    return tuple(p if p.kind != "added" else _product_bound(p) for p in prior)


def _product_bound(p: BlockPrior) -> BlockPrior:
    rows = p.rows[:-1] if p.bias else p.rows
    typical = jnp.exp(0.5 * (_mean_log(rows) + _mean_log(p.columns)))
    s = 1.0 / typical
    bound_rows = _inverse(_inverse(rows) + s)
    bound_columns = s * _inverse(_inverse(p.columns) + s)
    if p.bias:
        bound_rows = jnp.append(bound_rows, p.rows[-1])
    return BlockPrior(bound_rows, bound_columns, None, "row+column", p.bias)


def _mean_log(variances: Array) -> Array:
    """Mean logarithm of the live variances; of absent ones, next to infinite."""
    live = (variances > 0) & jnp.isfinite(variances)
    logs = jnp.where(live, jnp.log(jnp.where(live, variances, 1.0)), 0.0)
    mean = logs.sum() / jnp.maximum(live.sum(), 1)
    return jnp.where(jnp.isinf(variances).any(), 14.0, mean)


def _inverse(b: Array) -> Array:
    return safe_divide(1.0, b, jnp.inf)


def safe_divide(a: Array | float, b: Array, at_zero: float) -> Array:
    """Return ``a / b``, and ``at_zero`` where ``b`` is zero."""
    xp, zero = namespace(b), b == 0
    return xp.where(zero, at_zero, a / xp.where(zero, 1.0, b))
