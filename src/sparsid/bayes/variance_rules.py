"""Variance rules: how prior variances follow from the weights.

This is all that the methods compared in the paper differ in: flat (none), constant
(ridge), norm over lambda (lasso, group lasso), evidence (sparse Bayes). ``rows`` is the
number of samples in the fit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import jax.numpy as jnp

from sparsid.arrays import Array
from sparsid.bayes.prior import BlockPrior, Prior, Sums, energy, safe_divide
from sparsid.models.network import Params

# A bias under a conventional method: ten times the data's standard deviation.
FREE_BIAS_VARIANCE = 100.0
# One update moves a variance by at most this factor: a group is never killed by one
# unlucky cycle. Clipping keeps the descent, the surrogate is convex in log upsilon.
LARGEST_CHANGE = 100.0


@dataclass(frozen=True)
class Rule:
    """How variances follow from weights, and what the cost counts.

    The cost of a fit is ``||r||^2/sigma2 + N log(2 pi sigma2) + penalty * energy +
    volume * log|I + J V J'/sigma2| + offset``. This base counts neither and leaves the
    variances alone.
    """

    @property
    def penalty(self) -> float:
        """Weight of ``sum w^2 / upsilon``."""
        return 0.0

    @property
    def volume(self) -> float:
        """Weight of the log-determinant."""
        return 0.0

    @property
    def learns_noise(self) -> bool:
        """Whether the noise variance is estimated along the way."""
        return True

    def start(self, prior: Prior, params: Params, rows: Array | int) -> Prior:
        """Return the prior to start from."""
        return prior

    def update(
        self,
        prior: Prior,
        params: Params,
        gamma: tuple[Sums, ...] | None,
        rows: Array | int,
    ) -> Prior:
        """Return the prior that follows from the weights."""
        return prior

    def offset(self, prior: Prior, rows: Array | int) -> Array | float:
        """Return the part of the cost that depends on the variances alone."""
        return 0.0


@dataclass(frozen=True)
class Flat(Rule):
    """No prior: variances serve as the metric of the damping only."""


@dataclass(frozen=True)
class SparseBayes(Rule):
    """Variances that raise the evidence (type-II maximum likelihood).

    With ``e_g = ||w_g||^2 / upsilon_g`` and ``gamma_g = sum upsilon alpha``, the
    effective number of weights of the group::

        upsilon_g <- upsilon_g (e_g / gamma_g)^p

    ``p = 1/2`` is the paper's ``upsilon = ||w_g|| / omega_g`` and descends by
    majorisation. Rows and columns that multiply take ``p / 2`` each at the same time:
    with alpha frozen the surrogate is ``sum_ij e_ij / (x_i y_j) + gamma_ij x_i y_j``
    and ``2 x y <= x^2 + y^2`` splits it, so this descends as well.

    Parameters
    ----------
    multiplier
        The paper's ``lambda`` on penalty and volume; 1 is the evidence.
    """

    multiplier: float = 1.0
    exponent: float = 0.5

    @property
    def penalty(self) -> float:
        """Weight of ``sum w^2 / upsilon``."""
        return self.multiplier

    @property
    def volume(self) -> float:
        """Weight of the log-determinant."""
        return self.multiplier

    def update(
        self,
        prior: Prior,
        params: Params,
        gamma: tuple[Sums, ...] | None,
        rows: Array | int,
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
        if p.kind == "fixed":
            return p
        if p.kind == "shape":
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
            * _ratio((w[inner] ** 2).sum(0), weighted[inner].sum(0), self.exponent),
        )


@dataclass(frozen=True)
class Constant(Rule):
    """Ridge: one variance for all weights, for good.

    Minimises ``||r||^2 / 2N + strength * ||w||^2 / 2`` in scaled units.
    """

    strength: float

    @property
    def penalty(self) -> float:
        """Weight of ``sum w^2 / upsilon``."""
        return 1.0

    @property
    def learns_noise(self) -> bool:
        """False: noise and prior have a fixed ratio."""
        return False

    def start(self, prior: Prior, params: Params, rows: Array | int) -> Prior:
        """Return the constant variances."""
        variance = 1.0 / (rows * self.strength)
        return tuple(
            BlockPrior(
                _free_bias(jnp.full(p.rows.shape, variance, float), p.bias),
                jnp.ones_like(p.columns),
                None,
                "row",
                p.bias,
            )
            for p in prior
        )


@dataclass(frozen=True)
class Norm(Constant):
    """Lasso and group lasso by the quadratic bound of the norm.

    Minimises ``||r||^2 / 2N + strength * sum_g ||w_g||`` in scaled units. With
    ``omega = N * strength`` the bound ``2 omega ||w_g|| <= ||w_g||^2/upsilon_g +
    omega^2 upsilon_g`` is tight at ``upsilon_g = ||w_g|| / omega``: sparse Bayes with
    ``omega`` fixed. Rows and columns together are two penalties, so precisions add.
    """

    def start(self, prior: Prior, params: Params, rows: Array | int) -> Prior:
        """Return the bound's variances at the present weights."""
        started = tuple(self._start_block(p) for p in prior)
        return self.update(started, params, None, rows)

    def _start_block(self, p: BlockPrior) -> BlockPrior:
        if p.elements is not None:
            return p
        grows = p.kind != "column"
        gcols = p.kind != "row"
        rows = jnp.full_like(p.rows, 1.0 if grows else jnp.inf)
        columns = jnp.full_like(p.columns, 1.0 if gcols else jnp.inf)
        return BlockPrior(rows, columns, None, "added", p.bias)

    def update(
        self,
        prior: Prior,
        params: Params,
        gamma: tuple[Sums, ...] | None,
        rows: Array | int,
    ) -> Prior:
        """Return variances at which the bound touches the norm."""
        return tuple(
            self._update_block(p, w, rows * self.strength)
            for p, w in zip(prior, params, strict=True)
        )

    def _update_block(
        self, p: BlockPrior, w: Array, omega: Array | float
    ) -> BlockPrior:
        if p.elements is not None:
            elements = _free_bias(jnp.abs(w) / omega, p.bias)
            return replace(p, elements=jnp.where(p.elements > 0, elements, 0.0))
        inner = w[:-1] if p.bias else w
        rows = jnp.linalg.norm(w, axis=1) / omega
        columns = jnp.linalg.norm(inner, axis=0) / omega
        return replace(
            p,
            rows=_free_bias(_where_live(p.rows, rows), p.bias),
            columns=_where_live(p.columns, columns),
        )

    def offset(self, prior: Prior, rows: Array | int) -> Array:
        """Return ``sum_g omega^2 upsilon_g``, biases and absent directions left out."""
        total = jnp.zeros(())
        for p in prior:
            parts = (p.rows, p.columns) if p.elements is None else (p.elements,)
            for k, part in enumerate(parts):
                inner = part[:-1] if p.bias and k == 0 else part
                total += jnp.where(jnp.isfinite(inner), inner, 0.0).sum()
        return (rows * self.strength) ** 2 * total


def _where_live(old: Array, new: Array) -> Array:
    """Keep removed groups (zero) and absent directions (infinite) as they are."""
    return jnp.where((old > 0) & jnp.isfinite(old), new, old)


def _free_bias(variances: Array, bias: bool) -> Array:
    return variances.at[-1].set(FREE_BIAS_VARIANCE) if bias else variances


def _ratio(energy: Array, gamma: Array, exponent: float) -> Array:
    """``(energy / gamma)^exponent``, bounded; removed groups keep their zero."""
    ratio = safe_divide(energy, jnp.maximum(gamma, 0.0), 1.0) ** exponent
    return jnp.clip(ratio, 1.0 / LARGEST_CHANGE, LARGEST_CHANGE)


def _fix_scale(rows: Array, columns: Array) -> tuple[Array, Array]:
    """Set the geometric mean of the live column factors to one."""
    live = columns > 0
    logs = jnp.where(live, jnp.log(jnp.where(live, columns, 1.0)), 0.0)
    scale = jnp.exp(logs.sum() / jnp.maximum(live.sum(), 1))
    return rows * scale, columns / scale
