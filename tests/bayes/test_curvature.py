"""Every form of the curvature against dense matrices written out in NumPy."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sparsid.bayes.curvature import choose, pieces, primal
from sparsid.bayes.curvature.choice import estimate
from sparsid.bayes.curvature.hessian import block_hessian
from sparsid.bayes.prior import BlockPrior, start_prior
from sparsid.errors import InputError
from sparsid.models.network import Factors, Network

pytestmark = pytest.mark.usefixtures("x64", "optimised")

SAMPLES = 9
NETWORKS = {
    "one output": Network((3, 4, 1)),
    "linear path": Network((3, 4, 2), linear_path=True),
}
FORMS_OF = {
    "shape": ("primal", "dual"),
    "row": ("primal", "dual", "gram"),
    "column": ("primal", "dual", "gram"),
    "row+column": ("primal", "dual", "gram"),
    "added": ("primal", "dual"),
}


def random_prior(network, kind, rng, low=0.1, high=1.0):
    def block(p):
        rows, columns = rng.uniform(low, high, p.rows.shape), np.ones(p.columns.shape)
        if kind == "column":
            rows = np.ones(p.rows.shape)
        if kind != "row":
            columns = rng.uniform(low, high, p.columns.shape)
        elements = None
        if kind == "shape":
            elements = jnp.asarray(rng.uniform(low, high, p.elements.shape))
        return BlockPrior(
            jnp.asarray(rows), jnp.asarray(columns), elements, kind, p.bias
        )

    return tuple(block(p) for p in start_prior(network, (kind,) * len(network.blocks)))


def remove_some(prior):
    """The second regressor of the first block and its last neuron, as in a padding."""
    p = prior[0]
    rows, columns = np.arange(len(p.rows)) != 1, np.ones(len(p.columns), bool)
    columns[-1] = False
    return (p.masked(rows, columns), *prior[1:])


def random_derivative(network, rng):
    """Factors of the outputs over the noise, at random weights."""
    params = tuple(rng.normal(size=s) for s in network.shapes)
    z = rng.normal(size=(SAMPLES, network.widths[0]))
    sigma = rng.uniform(0.3, 1.0, network.widths[-1])
    _, factors = network.factors(params, z)
    return Factors(
        tuple(jnp.asarray(a) for a in factors.left),
        tuple(jnp.asarray(d / sigma[:, None]) for d in factors.right),
    )


def dense_jacobian(derivative):
    """One row for each sample and output, one column for each weight, by loops."""
    left, right = derivative
    rows = []
    for t in range(len(left[0])):
        for o in range(right[0].shape[1]):
            rows.append(
                np.concatenate(
                    [
                        np.outer(a[t], d[t, o]).ravel()
                        for a, d in zip(left, right, strict=True)
                    ]
                )
            )
    return np.array(rows)


def flat(blocks):
    return np.concatenate([np.asarray(b).ravel() for b in blocks])


def variances(prior):
    return flat([p.variances() for p in prior])


def split(vector, prior):
    ends = np.cumsum([p.rows.size * p.columns.size for p in prior])
    return [
        part.reshape(len(p.rows), len(p.columns))
        for part, p in zip(np.split(vector, ends[:-1]), prior, strict=True)
    ]


def half_log_det(derivative, deviations):
    """log|I + X X'| / 2 for autodiff through the factors."""
    columns = [
        (a[:, None, :, None] * d[:, :, None, :] * s).reshape(-1, s.size)
        for a, d, s in zip(*derivative, deviations, strict=True)
    ]
    X = jnp.concatenate(columns, axis=1)
    return jnp.linalg.slogdet(jnp.eye(len(X)) + X @ X.T)[1] / 2


@partial(jax.jit, static_argnums=0)
def measure(curvature, derivative, prior, g, t):
    """Everything a curvature hands back, in one compiled program."""
    found = curvature.factorise(derivative, prior, full=True)
    step = curvature.solve(found.system, derivative, prior, g, t)
    short = curvature.factorise(derivative, prior, full=False)
    return found, step, short


half_log_det_gradient = jax.jit(jax.grad(half_log_det))


@pytest.mark.slow
@pytest.mark.parametrize("removed", [False, True], ids=["whole", "removed rows"])
@pytest.mark.parametrize(
    ("name", "kind"),
    [("one output", "row+column"), *(("linear path", kind) for kind in FORMS_OF)],
)
def test_forms_agree_with_dense_formulas(name, kind, removed) -> None:
    rng = np.random.default_rng(0)
    network = NETWORKS[name]
    derivative = random_derivative(network, rng)
    prior = random_prior(network, kind, rng)
    prior = remove_some(prior) if removed else prior
    J, v = dense_jacobian(derivative), variances(prior)
    S = np.eye(len(J)) + (J * v) @ J.T
    gamma = split(v * np.diag(J.T @ np.linalg.solve(S, J)), prior)
    g = tuple(jnp.asarray(rng.normal(size=p.variances().shape)) for p in prior)
    X = J * np.sqrt(v)
    t = 1.7
    d = -np.linalg.solve(X.T @ X + t * np.eye(len(v)), flat(g))
    deviations = [jnp.sqrt(p.variances()) for p in prior]
    cotangent = half_log_det_gradient(derivative, deviations)
    kinds = (kind,) * len(prior)
    for form in FORMS_OF[kind]:
        curvature = choose("gauss-newton", form, network, kinds, len(J))
        found, step, short = measure(curvature, derivative, prior, g, t)
        assert float(found.log_det) == pytest.approx(
            np.linalg.slogdet(S)[1], rel=1e-9, abs=1e-9
        )
        for sums, expected in zip(found.gamma, gamma, strict=True):
            np.testing.assert_allclose(sums.rows, expected.sum(1), atol=1e-9)
            np.testing.assert_allclose(sums.columns, expected.sum(0), atol=1e-9)
            if sums.elements is not None:
                np.testing.assert_allclose(sums.elements, expected, atol=1e-9)
        for ours, theirs in zip(
            jax.tree.leaves(found.cotangent), jax.tree.leaves(cotangent), strict=True
        ):
            np.testing.assert_allclose(ours, theirs, atol=1e-9)
        np.testing.assert_allclose(flat(step), d, atol=1e-9)
        assert short.gamma is None
        for whole, part in zip(found.system, short.system, strict=True):
            jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-12), whole, part)


def test_alpha_equals_the_printed_form_for_moderate_variances() -> None:
    """``diag(J' S^-1 J)`` against ``1/v - C/v^2`` with ``C = (V^-1 + J'J)^-1``."""
    rng = np.random.default_rng(1)
    network = NETWORKS["linear path"]
    derivative = random_derivative(network, rng)
    prior = random_prior(network, "shape", rng, 0.1, 1.0)
    J, v = dense_jacobian(derivative), variances(prior)
    curvature = choose("gauss-newton", "dual", network, ("shape",) * 3, len(J))
    g = tuple(p.variances() for p in prior)
    found, _, _ = measure(curvature, derivative, prior, g, 1.0)
    alpha = flat([sums.elements for sums in found.gamma]) / v
    C = np.linalg.inv(np.diag(1 / v) + J.T @ J)
    printed = 1 / v - np.diag(C) / v**2
    np.testing.assert_allclose(alpha, printed, atol=1e-8 * printed.max(), rtol=0)


def test_gauss_newton_equals_explicit_jacobian_product() -> None:
    rng = np.random.default_rng(2)
    network = NETWORKS["linear path"]
    derivative = random_derivative(network, rng)
    prior = random_prior(network, "row+column", rng)
    X = dense_jacobian(derivative) * np.sqrt(variances(prior))
    for form, expected in (("primal", X.T @ X), ("dual", X @ X.T), ("gram", X @ X.T)):
        kinds = ("row+column",) * 3
        curvature = choose("gauss-newton", form, network, kinds, len(X))
        g = tuple(p.variances() for p in prior)
        (system,) = measure(curvature, derivative, prior, g, 1.7)[0].system
        np.testing.assert_allclose(system, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.usefixtures("x64")
def test_products_of_two_outputs_and_a_block_without_weights() -> None:
    rng = np.random.default_rng(4)
    sizes = ((3, 2), (0, 2), (4, 1))
    derivative = Factors(
        tuple(rng.normal(size=(6, n)) for n, _ in sizes),
        tuple(rng.normal(size=(6, 2, m)) for _, m in sizes),
    )
    prior = tuple(
        BlockPrior(np.ones(n), np.ones(m), rng.uniform(1.0, 4.0, (n, m)), "shape", True)
        for n, m in sizes
    )
    X = pieces.dense(derivative, pieces.scales(prior))
    assert X.shape == (12, 10)
    found = primal.products(derivative, prior)
    np.testing.assert_allclose(found, X.T @ X, rtol=1e-12)


@pytest.mark.parametrize("form", ["primal", "dual", "gram"])
def test_layer_curvature_is_the_diagonal_blocks(form) -> None:
    rng = np.random.default_rng(3)
    network = NETWORKS["linear path"]
    derivative = random_derivative(network, rng)
    prior = random_prior(network, "row+column", rng)
    X = dense_jacobian(derivative) * np.sqrt(variances(prior))
    kinds = ("row+column",) * 3
    curvature = choose("layer-gauss-newton", form, network, kinds, len(X))
    g = tuple(jnp.asarray(rng.normal(size=p.variances().shape)) for p in prior)
    found, step, _ = measure(curvature, derivative, prior, g, 0.6)
    log_det, start = 0.0, 0
    for p, sums, part, slope in zip(prior, found.gamma, step, g, strict=True):
        size = p.rows.size * p.columns.size
        B = X[:, start : start + size].T @ X[:, start : start + size]
        start += size
        log_det += np.linalg.slogdet(np.eye(size) + B)[1]
        gamma = 1 - np.diag(np.linalg.inv(np.eye(size) + B)).reshape(part.shape)
        np.testing.assert_allclose(sums.rows, gamma.sum(1), atol=1e-9)
        d = -np.linalg.solve(B + 0.6 * np.eye(size), np.asarray(slope).ravel())
        np.testing.assert_allclose(np.asarray(part).ravel(), d, atol=1e-9)
    assert float(found.log_det) == pytest.approx(log_det, rel=1e-9)


def test_layer_hessian_is_made_positive_and_else_exact() -> None:
    rng = np.random.default_rng(4)
    network = NETWORKS["one output"]
    params = tuple(jnp.asarray(rng.normal(size=s)) for s in network.shapes)
    z = jnp.asarray(rng.normal(size=(SAMPLES, 3)))
    r, noise = jnp.asarray(rng.normal(size=(SAMPLES, 1))), jnp.asarray([0.5])
    derivative = jax.jit(network.layer_hessians)(params, z, -r / noise, 1 / noise)
    prior = random_prior(network, "shape", rng)
    curvature = choose("layer-hessian", "auto", network, ("shape",) * 2, SAMPLES)
    g = tuple(jnp.asarray(rng.normal(size=w.shape)) for w in params)
    found, step, _ = measure(curvature, derivative, prior, g, 0.3)
    lowest, log_det = [], 0.0
    for k, (left, hessians) in enumerate(zip(*derivative, strict=True)):
        s = np.sqrt(np.asarray(prior[k].variances())).ravel()
        exact = s[:, None] * np.asarray(block_hessian(left, hessians)) * s
        values, vectors = np.linalg.eigh(exact)
        lowest.append(values[0])
        clipped = (vectors * np.maximum(values, 0)) @ vectors.T
        positive, basis = found.system[k]
        assert (np.asarray(positive) >= 0).all()
        ours = (np.asarray(basis) * np.asarray(positive)) @ np.asarray(basis).T
        np.testing.assert_allclose(ours, clipped, atol=1e-10)
        if values[0] > -1e-10:
            np.testing.assert_allclose(ours, exact, atol=1e-9)
        log_det += np.linalg.slogdet(np.eye(len(s)) + clipped)[1]
        gamma = 1 - np.diag(np.linalg.inv(np.eye(len(s)) + clipped))
        np.testing.assert_allclose(
            np.asarray(found.gamma[k].elements).ravel(), gamma, atol=1e-9
        )
        d = -np.linalg.solve(clipped + 0.3 * np.eye(len(s)), np.asarray(g[k]).ravel())
        np.testing.assert_allclose(np.asarray(step[k]).ravel(), d, atol=1e-8)
    assert lowest[0] < -1e-3 < -1e-10 < lowest[1]
    assert float(found.log_det) == pytest.approx(log_det, rel=1e-9)


# -- choice ------------------------------------------------------------------------


def test_form_is_chosen_by_cost() -> None:
    narrow, wide = Network((5, 4, 1)), Network((11, 100, 100, 1))

    def form(network, kind, samples, name="gauss-newton"):
        kinds = (kind,) * len(network.blocks)
        return choose(name, "auto", network, kinds, samples).forms

    assert form(narrow, "row+column", 1000) == ("primal",)
    assert form(wide, "row+column", 1019) == ("gram",)
    assert form(wide, "shape", 500) == ("dual",)
    assert form(wide, "added", 500) == ("dual",)
    layers = form(wide, "row+column", 1019, "layer-gauss-newton")
    assert len(layers) == 3
    assert layers[2] == "primal"
    assert form(narrow, "row", 50, "layer-hessian") == ("hessian", "hessian")


def test_chosen_form_has_the_lowest_estimate() -> None:
    for widths in ((5, 4, 1), (11, 30, 1), (11, 100, 100, 1)):
        for samples in (20, 200, 2000):
            network = Network(widths)
            kinds = ("row+column",) * len(network.blocks)
            (chosen,) = choose("gauss-newton", "auto", network, kinds, samples).forms
            flops = {
                form: estimate(form, list(network.shapes), samples)[0]
                for form in ("primal", "dual", "gram")
            }
            assert chosen == min(flops, key=flops.__getitem__)


def test_too_large_for_memory_is_refused_before_anything_is_allocated() -> None:
    network = Network((50, 5000, 5000, 1))
    with pytest.raises(InputError, match=r"memory limit of 4\.0 GB .*primal .*GB.*use"):
        choose("gauss-newton", "primal", network, ("shape",) * 3, 10**6)
    with pytest.raises(InputError, match=r"memory limit of 0\.0 GB"):
        choose("gauss-newton", "gram", network, ("row",) * 3, 1000, memory_limit=1e6)


def test_what_does_not_fit_is_approximated_unless_the_exact_is_asked_for() -> None:
    network = Network((50, 5000, 5000, 1))
    with pytest.raises(InputError, match="curvature='auto'"):
        choose("gauss-newton", "auto", network, ("shape",) * 3, 10**6)
    with pytest.raises(InputError, match=r"primal .*GB.*form='auto'"):
        choose("auto", "primal", network, ("row",) * 3, 10**6)

    def chosen(kind, samples, limit=9e9):
        return choose("auto", "auto", network, (kind,) * 3, samples, limit)

    assert chosen("row", 1000).name == "gauss-newton"
    assert chosen("row", 50_000).forms == ("kronecker",) * 3
    # One factor has 5001 rows and columns.
    assert chosen("row", 50_000, 4e9).forms == ("diagonal",) * 3
    assert chosen("shape", 50_000).forms == ("diagonal",) * 3


def test_an_approximation_that_saves_nothing_is_not_taken() -> None:
    """Of very many rows the table of regressors is what does not fit."""
    with pytest.raises(InputError, match=r"4\.\d GB for 7000000 samples .* use fewer"):
        choose("auto", "auto", Network((40, 10, 1)), ("row",) * 2, 7 * 10**6)


def test_approximations_are_refused_where_they_do_not_apply() -> None:
    network = Network((50, 5000, 5000, 1))
    for name in ("kronecker", "diagonal"):
        with pytest.raises(InputError, match="one form"):
            choose(name, "gram", network, ("row",) * 3, 10)
    with pytest.raises(InputError, match=r"not shape, row, row: use .*diagonal"):
        choose("kronecker", "auto", network, ("shape", "row", "row"), 10)
    with pytest.raises(InputError, match=r"'kronecker' needs 8\.\d GB .* of 1\.0 GB"):
        choose("kronecker", "auto", network, ("row",) * 3, 10, memory_limit=1e9)


def test_very_many_rows_go_through_some_at_a_time() -> None:
    network, kinds = Network((9, 10, 1)), ("row",) * 2
    assert choose("gauss-newton", "auto", network, kinds, 10**6).forms == ("blockwise",)
    assert choose("gauss-newton", "auto", network, kinds, 10**3).forms == ("primal",)
    layers = choose("layer-gauss-newton", "auto", network, kinds, 10**6)
    assert layers.forms == ("blockwise", "blockwise")
    # A wide layer that would not fit keeps the others from it.
    wide = Network((11, 200, 200, 1))
    layers = choose("layer-gauss-newton", "auto", wide, ("row",) * 3, 8000)
    assert layers.forms == ("primal", "gram", "primal")


def test_a_dearer_form_is_taken_when_the_cheapest_does_not_fit() -> None:
    network, samples = Network((11, 100, 100, 1)), 1019
    sizes = {
        form: estimate(form, list(network.shapes), samples)
        for form in ("primal", "dual", "gram")
    }
    assert sizes["gram"][0] < sizes["dual"][0] < sizes["primal"][0]
    limit = sizes["dual"][1]
    chosen = choose("gauss-newton", "auto", network, ("shape",) * 3, samples, limit)
    assert chosen.forms == ("dual",)


@pytest.mark.parametrize("kind", ["shape", "added"])
def test_gram_is_refused_for_variances_that_do_not_factor(kind) -> None:
    with pytest.raises(InputError, match=f"form='gram' needs .* not row, {kind}"):
        choose("gauss-newton", "gram", Network((3, 4, 1)), ("row", kind), 10)


def test_unknown_names_are_refused() -> None:
    network = Network((3, 1))
    with pytest.raises(InputError, match="curvature='fisher' is not known: choose"):
        choose("fisher", "auto", network, ("row",), 10)
    with pytest.raises(InputError, match="form='sparse' is not known: choose one of"):
        choose("gauss-newton", "sparse", network, ("row",), 10)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("size", [1, 5, 255, 256, 259, 517])
def test_inverse_by_halves_is_the_inverse(size) -> None:
    X = np.random.default_rng(size).normal(size=(size, size))
    S = X @ X.T + np.eye(size)
    Q = pieces.inverse_by_halves(jnp.linalg.cholesky(jnp.asarray(S)))
    np.testing.assert_allclose(Q @ S, np.eye(size), atol=1e-9)
