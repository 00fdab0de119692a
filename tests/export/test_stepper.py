"""A model online: the free run, corrections, start states."""

import numpy as np
import pytest
from exported_models import MODELS, free_run, inputs, regression, relative, simulator

from sparsid.data.record import Record
from sparsid.errors import InputError


@pytest.mark.parametrize("kind", MODELS)
def test_a_thousand_steps_are_the_free_run(kind):
    model = MODELS[kind]()
    u = inputs(model)
    stepper = model.stepper()
    found = np.array([stepper.step(now) for now in u])
    assert relative(found, free_run(model, u)) < 1e-12
    stepper.reset()
    again = np.array([stepper.step(now) for now in u[:5]])
    np.testing.assert_array_equal(again, found[:5])


def test_measured_outputs_of_a_one_step_model_start_its_run_over_a_record():
    model = regression(2, 2, delay=2)
    u = inputs(model, 200)
    rng = np.random.default_rng(1)
    y = model.scaling.y_mean + rng.normal(size=(len(u), 2))
    record = Record(u, y, 0.5)
    expected = model.simulate(record, samples=0)
    stepper, lag = model.stepper(), model.lags.max_lag
    for t in range(lag):
        stepper.update(u[t], y[t])
    found = np.array([stepper.step(now) for now in u[lag:]])
    assert relative(found, expected.mean[lag:]) < 1e-12


@pytest.mark.parametrize("kind", ["linear", "cascade", "linear first"])
def test_the_observer_finds_a_state_that_it_was_not_told(kind):
    model = simulator(kind, members=3, delays=[2])
    u = inputs(model, 200)
    truth, blind, seeing = (model.stepper("member:1") for _ in range(3))
    size = len(truth._own)
    truth.reset(truth._own + 2.0)
    off = np.empty((len(u), 2))
    for t, now in enumerate(u):
        # Measured values are those of another start.
        y = truth.step(now)
        errors = blind.step(now) - y, seeing.update(now, y) - y
        off[t] = [np.abs(e).max() for e in errors]
    assert size == 4
    late = off[model.known : 2 * model.known].mean(axis=0)
    assert late[1] < 0.5 * late[0]
    assert np.abs(off[-1, 1]) < 1e-3


def test_the_gain_is_that_of_a_riccati_equation():
    from scipy.linalg import solve_discrete_are

    from sparsid.export.table import table_of

    model = simulator("linear", seed=3)
    member, own = table_of(model).members[0], model.members[0]
    A, C = member.matrices["A"], member.matrices["C"]
    S, R = own.state_root @ own.state_root.T, 0.01 * np.eye(1)
    P = solve_discrete_are(A.T, C.T, S / model.known**2, R)
    expected = A @ P @ C.T @ np.linalg.inv(C @ P @ C.T + R)
    np.testing.assert_allclose(member.gain, expected, rtol=1e-6)


def test_a_missing_measurement_is_a_plain_step():
    model = simulator("cascade")
    u = inputs(model, 10)
    one, other = model.stepper(), model.stepper()
    for now in u:
        np.testing.assert_array_equal(one.update(now, [np.nan]), other.step(now))


def test_states_can_be_kept_and_set():
    model = simulator("linear first", delays=[3])
    u = inputs(model, 20)
    stepper = model.stepper()
    assert stepper.state is None
    for now in u[:10]:
        stepper.step(now)
    kept = stepper.state
    first = [stepper.step(now) for now in u[10:]]
    stepper.state = kept
    np.testing.assert_array_equal(first, [stepper.step(now) for now in u[10:]])


def test_wrong_numbers_of_values_are_refused():
    stepper = simulator("linear", nu=2).stepper()
    with pytest.raises(InputError, match="u has 1 values: give 2"):
        stepper.step([1.0])
    with pytest.raises(InputError, match="start has 3 values"):
        stepper.reset([1.0, 2.0, 3.0])
