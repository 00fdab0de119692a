"""Cost, gradient and step against multivariate normals, autodiff and dense algebra."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal

from sparsid.bayes import cost
from sparsid.bayes.cost import CostTerms, Problem, State, log_evidence
from sparsid.bayes.curvature import choice, choose
from sparsid.bayes.objective import OneStep, Regression
from sparsid.bayes.prior import BlockPrior, start_prior
from sparsid.bayes.variance_rules import SparseBayes
from sparsid.models.network import Network

pytestmark = pytest.mark.usefixtures("x64", "optimised")

SAMPLES = 10
NOISE = (0.3, 0.05)


def random_prior(network, kind, rng):
    def block(p):
        rows, columns = rng.uniform(0.2, 2.0, p.rows.shape), np.ones(p.columns.shape)
        if kind == "column":
            rows = np.ones(p.rows.shape)
        if kind != "row":
            columns = rng.uniform(0.2, 2.0, p.columns.shape)
        elements = None
        if kind == "shape":
            elements = jnp.asarray(rng.uniform(0.2, 2.0, p.elements.shape))
        return BlockPrior(
            jnp.asarray(rows), jnp.asarray(columns), elements, kind, p.bias
        )

    return tuple(block(p) for p in start_prior(network, (kind,) * len(network.blocks)))


def setting(network, kind, form="auto", name="gauss-newton", seed=0):
    rng = np.random.default_rng(seed)
    params = tuple(jnp.asarray(0.7 * rng.normal(size=s)) for s in network.shapes)
    data = Regression(
        jnp.asarray(rng.normal(size=(SAMPLES, network.widths[0]))),
        jnp.asarray(rng.normal(size=(SAMPLES, network.widths[-1]))),
    )
    noise = jnp.asarray(NOISE[: network.widths[-1]])
    state = State(params, random_prior(network, kind, rng), noise)
    kinds = (kind,) * len(network.blocks)
    curvature = choose(name, form, network, kinds, data.y.size)
    return Problem(OneStep(network), curvature), state, data


@pytest.fixture
def several_blocks(monkeypatch) -> None:
    """Make the blockwise form take a few rows at once, the last block not full."""
    monkeypatch.setattr(choice, "BLOCK_ENTRIES", 1)
    monkeypatch.setattr(choice, "FEWEST_BLOCK_ROWS", 8)
    assert SAMPLES % (8 // 2)


def evaluate(problem, state, data, weights, full=True):
    """Evaluate in the metric of the state's own prior, without offset."""
    return cost.evaluate(problem, state, state.prior, data, weights, 0.0, full=full)


def step(problem, state, at, penalty, damping):
    return cost.step(problem, state.params, state.prior, at, penalty, damping)


def flat(blocks):
    return np.concatenate([np.asarray(b).ravel() for b in blocks])


def whitened_jacobian(problem, state, data):
    """X = J V^1/2 / sigma, by autodiff, one row for each sample and output."""
    J = jax.jit(jax.jacrev(lambda p: problem.objective.network.apply(p, data.z)))(
        state.params
    )
    columns = [
        np.asarray(j * jnp.sqrt(p.variances())).reshape(SAMPLES, -1, p.variances().size)
        for j, p in zip(J, state.prior, strict=True)
    ]
    X = np.concatenate(columns, axis=2) / np.sqrt(np.asarray(state.noise))[:, None]
    return X.reshape(-1, X.shape[2])


def test_cost_is_minus_two_log_evidence_for_linear_models() -> None:
    """At the posterior mode, two outputs with their own noise."""
    problem, state, data = setting(Network((4, 2)), "row+column")
    z, y = np.asarray(data.z), np.asarray(data.y)
    A = np.column_stack([z, np.ones(SAMPLES)])
    v = np.asarray(state.prior[0].variances())
    mode, expected = np.zeros(v.shape), 0.0
    for k, noise in enumerate(NOISE):
        S = noise * np.eye(SAMPLES) + (A * v[:, k]) @ A.T
        mode[:, k] = v[:, k] * (A.T @ np.linalg.solve(S, y[:, k]))
        expected -= 2 * multivariate_normal(np.zeros(SAMPLES), S).logpdf(y[:, k])
    state = state._replace(params=(jnp.asarray(mode),))
    at = evaluate(problem, state, data, CostTerms(1.0, 1.0))
    assert float(at.cost) == pytest.approx(expected, rel=1e-10)
    assert log_evidence(SparseBayes(), at, np.array(NOISE), SAMPLES) == pytest.approx(
        -expected / 2, rel=1e-10
    )
    np.testing.assert_allclose(flat(at.gradient), 0.0, atol=1e-10)
    X = whitened_jacobian(problem, state, data)
    gamma = 1 - np.diag(np.linalg.inv(np.eye(X.shape[1]) + X.T @ X))
    np.testing.assert_allclose(
        at.gamma_outputs, gamma.reshape(v.shape).sum(0), rtol=1e-9
    )


def naive_cost(problem, state, data, penalty, volume):
    """The full cost as a function of whitened weights, all by autodiff."""
    network, noise = problem.objective.network, state.noise
    deviations = [jnp.sqrt(p.variances()) for p in state.prior]

    def outputs(params):
        return network.apply(params, data.z)

    def loss(params):
        return ((data.y - outputs(params)) ** 2 / noise).sum() / 2

    def log_dets(params):
        if problem.curvature.exact:
            for k, s in enumerate(deviations):
                H = jax.hessian(lambda w, k=k: loss((*params[:k], w, *params[k + 1 :])))
                scale = s.ravel()
                B = scale[:, None] * H(params[k]).reshape(s.size, s.size) * scale
                yield jnp.log1p(jnp.maximum(jnp.linalg.eigvalsh(B), 0.0)).sum()
            return
        J = jax.jacrev(outputs)(params)
        blocks = [
            (j * s).reshape(*data.y.shape, -1) / jnp.sqrt(noise)[:, None]
            for j, s in zip(J, deviations, strict=True)
        ]
        for part in problem.curvature.parts:
            X = jnp.concatenate([blocks[b] for b in part], axis=2)
            X = X.reshape(-1, X.shape[2])
            if problem.curvature.name == "diagonal":
                yield jnp.log1p((X**2).sum(0)).sum()
                continue
            if problem.curvature.name == "kronecker":
                yield averaged_log_det(problem, params, data, noise, deviations, *part)
                continue
            yield jnp.linalg.slogdet(jnp.eye(X.shape[1]) + X.T @ X)[1]

    def cost(x):
        params = tuple(s * xb for s, xb in zip(deviations, x, strict=True))
        return (
            2 * loss(params)
            + SAMPLES * jnp.log(2 * jnp.pi * noise).sum()
            + penalty * sum((xb**2).sum() for xb in x)
            + volume * sum(log_dets(params))
        )

    x = tuple(w / s for w, s in zip(state.params, deviations, strict=True))
    return jax.jit(jax.value_and_grad(cost))(x)


def averaged_log_det(problem, params, data, noise, deviations, block):
    """``log|I + V^1/2 (mean of a a') (x) (sum of d d') V^1/2|``, written out."""
    derivative = problem.objective.linearise(params, noise, data, False).derivative
    a, d = derivative.left[block], derivative.right[block]
    product = jnp.kron(
        jnp.einsum("ti,tk->ik", a, a) / SAMPLES, jnp.einsum("toj,toh->jh", d, d)
    )
    s = deviations[block].ravel()
    return jnp.linalg.slogdet(jnp.eye(len(s)) + s[:, None] * product * s)[1]


@pytest.mark.parametrize(
    ("name", "form", "kind", "linear"),
    [
        ("gauss-newton", "primal", "shape", False),
        ("gauss-newton", "primal", "added", True),
        ("gauss-newton", "blockwise", "added", True),
        ("gauss-newton", "dual", "column", False),
        ("gauss-newton", "gram", "row", False),
        ("gauss-newton", "gram", "row+column", True),
        ("layer-gauss-newton", "primal", "row+column", True),
        ("layer-gauss-newton", "blockwise", "shape", False),
        ("layer-hessian", "auto", "row+column", False),
        ("kronecker", "auto", "row+column", True),
        ("kronecker", "auto", "column", False),
        ("diagonal", "auto", "row+column", True),
    ],
)
def test_gradient_is_that_of_the_full_cost(
    name, form, kind, linear, several_blocks
) -> None:
    network = Network((3, 4, 2), linear_path=linear)
    problem, state, data = setting(network, kind, form, name)
    penalty, volume = 1.3, 0.7
    value, gradient = naive_cost(problem, state, data, penalty, volume)
    at = evaluate(problem, state, data, CostTerms(penalty, volume))
    assert float(at.cost) == pytest.approx(float(value), rel=1e-9)
    scale = np.abs(flat(gradient)).max()
    np.testing.assert_allclose(
        2 * flat(at.gradient), flat(gradient), atol=1e-8 * scale, rtol=0
    )


@pytest.mark.parametrize("form", ["primal", "blockwise"])
def test_without_volume_the_gradient_is_that_of_fit_and_penalty(
    form, several_blocks
) -> None:
    problem, state, data = setting(Network((3, 4, 2)), "shape", form)
    value, gradient = naive_cost(problem, state, data, 1.0, 0.0)
    for full in (True, False):
        at = evaluate(problem, state, data, CostTerms(1.0, 0.0), full=full)
        assert float(at.cost) == pytest.approx(float(value), rel=1e-9)
        np.testing.assert_allclose(flat(at.gradient), flat(gradient) / 2, atol=1e-8)
        assert (at.gamma is None) is not full


@pytest.mark.parametrize("form", ["primal", "blockwise"])
def test_effective_weights_per_output_add_up(form, several_blocks) -> None:
    problem, state, data = setting(Network((3, 4, 2)), "shape", form)
    at = evaluate(problem, state, data, CostTerms(1.0, 1.0))
    X = whitened_jacobian(problem, state, data)
    T = np.linalg.solve(np.eye(len(X)) + X @ X.T, X)
    per_row = (T * X).sum(1).reshape(SAMPLES, 2).sum(0)
    np.testing.assert_allclose(at.gamma_outputs, per_row, rtol=1e-9)
    total = sum(float(g.rows.sum()) for g in at.gamma)
    assert float(np.sum(at.gamma_outputs)) == pytest.approx(total, rel=1e-9)


@pytest.mark.parametrize(
    ("form", "kind"), [("primal", "shape"), ("blockwise", "column"), ("gram", "row")]
)
def test_step_solves_the_damped_system_and_promises_its_gain(
    form, kind, several_blocks
) -> None:
    problem, state, data = setting(Network((3, 4, 2)), kind, form)
    penalty, damping = 1.0, 0.8
    at = evaluate(problem, state, data, CostTerms(penalty, 1.0))
    params, promised = step(problem, state, at, penalty, damping)
    X, g = whitened_jacobian(problem, state, data), flat(at.gradient)
    B = X.T @ X
    d = -np.linalg.solve(B + (penalty + damping) * np.eye(len(g)), g)
    deviation = np.sqrt(flat([p.variances() for p in state.prior]))
    np.testing.assert_allclose(
        flat(params) - flat(state.params), deviation * d, atol=1e-9
    )
    fall = -(g @ d + d @ (B + penalty * np.eye(len(g))) @ d / 2)
    assert float(promised) == pytest.approx(fall, rel=1e-8)


def averaged_system(problem, state, data):
    """The Kronecker form's ``X'X``, block by block, written out."""
    (left, right) = problem.objective.linearise(
        state.params, state.noise, data, False
    ).derivative
    blocks = [
        np.kron(a.T @ a, np.einsum("toj,toh->jh", d, d)) / SAMPLES
        for a, d in zip(left, right, strict=True)
    ]
    whole = np.zeros((sum(map(len, blocks)),) * 2)
    start = 0
    for block in blocks:
        stop = start + len(block)
        whole[start:stop, start:stop] = block
        start = stop
    deviation = np.sqrt(flat([p.variances() for p in state.prior]))
    return deviation[:, None] * whole * deviation


def test_kronecker_step_and_effective_weights(several_blocks) -> None:
    problem, state, data = setting(
        Network((3, 4, 2), linear_path=True), "row+column", name="kronecker"
    )
    at = evaluate(problem, state, data, CostTerms(1.0, 1.0))
    params, _ = step(problem, state, at, 1.0, 0.8)
    B, g = averaged_system(problem, state, data), flat(at.gradient)
    deviation = np.sqrt(flat([p.variances() for p in state.prior]))
    d = -np.linalg.solve(B + 1.8 * np.eye(len(g)), g)
    np.testing.assert_allclose(
        flat(params) - flat(state.params), deviation * d, atol=1e-9
    )
    gamma = np.diagonal(np.linalg.solve(np.eye(len(B)) + B, B))
    start = 0
    for sums, w in zip(at.gamma, state.params, strict=True):
        own = gamma[start : start + w.size].reshape(w.shape)
        np.testing.assert_allclose(sums.rows, own.sum(1), rtol=1e-9)
        np.testing.assert_allclose(sums.columns, own.sum(0), rtol=1e-9)
        start += w.size


def test_kronecker_is_exact_without_hidden_layers(several_blocks) -> None:
    exact, averaged = (
        evaluate(*setting(Network((4, 1)), "row", name=name), CostTerms(1.0, 1.0))
        for name in ("gauss-newton", "kronecker")
    )
    assert float(averaged.cost) == pytest.approx(float(exact.cost), rel=1e-12)
    np.testing.assert_allclose(flat(averaged.gradient), flat(exact.gradient), rtol=1e-9)
    np.testing.assert_allclose(averaged.gamma_outputs, exact.gamma_outputs, rtol=1e-9)


def test_undamped_step_reaches_the_mode_of_a_linear_model() -> None:
    problem, state, data = setting(Network((4, 2)), "row+column")
    at = evaluate(problem, state, data, CostTerms(1.0, 1.0))
    params, promised = step(problem, state, at, 1.0, 0.0)
    there = evaluate(
        problem,
        state._replace(params=params),
        data,
        CostTerms(1.0, 1.0),
    )
    np.testing.assert_allclose(flat(there.gradient), 0.0, atol=1e-9)
    fall = float(at.cost) - float(there.cost)
    assert fall == pytest.approx(2 * float(promised), rel=1e-9)


@pytest.mark.parametrize("name", ["gauss-newton", "kronecker"])
def test_removed_weights_do_not_move_and_do_not_count(name) -> None:
    """A padded state costs the same as the physically smaller one."""
    problem, state, data = setting(Network((4, 2)), "row+column", name=name)
    keep = np.array([True, False, True, True])
    p = state.prior[0].masked(np.append(keep, True), np.ones(2, bool))
    w = jnp.asarray(np.where(np.append(keep, True)[:, None], state.params[0], 0.0))
    padded = State((w,), (p,), state.noise)
    at = evaluate(problem, padded, data, CostTerms(1.0, 1.0))
    (moved,), _ = step(problem, padded, at, 1.0, 0.5)
    assert (np.asarray(moved)[1] == 0).all()
    rows = np.array([0, 2, 3, 4])
    small = Problem(
        OneStep(Network((3, 2))),
        choose(name, "auto", Network((3, 2)), ("row+column",), 2 * SAMPLES),
    )
    less = State((w[rows],), (p.take(rows, np.arange(2)),), state.noise)
    smaller = evaluate(
        small,
        less,
        Regression(data.z[:, rows[:-1]], data.y),
        CostTerms(1.0, 1.0),
    )
    assert float(smaller.cost) == pytest.approx(float(at.cost), rel=1e-12)
