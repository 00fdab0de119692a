"""What was kept, and how strongly the evidence prefers it."""

from __future__ import annotations

import numpy as np
import pandas as pd

from sparsid.bayes.posterior import evidence_lost
from sparsid.results.base import FittedModel, HasResult, result_of


def weights_table(model: FittedModel | HasResult, member: int = 0) -> pd.DataFrame:
    """Return every weight kept: block, row, column, value, std, signal to noise.

    Parameters
    ----------
    member
        Which member of an ensemble; a single network has one.
    """
    places, values, posterior = result_of(model).weights(member)
    table = pd.DataFrame(places, columns=["block", "row", "column"])
    table["value"], table["std"] = values, posterior.std
    with np.errstate(divide="ignore", invalid="ignore"):
        table["signal_to_noise"] = np.abs(table["value"]) / table["std"]
    return table


def relevance(model: FittedModel | HasResult) -> pd.DataFrame:
    """Return how strongly the evidence prefers each input, lag, state and neuron.

    Columns: ``kind``, ``name``, ``weights`` (how many carry it), ``signal_to_noise``
    (root of the mean squared standardised weight) and ``evidence``: by how much the log
    evidence would fall without it, the other weights of its layer making up for it as
    they can. Above 5 is strong. For ensembles the median over members.
    ``evidence_std`` is how uncertain that is: by the weights' own uncertainty, and by
    how far members are apart. ``members`` counts those that still have it.
    """
    fitted = result_of(model)
    found = []
    for k in range(len(fitted)):
        _, flat, posterior = fitted.weights(k)
        for layer, groups in fitted.layers(k):
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
                        "variance": _evidence_variance(signal, int(np.sum(prior > 0))),
                    }
                )
    columns = ["kind", "name", "weights", "signal_to_noise", "evidence", "variance"]
    table = pd.DataFrame(found, columns=columns)
    order = table.drop_duplicates(["kind", "name"])[["kind", "name"]]
    by = table.groupby(["kind", "name"], sort=False)
    medians = by.median()
    apart = by["evidence"].var(ddof=0)
    medians["evidence_std"] = np.sqrt(medians.pop("variance") + apart)
    medians["members"] = by.size()
    return order.merge(medians.reset_index(), on=["kind", "name"])


def _evidence_variance(signal: float, weights: int) -> float:
    """Return the variance of half the sum of squared standardised weights.

    With ``w ~ N(m, C)`` the form ``w' C^-1 w`` is a noncentral chi-square of as many
    degrees of freedom as weights, ``k``. Its variance is ``2 k + 4 m' C^-1 m``.
    """
    return 0.25 * (2.0 * weights + 4.0 * weights * signal**2)


def alternatives(model: FittedModel | HasResult) -> pd.DataFrame:
    """Return what the model was compared with: candidates, other starts, members."""
    fitted = result_of(model)
    details, rows = fitted.details, []
    for trial in details.get("candidates", ()):
        chosen = trial["name"] == details.get("chosen_candidate")
        rows.append((trial["name"], trial["held_out_error"], np.nan, chosen))
    what = fitted.several_called
    for k, value in enumerate(fitted.evidences):
        chosen = k == details.get("chosen_start", k)
        rows.append((f"{what} {k + 1}", np.nan, float(value), chosen))
    return pd.DataFrame(
        rows, columns=["what", "held_out_error", "log_evidence", "chosen"]
    )
