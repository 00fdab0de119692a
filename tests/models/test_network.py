import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sparsid.bayes.curvature.hessian import block_hessian
from sparsid.errors import InputError
from sparsid.models.network import ACTIVATIONS, Network

pytestmark = pytest.mark.usefixtures("x64")

SAMPLES = 7
CASES = [
    ((3, 2), False),
    ((3, 4, 1), False),
    ((3, 4, 2), True),
    ((3, 4, 3, 1), False),
    ((3, 4, 3, 2, 2), True),
]
PLAIN = {
    "tanh": math.tanh,
    "sigmoid": lambda h: 1 / (1 + math.exp(-h)),
    "softroot": lambda h: math.sqrt(1 + math.log(1 + math.exp(h))) - 1,
    "relu": lambda h: max(h, 0.0),
}

cases = pytest.mark.parametrize(("widths", "linear"), CASES)
activations = pytest.mark.parametrize("activation", ACTIVATIONS)


def random_network(widths, activation, linear, seed=0):
    network = Network(widths, activation, linear)
    rng = np.random.default_rng(seed)
    params = tuple(rng.normal(size=shape) for shape in network.shapes)
    return network, params, rng.normal(size=(SAMPLES, widths[0]))


def plain_output(params, z, activation, linear):
    """One sample, one weight at a time; a bias is added once, outside the sum."""
    layers = params[:-1] if linear else params
    a = list(z)
    for k, W in enumerate(layers):
        h = []
        for j in range(W.shape[1]):
            total = 0.0
            for i in range(len(a)):
                total += W[i, j] * a[i]
            h.append(total + W[-1, j])
        last = k == len(layers) - 1
        a = h if last else [PLAIN[activation](x) for x in h]
    if linear:
        for j in range(len(a)):
            for i in range(len(z)):
                a[j] += params[-1][i, j] * z[i]
    return a


@activations
@cases
def test_forward_against_a_plain_loop(widths, linear, activation) -> None:
    network, params, z = random_network(widths, activation, linear)
    expected = [plain_output(params, row, activation, linear) for row in z]
    np.testing.assert_allclose(network.apply(params, z), expected, rtol=1e-12)


@activations
@cases
def test_factors_against_jacrev(widths, linear, activation) -> None:
    network, params, z = random_network(widths, activation, linear)
    y, factors = network.factors(params, z)
    J = jax.jit(jax.jacrev(lambda p: network.apply(p, jnp.asarray(z))))(params)
    np.testing.assert_allclose(y, network.apply(params, z), rtol=1e-12)
    for left, right, expected in zip(*factors, J, strict=True):
        product = left[:, None, :, None] * right[:, :, None, :]
        np.testing.assert_allclose(product, expected, rtol=1e-10, atol=1e-12)


@partial(jax.jit, static_argnums=0)
def layer_blocks(network, params, z, y, noise):
    """Return the recursion's block Hessians and those of autodiff, layer by layer."""

    def loss(w, k):
        changed = (*params[:k], w, *params[k + 1 :])
        return ((y - network.apply(changed, z)) ** 2 / noise).sum() / 2

    r = y - network.apply(params, z)
    left, hessians = network.layer_hessians(params, z, -r / noise, 1 / noise)
    return [
        (
            block_hessian(a, H),
            jax.hessian(loss)(params[k], k).reshape(params[k].size, params[k].size),
        )
        for k, (a, H) in enumerate(zip(left, hessians, strict=True))
    ]


@pytest.mark.parametrize(
    ("widths", "linear", "activation"),
    [
        ((3, 2), False, "tanh"),
        ((3, 4, 2), True, "tanh"),
        ((3, 4, 3, 1), False, "tanh"),
        ((3, 4, 3, 2, 2), True, "tanh"),
        ((3, 4, 3, 1), False, "sigmoid"),
        ((3, 4, 3, 1), False, "softroot"),
        ((3, 4, 2), True, "relu"),
    ],
)
def test_layer_hessian_recursion_against_autodiff(widths, linear, activation) -> None:
    network, params, z = random_network(widths, activation, linear)
    rng = np.random.default_rng(1)
    y = rng.normal(size=(SAMPLES, widths[-1]))
    noise = rng.uniform(0.5, 2.0, widths[-1])
    for recursion, exact in layer_blocks(network, params, z, y, noise):
        scale = np.abs(exact).max()
        np.testing.assert_allclose(recursion, exact, atol=1e-8 * scale, rtol=0)


def test_hidden_tanh_layer_hessian_is_indefinite_somewhere() -> None:
    network, params, z = random_network((3, 4, 3, 1), "tanh", False)
    y = np.random.default_rng(1).normal(size=(SAMPLES, 1))
    first, *_ = layer_blocks(network, params, z, y, np.ones(1))
    assert np.linalg.eigvalsh(first[1])[0] < -1e-3


def test_relu_layer_hessian_equals_gauss_newton() -> None:
    network, params, z = random_network((3, 4, 2), "relu", True)
    rng = np.random.default_rng(1)
    y, noise = rng.normal(size=(SAMPLES, 2)), rng.uniform(0.5, 2.0, 2)
    _, factors = network.factors(params, z)
    blocks = layer_blocks(network, params, z, y, noise)
    for (recursion, _), left, right in zip(blocks, *factors, strict=True):
        J = (
            left[:, None, :, None]
            * right[:, :, None, :]
            / np.sqrt(noise)[:, None, None]
        )
        J = J.reshape(SAMPLES * 2, -1)
        np.testing.assert_allclose(recursion, J.T @ J, rtol=1e-10, atol=1e-12)


@activations
def test_numpy_and_jax_arrays_give_the_same_in_kind(activation) -> None:
    network, params, z = random_network((3, 4, 2), activation, True)
    y, factors = network.factors(params, z)
    jax_params = tuple(jnp.asarray(w) for w in params)
    y_jax, factors_jax = network.factors(jax_params, jnp.asarray(z))
    for ours, theirs in zip(
        jax.tree.leaves((y, factors)),
        jax.tree.leaves((y_jax, factors_jax)),
        strict=True,
    ):
        assert isinstance(ours, np.ndarray)
        assert isinstance(theirs, jax.Array)
        np.testing.assert_allclose(ours, theirs, rtol=1e-13, atol=1e-15)


def test_start_weights_have_variance_one_over_inputs() -> None:
    network = Network((50, 40, 30))
    params = network.init(key=jax.random.key(0))
    assert [w.shape for w in params] == [(51, 40), (41, 30)]
    assert all(w.dtype == np.float64 for w in params)
    for w, n_in in zip(params, (50, 40), strict=True):
        assert np.var(w) * n_in == pytest.approx(1.0, rel=0.15)


def test_named_axes_are_shared_between_neighbours() -> None:
    network = Network((3, 4, 5, 2), linear_path=True)
    assert network.axes == {"regressors": 3, "hidden1": 4, "hidden2": 5, "outputs": 2}
    assert [(b.rows, b.columns, b.bias) for b in network.blocks] == [
        ("regressors", "hidden1", True),
        ("hidden1", "hidden2", True),
        ("hidden2", "outputs", True),
        ("regressors", "outputs", False),
    ]


def test_unknown_activation_is_refused() -> None:
    with pytest.raises(InputError, match="choose one of tanh, sigmoid, softroot, relu"):
        Network((1, 1), "gelu")
