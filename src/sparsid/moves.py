"""Changes of structure: thresholds, folding, removal, physical shrinking.

A move takes a network and a state and returns others. What is removed has variance zero
and weight zero, for good; physical shrinking follows in a few fixed sizes.
"""

from __future__ import annotations

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr

from sparsid.evidence import State
from sparsid.models.network import REGRESSORS, Network, Params
from sparsid.objectives import Regression

Mask = NDArray[np.bool_]

# Axes are padded with removed entries up to one of these sizes, so that shrinking a
# network step by step meets few distinct shapes and few compilations.
LADDER = (1, 2, 4, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96)


def alive(network: Network, state: State) -> dict[str, Mask]:
    """Return which entries of every axis still carry a weight."""
    masks = {}
    live = [np.asarray(p.variances() > 0) for p in state.prior]
    for axis, size in network.axes.items():
        entering, leaving = np.zeros(size, bool), np.zeros(size, bool)
        for block, mask in zip(network.blocks, live, strict=True):
            inner = mask[:-1] if block.bias else mask
            if block.rows == axis:
                leaving |= inner.any(1)
            if block.columns == axis:
                entering |= inner.any(0)
        if axis == REGRESSORS:
            masks[axis] = leaving
        elif axis in network.hidden_axes:
            masks[axis] = entering & leaving
        else:
            masks[axis] = np.ones(size, bool)
    return masks


def keep_only(network: Network, state: State, keep: dict[str, Mask]) -> State:
    """Return the state with weight and variance zero where an axis entry is False."""
    params, prior = [], []
    for block, w, p in zip(network.blocks, state.params, state.prior, strict=True):
        rows = keep.get(block.rows, np.ones(network.axes[block.rows], bool))
        columns = keep.get(block.columns, np.ones(network.axes[block.columns], bool))
        if block.bias:
            rows = np.append(rows, True)
        params.append(w * rows[:, None] * columns)
        prior.append(p.masked(jnp.asarray(rows), jnp.asarray(columns)))
    return state._replace(params=tuple(params), prior=tuple(prior))


def sweep(network: Network, state: State) -> State:
    """Remove every neuron and regressor that no longer carries a weight.

    A neuron without incoming weights still emits ``f(bias)``: its constant goes into
    the next bias.
    """
    while True:
        masks = alive(network, state)
        params = list(state.params)
        for k, axis in enumerate(network.hidden_axes):
            constant = network.emit(params[k][-1]) * ~masks[axis]
            params[k + 1] = params[k + 1].at[-1].add(constant @ params[k + 1][:-1])
        state = keep_only(network, state._replace(params=tuple(params)), masks)
        if all(np.array_equal(m, masks[a]) for a, m in alive(network, state).items()):
            return state


def threshold(state: State, kappa_upsilon: float, kappa_w: float) -> State:
    """Remove what either threshold of the paper says, biases excepted.

    A weight is below if ``upsilon_ij < kappa_upsilon`` or ``|w_ij| < kappa_w``. With a
    prior on every weight it is removed; with a prior on rows and columns, rows and
    columns are removed that have nothing else.
    """
    params, prior = [], []
    for w, p in zip(state.params, state.prior, strict=True):
        keep = np.asarray((p.variances() >= kappa_upsilon) & (jnp.abs(w) >= kappa_w))
        inner = keep[:-1] if p.bias else keep
        columns, rows = inner.any(0), inner.any(1)
        if p.bias:
            rows = np.append(rows, True)
            keep[-1] = True
        p = p.masked(jnp.asarray(rows), jnp.asarray(columns))
        w = w * rows[:, None] * columns
        if p.elements is not None:
            p = replace(p, elements=p.elements * keep)
            w = w * keep
        params.append(w)
        prior.append(p)
    return state._replace(params=tuple(params), prior=tuple(prior))


def fold(
    network: Network, state: State, data: Regression, axis: str, keep: Mask
) -> State:
    """Remove neurons, handing their work to the others by least squares.

    The activations of the removed neurons are regressed on those kept and a constant;
    the result is added to the outgoing weights and the next bias. The variance of an
    outgoing row grows with its energy.
    """
    k = network.hidden_axes.index(axis)
    a = np.asarray(network.activations(state.params, data.z)[axis])
    outgoing = np.array(state.params[k + 1])
    before = (outgoing[:-1] ** 2).sum(1)
    design = np.column_stack([a[:, keep], np.ones(len(a))])
    share, *_ = np.linalg.lstsq(design, a[:, ~keep], rcond=1e-10)
    moved = share @ outgoing[:-1][~keep]
    outgoing[:-1][keep] += moved[:-1]
    outgoing[-1] += moved[-1]
    outgoing[:-1][~keep] = 0.0
    after = (outgoing[:-1] ** 2).sum(1)
    growth = np.where(keep & (before > 0), after / np.where(before > 0, before, 1), 1.0)
    params = list(state.params)
    params[k + 1] = jnp.asarray(outgoing)
    prior = list(state.prior)
    prior[k + 1] = prior[k + 1].scaled(
        jnp.asarray(np.append(growth, 1.0)), jnp.ones(outgoing.shape[1])
    )
    folded = state._replace(params=tuple(params), prior=tuple(prior))
    return keep_only(network, folded, {axis: keep})


def fold_order(
    network: Network, params: Params, data: Regression, axis: str
) -> NDArray[np.intp]:
    """Return the neurons of an axis, the least redundant first.

    Pivoted QR of the centred activations, each scaled by its outgoing weights' norm.
    """
    k = network.hidden_axes.index(axis)
    a = np.asarray(network.activations(params, data.z)[axis])
    norms = np.linalg.norm(np.asarray(params[k + 1])[:-1], axis=1)
    _, _, order = qr((a - a.mean(0)) * norms, mode="economic", pivoting=True)
    return np.asarray(order)


def fold_redundant(
    network: Network, state: State, data: Regression, tolerance: float
) -> State:
    """Fold every hidden layer to the fewest neurons that leave the output unchanged.

    Parameters
    ----------
    tolerance
        Largest root mean square change of the outputs, in noise standard deviations.
    """
    for axis in network.hidden_axes:
        live = alive(network, state)[axis]
        order = fold_order(network, state.params, data, axis)
        order = order[live[order]]
        reference = np.asarray(network.apply(state.params, data.z))
        for count in [n for n in LADDER if n < len(order)]:
            keep = np.zeros(len(live), bool)
            keep[order[:count]] = True
            folded = fold(network, state, data, axis, keep)
            change = np.asarray(network.apply(folded.params, data.z)) - reference
            change = np.sqrt((change**2 / np.asarray(state.noise)).mean())
            if change <= tolerance:
                state = folded
                break
    return sweep(network, state)


def shrink(
    network: Network, state: State, *, exact: bool = False
) -> tuple[Network, State, dict[str, NDArray[np.intp]]]:
    """Return the network without its removed entries, padded to the ladder's sizes.

    The third value says which entries of every axis are still there. With ``exact``
    nothing is padded, except that an axis keeps at least one entry.
    """
    chosen = {}
    for axis, mask in alive(network, state).items():
        order = np.argsort(~mask, kind="stable")
        count = int(mask.sum())
        size = max(count, 1) if exact else _rung(count, len(mask))
        chosen[axis] = np.sort(order[:size])
    params, prior = [], []
    for block, w, p in zip(network.blocks, state.params, state.prior, strict=True):
        rows, columns = chosen[block.rows], chosen[block.columns]
        if block.bias:
            rows = np.append(rows, len(w) - 1)
        params.append(w[rows][:, columns])
        prior.append(p.take(jnp.asarray(rows), jnp.asarray(columns)))
    smaller = network.resized({axis: len(index) for axis, index in chosen.items()})
    return smaller, state._replace(params=tuple(params), prior=tuple(prior)), chosen


def _rung(count: int, size: int) -> int:
    return min([n for n in LADDER if n >= count] + [size])
