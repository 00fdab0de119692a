"""The options that shape data, in every command that reads them."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import sparsid
from sparsid.cli.app import app
from sparsid.cli.data import load_data
from sparsid.cli.shaping import Shape


@pytest.fixture(scope="module")
def pump(tmp_path_factory):
    rng = np.random.default_rng(0)
    u, y = np.repeat(rng.normal(size=100), 4), np.zeros(400)
    for t in range(1, 400):
        y[t] = 0.8 * y[t - 1] + 0.2 * u[t - 1] + 0.01 * rng.normal()
    y[150] = 50.0
    table = {"time": 0.1 * np.arange(400), "valve": u, "level": y + 20}
    path = tmp_path_factory.mktemp("data") / "pump.csv"
    pd.DataFrame(table).round(9).to_csv(path, index=False)
    return path


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


CHANNELS = ("--input", "valve", "--output", "level")


def test_steps_are_done_in_one_order_and_the_test_part_does_not_make_the_mean(
    pump,
) -> None:
    shape = Shape("2:", True, ["valve=1"], 0.2, "constant", None, 2.0)
    data = load_data([pump], ["valve"], ["level"], shape=shape)
    names = [step.name for step in data.estimation[0].history]
    expected = ["slice", "outliers", "shift", "resample", "detrend", "filter"]
    assert names == expected
    trend = data.estimation[0].history[4].arguments["trend"]
    record = sparsid.read(pump, "valve", "level").slice(2).outliers()
    first, _ = record.shift("valve", 1).resample(0.2).split(0.25)
    assert trend["level"] == [pytest.approx(np.nanmean(first.y)), 0.0]
    assert data.reveal_test()[0].history[4].arguments["trend"] == trend


def test_a_model_keeps_the_steps_and_repeats_them(pump, tmp_path) -> None:
    shaping = ("--outliers", "--resample", "0.2", "--detrend", "constant")
    fit = ("--structure", "linear", "--states", "1", "--no-report", "--quiet")
    done = run("identify", pump, *CHANNELS, *shaping, *fit, "--out", tmp_path / "r")
    assert done.exit_code == 0, done.output
    model = tmp_path / "r" / "model.sparsid"
    out = tmp_path / "p.csv"
    done = run("predict", model, pump, "--as-fitted", "--out", out, "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["rmse"][0] < 0.1
    refused = run("predict", model, pump, "--as-fitted", "--outliers", "--out", "x.csv")
    assert refused.exit_code == 2
    refused = run("predict", model, pump, "--out", tmp_path / "x.csv")
    assert "--resample 0.2" in refused.stderr
    assert "give --as-fitted" in refused.stderr.replace("\n", " ")


def test_models_of_shaped_data_could_not_be_compared(pump, tmp_path) -> None:
    record = sparsid.read(pump, "valve", "level").outliers()
    settings = {"structure": "linear", "states": 1}
    coarse, own = tmp_path / "coarse.sparsid", tmp_path / "own.sparsid"
    sparsid.Simulator(**settings).fit(record.resample(0.2)).save(coarse)
    sparsid.Simulator(**settings).fit(record).save(own)
    out = ("--out", tmp_path / "c.png", "--overwrite", "--json")
    refused = run("compare", pump, coarse, *out)
    assert refused.exit_code == 2
    assert "--resample 0.2" in refused.stderr
    done = run("compare", pump, coarse, "--as-fitted", *out)
    assert done.exit_code == 0, done.output
    error = json.loads(done.stdout)["models"]["coarse"]["free_run_rmse"][0]
    assert error < 0.1
    done = run("compare", pump, coarse, "--outliers", "--resample", "0.2", *out)
    found = json.loads(done.stdout)["models"]["coarse"]["free_run_rmse"][0]
    assert found == pytest.approx(error)
    refused = run("compare", pump, coarse, own, "--as-fitted", *out)
    assert "in different ways" in refused.stderr.replace("\n", " ")


def test_inspect_writes_a_page_and_tells_findings(pump, tmp_path) -> None:
    page = tmp_path / "page.html"
    done = run("inspect", pump, *CHANNELS, "--out", page, "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert {"warning"} <= {f["severity"] for f in told["findings"]}
    assert page.read_text().startswith("<!DOCTYPE html>")
    assert run("inspect", pump, *CHANNELS, "--out", page).exit_code == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--shift", "pump=3"), "--shift: 'pump' is no channel"),
        (("--shift", "valve"), "--shift 'valve': give a column and a whole number"),
        (("--slice", "10"), "--slice '10': give two times"),
        (("--slice", "900:"), "--slice: From 900.0 to None s"),
        (("--detrend", "cubic"), "--detrend: kind is 'cubic'"),
        (("--filter-high", "9"), "--filter-low, --filter-high: high is 9.0"),
    ],
)
def test_messages_speak_of_options(pump, options, message: str) -> None:
    refused = run("inspect", pump, *CHANNELS, "--no-page", *options)
    assert refused.exit_code == 2
    assert message in " ".join(refused.stderr.split())
