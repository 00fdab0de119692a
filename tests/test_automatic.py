"""The automatic mode, and the linear model that it always considers."""

from itertools import pairwise

import numpy as np
import pytest
from inline import Inline

import sparsid
from sparsid import InputError, Record, automatic
from sparsid.data.pieces import excerpts
from sparsid.data.scaling import Scaling
from sparsid.datasets import systems
from sparsid.fitting.cross_validation import Errors
from sparsid.fitting.state_space import FreeRunFit
from sparsid.validation.baselines import Arx


def second_order(seed=0, samples=300, noise=0.02):
    """A linear system with noise in its equation, so that ARX is its true form."""
    rng = np.random.default_rng(seed)
    u = np.repeat(rng.normal(size=samples // 5 + 1), 5)[:samples]
    y = np.zeros(samples)
    for t in range(2, samples):
        y[t] = 1.2 * y[t - 1] - 0.5 * y[t - 2] + 0.3 * u[t - 1]
        y[t] += noise * rng.normal()
    return Record(u, y)


def test_the_lag_of_the_linear_model_by_bic() -> None:
    record = second_order()
    model = Arx.chosen([record], Scaling.of([record]))
    assert model.lags.input_lags == 2
    short = record[:20]
    assert Arx.chosen([short], Scaling.of([short])).lags.max_lag <= 5


@pytest.fixture
def few_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(automatic, "STATES", (1,))
    monkeypatch.setattr(automatic, "NEURONS", 3)
    monkeypatch.setattr(automatic, "VARIANTS", ())
    monkeypatch.setattr(automatic, "BLOCKS", 4)
    monkeypatch.setattr("sparsid.validation.calibration.TRIAL_STARTS", 1)
    # Its fits are tested with it.
    monkeypatch.setattr(automatic, "recalibrate", lambda model, records, blocks: model)


@pytest.mark.usefixtures("few_candidates")
def test_linear_data_get_the_linear_model() -> None:
    record = second_order()
    phases = []
    model = sparsid.identify(record, progress=lambda p: phases.append(p.phase))
    assert isinstance(model, sparsid.NARX)
    details = model.fitted_.details
    assert details["chosen_candidate"] == "linear ARX"
    assert [c["name"] for c in details["candidates"]] == [
        "linear ARX",
        "2 states, 3 neurons",
    ]
    assert "do not support a nonlinear model" in model.summary().replace("\n", " ")
    assert phases[0] == "trying 2 states, 3 neurons"
    test = second_order(seed=3)
    arx = Arx.chosen([record], Scaling.of([record]))
    first = max(model.max_lag_, arx.lags.max_lag)
    errors = [
        float(np.sqrt(np.mean((run[first:] - test.y[first:]) ** 2)))
        for run in (model.simulate(test, samples=0).mean, arx.simulate(test))
    ]
    assert errors[0] < 1.05 * errors[1]


def even(error: float) -> Errors:
    """The same error over each of eight blocks."""
    return Errors(np.full(8, 100.0 * error**2), np.full(8, 100.0))


def test_a_gain_in_one_block_alone_is_not_clear() -> None:
    worse = even(1.0)
    assert even(0.9).clearly_below(worse)
    assert not even(0.97).clearly_below(worse)
    lucky = Errors(worse.squares.copy(), worse.counts)
    lucky.squares[3] = 0.0
    assert lucky.rms < 0.95
    assert not lucky.clearly_below(worse)
    away = Errors(np.where(np.arange(8) == 2, np.inf, 1.0), worse.counts)
    assert worse.clearly_below(away)
    assert not away.clearly_below(worse)
    # A block without a measured sample says nothing.
    empty = Errors(np.array([90.0, 0.0]), np.array([100.0, 0.0]))
    assert empty.clearly_below(Errors(np.array([100.0, 0.0]), empty.counts))


@pytest.mark.parametrize(
    ("errors", "tried", "chosen"),
    [
        # Nothing beats the linear model by five per cent: no variants are tried.
        ({"2 states, 6 neurons": 0.99}, 3, "linear ARX"),
        # Nor is a third state worth it, nor a wider network.
        (
            {
                "2 states, 6 neurons": 0.5,
                "3 states, 6 neurons": 0.48,
                "2 states, 12 neurons": 0.48,
            },
            5,
            "2 states, 6 neurons",
        ),
        # Variants are those of the best so far, and compared with each other.
        (
            {
                "2 states, 6 neurons": 0.5,
                "3 states, 6 neurons": 0.4,
                "3 states, 12 neurons": 0.35,
                "3 states, 6 neurons, shape prior": 0.3,
            },
            5,
            "3 states, 6 neurons, shape prior",
        ),
    ],
)
def test_variants_of_the_best_are_tried_next(
    errors: dict[str, float],
    tried: int,
    chosen: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The errors are given here, by name; one without has the linear model's."""
    given = {"linear ARX": 1.0, **errors}
    shown = {}

    def fits(candidates, records, blocks, crew, report, members):
        shown.update(candidates)
        return {name: [name] for name in candidates}, {}

    def final(self, best, crew):
        shown["final"] = best.settings
        return sparsid.NARX(1, ()).fit(self.records)

    monkeypatch.setattr(
        automatic._Search, "_linear_errors", lambda self: even(given["linear ARX"])
    )
    monkeypatch.setattr(automatic._Search, "_final", final)
    monkeypatch.setattr(automatic, "held_out_fits_apart", fits)
    monkeypatch.setattr(
        automatic,
        "held_out_errors",
        lambda fits, records: even(given.get(fits[0], 1.0)),
    )
    details = sparsid.identify(second_order()).fitted_.details
    assert details["chosen_candidate"] == chosen
    assert len(details["candidates"]) == tried
    assert shown["final"].items() <= shown.get(chosen, {}).items()


@pytest.mark.usefixtures("few_candidates")
def test_a_budget_ends_the_search() -> None:
    record = second_order()
    model = sparsid.identify(record, budget=1e-3)
    assert len(model.fitted_.details["candidates"]) == 1
    with pytest.raises(InputError, match="budget=0"):
        sparsid.identify(record, budget=0)


def test_pieces_of_long_records() -> None:
    rng = np.random.default_rng(0)
    u = rng.normal(size=20_000)
    u[7_000:7_010] = np.nan
    pieces = excerpts([Record(u, u)], 5_000, 1_250)
    assert 4_000 <= sum(len(p) for p in pieces) <= 5_000
    assert max(len(p) for p in pieces) == 1_250
    starts = [p.start for p in pieces]
    # From early to late, and no sample twice.
    assert starts[0] <= 2_500
    assert starts[-1] >= 15_000
    assert all(b - a >= 1_250 for a, b in pairwise(starts))
    assert not any(np.isnan(p.u).any() for p in pieces)


def test_pieces_of_many_records_and_of_such_with_gaps() -> None:
    rng = np.random.default_rng(0)
    u = rng.normal(size=20_000)
    short = [Record(u[k : k + 200], u[k : k + 200]) for k in range(0, 6_000, 200)]
    assert [len(p) for p in excerpts(short, 1_000, 1_250)] == [200] * 5
    assert excerpts(short, 6_000, 1_250) is short
    uneven = [*short[:3], *(Record(u[:1_250], u[:1_250]) for _ in range(10)), *short]
    chosen = excerpts(uneven, 5_000, 1_250)
    assert len(chosen) * 1_250 <= 5_000
    # Only part of the outputs was measured: the pieces come from there.
    y = np.where((np.arange(20_000) >= 2_000) & (np.arange(20_000) < 7_500), u, np.nan)
    found = excerpts([Record(u, y)], 5_000, 1_250)
    assert all(np.isfinite(p.y).mean() >= 0.5 for p in found)
    y = np.where(np.arange(20_000) % 3 == 0, u, np.nan)
    sparse = [Record(u, y)]
    assert excerpts(sparse, 5_000, 1_250) is sparse
    # The input moves once only, and between two pieces.
    step = np.where(np.arange(20_000) < 9_000, 0.0, np.arange(20_000) == 9_999)
    rare = [Record(step, u)]
    assert excerpts(rare, 5_000, 1_250) is rare


def tank(samples=700):
    """A level with a root outflow."""
    rng = np.random.default_rng(0)
    u = np.repeat(rng.uniform(0.2, 1.5, samples // 12 + 1), 12)[:samples]
    x, y = 0.8, []
    for volts in u:
        y.append(x)
        x += 0.15 * (volts - np.sqrt(x))
    return Record(u, np.array(y) + 0.005 * rng.normal(size=samples))


@pytest.fixture
def inline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in this process, where programs are compiled once for all tests."""
    monkeypatch.setattr(automatic, "hire", lambda scheduler, workers: Inline())


@pytest.mark.usefixtures("few_candidates", "inline")
def test_long_records_are_learnt_from_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(automatic, "COMPARED_SAMPLES", 300)
    monkeypatch.setattr(automatic, "COMPARED_PIECE", 150)
    monkeypatch.setattr(automatic, "FITTED_SAMPLES", 300)
    monkeypatch.setattr(automatic, "FITTED_PIECE", 150)
    monkeypatch.setattr(automatic, "TRIAL_CYCLES", 20)
    monkeypatch.setattr(automatic, "most_starts", lambda params, records: 4)
    model = sparsid.identify(tank())
    assert isinstance(model, sparsid.StateSpace)
    assert model.starts == 4
    notes = " ".join(model.fitted_.details["notes"])
    assert "compared on 300 of 700 samples" in notes
    assert "fitted to 300 of 700 samples" in notes
    assert model.fitted_.details["samples"] == 300
    assert np.isfinite(model.fitted_.band_factors.free_run).all()
    monkeypatch.setattr(automatic, "most_starts", lambda params, records: 0)
    linear = sparsid.identify(tank())
    assert isinstance(linear, sparsid.NARX)
    assert "not tried, the records are too long" in linear.summary().replace("\n", " ")


@pytest.mark.usefixtures("few_candidates", "inline")
def test_what_was_tried_before_a_stop_is_not_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    record = tank(300)
    monkeypatch.setattr(automatic, "TRIAL_CYCLES", 20)
    model = sparsid.identify(record, progress=lambda p: p.phase == "free run")
    assert isinstance(model, sparsid.StateSpace)
    assert model.outcome_ is sparsid.Outcome.STOPPED
    assert (model.starts, model.max_cycles) == (4, 20)
    assert "members are the copies" in model.summary().replace("\n", " ")
    # One for each of four blocks, and each saw the others.
    assert len(model.members_) + model.members_.dropped == 4
    assert len(model.history_["cost"]) == 20
    run = model.simulate(record, samples=20)
    assert np.isfinite(run.std[run.start :]).all()
    assert sparsid.rmse(record, run)[0] < 0.2 * record.y.std()


@pytest.mark.usefixtures("few_candidates")
def test_a_candidate_that_fails_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    class Frail(Inline):
        # A group for every copy, all but the first lost.
        size = 16

        def run(self, function, tasks, report=None):
            for k, answer in super().run(function, tasks, report):
                failed = isinstance(answer[0], FreeRunFit) and answer[0].numbers[0] > 0
                yield k, ChildProcessError("it died") if failed else answer

    monkeypatch.setattr(automatic, "hire", lambda scheduler, workers: Frail())
    monkeypatch.setattr(automatic, "TRIAL_CYCLES", 12)
    model = sparsid.identify(tank(300))
    assert isinstance(model, sparsid.NARX)
    assert model.fitted_.details["notes"] == [
        "2 states, 3 neurons: left out, it died",
    ]


@pytest.mark.parametrize("name", systems.SYSTEMS)
def test_simulated_systems(name) -> None:
    one, again = (systems.simulate(name, seed=1, samples=200) for _ in range(2))
    np.testing.assert_array_equal(one.estimation.y, again.estimation.y)
    assert not np.array_equal(one.estimation.u, one.test_inputs)
    assert np.isfinite(one.estimation.y).all()
    clean = np.array(systems.SYSTEMS[name](one.estimation.u[:, 0].tolist()))
    noise = one.estimation.y[:, 0] - clean
    assert noise.std() == pytest.approx(0.01 * clean.std(), rel=0.3)


def test_an_unknown_system_is_refused() -> None:
    with pytest.raises(InputError, match="boat"):
        systems.simulate("boat")
