"""Structures with less in them: what is left runs as if the rest were zero."""

import numpy as np
import pytest

from sparsid.kernel.activations import MODULUS, TANH
from sparsid.models.canonical import Pole, Sizes, Structure
from sparsid.models.structures.cascade import cascade
from sparsid.models.structures.even_output import even_output
from sparsid.models.structures.linear import linear

POLES = [Pole("pair", 0, 0.3, 0.98), Pole("real", 2), Pole("leak", 3), Pole("one", 4)]
STRUCTURES = {
    "linear": linear(Sizes(5, 2, 3, 2), POLES, [TANH, MODULUS, TANH]),
    "cascade": cascade(Sizes(3, 2, 2, 1), 0.3, [-1.0], [1.0]),
    "even output": even_output(Sizes(3, 1, 2, 1), [Pole("pair", 0)]),
}


def reaching(structure: Structure, theta, keep) -> set[tuple[str, int]]:
    """States and neurons from which a path leads to an output, one step at a time."""
    theta = np.where(keep, theta, 0.0)
    theta[: structure.leading] = 1.0
    M = structure.named(theta)
    found = {("x", int(j)) for _, j in np.argwhere(M["C"])}
    found |= {("n", int(j)) for _, j in np.argwhere(M["G"])}
    while True:
        more = set(found)
        for kind, i in found:
            sources = ("A", "E") if kind == "x" else ("F", "")
            for matrix, end in zip(sources, "xn", strict=True):
                if matrix:
                    more |= {(end, int(j)) for j in np.flatnonzero(M[matrix][i])}
        if more == found:
            return found
        found = more


@pytest.mark.parametrize("name", STRUCTURES)
@pytest.mark.parametrize("share", [0.1, 0.4, 0.8])
def test_what_is_left_runs_as_the_whole_with_zeros(name, share) -> None:
    structure, rng = STRUCTURES[name], np.random.default_rng(3)
    sizes = structure.sizes
    for _ in range(10):
        theta = 0.5 * rng.normal(size=structure.parameters)
        keep = rng.uniform(size=structure.parameters) < share
        keep[: structure.leading] = True
        small, stay, states = structure.reduced(keep)
        assert not (stay & ~keep).any()
        start = rng.normal(size=sizes.states)
        u = np.append(rng.normal(size=(40, sizes.inputs)), np.ones((40, 1)), axis=1)
        whole = structure.run(np.where(keep, theta, 0.0), start, u)[0]
        left = small.run(theta[stay], start[states], u)[0]
        np.testing.assert_allclose(left, whole, atol=1e-12)
        useful = reaching(structure, theta, keep)
        if any(kind == "x" for kind, _ in useful):
            assert {("x", int(j)) for j in np.flatnonzero(states)} == {
                end for end in useful if end[0] == "x"
            }
        assert small.sizes.neurons == sum(kind == "n" for kind, _ in useful)


def test_a_state_that_nothing_uses_goes_with_its_pole() -> None:
    structure = STRUCTURES["linear"]
    keep = np.ones(structure.parameters, dtype=bool)
    for k, (matrix, _, j) in enumerate(structure.free):
        if matrix in "CF" and j in (0, 1):
            keep[structure.leading + k] = False
    small, stay, states = structure.reduced(keep)
    assert states.tolist() == [False, False, True, True, True]
    assert [(p.kind, p.state) for p in small.poles] == [
        ("real", 0),
        ("leak", 1),
        ("one", 2),
    ]
    # Two poles of the pair, and all that leads to its states or comes from them.
    assert not stay[:2].any()
    assert small.sizes.states == 3
    assert not {i for m, i, _ in small.free if m in "ABE" and i > 2}


def test_a_pair_stays_as_long_as_one_of_its_states_is_used() -> None:
    structure = STRUCTURES["linear"]
    keep = np.ones(structure.parameters, dtype=bool)
    for k, (matrix, _, j) in enumerate(structure.free):
        if matrix in "CF" and j == 0:
            keep[structure.leading + k] = False
    assert structure.reduced(keep).states.all()


def test_something_is_left_if_nothing_is_used() -> None:
    structure = STRUCTURES["linear"]
    keep = np.zeros(structure.parameters, dtype=bool)
    small, stay, states = structure.reduced(keep)
    assert (small.sizes.states, small.sizes.neurons) == (2, 0)
    assert small.free == ()
    assert stay.sum() == 2
    assert states.sum() == 2
