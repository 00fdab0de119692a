"""Bands as wide as errors on held-out blocks ask for, by fitting a model again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from sparsid.checks import whole
from sparsid.data.pieces import held_out, stretches_of
from sparsid.data.record import Record
from sparsid.data.tables import as_records
from sparsid.estimators import NARX, Model, StateSpace
from sparsid.fitting.cross_validation import held_out_fits
from sparsid.fitting.state_space_structure import most_starts
from sparsid.progress import ProgressCallback
from sparsid.results.base import FittedModel
from sparsid.validation.calibration import factors_of

# With fewer blocks copies lack more of the record, and err more than the model will.
BLOCKS = 8
# Starts of a copy of an ensemble, for each block. With two, one of them poor, errors
# and bands are a matter of luck.
TRIAL_STARTS, TRIAL_CYCLES = 4, 60


def recalibrate(
    model: Model,
    u: Any,
    y: Any = None,
    *,
    blocks: int = BLOCKS,
    progress: ProgressCallback | None = None,
) -> Model:
    """Return the model with bands as wide as errors on held-out blocks ask for.

    Copies of the model are fitted, each without the outputs of one block, and
    predict and simulate through it. The fitted weights stay as they are; a model whose
    recalibration was stopped keeps its bands. A `Simulator` has such bands from the
    start, and keeps them.

    Parameters
    ----------
    u, y
        The estimation records, as given to ``fit``. Never give test data.
    blocks
        Contiguous blocks, each held out in turn.
    """
    fitted = model.fitted_
    if fitted.calibrated:
        return model
    records = as_records(u, y, fitted.channels.dt)
    blocks = whole("blocks", blocks, 2, 1000)
    copies = _copies(model, records, blocks, progress)
    if copies is not None:
        factors = factors_of(copies, records, model.max_lag_, len(fitted))
        model.fitted_ = fitted.with_bands(factors)
    return model


def trial_starts(params: dict[str, Any], records: list[Record], blocks: int) -> int:
    """Return the starts of a copy: fewer where all copies would not fit in memory."""
    return min(TRIAL_STARTS, most_starts(params, records) // blocks)


def _copies(
    model: Model, records: list[Record], blocks: int, progress: ProgressCallback | None
) -> Sequence[FittedModel] | None:
    """Return the model fitted again without each block; None if stopped."""
    if isinstance(model, StateSpace):
        params = model.get_params(deep=False)
        starts = min(params["starts"], max(trial_starts(params, records, blocks), 1))
        cycles = min(params["max_cycles"], TRIAL_CYCLES)
        params |= {"starts": starts, "max_cycles": cycles}
        return held_out_fits(params, records, blocks, progress)
    stretches = stretches_of(records)
    copies: list[FittedModel] = []
    stopped = False

    def told(step: Any) -> bool:
        nonlocal stopped
        stopped = stopped or bool(progress is not None and progress(step))
        return stopped

    for hidden in held_out(stretches, blocks, model.max_lag_):
        pairs = zip(stretches, hidden, strict=True)
        shown = [part for stretch, mask in pairs for part in _outside(stretch, mask)]
        copy: NARX = clone(model).set_params(starts=1)
        copies.append(copy.fit(shown, progress=told).fitted_)
        if stopped:
            return None
    return copies


def _outside(stretch: Record, mask: NDArray[np.bool_]) -> list[Record]:
    """Return what is before and after a block."""
    inside = np.flatnonzero(mask)
    if not inside.size:
        return [stretch]
    ends = ((0, int(inside[0])), (int(inside[-1]) + 1, len(stretch)))
    return [stretch[first:stop] for first, stop in ends if stop > first]
