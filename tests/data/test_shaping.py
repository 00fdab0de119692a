"""Steps that shape a record, against plain formulas, and their repetition."""

import json

import numpy as np
import pandas as pd
import pytest

import sparsid
from sparsid.data.record import Record
from sparsid.data.shaping import replay
from sparsid.errors import InputError


def waves(samples: int = 400, dt: float = 0.1) -> Record:
    t = np.arange(samples) * dt
    u = np.repeat(np.random.default_rng(0).choice([-1.0, 1.0], samples // 10), 10)
    y = np.sin(2 * np.pi * 0.2 * t) + 5
    return Record(u, y, dt, input_names="valve", output_names="level")


def test_resampling_keeps_slow_waves_and_straight_lines_and_removes_fast_ones() -> None:
    t = np.arange(1000) * 0.1
    slow, line = np.sin(2 * np.pi * 0.05 * t), 3 + 0.2 * t
    fast = np.sin(2 * np.pi * 2.3 * t)
    found = Record(line, np.stack([slow, fast], 1), 0.1).resample(1.0)
    assert found.dt == 1.0
    assert len(found) == 100
    np.testing.assert_allclose(found.u[:, 0], 3 + 0.2 * found.time, rtol=1e-6)
    inside = slice(10, -10)
    expected = np.sin(2 * np.pi * 0.05 * found.time)
    np.testing.assert_allclose(found.y[inside, 0], expected[inside], atol=2e-3)
    assert np.abs(found.y[inside, 1]).max() < 2e-3
    plain = Record(line, np.stack([slow, fast], 1), 0.1).resample(1.0, smooth=False)
    np.testing.assert_allclose(plain.y[:, 1], fast[::10], atol=1e-9)


def test_resampling_is_the_weighted_mean_that_the_docstring_names() -> None:
    rng = np.random.default_rng(1)
    y = rng.normal(size=200)
    found = Record(None, y, 1.0).resample(2.5)
    at, total, weights = found.time[40], 0.0, 0.0
    for k in range(200):
        distance = (k - at) / 2.5
        if abs(distance) <= 8.0:
            window = 0.5 + 0.5 * np.cos(np.pi * distance / 8.0)
            weight = np.sinc(0.8 * distance) * window
            total, weights = total + weight * y[k], weights + weight
    assert found.y[40, 0] == pytest.approx(total / weights)


def test_resampling_to_shorter_steps_holds_what_is_held() -> None:
    record = waves()
    found = record.resample(0.05)
    np.testing.assert_array_equal(found.u[::2], record.u)
    np.testing.assert_array_equal(found.u[1::2], record.u[:-1])
    np.testing.assert_allclose(found.y[::2], record.y, atol=1e-12)
    assert "valve held, level interpolated" in found.notes[0]


def test_gaps_stay_gaps_where_they_were() -> None:
    y = np.arange(100.0)
    y[40:60] = np.nan
    record = Record(np.ones(100), y, 0.1, start=30)
    found = record.resample(0.2)
    assert found.start == 15
    missing = found.time[np.isnan(found.y[:, 0])]
    np.testing.assert_allclose(missing, np.arange(7.0, 8.9, 0.2))
    assert "missing values 20 before, 10 after" in found.notes[0]


def test_a_gap_shorter_than_the_new_step_is_bridged() -> None:
    y = np.arange(100.0)
    y[43] = np.nan
    assert Record(None, y, 0.1).resample(0.5).gaps == []


@pytest.mark.parametrize("kind", ["constant", "linear"])
def test_detrend_takes_away_what_least_squares_finds(kind: str) -> None:
    rng = np.random.default_rng(2)
    y = 4 + 0.3 * np.arange(50.0) + rng.normal(size=50)
    y[7] = np.nan
    record = Record(rng.normal(size=50), y, 0.5, start=10)
    found = record.detrend(kind)
    good = ~np.isnan(y)
    fit = np.polyfit(record.time[good], y[good], int(kind == "linear"))
    expected = y - np.polyval(fit, record.time)
    np.testing.assert_allclose(found.y[:, 0], expected, atol=1e-10)


def test_a_trend_found_in_one_record_is_taken_from_another() -> None:
    first, last = waves().split(0.25)
    shaped = first.detrend()
    other = replay(last, shaped.history)
    np.testing.assert_allclose(other.y, last.y - first.y.mean())
    with pytest.raises(InputError, match="trend has no channel 'valve', only a"):
        first.detrend(trend={"a": (0.0, 0.0)})


def test_filter_keeps_phase_and_removes_what_is_outside() -> None:
    t = np.arange(2000) * 0.01
    slow, fast = np.sin(2 * np.pi * t), np.sin(2 * np.pi * 20 * t)
    record = Record(fast, slow + fast, 0.01)
    middle = slice(300, -300)
    low = record.filter(high=5.0)
    np.testing.assert_allclose(low.y[middle, 0], slow[middle], atol=2e-3)
    high = record.filter(low=5.0)
    np.testing.assert_allclose(high.y[middle, 0], fast[middle], atol=2e-3)
    assert np.array_equal(record.filter(high=5.0, channels="y").u, record.u)


def test_filter_treats_every_measured_stretch_alone() -> None:
    y = np.random.default_rng(3).normal(size=300)
    y[100:110] = np.nan
    y[111:120] = np.nan
    found = Record(None, y, 1.0).filter(high=0.1)
    alone = Record(None, y[:100], 1.0).filter(high=0.1)
    np.testing.assert_allclose(found.y[:100], alone.y)
    assert np.array_equal(np.isnan(found.y), np.isnan(y[:, None]))
    assert found.y[110, 0] == y[110]


@pytest.mark.parametrize("samples", [3, -3])
def test_shift_aligns_a_channel(samples: int) -> None:
    u = np.random.default_rng(4).normal(size=40)
    y = np.roll(u, samples)
    found = Record(u, y, 2.0).shift("u", samples)
    np.testing.assert_array_equal(found.u, found.y)
    assert len(found) == 37
    assert found.time[0] == max(samples, 0) * 2.0


def test_slice_by_time() -> None:
    record = waves()[10:]
    found = record.slice(2.0, 3.0)
    np.testing.assert_allclose(found.time, np.arange(20, 30) * 0.1)
    assert len(record.slice(stop=2.0)) == 10
    with pytest.raises(InputError, match="From 50 to None s the record has no samples"):
        record.slice(50)


def test_merge_puts_channels_side_by_side_on_common_time() -> None:
    first = Record([1.0, 2, 3, 4], [5.0, 6, 7, 8], 0.5, input_names="a", name="one")
    other = Record([9.0, 10], [11.0, 12], 0.5, start=2, output_names="z", name="two")
    found = first.merge(other)
    np.testing.assert_array_equal(found.u, [[3, 9], [4, 10]])
    np.testing.assert_array_equal(found.y, [[7, 11], [8, 12]])
    assert found.input_names == ("a", "u")
    assert found.start == 2
    again = replay(first, found.history, {"two": other})
    np.testing.assert_array_equal(again.u, found.u)
    with pytest.raises(InputError, match="give it in others"):
        replay(first, found.history)
    with pytest.raises(InputError, match="'a' is in more than one"):
        first.merge(first)
    with pytest.raises(InputError, match="dt 1 s but record 1 has"):
        first.merge(Record([1.0], [1.0], 1.0))
    with pytest.raises(InputError, match="no time in common"):
        first.merge(Record([1.0], [1.0], 0.5, start=9, output_names="z"))


def test_outliers_become_gaps_and_steps_and_binary_signals_do_not() -> None:
    rng = np.random.default_rng(5)
    u = rng.choice([-1.0, 1.0], 500)
    y = np.repeat(rng.normal(size=50), 10) + 0.01 * rng.normal(size=500)
    y[[100, 300, 301]] = [30.0, -40.0, -41.0]
    found = Record(u, y).outliers()
    assert np.flatnonzero(np.isnan(found.y)).tolist() == [100, 300, 301]
    assert not np.isnan(found.u).any()
    assert found.notes[-1].endswith("marked missing: y 3")


def test_a_smooth_peak_is_no_outlier() -> None:
    y = np.sin(np.arange(1000) / 15) + 1e-5 * np.random.default_rng(0).normal(size=1000)
    assert Record(None, y).outliers().gaps == []


def test_steps_are_remembered_and_repeated_from_plain_values() -> None:
    record = waves()
    shaped = record.outliers().resample(0.2).detrend("linear").filter(high=1.0)
    shaped = shaped.shift("valve", 2).slice(5, 30)
    names = [step.name for step in shaped.history]
    assert names == ["outliers", "resample", "detrend", "filter", "shift", "slice"]
    assert str(shaped.history[4]) == "shift(channel='valve', samples=2)"
    plain = json.loads(json.dumps([step.plain() for step in shaped.history]))
    for steps in (shaped.history, plain, [tuple(s)[:2] for s in shaped.history]):
        again = replay(record, steps)
        np.testing.assert_array_equal(again.u, shaped.u)
        np.testing.assert_array_equal(again.y, shaped.y)
        assert again.history == shaped.history
    assert record.history == ()
    assert shaped[3:9].history == shaped.history


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda r: r.resample(-1), "dt is -1 but must be a positive"),
        (lambda r: r.resample(1e6), "the record lasts 39.9 s"),
        (lambda r: r.detrend("quadratic"), "kind is 'quadratic'"),
        (lambda r: r.filter(), "low and high are None"),
        (lambda r: r.filter(high=6), "below 5 Hz, half the sampling rate"),
        (lambda r: r.filter(2, 1), "low is 2 Hz but must be below high, 1 Hz"),
        (lambda r: r.filter(1, order=0), "order is 0"),
        (lambda r: r.shift("pump", 1), "'pump' is no channel .* valve, level"),
        (lambda r: r.shift("valve", 0.5), "samples is 0.5"),
        (lambda r: r.shift("valve", 400), "at least two have to be left"),
        (lambda r: r.slice("a"), "start is 'a'"),
        (lambda r: r.outliers(0), "threshold is 0"),
        (lambda r: r.merge("x"), "A str was given but a Record"),
        (lambda r: replay(r, ["resample"]), "missing|is no step"),
        (lambda r: replay(r, [("save", {})]), "is no step"),
    ],
)
def test_refusals_say_what_is_needed(call, message: str) -> None:
    with pytest.raises((InputError, TypeError), match=message):
        call(waves())


def test_channels_on_different_clocks_become_one_record() -> None:
    rng = np.random.default_rng(6)
    uneven = np.sort(rng.uniform(0, 100, 4000))
    slow = np.arange(3, 90, 0.5)
    found = Record.from_channels(
        {"valve": (uneven, np.sin(uneven / 5))},
        {"level": pd.Series(np.cos(slow / 5), index=slow)},
        units={"level": "m"},
        name="plant",
    )
    assert found.dt == 0.5
    assert found.time[0] == 3.0
    assert found.output_units == ("m",)
    np.testing.assert_allclose(found.y[:, 0], np.cos(found.time / 5), atol=1e-9)
    assert np.abs(found.u[:, 0] - np.sin(found.time / 5))[20:-20].max() < 0.01
    assert "the longest usual step" in found.notes[0]
    assert replay(found, found.history).history == found.history


def test_clocks_of_dates_count_from_the_first() -> None:
    begin = pd.Timestamp("2024-03-01 10:00", tz="Europe/Berlin")
    t = np.arange(0, 60, 1.0)
    fast = pd.Series(t, index=begin + pd.to_timedelta(t, unit="s"))
    slow = pd.Series(t[::5] + 2, index=begin + pd.to_timedelta(t[::5] + 2, unit="s"))
    found = Record.from_channels({"a": fast}, {"b": slow}, dt=1.0)
    np.testing.assert_allclose(found.u, found.y, atol=1e-9)
    assert found.start == 2


def test_a_long_step_of_a_clock_is_a_gap() -> None:
    t = np.concatenate([np.arange(20.0), np.arange(40.0, 60.0)])
    found = Record.from_channels(None, {"y": (t, t)}, dt=1.0)
    assert found.gaps == [(20, 40)]


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        ({}, "outputs is empty"),
        ([1.0], "outputs is a list"),
        ({"y": [1.0, 2.0, 3.0]}, "'y' is a list: give times and values"),
        ({"y": ([0, 1], [1.0])}, "times of shape"),
        ({"y": ([0, 0], [1.0, 2.0])}, "two values at the time 0 s"),
        ({"y": ([0, 1], [np.nan, np.nan])}, "'y' has no measured sample"),
        ({"y": ([0, 1], [1, 2]), "z": ([5, 6], [1, 2])}, "fewer than two samples"),
        (
            {"y": ([0, 1], [1, 2]), "z": (pd.date_range("2024", periods=2), [1, 2])},
            "z have dates as times but y have numbers",
        ),
    ],
)
def test_clocks_that_do_not_fit_are_refused(outputs, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Record.from_channels(None, outputs)


def test_a_model_keeps_and_tells_what_was_done_to_its_record(tmp_path) -> None:
    rng = np.random.default_rng(0)
    u, y = rng.normal(size=120), np.zeros(120)
    for t in range(1, 120):
        y[t] = 0.8 * y[t - 1] + u[t - 1] + 0.05 * rng.normal()
    record = Record(u, y + 7).detrend().slice(10)
    model = sparsid.Simulator("linear", states=1).fit(record)
    assert "mean taken away: u" in " ".join(model.summary().split())
    model.save(tmp_path / "m.sparsid")
    (steps,) = sparsid.load(tmp_path / "m.sparsid").fitted_.details["shaping"]
    again = replay(Record(u, y + 7), steps)
    np.testing.assert_array_equal(again.y, record.y)
