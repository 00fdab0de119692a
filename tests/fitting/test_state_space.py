"""The latent-state model: derivatives, descent, noise, runs, files."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_systems import SMALL_STATES as SMALL
from small_systems import tank
from typer.testing import CliRunner

import sparsid
from sparsid import InputError, Record, StateSpace
from sparsid.bayes.cost import Problem
from sparsid.bayes.curvature import WHOLE
from sparsid.bayes.objective import FreeRun
from sparsid.bayes.sensitivities import free_runs
from sparsid.cli.app import app
from sparsid.data.pieces import held_out, runs_of, saturation
from sparsid.fitting import batch_descent, state_space
from sparsid.fitting.cross_validation import held_out_errors, held_out_fits
from sparsid.fitting.state_space import StateSpaceFit, _Member
from sparsid.fitting.state_space_structure import StateSettings, structure_of
from sparsid.models.network import SUBLINEAR
from sparsid.models.simulator import outputs
from sparsid.models.state_space import StateNetwork
from sparsid.results.outcome import Outcome

WAYS = batch_descent.DIRECTIONS


@pytest.fixture(scope="module")
def model():
    return StateSpace(**SMALL).fit(tank())


def test_programs_are_compiled_once() -> None:
    programs = (
        batch_descent._evaluate,
        batch_descent._moved,
        batch_descent._accept,
        batch_descent._adopt,
        batch_descent._updated,
        batch_descent._other_noise,
    )
    before = [program._cache_size() for program in programs]
    # No other test has a record of this length.
    StateSpace(**{**SMALL, "max_cycles": 14}).fit(tank(samples=97))
    after = [program._cache_size() for program in programs]
    assert [b - a for a, b in zip(before, after, strict=True)] == [1] * 6


@pytest.mark.usefixtures("x64")
def test_a_member_that_came_to_a_poor_end_is_dropped(model) -> None:
    ensemble, record = model.fitted_, tank()
    settings = StateSettings.of(model.get_params() | {"starts": 4}, 1)
    data = runs_of([record], ensemble.scaling)
    measured = np.repeat(np.asarray(data.measured)[None], 4, axis=0)
    fit = StateSpaceFit(
        ensemble.model, data._replace(measured=measured), settings, None
    )
    good = tuple(w[0] for w in ensemble.params)
    poor = (*good[:-4], good[-4] + 5.0, *good[-3:])
    members = [
        _Member(k, params, ensemble.noise, np.eye(1), np.ones(1), 0.0, 1)
        for k, params in enumerate([good, poor, good, good])
    ]
    assert [m.number for m in fit._good(members)] == [0, 2, 3]
    # The best two are kept in any case.
    assert fit._good(members[:2]) == members[:2]
    worse = (*good[:-4], good[-4] - 50.0, *good[-3:])
    third = members[2]._replace(params=worse)
    assert [m.number for m in fit._good([*members[:2], third])] == [0, 1]
    assert fit._good(members[:1]) == members[:1]


# -- derivatives and descent ---------------------------------------------------------


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(
    ("inputs", "outputs_", "hidden", "activation"),
    [
        (1, 1, (3,), "softroot"),
        (2, 2, (3, 4), "tanh"),
        (0, 1, (2, 3, 2), "sigmoid"),
    ],
)
def test_sensitivities_against_autodiff_of_a_plain_run(
    inputs, outputs_, hidden, activation
) -> None:
    """Two members on two records; the first output saturates, a start is beyond."""
    limits = (-np.inf,) * outputs_, (0.4, np.inf)[:outputs_]
    network = StateNetwork(inputs, outputs_, 3, hidden, 2, 0.3, *limits, activation)
    rng = np.random.default_rng(0)
    first = jnp.full((2, outputs_), 0.3).at[1].set(0.9)
    params = jax.vmap(lambda key: network.init(first, key=key))(
        jax.random.split(jax.random.key(1), 2)
    )
    params = tuple(w + 0.1 * rng.normal(size=w.shape) for w in params)
    u = jnp.asarray(rng.normal(size=(2, 30, inputs)))

    def plainly(params):
        """Return outputs and derivatives of each run, by weights and own start."""

        def one(weights, start, u):
            def run(*own):
                return outputs(network, own, own[-1][0], u)

            own = (*weights, start[None])
            slopes = jax.jacfwd(run, argnums=tuple(range(len(own))))(*own)
            J = [d.reshape(len(u), outputs_, -1) for d in slopes]
            return run(*own), jnp.concatenate(J, axis=2)

        of_records = jax.vmap(one, (None, 0, 0))
        found = jax.vmap(of_records, (0, 0, None))(params[:-1], params[-1], u)
        return tuple(jnp.moveaxis(a.reshape(4, *a.shape[2:]), 0, -1) for a in found)

    found = jax.jit(lambda params: free_runs(network, params, u))
    (y, J), pullback = jax.vjp(found, params)
    expected, plain_pullback = jax.vjp(jax.jit(plainly), params)
    np.testing.assert_allclose(y, expected[0], atol=1e-12)
    np.testing.assert_allclose(J, expected[1], atol=1e-10)
    assert float(np.max(y[:, 0])) == pytest.approx(0.4)
    cotangents = tuple(jnp.asarray(rng.normal(size=a.shape)) for a in (y, J))
    for mine, plain in zip(
        *(pull(cotangents)[0] for pull in (pullback, plain_pullback)), strict=True
    ):
        np.testing.assert_allclose(mine, plain, atol=1e-9)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("activation", SUBLINEAR)
def test_whatever_the_weights_a_run_is_bounded(activation) -> None:
    limits = (-np.inf,), (np.inf,)
    network = StateNetwork(1, 1, 3, (4,), 1, 0.5, *limits, activation)
    u = jnp.asarray(np.random.default_rng(0).normal(size=(3000, 1)))
    for seed in range(5):
        params = network.init(jnp.zeros((1, 1)), key=jax.random.key(seed))
        wild = tuple(20.0 * w for w in params[:-2]) + params[-2:]
        y = np.asarray(outputs(network, wild, wild[-1][0], u))
        assert np.isfinite(y).all()
        # Twice as long is no larger: it does not creep away either.
        assert np.abs(y[1500:]).max() < 2.0 * np.abs(y[:1500]).max() + 1.0


def free_run_fit():
    record = tank()
    settings = StateSettings.of(StateSpace(**SMALL).get_params(), 1)
    scaling = sparsid.data.scaling.Scaling.of([record])
    data = runs_of([record], scaling)
    data = data._replace(measured=np.repeat(data.measured[None], 2, axis=0))
    structure, _ = structure_of(settings, [record], scaling)
    fit = StateSpaceFit(structure, data, settings, None)
    return Problem(FreeRun(structure), WHOLE), fit, data


@pytest.mark.usefixtures("x64")
def test_no_member_ever_goes_uphill() -> None:
    problem, fit, data = free_run_fit()
    d = batch_descent.begin(problem, fit._start(), data, 0.0)
    for cycle in range(8):
        if cycle == 4:
            d = batch_descent.count_volume(problem, d, data, 1.0)
        for move in (
            lambda d: batch_descent.take_step(problem, d, data),
            lambda d: batch_descent.update(problem, fit.rule, d, data),
            lambda d: batch_descent.update_noise(problem, d, data),
            lambda d: batch_descent.update(problem, fit.rule, d, data, WAYS),
        ):
            before, d = d.cost, move(d)
            assert (d.cost <= before).all()


@pytest.mark.usefixtures("x64")
def test_the_known_curvature_tells_what_new_variances_bring() -> None:
    problem, fit, data = free_run_fit()
    d = batch_descent.begin(problem, fit._start(), data, 1.0)
    for _ in range(3):
        d = batch_descent.take_step(problem, d, data)
    changed = batch_descent._updated(fit.rule, d)
    after = batch_descent.update(problem, fit.rule, d, data)
    assert (after.cost < d.cost).all()
    for new, told in zip(after.state.prior, changed.prior, strict=True):
        np.testing.assert_array_equal(new.rows, told.rows)


# -- fitting -------------------------------------------------------------------------


def test_it_simulates_a_fresh_record(model) -> None:
    test = tank(seed=5)
    run = model.simulate(test)
    assert run.start == model.max_lag_ == 8
    assert np.isnan(run.mean[:8]).all()
    assert sparsid.rmse(test, run)[0] < 0.1 * test.y.std()
    assert model.score(test) > 0.9
    z = ((run.mean - test.y) / run.std)[8:]
    assert (np.abs(z) < 3).mean() > 0.9
    from_inputs = model.simulate(test.u, samples=0)
    assert from_inputs.start == 0
    assert np.isnan(from_inputs.std).all()
    assert sparsid.rmse(test, from_inputs)[0] < 0.15 * test.y.std()
    started = model.simulate(test.u, test.y[:8], samples=0)
    np.testing.assert_array_equal(started.mean[8:], run.mean[8:])


def test_predictions_follow_the_measured_outputs(model) -> None:
    test = tank(seed=5)
    disturbed = Record(
        test.u, test.y + 0.2, test.dt, input_names="pump", output_names="level"
    )
    free = sparsid.rmse(disturbed, model.simulate(disturbed, samples=0))[0]
    one_step = sparsid.rmse(disturbed, model.predict(disturbed))[0]
    assert one_step <= free
    ahead = model.predict(disturbed, horizon=5)
    assert (ahead.horizon, ahead.start) == (5, 12)
    assert np.isfinite(ahead.mean[12:]).all()


def test_the_seed_settles_the_result(model) -> None:
    again = StateSpace(**SMALL).fit(tank())
    for a, b in zip(model.fitted_.params, again.fitted_.params, strict=True):
        np.testing.assert_array_equal(a, b)


def test_members_can_be_looked_at(model) -> None:
    ensemble, test = model.members_, tank(seed=5)
    assert len(ensemble) == 2
    runs = [ensemble.member(k).simulate(test.u, samples=0).mean for k in range(2)]
    whole = model.simulate(test.u, samples=0).mean
    np.testing.assert_allclose(whole, np.median(runs, axis=0), atol=1e-12)
    assert model.log_evidence_ == ensemble.log_evidence.max()


def test_a_record_without_inputs() -> None:
    y = np.sin(0.2 * np.arange(120.0)) * np.exp(-0.01 * np.arange(120.0))
    model = StateSpace(**{**SMALL, "max_cycles": 12}).fit(Record(None, y))
    assert np.isfinite(model.log_evidence_)
    assert np.isfinite(model.simulate(Record(None, y), samples=0).mean[8:]).all()


def test_gaps_and_several_records() -> None:
    record = tank()
    y = record.y.copy()
    y[60:70] = np.nan
    u = record.u.copy()
    u[150:155] = np.nan
    gappy = Record(u, y, record.dt, input_names="pump", output_names="level")
    model = StateSpace(**SMALL).fit([gappy, tank(seed=1, samples=100)])
    assert model.fitted_.details["segments"] == 3
    assert model.fitted_.model.records == 3
    test = tank(seed=5)
    assert sparsid.rmse(test, model.simulate(test.u, samples=0))[0] < 0.2


def test_saturation_is_found_and_kept_to() -> None:
    record = tank(top=1.3)
    model = StateSpace(**{**SMALL, "max_cycles": 1}).fit(record)
    assert model.fitted_.details["notes"] == ["level saturates at 1.3"]
    run = model.simulate(10.0 * record.u, samples=0)
    assert run.mean.max() == pytest.approx(1.3)
    settings = StateSettings.of(StateSpace(**SMALL, saturation="none").get_params(), 1)
    scaling = sparsid.data.scaling.Scaling.of([record])
    structure, notes = structure_of(settings, [record], scaling)
    assert (structure.ceiling, notes) == ((np.inf,), [])


def test_what_counts_as_saturation() -> None:
    stay = [0.0, 1, 2, 2, 2, 1]
    assert saturation([np.array(stay + stay)]) == 2
    assert saturation([np.array(stay), np.array(stay)]) == 2
    assert saturation([np.array([np.nan, 0]), np.array(stay + stay)]) == 2
    # Once is enough where it arrives in full swing and never rests elsewhere.
    assert saturation([np.array(stay)]) == 2
    assert saturation([np.array([0.0, 0, *stay])]) is None
    assert saturation([np.minimum(1.0 - 0.5 ** np.arange(99.0), 1.0)]) is None
    assert saturation([np.round(1.0 - np.exp(-np.arange(300.0) / 2), 2)]) is None
    # A record may begin at rest.
    assert saturation([np.array([2.0, 2, 2, 0, 1, 2, 2, 2])]) is None
    assert saturation([np.array([0.0, 2, 1, 2, 1, 2])]) is None
    assert saturation([np.arange(1000.0)]) is None


def test_a_stop_keeps_the_members() -> None:
    kept = []

    def stop_at_three(progress):
        kept.append(progress.kept)
        return progress.cycle == 3

    model = StateSpace(**SMALL).fit(tank(), progress=stop_at_three)
    assert all(0 < share <= 1 for share in kept)
    assert model.outcome_ is Outcome.STOPPED
    assert len(model.history_["cost"]) == 3
    assert np.isfinite(model.simulate(tank().u, samples=0).mean).all()


def test_held_out_error_is_that_of_unseen_blocks() -> None:
    record = tank()
    params = StateSpace(**{**SMALL, "starts": 1}).get_params()
    # Two blocks of one start: the programs of two starts.
    fits = held_out_fits(params, [record], 2)
    assert fits is not None
    assert [len(fit) for fit in fits] == [1, 1]
    assert 0 < held_out_errors(fits, [record]).rms < 0.3
    assert held_out_fits(params, [record], 2, lambda p: p.cycle == 2) is None


def test_every_sample_is_held_out_once_but_the_first() -> None:
    stretches = [tank(), tank(samples=50), tank(samples=5)]
    masks = held_out(stretches, 4, known=8)
    for k, stretch in enumerate(stretches):
        times = np.sum([block[k] for block in masks], axis=0)
        assert (times[:8] == 0).all()
        assert (times[8:] == 1).all()
        assert len(times) == len(stretch)
    sizes = [sum(m.sum() for m in block) for block in masks]
    assert max(sizes) - min(sizes) <= 1


def test_every_output_has_its_own_noise() -> None:
    quiet, noisy = tank(noise=0.002), tank(noise=0.1)
    y = np.hstack([quiet.y, noisy.y])
    model = StateSpace(**SMALL).fit(Record(quiet.u, y))
    white, coloured, phi = model.fitted_.noise_parts
    assert white.shape == coloured.shape == phi.shape == (2,)
    assert white[1] > 5 * white[0]


def test_coloured_noise_is_recovered_and_preferred() -> None:
    """Known AR(1) plus white noise on a system that the model can represent."""
    rng = np.random.default_rng(1)
    samples = 480
    clean = tank(noise=0.0, samples=samples)
    a = np.zeros(samples)
    for t in range(1, samples):
        a[t] = 0.9 * a[t - 1] + np.sqrt(1 - 0.9**2) * 0.05 * rng.normal()
    record = Record(clean.u, clean.y[:, 0] + a + 0.02 * rng.normal(size=samples))
    model = StateSpace(**{**SMALL, "max_cycles": 40}).fit(record)
    white, coloured, phi = (float(p[0]) for p in model.fitted_.noise_parts)
    assert white == pytest.approx(0.02, rel=0.4)
    assert coloured == pytest.approx(0.05, rel=0.5)
    assert phi == pytest.approx(0.9, abs=0.08)
    with pytest.MonkeyPatch.context() as patch:
        # No colour to begin with, and no way to it.
        patch.setattr(state_space, "START_NOISE", (-3.0, -18.0, -4.0))
        white = tuple(way if not any(way[1:]) else (0, 0, 0) for way in WAYS)
        patch.setattr(batch_descent, "DIRECTIONS", white)
        plain = StateSpace(**{**SMALL, "max_cycles": 40}).fit(record)
    assert model.log_evidence_ > plain.log_evidence_ + 10


# -- files and texts -----------------------------------------------------------------


def test_a_file_brings_the_model_back(model, tmp_path) -> None:
    path = tmp_path / "tank.sparsid"
    model.save(path)
    loaded = sparsid.load(path)
    assert isinstance(loaded, StateSpace)
    assert loaded.get_params() == model.get_params()
    test = tank(seed=5)
    for ours, theirs in (
        (model.simulate(test), loaded.simulate(test)),
        (model.predict(test), loaded.predict(test)),
    ):
        np.testing.assert_array_equal(ours.mean, theirs.mean)
        np.testing.assert_array_equal(ours.std, theirs.std)
    assert loaded.summary() == model.summary()


def test_the_course_of_a_fit_can_be_drawn(model) -> None:
    history = model.history_
    assert set(history) == {"cost", "kept", "structure", "seconds"}
    assert all(v.shape == (len(history["cost"]),) for v in history.values())
    ax = sparsid.plots.history(model)
    assert len(ax.lines[0].get_xdata()) == len(history["cost"])


def test_the_summary_says_what_it_is(model) -> None:
    text = model.summary()
    for part in ("State-space model of level", "2: level and 1 that is not measured"):
        assert part in text
    assert "members" in text
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"states": 0}, "states=0"),
        ({"activation": "relu"}, "activation='relu'"),
        ({"saturation": "maybe"}, "saturation='maybe'"),
        ({"hidden": (0,)}, "hidden=0"),
        ({"hidden": "10"}, "hidden='10'"),
        ({"hidden": ()}, "needs a hidden layer"),
        ({"hidden": (50, 50)}, "weights and 16 starts"),
        ({"starts": 0}, "starts=0"),
    ],
)
def test_bad_settings_are_refused(settings, message) -> None:
    with pytest.raises(InputError, match=message):
        StateSpace(**settings).fit(tank())


def test_bad_records_are_refused(model) -> None:
    with pytest.raises(InputError, match="only settle"):
        model.simulate(tank().u[:6], tank().y[:8])
    names = {"input_names": "pump", "output_names": "level"}
    record = Record(tank().u, tank().y, 2.0, **names, output_units="mm")
    with pytest.raises(InputError, match="in mm but the model in m"):
        model.simulate(record)
    with pytest.raises(InputError, match="at least 30"):
        StateSpace(**SMALL).fit(tank(samples=20))
    with pytest.raises(InputError, match="only settle the start state"):
        model.simulate(tank()[:8])
    with pytest.raises(InputError, match="cannot cross a gap"):
        model.simulate(np.array([1.0, np.nan, 1.0]))
    with pytest.raises(InputError, match="leave y_init out"):
        model.simulate(tank(), tank().y)
    two = Record(np.ones(40), np.random.default_rng(0).normal(size=(40, 2)))
    with pytest.raises(InputError, match="at least 2 are needed"):
        StateSpace(states=1).fit(two)


# -- the command ---------------------------------------------------------------------


def command(*arguments):
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert result.exit_code == 0, result.output
    return result


def test_the_command_from_a_file_to_a_simulation(tmp_path) -> None:
    record = tank()
    rows = zip(record.time, record.u[:, 0], record.y[:, 0], strict=True)
    lines = ["t,pump,level", *(f"{t},{u},{y}" for t, u, y in rows)]
    data = tmp_path / "tank.csv"
    data.write_text("\n".join(lines))
    choice = ["--input", "pump", "--output", "level", "--test-fraction", 0]
    small = ["--states", 2, "--hidden", 3, "--starts", 2, "--max-cycles", 12]
    small += ["--start-samples", 8, "--out", tmp_path / "out"]
    result = command("identify", data, *choice, *small)
    assert "members" in result.stdout
    found = json.loads((tmp_path / "out" / "result.json").read_text())
    assert found["kind"] == "StateSpace"
    assert found["model"]["members"] == 2
    model = tmp_path / "out" / "model.sparsid"
    assert "State-space model of level" in command("info", model).stdout
    for verb in ("simulate", "predict"):
        out = tmp_path / f"{verb}.csv"
        command(verb, model, data, "--out", out)
        assert len(out.read_text().splitlines()) == 241
