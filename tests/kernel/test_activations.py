import numpy as np
import pytest

from sparsid.kernel.activations import (
    CORNER,
    CUBE,
    MODULUS,
    NAMES,
    SIGMOID,
    SOFTROOT,
    SQUARE,
    TANH,
    activate,
)

LIMIT = 2.0
PLAIN = {
    TANH: np.tanh,
    SOFTROOT: lambda z: np.sqrt(1.0 + np.logaddexp(0.0, z)) - 1.0,
    SIGMOID: lambda z: 1.0 / (1.0 + np.exp(-z)),
    SQUARE: lambda z: np.clip(z, -LIMIT, LIMIT) ** 2,
    CUBE: lambda z: np.clip(z, -LIMIT, LIMIT) ** 3,
    MODULUS: lambda z: np.sqrt(z**2 + CORNER**2) - CORNER,
}
# Inside the limit, beyond it, and none at it.
POINTS = np.concatenate([np.linspace(-1.9, 1.9, 21), [-6.0, -2.5, 2.5, 6.0]])

kinds = pytest.mark.parametrize("kind", PLAIN, ids=[NAMES[k] for k in PLAIN])


def activated(kind, z):
    return np.array([activate(kind, float(value), LIMIT) for value in z]).T


@kinds
def test_values_are_those_of_the_formula(kind) -> None:
    expected = PLAIN[kind](POINTS)
    np.testing.assert_allclose(activated(kind, POINTS)[0], expected, atol=1e-15)


@kinds
def test_derivatives_are_those_of_finite_differences(kind) -> None:
    h = 1e-6
    _, slope, second = activated(kind, POINTS)
    above, below = activated(kind, POINTS + h), activated(kind, POINTS - h)
    value_by, slope_by, _ = (above - below) / (2 * h)
    np.testing.assert_allclose(slope, value_by, atol=1e-8)
    np.testing.assert_allclose(second, slope_by, rtol=1e-7, atol=1e-8)


@kinds
def test_far_arguments_stay_finite(kind) -> None:
    far = np.array([-1e4, -800.0, 800.0, 1e4])
    found = activated(kind, far)
    assert np.isfinite(found).all()
    assert (np.abs(found[0]) <= np.abs(far) + LIMIT**3).all()


@pytest.mark.parametrize("kind", [SQUARE, CUBE])
def test_held_polynomials_are_flat_at_and_beyond_the_limit(kind) -> None:
    value, slope, second = activated(kind, [LIMIT, 3.0, 1e9])
    assert (value == LIMIT ** (2 if kind == SQUARE else 3)).all()
    assert not slope.any()
    assert not second.any()
