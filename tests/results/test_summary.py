"""The summary: every fact in it, within 80 columns; and the same for machines."""

import json
from dataclasses import replace

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from sparsid.data.record import Record
from sparsid.datasets import simulated_tanks
from sparsid.estimators import NARX
from sparsid.results.outcome import Outcome
from sparsid.results.summary import finite, result_dict
from sparsid.results.texts import percent, with_unit


@pytest.fixture(scope="module")
def model() -> NARX:
    record = simulated_tanks.simulate(samples=200).benchmark.estimation
    return NARX(lags=2, hidden=(6,), max_cycles=45, starts=2).fit(record)


def changed(model: NARX, **parts: object) -> NARX:
    other = NARX(**model.get_params())
    other.fitted_ = replace(model.fitted_, **parts)  # type: ignore[arg-type]
    return other


def test_summary_tells_what_was_identified(model: NARX) -> None:
    text = model.summary()
    assert model.summary() == text
    fitted = model.fitted_
    for part in (
        "NARX model of level",
        "1 record, 200 samples, every 4 s",
        "voltage [V]",
        "level [V]",
        f"{len(fitted.regressors)} of 5: {fitted.regressor_names[0]}",
        f"layer 1: {fitted.network.widths[1]} of 6 (tanh)",
        f"{fitted.weights_kept} of 36 weights",
        "biases not counted",
        f"{fitted.noise_std[0]:#.4g} V",
        f"{fitted.log_evidence:.2f}",
        "2, number",
        fitted.outcome.value,
    ):
        assert part in text


def test_summary_fits_a_terminal(model: NARX) -> None:
    notes = [f"record {k}: " + "a very long note about a gap " * 5 for k in range(9)]
    busy = changed(model, details={**model.fitted_.details, "notes": notes})
    for text in (model.summary(), busy.summary()):
        assert max(len(line) for line in text.splitlines()) <= 80
    assert "and 4 more notes" in busy.summary()


def test_outcome_comes_with_its_remedy(model: NARX) -> None:
    text = " ".join(changed(model, outcome=Outcome.CYCLES).summary().split())
    assert "cycle limit reached (the cost was still falling: raise max_cycles)" in text


def test_training_error_is_shown_if_it_was_stored(model: NARX) -> None:
    plain = {k: v for k, v in model.fitted_.details.items() if k != "one_step_rmse"}
    assert "one-step error" not in changed(model, details=plain).summary()
    known = {**plain, "one_step_rmse": [0.125]}
    assert "0.1250 V (estimation)" in changed(model, details=known).summary()


def test_method_without_evidence_says_so() -> None:
    rng = np.random.default_rng(0)
    u = rng.normal(size=100)
    record = Record(u, np.convolve(u, [0.5, 0.2])[:100] + 0.01 * rng.normal(size=100))
    model = NARX(lags=1, hidden=(), method="ridge", max_cycles=5).fit(record)
    text = model.summary()
    assert "none: the method has no evidence" in text
    assert "none: a linear model" in text
    assert result_dict(model.fitted_)["log_evidence"] is None


def test_result_is_strict_json(model: NARX) -> None:
    result = result_dict(changed(model, log_evidence=float("nan")).fitted_)
    assert json.loads(json.dumps(result, allow_nan=False)) == result
    assert result["log_evidence"] is None
    assert result["outputs"] == [{"name": "level", "unit": "V"}]
    assert result["kept"] == model.kept_


def test_an_unfitted_model_has_no_summary() -> None:
    with pytest.raises(NotFittedError):
        NARX().summary()


def test_numbers_in_words() -> None:
    assert [percent(s) for s in (1.0, 0.414, 0.0023, 0.0)] == [
        "100 %",
        "41 %",
        "0.23 %",
        "0 %",
    ]
    assert with_unit(0.04, "V") == "0.04000 V"
    assert with_unit(1234.5, "") == "1234"
    assert with_unit(float("inf"), "V") == "diverged"
    assert finite({"a": (1, float("inf")), "b": np.float64(2)}) == {
        "a": [1, None],
        "b": 2.0,
    }
