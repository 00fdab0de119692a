"""Prior variances: how weights share them, and the rules that set them.

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

How the variances follow from the weights is the *rule*, and it is all that the methods
compared in the paper differ in: flat (none), constant (ridge), norm over lambda
(lasso, group lasso), evidence (sparse Bayes).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp

from sparsid.arrays import Array, namespace
from sparsid.errors import InputError
from sparsid.models.network import Block, Network, Params

KINDS = ("shape", "row", "column", "row+column", "added")

# A bias under a conventional method: ten times the data's standard deviation.
FREE_BIAS_VARIANCE = 100.0
# One update moves a variance by at most this factor: a group is never killed by one
# unlucky cycle. Clipping keeps the descent, the surrogate is convex in log upsilon.
LARGEST_CHANGE = 100.0


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

    def scaled(self, rows: Array, columns: Array) -> BlockPrior:
        """Return the prior with variances multiplied by row and column factors."""
        if self.elements is not None:
            return replace(self, elements=self.elements * rows[:, None] * columns)
        return replace(self, rows=self.rows * rows, columns=self.columns * columns)

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
        _start_block(block, shape, kind)
        for block, shape, kind in zip(
            network.blocks, network.shapes, kinds, strict=True
        )
    )


def _start_block(block: Block, shape: tuple[int, int], kind: str) -> BlockPrior:
    variance = 1.0 / max(shape[0] - block.bias, 1)
    rows = jnp.full(shape[0], 1.0 if kind == "column" else variance)
    columns = jnp.full(shape[1], variance if kind in ("column", "added") else 1.0)
    elements = jnp.full(shape, variance) if kind == "shape" else None
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
        _safe_divide(w**2, p.variances(), 0.0)
        for p, w in zip(prior, params, strict=True)
    )


class Rule(Protocol):
    """How variances follow from weights, and what the cost counts.

    The cost of a fit is ``||r||^2/sigma2 + N log(2 pi sigma2) + penalty * energy +
    volume * log|I + J V J'/sigma2| + offset``.
    """

    @property
    def penalty(self) -> float:
        """Weight of ``sum w^2 / upsilon``."""

    @property
    def volume(self) -> float:
        """Weight of the log-determinant."""

    @property
    def learns_noise(self) -> bool:
        """Whether the noise variance is estimated along the way."""

    def start(self, prior: Prior, params: Params) -> Prior:
        """Return the prior to start from."""

    def update(
        self, prior: Prior, params: Params, gamma: tuple[Sums, ...] | None
    ) -> Prior:
        """Return the prior that follows from the weights."""

    def offset(self, prior: Prior) -> Array | float:
        """Return the part of the cost that depends on the variances alone."""


@dataclass(frozen=True)
class SparseBayes:
    """Variances that raise the evidence (type-II maximum likelihood).

    With ``e_g = ||w_g||^2 / upsilon_g`` and ``gamma_g = sum upsilon alpha``, the
    effective number of weights of the group::

        upsilon_g <- upsilon_g (e_g / gamma_g)^p

    ``p = 1/2`` is the paper's ``upsilon = ||w_g|| / omega_g`` and descends by
    majorisation. Rows and columns that multiply take ``p / 2`` each at the same time:
    with alpha frozen the surrogate is ``sum_ij e_ij x_i y_j + gamma_ij / (x_i y_j)``
    and ``2 x y <= x^2 + y^2`` splits it, so this descends as well.

    Parameters
    ----------
    multiplier
        The paper's ``lambda`` on penalty and volume; 1 is the evidence.
    """

    multiplier: float = 1.0
    exponent: float = 0.5
    learns_noise: bool = True

    @property
    def penalty(self) -> float:
        """Weight of ``sum w^2 / upsilon``."""
        return self.multiplier

    @property
    def volume(self) -> float:
        """Weight of the log-determinant."""
        return self.multiplier

    def start(self, prior: Prior, params: Params) -> Prior:
        """Return the prior unchanged."""
        return prior

    def update(
        self, prior: Prior, params: Params, gamma: tuple[Sums, ...] | None
    ) -> Prior:
        """Return the variances after one multiplicative update."""
        assert gamma is not None
        return tuple(
            self._update_block(p, w, e, g)
            for p, w, e, g in zip(
                prior, params, energy(prior, params), gamma, strict=True
            )
        )

    def _update_block(self, p: BlockPrior, w: Array, e: Array, g: Sums) -> BlockPrior:
        if p.kind == "shape":
            assert g.elements is not None and p.elements is not None
            ratio = _ratio(e, g.elements, self.exponent)
            return replace(p, elements=p.elements * ratio)
        if p.kind == "added":
            return self._update_added(p, w, g)
        exponent = self.exponent / 2 if p.kind == "row+column" else self.exponent
        rows, columns = p.rows, p.columns
        if p.kind != "column":
            rows = rows * _ratio(e.sum(1), g.rows, exponent)
        if p.kind != "row":
            columns = columns * _ratio(e.sum(0), g.columns, exponent)
        if p.kind == "row+column":
            rows, columns = _fix_scale(rows, columns)
        return replace(p, rows=rows, columns=columns)

    def _update_added(self, p: BlockPrior, w: Array, g: Sums) -> BlockPrior:
        """``r_i <- r_i (sum_j w_ij^2 / sum_j gamma_ij upsilon_ij)^p``, same for c_j."""
        assert g.elements is not None
        weighted = g.elements * p.variances()
        inner = slice(None, -1) if p.bias else slice(None)
        return replace(
            p,
            rows=p.rows * _ratio((w**2).sum(1), weighted.sum(1), self.exponent),
            columns=p.columns
            * _ratio(
                (w[inner] ** 2).sum(0), weighted[inner].sum(0), self.exponent
            ),
        )

    def offset(self, prior: Prior) -> float:
        """Return zero: flat hyper-priors."""
        return 0.0


@dataclass(frozen=True)
class Flat:
    """No prior: variances serve as the metric of the damping only."""

    penalty: float = 0.0
    volume: float = 0.0
    learns_noise: bool = True

    def start(self, prior: Prior, params: Params) -> Prior:
        """Return the prior unchanged."""
        return prior

    def update(
        self, prior: Prior, params: Params, gamma: tuple[Sums, ...] | None
    ) -> Prior:
        """Return the prior unchanged."""
        return prior

    def offset(self, prior: Prior) -> float:
        """Return zero."""
        return 0.0


@dataclass(frozen=True)
class Constant:
    """Ridge: one variance for all weights, for good.

    Minimises ``||r||^2 / 2N + strength * ||w||^2 / 2`` in scaled units.
    """

    strength: float
    samples: int
    penalty: float = 1.0
    volume: float = 0.0
    learns_noise: bool = False

    def start(self, prior: Prior, params: Params) -> Prior:
        """Return the constant variances."""
        variance = 1.0 / (self.samples * self.strength)
        return tuple(
            BlockPrior(
                _free_bias(jnp.full(p.rows.shape, variance), p.bias),
                jnp.ones_like(p.columns),
                None,
                "row",
                p.bias,
            )
            for p in prior
        )

    def update(
        self, prior: Prior, params: Params, gamma: tuple[Sums, ...] | None
    ) -> Prior:
        """Return the prior unchanged."""
        return prior

    def offset(self, prior: Prior) -> float:
        """Return zero."""
        return 0.0


@dataclass(frozen=True)
class Norm:
    """Lasso and group lasso by the quadratic bound of the norm.

    Minimises ``||r||^2 / 2N + strength * sum_g ||w_g||`` in scaled units. With
    ``omega = N * strength`` the bound ``2 omega ||w_g|| <= ||w_g||^2/upsilon_g +
    omega^2 upsilon_g`` is tight at ``upsilon_g = ||w_g|| / omega``: sparse Bayes with
    ``omega`` fixed. Rows and columns together are two penalties, so precisions add.
    """

    strength: float
    samples: int
    penalty: float = 1.0
    volume: float = 0.0
    learns_noise: bool = False

    @property
    def omega(self) -> float:
        """The fixed penalty weight."""
        return self.samples * self.strength

    def start(self, prior: Prior, params: Params) -> Prior:
        """Return the bound's variances at the present weights."""
        return self.update(
            tuple(self._start_block(p) for p in prior), params, None
        )

    def _start_block(self, p: BlockPrior) -> BlockPrior:
        if p.elements is not None:
            return p
        grows = p.kind != "column"
        gcols = p.kind != "row"
        rows = jnp.full_like(p.rows, 1.0 if grows else jnp.inf)
        columns = jnp.full_like(p.columns, 1.0 if gcols else jnp.inf)
        return BlockPrior(rows, columns, None, "added", p.bias)

    def update(
        self, prior: Prior, params: Params, gamma: tuple[Sums, ...] | None
    ) -> Prior:
        """Return variances at which the bound touches the norm."""
        return tuple(
            self._update_block(p, w) for p, w in zip(prior, params, strict=True)
        )

    def _update_block(self, p: BlockPrior, w: Array) -> BlockPrior:
        if p.elements is not None:
            elements = jnp.where(p.elements > 0, jnp.abs(w) / self.omega, 0.0)
            return replace(p, elements=_free_bias(elements, p.bias))
        inner = w[:-1] if p.bias else w
        rows = jnp.linalg.norm(w, axis=1) / self.omega
        columns = jnp.linalg.norm(inner, axis=0) / self.omega
        return replace(
            p,
            rows=_free_bias(_where_live(p.rows, rows), p.bias),
            columns=_where_live(p.columns, columns),
        )

    def offset(self, prior: Prior) -> Array:
        """Return ``sum_g omega^2 upsilon_g``, biases and absent directions left out."""
        total = jnp.zeros(())
        for p in prior:
            parts = (p.rows, p.columns) if p.elements is None else (p.elements,)
            for k, part in enumerate(parts):
                inner = part[:-1] if p.bias and k == 0 else part
                total += jnp.where(jnp.isfinite(inner), inner, 0.0).sum()
        return self.omega**2 * total


def _where_live(old: Array, new: Array) -> Array:
    """Keep removed groups (zero) and absent directions (infinite) as they are."""
    return jnp.where((old > 0) & jnp.isfinite(old), new, old)


def _free_bias(variances: Array, bias: bool) -> Array:
    return variances.at[-1].set(FREE_BIAS_VARIANCE) if bias else variances


def _inverse(b: Array) -> Array:
    return _safe_divide(1.0, b, jnp.inf)


def _safe_divide(a: Array | float, b: Array, at_zero: float) -> Array:
    xp, zero = namespace(b), b == 0
    return xp.where(zero, at_zero, a / xp.where(zero, 1.0, b))


def _ratio(energy: Array, gamma: Array, exponent: float) -> Array:
    """``(energy / gamma)^exponent``, bounded; removed groups keep their zero."""
    ratio = _safe_divide(energy, jnp.maximum(gamma, 0.0), 1.0) ** exponent
    return jnp.clip(ratio, 1.0 / LARGEST_CHANGE, LARGEST_CHANGE)


def _fix_scale(rows: Array, columns: Array) -> tuple[Array, Array]:
    """Set the geometric mean of the live column factors to one."""
    live = columns > 0
    logs = jnp.where(live, jnp.log(jnp.where(live, columns, 1.0)), 0.0)
    scale = jnp.exp(logs.sum() / jnp.maximum(live.sum(), 1))
    return rows * scale, columns / scale
