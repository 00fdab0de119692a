"""Forecasts and records as objects: a line, a table, a picture, a way to disk."""

import pickle
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest

import sparsid
from sparsid import Forecast, Record, Simulator
from sparsid.errors import InputError


def recording(seed: int, samples: int = 120) -> Record:
    rng = np.random.default_rng(seed)
    u, y = rng.normal(size=samples), np.zeros(samples)
    for t in range(1, samples):
        y[t] = 0.8 * y[t - 1] + u[t - 1]
    y += 3.0 + 0.05 * rng.normal(size=samples)
    return Record(
        u, y, 0.5, output_names="level <1>", output_units="V", start=40, name="a"
    )


@pytest.fixture(scope="module")
def model() -> Simulator:
    return Simulator("linear", states=1).fit(recording(0))


@pytest.fixture(scope="module")
def run(model: Simulator) -> Forecast:
    return model.simulate(recording(1))


def test_a_forecast_prints_a_line(model: Simulator, run: Forecast) -> None:
    text = repr(run)
    assert text.startswith("Forecast(free run, 120 samples, forecast from 10 on")
    assert "level <1> " in text
    assert " V ± 0." in text
    assert "\n" not in text
    assert "one step ahead" in repr(model.predict(recording(1)))
    assert "5 steps ahead" in repr(model.predict(recording(1), horizon=5))
    lost = Forecast(run.mean, run.std, run.std, 0, None, 7, ("y",), ("",))
    assert "diverged at sample 7" in repr(lost)
    nowhere = np.full((3, 1), np.nan)
    empty = Forecast(nowhere, nowhere, nowhere, 0, None, 0, ("y",), ("",))
    assert "y nowhere known" in repr(empty)


def test_a_forecast_has_a_table(run: Forecast) -> None:
    record = recording(1)
    table = run.to_frame(record)
    assert list(table.columns) == [
        "time",
        "level <1> measured",
        "level <1>",
        "level <1> std",
        "level <1> lower",
        "level <1> upper",
    ]
    np.testing.assert_array_equal(table["time"], record.time)
    np.testing.assert_array_equal(table.index, record.to_frames()[1].index)
    np.testing.assert_array_equal(table["level <1>"], run.mean[:, 0])
    low, high = run.band()
    np.testing.assert_array_equal(table["level <1> lower"], low[:, 0])
    np.testing.assert_array_equal(table["level <1> upper"], high[:, 0])
    alone = run.to_frame()
    np.testing.assert_array_equal(alone["time"], 0.5 * np.arange(120))
    assert "level <1> measured" not in alone
    with pytest.raises(InputError, match="give the record that it is for"):
        run.to_frame(record[:50])


def test_forecasts_and_records_draw_themselves(run: Forecast) -> None:
    record = recording(1)
    alone, beside = run.plot(), run.plot(record)
    assert alone.get_title(loc="left") == "free run"
    assert "RMSE" in beside.get_title(loc="left")
    with pytest.raises(InputError, match="choose from 0 to 0"):
        run.plot(channel=1)
    upper, lower = record.plot().axes
    assert upper.get_ylabel() == "level <1> [V]"
    assert lower.get_ylabel() == "u"
    for shown in (run, record):
        html = shown._repr_html_()
        assert "level &lt;1&gt;" in html
        assert 'src="data:image/png;base64,' in html


def test_a_spike_vanished_where_a_picture_was_thinned() -> None:
    y = np.zeros(100_000)
    y[54_321], y[77_777], y[88_888] = 5.0, -3.0, np.nan
    time, values = sparsid.plots.thinned(np.arange(100_000.0), y, 1000)
    assert len(values) <= 1500
    assert (np.nanmin(values), np.nanmax(values)) == (-3.0, 5.0)
    assert np.isnan(values).sum() == 1
    assert (np.diff(time) > 0).all()
    short = np.arange(10.0)
    np.testing.assert_array_equal(sparsid.plots.thinned(short, short)[1], short)


def test_several_records_are_simulated_and_predicted(model: Simulator) -> None:
    records = [recording(1), recording(2, 80)]
    for what in (model.simulate, model.predict):
        found: Any = what(records)
        assert [len(f) for f in found] == [120, 80]
        np.testing.assert_array_equal(found[1].mean, what(records[1]).mean)


def test_leading_nan_made_an_infinite_error(model: Simulator) -> None:
    record = recording(1)
    run = model.simulate(record)
    expected = sparsid.rmse(record, run)
    np.testing.assert_allclose(sparsid.rmse(record.y, run.mean), expected)
    np.testing.assert_allclose(sparsid.rmse(record.y, np.asarray(run)), expected)
    np.testing.assert_allclose(
        sparsid.rmse(record, run.to_frame()[["level <1>"]]), expected
    )
    # Nowhere a value is no start: the run diverged at once.
    assert sparsid.rmse([1.0, 2.0], [np.nan, np.nan])[0] == np.inf


def test_the_way_through_pickle_and_joblib(
    model: Simulator, run: Forecast, tmp_path: Path
) -> None:
    record = recording(1)
    joblib.dump(model, tmp_path / "model.joblib")
    for again in (
        pickle.loads(pickle.dumps(model)),
        joblib.load(tmp_path / "model.joblib"),
    ):
        np.testing.assert_array_equal(again.simulate(record).mean, run.mean)
        np.testing.assert_array_equal(again.simulate(record).std, run.std)
        assert again.summary() == model.summary()
    for thing in (run, record):
        again = pickle.loads(pickle.dumps(thing))
        assert repr(again) == repr(thing)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(record)).u, record.u)
