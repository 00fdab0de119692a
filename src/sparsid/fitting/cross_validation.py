"""Copies of a model, each fitted without one block of the records.

A run goes through a block with its inputs known and its outputs unseen, so the copies
for all blocks are one batch of members. How far they are from the block they did not
see tells which model to choose, and how wide the bands should be.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from sparsid.data.pieces import held_out, runs_of, stretches_of
from sparsid.data.record import Record
from sparsid.data.scaling import Scaling
from sparsid.errors import InputError
from sparsid.fitting.member_batches import run_apart, split
from sparsid.fitting.state_space import StateSpaceFit
from sparsid.fitting.state_space_structure import check_size, prepared, structure_of
from sparsid.parallel.pool import Pool
from sparsid.progress import ProgressCallback
from sparsid.results.channels import Channels
from sparsid.results.ensemble import Ensemble
from sparsid.results.ensemble_runs import member_runs
from sparsid.results.held_out import clearly_below
from sparsid.results.outcome import Outcome


def held_out_fits(
    params: dict[str, Any],
    records: list[Record],
    blocks: int,
    progress: ProgressCallback | None = None,
) -> list[Ensemble] | None:
    """Return an ensemble for each block, fitted without it; None if stopped."""
    with jax.enable_x64(True):
        copies = _Copies(params, records, blocks, progress=progress)
        outcome = copies.fit.run()
        if outcome is Outcome.STOPPED:
            return None
        return copies.ensembles(copies.fit.found(), outcome)


def held_out_fits_apart(
    candidates: dict[str, dict[str, Any]],
    records: list[Record],
    blocks: int,
    pool: Pool,
    progress: ProgressCallback | None = None,
    *,
    members: int,
) -> tuple[dict[str, list[Ensemble]], dict[str, str]]:
    """Return the same for several models by name, and why others are not among them.

    All at once, in groups of copies.

    Parameters
    ----------
    members
        Of the model that one of them will be: it is fitted in one group for each hand
        of the pool, and if groups of copies are as large it finds its programs
        compiled.
    """
    found, left_out = {}, {}
    with jax.enable_x64(True):
        copies = [
            _Copies(params, records, blocks, phase=f"trying {name}")
            for name, params in candidates.items()
        ]
        # Workers of a cluster may be on their way.
        size = -(-members // (pool.size or blocks))
        ends = run_apart(
            [c.groups(-(-c.starts // size)) for c in copies], pool, progress
        )
        for name, c, end in zip(candidates, copies, ends, strict=True):
            if end.failure is not None:
                left_out[name] = str(end.failure)
            elif end.outcome is Outcome.STOPPED:
                left_out[name] = "there was no time to finish it"
            else:
                c.fit.join(end.parts)
                try:
                    found[name] = c.ensembles(end.found, end.outcome)
                except InputError as error:
                    left_out[name] = str(error)
    return found, left_out


class Errors(NamedTuple):
    """Squared errors over what each block held out, and how many they are."""

    squares: NDArray[np.float64]
    counts: NDArray[np.float64]

    @staticmethod
    def none(blocks: int) -> Errors:
        """Return those of blocks that nothing is known of yet."""
        return Errors(np.zeros(blocks), np.zeros(blocks))

    @property
    def rms(self) -> float:
        """Root of the mean over all blocks."""
        return float(np.sqrt(self.squares.sum() / max(self.counts.sum(), 1.0)))

    def clearly_below(self, others: Errors) -> bool:
        """Return whether these are smaller by a margin, and not by one block alone."""
        return clearly_below(self, others)


def held_out_errors(fits: list[Ensemble], records: list[Record]) -> Errors:
    """Return the free-run errors over the blocks that the copies did not see.

    Those of the median over the members of a block, outputs together, in standard
    deviations.
    """
    stretches, first = stretches_of(records), fits[0]
    with jax.enable_x64(True):
        data = runs_of(stretches, first.scaling)
    errors = Errors.none(len(fits))
    masks = held_out(stretches, len(fits), first.known)
    for k, (fitted, hidden) in enumerate(zip(fits, masks, strict=True)):
        with jax.enable_x64(True):
            runs = np.asarray(member_runs(fitted.model, fitted.params, data.u))
        for r, mask in enumerate(hidden):
            centre = np.median(runs[:, r, : len(mask)], axis=0)[mask]
            error = (first.scaling.scale_y(stretches[r].y)[mask] - centre) ** 2
            errors.squares[k] += np.nansum(error)
            errors.counts[k] += np.isfinite(error).sum()
    return errors


class _Copies:
    """The copies of one model, for the blocks of `pieces.held_out`."""

    def __init__(
        self,
        params: dict[str, Any],
        records: list[Record],
        blocks: int,
        **more: Any,
    ) -> None:
        settings, stretches = prepared(params, records)
        self.channels, self.scaling = Channels.of(records), Scaling.of(stretches)
        self.blocks = blocks
        self.starts = blocks * settings.starts
        check_size(settings._replace(starts=self.starts), stretches)
        data = runs_of(stretches, self.scaling)
        model, self.notes = structure_of(settings, stretches, self.scaling)
        hidden = np.zeros((blocks, *data.y.shape))
        for k, block in enumerate(held_out(stretches, blocks, settings.start_samples)):
            for r, mask in enumerate(block):
                hidden[k, r, : len(mask)] = mask[:, None]
        shown = np.asarray(data.measured) * (1.0 - hidden)
        data = data._replace(measured=jnp.repeat(shown, settings.starts, axis=0))
        settings = settings._replace(starts=self.starts)
        self.fit = StateSpaceFit(model, data, settings, **more)

    def groups(self, count: int) -> list[StateSpaceFit]:
        """Return the fit in parts."""
        return [self.fit.part(group) for group in split(self.starts, count)]

    def ensembles(self, found: list[Any], outcome: Outcome) -> list[Ensemble]:
        """Return what was found as a model for each block."""
        return [
            self.fit.finish(
                found, outcome, self.channels, self.scaling, self.notes, own
            )
            for own in split(self.starts, self.blocks)
        ]
