"""Bands: coverage, scores against plain formulas, and factors from held-out blocks."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

import sparsid
from sparsid.data.pieces import held_out, stretches_of
from sparsid.data.record import Record
from sparsid.datasets import simulated_tanks
from sparsid.errors import InputError
from sparsid.estimators.recalibration import recalibrate
from sparsid.results.forecast import BandFactors, Forecast
from sparsid.validation.calibration import (
    band_factor,
    calibration,
    factors_of,
)


def pair(
    factor: float = 1.0, samples: int = 4000, outputs: int = 1
) -> tuple[Record, Forecast]:
    """A record and a forecast whose deviations are off by a factor."""
    rng = np.random.default_rng(3)
    mean = rng.normal(size=(samples, outputs))
    std = rng.uniform(0.5, 2.0, size=(samples, outputs))
    y = mean + std * rng.normal(size=mean.shape)
    told = std / factor
    names = tuple(f"y{k}" for k in range(outputs))
    forecast = Forecast(mean, told, 0.6 * told, 0, None, None, names, ("V",) * outputs)
    return Record(np.zeros(samples), y, output_names=names), forecast


def test_right_bands_cover_what_they_promise() -> None:
    found = calibration(*pair())
    assert found.coverage[:, 0] == pytest.approx(found.levels, abs=0.02)
    assert found.factor == pytest.approx(1.0, abs=0.03)
    assert found.verdict().endswith("right")
    histogram = np.histogram(found.pit[0], 10, (0, 1))[0] / 400
    assert histogram == pytest.approx(1.0, abs=0.15)


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_wrong_bands_are_told_by_how_much(factor: float) -> None:
    found = calibration(*pair(factor))
    assert found.factor == pytest.approx(factor, rel=0.03)
    words = "too narrow" if factor > 1 else "too wide"
    assert words in found.verdict()
    assert f"{found.factor[0]:.2f} times" in found.verdict()


def test_scores_match_their_definitions() -> None:
    record, forecast = pair(1.3, samples=5)
    found = calibration(record, forecast)
    crps, density = [], []
    for y, m, s in zip(
        record.y[:, 0], forecast.mean[:, 0], forecast.std[:, 0], strict=True
    ):
        low = quad(lambda x, m=m, s=s: norm.cdf(x, m, s) ** 2, m - 12 * s, y)[0]
        high = quad(lambda x, m=m, s=s: norm.sf(x, m, s) ** 2, y, m + 12 * s)[0]
        crps.append(low + high)
        density.append(-norm.logpdf(y, m, s))
    assert found.crps[0] == pytest.approx(np.mean(crps), rel=1e-6)
    assert found.nll[0] == pytest.approx(np.mean(density))


def test_parts_of_a_band_add_up_and_a_band_has_its_width() -> None:
    _, forecast = pair()
    total = forecast.model_std**2 + forecast.noise_std**2
    assert total == pytest.approx(forecast.std**2)
    low, high = forecast.band(0.9)
    assert (high - low) / forecast.std == pytest.approx(2 * norm.ppf(0.95))
    with pytest.raises(InputError, match="between 0 and 1"):
        forecast.band(90)


def test_samples_without_measurement_or_band_are_left_out() -> None:
    record, forecast = pair(outputs=2)
    y = record.y.copy()
    y[:1000, 0] = np.nan
    gappy = Record(record.u, y, output_names=record.output_names)
    found = calibration(gappy, forecast)
    assert [len(p) for p in found.pit] == [3000, 4000]
    blind = replace(forecast, std=np.full_like(forecast.std, np.nan))
    with pytest.raises(InputError, match="samples=100"):
        calibration(record, blind)
    with pytest.raises(InputError, match="one forecast for each record"):
        calibration([record, record], [forecast])


class Copy:
    """A model that says 1 of everything, with a band of its own."""

    def __init__(self, std: float) -> None:
        self.std = std
        self.seen: list[tuple[int, int]] = []

    def __len__(self) -> int:
        return 1

    def with_bands(self, factors: BandFactors) -> "Copy":
        return self

    def predict(self, record: Record) -> Forecast:
        self.seen.append((record.start, len(record)))
        ones = np.ones_like(record.y)
        return Forecast(ones, self.std * ones, 0 * ones, 0, 1, None, ("level",), ("V",))

    simulate = predict


def test_factors_come_from_the_block_a_copy_did_not_see() -> None:
    rng = np.random.default_rng(0)
    y = 1.0 + 0.2 * rng.normal(size=4000)
    # The errors of the second half are five times as large.
    y[2000:] += 0.8 * rng.normal(size=2000)
    record = Record(rng.normal(size=4000), y, output_names="level")
    copies = [Copy(0.2), Copy(0.8246)]
    factors = factors_of(copies, [record], 0)
    assert factors.one_step == pytest.approx((1.0,), rel=0.05)
    assert factors.free_run == factors.one_step
    masks = held_out(stretches_of([record]), 2, 0)
    assert masks[0][0][:2000].all()
    assert not masks[0][0][2000:].any()


class Member:
    """One of some runs, with noise of unit variance about each."""

    def __init__(self, runs: np.ndarray) -> None:
        self.runs = runs

    def __len__(self) -> int:
        return len(self.runs)

    def with_bands(self, factors: BandFactors) -> "Member":
        return self

    def predict(self, record: Record, **_: int) -> Forecast:
        mean, std = self.runs.mean(0), np.sqrt(1.0 + self.runs.var(0))
        return Forecast(mean, std, 0 * std, 0, 1, None, ("level",), ("V",))

    simulate = predict


class Members(Member):
    """All of them."""

    def member(self, k: int) -> Member:
        return Member(self.runs[k : k + 1])


@pytest.mark.parametrize("shared", [0.0, 0.5, 2.0])
def test_errors_of_pairs_tell_the_bands_of_larger_ensembles(shared: float) -> None:
    rng = np.random.default_rng(1)
    blocks, length = 400, 25
    # Over each of many blocks every member is off by an amount of its own.
    common = shared * rng.normal(size=(1, blocks, length))
    runs = common + rng.normal(size=(16, blocks, 1)) * np.ones(length)
    runs = runs.reshape(16, -1, 1)
    record = Record(rng.normal(size=runs.shape[1]), rng.normal(size=runs.shape[1:]))

    def factor(few: int, members: int) -> float:
        copies = [Members(runs[:few])] * 2
        return factors_of(copies, [record], 0, members).free_run[0]

    right = factor(16, 16)
    assert factor(2, 16) == pytest.approx(right, rel=0.1)
    assert factor(2, 2) > 1.1 * right
    # A model that has lost more members than its copies have errs more than they do.
    assert factor(16, 2) == pytest.approx(factor(2, 2), rel=0.1)


def test_samples_without_a_deviation_do_not_count() -> None:
    rng = np.random.default_rng(0)
    error, std, none = rng.normal(size=2000), np.ones(2000), np.zeros(2000)
    std[0] = 0.0
    error[1] = np.nan
    found = band_factor([np.stack([error, std, none, none])])
    assert found == pytest.approx(1.0, abs=0.05)
    assert np.isfinite(band_factor([np.stack([none, np.ones(2000), std, none])]))
    assert band_factor([np.stack([error, std, none, none])[:, :10]]) == 1.0
    assert band_factor([]) == 1.0


def test_members_far_apart_in_one_block_leave_the_others_alone() -> None:
    rng = np.random.default_rng(0)
    ones, none = np.ones(500), np.zeros(500)
    quiet = [np.stack([rng.normal(size=500), ones, none, none]) for _ in range(9)]
    apart = np.stack([10.0 * rng.normal(size=500), ones, 90.0 * ones, 10.0 * ones])
    alone, together = band_factor(quiet), band_factor([*quiet, apart])
    assert together == pytest.approx(alone, rel=0.1)
    assert band_factor([np.concatenate([*quiet, apart], axis=1)]) < 0.5 * alone


@pytest.fixture(scope="module")
def model() -> sparsid.NARX:
    record = simulated_tanks.simulate(samples=200).benchmark.estimation
    return sparsid.NARX(2, ()).fit(record)


@pytest.mark.slow
def test_recalibration_changes_the_bands_and_nothing_else(
    model: sparsid.NARX, tmp_path
) -> None:
    record = simulated_tanks.simulate(samples=200).benchmark.estimation
    before = model.predict(record)
    weights = model.fitted_.params
    recalibrate(model, record, blocks=2)
    factors = model.fitted_.band_factors
    assert model.fitted_.params is weights
    after = model.predict(record)
    assert np.array_equal(after.mean, before.mean, equal_nan=True)
    known = np.isfinite(before.std)
    ratio = after.std[known] / before.std[known]
    assert ratio == pytest.approx(factors.one_step[0])
    assert factors.one_step[0] != 1.0
    model.save(tmp_path / "m.sparsid")
    assert sparsid.load(tmp_path / "m.sparsid").fitted_.band_factors == factors
    kept = model.fitted_.band_factors
    recalibrate(model, record, blocks=2, progress=lambda step: True)
    assert model.fitted_.band_factors == kept


def test_sampled_bands_of_a_linear_model_are_the_linearised_ones() -> None:
    record = simulated_tanks.simulate(samples=200).benchmark.estimation
    model = sparsid.NARX(2, ()).fit(record[:40])
    exact = model.predict(record)
    drawn = model.predict(record, sampled=True, samples=2000)
    known = np.isfinite(exact.std)
    assert np.median(drawn.std[known] / exact.std[known]) == pytest.approx(1, abs=0.05)
    assert (drawn.model_std[known] <= drawn.std[known]).all()
    parts = drawn.model_std[known] / exact.model_std[known]
    assert np.median(parts) == pytest.approx(1, abs=0.05)


def test_factors_tell_predictions_from_free_runs() -> None:
    factors = BandFactors((1.0, 2.0), (3.0, 4.0))
    assert factors.at(5).tolist() == [1.0, 2.0]
    assert factors.at(None).tolist() == [3.0, 4.0]
