"""The simulator a user meets: from records to free runs, bands and files."""

from dataclasses import replace

import numpy as np
import pytest

import sparsid
import sparsid.diagnostics
from sparsid import InputError, Record, Simulator
from sparsid.results.outcome import Outcome
from sparsid.simulation import fit
from sparsid.validation.baselines import Arx


def damped(seed: int = 0, samples: int = 400, gain: float = 0.0, late: int = 0):
    """A damped oscillation, with a spring that hardens by ``gain``."""
    rng = np.random.default_rng(seed)
    u = np.repeat(rng.normal(size=samples // 4 + 1), 4)[:samples]
    x, v, y = 0.0, 0.0, np.zeros(samples)
    for t in range(samples):
        y[t] = x
        push = u[t - late] if t >= late else u[0]
        for _ in range(4):
            v -= 0.08 * (0.6 * v + x + gain * x**3 - push)
            x += 0.08 * v
    return Record(u, y + 0.01 * rng.normal(size=samples), 0.1, output_names="place")


@pytest.fixture(scope="module")
def linear() -> Simulator:
    return Simulator("linear").fit(damped())


@pytest.fixture(scope="module")
def spring() -> Simulator:
    return Simulator("linear first", states=2, neurons=4).fit(damped(gain=1.0))


def error(model, record: Record) -> float:
    run = model.simulate(record, samples=0)
    return float(np.sqrt(np.nanmean((run.mean - record.y) ** 2)))


def test_a_linear_system_is_simulated_up_to_its_noise(linear) -> None:
    assert error(linear, damped(seed=5)) < 0.013
    poles = [complex(p["real"], p["imag"]) for p in linear.fitted_.facts()["poles"]]
    step = np.array([[1.0 - 0.08**2, 0.08 * (1.0 - 0.048)], [-0.08, 1.0 - 0.048]])
    true = np.linalg.eigvals(np.linalg.matrix_power(step, 4))
    assert min(abs(p - true[0]) for p in poles) < 0.01
    assert linear.outcome_ is Outcome.CONVERGED
    assert "a linear model" in linear.summary()


def test_the_dead_time_is_found() -> None:
    model = Simulator("linear").fit(damped(late=7))
    assert error(model, damped(seed=5, late=7)) < 0.014
    assert model.fitted_.delays == (7,) or model.fitted_.delays == (8,)


def test_neurons_follow_a_hardening_spring(spring) -> None:
    test = damped(seed=5, gain=1.0)
    line = Simulator("linear").fit(damped(gain=1.0))
    assert error(spring, test) < 0.4 * error(line, test)
    assert spring.fitted_.name.startswith("linear first, 2 states, 4 neurons")
    candidates = spring.fitted_.details["candidates"]
    assert candidates[0]["name"].startswith("linear, ")
    assert candidates[1]["held_out_error"] < 0.4 * candidates[0]["held_out_error"]


def test_prediction_is_not_worse_than_a_linear_regression(spring) -> None:
    train, test = damped(gain=1.0), damped(seed=5, gain=1.0)
    arx = Arx.chosen([train], spring.fitted_.scaling)
    ahead = spring.predict(test)
    first = max(ahead.start, arx.lags.max_lag)
    ours, theirs = (
        float(np.sqrt(np.mean((found[first:] - test.y[first:]) ** 2)))
        for found in (ahead.mean, arx.predict(test))
    )
    assert ours < 1.02 * theirs
    # Further ahead the residual before tells less, never more.
    stds = [spring.predict(test, horizon=k).std[-1, 0] for k in (1, 2, 10)]
    assert stds == sorted(stds)


def test_predictions_go_over_into_the_free_run(linear) -> None:
    record = damped(seed=3, samples=300)
    far = linear.predict(record, horizon=200).mean[-20:]
    np.testing.assert_allclose(far, linear.simulate(record).mean[-20:], atol=0.02)


def test_bands_hold_what_they_say(spring) -> None:
    inside = []
    for seed in range(5, 9):
        test = damped(seed=seed, gain=1.0)
        low, high = spring.simulate(test).band(0.9)
        known = np.isfinite(low[:, 0])
        inside.append(((low < test.y) & (test.y < high))[known].mean())
    assert 0.75 < np.mean(inside) < 0.99
    bands = spring.fitted_.details["bands"]
    assert bands["blocks"] == 8
    assert 0.8 < bands["held"] < 0.97


def test_deviations_of_the_linearised_model_are_those_of_draws(linear) -> None:
    u = damped(seed=2, samples=200).u
    by_hand = linear.simulate(u)
    drawn = linear.simulate(u, samples=600, sampled=True, seed=1)
    np.testing.assert_allclose(by_hand.model_std, drawn.model_std, rtol=0.35, atol=1e-4)
    assert np.isnan(linear.simulate(u, samples=0).std).all()


def test_the_same_seed_gives_the_same_model(spring) -> None:
    again = Simulator("linear first", states=2, neurons=4).fit(damped(gain=1.0))
    u = damped(seed=5).u
    np.testing.assert_array_equal(again.simulate(u).mean, spring.simulate(u).mean)


@pytest.mark.parametrize("name", ["linear", "spring"])
def test_round_trip_of_the_file(name, request, tmp_path) -> None:
    model, test = request.getfixturevalue(name), damped(seed=4)
    model.save(tmp_path / "model.sparsid")
    again = sparsid.load(tmp_path / "model.sparsid")
    assert again.summary() == model.summary()
    assert again.get_params() == model.get_params()
    for kind in ("simulate", "predict"):
        ours, theirs = (getattr(m, kind)(test) for m in (model, again))
        np.testing.assert_array_equal(ours.mean, theirs.mean)
        np.testing.assert_array_equal(ours.std, theirs.std)


def test_few_first_outputs_start_a_run(linear) -> None:
    record = damped(seed=6)
    run = linear.simulate(record.u, record.y[:3])
    assert run.start == 3
    assert np.sqrt(np.mean((run.mean[3:] - record.y[3:]) ** 2)) < 0.05
    with pytest.raises(InputError, match="at least 1 samples"):
        linear.simulate(record.u, np.zeros((0, 1)))


def test_gaps_and_several_records() -> None:
    one, two = damped(seed=1), damped(seed=2, samples=200)
    y, u = one.y.copy(), two.u.copy()
    y[100:130] = np.nan
    u[90:95] = np.nan
    gappy = Record(one.u, y, 0.1, output_names="place")
    torn = Record(u, two.y, 0.1, output_names="place")
    model = Simulator("linear").fit([gappy, torn])
    assert error(model, damped(seed=5)) < 0.014
    run = model.simulate(torn)
    assert np.isnan(run.mean[90:95]).all()
    assert np.isfinite(run.mean[150:]).all()
    ahead = model.predict(gappy)
    assert np.isfinite(ahead.mean[ahead.start :]).all()


def test_several_inputs_and_outputs() -> None:
    rng = np.random.default_rng(0)
    u, y = rng.normal(size=(400, 2)), np.zeros((400, 2))
    A = np.array([[0.7, 0.2], [-0.1, 0.8]])
    for t in range(1, 400):
        y[t] = A @ y[t - 1] + [0.5, 0.3] * u[t - 1]
    y += 0.01 * rng.normal(size=y.shape)
    model = Simulator("linear").fit(u, y, dt=1.0)
    run = model.simulate(u, y[:10])
    assert np.sqrt(np.mean((run.mean[10:] - y[10:]) ** 2)) < 0.02
    assert run.band()[0].shape == y.shape
    facts = sparsid.results.summary.result_dict(model.fitted_)
    assert len(facts["dead_times"]) == 2


def test_a_budget_ends_the_search_with_what_there_is() -> None:
    model = sparsid.identify(damped(gain=1.0, samples=1000), budget=2.0)
    assert model.outcome_ is Outcome.STOPPED
    assert error(model, damped(seed=5, gain=1.0)) < 0.3


def test_a_listener_ends_the_search() -> None:
    phases: list[str] = []

    def listen(progress) -> bool:
        phases.append(progress.phase)
        return len(phases) > 6 and "round" in progress.phase

    model = sparsid.identify(damped(gain=1.0), progress=listen)
    assert model.outcome_ is Outcome.STOPPED
    assert phases[0] == "linear models"
    assert np.isfinite(model.simulate(damped(seed=5)).mean[-1]).all()


def test_long_records_are_compared_on_pieces_and_learnt_whole(monkeypatch) -> None:
    monkeypatch.setattr(fit, "COMPARED_SAMPLES", 600)
    monkeypatch.setattr(fit, "COMPARED_PIECE", 200)
    model = Simulator("linear first", states=2, neurons=2).fit(
        damped(samples=2000, gain=0.5)
    )
    text = " ".join(model.summary().split())
    assert "candidates were compared on 600 of 2000 samples" in text
    assert error(model, damped(seed=5, gain=0.5)) < 0.03


def test_linear_data_get_the_linear_model() -> None:
    model = sparsid.identify(damped(samples=300))
    assert model.fitted_.is_linear
    assert "do not support a nonlinear model" in " ".join(model.summary().split())


def test_what_cannot_be_fitted_is_refused() -> None:
    record = damped(samples=400)
    with pytest.raises(InputError, match="give one of 'auto'"):
        Simulator("cubic").fit(record)
    with pytest.raises(InputError, match="at least 30 are needed"):
        Simulator().fit(record[:20])
    with pytest.raises(InputError, match="scheduler"):
        Simulator().fit(record, scheduler="tcp://127.0.0.1:1")
    with pytest.raises(InputError, match="states=0"):
        Simulator(states=0).fit(record)


def test_relevance_names_inputs_states_and_neurons(spring) -> None:
    table = sparsid.diagnostics.relevance(spring)
    assert set(table["kind"]) == {"input", "state", "neuron"}
    assert table.set_index("name").loc["u", "evidence"] > 5.0
    weights = sparsid.diagnostics.weights_table(spring)
    assert len(weights) == spring.fitted_.members[0].structure.parameters


def test_a_member_is_a_model_of_its_own(spring) -> None:
    test = damped(seed=5)
    runs = [m.mean for m in (spring.fitted_.member(k).simulate(test) for k in range(2))]
    assert not np.array_equal(*runs)
    with pytest.raises(IndexError):
        spring.fitted_.member(99)
    alone = replace(spring.fitted_, members=spring.fitted_.members[:1])
    np.testing.assert_array_equal(alone.simulate(test).mean, runs[0])
