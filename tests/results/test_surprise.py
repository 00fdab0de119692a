"""How far a run is from what was seen, and that files keep it."""

from dataclasses import replace

import numpy as np
import pytest
from small_simulators import made

import sparsid
from sparsid import InputError, Record
from sparsid.results.forecast import BandFactors
from sparsid.results.surprise import Seen


def seen_by(model, samples: int = 300):
    """The model, told that it was estimated from a record; and inputs like those."""
    fitted, rng = model.fitted_, np.random.default_rng(5)
    scaling = fitted.scaling
    u = rng.normal(size=(samples, len(scaling.u_mean))) * scaling.u_std + scaling.u_mean
    late = fitted.delayed(u)
    members = []
    for m in fitted.members:
        states = m.structure.run(m.theta, m.start, late)[1][:-1]
        members.append(replace(m, seen=Seen.of(states, late[:, :-1])))
    model.fitted_ = replace(fitted, members=tuple(members))
    return model, u


def test_surprise_is_the_distance_of_mahalanobis() -> None:
    rng = np.random.default_rng(0)
    z = rng.normal(size=(500, 4)) @ rng.normal(size=(4, 4)) + [5.0, 0.0, -3.0, 1.0]
    seen = Seen.of(z[:, :3], z[:, 3:])
    inverse = np.linalg.inv(np.cov(z.T, bias=True))
    apart = z - z.mean(axis=0)
    distance = np.sqrt(np.einsum("ti,ij,tj->t", apart, inverse, apart))
    expected = distance / distance.max()
    np.testing.assert_allclose(seen.surprise(z[:, :3], z[:, 3:]), expected, rtol=1e-6)


def test_a_state_that_stood_still_surprises_when_it_moves() -> None:
    rng = np.random.default_rng(0)
    x, u = np.zeros((100, 1)), rng.normal(size=(100, 1))
    seen = Seen.of(x, u)
    assert seen.surprise(x, u).max() == pytest.approx(1.0)
    assert seen.surprise(x + 1.0, u).min() > 10.0
    assert np.isinf(seen.surprise(x + np.inf, u)).all()


def test_runs_over_larger_inputs_promise_no_coverage() -> None:
    model, u = seen_by(made("linear first", members=3))
    same = model.simulate(u)
    assert same.surprise is not None
    assert same.surprise.shape == (len(u),)
    assert same.surprise.max() == pytest.approx(1.0)
    assert not same.beyond.any()
    assert same.caveat == ""
    mean, std = model.fitted_.scaling.u_mean, model.fitted_.scaling.u_std
    far = model.simulate(mean + 6.0 * (u - mean))
    assert far.beyond.mean() > 0.3
    assert "no coverage is promised there" in far.caveat
    u[150, 0] += 20.0 * std[0]
    step = model.simulate(u)
    assert 0 < step.beyond.sum() < 60
    assert int(np.argmax(step.beyond)) == 150


def test_gaps_have_no_surprise() -> None:
    model, u = seen_by(made("cascade"))
    y = model.simulate(u).mean
    u[100:110] = np.nan
    names = model.fitted_.channels
    record = Record(
        u, y, 0.5, input_names=names.input_names, output_names=names.output_names
    )
    run = model.simulate(record)
    assert run.surprise is not None
    assert np.isnan(run.surprise[100:110]).all()
    assert np.isfinite(run.surprise[:100]).all()
    assert not run.beyond[100:110].any()


@pytest.mark.parametrize("name", ["linear", "cascade", "even output"])
def test_files_keep_surprise_and_bands_of_whole_runs(name, tmp_path) -> None:
    model, u = seen_by(made(name, members=2))
    outputs = model.fitted_.channels.n_outputs
    factors = BandFactors(
        (1.0,) * outputs, (1.5,) * outputs, (1.25,) * outputs, (0.125,) * outputs
    )
    model.fitted_ = model.fitted_.with_bands(factors)
    model.save(tmp_path / "model.sparsid")
    again = sparsid.load(tmp_path / "model.sparsid")
    ours, theirs = model.simulate(u), again.simulate(u)
    np.testing.assert_array_equal(ours.surprise, theirs.surprise)
    assert again.fitted_.band_factors == factors
    for a, b in zip(
        ours.band(0.9, whole_run=True), theirs.band(0.9, whole_run=True), strict=True
    ):
        np.testing.assert_array_equal(a, b)


def test_files_of_earlier_versions_know_nothing_of_it(tmp_path) -> None:
    model = made("linear", members=2)
    model.save(tmp_path / "model.sparsid")
    again = sparsid.load(tmp_path / "model.sparsid")
    run = again.simulate(np.zeros((20, 2)))
    assert run.surprise is None
    assert run.caveat == ""
    # Then samples count as independent of each other.
    narrow, wide = (run.band(0.9, whole_run=w)[1] - run.mean for w in (False, True))
    assert (wide > 1.4 * narrow).all()


def test_bands_for_whole_runs_are_for_free_runs() -> None:
    model = made("linear")
    u = np.zeros((30, 2))
    record = Record(
        u,
        model.simulate(u).mean,
        0.5,
        input_names=model.fitted_.channels.input_names,
        output_names=model.fitted_.channels.output_names,
    )
    with pytest.raises(InputError, match="whole_run=True"):
        model.predict(record).band(0.9, whole_run=True)
