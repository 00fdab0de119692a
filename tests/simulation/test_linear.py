from functools import cache

import numpy as np
import pytest
from scipy.signal import lfilter
from threadpoolctl import threadpool_limits

from sparsid.models.canonical import Sizes
from sparsid.models.structures.linear import linear
from sparsid.simulation.linear import candidates, free_run_error, modal
from sparsid.simulation.signals import FOLDS, Signals, hidden

SAMPLES, NOISE, DELAY = 1200, 0.02, 3
SYSTEMS = {
    "two real poles": [0.5, 0.9],
    "a pair": [0.8 - 0.4j, 0.8 + 0.4j],
    "a pair and two real poles": [-0.7, 0.6 - 0.6j, 0.6 + 0.6j, 0.85],
    "two pairs": [0.3 - 0.7j, 0.3 + 0.7j, 0.9 - 0.2j, 0.9 + 0.2j],
}

systems = pytest.mark.parametrize(
    "name",
    list(SYSTEMS),
)


def recorded(name):
    """Standardised signals of a delayed system, and the white noise in them."""
    rng = np.random.default_rng(0)
    u, noise = rng.normal(size=SAMPLES), NOISE * rng.normal(size=SAMPLES)
    late = np.concatenate([np.full(DELAY, u[0]), u[:-DELAY]])
    y = lfilter([1.0, 0.4, 0.5], np.real(np.poly(SYSTEMS[name])), late)
    y = y / y.std() + noise
    return Signals((u[:, None],), (y[:, None],)), noise


@cache
def fitted(name, fold=None):
    order = len(SYSTEMS[name])
    # As the search does: threads of the linear algebra only get into each other's way.
    with threadpool_limits(1):
        return candidates(recorded(name)[0], (DELAY,), fold, [order])[order]


@systems
def test_poles_are_recovered_from_noisy_data(name) -> None:
    member = fitted(name)
    found = np.linalg.eigvals(member.structure.named(member.theta)["A"])
    np.testing.assert_allclose(np.sort_complex(found), SYSTEMS[name], atol=0.04)


@systems
def test_the_free_run_leaves_the_noise_over(name) -> None:
    member, (_, noise) = fitted(name), recorded(name)
    error = free_run_error(member)
    # Free parameters, about ten of them, take their share of the noise.
    assert 0.97 < error / np.mean(noise**2) < 1.0
    assert member.noise[0].variance == pytest.approx(error, rel=1e-9)


@systems
@pytest.mark.parametrize("fold", range(FOLDS))
def test_hidden_blocks_are_simulated_as_well_as_shown_ones(name, fold) -> None:
    signals, noise = recorded(name)
    errors = signals.held_out(fitted(name, fold).outputs(), fold)
    left = noise[hidden(signals.block_of[0], fold)]
    assert errors.rms == pytest.approx(np.sqrt(np.mean(left**2)), rel=0.04)


@pytest.mark.parametrize(
    ("symmetric", "states"),
    [(True, 4), (True, 5), (False, 2), (False, 5), (False, 6)],
)
def test_the_modal_form_is_the_same_system(symmetric, states) -> None:
    rng = np.random.default_rng(0)
    A = rng.normal(size=(states, states))
    A = A + A.T if symmetric else A
    A *= 0.9 / np.abs(np.linalg.eigvals(A)).max()
    B = rng.normal(size=(states, 2))
    poles, theta, rows = modal(A, B, 0.99)
    structure = linear(Sizes(states, 2, 0, 1), poles)
    w = np.zeros(structure.parameters)
    w[: structure.leading] = theta
    form = structure.named(w)["A"]
    reached, own = [B], [rows]
    for _ in range(2 * states):
        reached.append(A @ reached[-1])
        own.append(form @ own[-1])
    reached, own = np.concatenate(reached, axis=1), np.concatenate(own, axis=1)
    # One change of coordinates takes every state that is reached to that of the other.
    T = np.linalg.lstsq(own.T, reached.T, rcond=None)[0].T
    assert np.linalg.matrix_rank(T) == states
    np.testing.assert_allclose(T @ own, reached, atol=1e-8)


def test_unstable_poles_are_brought_inside() -> None:
    poles, theta, _ = modal(np.diag([1.3, 0.5, -1.1]), np.ones((3, 1)), 0.98)
    structure = linear(Sizes(3, 1, 0, 1), poles)
    w = np.zeros(structure.parameters)
    w[: structure.leading] = theta
    found = np.sort(np.linalg.eigvals(structure.named(w)["A"]))
    np.testing.assert_allclose(found, [-0.999 * 0.98, 0.5, 0.999 * 0.98], atol=1e-9)
