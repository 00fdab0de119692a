"""The whitening filter against dense covariance matrices."""

import numpy as np
import pytest
from scipy.linalg import toeplitz
from scipy.signal import lfilter
from scipy.stats import multivariate_normal

from sparsid.kernel.whitening import whiten
from sparsid.models.autoregression import Autoregression

LENGTH = 40
# Coefficients of stable autoregressions, nearest sample first.
NOISES = {
    "order 1": [0.9],
    "order 2": [1.5, -0.7],
    "order 3": [1.6, -0.9, 0.2],
    "order 5": [0.8, -0.3, 0.2, -0.4, 0.3],
}
INNOVATION = 0.3

coloured = pytest.mark.parametrize("noise", NOISES.values(), ids=list(NOISES))
every = pytest.mark.parametrize("noise", [[], *NOISES.values()], ids=["white", *NOISES])


def cases(gaps):
    """Return noises with gaps, those marked that the filter does not whiten yet."""
    return pytest.mark.parametrize(
        ("noise", "gap"),
        [
            pytest.param(
                noise,
                gap,
                id=f"{name}, {gap} missing",
            )
            for name, noise in NOISES.items()
            for gap in gaps(len(noise))
        ],
    )


def autocovariances(coefficients, count):
    impulse = np.eye(1, 3000)[0]
    h = lfilter([1.0], [1.0, *(-np.array(coefficients))], impulse)
    return INNOVATION * np.array([h[k:] @ h[: len(h) - k] for k in range(count)])


def law_of(coefficients):
    order = len(coefficients)
    return Autoregression.of(autocovariances(coefficients, order + 1), 1e3, order)


def covariance(coefficients, length=LENGTH):
    return toeplitz(autocovariances(coefficients, length))


def whitened(law, columns, seen=None):
    columns = columns.copy()
    seen = np.ones(len(columns)) if seen is None else seen.astype(float)
    log_det = whiten(law.predictors, law.variances, law.ahead, seen, columns)
    return columns, log_det


def triangular(S, v):
    """Return what the Cholesky factor of a covariance makes of columns."""
    return np.linalg.solve(np.linalg.cholesky(S), v), np.linalg.slogdet(S)[1]


def without(first, count, length=LENGTH):
    seen = np.ones(length, dtype=bool)
    seen[first : first + count] = False
    return seen


@every
def test_likelihood_without_gaps_is_that_of_the_covariance(noise) -> None:
    r = np.random.default_rng(0).normal(size=LENGTH)
    white, log_det = whitened(law_of(noise), r[:, None])
    found = -0.5 * ((white**2).sum() + log_det + LENGTH * np.log(2 * np.pi))
    expected = multivariate_normal(cov=covariance(noise)).logpdf(r)
    assert found == pytest.approx(expected, rel=1e-9)


@every
def test_whitening_is_that_of_the_cholesky_factor(noise) -> None:
    v = np.random.default_rng(0).normal(size=(LENGTH, 3))
    white, log_det = whitened(law_of(noise), v)
    expected, expected_det = triangular(covariance(noise), v)
    np.testing.assert_allclose(white, expected, atol=1e-9)
    assert log_det == pytest.approx(expected_det, rel=1e-9)


@pytest.mark.parametrize(
    "law",
    [Autoregression.white(0.4), Autoregression.of(np.array([0.4, 0.0, 0.0]), 1e3)],
    ids=["said to be white", "found to be white"],
)
def test_white_noise_is_scaled_wherever_it_was_measured(law) -> None:
    rng = np.random.default_rng(0)
    v, seen = rng.normal(size=(LENGTH, 2)), rng.random(LENGTH) < 0.6
    white, log_det = whitened(law, v, seen)
    np.testing.assert_allclose(white, seen[:, None] * v / np.sqrt(0.4), rtol=1e-12)
    assert log_det == pytest.approx(seen.sum() * np.log(0.4), rel=1e-12)


@coloured
def test_the_first_sample_after_a_short_gap_is_exact(noise) -> None:
    order = len(noise)
    v = np.random.default_rng(0).normal(size=(LENGTH, 2))
    for gap in range(1, order):
        seen = without(15, gap)
        upto = slice(15 + gap + 1)
        white, log_det = whitened(law_of(noise), v[upto], seen[upto])
        own = np.flatnonzero(seen[upto])
        S = covariance(noise)[np.ix_(own, own)]
        expected, expected_det = triangular(S, v[own])
        np.testing.assert_allclose(white[own], expected, atol=1e-9)
        assert log_det == pytest.approx(expected_det, rel=1e-9)


@cases(lambda order: sorted({order, order + 1, 2 * order - 1, 2 * order, 23}))
def test_after_a_long_gap_the_noise_begins_anew(noise, gap) -> None:
    seen = without(8, gap)
    v = np.random.default_rng(0).normal(size=(LENGTH, 2))
    white, log_det = whitened(law_of(noise), v, seen)
    (before, first), (after, second) = (
        triangular(covariance(noise, len(part)), part) for part in (v[:8], v[8 + gap :])
    )
    expected = np.concatenate([before, np.zeros((gap, 2)), after])
    np.testing.assert_allclose(white, expected, atol=1e-9)
    assert log_det == pytest.approx(first + second, rel=1e-9)


@coloured
def test_likelihood_across_a_gap_longer_than_the_memory_is_exact(noise) -> None:
    gap = 120 * len(noise)
    seen = without(8, gap, length=gap + 30)
    v = np.random.default_rng(0).normal(size=(gap + 30, 1))
    white, log_det = whitened(law_of(noise), v, seen)
    S = covariance(noise, gap + 30)[np.ix_(seen, seen)]
    expected, expected_det = triangular(S, v[seen])
    np.testing.assert_allclose(white[seen], expected, atol=1e-4)
    assert log_det == pytest.approx(expected_det, abs=1e-4)


@cases(lambda order: (1, 2, 3, 5, 7))
def test_a_run_begins_with_its_first_measurement(noise, gap) -> None:
    v = np.random.default_rng(0).normal(size=(LENGTH, 2))
    white, log_det = whitened(law_of(noise), v, without(0, gap))
    expected, expected_det = triangular(covariance(noise, LENGTH - gap), v[gap:])
    np.testing.assert_allclose(white[gap:], expected, atol=1e-9)
    assert log_det == pytest.approx(expected_det, rel=1e-9)


@every
@pytest.mark.parametrize("gap", [1, 2, 9])
def test_what_was_not_measured_does_not_matter(noise, gap) -> None:
    seen = without(11, gap)
    v = np.random.default_rng(0).normal(size=(LENGTH, 2))
    other = np.where(seen[:, None], v, 1e6)
    white, log_det = whitened(law_of(noise), v, seen)
    again, same_det = whitened(law_of(noise), other, seen)
    np.testing.assert_array_equal(white, again)
    assert log_det == same_det
    assert not white[~seen].any()
