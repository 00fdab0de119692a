"""Ensembles of latent-state models in files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparsid.bayes.noise import Noise
from sparsid.models.state_space import StateNetwork
from sparsid.results.ensemble import Ensemble
from sparsid.results.forecast import Channels
from sparsid.results.outcome import Outcome
from sparsid.results.storage.parts import (
    Arrays,
    array,
    as_arrays,
    read_factors,
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
            **{f"history.{key}": values for key, values in fitted.history.items()},
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
        "history": list(fitted.history),
        "details": fitted.details,
    }


def from_file(facts: Mapping[str, Any], arrays: Arrays) -> Ensemble:
    """Return the model in a file."""
    channels = Channels(**tupled(facts["channels"]))
    model = StateNetwork(**tupled(restored(facts["model"])))
    if (channels.n_inputs, channels.n_outputs) != (model.inputs, model.outputs):
        raise ValueError("the channels do not fit the model")
    members = len(arrays["log_evidence"])
    blocks = zip(model.blocks, model.shapes, strict=True)
    weights = sum(n * m for n, m in model.shapes)
    noise = Noise(
        *(array(arrays, f"noise.{k}", (members, model.outputs)) for k in Noise._fields)
    )
    return Ensemble(
        channels,
        read_scaling(arrays, model.inputs, model.outputs),
        model,
        tuple(array(arrays, f"params.{b.name}", (members, *s)) for b, s in blocks),
        noise,
        array(arrays, "covariance", (members, weights, weights)),
        read_prior_std(arrays, "prior_std", (members, weights)),
        array(arrays, "log_evidence", (members,)),
        int(facts["known"]),
        int(facts["dropped"]),
        read_factors(facts, model.outputs),
        float(facts["weights_kept"]),
        int(facts["weights_total"]),
        Outcome[facts["outcome"]],
        {key: arrays[f"history.{key}"] for key in facts["history"]},
        restored(facts["details"]),
    )
