"""The work of one trial: from a plain dictionary to a plain dictionary.

Runs in any process on any machine that has the package and the data. The test record
scores finished models only; strengths are chosen on blocks of the estimation record.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import sparsid
from sparsid import datasets
from sparsid.records import Record
from sparsid.studies.store import Result, Spec


def run(spec: Spec) -> Result:
    """Return the answer to a spec."""
    return _KINDS[spec["kind"]](spec)


def estimator(spec: Spec) -> sparsid.NARX:
    """Return the unfitted model of a spec."""
    return sparsid.NARX(
        lags=spec["lags"],
        hidden=tuple(spec["hidden"]),
        prior=spec["prior"],
        method=spec["method"],
        strength=spec.get("strength"),
        activation=spec.get("activation", "tanh"),
        max_cycles=spec["max_cycles"],
        workers=1,
        seed=spec["repeat"],
    )


def first_part(record: Record, ratio: float) -> Record:
    """Return the first share of a record."""
    return record[: round(ratio * len(record))]


def _facts(model: sparsid.NARX, record: Record) -> Result:
    history = model.history_
    return {
        "kept": model.kept_,
        "log_evidence": model.log_evidence_,
        "noise_std": float(model.noise_std_[0]),
        "cost": float(history["cost"][-1]),
        "cycles": len(history["cost"]),
        "outcome": model.outcome_.value,
        "train_rmse": float(sparsid.rmse(record, model.predict(record))[0]),
        "regressors": list(model.regressors_),
    }


def _predict(spec: Spec) -> Result:
    """Fit to the first part of the estimation record, score one step on the test."""
    benchmark = datasets.load(spec["dataset"])
    record = first_part(benchmark.estimation, spec["ratio"])
    model = estimator(spec).fit(record)
    score = benchmark.score(model, "one-step")
    total = len(benchmark.test_inputs)
    error = float(score.rmse[0])
    return {
        **_facts(model, record),
        "test_rmse": error,
        # The paper divides by all samples, whatever the number scored.
        "test_rmse_paper": error * float(np.sqrt(score.samples / total)),
    }


def _select(spec: Spec) -> Result:
    """Fit without one block of the estimation record, score one step on that block."""
    benchmark = datasets.load(spec["dataset"])
    record = first_part(benchmark.estimation, spec["ratio"])
    blocks = record.blocks(spec["blocks"])
    held_out = blocks.pop(spec["block"])
    model = estimator(spec).fit(blocks)
    errors = held_out.y - model.predict(held_out).mean
    errors = errors[np.isfinite(errors).all(1)]
    return {"squares": float((errors**2).sum()), "samples": len(errors)}


def _simulate(spec: Spec) -> Result:
    """Fit to the whole estimation record, score free runs by all three protocols."""
    benchmark = datasets.load(spec["dataset"])
    record = benchmark.estimation
    model = estimator(spec).fit(record)
    result = _facts(model, record)
    for protocol in ("A", "B", "C"):
        score = benchmark.score(model, protocol)
        result[f"test_rmse_{protocol}"] = _finite(score.rmse[0])
        if score.rmse_paper is not None:
            result["test_rmse_paper"] = _finite(score.rmse_paper[0])
    own = model.simulate(record, samples=0)
    result["train_simulation_rmse"] = _finite(sparsid.rmse(record, own)[0])
    test = benchmark.reveal_test()
    run_b = model.simulate(test, samples=0).mean[:, 0]
    result["simulated"] = [None if np.isnan(v) else round(float(v), 4) for v in run_b]
    return result


def _finite(value: Any) -> float | None:
    """Return a number that JSON knows; a diverged run has none."""
    return float(value) if np.isfinite(value) else None


def _compare(spec: Spec) -> Result:
    """Score a comparator, on the same data by the same protocols."""
    from sparsid.studies.comparators import run_comparator

    return run_comparator(spec["name"], datasets.load(spec["dataset"]))


_KINDS = {
    "predict": _predict,
    "select": _select,
    "simulate": _simulate,
    "compare": _compare,
}
