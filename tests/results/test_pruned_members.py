"""Ensembles whose members lost different states and neurons."""

from dataclasses import replace

import numpy as np
import pytest
from small_simulators import STRUCTURES, made, member

from sparsid.estimators import Simulator
from sparsid.models.canonical import Structure
from sparsid.validation.relevance import relevance


def without(structure: Structure, gone: str, column: int | None = None) -> Structure:
    """Return what is left without entries of matrices, in one column or in all."""
    keep = np.ones(structure.parameters, dtype=bool)
    for k, (matrix, _, j) in enumerate(structure.free):
        if matrix in gone and column in (None, j):
            keep[structure.leading + k] = False
    return structure.reduced(keep).structure


def ensemble(*structures: Structure) -> Simulator:
    """Return a model with a member of each of these structures."""
    model, rng = made("linear first"), np.random.default_rng(4)
    members = tuple(member(s, rng) for s in structures)
    model.fitted_ = replace(model.fitted_, members=members)
    return model


WHOLE = STRUCTURES["linear first"]
# Without the integrator, which comes to rest nowhere; then without another state, too.
SETTLING = without(WHOLE, "ACF", 4)
SMALL = without(SETTLING, "ACF", 3)
LINEAR = without(SETTLING, "EG")


def test_steady_state_failed_where_members_have_different_numbers_of_states() -> None:
    model = ensemble(SMALL, SETTLING, LINEAR)
    assert [m.structure.sizes.states for m in model.fitted_.members] == [3, 4, 4]
    point = model.steady_state([1.0, 2.0], draws=4)
    assert point.states.shape == (3, 4)
    assert point.states[0, 3] == 0.0
    for k in range(3):
        alone = Simulator()
        alone.fitted_ = model.fitted_.member(k)
        own = alone.steady_state([1.0, 2.0], draws=0).states[0]
        assert point.states[k, : len(own)] == pytest.approx(own)


def test_states_of_a_steady_state_were_refused_by_linearise_for_pruned_members() -> (
    None
):
    model = ensemble(SMALL, SETTLING, LINEAR)
    point = model.steady_state([1.0, 2.0], draws=0)
    there = model.linearise(at=point, states=point, draws=0)
    here = model.linearise(at=point, draws=0)
    assert pytest.approx(here.A) == there.A
    assert there.states == pytest.approx(here.states)


def test_a_first_member_without_neurons_made_the_ensemble_a_linear_model() -> None:
    model = ensemble(LINEAR, SETTLING)
    assert not model.fitted_.is_linear
    assert "kind" in model.fitted_.described()
    assert "none: a linear model" not in model.summary()
    rows = dict(ensemble(SMALL, SETTLING).fitted_.structure_rows())
    assert rows["states"] == "3 to 4"
    assert ensemble(LINEAR, LINEAR).fitted_.is_linear


def test_relevance_failed_where_nothing_but_the_mean_is_left() -> None:
    keep = np.array([False] * WHOLE.leading + [m == "D" for m, _, _ in WHOLE.free])
    constant = np.array([j == WHOLE.sizes.inputs for _, _, j in WHOLE.free])
    keep[WHOLE.leading :] &= constant
    bare = WHOLE.reduced(keep).structure
    assert len(relevance(ensemble(bare))) == 0
    assert len(relevance(ensemble(bare, SETTLING))) > 0
