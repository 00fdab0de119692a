"""Whole identifications on small systems whose truth is known."""

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_systems import SAMPLES, sparse_system
from small_systems import SMALL_NETWORK as SMALL

import sparsid
from sparsid.bayes.cost import evaluate
from sparsid.bayes.curvature.choice import estimate
from sparsid.bayes.objective import Regression
from sparsid.bayes.variance_rules import SparseBayes
from sparsid.data.record import Record
from sparsid.estimators import NARX
from sparsid.fitting import pruning
from sparsid.fitting.descent import Descent
from sparsid.fitting.narx import choose_start
from sparsid.fitting.narx_one_step import OneStepFit, fit_one_step
from sparsid.fitting.settings import METHODS, Settings
from sparsid.models.network import Network
from sparsid.parallel import local
from sparsid.results.outcome import Outcome


@pytest.fixture(scope="module")
def model() -> NARX:
    return NARX(**SMALL).fit(sparse_system(0))


def test_known_sparse_system_is_recovered_in_ten_of_ten() -> None:
    """True regressors always; in at least six of ten cases no others."""
    exact = 0
    for seed in range(10):
        model = NARX(**SMALL).fit(sparse_system(seed))
        kept = set(model.regressors_)
        assert {"u(t-2)", "y(t-1)"} <= kept
        assert len(kept) <= 3
        exact += len(kept) == 2
        assert model.outcome_ is Outcome.CONVERGED
        assert model.noise_std_[0] == pytest.approx(0.05, rel=0.2)
        assert model.kept_ <= 0.5
    assert exact >= 6


def test_pure_noise_is_called_that() -> None:
    """At least three of five times, and never more than one regressor is kept.

    A regressor that happens to correlate with the noise can raise the evidence.
    """
    said = 0
    for seed in range(5):
        rng = np.random.default_rng(seed)
        record = Record(rng.normal(size=SAMPLES), rng.normal(size=SAMPLES))
        model = NARX(**SMALL).fit(record)
        assert len(model.regressors_) <= 1
        assert model.noise_std_[0] == pytest.approx(record.y[2:].std(), rel=0.05)
        if model.outcome_ is not Outcome.PRUNED:
            continue
        said += 1
        assert "check that inputs and outputs belong together" in str(model.outcome_)
        assert model.kept_ == 0
        assert model.regressors_ == ()
        forecast = model.predict(record)
        assert np.ptp(forecast.mean[forecast.start :]) < 1e-9
    assert said >= 3


def test_pure_noise_with_a_prior_on_every_weight_ends_well() -> None:
    """Seed 4 once ended in a TypeError: equal scores could not be ordered."""
    rng = np.random.default_rng(4)
    record = Record(rng.normal(size=SAMPLES), rng.normal(size=SAMPLES))
    model = NARX(**SMALL, prior="shape").fit(record)
    assert model.kept_ <= 0.1


@pytest.mark.parametrize("method", METHODS)
def test_every_method_converges(method) -> None:
    model = NARX(**SMALL, method=method, max_cycles=2000).fit(sparse_system(0))
    assert model.outcome_ is Outcome.CONVERGED
    noise = model.noise_std_[0]
    assert 0.03 < noise < 0.06
    assert np.isnan(model.log_evidence_) == (method != "sparse-bayes")
    fit = model.score(sparse_system(1))
    assert fit > 0.7
    if method in ("none", "ridge"):
        assert model.kept_ == 1


@pytest.mark.parametrize("curvature", ["layer-gauss-newton", "layer-hessian"])
def test_every_curvature_runs(curvature) -> None:
    model = NARX(**SMALL, curvature=curvature, prune=False).fit(sparse_system(0))
    assert model.outcome_ is Outcome.CONVERGED
    assert model.noise_std_[0] == pytest.approx(0.05, rel=0.3)


@pytest.mark.parametrize("prior", ["shape", "row", "column", "added", ["row", "shape"]])
def test_every_prior_runs(prior) -> None:
    model = NARX(**SMALL, prior=prior, prune=False).fit(sparse_system(0))
    assert model.outcome_ is Outcome.CONVERGED
    assert model.noise_std_[0] == pytest.approx(0.05, rel=0.3)


def test_the_forms_walk_the_same_path() -> None:
    """Same cost cycle by cycle, up to rounding."""
    costs = [
        NARX(**SMALL, form=form, prune=False, max_cycles=8)
        .fit(sparse_system(0))
        .history_["cost"]
        for form in ("primal", "dual", "gram", "blockwise")
    ]
    for other in costs[1:]:
        np.testing.assert_allclose(other, costs[0], rtol=1e-6)


def test_what_does_not_fit_in_memory_is_approximated_and_said(caplog) -> None:
    model = NARX(lags=2, hidden=(60,), prune=False, memory_limit=1e-3, max_cycles=60)
    model.fit(sparse_system(0))
    (note,) = model.fitted_.details["notes"]
    assert "did not fit in 0.001 GB (memory_limit): 'kronecker'" in note
    assert "the log evidence is approximate" in note
    assert note in caplog.text
    assert 0.02 < model.noise_std_[0] < 0.1
    assert model.score(sparse_system(1)) > 0.7


@pytest.mark.usefixtures("x64")
def test_costs_of_two_curvatures_are_not_compared(monkeypatch) -> None:
    """Removals are judged by the curvature before; then the exact one is taken."""
    record = sparse_system(0)
    rows = Regression(
        np.column_stack([record.u[:-1, 0], record.y[:-1, 0]]), record.y[1:]
    )
    wide = Network((2, 12, 1))
    kinds = ("row+column",) * 2
    # Just enough for the approximation.
    limit = 1.02 * estimate("kronecker", wide.shapes, len(rows.y))[1]
    settings = Settings(SparseBayes(), kinds, memory_limit=limit)
    run = OneStepFit(wide, rows, settings, key=jax.random.key(0))
    run._cycles("settle", 6, steps=2)
    assert run.descent.problem.curvature.name == "kronecker"
    compared = []
    costs = Descent.cost.fget
    monkeypatch.setattr(
        Descent,
        "cost",
        property(lambda d: compared.append(d.problem.curvature.name) or costs(d)),
    )
    network, state = run._here()
    weakest = pruning.candidates(network, state, rows)[:11]
    monkeypatch.setattr(run, "_record", lambda phase: None)
    assert run._refitted(pruning.remove(network, state, rows, weakest))
    assert set(compared) == {"kronecker"}
    assert run.descent.problem.curvature.name == "gauss-newton"
    found = run._finish(Outcome.CYCLES)
    assert found.curvature == "gauss-newton"
    assert found.approximated == ("kronecker",)


@pytest.mark.usefixtures("x64")
def test_a_start_of_approximate_curvature_is_not_compared_with_others() -> None:
    settings = Settings(SparseBayes(), ("row+column",))
    start = fit_one_step(
        Network((1, 1)),
        Regression(np.linspace(-1, 1, 20)[:, None], np.linspace(-1, 1, 20)[:, None]),
        settings,
        key=jax.random.key(0),
    )
    better = start._replace(log_evidence=start.log_evidence + 1.0)
    approximate = start._replace(
        log_evidence=start.log_evidence + 9.0, curvature="kronecker"
    )
    diverged = start._replace(log_evidence=float("nan"))
    assert choose_start([approximate, start, better], settings) == 2
    assert choose_start([diverged, approximate], settings) == 1


@pytest.mark.parametrize("curvature", ["kronecker", "diagonal"])
def test_approximations_learn_more_weights_than_samples(curvature) -> None:
    record = sparse_system(0)
    wide = NARX(lags=2, hidden=(60,), curvature=curvature, prune=False, max_cycles=60)
    model = wide.fit(record)
    assert model.fitted_.weights_total > SAMPLES
    assert 0.02 < model.noise_std_[0] < 0.1
    assert model.score(sparse_system(1)) > 0.7


@pytest.mark.usefixtures("x64")
def test_very_many_rows_are_settled_on_some_and_judged_on_all() -> None:
    record, key = sparse_system(0), jax.random.key(0)
    rows = Regression(
        np.column_stack([record.u[:-1, 0], record.y[:-1, 0]]), record.y[1:]
    )
    network, kinds = Network((2, 4, 1)), ("row+column",) * 2
    few = Settings(SparseBayes(), kinds, settling_rows=50, warm_up_rows=40)

    def identified(settings, stop=None):
        def progress(progress):
            return stop is not None and progress.phase == stop

        return fit_one_step(network, rows, settings, key=key, progress=progress)

    found = identified(few)
    used = found.history["rows"]
    assert set(used) == {40, 50, len(rows.y)}
    assert used[-1] == len(rows.y)
    everything = identified(Settings(SparseBayes(), kinds))
    assert found.log_evidence == pytest.approx(everything.log_evidence, abs=3.0)
    stopped = identified(few, stop="settle")
    assert stopped.outcome is Outcome.STOPPED
    assert np.isfinite(stopped.log_evidence)


def test_a_stop_folds_nothing_that_is_not_to_be_pruned() -> None:
    ridge = NARX(**SMALL, method="ridge", max_cycles=2000)
    ridge.fit(sparse_system(0), progress=lambda p: p.cycle == 3)
    assert ridge.outcome_ is Outcome.STOPPED
    assert ridge.kept_ == 1


def test_max_cycles_bounds_the_fit() -> None:
    model = NARX(**SMALL, max_cycles=10).fit(sparse_system(0))
    assert len(model.history_["cost"]) <= 10
    assert model.outcome_ is Outcome.CYCLES
    assert "raise max_cycles" in str(model.outcome_)


# -- repeatability -----------------------------------------------------------------


def same(a: NARX, b: NARX) -> bool:
    pairs = zip(a.fitted_.params, b.fitted_.params, strict=True)
    return all(v.shape == w.shape and np.array_equal(v, w) for v, w in pairs)


def test_same_seed_gives_identical_results(model) -> None:
    again = NARX(**SMALL).fit(sparse_system(0))
    assert same(model, again)
    assert again.log_evidence_ == model.log_evidence_
    for name in set(model.history_) - {"seconds"}:
        np.testing.assert_array_equal(again.history_[name], model.history_[name])
    other = NARX(**SMALL, seed=1).fit(sparse_system(0))
    assert not same(model, other)


def test_starts_are_chosen_by_evidence_whatever_the_workers(model) -> None:
    one = NARX(**SMALL, starts=3, workers=1).fit(sparse_system(0))
    two = NARX(**SMALL, starts=3, workers=2).fit(sparse_system(0))
    assert same(one, two)
    for fit in (one, two):
        details = fit.fitted_.details
        evidences = [start["log_evidence"] for start in details["starts"]]
        assert len(evidences) == 3
        assert details["chosen_start"] == int(np.argmax(evidences))
        assert fit.log_evidence_ == max(evidences)
    first = one.fitted_.details["starts"][0]["log_evidence"]
    assert first == two.fitted_.details["starts"][0]["log_evidence"]
    assert first == model.log_evidence_


# -- stopping ----------------------------------------------------------------------


def test_a_stop_through_progress_leaves_a_usable_model() -> None:
    seen = []

    def stop_at_five(progress):
        seen.append(progress)
        return progress.cycle == 5

    record = sparse_system(0)
    model = NARX(**SMALL).fit(record, progress=stop_at_five)
    assert model.outcome_ is Outcome.STOPPED
    assert "best model so far" in str(model.outcome_)
    assert len(seen) == len(model.history_["cost"]) == 5
    assert [p.cycle for p in seen] == [1, 2, 3, 4, 5]
    assert all(np.isfinite(p.cost) and 0 < p.kept <= 1 for p in seen)
    forecast = model.predict(record)
    assert np.isfinite(forecast.mean[forecast.start :]).all()
    assert np.isfinite(forecast.std[forecast.start :]).all()


def test_a_stop_ends_all_starts() -> None:
    model = NARX(**SMALL, starts=3, workers=1).fit(
        sparse_system(0), progress=lambda progress: True
    )
    assert model.outcome_ is Outcome.STOPPED
    assert len(model.fitted_.details["starts"]) == 1


# -- compilation -------------------------------------------------------------------


@pytest.mark.usefixtures("x64")
def test_nothing_is_recompiled_at_constant_size() -> None:
    rng = np.random.default_rng(0)
    z = rng.normal(size=(50, 3))
    data = Regression(jnp.asarray(z), jnp.asarray(np.tanh(z[:, :1])))
    settings = Settings(SparseBayes(), ("row+column",) * 2, prune=False, max_cycles=60)
    sizes = []
    fit_one_step(
        Network((3, 5, 1)),
        data,
        settings,
        key=jax.random.key(0),
        progress=lambda p: sizes.append(evaluate._cache_size()),
    )
    assert len(sizes) > 40
    assert sizes[0] == sizes[-1]
    # Other numbers, other start: the same program.
    other = Regression(data.z + 1.0, data.y * 0.5)
    fit_one_step(Network((3, 5, 1)), other, settings, key=jax.random.key(1))
    assert evaluate._cache_size() == sizes[-1]


@pytest.mark.usefixtures("x64")
def test_compilation_follows_structure_changes_only() -> None:
    rng = np.random.default_rng(1)
    z = rng.normal(size=(50, 3))
    y = np.tanh(z[:, :1]) + 0.1 * rng.normal(size=(50, 1))
    data = Regression(jnp.asarray(z), jnp.asarray(y))
    settings = Settings(SparseBayes(), ("row+column",) * 2)
    sizes = []
    found = fit_one_step(
        Network((3, 5, 1)),
        data,
        settings,
        key=jax.random.key(0),
        progress=lambda p: sizes.append(evaluate._cache_size()),
    )
    grown = np.diff(sizes) > 0
    changed = np.diff(found.history["structure"]) > 0
    assert not (grown & ~changed).any()
    assert grown.sum() <= 4


def test_an_error_in_one_start_ends_the_others() -> None:
    """An interrupt once waited for all starts to finish."""
    reports = []

    def fail(progress) -> bool:
        reports.append(progress)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        NARX(**SMALL, starts=4, workers=2).fit(sparse_system(0), progress=fail)
    assert len(reports) <= 4


def test_a_start_whose_process_always_dies_is_lost_alone(monkeypatch, caplog) -> None:
    killed = []

    class Mortal(local.Worker):
        def answer(self, order, tell):
            if pickle.loads(order)[1][-1] == 0:
                killed.append(self)
                self.process.kill()
            return super().answer(order, tell)

    monkeypatch.setattr(local, "Worker", Mortal)
    model = NARX(**SMALL, starts=2, workers=2).fit(sparse_system(0))
    assert len(killed) == 3
    assert len(model.fitted_.details["starts"]) == 1
    assert "1 of 2 starts were lost" in caplog.text


def test_a_stop_at_full_width_keeps_a_usable_model() -> None:
    """Stopped while on part of the rows, which is where wide networks start."""
    u = np.random.default_rng(0).normal(size=600)
    y = np.convolve(u, [0.0, 0.5, 0.3])[:600]
    record = Record(u, y + 0.01 * np.random.default_rng(1).normal(size=600))
    model = NARX(2, (20,), max_cycles=50)
    model.fit(record, progress=lambda progress: progress.cycle >= 6)
    assert model.outcome_ is Outcome.STOPPED
    assert sparsid.rmse(record, model.predict(record))[0] < 0.3
