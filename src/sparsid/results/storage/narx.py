"""NARX models in files."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from sparsid.bayes.noise import Noise
from sparsid.bayes.posterior import Posterior
from sparsid.models.narx import Lags, Regressor
from sparsid.models.network import Network
from sparsid.results.channels import Channels
from sparsid.results.narx import Fitted
from sparsid.results.narx_free_run import RunFitted
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

# Weights before pruning, beyond which there is no memory for a fit.
LARGEST_START = 10**8


def to_arrays(fitted: Fitted) -> Arrays:
    """Return what a file holds as arrays."""
    blocks = zip(fitted.network.blocks, fitted.params, strict=True)
    arrays: dict[str, Any] = {
        **{f"params.{block.name}": values for block, values in blocks},
        **scaling_arrays(fitted.scaling),
        **history_arrays(fitted.history),
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
        "history": history_names(fitted.history),
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
    start_widths = tuple(facts["start_widths"])
    outcome = Outcome[facts["outcome"]]
    # The weights of a fit that diverged are not finite.
    loose = outcome is Outcome.DIVERGED
    _check_structure(channels, lags, regressors, network)
    _check_start(start_widths, lags, network, facts["weights_total"])
    inputs, outputs = lags.n_inputs, lags.n_outputs
    shapes = dict(zip((b.name for b in network.blocks), network.shapes, strict=True))
    weights = sum(n * m for n, m in network.shapes)
    covariance = None
    if "posterior.covariance" in arrays:
        shape = (weights, weights)
        covariance = covariances(arrays, "posterior.covariance", shape, loose=loose)
    more = _run_parts(facts, arrays, outputs)
    return (RunFitted if more else Fitted)(
        channels=channels,
        scaling=read_scaling(arrays, inputs, outputs),
        lags=lags,
        regressors=regressors,
        network=network,
        params=tuple(
            bounded(arrays, f"params.{k}", s, loose=loose) for k, s in shapes.items()
        ),
        noise=bounded(arrays, "noise", (outputs,), least=0.0, loose=loose),
        posterior=Posterior(
            bounded(arrays, "posterior.std", (weights,), least=0.0, loose=True),
            covariance,
            read_prior_std(arrays, "posterior.prior_std", (weights,)),
        ),
        start_outputs=bounded(arrays, "start_outputs", (outputs,)),
        start_widths=start_widths,
        band_factors=read_factors(facts, outputs),
        weights_kept=int(facts["weights_kept"]),
        weights_total=int(facts["weights_total"]),
        log_evidence=float(
            bounded(arrays, "log_evidence", (), most=LARGEST, loose=True)
        ),
        outcome=outcome,
        history=read_history(facts, arrays),
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
    loose = facts["outcome"] == Outcome.DIVERGED.name
    parts = (
        bounded(arrays, f"noise.{k}", (outputs,), most=LARGEST_EXPONENT, loose=loose)
        for k in Noise._fields
    )
    return {
        "window": None if facts["window"] is None else int(facts["window"]),
        "parts": Noise(*parts),
        "starts": bounded(arrays, "starts", shape, loose=loose),
        "start_std": bounded(arrays, "start_std", shape, least=0.0, loose=loose),
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
    if len(set(regressors)) < len(regressors):
        raise ValueError("a regressor is there twice")
    for signal, channel, lag in regressors:
        ours, first, last = (
            (lags.n_inputs, lags.delay, lags.delay + lags.input_lags)
            if signal == "u"
            else (lags.n_outputs, 1, lags.output_lags)
        )
        if not (channel < ours and first <= lag <= last):
            raise ValueError(f"there is no regressor {signal, channel, lag}")


def _check_start(
    start: tuple[int, ...], lags: Lags, network: Network, total: int
) -> None:
    """Refuse sizes before the fit that are not those of this network."""
    regressors = lags.n_inputs * (lags.input_lags + 1)
    regressors += lags.n_outputs * lags.output_lags
    if (start[0], start[-1]) != (regressors, lags.n_outputs):
        raise ValueError(f"the widths at the start, {start}, do not fit the lags")
    layers = sum(n * m for n, m in pairwise(start))
    if layers + network.linear_path * start[0] * start[-1] != total:
        raise ValueError(f"the widths at the start, {start}, have no {total} weights")
    if total > LARGEST_START or len(start) < len(network.widths):
        raise ValueError(f"the widths at the start, {start}, are of no fit")
