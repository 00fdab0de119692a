"""The noise filter against dense covariance matrices."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal

from sparsid.bayes.noise import LARGEST_PHI, Noise, predicted, sampled, whiten

pytestmark = pytest.mark.usefixtures("x64")
LENGTH = 40


def noise_of(white, coloured, phi) -> Noise:
    odds = np.log(phi / LARGEST_PHI) - np.log1p(-phi / LARGEST_PHI)
    innovation = coloured * (1.0 - phi**2)
    return Noise(*(jnp.array([v]) for v in (np.log(white), np.log(innovation), odds)))


def covariance(white, coloured, phi, length=LENGTH):
    t = np.arange(length)
    return coloured * phi ** np.abs(t[:, None] - t) + white * np.eye(length)


@pytest.mark.parametrize("phi", [0.3, 0.95])
def test_whitening_is_that_of_the_covariance(phi) -> None:
    noise, S = noise_of(0.2, 1.5, phi), covariance(0.2, 1.5, phi)
    rng = np.random.default_rng(0)
    v = rng.normal(size=(LENGTH, 3))
    measured = np.ones((LENGTH, 1))
    measured[10:15] = 0.0
    seen = measured[:, 0] > 0
    white, log_det = whiten(noise, jnp.asarray(measured), jnp.asarray(v)[:, None])
    S, v = S[np.ix_(seen, seen)], v[seen]
    W = np.linalg.solve(np.linalg.cholesky(S), v)
    np.testing.assert_allclose(np.asarray(white)[seen, 0], W, atol=1e-9)
    assert (np.asarray(white)[~seen] == 0).all()
    assert float(log_det) == pytest.approx(np.linalg.slogdet(S)[1], rel=1e-9)


@pytest.mark.parametrize("horizon", [1, 3])
def test_prediction_is_the_conditional_mean(horizon) -> None:
    values = (0.2, 1.5, 0.9)
    S = covariance(*values)
    r = multivariate_normal(cov=S, seed=0).rvs()
    mean, variance = predicted(
        noise_of(*values), jnp.ones((LENGTH, 1)), jnp.asarray(r)[:, None], horizon
    )
    for t in (horizon, 20, LENGTH - 1):
        past = slice(0, t - horizon + 1)
        gain = np.linalg.solve(S[past, past], S[past, t])
        assert float(mean[t, 0]) == pytest.approx(gain @ r[past], abs=1e-9)
        expected = S[t, t] - gain @ S[past, t]
        assert float(variance[t, 0]) == pytest.approx(expected, rel=1e-9)


def test_draws_have_the_covariance() -> None:
    values = (0.2, 1.5, 0.9)
    keys = jax.random.split(jax.random.key(0), 4000)
    draws = jax.vmap(lambda key: sampled(noise_of(*values), 6, key=key))(keys)
    found = np.cov(np.asarray(draws)[:, :, 0].T)
    np.testing.assert_allclose(found, covariance(*values, length=6), atol=0.12)
