"""Residual tests, ranges, stability and relevance on data with a known answer."""

import numpy as np
import pytest

import sparsid
from sparsid.bayes.posterior import Posterior, evidence_lost
from sparsid.data.record import Record
from sparsid.diagnostics import (
    alternatives,
    diagnose,
    operating_range,
    relevance,
    residual_tests,
    stability,
    weights_table,
)
from sparsid.errors import InputError
from sparsid.results.forecast import Forecast


def with_errors(errors: np.ndarray, u: np.ndarray) -> tuple[Record, Forecast]:
    mean = np.zeros((len(errors), 1))
    forecast = Forecast(mean, mean + 1, mean, 0, 1, None, ("y",), ("V",))
    return Record(u, errors, output_units="V"), forecast


def test_white_residuals_pass_and_coloured_ones_do_not() -> None:
    rng = np.random.default_rng(1)
    e, u = rng.normal(size=1000), rng.normal(size=1000)
    auto, cross = residual_tests(*with_errors(e, u))
    assert auto.passed
    assert cross.passed
    assert auto.p_value is not None
    assert auto.p_value > 0.01
    assert "no correlation beyond chance" in auto.verdict
    coloured = np.convolve(e, [1.0, 0.6], mode="same")
    auto, _ = residual_tests(*with_errors(coloured, u))
    assert not auto.passed
    assert auto.values[0] == pytest.approx(0.6 / 1.36, abs=0.08)
    assert "at lag 1" in auto.verdict


def test_correlations_match_a_plain_loop_with_missing_samples() -> None:
    rng = np.random.default_rng(2)
    e, u = rng.normal(size=120), rng.normal(size=120)
    e[40:50] = np.nan
    record, forecast = with_errors(np.nan_to_num(e), u)
    y = record.y.copy()
    y[40:50] = np.nan
    record = Record(u, y)
    _, cross = residual_tests(record, forecast, lags=4)
    a, b = e - np.nanmean(e), u - u.mean()
    scale = np.sqrt(np.nanmean(a**2) * np.mean(b**2))
    for k in range(5):
        total = sum(
            a[t] * b[t - k] for t in range(k, 120) if np.isfinite(a[t] * b[t - k])
        )
        assert cross.values[k] == pytest.approx(total / (110 * scale))


def test_an_input_whose_effect_is_missing_is_named() -> None:
    rng = np.random.default_rng(3)
    u = rng.normal(size=800)
    e = rng.normal(size=800) + 0.5 * np.roll(u, 3)
    _, cross = residual_tests(*with_errors(e, u))
    assert not cross.passed
    assert "largest +0.4" in cross.verdict
    assert "at lag 3" in cross.verdict


@pytest.fixture(scope="module")
def model() -> sparsid.NARX:
    rng = np.random.default_rng(0)
    u = rng.uniform(-1, 1, (300, 2))
    y = np.zeros(300)
    for t in range(1, 300):
        y[t] = 0.7 * y[t - 1] + np.tanh(u[t - 1, 0]) + 0.02 * rng.normal()
    record = Record(u, y, 2.0, output_units="V")
    return sparsid.NARX(1, (4,), max_cycles=25).fit(record)


def fresh(scale: float = 1.0) -> Record:
    rng = np.random.default_rng(9)
    u = scale * rng.uniform(-1, 1, (200, 2))
    y = np.zeros(200)
    for t in range(1, 200):
        y[t] = 0.7 * y[t - 1] + np.tanh(u[t - 1, 0]) + 0.02 * rng.normal()
    return Record(u, y, 2.0, output_units="V")


def test_a_record_outside_the_estimation_range_is_told(model: sparsid.NARX) -> None:
    inside, outside = fresh(0.5), fresh(3.0)
    for record, beyond in ((inside, False), (outside, True)):
        (found,) = operating_range(model.fitted_, record, model.simulate(record))
        assert (found.outside > 0.0) == beyond
        assert (found.input_outside > 0.0) == beyond
        assert ("outside the range" in found.verdict) == beyond
        assert found.table["samples"].sum() == len(record) - 1
    error = (outside.y - model.simulate(outside).mean)[1:]
    squares = (found.table["samples"] * found.table["rmse"] ** 2).sum()
    assert squares == pytest.approx((error**2).sum())


def test_a_stable_model_forgets_its_start(model: sparsid.NARX) -> None:
    found = stability(model, fresh())
    assert found.bounded
    # 0.7^n falls below 5 % after about nine samples.
    assert 6 <= found.forgotten <= 13
    assert found.samples == 1000
    assert "forgotten" in found.verdict
    with pytest.raises(InputError, match="start a run"):
        stability(model, fresh()[:1])


def test_what_drives_the_output_has_the_evidence(model: sparsid.NARX) -> None:
    table = relevance(model)
    lags = table[table["kind"] == "regressor"].set_index("name")
    assert {"y(t-1)", "u1(t-1)"} <= set(lags.index)
    assert (lags.loc[["y(t-1)", "u1(t-1)"], "evidence"] > 20).all()
    strangers = lags.drop(["y(t-1)", "u1(t-1)"])
    assert (strangers["evidence"] < 5).all()


def test_evidence_of_a_linear_model_is_that_of_a_fit_without() -> None:
    """In a linear model the ratio of densities is exact for given prior and noise."""
    rng = np.random.default_rng(5)
    X, s = rng.normal(size=(30, 3)), np.array([0.5, 1.0, 2.0])
    y = X @ [0.8, -0.4, 0.1] + rng.normal(size=30)

    def evidence(columns: list[int]) -> float:
        K = np.eye(30) + (X[:, columns] * s[columns] ** 2) @ X[:, columns].T
        return -0.5 * (np.linalg.slogdet(K)[1] + y @ np.linalg.solve(K, y))

    C = np.linalg.inv(X.T @ X + np.diag(1 / s**2))
    lost, signal = evidence_lost((C @ X.T @ y)[[1]], C[1:2, 1:2], s[[1]])
    assert lost == pytest.approx(evidence([0, 1, 2]) - evidence([0, 2]))
    assert signal == pytest.approx(abs((C @ X.T @ y)[1]) / np.sqrt(C[1, 1]))


def test_weights_that_are_held_do_not_make_up_for_others() -> None:
    rng = np.random.default_rng(6)
    root = rng.normal(size=(5, 5))
    C = root @ root.T
    posterior = Posterior(np.sqrt(np.diag(C)), C, np.ones(5))
    moving = np.array([1, 3])
    precision = np.linalg.inv(C)[np.ix_(moving, moving)]
    assert posterior.given(moving) == pytest.approx(np.linalg.inv(precision))


def test_weights_come_with_their_uncertainty(model: sparsid.NARX) -> None:
    table = weights_table(model)
    assert len(table) == sum(w.size for w in model.fitted_.params)
    flat = np.concatenate([np.asarray(w).ravel() for w in model.fitted_.params])
    assert table["value"].to_numpy() == pytest.approx(flat)
    assert table["std"].to_numpy() == pytest.approx(model.fitted_.posterior.std)


def test_reduced_posteriors_drop_correlations(model: sparsid.NARX) -> None:
    posterior = model.fitted_.posterior
    sizes = [w.size for w in model.fitted_.params]
    layered = posterior.reduced(sizes)
    assert layered.covariance[0, -1] == 0.0
    first = sizes[0]
    assert np.array_equal(
        layered.covariance[:first, :first], posterior.covariance[:first, :first]
    )
    diagonal = posterior.reduced([1] * sum(sizes)).covariance
    assert diagonal == pytest.approx(np.diag(posterior.std**2))
    with pytest.raises(InputError, match="weights were given"):
        posterior.reduced([1])


@pytest.mark.slow
def test_a_diagnosis_says_all_of_it(model: sparsid.NARX) -> None:
    found = diagnose(model, fresh(), samples=50)
    assert found.scores["one_step"]["rmse"][0] == pytest.approx(0.02, rel=0.5)
    assert len(found.residuals) == 3
    facts = found.facts()
    assert facts["calibration"]["free_run"]["samples"] == [199]
    assert len(facts["verdicts"]) == len(found.verdicts) == 8
    short = diagnose(model, fresh()[:6], samples=10)
    assert short.residuals == []
    assert alternatives(model)["what"].tolist() == ["start 1"]
