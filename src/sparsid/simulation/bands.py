"""Bands as wide as held-out errors ask for, and what they then hold, block by block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from sparsid.models.residual_model import ResidualModel
from sparsid.results.forecast import BandFactors
from sparsid.results.simulator import FittedSimulator
from sparsid.simulation.member import Member
from sparsid.simulation.signals import Signals, hidden

Values = NDArray[np.float64]

# The band that a factor makes as wide as the errors ask for.
LEVEL = 0.9
# Fewer errors than this say nothing about the tails.
FEWEST_ERRORS = 20


@dataclass(frozen=True, eq=False)
class FoldRuns:
    """Free runs of copies, each where it had not learnt, stretch by stretch.

    Attributes
    ----------
    residuals, deviations
        Scaled errors and what the copy expected of them; NaN where it had learnt.
    errors
        Scaled errors wherever an output was measured.
    inputs, runs
        Scaled inputs and free runs.
    blocks
        Number of the block of each sample.
    """

    residuals: list[Values]
    deviations: list[Values]
    errors: list[Values]
    inputs: list[Values]
    runs: list[Values]
    blocks: list[NDArray[np.int64]]

    @staticmethod
    def of(
        signals: Signals,
        delays: tuple[int, ...],
        folds: Sequence[FittedSimulator | None],
        copies: Sequence[Sequence[Member]],
    ) -> FoldRuns:
        """Return the runs of the copies of each fold, from their fitted starts."""
        found = FoldRuns([], [], [], [], [], [])
        for fold, (model, members) in enumerate(zip(folds, copies, strict=True)):
            if model is None:
                continue
            covariances = [m.covariances() for m in members]
            for r, run in enumerate(signals.runs(delays)):
                starts = [m.starts[r] for m in members]
                centre, std = model.spread_from(
                    starts, [c[r] for c in covariances], run.u
                )
                where = hidden(signals.block_of[r], fold)
                counted = where[:, None] & (run.seen > 0)
                error = np.where(run.seen > 0, run.y - centre, np.nan)
                found.errors.append(error)
                found.residuals.append(np.where(counted, error, np.nan))
                found.deviations.append(np.where(counted, std, np.nan))
                found.inputs.append(run.u[:, :-1])
                found.runs.append(centre)
                found.blocks.append(signals.block_of[r])
        return found

    def factors(self, residual: ResidualModel) -> BandFactors:
        """Return what deviations are to be multiplied with."""
        errors, deviations = (
            np.concatenate(v) for v in (self.residuals, self.deviations)
        )
        one = []
        for r, u, s in zip(self.residuals, self.inputs, self.runs, strict=True):
            left = r - residual.expected(r, u, s, 1)
            one.append(np.where(_followed(r, residual.order), left, np.nan))
        ahead = np.concatenate(one) / np.sqrt(residual.variance_ahead(1))
        block = np.concatenate(self.blocks)
        return BandFactors(
            tuple(_blocked_factor(z, block) for z in ahead.T),
            tuple(_blocked_factor(z, block) for z in (errors / deviations).T),
        )

    def coverage(self) -> dict[str, Any]:
        """Return what 90 % bands hold block by block, each with others' factor.

        The factor of a block is found from the other blocks, as a new record would
        have it.
        """
        errors, deviations = (
            np.concatenate(v) for v in (self.residuals, self.deviations)
        )
        block = np.concatenate(self.blocks)
        z, half = np.abs(errors / deviations), norm.ppf(0.5 + 0.5 * LEVEL)
        shares, widths = [], []
        for k in np.unique(block[block >= 0]):
            here = (block == k)[:, None] & np.isfinite(z)
            if not here.any():
                continue
            others = np.where(here, np.nan, z)
            factors = np.array([_blocked_factor(other, block) for other in others.T])
            inside = z <= half * factors
            shares.append(float(inside[here].mean()))
            wide = 2.0 * half * factors * deviations
            widths.append(float(wide[here].mean()))
        if not shares:
            return {}
        return {
            "level": LEVEL,
            "blocks": len(shares),
            "held": float(np.mean(shares)),
            "worst_block": float(min(shares)),
            "mean_width": float(np.mean(widths)),
        }


def _factor(z: Values) -> float:
    known = np.abs(z[np.isfinite(z)])
    if len(known) < FEWEST_ERRORS:
        return 1.0
    return max(float(np.quantile(known, LEVEL) / norm.ppf(0.5 + 0.5 * LEVEL)), 1e-6)


def _blocked_factor(z: Values, block: NDArray[np.int64]) -> float:
    """Return the factor that holds a block which had no part in it, in the mean.

    Errors of one block resemble each other: the quantile of all of them is too small
    for a block to come. Each block is therefore tried with the factor of the others,
    and the factor of all is made larger until so many errors would have been held.
    """
    whole = _factor(z)
    tried = []
    for k in np.unique(block[np.isfinite(z)]):
        here = block == k
        tried.append(z[here] / _factor(np.where(here, np.nan, z)))
    return whole * max(_factor(np.concatenate(tried)), 1.0) if tried else whole


def _followed(residual: Values, order: int) -> NDArray[np.bool_]:
    """Return which samples have as many known ones before them, (time, 1)."""
    known = np.asarray(np.isfinite(residual).all(axis=1))
    found = known.copy()
    for k in range(1, order + 1):
        found[:k] = False
        found[k:] &= known[:-k]
    return np.asarray(found)[:, None]
