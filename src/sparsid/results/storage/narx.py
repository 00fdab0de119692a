"""NARX models in files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sparsid.bayes.noise import Noise
from sparsid.bayes.posterior import Posterior
from sparsid.models.narx import Lags, Regressor
from sparsid.models.network import Network
from sparsid.results.forecast import Channels
from sparsid.results.narx import Fitted
from sparsid.results.narx_free_run import RunFitted
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


def to_arrays(fitted: Fitted) -> Arrays:
    """Return what a file holds as arrays."""
    blocks = zip(fitted.network.blocks, fitted.params, strict=True)
    arrays: dict[str, Any] = {
        **{f"params.{block.name}": values for block, values in blocks},
        **scaling_arrays(fitted.scaling),
        **{f"history.{key}": values for key, values in fitted.history.items()},
        "noise": fitted.noise,
        "log_evidence": fitted.log_evidence,
        "start_outputs": fitted.start_outputs,
        "posterior.std": fitted.posterior.std,
        "posterior.prior_std": fitted.posterior.prior_std,
    }
    if fitted.posterior.covariance is not None:
        arrays["posterior.covariance"] = fitted.posterior.covariance
    return as_arrays(arrays | fitted.run_arrays())


def to_facts(fitted: Fitted) -> dict[str, Any]:
    """Return what a file holds as JSON."""
    network = fitted.network
    return {
        "channels": vars(fitted.channels),
        "lags": vars(fitted.lags),
        "regressors": fitted.regressors,
        "network": {
            "widths": network.widths,
            "activation": network.activation,
            "linear_path": network.linear_path,
        },
        "start_widths": fitted.start_widths,
        "band_factors": fitted.band_factors._asdict(),
        "weights_kept": fitted.weights_kept,
        "weights_total": fitted.weights_total,
        "outcome": fitted.outcome.name,
        "history": list(fitted.history),
        "details": fitted.details,
        **fitted.run_facts(),
    }


def from_file(facts: Mapping[str, Any], arrays: Arrays) -> Fitted:
    """Return the model in a file."""
    channels = Channels(**tupled(facts["channels"]))
    lags = Lags(**facts["lags"])
    network = Network(
        tuple(int(n) for n in facts["network"]["widths"]),
        facts["network"]["activation"],
        bool(facts["network"]["linear_path"]),
    )
    regressors = tuple(Regressor(*row) for row in facts["regressors"])
    _check_structure(channels, lags, regressors, network)
    inputs, outputs = lags.n_inputs, lags.n_outputs
    shapes = dict(zip((b.name for b in network.blocks), network.shapes, strict=True))
    weights = sum(n * m for n, m in network.shapes)
    covariance = None
    if "posterior.covariance" in arrays:
        covariance = array(arrays, "posterior.covariance", (weights, weights))
    history = {key: arrays[f"history.{key}"] for key in facts["history"]}
    more = _run_parts(facts, arrays, outputs)
    return (RunFitted if more else Fitted)(
        channels=channels,
        scaling=read_scaling(arrays, inputs, outputs),
        lags=lags,
        regressors=regressors,
        network=network,
        params=tuple(array(arrays, f"params.{k}", s) for k, s in shapes.items()),
        noise=array(arrays, "noise", (outputs,)),
        posterior=Posterior(
            array(arrays, "posterior.std", (weights,)),
            covariance,
            read_prior_std(arrays, "posterior.prior_std", (weights,)),
        ),
        start_outputs=array(arrays, "start_outputs", (outputs,)),
        start_widths=tuple(int(n) for n in facts["start_widths"]),
        band_factors=read_factors(facts, outputs),
        weights_kept=int(facts["weights_kept"]),
        weights_total=int(facts["weights_total"]),
        log_evidence=float(array(arrays, "log_evidence", ())),
        outcome=Outcome[facts["outcome"]],
        history=history,
        details=restored(facts["details"]),
        **more,
    )


def _run_parts(
    facts: Mapping[str, Any], arrays: Arrays, outputs: int
) -> dict[str, Any]:
    """Return what only models fitted to their free run have."""
    if "window" not in facts:
        return {}
    shape = np.shape(arrays["starts"])
    if len(shape) != 3 or shape[2] != outputs:
        raise ValueError(f"the start outputs have shape {shape}, which does not fit")
    parts = (array(arrays, f"noise.{k}", (outputs,)) for k in Noise._fields)
    return {
        "window": None if facts["window"] is None else int(facts["window"]),
        "parts": Noise(*parts),
        "starts": array(arrays, "starts", shape),
        "start_std": array(arrays, "start_std", shape),
    }


def _check_structure(
    channels: Channels, lags: Lags, regressors: tuple[Regressor, ...], network: Network
) -> None:
    """Refuse parts that do not fit each other."""
    counts = (len(channels.input_names), len(channels.output_names))
    if counts != (lags.n_inputs, lags.n_outputs):
        raise ValueError(f"the channels number {counts}, the lags are for others")
    if (network.widths[0], network.widths[-1]) != (len(regressors), lags.n_outputs):
        raise ValueError(f"the network has widths {network.widths}, which do not fit")
    strangers = set(regressors) - set(lags.table)
    if strangers:
        raise ValueError(f"there is no regressor {strangers.pop()}")
