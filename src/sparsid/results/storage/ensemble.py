"""Ensembles of latent-state models in files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sparsid.bayes.noise import Noise
from sparsid.models.state_space import StateNetwork
from sparsid.results.channels import Channels
from sparsid.results.ensemble import Ensemble
from sparsid.results.outcome import Outcome
from sparsid.results.storage.parts import (
    LARGEST,
    LARGEST_EXPONENT,
    Arrays,
    as_arrays,
    bounded,
    covariances,
    history_arrays,
    history_names,
    read_factors,
    read_history,
    read_prior_std,
    read_scaling,
    restored,
    scaling_arrays,
    tupled,
)


def to_arrays(fitted: Ensemble) -> Arrays:
    """Return what a file holds as arrays."""
    blocks = zip(fitted.model.blocks, fitted.params, strict=True)
    return as_arrays(
        {
            **{f"params.{block.name}": values for block, values in blocks},
            **scaling_arrays(fitted.scaling),
            **history_arrays(fitted.history),
            **{f"noise.{k}": v for k, v in fitted.noise._asdict().items()},
            "covariance": fitted.covariance,
            "prior_std": fitted.prior_std,
            "log_evidence": fitted.log_evidence,
        }
    )


def to_facts(fitted: Ensemble) -> dict[str, Any]:
    """Return what a file holds as JSON."""
    model = fitted.model
    return {
        "channels": vars(fitted.channels),
        "model": {name: getattr(model, name) for name in model.__match_args__},
        "known": fitted.known,
        "dropped": fitted.dropped,
        "band_factors": fitted.band_factors._asdict(),
        "weights_kept": fitted.weights_kept,
        "weights_total": fitted.weights_total,
        "outcome": fitted.outcome.name,
        "history": history_names(fitted.history),
        "details": fitted.details,
    }


def from_file(facts: Mapping[str, Any], arrays: Arrays) -> Ensemble:
    """Return the model in a file."""
    channels = Channels(**tupled(facts["channels"]))
    model = StateNetwork(**tupled(restored(facts["model"])))
    if (channels.n_inputs, channels.n_outputs) != (model.inputs, model.outputs):
        raise ValueError("the channels do not fit the model")
    members = np.size(arrays["log_evidence"])
    if members < 1 or not len(model.floor) == len(model.ceiling) == model.outputs:
        raise ValueError("there is no member, or its saturation fits other outputs")
    if not all(a < b for a, b in zip(model.floor, model.ceiling, strict=True)):
        raise ValueError("an output saturates below before it does above")
    _check_sizes(model, arrays)
    blocks = zip(model.blocks, model.shapes, strict=True)
    weights = sum(n * m for n, m in model.shapes)
    noise = Noise(
        *(
            bounded(
                arrays, f"noise.{k}", (members, model.outputs), most=LARGEST_EXPONENT
            )
            for k in Noise._fields
        )
    )
    return Ensemble(
        channels,
        read_scaling(arrays, model.inputs, model.outputs),
        model,
        tuple(bounded(arrays, f"params.{b.name}", (members, *s)) for b, s in blocks),
        noise,
        covariances(arrays, "covariance", (members, weights, weights)),
        read_prior_std(arrays, "prior_std", (members, weights)),
        bounded(arrays, "log_evidence", (members,), most=LARGEST, loose=True),
        int(facts["known"]),
        int(facts["dropped"]),
        read_factors(facts, model.outputs),
        float(facts["weights_kept"]),
        int(facts["weights_total"]),
        Outcome[facts["outcome"]],
        read_history(facts, arrays),
        restored(facts["details"]),
    )


def _check_sizes(model: StateNetwork, arrays: Arrays) -> None:
    """Refuse sizes that no array has, before anything is made of that size."""
    deep = [np.shape(arrays.get(f"params.layer{k + 1}", 0)) for k in range(2)]
    wide = np.shape(arrays.get("params.start", 0))
    if len(wide) != 3 or wide[1:] != (model.records, model.states):
        raise ValueError("the start states do not fit the records and states")
    if len(deep[0]) != 3 or deep[0][1] != model.states + model.inputs + 1:
        raise ValueError("the first layer does not fit states and inputs")
    if len(model.hidden) > len(arrays):
        raise ValueError("there are more layers than arrays")
