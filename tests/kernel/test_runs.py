"""Compiled runs against plain loops, their sensitivities against differences."""

import numpy as np
import pytest

from sparsid.kernel import runs
from sparsid.kernel.activations import (
    CUBE,
    MODULUS,
    NAMES,
    SIGMOID,
    SOFTROOT,
    SQUARE,
    TANH,
    activate,
)
from sparsid.models.canonical import Pole, Sizes
from sparsid.models.structures.cascade import cascade
from sparsid.models.structures.even_output import even_output
from sparsid.models.structures.linear import linear

EVERY = [TANH, SOFTROOT, SIGMOID, SQUARE, CUBE, MODULUS]
POLES = [Pole("pair", 0, 0.3, 0.98), Pole("real", 2), Pole("leak", 3, 0.2)]


def plain_run(matrices, kinds, limits, bounds, start, u):
    A, B, E, F, H, C, D, G = matrices
    states, x, y = len(start), [start], []
    low, high = bounds
    for row in u:
        z = F @ x[-1] + H @ row
        n = [
            activate(kind, value, limit)[0]
            for kind, value, limit in zip(kinds, z, limits, strict=True)
        ]
        n = np.array(n).reshape(len(kinds))
        y.append(np.clip(C @ x[-1] + D @ row + G @ n, low[states:], high[states:]))
        x.append(np.clip(A @ x[-1] + B @ row + E @ n, low[:states], high[:states]))
    return np.array(y), np.array(x)


@pytest.mark.parametrize("bound", [0.4, np.inf])
@pytest.mark.parametrize(
    ("states", "inputs", "kinds", "outputs"),
    [
        (3, 2, EVERY, 2),
        (2, 1, [TANH], 1),
        (4, 2, [], 1),
        (1, 0, [], 1),
        (2, 0, EVERY, 3),
    ],
)
def test_a_run_is_that_of_a_plain_loop(states, inputs, kinds, outputs, bound) -> None:
    rng = np.random.default_rng(states)
    shapes = runs.shapes(states, inputs + 1, len(kinds), outputs)
    assert tuple(shapes) == runs.MATRICES
    matrices = [0.5 * rng.normal(size=shape) for shape in shapes.values()]
    limits = rng.uniform(0.5, 1.5, len(kinds))
    bounds = bound * np.array([[-1.0], [1.0]]).repeat(states + outputs, axis=1)
    start = rng.uniform(-0.3, 0.3, states)
    u = np.concatenate([rng.normal(size=(30, inputs)), np.ones((30, 1))], axis=1)
    y, x = np.empty((30, outputs)), np.empty((31, states))
    kinds = np.array(kinds, dtype=np.int64)
    runs.run(tuple(matrices), kinds, limits, bounds, start, u, y, x)
    expected_y, expected_x = plain_run(matrices, kinds, limits, bounds, start, u)
    np.testing.assert_allclose(y, expected_y, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(x, expected_x, rtol=1e-9, atol=1e-12)
    if np.isfinite(bound):
        assert (np.abs(y) == bound).any()


STRUCTURES = {
    "linear": linear(Sizes(4, 2, 0, 2), POLES),
    "linear, no inputs": linear(Sizes(4, 0, 0, 1), POLES),
    "linear, adding up": linear(Sizes(2, 1, 0, 1), [Pole("one", 0), Pole("real", 1)]),
    **{
        f"linear and {NAMES[kind]}": linear(Sizes(4, 1, 2, 2), POLES, [kind] * 2)
        for kind in EVERY
    },
    "neurons to states alone": linear(
        Sizes(4, 2, 3, 1), POLES, direct=False, output_neurons=False
    ),
    "cascade": cascade(Sizes(3, 1, 2, 1), 0.3, [-np.inf], [np.inf]),
    "held cascade": cascade(Sizes(3, 2, 2, 2), 0.3, [-0.4, -0.2], [0.3, 0.5]),
    "even output": even_output(Sizes(4, 1, 3, 2), [Pole("pair", 0, 0.3)]),
}

structures = pytest.mark.parametrize(
    "structure", STRUCTURES.values(), ids=list(STRUCTURES)
)


def random_point(structure, length=40, seed=0):
    rng = np.random.default_rng(seed)
    sizes = structure.sizes
    theta = 0.6 * rng.normal(size=structure.parameters)
    start = 0.2 * rng.normal(size=sizes.states)
    inputs = rng.normal(size=(length, sizes.inputs))
    return theta, start, np.concatenate([inputs, np.ones((length, 1))], axis=1)


@structures
def test_sensitivities_are_those_of_finite_differences(structure) -> None:
    theta, start, u = random_point(structure)
    w, p, h = np.concatenate([theta, start]), structure.parameters, 1e-6
    carry = np.eye(len(start), len(w), p)
    _, _, dy = structure.sensitivities(theta, start, u, carry)
    for k in range(len(w)):
        above, below = w.copy(), w.copy()
        above[k] += h
        below[k] -= h
        y1, x1 = structure.run(above[:p], above[p:], u)
        y0, x0 = structure.run(below[:p], below[p:], u)
        for found, difference in (
            (dy[..., k], y1 - y0),
            (carry[:, k], x1[-1] - x0[-1]),
        ):
            np.testing.assert_allclose(
                found, difference / (2 * h), rtol=1e-5, atol=1e-7, err_msg=str(k)
            )
    assert not dy[..., -1].any()


@structures
def test_sensitivities_come_with_the_run_itself(structure) -> None:
    theta, start, u = random_point(structure)
    y, x, _ = structure.sensitivities(theta, start, u)
    for found, expected in zip((y, x), structure.run(theta, start, u), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)


@structures
def test_sensitivities_of_a_run_go_on_from_those_of_its_first_part(structure) -> None:
    theta, start, u = random_point(structure)
    whole = structure.sensitivities(theta, start, u)[2]
    carry = np.eye(len(start), whole.shape[2] - 1, structure.parameters)
    half = len(u) // 2
    _, x, first = structure.sensitivities(theta, start, u[:half], carry)
    second = structure.sensitivities(theta, x[-1], u[half:], carry)[2]
    joined = np.concatenate([first, second])
    np.testing.assert_allclose(joined, whole, rtol=1e-9, atol=1e-12)


def test_what_is_held_does_not_move() -> None:
    structure = STRUCTURES["held cascade"]
    y, _, dy = structure.sensitivities(*random_point(structure))
    low, high = structure.bounds[:, structure.sizes.states :]
    held = (y == low) | (y == high)
    assert held.any()
    assert not dy[held].any()
    assert dy[~held].any()


def test_one_compilation_serves_all_lengths_and_sizes() -> None:
    loops = (runs.run, runs.sensitivities, runs.expected_residuals, activate)
    before = [list(loop.signatures) for loop in loops]
    assert [len(signatures) for signatures in before] == [1, 1, 1, 1]
    for name, length in (("linear", 17), ("held cascade", 53), ("even output", 1)):
        point = random_point(STRUCTURES[name], length)
        STRUCTURES[name].run(*point)
        STRUCTURES[name].sensitivities(*point)
    assert [list(loop.signatures) for loop in loops] == before
