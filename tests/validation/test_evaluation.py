"""Scores of finished models; free runs and predictions where samples are missing."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_systems import SMALL_STATES, tank
from typer.testing import CliRunner

import sparsid
from sparsid import NARX, Record, Simulator, StateSpace
from sparsid.cli.app import app
from sparsid.data.files import write_csv
from sparsid.data.scaling import Scaling
from sparsid.results.forecast import Forecast, first_whole, over_record, over_stretches
from sparsid.validation.baselines import Arx
from sparsid.validation.diagnosis import diagnose
from sparsid.validation.evaluation import forecast_part, scores

KINDS = {
    "narx": NARX(lags=2, hidden=(), prune=False, max_cycles=20),
    "states": StateSpace(**{**SMALL_STATES, "hidden": (2,), "max_cycles": 6}),
    "simulator": Simulator(structure="linear", states=1, workers=1),
}


def without(record: Record, *, y: Any = (), u: Any = ()) -> Record:
    """Return the record with samples that were not measured."""
    inputs, outputs = record.u.copy(), record.y.copy()
    inputs[list(u)] = np.nan
    outputs[list(y)] = np.nan
    return Record(
        inputs,
        outputs,
        record.dt,
        input_names=record.input_names,
        output_names=record.output_names,
        output_units=record.output_units,
        start=record.start,
    )


@pytest.fixture(scope="module")
def whole() -> Record:
    return tank(samples=160)


@pytest.fixture(scope="module", params=sorted(KINDS))
def model(request: Any, whole: Record) -> Any:
    return KINDS[request.param].fit(whole)


def test_a_free_run_goes_through_missing_outputs(model: Any, whole: Record) -> None:
    """Reports began anew after a gap in the outputs, the command did not."""
    gappy = without(whole, y=range(60, 75))
    run = model.simulate(gappy, samples=0)
    np.testing.assert_array_equal(run.mean, model.simulate(whole, samples=0).mean)
    assert np.isfinite(run.mean[run.start :]).all()


def test_a_free_run_begins_anew_where_inputs_were_missing_and_only_there(
    model: Any, whole: Record
) -> None:
    gappy = without(whole, u=[50], y=range(100, 110))
    run = model.simulate(gappy, samples=0).mean
    late = model.simulate(whole[51:], samples=0)
    np.testing.assert_allclose(run[51:], late.mean)
    assert np.isnan(run[50 : 51 + late.start]).all()
    ahead = model.predict(gappy).mean
    assert np.isnan(ahead[50]).all()
    assert np.isfinite(ahead[80:100]).all()


def test_an_output_gap_gave_two_errors_of_one_model(
    model: Any, whole: Record, tmp_path: Path
) -> None:
    gappy = without(whole, y=range(60, 75))
    part = forecast_part(model, "test", [gappy], [1])
    arx = Arx.fit([whole], sparsid.models.narx.Lags(1, 1, 1, 1), Scaling.of([whole]))
    found = scores(part, model, arx)
    expected = sparsid.rmse(gappy, model.simulate(gappy, samples=0)).tolist()
    assert found["model"]["free_run"] == pytest.approx(expected)
    ahead = sparsid.rmse(gappy, model.predict(gappy)).tolist()
    assert found["model"]["one_step"] == pytest.approx(ahead)
    told = diagnose(model, gappy, samples=0).scores
    assert told["free_run"]["rmse"] == pytest.approx(expected)
    assert told["one_step"]["rmse"] == pytest.approx(ahead)
    fit = np.mean(sparsid.fit_percent(gappy, model.simulate(gappy, samples=0))) / 100
    assert model.score(gappy) == pytest.approx(fit)
    model.save(tmp_path / "model.sparsid")
    columns = {"time": gappy.time, "pump": gappy.u[:, 0], "level": gappy.y[:, 0]}
    write_csv(tmp_path / "data.csv", columns, {"time": "s", "level": "m"})
    for command, errors in (("simulate", expected), ("predict", ahead)):
        where = [tmp_path / "model.sparsid", tmp_path / "data.csv"]
        out = ["--out", tmp_path / f"{command}.csv", "--json"]
        result = CliRunner().invoke(app, [command, *map(str, [*where, *out])])
        assert result.exit_code == 0, result.output
        assert json.loads(result.stdout)["rmse"] == pytest.approx(errors, rel=1e-5)


def test_baselines_run_as_models_do(whole: Record) -> None:
    arx = Arx.fit([whole], sparsid.models.narx.Lags(1, 1, 2, 2), Scaling.of([whole]))
    through = arx.simulate(without(whole, y=range(60, 75)))
    np.testing.assert_array_equal(through, arx.simulate(whole))
    anew = arx.simulate(without(whole, u=[50]))
    np.testing.assert_allclose(anew[51:], arx.simulate(whole[51:]))
    assert np.isnan(anew[50:53]).all()


def test_a_run_that_needs_outputs_begins_where_they_are(whole: Record) -> None:
    calls: list[tuple[int, int]] = []

    def forecast(part: Record) -> Forecast:
        calls.append((part.start, len(part)))
        mean = np.where(np.arange(len(part))[:, None] < 2, np.nan, part.y)
        return Forecast(mean, mean, mean, 2, None, None, ("level",), ("m",))

    gappy = without(whole, y=[0, 2, 90], u=[40])
    found = over_stretches(gappy, 2, forecast, measured=2)
    assert calls == [(3, 37), (41, 119)]
    assert found.start == 5
    calls.clear()
    over_stretches(gappy, 2, forecast)
    assert calls == [(0, 40), (41, 119)]
    assert over_record(whole[:2], 2, forecast).start == 2


@pytest.mark.parametrize(
    ("missing", "count", "first"),
    [
        ("..", 2, 0),
        (".x..", 2, 2),
        ("x", 0, 0),
        (".x.", 2, 3),
        ("", 1, 0),
        ("xx", 1, 2),
    ],
)
def test_the_first_place_with_enough_samples(missing, count, first) -> None:
    assert (
        first_whole(np.array([c == "x" for c in missing], dtype=bool), count) == first
    )
