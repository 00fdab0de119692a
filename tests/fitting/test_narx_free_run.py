"""A NARX network fitted to its free run: derivatives, descent, runs, files, command."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from posteriors import laplace
from typer.testing import CliRunner

import sparsid
from sparsid import NARX, InputError, Record
from sparsid.bayes.noise import whiten
from sparsid.bayes.objective import FreeRun, Linearised
from sparsid.cli.app import app
from sparsid.data.files import write_csv
from sparsid.data.scaling import Scaling
from sparsid.fitting import narx_free_run, narx_windows, saliency
from sparsid.fitting.narx import regression, usable_segments
from sparsid.fitting.narx_windows import windows_of
from sparsid.fitting.random_starts import fit_starts
from sparsid.fitting.settings import make_lags, make_network, make_settings
from sparsid.models.narx import Lags, Recursion
from sparsid.models.narx_feedback import Feedback
from sparsid.models.network import Network
from sparsid.models.simulator import sensitivities
from sparsid.results.outcome import Outcome

SMALL = {"lags": 1, "hidden": (2,), "linear_path": True, "max_cycles": 120}
NOISE = 0.1


def output_error(seed=0, samples=250):
    """A nonlinear system whose output alone is measured with noise."""
    rng = np.random.default_rng(seed)
    u = np.repeat(rng.uniform(-1.5, 1.5, samples // 5 + 1), 5)[:samples]
    x, y = 0.0, []
    for drive in u:
        x = 0.9 * x + 0.4 * np.tanh(1.5 * drive) - 0.1 * x**3
        y.append(x)
    y = np.array(y) + NOISE * rng.normal(size=samples)
    return Record(u, y, 1.0, input_names="drive", output_names="angle")


@pytest.fixture(scope="module")
def one_step():
    return NARX(**SMALL).fit(output_error())


@pytest.fixture(scope="module")
def model():
    return NARX(**SMALL, objective="simulation").fit(output_error())


@pytest.fixture(scope="module")
def stage():
    """What the second stage is given for the record of ``model``."""
    record, params = output_error(), NARX(**SMALL).get_params()
    lags = make_lags(params, 1, 1)
    network = make_network(params, lags)
    segments, _ = usable_segments([record], lags)
    scaling = Scaling.of(segments)
    rows = regression(segments, scaling, lags)
    settings = make_settings(params, network, None)
    (found,) = fit_starts(network, rows, settings, seed=0, starts=1)
    recursion = Recursion.of([lags.table[k] for k in found.columns], 1)
    windows = windows_of(segments, scaling, lags.max_lag, recursion, None)
    return found, recursion, windows, settings


# -- derivatives and windows ---------------------------------------------------------


def runs(window, gain, outputs=2):
    """A small network with two outputs over a record with a gap in one of them."""
    rng = np.random.default_rng(3)
    y = rng.normal(size=(23, outputs))
    y[6:8, 0] = np.nan
    record = Record(rng.normal(size=23), y, 1.0)
    lags = Lags(1, outputs, 1, 2)
    recursion = Recursion.of(lags.table, outputs)
    windows = windows_of([record], Scaling.of([record]), 2, recursion, window)
    network = Network((len(lags.table), 3, outputs))
    model = Feedback(network, recursion, len(windows.starts))
    params = tuple(0.5 * w for w in network.init(key=jax.random.key(0)))
    return model, (*params, jnp.asarray(windows.starts)), windows.runs(gain)


def plain_loop(model, params, data, k):
    """The run of window ``k``, sample by sample, as the text describes it."""
    lags, outputs = model.recursion.output_lags, model.outputs
    start = params[-1][k].reshape(lags, outputs)
    past, made = [start[j] for j in range(lags)], []
    for t, row in enumerate(data.u[k]):
        now = model.rows(row)
        z = jnp.concatenate([now.z, *past])[np.array(model.recursion.source)]
        y = model.network.apply(params[:-1], z[None])[0]
        y = start[lags - 1 - t] if t < lags else y
        made.append(y)
        past = [y + now.gain * (now.measured - y), *past[:-1]]
    return jnp.stack(made)


@pytest.mark.usefixtures("x64")
def test_sensitivities_against_autodiff_of_a_plain_loop() -> None:
    model, params, data = runs(6, 0.3)
    assert len(data.u) == 4

    @jax.jit
    def ours(params):
        return sensitivities(model, params, jnp.array(1), data.u[1])

    @jax.jit
    def plain(params):
        run = plain_loop(model, params, data, 1)
        return run, jax.jacfwd(lambda p: plain_loop(model, p, data, 1))(params)

    (y, J), (run, derivative) = ours(params), plain(params)
    np.testing.assert_allclose(y, run, atol=1e-12)
    expected = [np.asarray(d).reshape(*y.shape, -1) for d in derivative]
    np.testing.assert_allclose(J, np.concatenate(expected, axis=2), atol=1e-10)


@pytest.mark.usefixtures("x64")
def test_a_start_acts_on_its_own_window_alone() -> None:
    model, params, data = runs(8, 0.0)
    noise = narx_free_run.Noise(
        *(jnp.array(v, float) for v in ((-2, -3), (-3, -4), (1, 2)))
    )
    one, records = jax.tree.map(lambda leaf: leaf[None], (params, noise)), len(data.u)

    @jax.jit
    def ours(one):
        measured = data._replace(measured=data.measured[None])
        return FreeRun(model).linearise(*one, measured)

    @jax.jit
    def plainly(params):
        """Return residuals and derivatives by all weights, window by window."""
        found = [
            sensitivities(model, params, jnp.array(k), data.u[k])
            for k in range(records)
        ]
        whitened = [
            whiten(noise, m, jnp.concatenate([((t - y) * m)[..., None], J], axis=-1))
            for (y, J), t, m in zip(found, data.y, data.measured, strict=True)
        ]
        return jnp.concatenate([w.reshape(-1, w.shape[-1]) for w, _ in whitened]), sum(
            volume for _, volume in whitened
        )

    linearised, (expected, log_det) = ours(one), plainly(params)
    np.testing.assert_allclose(linearised.residual[0], expected[:, :1], atol=1e-12)
    np.testing.assert_allclose(linearised.derivative.J[0], expected[:, 1:], atol=1e-12)
    volume = log_det + data.measured.sum() * np.log(2 * np.pi)
    np.testing.assert_allclose(linearised.volume[0], volume, rtol=1e-12)


@pytest.mark.usefixtures("x64")
def test_windows_hold_every_sample_once() -> None:
    for window in (None, 9):
        model, params, data = runs(window, 1.0)
        assert float(data.measured.sum()) == 2 * 23 - 2
        for k in range(len(data.u)):
            settling = np.asarray(model.rows(data.u[k]).settling)[:, 0]
            assert settling.tolist() == [1.0, 1.0] + [0.0] * (len(settling) - 2)
            starts = np.asarray(params[-1][k]).reshape(2, 2)
            np.testing.assert_array_equal(starts[::-1], data.y[k, :2])


# -- fitting -------------------------------------------------------------------------


def test_the_free_run_is_better_on_fresh_data_with_noise_at_the_output(
    one_step, model
) -> None:
    errors = []
    for seed in (11, 12, 13):
        fresh = output_error(seed)
        runs = [m.simulate(fresh, samples=0) for m in (one_step, model)]
        errors.append([sparsid.rmse(fresh, run)[0] for run in runs])
    before, after = np.mean(errors, axis=0)
    assert after < before
    assert after < 1.3 * NOISE
    assert model.outcome_ in (Outcome.CONVERGED, Outcome.CYCLES)
    assert type(one_step.fitted_) is sparsid.Fitted


def test_the_noise_is_found_at_the_output(model) -> None:
    white, coloured, phi = model.fitted_.noise_parts
    assert 0.8 * NOISE < model.noise_std_[0] < 1.3 * NOISE
    assert white[0] > coloured[0]
    assert 0.0 < phi[0] < 1.0


def test_cost_never_rises_at_fixed_structure(model, stage) -> None:
    history = model.history_
    assert len(history["cost"]) == len(history["structure"])
    same = np.diff(history["structure"]) == 0
    same &= np.diff(history["rows"]) == 0
    later = np.arange(len(same)) >= len(stage[0].history["cost"])
    fall = -np.diff(history["cost"])
    assert (fall[same & later] >= 0).all()
    assert (same & later).sum() > 10


def test_a_network_that_runs_away_is_led_back(model, stage) -> None:
    found, recursion, windows, settings = stage
    wild = list(found.state.params)
    # The linear path is the last block: its feedback of 2 doubles at every sample.
    inputs = len(recursion.input_table)
    column = next(k for k, place in enumerate(recursion.source) if place >= inputs)
    wild[-1] = np.array(wild[-1])
    wild[-1][column] = 2.0
    start = found._replace(state=found.state._replace(params=tuple(wild)))
    with jax.enable_x64(True):
        stage_ = narx_free_run._RunFit(start, recursion, windows, settings, 10, None)
        first = float(stage_.first.cost[0])
        refined = stage_.run()
    assert not first < refined.found.cost
    assert refined.found.outcome is not Outcome.DIVERGED
    assert refined.found.cost < model.fitted_.log_evidence * -2 + 50


def test_what_comes_out_is_never_worse_than_what_went_in(stage) -> None:
    found, recursion, windows, settings = stage
    with jax.enable_x64(True):
        told = []
        run = narx_free_run._RunFit(
            found,
            recursion,
            windows,
            settings,
            10,
            lambda p: told.append(p) or len(told) > 3,
        )
        first = float(run.first.cost[0])
        refined = run.run()
    assert refined.found.outcome is Outcome.STOPPED
    assert refined.found.cost <= first
    assert {p.phase for p in told} == {"ease in"}


@pytest.mark.usefixtures("x64")
def test_saliency_against_a_constrained_least_squares_fit() -> None:
    """Removing a row of a linear model: the others move as a refit would move them."""
    rng = np.random.default_rng(0)
    network = Network((3, 1))
    z, y = rng.normal(size=(40, 3)), rng.normal(size=40)
    prior = tuple(sparsid.bayes.prior.start_prior(network, ("row",)))
    X = np.column_stack([z, np.ones(40)])
    precision = X.T @ X + np.diag(1.0 / np.asarray(prior[0].variances())[:, 0])
    w = np.linalg.solve(precision, X.T @ y)
    linear = Linearised(
        jnp.zeros(0),
        sparsid.bayes.curvature.pieces.Dense(jnp.asarray(X)),
        jnp.zeros(()),
    )
    C = laplace(linear, prior).covariance
    state = sparsid.bayes.cost.State((w[:, None],), jax.device_get(prior), np.ones(1))

    def cost(w):
        return ((y - X @ w) ** 2).sum() + 3.0 * (w**2).sum()

    for candidate in saliency.candidates(state, C):
        left = [k for k in range(4) if k != candidate.row]
        fit = np.zeros(4)
        fit[left] = np.linalg.solve(precision[np.ix_(left, left)], X[:, left].T @ y)
        np.testing.assert_allclose(candidate.chi2, cost(fit) - cost(w), rtol=1e-8)
        empty = np.zeros((0, 0))
        removed, _ = saliency.remove(network, state, empty, C, [candidate])
        np.testing.assert_allclose(removed.params[0][:, 0], fit, atol=1e-10)


def test_a_window_as_long_as_the_record_is_the_simulation(model) -> None:
    same = NARX(**SMALL, objective="windows", window=1000).fit(output_error())
    for a, b in zip(model.fitted_.params, same.fitted_.params, strict=True):
        np.testing.assert_array_equal(a, b)
    assert same.log_evidence_ == model.log_evidence_


def test_windows_have_their_own_starts(one_step) -> None:
    settings = {**SMALL, "objective": "windows", "window": 50, "max_cycles": 40}
    model = NARX(**settings, prune=False).fit(output_error())
    assert model.fitted_.starts.shape == model.fitted_.start_std.shape == (5, 1, 1)
    assert (model.fitted_.start_std > 0).all()
    assert "5 windows of at most 50 samples" in " ".join(model.summary().split())
    fresh = output_error(11)
    errors = [
        sparsid.rmse(fresh, m.simulate(fresh, samples=0))[0] for m in (one_step, model)
    ]
    assert errors[1] < 1.1 * errors[0]


# -- use -----------------------------------------------------------------------------


def test_runs_and_predictions_have_finite_bands(model) -> None:
    fresh = output_error(21)
    run = model.simulate(fresh)
    assert run.start == model.max_lag_ == 1
    inside = np.abs((run.mean - fresh.y) / run.std)[1:] < 1.96
    assert 0.85 < inside.mean() <= 1.0
    from_inputs = model.simulate(fresh.u)
    assert from_inputs.start == 0
    assert np.isfinite(from_inputs.std).all()
    for horizon in (1, 4):
        ahead = model.predict(fresh, horizon=horizon)
        assert (ahead.horizon, ahead.start) == (horizon, horizon)
        assert np.isfinite(ahead.mean[horizon:]).all()
        inside = np.abs((ahead.mean - fresh.y) / ahead.std)[horizon:] < 1.96
        assert 0.85 < inside.mean() <= 1.0
    # With the noise at the output the network itself is the worse predictor.
    by_network = sparsid.Fitted.predict(model.fitted_, fresh)
    own = sparsid.rmse(fresh, model.predict(fresh))[0]
    assert own < sparsid.rmse(fresh, by_network)[0]


def test_runs_go_through_gaps_of_the_outputs_alone(model) -> None:
    fresh = output_error(21)
    y = fresh.y.copy()
    y[50:60] = np.nan
    gap = Record(fresh.u, y, 1.0, input_names="drive", output_names="angle")
    through = model.predict(gap)
    assert np.isfinite(through.mean[1:]).all()
    whole = model.predict(fresh)
    np.testing.assert_array_equal(through.mean[:51], whole.mean[:51])
    u = fresh.u.copy()
    u[50] = np.nan
    cut = Record(u, fresh.y, 1.0, input_names="drive", output_names="angle")
    assert np.isnan(model.predict(cut).mean[50:52]).all()
    assert np.isfinite(model.predict(cut).mean[52:]).all()


def test_round_trip_of_the_file(model, tmp_path) -> None:
    model.save(tmp_path / "m.sparsid")
    again = sparsid.load(tmp_path / "m.sparsid")
    fresh = output_error(21)
    np.testing.assert_array_equal(again.simulate(fresh).std, model.simulate(fresh).std)
    np.testing.assert_array_equal(again.predict(fresh).mean, model.predict(fresh).mean)
    assert again.get_params() == model.get_params()
    assert again.summary() == model.summary()
    assert "free run over each record" in model.summary()
    facts = sparsid.results.summary.result_dict(again.fitted_)
    assert facts["objective"] == "simulation"
    assert facts["free_run_rmse"][0] < 1.3 * NOISE
    assert len(facts["white_std"]) == 1


def test_the_command_knows_the_objective(tmp_path) -> None:
    record = output_error()
    columns = {"drive": record.u[:, 0], "angle": record.y[:, 0]}
    write_csv(tmp_path / "data.csv", columns, {})
    command = ["identify", str(tmp_path / "data.csv"), "--input", "drive", "--dt", "1"]
    command += ["--output", "angle", "--lags", "1", "--hidden", "2", "--linear-path"]
    command += ["--objective", "simulation", "--max-cycles", "120", "--test-fraction"]
    command += ["0", "--out", str(tmp_path / "out"), "--json"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    result = json.loads(done.stdout)
    assert result["settings"]["objective"] == "simulation"
    assert result["model"]["coloured_phi"][0] > 0.0
    wrong = CliRunner().invoke(app, [*command, "--window", "40", "--overwrite"])
    assert wrong.exit_code == 2


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"objective": "free"}, "choose one of one-step, simulation, windows"),
        ({"window": 50}, "leave it out"),
        ({"objective": "simulation", "window": 50}, "leave it out"),
        ({"objective": "windows", "window": 3}, "from 4 to"),
        ({"objective": "windows", "window": 40.0}, "whole number"),
        ({"objective": "simulation", "method": "ridge"}, "needs method='sparse-bayes'"),
        (
            {"objective": "simulation", "algorithm": "paper"},
            "needs algorithm='guarded'",
        ),
        ({"objective": "windows", "noise_std": 0.1}, "learns it from the records"),
        ({"objective": "windows", "strength": 2.0}, "learns it from the records"),
    ],
)
def test_bad_settings_are_refused(settings, message) -> None:
    with pytest.raises(InputError, match=message):
        NARX(**{**SMALL, **settings}).fit(output_error())


@pytest.mark.usefixtures("x64")
def test_runs_that_do_not_fit_in_memory_are_refused() -> None:
    model, _, _ = runs(8, 0.0)
    record = Record(np.arange(23.0) % 5, np.random.default_rng(0).normal(size=(23, 2)))
    windows = windows_of([record], Scaling.of([record]), 2, model.recursion, 8)
    with pytest.raises(InputError, match="use longer windows"):
        narx_windows.check_size(model, windows, 1e4)
