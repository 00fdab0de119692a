import numpy as np
import pytest
from scipy.linalg import solve_toeplitz
from scipy.signal import lfilter

from sparsid.models.autoregression import Autoregression, moments_of

AR2 = np.array([1.2, -0.5])
INNOVATION = 0.3


def exact_moments(most):
    """Autocovariances of the second order in closed form, then by its recursion."""
    a, b = AR2
    variance = (1 - b) * INNOVATION / ((1 + b) * ((1 - b) ** 2 - a**2))
    found = [variance, a / (1 - b) * variance]
    while len(found) <= most:
        found.append(a * found[-1] + b * found[-2])
    return np.array(found)


def moments_in(v, most):
    sums, _ = moments_of(v[:, None], np.ones(len(v)), most)
    return sums / len(v)


def test_exact_autocovariances_give_the_coefficients_back() -> None:
    noise = Autoregression.of(exact_moments(8), 1000.0)
    assert noise.order == 2
    np.testing.assert_allclose(noise.coefficients, AR2, rtol=1e-12)
    assert noise.variances[-1] == pytest.approx(INNOVATION, rel=1e-12)
    assert noise.variance == exact_moments(0)[0]


def test_predictors_of_every_order_solve_the_normal_equations() -> None:
    moments = np.array([2.0, 1.1, 0.3, -0.4, -0.2])
    noise = Autoregression.of(moments, 1000.0, order=4)
    assert noise.order == 4
    for k in range(1, 5):
        a = solve_toeplitz(moments[:k], moments[1 : k + 1])
        np.testing.assert_allclose(noise.predictors[k, :k], a, rtol=1e-10)
        assert not noise.predictors[k, k:].any()
        expected = moments[0] - a @ moments[1 : k + 1]
        assert noise.variances[k] == pytest.approx(expected, rel=1e-10)


def test_variances_ahead_are_those_of_the_impulse_response() -> None:
    noise = Autoregression.of(exact_moments(2), 1000.0)
    h = lfilter([1.0], [1.0, *-AR2], [1.0, 0.0, 0.0])
    np.testing.assert_allclose(noise.ahead, INNOVATION * np.cumsum(h**2), rtol=1e-12)


def test_samples_of_an_autoregression_give_order_and_coefficients() -> None:
    e = np.sqrt(INNOVATION) * np.random.default_rng(0).normal(size=5000)
    v = lfilter([1.0], [1.0, *-AR2], e)
    noise = Autoregression.of(moments_in(v, 12), float(len(v)))
    assert noise.order == 2
    np.testing.assert_allclose(noise.coefficients, AR2, atol=0.05)
    assert noise.variances[-1] == pytest.approx(INNOVATION, rel=0.05)


def test_white_noise_has_order_zero() -> None:
    exact = Autoregression.of(np.eye(1, 9)[0], 1000.0)
    assert exact.order == 0
    assert exact.variance == 1.0
    for seed in range(5):
        v = np.random.default_rng(seed).normal(size=1000)
        assert Autoregression.of(moments_in(v, 12), float(len(v))).order == 0


@pytest.mark.parametrize(
    "moments",
    [
        [0.0, 0.0, 0.0],
        [1.0, 1.0, 1.0],
        [1.0, -1.0, 1.0],
        [1.0, 0.5, -1.0],
        [1.0, 2.0, 4.0],
    ],
)
def test_autocovariances_of_no_noise_still_give_a_stable_one(moments) -> None:
    noise = Autoregression.of(np.array(moments), 1000.0)
    assert (noise.variances > 0.0).all()
    assert np.isfinite(noise.ahead).all()
    roots = np.roots([1.0, *-noise.coefficients])
    assert (np.abs(roots) < 1.0).all()


def test_moments_are_sums_over_pairs_that_were_both_measured() -> None:
    rng = np.random.default_rng(0)
    v, seen = rng.normal(size=(30, 2)), (rng.random(30) < 0.7).astype(float)
    sums, pairs = moments_of(v, seen, 4)
    for k in range(5):
        both = [t for t in range(k, 30) if seen[t] and seen[t - k]]
        assert pairs[k] == len(both)
        assert sums[k] == pytest.approx(sum(v[t] @ v[t - k] for t in both), rel=1e-12)


def test_moments_beyond_a_short_run_are_zero() -> None:
    sums, pairs = moments_of(np.ones((2, 1)), np.ones(2), 4)
    np.testing.assert_array_equal(sums, [2.0, 1.0, 0.0, 0.0, 0.0])
    np.testing.assert_array_equal(pairs, sums)
