"""The automatic mode, and the linear model that it always considers."""

from itertools import pairwise

import numpy as np
import pytest

import sparsid
from sparsid import InputError, Record, automatic
from sparsid.baselines import Arx
from sparsid.datasets import systems
from sparsid.scaling import Scaling
from sparsid.stretches import excerpts


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


@pytest.fixture(scope="module")
def few_candidates():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(automatic, "CANDIDATES", ((1, 3),))
        patch.setattr(automatic, "BLOCKS", 4)
        patch.setattr(automatic, "TRIAL_STARTS", 1)
        # Its fits are tested with it.
        patch.setattr(automatic, "recalibrate", lambda model, records, blocks: model)
        yield


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


@pytest.mark.usefixtures("few_candidates")
def test_a_budget_ends_the_search() -> None:
    record = second_order()
    model = sparsid.identify(record, budget=1e-3)
    assert len(model.fitted_.details["candidates"]) == 1
    with pytest.raises(InputError, match="budget=0"):
        sparsid.identify(record, budget=0)


def test_candidates_are_compared_on_pieces_of_long_records() -> None:
    rng = np.random.default_rng(0)
    u = rng.normal(size=20_000)
    u[7_000:7_010] = np.nan
    long = Record(u, u, start=0)
    pieces = excerpts([long], 5_000, 1_250)
    # One of them ends at the gap.
    assert sorted(len(p) for p in pieces) == [750, 1_250, 1_250, 1_250]
    starts = [p.start for p in pieces]
    # From the first to the last, and none twice.
    assert starts[0] == 0
    assert starts[-1] >= 17_500
    assert all(b - a >= 1_250 for a, b in pairwise(starts))
    assert not any(np.isnan(p.u).any() for p in pieces)
    short = [Record(u[k : k + 200], u[k : k + 200]) for k in range(0, 6_000, 200)]
    few = excerpts(short, 1_000, 1_250)
    assert [len(p) for p in few] == [200] * 5
    assert excerpts(short, 6_000, 1_250) is short


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
