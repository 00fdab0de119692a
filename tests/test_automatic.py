"""The automatic mode, and the linear model that it always considers."""

from itertools import pairwise

import numpy as np
import pytest

from sparsid import InputError, Record
from sparsid.data.pieces import excerpts
from sparsid.data.scaling import Scaling
from sparsid.datasets import systems
from sparsid.fitting.cross_validation import Errors
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
