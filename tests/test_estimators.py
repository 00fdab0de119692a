"""The estimator from outside: data in, forecasts out, against plain Python loops."""

import dataclasses
import inspect
import math

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from posteriors import laplace
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, KFold

import sparsid
from sparsid.bayes import posterior
from sparsid.bayes.objective import OneStep, Regression
from sparsid.bayes.prior import BlockPrior
from sparsid.data.block_split import BlockSplit
from sparsid.data.record import Record
from sparsid.data.scaling import Scaling
from sparsid.errors import InputError
from sparsid.estimators import DIVERGED_SCORE, NARX
from sparsid.fitting.narx import regression, usable_segments
from sparsid.models.narx import Lags, regression_rows
from sparsid.models.network import Network
from sparsid.results.forecast import DIVERGED
from sparsid.validation.scores import fit_percent

LINEAR = {"lags": 2, "hidden": ()}


def two_by_two(seed: int, samples: int = 150) -> Record:
    rng = np.random.default_rng(seed)
    u, y = rng.normal(size=(samples, 2)), np.zeros((samples, 2))
    for t in range(2, samples):
        y[t, 0] = 0.5 * y[t - 1, 0] + np.tanh(u[t - 1, 0]) + 0.2 * y[t - 1, 1]
        y[t, 1] = 0.7 * y[t - 1, 1] - 0.5 * u[t - 2, 1]
        y[t] += 0.05 * rng.normal(size=2)
    # Units of their own: scaling matters.
    return Record(
        3 + 2 * u,
        100 + 10 * y,
        0.5,
        input_names=("valve", "speed"),
        output_names=("flow", "level"),
    )


@pytest.fixture(scope="module")
def mimo() -> NARX:
    return NARX(lags=2, hidden=(4,), prior="shape").fit(two_by_two(0))


@pytest.fixture(scope="module")
def record() -> Record:
    return two_by_two(0)


@pytest.fixture(scope="module")
def linear(record) -> NARX:
    return NARX(**LINEAR).fit(record)


def next_output(fitted, u, y, t):
    """y(t) from lists of samples in the data's units, one number at a time."""
    s = fitted.scaling
    a = []
    for r in fitted.regressors:
        if r.signal == "u":
            value = (u[t - r.lag][r.channel] - s.u_mean[r.channel]) / s.u_std[r.channel]
        else:
            value = (y[t - r.lag][r.channel] - s.y_mean[r.channel]) / s.y_std[r.channel]
        a.append(value)
    layers = fitted.params[: fitted.network.layers]
    for k, W in enumerate(layers):
        h = []
        for j in range(W.shape[1]):
            total = sum(W[i, j] * a[i] for i in range(len(a)))
            h.append(total + W[-1, j])
        a = h if k == len(layers) - 1 else [math.tanh(x) for x in h]
    return [a[k] * s.y_std[k] + s.y_mean[k] for k in range(len(a))]


def same(a: NARX, b: NARX) -> bool:
    pairs = zip(a.fitted_.params, b.fitted_.params, strict=True)
    return a.regressors_ == b.regressors_ and all(
        np.array_equal(v, w) for v, w in pairs
    )


# -- manners -----------------------------------------------------------------------


def test_get_set_clone() -> None:
    model = NARX(lags=3, hidden=[4], prior=["row", "shape"])
    names = set(inspect.signature(NARX).parameters)
    params = model.get_params()
    assert set(params) == names
    # Stored untouched.
    assert params["hidden"] == [4]
    assert isinstance(params["hidden"], list)
    copy = clone(model)
    assert copy is not model
    assert copy.get_params() == params
    assert copy.set_params(lags=1, seed=7) is copy
    assert (copy.lags, copy.seed) == (1, 7)
    with pytest.raises(ValueError, match="Invalid parameter 'width'"):
        copy.set_params(width=3)
    assert "lags=3" in repr(model)


def test_using_an_unfitted_model_is_refused(record) -> None:
    for use in (NARX().predict, NARX().simulate, NARX().score):
        with pytest.raises(NotFittedError):
            use(record)


def test_importing_and_fitting_leave_single_precision(linear, record) -> None:
    linear.predict(record)
    linear.simulate(record, samples=2)
    assert jnp.ones(1).dtype == jnp.float32
    assert not jax.config.jax_enable_x64


def test_refitting_replaces_what_was_learnt(record) -> None:
    model = NARX(**LINEAR).fit(two_by_two(5))
    assert same(model.fit(record), NARX(**LINEAR).fit(record))


# -- data in -----------------------------------------------------------------------


def same_numbers(a: NARX, b: NARX, atol: float = 0.0) -> None:
    """Frames are stored column by column: sums over them differ in the last digit."""
    for v, w in zip(a.fitted_.params, b.fitted_.params, strict=True):
        np.testing.assert_allclose(v, w, rtol=0, atol=atol)


def test_ways_to_hand_over_one_record(linear, record) -> None:
    plain = Record(record.u, record.y, record.dt)
    for arguments in ((record.u, record.y), ([record],), (plain,)):
        same_numbers(NARX(**LINEAR).fit(*arguments), linear)
    same_numbers(NARX(**LINEAR).fit(*record.to_frames()), linear, atol=2e-4)
    assert NARX(**LINEAR).fit(record.u, record.y, dt=0.5).fitted_.channels.dt == 0.5
    assert linear.fitted_.channels.output_names == ("flow", "level")


def test_ways_to_hand_over_two_stretches(record) -> None:
    first, second = record[:70], record[80:]
    together = NARX(**LINEAR).fit([first, second])
    u, y = record.to_frames()
    keep = np.r_[0:70, 80:150]
    framed = NARX(**LINEAR).fit(u.iloc[keep], y.iloc[keep])
    same_numbers(framed, together, atol=2e-4)
    assert framed.fitted_.details["rows"] == together.fitted_.details["rows"] == 136
    gapped = np.array(record.y)
    gapped[70:80, 1] = np.nan
    with_gap = NARX(**LINEAR).fit(record.u, gapped)
    same_numbers(with_gap, together)
    assert with_gap.fitted_.details["segments"] == 2
    assert "gap at samples 70 to 79" in with_gap.fitted_.details["notes"][0]
    # Glued together they would be another regression.
    glued = NARX(**LINEAR).fit(record.u[keep], record.y[keep])
    assert glued.fitted_.details["rows"] == 138


def test_no_regressor_crosses_a_border(record) -> None:
    lags = Lags(2, 2, 2, 1, delay=1)
    y = np.array(record.y)
    y[70] = np.nan
    names = {"input_names": record.input_names, "output_names": record.output_names}
    gapped = Record(record.u, y, record.dt, **names)
    records = [record[:40], gapped[50:100], record[100:103]]
    segments, notes = usable_segments(records, lags)
    scaling = Scaling.of(segments)
    rows = regression(segments, scaling, lags)
    z, y = [], []
    for part in (record[:40], record[50:70], record[71:100]):
        u_s, y_s = scaling.scale_u(part.u), scaling.scale_y(part.y)
        for t in range(3, len(part)):
            now = [u_s[t - 1 - lag, c] for c in range(2) for lag in range(3)]
            z.append(now + [y_s[t - 1, c] for c in range(2)])
            y.append(y_s[t])
    np.testing.assert_array_equal(rows.z, z)
    np.testing.assert_array_equal(rows.y, y)
    assert any("3 samples from 100 left out" in note for note in notes)


@settings(max_examples=50, deadline=None)
@given(
    st.integers(0, 2),
    st.integers(1, 2),
    st.integers(0, 4),
    st.integers(0, 4),
    st.integers(0, 3),
)
def test_regressors_against_a_plain_loop(n_u, n_y, n_a, n_b, delay) -> None:
    """n_a + 1 regressors of every input, n_b of every output, for any lags."""
    lags = Lags(n_u, n_y, n_a, n_b, delay)
    assert len(lags.table) == n_u * (n_a + 1) + n_y * n_b
    rng = np.random.default_rng(0)
    u, y = rng.normal(size=(12, n_u)), rng.normal(size=(12, n_y))
    expected = [
        [u[t - delay - k, c] for c in range(n_u) for k in range(n_a + 1)]
        + [y[t - k, c] for c in range(n_y) for k in range(1, n_b + 1)]
        for t in range(lags.max_lag, 12)
    ]
    rows = regression_rows(lags.table, lags.max_lag, u, y)
    np.testing.assert_array_equal(rows, np.reshape(expected, (12 - lags.max_lag, -1)))


def test_records_without_inputs(record) -> None:
    series = Record(None, record.y[:, 1])
    model = NARX(**LINEAR).fit(series)
    forecast = model.predict(series)
    assert forecast.start == 2
    assert set(model.regressors_) <= {"y(t-1)", "y(t-2)"}
    assert model.simulate(series, samples=0).mean.shape == (150, 1)


# -- prediction --------------------------------------------------------------------


def test_mimo_model_uses_every_channel(mimo, record) -> None:
    assert {"valve(t-1)", "speed(t-2)", "flow(t-1)", "level(t-1)"} <= set(
        mimo.regressors_
    )
    assert mimo.noise_std_ == pytest.approx([0.5, 0.5], rel=0.3)
    assert mimo.max_lag_ == 2


@pytest.mark.parametrize("horizon", [1, 2, 5])
def test_k_step_prediction_against_a_plain_loop(mimo, horizon) -> None:
    test = two_by_two(1, 40)
    forecast = mimo.predict(test, horizon=horizon)
    start = 2 + horizon - 1
    assert (forecast.start, forecast.horizon) == (start, horizon)
    assert np.isnan(forecast.mean[:start]).all()
    assert np.isnan(forecast.std[:start]).all()
    u = test.u.tolist()
    for t in range(start, len(test)):
        y = test.y[: t - horizon + 1].tolist()
        for k in range(t - horizon + 1, t + 1):
            y.append(next_output(mimo.fitted_, u, y, k))
        np.testing.assert_allclose(forecast.mean[t], y[t], rtol=1e-9)
    assert (forecast.std[start:] > 0).all()


def test_forecast_is_aligned_named_and_in_units(mimo, record) -> None:
    forecast = mimo.predict(record)
    assert forecast.mean.shape == forecast.std.shape == record.y.shape
    assert forecast.output_names == ("flow", "level")
    error = record.y - forecast.mean
    assert np.nanstd(error, axis=0) == pytest.approx([0.5, 0.5], rel=0.3)


def test_prediction_after_a_gap_is_nan_only_where_it_must_be(mimo, record) -> None:
    y = np.array(record.y)
    y[50] = np.nan
    forecast = mimo.predict(Record(record.u, y, 0.5))
    whole = mimo.predict(record)
    missing = np.isnan(forecast.mean).any(axis=1)
    assert set(np.flatnonzero(missing)) <= {0, 1, 51, 52}
    np.testing.assert_allclose(forecast.mean[53:], whole.mean[53:])
    np.testing.assert_allclose(forecast.mean[50], whole.mean[50])


def test_bad_records_for_prediction_are_refused(mimo, record) -> None:
    with pytest.raises(InputError, match="1 inputs and 2 outputs but the model has 2"):
        mimo.predict(Record(record.u[:, :1], record.y, 0.5))
    with pytest.raises(InputError, match=r"sampled every 1 but the model every 0\.5"):
        mimo.predict(Record(record.u, record.y, 1.0))
    with pytest.raises(InputError, match="horizon=0: give a whole number from 1"):
        mimo.predict(record, horizon=0)
    with pytest.raises(InputError, match="3 samples but 4 are needed before"):
        mimo.predict(record[:3], horizon=3)


@pytest.mark.parametrize("horizon", [1.5, "2", True, None])
def test_a_horizon_that_is_no_whole_number_is_refused(mimo, record, horizon) -> None:
    with pytest.raises(InputError, match="horizon"):
        mimo.predict(record, horizon=horizon)


def test_prediction_does_not_glue_frames_with_jumps(linear, record) -> None:
    """Either refused, or no number comes from regressors across the jump."""
    u, y = record.to_frames()
    keep = np.r_[0:70, 80:150]
    try:
        forecast = linear.predict(u.iloc[keep], y.iloc[keep])
    except InputError:
        return
    assert np.isnan(forecast.mean[70:72]).all()


# -- simulation --------------------------------------------------------------------


def plain_run(fitted, u, y_first):
    y = [list(row) for row in y_first]
    for t in range(len(y), len(u)):
        y.append(next_output(fitted, u, y, t))
    return np.array(y)


def test_free_run_from_a_record_against_a_plain_loop(mimo) -> None:
    test = two_by_two(1, 60)
    run = mimo.simulate(test, samples=0)
    expected = plain_run(mimo.fitted_, test.u.tolist(), test.y[:2])
    assert (run.start, run.horizon, run.diverged_at) == (2, None, None)
    assert np.isnan(run.mean[:2]).all()
    np.testing.assert_allclose(run.mean[2:], expected[2:], rtol=1e-9)
    assert np.isnan(run.std).all()


def test_free_run_from_inputs_and_first_outputs(mimo) -> None:
    test = two_by_two(1, 60)
    expected = mimo.simulate(test, samples=0).mean
    for first in (test.y[:2], test.y[:10], test.y[:2].tolist()):
        run = mimo.simulate(test.u, y_init=first, samples=0)
        assert run.start == 2
        np.testing.assert_array_equal(run.mean, expected)
    with pytest.raises(InputError, match=r"shape \(1, 2\) but at least 2 samples of 2"):
        mimo.simulate(test.u, y_init=test.y[:1])
    with pytest.raises(InputError, match="leave y_init out"):
        mimo.simulate(test, y_init=test.y[:2])


def test_free_run_from_inputs_alone_starts_as_the_estimation_record(
    mimo, record
) -> None:
    test = two_by_two(1, 60)
    run = mimo.simulate(test.u, samples=0)
    assert run.start == 0
    assert np.isfinite(run.mean).all()
    u = [test.u[0].tolist()] * 2 + test.u.tolist()
    expected = plain_run(mimo.fitted_, u, [record.y[0]] * 2)[2:]
    np.testing.assert_allclose(run.mean, expected, rtol=1e-9)
    frame = pd.DataFrame(test.u, columns=["valve", "speed"])
    np.testing.assert_array_equal(mimo.simulate(frame, samples=0).mean, run.mean)


def test_an_input_named_like_an_output_can_be_simulated() -> None:
    rng = np.random.default_rng(0)
    source = Record(
        rng.normal(size=60), rng.normal(size=60), input_names="y", output_names="x"
    )
    model = NARX(**LINEAR).fit(source)
    frame, _ = source.to_frames()
    assert np.isfinite(model.simulate(frame, samples=0).mean).all()


def test_a_gap_restarts_a_free_run(mimo, record) -> None:
    u = np.array(record.u)
    u[30] = np.nan
    run = mimo.simulate(Record(u, record.y, 0.5), samples=0)
    after = mimo.simulate(record[31:], samples=0)
    assert np.isnan(run.mean[30:33]).all()
    np.testing.assert_allclose(run.mean[33:], after.mean[2:])
    with pytest.raises(InputError, match="cannot cross a gap"):
        mimo.simulate(u)


def test_a_record_with_a_gap_can_be_scored(mimo, record) -> None:
    """Missing lags after a gap were once taken for divergence: the error was inf."""
    y = np.array(record.y)
    y[50] = np.nan
    gappy = Record(record.u, y, 0.5)
    assert np.isfinite(sparsid.rmse(gappy, mimo.predict(gappy))).all()
    assert np.isfinite(sparsid.rmse(gappy, mimo.simulate(gappy, samples=0))).all()


def test_swapped_channels_are_refused(record) -> None:
    named = Record(record.u, record.y, 0.5, input_names=["valve", "speed"])
    swapped = Record(record.u, record.y, 0.5, input_names=["speed", "valve"])
    model = NARX(**LINEAR).fit(named)
    with pytest.raises(InputError, match="same channels in the same order"):
        model.predict(swapped)
    assert np.isfinite(sparsid.rmse(record, model.predict(record))).all()


def test_score_leaves_short_records_out(mimo, record) -> None:
    y = np.array(record.y)
    y[2] = np.nan
    assert np.isfinite(mimo.score(Record(record.u, y, 0.5)))
    with pytest.raises(InputError, match="no record is longer"):
        mimo.score(record[:2])


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"samples": -5}, "samples=-5"),
        ({"samples": 1.5}, "samples=1.5"),
        ({"samples": 1}, "no spread"),
        ({"seed": "a"}, "seed='a'"),
        ({"y_init": ["a", "b"]}, "no number"),
        ({"y_init": [[np.inf, 0], [0, 0]]}, "infinite"),
    ],
)
def test_bad_arguments_of_simulate_are_refused(mimo, record, bad, message) -> None:
    with pytest.raises(InputError, match=message):
        mimo.simulate(record.u, **bad)


@pytest.mark.parametrize("u", [None, 3.0])
def test_inputs_that_are_none_are_refused(mimo, u) -> None:
    with pytest.raises(InputError, match="give a Record"):
        mimo.simulate(u)


def unstable(linear) -> NARX:
    """The fitted linear model, with y(t) = 1.5 y(t-1) + 1 put in its place."""
    fitted = linear.fitted_
    W = np.zeros_like(fitted.params[0])
    for k, r in enumerate(fitted.regressors):
        if r.signal == "y" and r.lag == 1:
            W[k, r.channel] = 1.5
    W[-1] = [1.0, 0.0]
    model = clone(linear)
    model.fitted_ = dataclasses.replace(fitted, params=(W,))
    return model


def test_divergence_is_detected_and_located(linear, record) -> None:
    model = unstable(linear)
    run = model.simulate(record, samples=5)
    y = plain_run(model.fitted_, record.u.tolist(), record.y[:2])
    scaled = np.abs(model.fitted_.scaling.scale_y(y))
    first = int(np.argmax((scaled >= DIVERGED).any(axis=1)))
    assert run.diverged_at == first > 2
    assert np.isfinite(run.mean[2:first]).all()
    assert np.isnan(run.mean[first:]).all()
    assert np.isnan(run.std[first:]).all()
    assert model.score(record) == DIVERGED_SCORE
    assert model.predict(record).diverged_at is None


# -- uncertainty -------------------------------------------------------------------


def ar1(a: float = 0.8, samples: int = 400) -> Record:
    rng = np.random.default_rng(0)
    y = np.zeros(samples)
    for t in range(1, samples):
        y[t] = a * y[t - 1] + rng.normal()
    return Record(None, y)


def test_spread_of_a_noisy_run_against_the_ar1_formula() -> None:
    record = ar1()
    fitted = NARX(lags=1, hidden=()).fit(record).fitted_
    still = dataclasses.replace(
        fitted.posterior, std=np.zeros(fitted.posterior.std.shape), covariance=None
    )
    fitted = dataclasses.replace(fitted, posterior=still)
    (a,), sigma = fitted.params[0][0], fitted.noise_std[0]
    assert a == pytest.approx(0.8, abs=0.1)
    assert sigma == pytest.approx(1.0, rel=0.1)
    steps = np.arange(1, 60)
    expected = sigma * np.sqrt((1 - a ** (2 * steps)) / (1 - a**2))
    run = fitted.simulate(record[:60], samples=3000, seed=1)
    # A quantile width of 3000 draws has a deviation of about 2 %.
    np.testing.assert_allclose(run.std[1:, 0], expected, rtol=0.12)
    assert np.median(run.std[1:, 0] / expected) == pytest.approx(1.0, abs=0.01)
    ahead = fitted.predict(record[:60], horizon=3, samples=3000)
    np.testing.assert_allclose(ahead.std[3:, 0].mean(), expected[2], rtol=0.03)
    one = fitted.predict(record)
    np.testing.assert_allclose(one.std[1:], sigma)


def test_spread_is_repeatable_and_seeded(mimo, record) -> None:
    a = mimo.simulate(record, samples=20, seed=3)
    b = mimo.simulate(record, samples=20, seed=3)
    c = mimo.simulate(record, samples=20, seed=4)
    np.testing.assert_array_equal(a.std, b.std)
    assert not np.array_equal(a.std[5:], c.std[5:])
    np.testing.assert_array_equal(a.mean, c.mean)


@pytest.mark.usefixtures("x64")
def test_posterior_covariance_against_the_naive_formula(monkeypatch) -> None:
    rng = np.random.default_rng(0)
    network = Network((3, 2, 2), linear_path=True)
    params = tuple(rng.normal(size=s) for s in network.shapes)
    data = Regression(rng.normal(size=(20, 3)), rng.normal(size=(20, 2)))
    noise = np.array([0.3, 0.1])
    prior = tuple(
        BlockPrior(
            rng.uniform(0.3, 1, s[0]), rng.uniform(0.3, 1, s[1]), None, "row+column", b
        )
        for s, b in zip(network.shapes, (True, True, False), strict=True)
    )
    J = jax.jacrev(lambda p: network.apply(p, jnp.asarray(data.z)))(
        tuple(jnp.asarray(w) for w in params)
    )
    J = np.concatenate([np.asarray(j).reshape(20, 2, -1) for j in J], axis=2)
    X = (J / np.sqrt(noise)[:, None]).reshape(40, -1)
    v = np.concatenate([p.variances().ravel() for p in prior])
    C = np.linalg.inv(np.diag(1 / v) + X.T @ X)
    linearised = OneStep(network).linearise(params, noise, data)
    found = laplace(linearised, prior)
    np.testing.assert_allclose(found.covariance, C, atol=1e-10)
    np.testing.assert_allclose(found.std, np.sqrt(np.diag(C)), rtol=1e-8)
    monkeypatch.setattr(posterior, "LARGEST_PIECE", 7.0 * len(C) * 2)
    in_pieces = laplace(linearised, prior)
    np.testing.assert_allclose(in_pieces.covariance, C, atol=1e-10)
    _, factors = network.factors(params, data.z)
    variance = found.predictive_variance(factors)
    expected = np.einsum("toi,ij,toj->to", J, C, J)
    np.testing.assert_allclose(variance, expected, rtol=1e-8)
    draws = found.sample(tuple(map(jnp.asarray, params)), 4000, key=jax.random.key(0))
    flat = np.concatenate([np.asarray(d).reshape(4000, -1) for d in draws], axis=1)
    np.testing.assert_allclose(np.cov(flat.T), C, atol=0.1 * C.max())
    monkeypatch.setattr(posterior, "LARGEST_COVARIANCE", 1)
    wide = laplace(linearised, prior)
    assert wide.covariance is None
    np.testing.assert_allclose(wide.std, found.std, rtol=1e-7)
    few = OneStep(network).linearise(params, noise, Regression(*(a[:5] for a in data)))
    naive = np.linalg.inv(np.diag(1 / v) + X[:10].T @ X[:10])
    np.testing.assert_allclose(
        laplace(few, prior).std, np.sqrt(np.diag(naive)), rtol=1e-7
    )
    monkeypatch.setattr(posterior, "LARGEST_SYSTEM", 1)
    alone = laplace(linearised, prior)
    assert alone.covariance is None
    np.testing.assert_allclose(alone.std, 1 / np.sqrt(1 / v + (X**2).sum(0)), rtol=1e-7)


def test_one_step_bands_hold_what_they_promise(mimo) -> None:
    test = two_by_two(7)
    forecast = mimo.predict(test)
    z = ((test.y - forecast.mean) / forecast.std)[2:]
    assert np.abs(z).std() < 1.5
    assert 0.55 < (np.abs(z) < 1).mean() < 0.8
    assert (forecast.std[2:] >= mimo.noise_std_).all()


@pytest.mark.parametrize("method", ["none", "ridge", "lasso"])
def test_conventional_methods_give_bands_too(record, method) -> None:
    model = NARX(**LINEAR, method=method).fit(record)
    forecast = model.predict(record)
    error = (record.y - forecast.mean)[2:]
    np.testing.assert_allclose(forecast.std[2:].mean(0), error.std(0), rtol=0.1)


# -- scores and model selection ----------------------------------------------------


def test_score_is_the_free_run_fit(mimo, record) -> None:
    test = two_by_two(1)
    run = mimo.simulate(test, samples=0)
    expected = fit_percent(test, run).mean() / 100
    assert mimo.score(test) == pytest.approx(expected)
    assert mimo.score(*test.to_frames()) == pytest.approx(expected)
    assert mimo.score(test.u, test.y) == pytest.approx(expected)
    both = mimo.score([test, record])
    assert both == pytest.approx((expected + mimo.score(record)) / 2)
    assert "free-run fit" in NARX.score.__doc__


def test_grid_search_over_contiguous_blocks(record) -> None:
    u, y = record.to_frames()
    search = GridSearchCV(NARX(**LINEAR), {"strength": [1e3, 1.0]}, cv=BlockSplit(3))
    search.fit(u, y)
    assert search.best_params_ == {"strength": 1.0}
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    # The middle block leaves two stretches.
    train, held_out = list(BlockSplit(3).split(u, y))[1]
    model = NARX(**LINEAR).fit(u.iloc[train], y.iloc[train])
    assert model.fitted_.details["records"] == 2
    scores = search.cv_results_["split1_test_score"]
    assert model.score(u.iloc[held_out], y.iloc[held_out]) == scores[1]


def test_blocks_are_contiguous_and_cover_all() -> None:
    frame = pd.DataFrame({"u": np.arange(23.0)})
    held_out = []
    for train, block in BlockSplit(4).split(frame):
        assert (np.diff(block) == 1).all()
        assert not set(train) & set(block)
        assert len(train) + len(block) == 23
        held_out.extend(block)
    assert held_out == list(range(23))
    assert BlockSplit(4).get_n_splits() == 4


def test_splits_that_would_glue_are_refused(record) -> None:
    with pytest.raises(InputError, match="glue distant ones together"):
        list(BlockSplit(3).split(record.u, record.y))
    search = GridSearchCV(NARX(hidden=()), {"lags": [1]}, cv=BlockSplit(3))
    with pytest.raises(InputError, match=r"record\.to_frames"):
        search.fit(record.u, record.y)
    with pytest.raises(InputError, match="cannot be cut into 5 blocks"):
        list(BlockSplit(5).split(pd.DataFrame({"u": [1.0, 2.0]})))
    with pytest.raises(InputError, match="n_splits=1: give a whole number from 2"):
        BlockSplit(1)


def test_shuffled_frames_are_refused(record) -> None:
    u, y = record.to_frames()
    train, _ = next(KFold(3, shuffle=True, random_state=0).split(u))
    shuffled = np.random.default_rng(0).permutation(train)
    with pytest.raises(InputError, match="index does not increase"):
        NARX(**LINEAR).fit(u.iloc[shuffled], y.iloc[shuffled])


# -- bad input ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"lags": -1}, "lags=-1: give a whole number from 0 to"),
        ({"lags": 2.5}, r"lags=2\.5: give a whole number"),
        ({"lags": 10**6}, "lags=1000000: give a whole number from 0 to 10000"),
        ({"input_lags": "3"}, "input_lags='3': give a whole number"),
        ({"output_lags": -2}, "output_lags=-2"),
        ({"delay": -1}, "delay=-1"),
        ({"lags": 200}, "at least 10 are needed; use a longer record or smaller lags"),
        ({"hidden": (0,)}, "hidden=0: give a whole number from 1"),
        ({"hidden": (3, -1)}, "hidden=-1"),
        ({"hidden": "wide"}, "give the widths of the hidden layers"),
        ({"hidden": None}, "give the widths of the hidden layers"),
        ({"hidden": (10**9,)}, "hidden=1000000000: give a whole number from 1 to"),
        ({"activation": "gelu"}, "activation='gelu' is not known: choose one of tanh"),
        ({"prior": "group"}, "prior='group' is not known"),
        ({"prior": ["row", "row"]}, "2 entries but the network has 1 weight blocks"),
        (
            {"method": "bayes"},
            "method='bayes' is not known: choose one of sparse-bayes",
        ),
        ({"method": "none", "strength": 1.0}, "method='none' has no penalty"),
        ({"method": "group-lasso", "prior": "shape"}, "needs groups"),
        ({"method": "ridge", "algorithm": "paper"}, "is the paper's sparse Bayes"),
        ({"method": "lasso", "strength": 0}, "strength=0: use method='none'"),
        ({"strength": -1.0}, r"strength=-1\.0: give a number of 0 or more"),
        ({"strength": float("nan")}, "strength=nan"),
        ({"algorithm": "newton"}, "algorithm='newton' is not known"),
        ({"curvature": "fisher"}, "curvature='fisher' is not known"),
        ({"form": "sparse"}, "form='sparse' is not known"),
        ({"form": "gram", "prior": "shape"}, "form='gram' needs variances"),
        ({"noise_std": 0.0}, r"noise_std=0\.0: give one positive number"),
        ({"noise_std": [1.0, 2.0, 3.0]}, "one for each of the 2 outputs"),
        ({"noise_std": "low"}, "noise_std='low'"),
        ({"kappa_w": -1e-3}, r"kappa_w=-0\.001"),
        ({"kappa_upsilon": "small"}, "kappa_upsilon='small'"),
        ({"max_cycles": 0}, "max_cycles=0: give a whole number from 1"),
        ({"tolerance": -1.0}, r"tolerance=-1\.0"),
        ({"starts": 0}, "starts=0"),
        ({"workers": 0}, "workers=0"),
        ({"seed": -1}, "seed=-1"),
        ({"seed": 0.5}, r"seed=0\.5"),
        ({"memory_limit": 1e-9}, "memory limit"),
        ({"prune": "yes"}, "prune='yes'"),
        ({"linear_path": "no"}, "linear_path='no'"),
    ],
)
def test_bad_settings_are_refused_with_a_message(record, bad, message) -> None:
    with pytest.raises(InputError, match=message):
        NARX(**{**LINEAR, **bad}).fit(record)


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(["lags", "input_lags", "output_lags", "delay", "seed", "starts"]),
    st.one_of(
        st.integers(max_value=-1),
        st.floats(),
        st.text(max_size=3),
        st.booleans(),
        st.lists(st.integers(), max_size=2),
    ),
)
def test_whole_numbers_are_checked_at_the_door(name, value) -> None:
    """Nothing but a whole number gets past; the message names the setting."""
    u = np.sin(np.arange(30.0))
    with pytest.raises(InputError, match=f"{name}="):
        NARX(**{**LINEAR, name: value}).fit(u, np.cumsum(u))


def test_bad_data_are_refused(record) -> None:
    with pytest.raises(InputError, match="y has 150 samples but u has 149"):
        NARX(**LINEAR).fit(record.u[:-1], record.y)
    with pytest.raises(InputError, match="no y was given: pass a Record"):
        NARX(**LINEAR).fit(record.u)
    with pytest.raises(InputError, match="records carry their outputs: leave y out"):
        NARX(**LINEAR).fit(record, record.y)
    with pytest.raises(InputError, match="'u1' is constant"):
        NARX(**LINEAR).fit(np.ones((150, 2)), record.y)
    names = {"input_names": record.input_names, "output_names": record.output_names}
    slower = Record(record.u, record.y, 2.0, **names)
    with pytest.raises(InputError, match=r"Record 2 has dt 2 s but record 1 has 0\.5"):
        NARX(**LINEAR).fit([record, slower])
    u = np.array(record.u)
    u[3, 0] = np.inf
    with pytest.raises(InputError, match="infinite at sample 3"):
        NARX(**LINEAR).fit(u, record.y)
