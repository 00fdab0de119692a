import numpy as np
import pytest

from sparsid.kernel.activations import (
    CUBE,
    NAMES,
    SOFTROOT,
    SQUARE,
    TANH,
    activate,
)
from sparsid.models.canonical import Pole, Sizes
from sparsid.models.structures.cascade import cascade
from sparsid.models.structures.even_output import even_output
from sparsid.models.structures.linear import linear

POLES = {
    "pair": Pole("pair", 0),
    "narrow pair": Pole("pair", 0, 0.02, 0.95),
    "real": Pole("real", 0, 1.0, 0.9),
    "leak": Pole("leak", 0, 0.15),
    "one": Pole("one", 0),
}
STRUCTURES = {
    "linear": linear(
        Sizes(5, 2, 3, 2),
        [Pole("pair", 0, 0.3, 0.98), Pole("real", 2), Pole("leak", 3), Pole("one", 4)],
    ),
    "cascade": cascade(Sizes(3, 2, 2, 1), 0.3, [-1.0], [1.0]),
    "even output": even_output(Sizes(3, 1, 2, 1), [Pole("pair", 0)]),
}


kinds = pytest.mark.parametrize("pole", POLES.values(), ids=list(POLES))
structures = pytest.mark.parametrize(
    "structure", STRUCTURES.values(), ids=list(STRUCTURES)
)


def block(pole, p):
    A = np.zeros((2, 2) if pole.kind == "pair" else (1, 1))
    for i, j, value, _ in pole.entries(p):
        A[i, j] = value
    return A


def poles_of(pole, p):
    return np.sort_complex(np.linalg.eigvals(block(pole, p)))


@kinds
@pytest.mark.parametrize("size", [0.1, 1.0, 5.0, 100.0])
def test_poles_stay_inside_their_circle(pole, size) -> None:
    rng = np.random.default_rng(0)
    for p in size * rng.normal(size=(200, pole.parameters)):
        # A double pole is known to the root of the rounding error.
        assert (np.abs(poles_of(pole, p)) <= pole.most * (1.0 + 1e-7)).all()


@pytest.mark.parametrize("name", ["pair", "narrow pair", "real"])
def test_poles_stay_inside_for_the_largest_parameters(name) -> None:
    pole = POLES[name]
    for p in np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]]):
        p = 1e300 * p[: pole.parameters]
        assert (np.abs(poles_of(pole, p)) <= pole.most * (1.0 + 1e-7)).all()
        assert all(np.isfinite([v, *by]).all() for _, _, v, by in pole.entries(p))


@pytest.mark.parametrize(
    "p",
    [
        -1e300,
        -700.0,
        700.0,
        800.0,
    ],
)
def test_a_leak_of_any_size_is_finite(p) -> None:
    ((_, _, value, slopes),) = POLES["leak"].entries(np.array([p]))
    assert 0.0 <= value <= 1.0
    assert np.isfinite(slopes).all()


def test_a_pair_has_the_determinant_and_the_trace_of_its_parameters() -> None:
    pole = POLES["narrow pair"]
    for p in np.random.default_rng(0).normal(size=(20, 2)):
        A, (a, b), m = block(pole, p), np.tanh(p), pole.most
        assert np.linalg.det(A) == pytest.approx(m**2 * a, abs=1e-12)
        assert np.trace(A) == pytest.approx(m * (1.0 + a) * b, abs=1e-12)


@pytest.mark.parametrize(
    "name",
    list(POLES),
)
def test_parameters_come_back(name) -> None:
    pole = POLES[name]
    for p in np.random.default_rng(0).normal(size=(50, pole.parameters)):
        found = np.array(pole.of(np.linalg.eigvals(block(pole, p))))
        np.testing.assert_allclose(found, p, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "poles"),
    [
        ("pair", [0.5 - 0.6j, 0.5 + 0.6j]),
        ("pair", [-0.8, 0.9]),
        ("pair", [0.3, 0.7]),
        ("pair", [-0.3j, 0.3j]),
        ("narrow pair", [0.9 - 0.1j, 0.9 + 0.1j]),
        ("narrow pair", [-0.94, -0.93]),
        ("real", [-0.7]),
        ("real", [0.89]),
        ("leak", [0.97]),
        ("one", [1.0]),
    ],
)
def test_poles_come_back(name, poles) -> None:
    pole = POLES[name]
    p = np.array(pole.of(np.array(poles)))
    np.testing.assert_allclose(poles_of(pole, p), poles, atol=1e-9)


@pytest.mark.parametrize("name", ["pair", "narrow pair", "real", "leak"])
@pytest.mark.parametrize(
    "poles",
    [
        [1.2, 1.3],
        [-0.5, 1.4],
        [-2.0, -3.0],
        [1.1j, -1.1j],
    ],
)
def test_poles_outside_are_brought_inside(name, poles) -> None:
    pole = POLES[name]
    p = np.array(pole.of(np.array(poles)))
    assert np.isfinite(p).all()
    assert (np.abs(poles_of(pole, p)) < pole.most).all()


@kinds
def test_slopes_of_entries_are_those_of_finite_differences(pole) -> None:
    h = 1e-6
    for p in np.random.default_rng(0).normal(size=(20, pole.parameters)):
        for k in range(pole.parameters):
            step = h * np.eye(pole.parameters)[k]
            difference = (block(pole, p + step) - block(pole, p - step)) / (2 * h)
            for i, j, _, slopes in pole.entries(p):
                assert slopes[k] == pytest.approx(difference[i, j], rel=1e-6, abs=1e-8)


@structures
def test_matrices_are_linear_in_the_free_entries(structure) -> None:
    rng = np.random.default_rng(0)
    theta, other = rng.normal(size=(2, structure.parameters))
    other[: structure.leading] = theta[: structure.leading]
    whole = structure.matrices(0.3 * theta + 0.7 * other)
    parts = 0.3 * structure.matrices(theta) + 0.7 * structure.matrices(other)
    np.testing.assert_allclose(whole, parts, atol=1e-14)


@structures
def test_matrices_are_fixed_poles_and_factors_times_parameters(structure) -> None:
    theta = np.random.default_rng(0).normal(size=structure.parameters)
    named, sizes = structure.named(theta), structure.sizes
    expected = {
        name: structure.fixed[sizes.offsets[name] :][: m.size].reshape(m.shape).copy()
        for name, m in named.items()
    }
    for k, (matrix, i, j) in enumerate(structure.free):
        expected[matrix][i, j] += structure.factors[k] * theta[structure.leading + k]
    first = 0
    for pole in structure.poles:
        for i, j, value, _ in pole.entries(theta[first : first + pole.parameters]):
            expected["A"][i, j] += value
        first += pole.parameters
    for name, m in named.items():
        np.testing.assert_allclose(m, expected[name], atol=1e-15, err_msg=name)


@structures
def test_every_parameter_belongs_to_poles_or_to_one_matrix(structure) -> None:
    places = [structure.where(name) for name in structure.sizes.shapes]
    found = np.sort(np.concatenate([np.arange(structure.leading), *places]))
    np.testing.assert_array_equal(found, np.arange(structure.parameters))


@structures
def test_the_table_has_the_slopes_of_the_matrices(structure) -> None:
    theta = np.random.default_rng(0).normal(size=structure.parameters)
    table, weights, ends = structure.table(theta)
    found = np.zeros((structure.sizes.offsets[""], structure.parameters))
    first = 0
    for name, last in zip(structure.sizes.shapes, ends, strict=True):
        for m in range(first, last):
            i, j, p = table[m].tolist()
            found[structure.sizes.at(name, i, j), p] += weights[m]
        first = last
    h = 1e-6
    for p in range(structure.parameters):
        step = h * np.eye(structure.parameters)[p]
        above, below = (
            structure.matrices(theta + step),
            structure.matrices(theta - step),
        )
        difference = (above - below) / (2 * h)
        np.testing.assert_allclose(found[:, p], difference, rtol=1e-6, atol=1e-8)


def largest_state(structure, theta, start):
    """Return what no state exceeds for inputs within one, at any time.

    States are sums of powers of A times what inputs and neurons push; neurons push no
    more than at their largest argument, which the largest state gives.
    """
    m = {name: np.abs(value) for name, value in structure.named(theta).items()}
    A = structure.named(theta)["A"]
    power, gain, first = np.eye(len(A)), np.zeros_like(A), np.zeros(len(A))
    for _ in range(SAMPLES):
        first = np.maximum(first, np.abs(power) @ np.abs(start))
        gain += np.abs(power)
        power = power @ A
    bound = np.zeros(len(A))
    for _ in range(500):
        z = m["F"] @ bound + m["H"].sum(axis=1)
        n = [
            abs(activate(kind, value, limit)[0])
            for kind, value, limit in zip(
                structure.kinds, z, structure.limits, strict=True
            )
        ]
        bound = first + gain @ (m["B"].sum(axis=1) + m["E"] @ np.array(n))
    return bound


SAMPLES = 1000
WILD = {
    "linear first": lambda kind: linear(
        Sizes(4, 1, 3, 1),
        [Pole("pair", 0, 0.3, 0.99), Pole("real", 2), Pole("leak", 3, 0.3)],
        [kind] * 3,
    ),
    "cascade": lambda kind: cascade(Sizes(3, 1, 3, 1), 0.3, [-np.inf], [np.inf], kind),
}


@pytest.mark.parametrize("name", WILD)
@pytest.mark.parametrize(
    "kind", [TANH, SOFTROOT, SQUARE, CUBE], ids=lambda kind: NAMES[kind]
)
@pytest.mark.parametrize("seed", range(5))
def test_wild_weights_do_not_make_a_run_diverge(name, kind, seed) -> None:
    structure, rng = WILD[name](kind), np.random.default_rng(seed)
    theta = 30.0 * rng.normal(size=structure.parameters)
    theta[: structure.leading] = rng.normal(size=structure.leading)
    start = rng.normal(size=structure.sizes.states)
    u = np.ones((SAMPLES, 2))
    u[:, 0] = rng.uniform(-1.0, 1.0, SAMPLES)
    y, x = structure.run(theta, start, u)
    assert np.isfinite(y).all()
    assert (np.abs(x) <= largest_state(structure, theta, start)).all()


def test_a_held_cascade_stays_between_floor_and_ceiling() -> None:
    structure = cascade(Sizes(3, 1, 3, 2), 0.3, [-0.5, -np.inf], [0.7, 0.2])
    rng = np.random.default_rng(0)
    found = []
    for _ in range(10):
        theta = 30.0 * rng.normal(size=structure.parameters)
        theta[: structure.leading] = rng.normal(size=structure.leading)
        u = np.ones((SAMPLES, 2))
        u[:, 0] = rng.uniform(-1.0, 1.0, SAMPLES)
        y, x = structure.run(theta, np.zeros(3), u)
        np.testing.assert_array_equal(y, x[:-1, :2])
        found.append(y)
    first, second = np.concatenate(found).T
    assert (first.min(), first.max(), second.max()) == (-0.5, 0.7, 0.2)
    assert second.min() < -10.0
