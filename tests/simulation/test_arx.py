import numpy as np
import pytest
from scipy.signal import lfilter

from sparsid.simulation.arx import Lagged, dead_times, impulse_response
from sparsid.simulation.evidence import Run
from sparsid.simulation.signals import Signals

POLES = [1.0, -1.5, 0.7]
ZEROS = [1.0, 0.8, 0.3]


def delayed_output(u, delay):
    return lfilter([0.0] * delay + ZEROS, POLES, u)


def noisy(y, rng, ratio=0.02):
    return y + ratio * y.std() * rng.normal(size=len(y))


@pytest.mark.parametrize("delay", [0, 3, 7])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_dead_time_is_found(delay, seed) -> None:
    rng = np.random.default_rng(seed)
    u = rng.normal(size=800)
    y = noisy(delayed_output(u, delay), rng)
    assert dead_times(Signals((u[:, None],), (y[:, None],))) == (delay,)


def test_dead_times_of_two_inputs_are_found_with_gaps_and_several_runs() -> None:
    rng = np.random.default_rng(0)
    inputs, outputs = [], []
    for length in (700, 500):
        u = rng.normal(size=(length, 2))
        y = delayed_output(u[:, 0], 7) + 0.7 * delayed_output(u[:, 1], 3)
        y = noisy(y, rng)
        y[200:230] = np.nan
        inputs.append(u)
        outputs.append(y[:, None])
    assert dead_times(Signals(tuple(inputs), tuple(outputs))) == (7, 3)


def test_a_record_too_short_has_no_dead_time() -> None:
    u = np.random.default_rng(0).normal(size=11)
    y = delayed_output(u, 3)
    assert dead_times(Signals((u[:, None],), (y[:, None],))) == (0,)


def test_a_regression_is_that_of_least_squares_over_whole_rows() -> None:
    rng = np.random.default_rng(0)
    u, y = rng.normal(size=(60, 2)), rng.normal(size=(60, 2))
    y[25:28, 1] = np.nan
    lagged = Lagged.of([Run.of(u, y)], 3, 5)
    found, left = lagged.solve(lagged.columns(2, (1, 3)))
    rows, targets = [], []
    for t in range(5, 60):
        if np.isfinite(y[t - 3 : t + 1]).all():
            past = [*y[t - 1], *y[t - 2]]
            late = [u[t - 1 - k, 0] for k in range(3)]
            later = [u[t - 3 - k, 1] for k in range(3)]
            rows.append([*past, *late, *later, 1.0])
            targets.append(y[t])
    rows, targets = np.array(rows), np.array(targets)
    assert lagged.rows == len(rows)
    expected = np.linalg.lstsq(rows, targets, rcond=None)[0]
    np.testing.assert_allclose(found, expected, atol=1e-6)
    r = targets - rows @ expected
    np.testing.assert_allclose(left, r.T @ r / len(rows), atol=1e-6)


def test_the_impulse_response_of_a_regression_is_that_of_the_system() -> None:
    u = np.random.default_rng(0).normal(size=400)
    y = delayed_output(u, 0)
    lagged = Lagged.of([Run.of(u[:, None], y[:, None])], 2, 2)
    theta, _ = lagged.solve(lagged.columns(2, (0,)))
    found = impulse_response(theta, 2, 1, 1, 50)[:, 0, 0]
    expected = delayed_output(np.eye(1, 50)[0], 0)
    np.testing.assert_allclose(found, expected, atol=1e-5)
