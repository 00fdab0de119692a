"""Descent of the cost: against scikit-learn's ARD, and never uphill on networks."""

from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.linear_model import ARDRegression

from sparsid.bayes.cost import State, evaluate, step
from sparsid.bayes.curvature import choose
from sparsid.bayes.objective import Regression
from sparsid.bayes.prior import start_prior
from sparsid.bayes.variance_rules import Flat, SparseBayes
from sparsid.fitting.descent import Descent, _updated
from sparsid.fitting.narx_one_step import OneStepFit, fit_one_step
from sparsid.fitting.pruning import clear_dead, cut
from sparsid.fitting.settings import Settings
from sparsid.models.network import Network
from sparsid.results.outcome import Outcome

pytestmark = pytest.mark.usefixtures("x64")

# What one update may lose by rounding, as a share of the cost.
ROUNDING = 1e-8
# A weight counts as kept below this precision; both algorithms are run until the rest
# is far beyond.
LARGEST_PRECISION = 1e4


def sparse_linear(seed, samples=80, weights=8):
    """Four of eight weights matter, clearly; the last column is the bias."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(samples, weights))
    w = np.zeros(weights)
    w[rng.choice(weights, 4, replace=False)] = rng.uniform(0.5, 2.0, 4)
    y = z @ w + 0.4 + 0.2 * rng.normal(size=samples)
    return z, y


def descent_of(z, y, kind="shape", rule=None, noise=0.01, **settings):
    network = Network((z.shape[1], y.shape[1]))
    data = Regression(jnp.asarray(z), jnp.asarray(y))
    state = State(
        network.init(key=jax.random.key(0)),
        start_prior(network, (kind,)),
        jnp.full(y.shape[1], noise),
    )
    return Descent(
        network,
        lambda: choose("gauss-newton", "auto", network, (kind,), y.size),
        data,
        rule or SparseBayes(),
        state,
        **settings,
    )


@pytest.mark.parametrize("seed", range(10))
def test_linear_models_agree_with_ard_regression(seed) -> None:
    z, y = sparse_linear(seed)
    descent = descent_of(z, y[:, None])
    cost = descent.cost
    for _ in range(400):
        for move in (descent.step, descent.update):
            move()
            assert descent.cost <= cost + ROUNDING * abs(cost)
            cost = descent.cost
    design = np.column_stack([z, np.ones(len(z))])
    oracle = ARDRegression(
        alpha_1=0,
        alpha_2=0,
        lambda_1=0,
        lambda_2=0,
        fit_intercept=False,
        max_iter=20_000,
        tol=1e-12,
        threshold_lambda=1e12,
    ).fit(design, y)
    v = np.asarray(descent.state.prior[0].variances())[:, 0]
    w = np.asarray(descent.state.params[0])[:, 0]
    kept = v > 1 / LARGEST_PRECISION
    assert np.array_equal(kept, oracle.lambda_ < LARGEST_PRECISION)
    np.testing.assert_allclose(w[kept], oracle.coef_[kept], rtol=0.01)
    assert np.abs(w[~kept]).max(initial=0) < 1e-2
    assert float(descent.state.noise[0]) == pytest.approx(1 / oracle.alpha_, rel=0.01)
    np.testing.assert_allclose(v[kept], 1 / oracle.lambda_[kept], rtol=0.01)


@pytest.mark.parametrize("kind", ["shape", "row", "column", "row+column", "added"])
def test_cost_never_rises_on_linear_models_with_several_outputs(kind) -> None:
    rng = np.random.default_rng(0)
    z = rng.normal(size=(40, 5))
    W = np.outer([1.0, 0.0, -1.0, 0.0, 0.3], [1.0, 0.5]) + 0.0
    y = z @ W + rng.normal(size=(40, 2)) * [0.1, 0.5]
    descent = descent_of(z, y, kind)
    cost = descent.cost
    for _ in range(60):
        for move in (descent.step, descent.update):
            fall = move()
            assert fall == pytest.approx(cost - descent.cost, abs=1e-9)
            assert descent.cost <= cost + ROUNDING * abs(cost)
            cost = descent.cost
    noise = np.sqrt(np.asarray(descent.state.noise))
    np.testing.assert_allclose(noise, [0.1, 0.5], rtol=0.35)


def test_programs_are_compiled_once() -> None:
    z, y = sparse_linear(0, samples=83)
    network = Network((8, 4, 1))
    kinds = ("row+column",) * 2
    start = State(
        network.init(key=jax.random.key(0)),
        start_prior(network, kinds),
        np.full(1, 0.01),
    )
    descent = Descent(
        network,
        lambda: choose("gauss-newton", "auto", network, kinds, y.size),
        Regression(jnp.asarray(z), jnp.asarray(y[:, None])),
        SparseBayes(),
        jax.tree.map(jnp.asarray, start),
    )
    programs = (evaluate, step, _updated)
    before = [program._cache_size() for program in programs]
    for _ in range(3):
        descent.step()
        descent.update()
    after = [program._cache_size() for program in programs]
    assert [b - a for a, b in zip(before, after, strict=True)] == [1, 1, 1]


def test_fixed_noise_stays() -> None:
    z, y = sparse_linear(0)
    descent = descent_of(z, y[:, None], noise=0.07, fixed_noise=True)
    for _ in range(3):
        descent.step()
        descent.update()
    assert float(descent.state.noise[0]) == 0.07


def test_no_prior_reaches_least_squares() -> None:
    z, y = sparse_linear(0)
    descent = descent_of(z, y[:, None], rule=Flat())
    for _ in range(100):
        descent.step()
        descent.update()
    design = np.column_stack([z, np.ones(len(z))])
    w, sse, *_ = np.linalg.lstsq(design, y)
    np.testing.assert_allclose(np.asarray(descent.state.params[0])[:, 0], w, atol=1e-6)
    assert float(descent.state.noise[0]) == pytest.approx(sse[0] / len(y), rel=1e-6)


# -- networks ----------------------------------------------------------------------

NETWORK = Network((3, 5, 1))
KINDS = ("row+column",) * 2


def random_teacher(seed, samples=60):
    """A smooth function of two of three regressors, and noise."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(samples, 3))
    h = np.tanh(z[:, :2] @ rng.normal(size=(2, 2)) + rng.normal(size=2))
    y = h @ rng.normal(size=(2, 1)) + 0.5 * z[:, :1]
    y += rng.uniform(0.02, 0.3) * rng.normal(size=(samples, 1))
    return Regression(jnp.asarray(z), jnp.asarray((y - y.mean()) / y.std()))


def watched(data, settings, seed):
    """Run one identification and return it with all that was reported."""
    seen = []
    found = fit_one_step(
        NETWORK, data, settings, key=jax.random.key(seed), progress=seen.append
    )
    return found, seen


@pytest.mark.parametrize("seed", range(20))
def test_default_never_raises_the_cost_between_structure_changes(seed) -> None:
    """A structure change: another number of weights kept, or another phase."""
    found, seen = watched(random_teacher(seed), Settings(SparseBayes(), KINDS), seed)
    assert found.outcome in (Outcome.CONVERGED, Outcome.PRUNED)
    compared = 0
    for before, after in pairwise(seen):
        if (before.phase, before.kept) != (after.phase, after.kept):
            continue
        compared += 1
        assert after.cost <= before.cost + ROUNDING * abs(before.cost)
    assert compared > 20
    assert len(found.history["cost"]) == len(seen)
    np.testing.assert_array_equal(found.history["cost"], [p.cost for p in seen])
    assert (np.diff(found.history["kept"]) <= 0).all()
    rise = np.diff(found.history["cost"])[np.diff(found.history["structure"]) == 0]
    assert rise.max() <= ROUNDING * np.abs(found.history["cost"]).max()


def test_a_removal_may_raise_the_cost_by_a_little_only() -> None:
    settings = Settings(SparseBayes(), KINDS)
    for seed in range(5):
        _, seen = watched(random_teacher(seed), settings, seed)
        prunes = [p for p in seen if p.phase == "prune"]
        for before, after in pairwise(prunes):
            assert after.cost <= before.cost + settings.largest_rise + 1e-6


@pytest.mark.parametrize(("rise", "agreed"), [(-np.inf, False), (np.inf, True)])
def test_a_removal_is_tried_at_its_own_size_and_can_be_taken_back(rise, agreed) -> None:
    settings = Settings(SparseBayes(), KINDS, largest_rise=rise)
    run = OneStepFit(NETWORK, random_teacher(0), settings, key=jax.random.key(0))
    before, columns, structures = run.descent, run.columns, run.structures
    state = jax.device_get(before.state)
    second = np.array([False, True, False])
    pruned = clear_dead(NETWORK, cut(state, 0, second, np.ones(5, bool)))
    assert run._refitted(pruned) is agreed
    if agreed:
        assert run.columns.tolist() == [1]
        assert run.descent.network.widths == (1, 5, 1)
        assert run.structures > structures
    else:
        assert run.descent is before
        assert run.columns is columns
        assert run.structures == structures
    assert run.descent.data.z.shape[1] == len(run.columns)


def test_history_tells_structure_and_noise() -> None:
    found, seen = watched(random_teacher(0), Settings(SparseBayes(), KINDS), 0)
    history = found.history
    for name in ("cost", "log_evidence", "kept", "noise1", "seconds"):
        assert len(history[name]) == len(seen)
    total = sum((n - 1) * m for n, m in NETWORK.shapes)
    layers = history["kept_layer1"] + history["kept_layer2"]
    np.testing.assert_allclose(layers / total, history["kept"])
    np.testing.assert_allclose(history["cost"], -2 * history["log_evidence"], rtol=1e-9)


@pytest.mark.slow
def test_the_papers_algorithm_runs_and_its_masks_are_permanent() -> None:
    settings = Settings(
        SparseBayes(),
        KINDS,
        algorithm="paper",
        tolerance=1e-3,
        kappa_upsilon=1e-3,
        kappa_w=1e-3,
    )
    last = []
    for seed in range(5):
        found, seen = watched(random_teacher(seed), settings, seed)
        kept = np.array([p.kept for p in seen])
        assert (np.diff(kept) <= 0).all()
        assert found.outcome in (Outcome.CONVERGED, Outcome.CYCLES, Outcome.PRUNED)
        assert np.isfinite(found.history["cost"]).all()
        last.append(kept[-1])
    assert sum(kept < 1 for kept in last) >= 3
