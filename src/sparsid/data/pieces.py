"""Stretches of records for free runs: cut at gaps of the inputs, and laid side by side.

Outputs may be missing within a stretch: a run goes through with the inputs alone.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from sparsid.data.record import Record
from sparsid.data.runs import Runs
from sparsid.data.scaling import Scaling

# Outputs at an extreme that count as saturation: so many in a row, so often, and such a
# share of all.
IN_A_ROW, FEWEST_STAYS, SATURATED_SHARE = 3, 2, 0.005
# Once is enough in a signal that never rests and was not about to: equal neighbours
# elsewhere are at most this share, and it arrived by this share of its typical step.
RESTING_SHARE, ARRIVAL = 0.01, 0.01
# A piece of a record serves if of every output this share was measured.
SHOWN_SHARE = 0.5


def stretches_of(records: list[Record]) -> list[Record]:
    """Return the stretches of which all inputs were measured."""
    stretches = []
    for record in records:
        missing = np.isnan(record.u).any(1)
        edges = np.flatnonzero(np.diff(np.concatenate([[True], missing, [True]])))
        for first, stop in zip(edges[::2], edges[1::2], strict=True):
            if stop - first >= 2:
                stretches.append(record[int(first) : int(stop)])
    return stretches


def runs_of(stretches: list[Record], scaling: Scaling) -> Runs:
    """Return the stretches as one array, filled up to the longest."""
    length = max(len(s) for s in stretches)

    def filled(values: Any) -> Any:
        missing = ((0, length - len(values)), (0, 0))
        return np.pad(values, missing, mode="edge")

    u = np.stack([filled(scaling.scale_u(s.u)) for s in stretches])
    y = [scaling.scale_y(s.y) for s in stretches]
    measured = np.stack(
        [np.pad(~np.isnan(v), ((0, length - len(v)), (0, 0))) for v in y]
    )
    y = np.nan_to_num(np.stack([filled(v) for v in y]))
    return Runs(*(jnp.asarray(a, float) for a in (u, y, measured)))


def excerpts(records: list[Record], samples: int, length: int) -> list[Record]:
    """Return the records, or pieces spread over them with about so many samples in all.

    Where pieces would miss what the records show, the records it is.

    Parameters
    ----------
    length
        Of a piece, at most.
    """
    if sum(len(r) for r in records) <= samples:
        return records
    pieces = [
        stretch[first : first + length]
        for stretch in stretches_of(records)
        for first in range(0, max(len(stretch) - length // 2, 1), length)
    ]
    pieces = [p for p in pieces if np.isfinite(p.y).mean(0).min() >= SHOWN_SHARE]
    if not pieces:
        return records
    # Side by side all count as the longest; long ones are chosen more often.
    sizes = np.array([len(p) for p in pieces])
    count = max(samples // int(sizes.max()), 1)
    places = (np.arange(count) + 0.5) / count * sizes.sum()
    chosen = np.unique(np.searchsorted(np.cumsum(sizes), places, side="right"))
    found = [pieces[k] for k in chosen]
    values = np.concatenate([np.hstack([p.u, p.y]) for p in found])
    moves = np.nanmax(values, axis=0) > np.nanmin(values, axis=0)
    return found if moves.all() else records


def held_out(
    stretches: list[Record], blocks: int, known: int
) -> list[list[NDArray[np.bool_]]]:
    """Return, block by block and stretch by stretch, which samples are held out.

    Blocks are contiguous and of equal size, over all stretches together. The first
    ``known`` samples of a stretch are never held out: they settle where a run starts.
    """
    sizes = [max(len(s) - known, 0) for s in stretches]
    edges = np.linspace(0, sum(sizes), blocks + 1).round()
    firsts = np.cumsum([0, *sizes[:-1]])
    masks: list[list[NDArray[np.bool_]]] = []
    for low, high in pairwise(edges):
        masks.append([])
        for stretch, first in zip(stretches, firsts, strict=True):
            place = np.arange(len(stretch)) - known + first
            inside = (place >= low) & (place < high)
            inside[:known] = False
            masks[-1].append(inside)
    return masks


def saturation(signals: list[NDArray[np.float64]]) -> float | None:
    """Return the value at which signals stop rising, if they do.

    That shows as many samples at exactly the largest value, several in a row. A signal
    may also come to rest at its extreme, but then it does so once, and slowly.
    """
    values = np.concatenate(signals)
    top = float(np.nanmax(values))
    steps = np.concatenate([np.diff(v) for v in signals])
    steps = np.abs(steps[np.isfinite(steps)])
    arrivals, held = [], 0
    for v in signals:
        edges = np.flatnonzero(np.diff(np.concatenate([[0], v == top, [0]])))
        firsts, lengths = edges[::2], edges[1::2] - edges[::2]
        # A stretch that begins at its extreme was not seen to arrive there.
        seen = (lengths >= IN_A_ROW) & (firsts > 0)
        arrivals += [top - v[first - 1] for first in firsts[seen]]
        held += int((lengths[seen] - 1).sum())
    if not arrivals or (values == top).sum() < SATURATED_SHARE * len(values):
        return None
    if len(arrivals) >= FEWEST_STAYS:
        return top
    rests = int((steps == 0).sum()) - held > RESTING_SHARE * (len(steps) - held)
    moving = steps[steps > 0]
    slow = not arrivals[0] > ARRIVAL * np.sqrt(np.mean(moving**2))
    return None if rests or slow else top
