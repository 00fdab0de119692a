"""What was kept, and how strongly the evidence prefers it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from sparsid.bayes.curvature.forms import unflatten
from sparsid.bayes.posterior import Posterior, evidence_lost
from sparsid.estimators import Model
from sparsid.results.ensemble import Ensemble
from sparsid.results.narx import Fitted


def weights_table(model: Model, member: int = 0) -> pd.DataFrame:
    """Return every weight kept: block, row, column, value, std, signal to noise.

    Parameters
    ----------
    member
        Which member of an ensemble; a single network has one.
    """
    params, posterior, structure = _weights(model.fitted_, member)
    stds = unflatten(posterior.std, params)
    rows = [
        (block.name, i, j, float(value), float(std[i, j]))
        for block, values, std in zip(structure.blocks, params, stds, strict=True)
        for (i, j), value in np.ndenumerate(values)
    ]
    names = ["block", "row", "column", "value", "std"]
    table = pd.DataFrame(rows, columns=names)
    with np.errstate(divide="ignore", invalid="ignore"):
        table["signal_to_noise"] = np.abs(table["value"]) / table["std"]
    return table


def relevance(model: Model) -> pd.DataFrame:
    """Return how strongly the evidence prefers each input, lag, state and neuron.

    Columns: ``kind``, ``name``, ``weights`` (how many carry it), ``signal_to_noise``
    (root of the mean squared standardised weight) and ``evidence``: by how much the log
    evidence would fall without it, the other weights of its layer making up for it as
    they can. Above 5 is strong. For ensembles the median over members.
    """
    fitted = model.fitted_
    members = range(len(fitted)) if isinstance(fitted, Ensemble) else range(1)
    found = []
    for k in members:
        params, posterior, structure = _weights(fitted, k)
        flat = np.concatenate([np.asarray(w).ravel() for w in params])
        for layer, groups in _layers(fitted, structure, params):
            # Two layers can trade scale at no cost, which would hide what either does:
            # the others are held.
            covariance = posterior.given(layer)
            for kind, name, group in groups:
                at = np.flatnonzero(np.isin(layer, group))
                prior = posterior.prior_std[layer[at]]
                evidence, signal = evidence_lost(
                    flat[layer[at]], covariance[np.ix_(at, at)], prior
                )
                found.append(
                    {
                        "kind": kind,
                        "name": name,
                        "weights": int((flat[group] != 0.0).sum()),
                        "signal_to_noise": signal,
                        "evidence": evidence,
                    }
                )
    columns = ["kind", "name", "weights", "signal_to_noise", "evidence"]
    table = pd.DataFrame(found, columns=columns)
    order = table.drop_duplicates(["kind", "name"])[["kind", "name"]]
    medians = table.groupby(["kind", "name"], sort=False).median().reset_index()
    return order.merge(medians, on=["kind", "name"])


def _weights(fitted: Fitted | Ensemble, member: int) -> tuple[Any, Posterior, Any]:
    if isinstance(fitted, Ensemble):
        member = range(len(fitted))[member]
        params = tuple(np.asarray(w[member]) for w in fitted.params)
        return params, fitted.posterior(member), fitted.model
    return fitted.params, fitted.posterior, fitted.network


class _Group(NamedTuple):
    """What a group is of, its name, and the numbers of its weights among all."""

    kind: str
    name: str
    weights: NDArray[np.int64]


def _layers(
    fitted: Fitted | Ensemble, structure: Any, params: Any
) -> Iterator[tuple[NDArray[np.int64], list[_Group]]]:
    """Yield the weights of each layer, by number, and the groups in it."""
    size = sum(np.size(w) for w in params)
    places = unflatten(np.arange(size), params)
    blocks = {b.name: p for b, p in zip(structure.blocks, places, strict=True)}
    names = ("layer1", "linear", "drive", "coupling")
    first = {name: blocks[name] for name in names if name in blocks}
    layer = np.concatenate([block.ravel() for block in first.values()])
    if isinstance(fitted, Ensemble):
        yield layer, _entering_states(fitted, first)
    else:
        rows = [
            np.concatenate([block[i] for block in first.values()])
            for i in range(len(fitted.regressors))
        ]
        named = zip(fitted.regressor_names, rows, strict=True)
        yield layer, [_Group("regressor", name, row) for name, row in named]
    number = 1
    while f"layer{number + 1}" in blocks:
        after = blocks[f"layer{number + 1}"]
        yield (
            after.ravel(),
            [
                _Group("neuron", f"layer {number}, neuron {j}", row)
                for j, row in enumerate(after[:-1], 1)
            ],
        )
        number += 1


def _entering_states(
    fitted: Ensemble, first: dict[str, NDArray[np.int64]]
) -> list[_Group]:
    """Return the groups of inputs and states, by what they do to the states."""
    channels, states = fitted.channels, fitted.model.states
    groups = []
    for i, name in enumerate(channels.input_names):
        rows = [first["layer1"][states + i], first["drive"][i]]
        groups.append(_Group("input", name, np.concatenate(rows)))
    hidden = [f"state {k + 1}" for k in range(channels.n_outputs, states)]
    for i, name in enumerate([*channels.output_names, *hidden]):
        # What a state does to others: its own leak stays.
        acts = [first["layer1"][i], first["coupling"][i][:i]]
        groups.append(_Group("state", name, np.concatenate(acts)))
    return groups


def alternatives(model: Model) -> pd.DataFrame:
    """Return what the model was compared with: candidates, other starts, members."""
    details, rows = model.fitted_.details, []
    for trial in details.get("candidates", ()):
        chosen = trial["name"] == details.get("chosen_candidate")
        rows.append((trial["name"], trial["held_out_error"], np.nan, chosen))
    if isinstance(model.fitted_, Ensemble):
        for k, value in enumerate(model.fitted_.log_evidence, 1):
            rows.append((f"member {k}", np.nan, float(value), True))
    else:
        for k, start in enumerate(details.get("starts", ())):
            chosen = k == details.get("chosen_start")
            value = np.nan if start["log_evidence"] is None else start["log_evidence"]
            rows.append((f"start {k + 1}", np.nan, float(value), chosen))
    return pd.DataFrame(
        rows, columns=["what", "held_out_error", "log_evidence", "chosen"]
    )
