"""Priors and rules against formulas written out naively, all NumPy.

The problems are linear: a dense random ``J``, weights of one block with a bias row.
"""

from dataclasses import replace
from functools import partial

import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.linear_model import Lasso, Ridge

from sparsid.bayes.prior import (
    KINDS,
    BlockPrior,
    Sums,
    energy,
    product_bound,
    resolve_kinds,
    start_prior,
)
from sparsid.bayes.variance_rules import LARGEST_CHANGE, Constant, Norm, SparseBayes
from sparsid.data.record import Record
from sparsid.errors import InputError
from sparsid.estimators import NARX
from sparsid.fitting.narx import regression, usable_segments
from sparsid.models.network import Network

ROWS, COLUMNS, SAMPLES = 4, 3, 25
kinds = pytest.mark.parametrize("kind", KINDS)


def random_prior(kind, rng, bias=True, removed=False):
    rows, columns = rng.uniform(0.2, 2.0, ROWS), rng.uniform(0.2, 2.0, COLUMNS)
    if kind == "row":
        columns[:] = 1.0
    if kind == "column":
        rows[:] = 1.0
    elements = rng.uniform(0.2, 2.0, (ROWS, COLUMNS)) if kind == "shape" else None
    p = BlockPrior(
        jnp.asarray(rows),
        jnp.asarray(columns),
        None if elements is None else jnp.asarray(elements),
        kind,
        bias,
    )
    if removed:
        return p.masked(jnp.arange(ROWS) != 1, jnp.arange(COLUMNS) != 2)
    return p


def plain_variances(p):
    """One weight at a time, from the table in the module's docstring."""
    v = np.zeros((ROWS, COLUMNS))
    for i in range(ROWS):
        for j in range(COLUMNS):
            r, c = float(p.rows[i]), float(p.columns[j])
            if p.kind == "shape":
                v[i, j] = p.elements[i, j]
            elif p.kind in ("row", "column", "row+column"):
                v[i, j] = r * c
            elif r == 0 or c == 0:
                v[i, j] = 0.0
            elif p.bias and i == ROWS - 1:
                v[i, j] = r
            else:
                v[i, j] = 1 / (1 / r + 1 / c)
    return v


def alpha(J, v, noise):
    S = np.diag(noise) + (J * v.ravel()) @ J.T
    return np.diag(J.T @ np.linalg.solve(S, J)).reshape(v.shape)


def full_cost(J, y, w, v, noise):
    r, live = y - J @ w.ravel(), v > 0
    S = np.diag(noise) + (J * v.ravel()) @ J.T
    return (
        (r**2 / noise).sum()
        + (w[live] ** 2 / v[live]).sum()
        + np.linalg.slogdet(S)[1]
        + len(y) * np.log(2 * np.pi)
    )


def random_problem(rng):
    J = rng.normal(size=(SAMPLES, ROWS * COLUMNS))
    w = rng.normal(size=(ROWS, COLUMNS)) * rng.uniform(0.01, 1.0, (ROWS, 1))
    return J, w, J @ w.ravel() + 0.3 * rng.normal(size=SAMPLES)


@kinds
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("removed", [False, True])
@pytest.mark.parametrize("bias", [True, False])
def test_variances_against_the_table(kind, bias, removed) -> None:
    p = random_prior(kind, np.random.default_rng(0), bias, removed)
    np.testing.assert_allclose(p.variances(), plain_variances(p), rtol=1e-12)
    if removed:
        assert (np.asarray(p.variances())[1] == 0).all()
        assert (np.asarray(p.variances())[:, 2] == 0).all()
    taken = p.take(np.array([0, 3]), np.array([1]))
    np.testing.assert_allclose(
        taken.variances(), plain_variances(p)[[0, 3]][:, [1]], rtol=1e-12
    )


@kinds
@pytest.mark.usefixtures("x64")
def test_a_common_factor_scales_every_variance(kind) -> None:
    """Ridge and lasso learn the noise at the end, and all variances follow it."""
    p = random_prior(kind, np.random.default_rng(0))
    scaled = p.scaled(0.1)
    np.testing.assert_allclose(scaled.variances(), 0.1 * plain_variances(p), rtol=1e-12)


@kinds
@pytest.mark.usefixtures("x64")
def test_start_variance_is_one_over_inputs(kind) -> None:
    network = Network((4, 3, 2), linear_path=True)
    for p, n_in in zip(start_prior(network, (kind,) * 3), (4, 3, 4), strict=True):
        inner = np.asarray(p.variances())[: -1 if p.bias else None]
        np.testing.assert_allclose(inner, 1 / n_in)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("seed", range(5))
def test_updates_against_errata_8_and_9(seed) -> None:
    rng = np.random.default_rng(seed)
    J, _, _ = random_problem(rng)
    # Weights that call for no change larger than the rule allows in one update.
    w = rng.choice([-1, 1], (ROWS, COLUMNS)) * rng.uniform(0.3, 1.5, (ROWS, COLUMNS))
    noise = np.full(SAMPLES, 0.09)
    new = {}
    for kind in KINDS:
        p = random_prior(kind, rng)
        v = plain_variances(p)
        a = alpha(J, v, noise)
        (q,) = SparseBayes().update((p,), (w,), (Sums.of(jnp.asarray(v * a)),), SAMPLES)
        new[kind] = (p, np.asarray(q.variances()), a, q)
    _, v, a, _ = new["shape"]
    np.testing.assert_allclose(v, np.abs(w) / np.sqrt(a), rtol=1e-9)
    _, v, a, _ = new["row"]
    row = np.linalg.norm(w, axis=1) / np.sqrt(a.sum(1))
    np.testing.assert_allclose(v, np.repeat(row[:, None], COLUMNS, 1), rtol=1e-9)
    _, v, a, _ = new["column"]
    column = np.linalg.norm(w, axis=0) / np.sqrt(a.sum(0))
    np.testing.assert_allclose(v, np.repeat(column[None], ROWS, 0), rtol=1e-9)
    # Rows and columns at once go half the way of item 9, in logarithms.
    p, v, a, _ = new["row+column"]
    r, c = np.asarray(p.rows), np.asarray(p.columns)
    r_best = np.sqrt((w**2 / c).sum(1) / (c * a).sum(1))
    c_best = np.sqrt((w**2 / r[:, None]).sum(0) / (r[:, None] * a).sum(0))
    half = np.sqrt(r * r_best)[:, None] * np.sqrt(c * c_best)
    np.testing.assert_allclose(v, half, rtol=1e-9)
    p, _, a, q = new["added"]
    v = plain_variances(p)
    r, c = np.asarray(p.rows)[:, None], np.asarray(p.columns)
    np.testing.assert_allclose(
        q.rows, np.sqrt((w**2).sum(1) / (a * (v / r) ** 2).sum(1)), rtol=1e-9
    )
    # The bias has its row variance alone.
    np.testing.assert_allclose(
        q.columns,
        np.sqrt((w[:-1] ** 2).sum(0) / (a * (v / c) ** 2)[:-1].sum(0)),
        rtol=1e-9,
    )


@pytest.mark.usefixtures("x64")
def test_one_update_changes_a_variance_by_a_bounded_factor() -> None:
    p = random_prior("shape", np.random.default_rng(0))
    w = np.full((ROWS, COLUMNS), 1e-12)
    w[0] = 1e12
    gamma = (Sums.of(jnp.full((ROWS, COLUMNS), 0.5)),)
    (q,) = SparseBayes().update((p,), (w,), gamma, SAMPLES)
    change = np.asarray(q.elements / p.elements)
    np.testing.assert_allclose(change[0], LARGEST_CHANGE)
    np.testing.assert_allclose(change[1:], 1 / LARGEST_CHANGE)


@kinds
@pytest.mark.usefixtures("x64")
def test_surrogate_and_full_cost_never_rise(kind) -> None:
    """Noise included, by its damped rule; the weights move in between."""
    rng = np.random.default_rng(0)
    for _ in range(4):
        J, w, y = random_problem(rng)
        p, noise = random_prior(kind, rng, removed=rng.random() < 0.3), 1.0
        w = np.where(plain_variances(p) > 0, w, 0.0)
        for _ in range(15):
            v = plain_variances(p)
            a = alpha(J, v, np.full(SAMPLES, noise))
            gamma = v * a
            (q,) = SparseBayes().update((p,), (w,), (Sums.of(jnp.asarray(gamma)),), 1)
            u, live = np.asarray(q.variances()), v > 0
            before = (w[live] ** 2 / v[live]).sum() + (a * v).sum()
            after = (w[live] ** 2 / u[live]).sum() + (a * u).sum()
            assert after <= before * (1 + 1e-12)
            sse = ((y - J @ w.ravel()) ** 2).sum()
            new_noise = noise * np.sqrt(sse / noise / (SAMPLES - gamma.sum()))
            cost = partial(full_cost, J, y, w)
            before = cost(v, np.full(SAMPLES, noise))
            after = cost(u, np.full(SAMPLES, new_noise))
            assert after <= before + 1e-9 * abs(before)
            p, noise = q, new_noise
            # The next weights: the posterior mean under the new variances.
            S = noise * np.eye(SAMPLES) + (J * u.ravel()) @ J.T
            mode = (u.ravel() * (J.T @ np.linalg.solve(S, y))).reshape(w.shape)
            assert cost(u, np.full(SAMPLES, noise)) >= full_cost(
                J, y, mode, u, np.full(SAMPLES, noise)
            )
            w = mode


@kinds
@pytest.mark.usefixtures("x64")
def test_removed_groups_stay_removed(kind) -> None:
    rng = np.random.default_rng(0)
    p = random_prior(kind, rng, removed=True)
    v = plain_variances(p)
    w = rng.normal(size=v.shape)
    gamma = Sums.of(jnp.asarray(rng.uniform(size=v.shape) * (v > 0)))
    (q,) = SparseBayes().update((p,), (w * (v > 0),), (gamma,), SAMPLES)
    assert np.array_equal(np.asarray(q.variances()) > 0, v > 0)
    # A removed weight counts nothing, whatever stands in its place.
    e = np.asarray(energy((p,), (w,))[0])
    assert (e[v == 0] == 0).all()
    assert np.isfinite(e).all()


@kinds
@pytest.mark.usefixtures("x64")
def test_norm_rules_keep_removed_groups_too(kind) -> None:
    rng = np.random.default_rng(0)
    w = rng.normal(size=(ROWS, COLUMNS))
    rule = Norm(0.1)
    (p,) = rule.start((random_prior(kind, rng),), (w,), SAMPLES)
    gone = p.masked(np.arange(ROWS) != 1, np.arange(COLUMNS) != 2)
    (q,) = rule.update((gone,), (w,), None, SAMPLES)
    left = np.asarray(q.variances()) > 0
    assert not left[1].any()
    assert not left[:, 2].any()
    assert left[np.ix_([0, 2, 3], [0, 1])].all()


@pytest.mark.usefixtures("x64")
def test_free_scale_is_fixed_without_touching_variances() -> None:
    rng = np.random.default_rng(0)
    p = random_prior("row+column", rng, removed=True)
    v = plain_variances(p)
    w = rng.normal(size=v.shape) * (v > 0)
    gamma = Sums.of(jnp.asarray(rng.uniform(size=v.shape) * (v > 0)))
    scaled = replace(p, rows=p.rows * 7.0, columns=p.columns / 7.0)
    (a,) = SparseBayes().update((p,), (w,), (gamma,), SAMPLES)
    (b,) = SparseBayes().update((scaled,), (w,), (gamma,), SAMPLES)
    np.testing.assert_allclose(a.variances(), b.variances(), rtol=1e-12)
    live = np.asarray(a.columns)[:2]
    assert np.exp(np.log(live).mean()) == pytest.approx(1.0)


# -- norms -------------------------------------------------------------------------


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("kind", ["shape", "row", "column", "row+column"])
def test_quadratic_bound_touches_the_norm(kind) -> None:
    rng = np.random.default_rng(0)
    w = rng.normal(size=(ROWS, COLUMNS))
    rule = Norm(0.1)
    omega = 0.1 * SAMPLES
    prior = rule.start((random_prior(kind, rng),), (w,), SAMPLES)

    def bound(weights):
        e = np.asarray(energy(prior, (weights,))[0])[:-1].sum()
        return e + float(rule.offset(prior, SAMPLES))

    def norm(weights):
        inner = weights[:-1]
        if kind == "shape":
            return 2 * omega * np.abs(inner).sum()
        total = 0.0
        if kind != "column":
            total += np.linalg.norm(inner, axis=1).sum()
        if kind != "row":
            total += np.linalg.norm(inner, axis=0).sum()
        return 2 * omega * total

    assert bound(w) == pytest.approx(norm(w), rel=1e-12)
    for _ in range(20):
        other = w + rng.normal(size=w.shape)
        assert bound(other) >= norm(other)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("kind", ["row", "column", "row+column"])
def test_product_bound_is_separable_and_never_larger(kind) -> None:
    """Also with directions that are absent, and where something was removed."""
    rng = np.random.default_rng(0)
    w = rng.normal(size=(ROWS, COLUMNS))
    (p,) = Norm(0.1).start((random_prior(kind, rng),), (w,), SAMPLES)
    p = p.masked(np.arange(ROWS) != 1, np.arange(COLUMNS) != 2)
    (q,) = product_bound((p,))
    v, bound = np.asarray(p.variances()), np.asarray(q.variances())
    assert q.separable
    assert (bound <= v * (1 + 1e-12)).all()
    assert np.array_equal(bound > 0, v > 0)
    np.testing.assert_allclose(bound, np.outer(q.rows, q.columns))
    # A useful bound for weights: within a factor of a few where they are alike.
    v, bound = v[:-1], bound[:-1]
    assert (bound[v > 0] > v[v > 0] / 20).all()
    other = (random_prior(kind, rng),)
    assert product_bound(other)[0].kind == kind


@pytest.mark.usefixtures("x64")
def test_ridge_variance_is_constant() -> None:
    w = np.ones((ROWS, COLUMNS))
    prior = (random_prior("row", np.random.default_rng(0)),)
    (p,) = Constant(0.01).start(prior, (w,), SAMPLES)
    np.testing.assert_allclose(p.variances()[:-1], 1 / (SAMPLES * 0.01))
    assert Constant(0.01).update((p,), (w,), None, SAMPLES) == (p,)


# -- against independent solvers ---------------------------------------------------

TO_THE_END = {"tolerance": 1e-7, "max_cycles": 3000}


@pytest.fixture(scope="module")
def linear_record() -> Record:
    """Two inputs, two outputs; three of eight regressors matter."""
    rng = np.random.default_rng(3)
    u = rng.normal(size=(122, 2))
    y = np.zeros((122, 2))
    for t in range(2, 122):
        y[t] = 0.4 * y[t - 1] + u[t - 1, 0] * np.array([1.0, -0.7])
        y[t] += 0.2 * rng.normal(size=2)
    return Record(u, y)


def fit_linear(record, **settings):
    """Return rows of the regression, weights of all regressors and biases."""
    model = NARX(input_lags=1, output_lags=2, hidden=(), **settings).fit(record)
    fitted = model.fitted_
    segments, _ = usable_segments([record], fitted.lags)
    rows = regression(segments, fitted.scaling, fitted.lags)
    weights = np.zeros((len(fitted.lags.table) + 1, record.n_outputs))
    for k, r in enumerate(fitted.regressors):
        weights[fitted.lags.table.index(r)] = fitted.params[0][k]
    weights[-1] = fitted.params[0][-1]
    return rows, weights


def test_ridge_agrees_with_scikit_learn(linear_record) -> None:
    rows, W = fit_linear(linear_record, method="ridge", strength=0.05, tolerance=1e-9)
    oracle = Ridge(alpha=0.05 * len(rows.y), tol=1e-12).fit(rows.z, rows.y)
    np.testing.assert_allclose(W[:-1], oracle.coef_.T, atol=2e-4)
    np.testing.assert_allclose(W[-1], oracle.intercept_, atol=2e-4)


def test_lasso_agrees_with_scikit_learn(linear_record) -> None:
    rows, W = fit_linear(linear_record, method="lasso", strength=0.05, **TO_THE_END)
    for k in range(2):
        oracle = Lasso(alpha=0.05, tol=1e-12, max_iter=100_000)
        oracle.fit(rows.z, rows.y[:, k])
        assert np.array_equal(W[:-1, k] != 0, oracle.coef_ != 0)
        np.testing.assert_allclose(W[:-1, k], oracle.coef_, atol=1e-3)


def proximal_group_lasso(z, y, strength, cycles):
    """Rows as groups, bias free: plain proximal gradient descent."""
    W, b = np.zeros((z.shape[1], y.shape[1])), y.mean(0)
    rate = len(z) / np.linalg.norm(np.column_stack([z, np.ones(len(z))]), 2) ** 2
    for _ in range(cycles):
        r = z @ W + b - y
        W = W - rate * z.T @ r / len(z)
        b = b - rate * r.mean(0)
        norms = np.linalg.norm(W, axis=1, keepdims=True)
        W = W * np.maximum(1 - rate * strength / np.maximum(norms, 1e-300), 0.0)
    return W, b


def test_group_lasso_agrees_with_proximal_gradient(linear_record) -> None:
    rows, W = fit_linear(
        linear_record, method="group-lasso", prior="row", strength=0.1, **TO_THE_END
    )
    oracle, b = proximal_group_lasso(rows.z, rows.y, 0.1, 3000)
    live = np.linalg.norm(oracle, axis=1) > 0
    assert 0 < live.sum() < len(live)
    assert np.array_equal(np.linalg.norm(W[:-1], axis=1) > 0, live)
    np.testing.assert_allclose(W[:-1], oracle, atol=1e-3)
    np.testing.assert_allclose(W[-1], b, atol=1e-3)


@pytest.mark.parametrize("method", ["lasso", "group-lasso"])
def test_norms_reach_their_optimum_by_default(linear_record, method) -> None:
    """Default tolerance: within 1 % of the best value of the objective."""
    strength = 0.1
    rows, W = fit_linear(linear_record, method=method, prior="row", strength=strength)

    def objective(W, b):
        misfit = ((rows.y - rows.z @ W - b) ** 2).sum() / (2 * len(rows.y))
        norms = np.abs(W) if method == "lasso" else np.linalg.norm(W, axis=1)
        return misfit + strength * norms.sum()

    if method == "lasso":
        oracle = Lasso(alpha=strength, tol=1e-10, max_iter=100_000)
        coef = np.array([oracle.fit(rows.z, y).coef_ for y in rows.y.T]).T
        best = objective(coef, (rows.y - rows.z @ coef).mean(0))
    else:
        best = objective(*proximal_group_lasso(rows.z, rows.y, strength, 3000))
    assert objective(W[:-1], W[-1]) <= 1.01 * best


# -- names ---------------------------------------------------------------------------


def test_kinds_by_name_and_per_layer() -> None:
    network = Network((3, 4, 1))
    assert resolve_kinds("row", network) == ("row", "row")
    assert resolve_kinds(["row", "shape"], network) == ("row", "shape")
    with pytest.raises(InputError, match="choose one of shape, row, column"):
        resolve_kinds("group", network)
    with pytest.raises(InputError, match=r"3 entries but the network has 2 .*layer1"):
        resolve_kinds(["row"] * 3, network)
