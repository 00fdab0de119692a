"""The work of one trial: from a plain dictionary to a plain dictionary.

Runs in any process on any machine that has the package and the data. The test record
scores finished models only; strengths are chosen on blocks of the estimation record.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

import sparsid
from sparsid import datasets
from sparsid.data.record import Record
from sparsid.datasets.benchmark import MeanOnly, ProtocolName
from sparsid.studies.store import Result, Spec

if TYPE_CHECKING:
    from sparsid.estimators import Model

PROTOCOLS: tuple[ProtocolName, ...] = ("A", "B", "C")


def run(spec: Spec) -> Result:
    """Return the answer to a spec, in values that JSON knows."""
    return {key: _plain(value) for key, value in _KINDS[spec["kind"]](spec).items()}


def estimator(spec: Spec) -> Model:
    """Return the unfitted model of a spec."""
    if spec["method"] == "state-space":
        # Kept as the study was planned; the defaults have moved on since.
        return sparsid.StateSpace(
            hidden=(10,),
            activation="tanh",
            prior=spec["prior"],
            starts=spec["members"],
            seed=spec["seed"],
        )
    return sparsid.NARX(
        lags=spec["lags"],
        hidden=tuple(spec["hidden"]),
        activation=spec["activation"],
        prior=spec["prior"],
        method=spec["method"],
        strength=spec.get("strength"),
        max_cycles=spec["max_cycles"],
        workers=1,
        seed=spec["seed"],
    )


def first_part(record: Record, ratio: float) -> Record:
    """Return the first share of a record."""
    return record[: round(ratio * len(record))]


# -- the kinds of trials -------------------------------------------------------------


def _predict(spec: Spec) -> Result:
    """Fit to the first part of the estimation record, score one step on the test."""
    benchmark = datasets.load(spec["dataset"])
    record = first_part(benchmark.estimation, spec["ratio"])
    model = estimator(spec).fit(record)
    score = benchmark.score(MeanOnly(model), "one-step")
    counted = score.samples / len(benchmark.test_inputs)
    return {
        **_facts(model, record),
        "test_rmse": score.rmse[0],
        # The paper divides by all samples, whatever the number scored.
        "test_rmse_paper": score.rmse[0] * math.sqrt(counted),
    }


def _select(spec: Spec) -> Result:
    """Fit without one block of the estimation record, score one step on that block."""
    benchmark = datasets.load(spec["dataset"])
    record = first_part(benchmark.estimation, spec["ratio"])
    blocks = record.blocks(spec["blocks"])
    held_out = blocks.pop(spec["block"])
    model = estimator(spec).fit(blocks)
    error = sparsid.rmse(held_out, model.predict(held_out))[0]
    samples = len(held_out) - model.max_lag_
    return {"squares": samples * error**2, "samples": samples}


def _baseline(spec: Spec) -> Result:
    """Score the linear model of the same lags, and persistence, one step ahead."""
    from sparsid.studies.comparators import Persistence, linear_arx

    benchmark = datasets.load(spec["dataset"])
    record = first_part(benchmark.estimation, spec["ratio"])
    models: dict[str, Any] = {
        "arx": linear_arx(spec["lags"]).fit(record),
        "persistence": Persistence(spec["lags"]),
    }
    return {
        "title": benchmark.title,
        **{
            f"test_rmse_{name}": benchmark.score(model, "one-step").rmse[0]
            for name, model in models.items()
        },
    }


def _simulate(spec: Spec) -> Result:
    """Fit to the whole estimation record, score free runs by all three protocols."""
    benchmark = datasets.load(spec["dataset"])
    record = benchmark.estimation
    model = estimator(spec).fit(record)
    own = model.simulate(record, samples=0)
    result = {
        **_facts(model, record),
        "train_simulation_rmse": sparsid.rmse(record, own)[0],
    }
    for protocol in PROTOCOLS:
        score = benchmark.score(MeanOnly(model), protocol)
        result[f"test_rmse_{protocol}"] = score.rmse[0]
        if score.rmse_paper is not None:
            result["test_rmse_paper"] = score.rmse_paper[0]
    # For the picture: protocol B again, from the first outputs on.
    run_b = model.simulate(benchmark.reveal_test(), samples=0)
    return {**result, "simulated": _rounded(run_b.mean[:, 0])}


def _measured(spec: Spec) -> Result:
    """Return the test outputs, for the picture."""
    benchmark = datasets.load(spec["dataset"])
    test = benchmark.reveal_test()
    return {
        "title": benchmark.title,
        "time": list(test.time),
        "measured": _rounded(test.y[:, 0]),
    }


def _compare(spec: Spec) -> Result:
    """Score another model on the same data by the same protocols."""
    from sparsid.studies.comparators import fit_comparator

    benchmark = datasets.load(spec["dataset"])
    model = fit_comparator(spec["name"], benchmark.estimation)
    return {
        f"test_rmse_{protocol}": benchmark.score(model, protocol).rmse[0]
        for protocol in PROTOCOLS
    }


_KINDS = {
    "predict": _predict,
    "select": _select,
    "baseline": _baseline,
    "simulate": _simulate,
    "measured": _measured,
    "compare": _compare,
}


# -- pieces --------------------------------------------------------------------------


def _facts(model: Model, record: Record) -> Result:
    cost = model.history_["cost"]
    return {
        "kept": model.kept_,
        "log_evidence": model.log_evidence_,
        "noise_std": model.noise_std_[0],
        "cost": cost[-1],
        "cycles": len(cost),
        "outcome": model.outcome_.value,
        "train_rmse": sparsid.rmse(record, model.predict(record))[0],
        "regressors": list(getattr(model, "regressors_", ())),
    }


def _rounded(values: Any) -> list[float]:
    return [round(float(v), 4) for v in values]


def _plain(value: Any) -> Any:
    """Return a value that JSON knows; what is not finite (a diverged run) is None."""
    if isinstance(value, list):
        return [_plain(v) for v in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
