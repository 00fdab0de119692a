import numpy as np
import pytest
from scipy.linalg import toeplitz
from scipy.signal import lfilter

from sparsid.kernel.activations import TANH
from sparsid.models.autoregression import Autoregression
from sparsid.models.canonical import Pole, Sizes
from sparsid.models.structures.cascade import cascade
from sparsid.models.structures.linear import linear
from sparsid.simulation.cascade import random_start
from sparsid.simulation.evidence import Run
from sparsid.simulation.linear_first import Variances, prior_of
from sparsid.simulation.member import FIXED_CYCLES, Member

COLOUR = np.array([0.6, 0.2])
PLAIN = linear(
    Sizes(3, 1, 2, 2), [Pole("pair", 0, 0.3, 0.99), Pole("real", 2)], [TANH] * 2
)


def law(scale=0.02):
    h = lfilter([1.0], [1.0, *-COLOUR], np.eye(1, 500)[0])
    moments = scale * np.array([h[k:] @ h[: len(h) - k] for k in range(3)])
    return Autoregression.of(moments, 1e4, order=2)


def truth(structure, rng):
    theta = 0.4 * rng.normal(size=structure.parameters)
    theta[: structure.leading] = 0.5
    return theta


def recorded(structure, rng, lengths=(90, 70)):
    """Two runs with coloured noise and gaps, the second output with other ones."""
    theta, runs = truth(structure, rng), []
    for length in lengths:
        u = np.ones((length, 2))
        u[:, 0] = rng.normal(size=length)
        y, _ = structure.run(theta, np.zeros(structure.sizes.states), u)
        noise = lfilter([1.0], [1.0, *-COLOUR], rng.normal(size=y.shape), axis=0)
        y = y + 0.05 * noise
        y[30:33] = np.nan
        y[50:51, -1] = np.nan
        runs.append(Run.of(u[:, :1], y))
    return theta, runs


def beside_the_truth(seed=0, distance=0.1):
    rng = np.random.default_rng(seed)
    theta, runs = recorded(PLAIN, rng)
    theta = theta + distance * rng.normal(size=theta.shape)
    starts = 0.1 * rng.normal(size=(len(runs), 3))
    prior = prior_of(PLAIN, theta, len(runs), Variances())
    return Member(PLAIN, runs, theta, starts, prior, [law(), law(0.05)])


def begun_cascade(seed=0):
    rng = np.random.default_rng(seed)
    structure = cascade(Sizes(2, 1, 2, 1), 0.3, [-np.inf], [1.0])
    _, runs = recorded(structure, rng)
    return random_start(structure, runs, rng)


members = pytest.mark.parametrize("begun", [beside_the_truth, begun_cascade])
seeds = pytest.mark.parametrize("seed", [0, 1, 2])


@members
@seeds
def test_the_cost_never_rises(begun, seed) -> None:
    member = begun(seed)
    first = member.at.cost(member.w, member.prior)
    for _ in range(FIXED_CYCLES + 12):
        member.cycle(coloured=True)
    costs = np.array([first, *member.costs])
    assert (np.diff(costs) <= 0.0).all()
    assert costs[-1] < first - 10.0


@members
def test_the_cost_is_that_of_a_fresh_evaluation(begun) -> None:
    member = begun()
    for k in range(FIXED_CYCLES + 3):
        member.cycle(coloured=k > 4)
    cost = member.cost
    fresh = member.evaluate(member.w).cost(member.w, member.prior)
    assert cost == pytest.approx(fresh, rel=1e-12)


@members
def test_the_gradient_is_that_of_finite_differences(begun) -> None:
    member = begun()
    at, h = member.evaluate(member.w), 1e-6
    for k in range(len(member.w)):
        step = h * np.eye(len(member.w))[k]
        above = member.evaluate(member.w + step).squares
        below = member.evaluate(member.w - step).squares
        expected = (above - below) / (2 * h)
        # The gradient is that of half the squares, downhill.
        assert -2.0 * at.gradient[k] == pytest.approx(expected, rel=1e-5, abs=1e-4)


def test_the_normal_matrix_is_that_of_the_derivatives_by_the_noise() -> None:
    member, h = begun_cascade(), 1e-6
    noise = member.noise[0]
    assert noise.order == 0
    slopes = []
    for step in h * np.eye(len(member.w)):
        above, below = member.outputs(member.w + step), member.outputs(member.w - step)
        slopes.append((np.concatenate(above) - np.concatenate(below)) / (2 * h))
    seen = np.concatenate([run.seen for run in member.runs]) > 0
    J = np.array(slopes)[:, seen]
    normal = member.evaluate(member.w).normal
    np.testing.assert_allclose(normal, J @ J.T / noise.variance, rtol=1e-5, atol=1e-5)


@members
def test_covariance_is_the_inverse_of_data_and_prior_precision(begun) -> None:
    member = begun()
    found = member.at.covariance(member.prior)
    precision = member.at.normal + np.diag(1.0 / member.prior.variance)
    np.testing.assert_allclose(found @ precision, np.eye(len(found)), atol=1e-7)
    np.testing.assert_allclose(found, np.linalg.inv(precision), atol=1e-9)


def test_the_cost_is_minus_twice_the_log_evidence_of_the_linearised_model() -> None:
    rng = np.random.default_rng(0)
    structure = linear(Sizes(1, 1, 0, 1), [Pole("real", 0)])
    _, (run, _) = recorded(structure, rng)
    run = Run.of(run.u[:25, :1], run.y[:25])
    theta = 0.3 * rng.normal(size=structure.parameters)
    prior = prior_of(structure, theta + 0.1, 1, Variances())
    member = Member(structure, [run], theta, np.full((1, 1), 0.2), prior, [law()])
    y, _, dy = structure.sensitivities(theta, np.array([0.2]), run.u)
    J, r = dy[:, 0, :-1], (run.y - y)[:, 0]
    h = lfilter([1.0], [1.0, *-COLOUR], np.eye(1, 500)[0])
    S = 0.02 * toeplitz([h[k:] @ h[: len(h) - k] for k in range(25)])
    # At the point of linearisation: Occam's factor and the price of both errors.
    V = np.diag(prior.variance)
    volume = np.linalg.slogdet(S + J @ V @ J.T)[1]
    away = member.w - prior.mean
    expected = volume + r @ np.linalg.solve(S, r) + away @ np.linalg.solve(V, away)
    found = member.evaluate(member.w).cost(member.w, prior)
    assert found == pytest.approx(expected, rel=1e-9)


def test_what_is_hidden_does_not_matter() -> None:
    member = beside_the_truth()
    hidden = np.arange(90) % 7 == 3
    run = member.runs[0]
    shown = Run.of(run.u[:, :1], run.y, hidden)
    other = Run.of(run.u[:, :1], np.where(hidden[:, None], 1e3, run.y), hidden)
    first, second = (
        member.shown([r, member.runs[1]]).evaluate(member.w) for r in (shown, other)
    )
    assert first.squares == second.squares
    np.testing.assert_array_equal(first.gradient, second.gradient)


def test_a_run_that_diverges_costs_infinitely_much() -> None:
    structure = linear(Sizes(1, 1, 0, 1), [Pole("one", 0)])
    run = Run.of(np.ones((20, 1)), np.zeros((20, 1)))
    theta = np.full(structure.parameters, 1e200)
    prior = prior_of(structure, theta, 1, Variances())
    member = Member(
        structure, [run], theta, np.zeros((1, 1)), prior, [Autoregression.white(1.0)]
    )
    assert member.evaluate(member.w).cost(member.w, prior) == np.inf


def test_a_rested_member_goes_on_where_it_was() -> None:
    member, other = beside_the_truth(), beside_the_truth()
    for _ in range(4):
        member.cycle(coloured=True)
        other.cycle(coloured=True)
        other.rest()
    np.testing.assert_allclose(member.w, other.w, rtol=1e-9)
    np.testing.assert_allclose(member.costs, other.costs, rtol=1e-12)
