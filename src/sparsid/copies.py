"""Copies of a model, each fitted without one block of the records.

A run goes through a block with its inputs known and its outputs unseen, so the copies
for all blocks are one batch of members. How far they are from the block they did not
see tells which model to choose, and how wide the bands should be.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from sparsid.crews import Crew
from sparsid.ensemble import Ensemble, member_runs
from sparsid.forecasts import Channels
from sparsid.free_fitting import FreeRunFit
from sparsid.groups import run_apart, split
from sparsid.history import Report
from sparsid.outcomes import Outcome
from sparsid.records import Record
from sparsid.scaling import Scaling
from sparsid.state_structure import check_size, prepared, structure_of
from sparsid.stretches import held_out, runs_of, stretches_of


def held_out_fits(
    params: dict[str, Any],
    records: list[Record],
    blocks: int,
    report: Report | None = None,
) -> list[Ensemble] | None:
    """Return an ensemble for each block, fitted without it; None if stopped."""
    with jax.enable_x64(True):
        copies = _Copies(params, records, blocks, report=report)
        outcome = copies.fit.run()
        if outcome is Outcome.STOPPED:
            return None
        return copies.ensembles(copies.fit.found(), outcome)


def held_out_fits_apart(
    candidates: dict[str, dict[str, Any]],
    records: list[Record],
    blocks: int,
    crew: Crew,
    report: Report | None = None,
) -> dict[str, list[Ensemble]]:
    """Return the same for several models by name, those that were not stopped.

    All at once, in as many groups of copies each as the crew has hands.
    """
    with jax.enable_x64(True):
        copies = [
            _Copies(params, records, blocks, phase=f"trying {name}")
            for name, params in candidates.items()
        ]
        groups = min(crew.size, blocks)
        ends = run_apart([c.groups(groups) for c in copies], crew, report)
        return {
            name: c.ensembles(found, outcome)
            for name, c, (_, outcome, found) in zip(
                candidates, copies, ends, strict=True
            )
            if outcome is not Outcome.STOPPED
        }


def held_out_error(fits: list[Ensemble], records: list[Record]) -> float:
    """Return the free-run error over the blocks that the copies did not see.

    That of the median over the members of a block, root mean squared over all blocks
    and outputs, in standard deviations.
    """
    stretches, first = stretches_of(records), fits[0]
    with jax.enable_x64(True):
        data = runs_of(stretches, first.scaling)
    squares, count = 0.0, 0
    masks = held_out(stretches, len(fits), first.known)
    for fitted, hidden in zip(fits, masks, strict=True):
        with jax.enable_x64(True):
            runs = np.asarray(member_runs(fitted.model, fitted.params, data.u))
        for r, mask in enumerate(hidden):
            centre = np.median(runs[:, r, : len(mask)], axis=0)[mask]
            error = (first.scaling.scale_y(stretches[r].y)[mask] - centre) ** 2
            squares += float(np.nansum(error))
            count += int(np.isfinite(error).sum())
    return float(np.sqrt(squares / max(count, 1)))


class _Copies:
    """The copies of one model, for the blocks of `stretches.held_out`."""

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
        self.fit = FreeRunFit(model, data, settings, **more)

    def groups(self, count: int) -> list[FreeRunFit]:
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
