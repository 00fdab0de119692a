"""Changes of structure: thresholds, folding, removal, physical shrinking.

A move takes a network and a state and returns a state. What is removed has variance
zero and weight zero, for good; physical shrinking follows in a few fixed sizes. All of
it is NumPy: states come here by ``jax.device_get``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr

from sparsid.bayes.cost import State
from sparsid.bayes.objective import Regression
from sparsid.models.network import REGRESSORS, Network

Mask = NDArray[np.bool_]

# Hidden layers are padded with removed neurons to one common width out of these: all
# runs shrink through the same few shapes and share their compilations.
LADDER = (1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
# Activations that others explain to this relative accuracy count as redundant.
COLLINEAR = 1e-10
# Deviations below this share of a signal's size are rounding.
ROUNDING = 1e-14


# -- what is there -----------------------------------------------------------------


def live_weights(state: State) -> list[Mask]:
    """Return which weights of every block are left, biases cut off."""
    masks = [p.variances() > 0 for p in state.prior]
    return [m[:-1] if p.bias else m for m, p in zip(masks, state.prior, strict=True)]


def alive(network: Network, state: State) -> dict[str, Mask]:
    """Return which entries of every axis still carry a weight.

    A neuron needs one entering and one leaving, a regressor one leaving.
    """
    entering = {axis: np.zeros(n, bool) for axis, n in network.axes.items()}
    leaving = {axis: np.zeros(n, bool) for axis, n in network.axes.items()}
    for block, mask in zip(network.blocks, live_weights(state), strict=True):
        leaving[block.rows] |= mask.any(1)
        entering[block.columns] |= mask.any(0)
    masks = {axis: entering[axis] & leaving[axis] for axis in network.hidden_axes}
    first, *_, last = network.axes
    return {first: leaving[first], **masks, last: np.ones(network.widths[-1], bool)}


def kept_weights(network: Network, state: State) -> list[int]:
    """Return the number of weights left per block, biases not counted."""
    masks = alive(network, state)
    return [
        int((live & masks[block.rows][:, None] & masks[block.columns]).sum())
        for block, live in zip(network.blocks, live_weights(state), strict=True)
    ]


# -- removal -----------------------------------------------------------------------


def clear_dead(network: Network, state: State) -> State:
    """Remove every neuron and regressor that no longer carries a weight.

    A neuron without incoming weights still emits ``f(bias)``: its constant goes into
    the next bias.
    """
    while True:
        masks = alive(network, state)
        params = list(state.params)
        for k, axis in enumerate(network.hidden_axes):
            constant = network.emit(params[k][-1]) * ~masks[axis]
            params[k + 1] = _with_bias_added(
                params[k + 1], constant @ params[k + 1][:-1]
            )
        state = state._replace(params=tuple(params))
        for b, block in enumerate(network.blocks):
            state = cut(state, b, masks[block.rows], masks[block.columns])
        if all(np.array_equal(m, masks[a]) for a, m in alive(network, state).items()):
            return state


def threshold(state: State, kappa_upsilon: float, kappa_w: float) -> State:
    """Remove what either threshold of the paper says, biases excepted.

    A weight is below if ``upsilon_ij < kappa_upsilon`` or ``|w_ij| < kappa_w``. With a
    prior on every weight it is removed; with a prior on rows and columns, rows and
    columns are removed that have nothing else.
    """
    for b, (w, p) in enumerate(zip(state.params, state.prior, strict=True)):
        keep = (p.variances() >= kappa_upsilon) & (np.abs(w) >= kappa_w)
        keep = keep[:-1] if p.bias else keep
        if p.elements is not None:
            state = drop_weights(state, b, keep)
        state = cut(state, b, keep.any(1), keep.any(0))
    return state


def drop_weights(state: State, b: int, keep: Mask) -> State:
    """Remove single weights of a block with a prior on every weight."""
    p = state.prior[b]
    assert p.elements is not None
    if p.bias:
        keep = np.concatenate([keep, np.ones((1, keep.shape[1]), bool)])
    params, prior = list(state.params), list(state.prior)
    params[b] = params[b] * keep
    prior[b] = replace(p, elements=p.elements * keep)
    return state._replace(params=tuple(params), prior=tuple(prior))


def cut(state: State, b: int, rows: Mask, columns: Mask) -> State:
    """Set weight and variance of a block's rows and columns marked False to zero."""
    if state.prior[b].bias:
        rows = np.append(rows, True)
    params, prior = list(state.params), list(state.prior)
    params[b] = params[b] * rows[:, None] * columns
    prior[b] = prior[b].masked(rows, columns)
    return state._replace(params=tuple(params), prior=tuple(prior))


# -- folding -----------------------------------------------------------------------


def fold(network: Network, state: State, data: Regression, b: int, keep: Mask) -> State:
    """Remove rows of a block, handing their work to the others by least squares.

    The signals of the removed rows are regressed on those kept and a constant; the
    result is added to the weights of the kept rows and to the bias. A row's variance
    grows with its energy.
    """
    inputs, _, _ = network.forward(state.params, data.z)
    signals = inputs[_input_of(network, b)][:, :-1]
    bias_block = b if network.blocks[b].bias else network.layers - 1
    weights = np.array(state.params[b])
    n = len(keep)
    inner = weights[:n]
    before = (inner**2).sum(1)
    design = np.column_stack([signals[:, keep], np.ones(len(signals))])
    share, *_ = np.linalg.lstsq(design, signals[:, ~keep], rcond=COLLINEAR)
    moved = share @ inner[~keep]
    # A single weight that was removed stays removed, whatever the others leave to it.
    inner[keep] += moved[:-1] * live_weights(state)[b][keep]
    inner[~keep] = 0.0
    grown = keep & (before > 0)
    growth = np.where(grown, (inner**2).sum(1) / np.where(grown, before, 1.0), 1.0)
    if network.blocks[b].bias:
        growth = np.append(growth, 1.0)
    params, prior = list(state.params), list(state.prior)
    params[b] = weights
    params[bias_block] = _with_bias_added(params[bias_block], moved[-1])
    prior[b] = prior[b].with_rows_scaled(growth)
    state = state._replace(params=tuple(params), prior=tuple(prior))
    return cut(state, b, keep, np.ones(weights.shape[1], bool))


def fold_redundant(
    network: Network, state: State, data: Regression, tolerance: float
) -> State:
    """Fold every hidden layer to the fewest neurons that leave the output unchanged.

    Neurons are ordered by pivoted QR of their centred activations, each scaled by the
    norm of its outgoing weights.

    Parameters
    ----------
    tolerance
        Largest root mean square change of the outputs, in noise standard deviations.
    """
    for b in range(1, network.layers):
        live: Mask = np.array(live_weights(state)[b].any(1))
        inputs, _, outputs = network.forward(state.params, data.z)
        a = inputs[b][:, :-1]
        norms = np.linalg.norm(state.params[b][:-1], axis=1)
        order = qr((a - a.mean(0)) * norms, mode="economic", pivoting=True)[2]
        order = order[live[order]]
        for count in [n for n in LADDER if n < len(order)]:
            keep = np.zeros(len(live), np.bool_)
            keep[order[:count]] = True
            folded = fold(network, state, data, b, keep)
            change = network.apply(folded.params, data.z) - outputs
            change = np.sqrt((change**2 / state.noise).mean())
            if change <= tolerance:
                state = folded
                break
    return clear_dead(network, state)


# -- candidates for removal --------------------------------------------------------


class Candidate(NamedTuple):
    """A row of a block, or one weight of it, and what its removal would do.

    ``chi2`` is the squared change of the outputs over the noise variance, summed over
    samples, after its work has been handed to the others.
    """

    chi2: float
    block: int
    row: int
    column: int | None


def candidates(network: Network, state: State, data: Regression) -> list[Candidate]:
    """Return all rows, and weights where the prior has them, the least needed first."""
    _, factors = network.factors(state.params, data.z)
    found = []
    for b, live in enumerate(live_weights(state)):
        rows = np.flatnonzero(live.any(1))
        weights, left = state.params[b], factors.left[b]
        right = factors.right[b] / np.sqrt(state.noise)[:, None]
        alone = _unexplained(left[:, rows])
        effect = np.einsum("toj,ij->toi", right, weights[rows])
        chi2 = ((alone[:, None, :] * effect) ** 2).sum((0, 1))
        found += [
            Candidate(float(c), b, int(i), None)
            for c, i in zip(chi2, rows, strict=True)
        ]
        if state.prior[b].elements is not None:
            squares = (left**2).T @ (right**2).sum(1)
            squares = squares[: len(live)] * weights[: len(live)] ** 2
            found += [
                Candidate(float(squares[i, j]), b, int(i), int(j))
                for i, j in np.argwhere(live)
            ]
    return sorted(found, key=lambda candidate: candidate.chi2)


def remove(
    network: Network, state: State, data: Regression, chosen: list[Candidate]
) -> State:
    """Return the state without the chosen rows and weights."""
    for b, live in enumerate(live_weights(state)):
        rows = [c.row for c in chosen if c.block == b and c.column is None]
        cells = [
            (c.row, c.column) for c in chosen if c.block == b and c.column is not None
        ]
        if rows:
            keep: Mask = np.array(live.any(1))
            keep[rows] = False
            state = fold(network, state, data, b, keep)
        if cells:
            keep = np.ones(live.shape, bool)
            keep[tuple(np.transpose(cells))] = False
            state = drop_weights(state, b, keep)
    return clear_dead(network, state)


def _unexplained(signals: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return each signal's residual after regression on the others and a constant."""
    centred = signals - signals.mean(0)
    # What is left of a constant is rounding, and must not be blown up.
    rounding = ROUNDING * np.abs(signals).max(0) + 1e-300
    spread = np.maximum(centred.std(0), rounding)
    scaled = centred / spread
    G = scaled.T @ scaled / len(scaled) + COLLINEAR * np.eye(scaled.shape[1])
    P = np.linalg.inv(G)
    return np.asarray((scaled @ P) / np.diagonal(P) * spread)


def _with_bias_added(
    weights: NDArray[np.float64], constant: NDArray[np.float64]
) -> NDArray[np.float64]:
    weights = np.array(weights)
    weights[-1] += constant
    return weights


def _input_of(network: Network, b: int) -> int:
    """Return the layer whose inputs feed a block."""
    return 0 if network.blocks[b].rows == REGRESSORS else b


# -- physical size -----------------------------------------------------------------


def shrink(
    network: Network, state: State, *, exact: bool = False
) -> tuple[Network, State, dict[str, NDArray[np.intp]]]:
    """Return the network without its removed entries, padded to a few fixed sizes.

    The third value says which entries of every axis are still there. With ``exact``
    nothing is padded.
    """
    masks = alive(network, state)
    counts = {axis: int(mask.sum()) for axis, mask in masks.items()}
    sizes = counts if exact else _padded(network, counts)
    chosen = {
        axis: np.sort(np.argsort(~mask, kind="stable")[: sizes[axis]])
        for axis, mask in masks.items()
    }
    params, prior = [], []
    for block, w, p in zip(network.blocks, state.params, state.prior, strict=True):
        rows, columns = chosen[block.rows], chosen[block.columns]
        if block.bias:
            rows = np.append(rows, len(w) - 1)
        params.append(w[rows][:, columns])
        prior.append(p.take(rows, columns))
    smaller = network.resized(sizes)
    return smaller, state._replace(params=tuple(params), prior=tuple(prior)), chosen


def _padded(network: Network, counts: dict[str, int]) -> dict[str, int]:
    """Return the sizes to pad to: regressors halved or not, hidden layers alike."""
    sizes = dict(network.axes)
    half = (sizes[REGRESSORS] + 1) // 2
    while half < sizes[REGRESSORS] and counts[REGRESSORS] <= half:
        sizes[REGRESSORS], half = half, (half + 1) // 2
    widest = max((counts[axis] for axis in network.hidden_axes), default=1)
    rung = min([n for n in LADDER if n >= widest], default=widest)
    for axis in network.hidden_axes:
        sizes[axis] = min(rung, sizes[axis])
    return sizes
