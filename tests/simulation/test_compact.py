"""One small model in place of an ensemble."""

import numpy as np
import pytest
from small_simulators import STRUCTURES, made

import sparsid
from sparsid import Record, Simulator
from sparsid.results.nearest import made_up, nearest_member
from sparsid.results.structure_counts import in_common, middle_count
from sparsid.simulation import compact
from sparsid.simulation.evidence import Run


def spring(seed: int = 0, samples: int = 200) -> Record:
    """A damped oscillation with a spring that hardens."""
    rng = np.random.default_rng(seed)
    u = np.repeat(rng.normal(size=samples // 4 + 1), 4)[:samples]
    x, v, y = 0.0, 0.0, np.zeros(samples)
    for t in range(samples):
        y[t] = x
        for _ in range(4):
            v -= 0.08 * (0.6 * v + x + x**3 - u[t])
            x += 0.08 * v
    noise = 0.01 * rng.normal(size=samples)
    return Record(u, y + noise, 0.1, input_names="push", output_names="place")


@pytest.fixture(scope="module")
def full() -> Simulator:
    return Simulator("linear first", states=2, neurons=3, workers=1).fit(spring())


@pytest.fixture(scope="module")
def small(full) -> Simulator:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compact, "DISTANCES", (0.5,))
        patch.setattr(compact, "STUDENTS", 1)
        patch.setattr(compact, "TEACHERS", 3)
        patch.setattr(compact, "ATTEMPTS", 6)
        return full.compact(spring())


def test_a_small_model_is_one_member_with_its_price(full, small) -> None:
    found = small.fitted_
    facts = found.details["compact"]
    assert len(found) == 1
    assert facts["weights"] == found.weights_kept == found.weight_counts[0]
    assert facts["weights"] <= max(full.fitted_.weight_counts)
    ratio = facts["held_out_error"] / facts["held_out_error_ensemble"]
    assert facts["ratio"] == pytest.approx(ratio)
    assert facts["ratio"] < 1.1
    assert f"{facts['weights']} of {facts['weights_full']} weights" in small.summary()
    assert "held-out free-run error" in small.summary()
    # The ensemble is as it was.
    assert "compact" not in full.fitted_.details


def test_a_small_model_runs_like_the_ensemble_on_new_inputs(full, small) -> None:
    test = spring(seed=7)
    a, b = (model.simulate(test, samples=0).mean for model in (full, small))
    apart = np.sqrt(np.nanmean((a - b) ** 2))
    assert apart < 0.2 * np.nanstd(test.y)


def test_a_small_model_is_stored_written_and_has_bands(small, tmp_path) -> None:
    small.save(tmp_path / "small.sparsid")
    again = sparsid.load(tmp_path / "small.sparsid")
    test = spring(seed=3)
    ours, theirs = small.simulate(test), again.simulate(test)
    np.testing.assert_array_equal(ours.std, theirs.std)
    assert (ours.std[ours.start :] > 0.0).all()
    assert again.summary() == small.summary()
    assert "place(t) = " in small.equations()


def test_counts_are_whole_and_by_member(full) -> None:
    fitted = full.fitted_
    facts = fitted.facts()
    assert isinstance(fitted.weights_kept, int)
    assert facts["members_weights"] == [m.structure.parameters for m in fitted.members]
    assert 0 < facts["weights_in_common"] <= min(facts["members_weights"])
    # What was removed is not in the arrays either.
    for member in fitted.members:
        assert len(member.theta) == member.structure.parameters


def test_without_records_the_nearest_member_is_taken() -> None:
    model = made("cascade", members=4)
    u = made_up(model.fitted_)
    centre = model.simulate(u, samples=0).mean
    away = [
        np.sqrt(np.mean((m.simulate(u, samples=0).mean - centre) ** 2))
        for m in (model.fitted_.member(k) for k in range(4))
    ]
    found = model.compact()
    assert found.fitted_.details["compact"]["member"] == int(np.argmin(away))
    assert found.fitted_.details["compact"]["distance"] == pytest.approx([min(away)])
    assert len(found.fitted_) == 1
    assert nearest_member(found.fitted_) is found.fitted_


def test_weights_in_common_do_not_depend_on_the_order_of_neurons() -> None:
    structure = STRUCTURES["linear first"]
    keep = np.ones(structure.parameters, dtype=bool)
    other = keep.copy()
    for k, (matrix, i, j) in enumerate(structure.free):
        neuron = i if matrix in "FH" else j if matrix in "EG" else None
        keep[structure.leading + k] = neuron != 1
        other[structure.leading + k] = neuron != 3
    one, two = (structure.reduced(mask).structure for mask in (keep, other))
    assert in_common([one, two]) == one.parameters == two.parameters
    assert in_common([structure, one]) == one.parameters
    assert middle_count([structure, one, two]) == one.parameters


def test_a_member_learns_the_ensemble_where_nothing_was_measured() -> None:
    model = made("cascade", members=3)
    u = model.fitted_.delayed(made_up(model.fitted_)[:60])
    y = model.fitted_.members[0].run(np.zeros(3), u)
    run = Run.of(u[:, :-1], y, np.arange(60) >= 30)
    teachers = [compact._member(m, [run]) for m in model.fitted_.members]
    taught = compact._taught(teachers[0], teachers, [run])
    by_hand = np.median(
        [t.structure.run(t.theta, t.starts[0], run.u)[0] for t in teachers], axis=0
    )
    np.testing.assert_array_equal(taught.runs[0].y[:30], run.y[:30])
    np.testing.assert_array_equal(taught.runs[0].y[30:], by_hand[30:])
    np.testing.assert_array_equal(taught.runs[1].u, run.u[::-1])
    assert all((r.seen == 1.0).all() for r in taught.runs)
