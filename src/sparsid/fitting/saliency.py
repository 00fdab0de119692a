"""What a free run would lose with a row of weights, to second order.

Folding and the change of the outputs, which order removals one step ahead, say little
about a run: an effect that is small at one sample may add up. The posterior covariance
``C`` knows the whole run. Removing the weights ``g`` and letting all others (and the
start outputs) take over raises the fitted cost by ``w_g' (C_gg)^-1 w_g``, and the
others move by ``-C_og (C_gg)^-1 w_g``: optimal brain surgery, by groups. Whether a
removal is kept is for the cost to say.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsid.bayes.cost import State
from sparsid.bayes.curvature.pieces import unflatten
from sparsid.fitting.pruning import (
    Candidate,
    Mask,
    clear_dead,
    cut,
    drop_weights,
    live_weights,
)
from sparsid.models.network import Network

# Added to correlations before they are inverted: what is less is rounding.
RIDGE = 1e-12


def candidates(state: State, C: NDArray[np.float64]) -> list[Candidate]:
    """Return all rows, and weights where the prior has them, the least needed first.

    Parameters
    ----------
    state
        Weights of the network, without start outputs.
    C
        Covariance of these weights, first, and of whatever else was fitted.
    """
    found = []
    for b, live in enumerate(live_weights(state)):
        for i in np.flatnonzero(live.any(1)):
            place = _places(state)[b][i, live[i]]
            found.append(Candidate(_rise(state, C, place)[0], b, int(i), None))
        if state.prior[b].elements is not None:
            for i, j in np.argwhere(live):
                place = _places(state)[b][i, [j]]
                found.append(Candidate(_rise(state, C, place)[0], b, int(i), int(j)))
    return sorted(found, key=lambda candidate: candidate.chi2)


def remove(
    network: Network,
    state: State,
    start: NDArray[np.float64],
    C: NDArray[np.float64],
    chosen: list[Candidate],
) -> tuple[State, NDArray[np.float64]]:
    """Return weights and start outputs without the chosen rows and weights."""
    places, live = _places(state), live_weights(state)
    gone = [
        places[c.block][c.row, live[c.block][c.row]]
        if c.column is None
        else places[c.block][c.row, [c.column]]
        for c in chosen
    ]
    moved = _rise(state, C, np.unique(np.concatenate(gone)))[1]
    *params, start = unflatten(
        np.concatenate([_flat(state.params), start.ravel()]) - moved,
        (*state.params, start),
    )
    state = state._replace(params=tuple(params))
    for b, present in enumerate(live):
        keep: Mask = np.array(present)
        for c in chosen:
            if c.block == b:
                keep[c.row, slice(None) if c.column is None else c.column] = False
        if state.prior[b].elements is not None:
            state = drop_weights(state, b, keep)
        rows: Mask = np.array(keep.any(1))
        state = cut(state, b, rows, np.ones(keep.shape[1], np.bool_))
    return clear_dead(network, state), start


def _rise(
    state: State, C: NDArray[np.float64], gone: NDArray[np.intp]
) -> tuple[float, NDArray[np.float64]]:
    """Return the rise of the cost without some weights, and the move of all others."""
    std = np.sqrt(np.maximum(np.diagonal(C), 0.0))
    scale = np.where(std > 0, std, 1.0)
    R = C / scale / scale[:, None]
    w = _flat(state.params)[gone] / scale[gone]
    pull = np.linalg.solve(R[np.ix_(gone, gone)] + RIDGE * np.eye(len(gone)), w)
    return float(w @ pull), scale * (R[:, gone] @ pull)


def _flat(params: Any) -> NDArray[np.float64]:
    return np.concatenate([np.ravel(w) for w in params])


def _places(state: State) -> tuple[NDArray[np.intp], ...]:
    """Return where the weights of every block are among all, flattened."""
    size = sum(np.size(w) for w in state.params)
    return unflatten(np.arange(size), state.params)
