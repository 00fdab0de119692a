"""Linear models around operating points, against differences, runs and SciPy."""

import control
import numpy as np
import pytest
import scipy.signal
from made_models import DT, mixed, narx, parameters, simulator
from small_systems import SMALL_STATES, tank

import sparsid
from sparsid.analysis.linearisation import _of_one_size
from sparsid.analysis.responses import Systems
from sparsid.analysis.steps import steps_of
from sparsid.errors import InputError
from sparsid.models.canonical import Pole, Sizes
from sparsid.models.structures.cascade import cascade
from sparsid.models.structures.linear import linear


@pytest.fixture(scope="module")
def leaky() -> sparsid.StateSpace:
    return sparsid.StateSpace(**SMALL_STATES).fit(tank())


@pytest.fixture(params=["simulator", "cascade", "narx", "leaky"])
def model(request, leaky):
    if request.param == "cascade":
        return simulator(cascade(Sizes(3, 2, 2, 1), 0.3, [-3.0], [3.0]))
    made = {"simulator": simulator, "narx": narx, "leaky": lambda: leaky}
    return made[request.param]()


def by_differences(f, x: np.ndarray, h: float = 1e-6) -> np.ndarray:
    columns = []
    for e in h * np.eye(len(x)):
        columns.append((f(x + e) - f(x - e)) / (2.0 * h))
    return np.array(columns).T.reshape(-1, len(x))


def test_derivatives_are_those_of_the_step(model) -> None:
    waiting = steps_of(model.fitted_, 2, 0)
    rng = np.random.default_rng(1)
    for step in [*waiting.members, *waiting.draws[0]]:
        x = 0.3 * rng.normal(size=len(step.rest()))
        v = 0.3 * rng.normal(size=model.fitted_.channels.n_inputs)
        for found, right in zip(step.derivatives(x, v), naive(step, x, v), strict=True):
            assert found == pytest.approx(right, rel=1e-5, abs=1e-8)


def naive(step, x: np.ndarray, v: np.ndarray) -> list[np.ndarray]:
    """A, B, C, D by differences of the step."""
    return [
        by_differences(lambda z: step.advance(z, v), x),
        by_differences(lambda w: step.advance(x, w), v),
        by_differences(lambda z: step.emit(z, v), x),
        by_differences(lambda w: step.emit(x, w), v),
    ]


def settled_run(model, u: np.ndarray) -> np.ndarray:
    return model.simulate(u, samples=0).mean


def test_a_long_run_comes_to_the_steady_state(model) -> None:
    inputs = model.fitted_.scaling.u_mean + 0.4 * model.fitted_.scaling.u_std
    for k in range(len(model.fitted_)):
        own = type(model)(**model.get_params())
        own.fitted_ = model.fitted_.member(k)
        run = settled_run(own, np.tile(inputs, (3000, 1)))
        found = own.steady_state(inputs)
        assert found.outputs == pytest.approx(run[-1], rel=1e-6)
        assert found.stable
        assert (found.low <= found.high).all()


def test_a_small_step_of_simulate_is_the_step_response(model) -> None:
    """Each member apart: the median over members is no linear system."""
    own = type(model)(**model.get_params())
    own.fitted_ = model.fitted_.member(0)
    scaling, late, h = model.fitted_.scaling, 2000, 1e-4
    response = own.linearise().step_response(60).response
    base = np.tile(scaling.u_mean, (late + 60, 1))
    for j in range(base.shape[1]):
        runs = []
        for sign in (1.0, -1.0):
            u = base.copy()
            u[late:, j] += sign * h
            runs.append(settled_run(own, u)[late:])
        difference = (runs[0] - runs[1]) / (2.0 * h)
        scale = np.abs(response).max()
        assert np.abs(difference - response[:, :, j]).max() < 1e-5 * scale


def test_matrices_are_in_the_units_of_the_data() -> None:
    model = simulator(mixed(neurons=0), members=1)
    lin, scaling = model.linearise(), model.fitted_.scaling
    member = model.fitted_.members[0]
    M = member.structure.named(member.theta)
    y_std = scaling.y_std[:, None]
    np.testing.assert_allclose(lin.A, M["A"])
    np.testing.assert_allclose(lin.B, M["B"][:, :-1] / scaling.u_std)
    np.testing.assert_allclose(lin.C, y_std * M["C"])
    np.testing.assert_allclose(lin.D, y_std * M["D"][:, :-1] / scaling.u_std)
    assert lin.delays == (0, 4)
    assert lin.dead_times.value.tolist() == [0.0, 4 * DT]


def test_bode_is_that_of_scipy() -> None:
    lin = simulator().linearise()
    w = np.linspace(0.01, np.pi / DT, 40)
    found = lin.frequency_response(w)
    for j, late in enumerate(lin.delays):
        system = (lin.A, lin.B[:, [j]], lin.C, lin.D[:, [j]])
        for i in range(2):
            num, den = scipy.signal.ss2tf(*system)
            _, right = scipy.signal.dfreqresp((num[i], den, DT), w * DT)
            right = right * np.exp(-1j * w * DT * late)
            assert found.response[:, i, j] == pytest.approx(right, rel=1e-6)
            turned = np.exp(1j * np.radians(found.phase[:, i, j]))
            assert turned == pytest.approx(right / np.abs(right), abs=1e-6)
    assert (found.magnitude_low <= found.magnitude_high).all()


def test_python_control_has_the_same_responses() -> None:
    lin = simulator().linearise()
    system = lin.to_control()
    assert system.dt == DT
    assert system.input_labels == ["valve", "heat"]
    assert system.nstates == 3 + 4
    own = lin.step_response(50)
    for j in range(2):
        theirs = control.step_response(system, own.time, input=j)
        outputs = np.asarray(theirs.outputs).reshape(2, -1).T
        assert own.response[:, :, j] == pytest.approx(outputs, abs=1e-9)
    w = np.array([0.1, 1.0, 3.0])
    right = np.moveaxis(system(np.exp(1j * w * DT)), -1, 0)
    assert lin.frequency_response(w).response == pytest.approx(right)
    assert np.asarray(system.dcgain()) == pytest.approx(lin.gain.value)


def test_dead_times_in_the_states_change_no_response() -> None:
    lin = simulator().linearise()
    inside = lin.with_delays()
    assert inside.delays == (0, 0)
    assert inside.A.shape == (7, 7)
    assert inside.states.shape == (3, 7)
    assert inside.step_response(30).response == pytest.approx(
        lin.step_response(30).response, abs=1e-12
    )
    assert inside.gain.value == pytest.approx(lin.gain.value)


def test_poles_tell_damping_and_time_constants() -> None:
    slow, fast = -0.2 + 1.5j, -2.0
    poles = np.exp(DT * np.array([slow, np.conj(slow), fast]))
    pair, real = Pole("pair", 0, 0.3, 0.98), Pole("real", 2)
    structure = linear(Sizes(3, 1, 0, 1), [pair, real])
    theta = parameters(structure, 0)
    theta[:2], theta[2] = pair.of(poles[:2]), real.of(poles[2:])[0]
    lin = simulator(structure, delays=(0,), thetas=[theta]).linearise()
    assert lin.poles.value == pytest.approx(poles, rel=1e-9)
    assert lin.time_constants.value == pytest.approx([5.0, 5.0, 0.5])
    assert lin.frequencies.value[0] == pytest.approx(abs(slow))
    assert lin.damping.value == pytest.approx([0.2 / abs(slow)] * 2 + [1.0])
    for own in (lin.damping, lin.time_constants, lin.frequencies):
        assert (own.low <= own.value).all()
        assert (own.value <= own.high).all()
    assert (lin.damping.low < lin.damping.high)[0]
    assert lin.stable
    text = str(lin)
    assert "time constant 5.000 s" in text
    assert "period 4.19 s" in text


def test_the_spread_grows_with_the_uncertainty_of_the_parameters() -> None:
    wide, narrow = (simulator(members=1, width=w).linearise() for w in (0.05, 0.005))
    reach = [float((m.gain.high - m.gain.low).max()) for m in (wide, narrow)]
    assert reach[0] > 4.0 * reach[1] > 0.0
    alone = simulator(members=1).linearise(draws=0)
    assert len(alone.systems.A) == 1
    assert (alone.gain.low == alone.gain.high).all()


def test_directions_that_the_data_leave_open_are_not_drawn() -> None:
    model = simulator(members=1, width=1.0)
    lin = model.linearise()
    assert np.ptp(lin.systems.A, axis=0).max() == pytest.approx(0.0, abs=1e-6)


def test_what_is_held_at_a_bound_does_not_move() -> None:
    structure = cascade(Sizes(2, 1, 0, 1), 0.3, [-0.5], [0.5])
    theta = np.full(structure.parameters, 0.1)
    model = simulator(structure, delays=(0,), thetas=[theta])
    there = model.linearise(at=[100.0])
    assert there.held
    assert there.gain.value.item() == 0.0
    assert "held at a bound" in str(there)
    assert not model.linearise(at=[1.0]).held


def test_points_can_be_given_by_name_by_state_and_as_found() -> None:
    model = simulator()
    point = model.steady_state({"heat": 0.0})
    assert point.inputs.tolist() == [1.0, 0.0]
    same = model.linearise(at=point).A
    assert same == pytest.approx(model.linearise(at=[1.0, 0.0]).A)
    assert same == pytest.approx(
        model.linearise(at=point, states=point.states).A, rel=1e-6
    )
    moved = model.linearise(at=point, states=point.states + 0.5)
    assert not moved.steady
    assert np.abs(moved.A - same).max() > 1e-3


def test_wrong_points_are_refused_in_words() -> None:
    model = simulator()
    with pytest.raises(InputError, match="'pump' is no input of the model"):
        model.linearise(at={"pump": 1.0})
    with pytest.raises(InputError, match="2 numbers are needed: valve, heat"):
        model.linearise(at=[1.0])
    with pytest.raises(InputError, match="finite number"):
        model.linearise(at={"heat": np.nan})
    with pytest.raises(InputError, match=r"\(3, 3\) finite numbers"):
        model.linearise(states=[1.0, 2.0])
    with pytest.raises(InputError, match="from 0 to pi / dt"):
        model.linearise().frequency_response([100.0])
    with pytest.raises(InputError, match="draws"):
        model.linearise(draws=-1)


def test_an_integrator_has_no_steady_state_but_a_linear_model() -> None:
    structure = linear(Sizes(2, 1, 0, 1), [Pole("real", 0), Pole("one", 1)])
    model = simulator(structure, delays=(0,), members=1)
    with pytest.raises(InputError, match="drift, as an integrator does"):
        model.linearise(at=[3.0])
    lin = model.linearise(at=[3.0], states=[[0.0, 0.0]])
    assert np.isinf(lin.time_constants.value[0])
    assert "an integrator" in str(lin)
    assert "does not come to rest" in str(lin)
    assert np.isfinite(lin.step_response().response).all()
    assert np.isfinite(lin.frequency_response().magnitude).all()


def test_the_table_has_a_row_for_each_pole() -> None:
    table = simulator().linearise().to_frame()
    assert len(table) == 3
    assert (table["damping low"] <= table["damping high"]).all()
    assert table["time constant [s]"].is_monotonic_decreasing


def test_an_unstable_point_says_so() -> None:
    """Neurons push harder than the leak pulls, so that it leaves the middle."""
    structure = linear(Sizes(1, 1, 1, 1), [Pole("real", 0)])
    theta = np.zeros(structure.parameters)
    theta[0] = np.arctanh(0.8)
    for matrix, row, column, value in (
        ("E", 0, 0, 1.0),
        ("F", 0, 0, 0.5),
        ("B", 0, 0, 1.0),
        ("C", 0, 0, 1.0),
    ):
        theta[structure.leading + structure.free.index((matrix, row, column))] = value
    model = simulator(structure, delays=(0,), thetas=[theta])
    middle = model.linearise(at=[1.0], states=[[0.0]], draws=0)
    assert middle.poles.value == pytest.approx([1.3])
    assert not middle.stable
    assert "unstable, grows with time constant 1.906 s" in str(middle)
    # A push leads from there to a point of rest that is stable.
    pushed = model.steady_state([1.001], draws=0)
    assert pushed.stable
    assert model.linearise(at=[1.001], draws=0).stable


def test_an_integrator_that_neurons_see_came_to_rest_at_ten_to_the_eleven() -> None:
    structure = linear(Sizes(2, 1, 1, 1), [Pole("real", 0), Pole("one", 1)])
    theta = np.zeros(structure.parameters)
    # Neurons that do not know how to stop it have nearly no slope far away.
    for entry, value in {
        ("B", 1, 0): 1.0,
        ("E", 1, 0): -0.1,
        ("F", 0, 1): 0.0172,
        ("C", 0, 1): 1.0,
    }.items():
        theta[structure.leading + structure.free.index(entry)] = value
    model = simulator(structure, delays=(0,), thetas=[theta])
    with pytest.raises(InputError, match="no steady state"):
        model.steady_state([2.5], draws=0)
    with pytest.raises(InputError, match="no steady state"):
        model.linearise(at=[2.5], draws=0)


def test_pruned_members_with_fewer_states_than_others_made_linearise_fail() -> None:
    rng = np.random.default_rng(5)
    one = (np.diag([0.9, 0.5]), rng.normal(size=(2, 1)), rng.normal(size=(1, 2)))
    two = (np.diag([0.7]), rng.normal(size=(1, 1)), rng.normal(size=(1, 1)))
    D = np.zeros((1, 1))
    both = Systems(*_of_one_size([(*one, D), (*two, D)]))
    assert both.A.shape == (2, 2, 2)
    steps = both.steps(30)
    for k, (A, B, C) in enumerate((one, two)):
        alone = Systems(A[None], B[None], C[None], D[None]).steps(30)[0]
        assert steps[k] == pytest.approx(alone, abs=1e-14)
