"""The command line: what it writes, says, refuses, and how it stops."""

import inspect
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

import sparsid
from sparsid import datasets, errors
from sparsid.cli import app as commands
from sparsid.cli.app import app
from sparsid.cli.data import load_data
from sparsid.cli.results import FILES, PICTURES, ResultFolder, write_predictions
from sparsid.cli.signals import Interrupt, repeating
from sparsid.data.files import write_csv
from sparsid.data.record import Record
from sparsid.data.scaling import Scaling
from sparsid.datasets import Benchmark, simulated_tanks
from sparsid.errors import InputError
from sparsid.estimators import NARX
from sparsid.estimators.watching import FitProgress, TimeLeft
from sparsid.models.narx import Lags
from sparsid.progress import Progress
from sparsid.results.forecast import Forecast
from sparsid.validation.baselines import Arx, persistence
from sparsid.validation.evaluation import Part, poor_runs

SMALL = ["--lags", "2", "--hidden", "6", "--max-cycles", "45", "--no-report"]
LEFT = sorted([*FILES, PICTURES])
COMMAND = [sys.executable, "-m", "sparsid.cli"]


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(a) for a in arguments])


def write(path: Path, record: Record, time: bool = True) -> Path:
    columns: dict[str, Any] = {"time": record.time} if time else {}
    columns |= dict(zip(record.input_names, record.u.T, strict=True))
    columns |= dict(zip(record.output_names, record.y.T, strict=True))
    units = dict(zip(record.input_names, record.input_units, strict=True))
    units |= dict(zip(record.output_names, record.output_units, strict=True))
    write_csv(path, columns, {"time": "s", **units})
    return path


@pytest.fixture(scope="module")
def tanks() -> Benchmark:
    return simulated_tanks.simulate(samples=200).benchmark


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, tanks: Benchmark) -> Path:
    """A folder with a recording, another one, and the results of an identification."""
    folder = tmp_path_factory.mktemp("cli")
    pump = write(folder / "pump.csv", tanks.estimation)
    write(folder / "other.csv", tanks.reveal_test())
    choice = ["--input", "voltage", "--output", "level"]
    choice += [*SMALL, "--report"]
    result = run("identify", pump, *choice, "--out", folder / "results")
    assert result.exit_code == 0, result.output
    (folder / "stdout.txt").write_text(result.stdout)
    (folder / "stderr.txt").write_text(result.stderr)
    return folder


# -- identify ------------------------------------------------------------------------


def test_identify_leaves_its_files_and_nothing_else(folder: Path) -> None:
    assert sorted(p.name for p in (folder / "results").iterdir()) == LEFT
    assert not list(folder.glob(".*"))
    assert (folder / "results" / "simulation.png").read_bytes().startswith(b"\x89PNG")


def test_identify_says_what_it_does_and_found(folder: Path) -> None:
    told = (folder / "stderr.txt").read_text()
    assert "150 samples every 4 s, voltage -> level" in told
    assert "Test: last 25 % of each record" in told
    assert "warm up, cycle 1" in told
    table = (folder / "stdout.txt").read_text()
    for words in ("RMSE of level [V]", "linear ARX", "persistence", "weights kept"):
        assert words in table
    assert "warm up" not in table


def test_result_holds_settings_data_scores_and_versions(folder: Path) -> None:
    text = (folder / "results" / "result.json").read_text()
    result = json.loads(text, parse_constant=pytest.fail)
    assert result["format"] == "sparsid-result"
    assert result["settings"]["lags"] == 2
    assert result["seed"] == 0
    assert result["versions"]["sparsid"] == sparsid.__version__
    assert result["data"]["estimation_samples"] == [150]
    assert result["data"]["test_samples"] == [50]
    assert result["stopped"] is False
    assert result["scores"]["test"]["samples"] == 48
    fit = result["scores"]["estimation"]
    assert fit["model"]["one_step"][0] < fit["persistence"]["one_step"][0]
    for part in ("estimation", "test"):
        scores = result["scores"][part]
        assert set(scores["model"]) == set(scores["linear_arx"])
        assert 0.7 < scores["one_step_inside_band"][0] <= 1.0


def test_scores_are_those_of_the_saved_model(folder: Path) -> None:
    scores = json.loads((folder / "results" / "result.json").read_text())["scores"]
    model = sparsid.load(folder / "results" / "model.sparsid")
    whole = sparsid.read_csv(folder / "pump.csv", "voltage", "level")
    for part, record in zip(("estimation", "test"), whole.split(0.25), strict=True):
        expected = sparsid.rmse(record, model.predict(record))[0]
        assert scores[part]["model"]["one_step"][0] == pytest.approx(expected)
        expected = sparsid.rmse(record, model.simulate(record, samples=0))[0]
        assert scores[part]["model"]["free_run"][0] == pytest.approx(expected)


def test_test_part_touches_neither_fit_nor_scaling(
    folder: Path, tanks: Benchmark
) -> None:
    model = sparsid.load(folder / "results" / "model.sparsid")
    whole = sparsid.read_csv(folder / "pump.csv", "voltage", "level")
    scaling = Scaling.of(whole[:150])
    assert np.array_equal(model.fitted_.scaling.y_mean, scaling.y_mean)
    again = NARX(lags=2, hidden=(6,), max_cycles=45).fit(whole[:150])
    assert np.array_equal(again.predict(whole).mean[2:], model.predict(whole).mean[2:])


def test_predictions_table(folder: Path) -> None:
    table = pd.read_csv(folder / "results" / "predictions.csv")
    assert len(table) == 200
    assert table["part"].tolist() == ["estimation"] * 150 + ["test"] * 50
    assert table["record"].unique().tolist() == [1]
    assert np.array_equal(table["time [s]"], 4.0 * np.arange(200))
    for kind in ("one step", "free run"):
        mean = table[f"level {kind} [V]"]
        assert mean.isna().sum() == 4
        low, high = table[f"level {kind} lower [V]"], table[f"level {kind} upper [V]"]
        assert ((low < mean) & (mean < high)).sum() == 196


def test_results_are_not_overwritten_unless_asked(folder: Path) -> None:
    before = (folder / "results" / "result.json").read_bytes()
    arguments = ["identify", folder / "pump.csv", *SMALL, "--out", folder / "results"]
    result = run(*arguments, "--input", "voltage")
    assert result.exit_code == 2
    assert "--overwrite" in result.stderr
    assert (folder / "results" / "result.json").read_bytes() == before


def test_overwrite_replaces_results_and_keeps_other_files(
    folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "results"
    out.mkdir()
    for name in (*FILES, "mine.txt"):
        (out / name).write_text("old")
    arguments = ["identify", folder / "pump.csv", "--input", "voltage", *SMALL]
    result = run(*arguments, "--out", out, "--overwrite", "--quiet", "--report")
    assert result.exit_code == 0
    assert result.output == ""
    assert (out / "mine.txt").read_text() == "old"
    assert all((out / name).read_bytes() != b"old" for name in FILES)


def test_json_is_all_there_is_on_stdout(folder: Path, tmp_path: Path) -> None:
    arguments = ["identify", folder / "pump.csv", "--input", "voltage", *SMALL]
    result = run(*arguments, "--out", tmp_path / "new" / "deep", "--json")
    assert result.exit_code == 0
    printed = json.loads(result.stdout)
    written = json.loads((tmp_path / "new" / "deep" / "result.json").read_text())
    assert printed == written
    assert "warm up" in result.stderr


def test_without_files_the_benchmark_is_identified_and_named(
    tanks: Benchmark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(datasets, "default", lambda: tanks)
    result = run("identify", *SMALL, "--out", tmp_path / "r")
    assert result.exit_code == 0
    assert "Simulated Tanks (seed 0) (simulated)" in result.stderr
    assert "No file was given" in result.stderr
    assert "protocol A" in result.stdout
    found = json.loads((tmp_path / "r" / "result.json").read_text())
    assert set(found["scores"]["protocols"]) == {"one-step", "A", "B", "C"}
    assert found["scores"]["protocols"]["A"]["samples"] == 200
    assert found["data"]["source"] == "simulated"
    table = pd.read_csv(tmp_path / "r" / "predictions.csv")
    assert table["record"].unique().tolist() == [1, 2]


def test_fallback_to_simulated_tanks_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARSID_DATA", str(tmp_path))
    original = datasets.default

    def offline() -> Benchmark:
        monkeypatch.setenv("SPARSID_CACHE", str(tmp_path))
        return original(offline=True)

    monkeypatch.setattr(datasets, "default", offline)
    # Refused after the data were chosen, so that nothing has to be fitted.
    result = run("identify", "--lags", "-1", "--out", tmp_path / "r")
    assert result.exit_code == 2
    assert "Simulated tanks are used instead" in result.stderr
    assert "lags=-1" in result.stderr


@pytest.mark.slow
def test_several_files_and_channels_with_gaps(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    files = []
    # Every stretch between gaps and parts is 50 samples long.
    for k, samples in enumerate((100, 210)):
        u, y = rng.normal(size=(samples, 2)), np.zeros((samples, 2))
        for t in range(1, samples):
            y[t] = 0.5 * y[t - 1] + np.tanh(u[t - 1]) + 0.05 * rng.normal(size=2)
        if k:
            y[50:55, 0], u[155:160, 1] = np.nan, np.nan
        record = Record(
            u, y, 0.5, input_names=["part", "speed"], output_names=["flow", "heat"]
        )
        files.append(write(tmp_path / f"run{k}.csv", record))
    choice = ["--input", "part", "--input", "speed", "--output", "flow"]
    choice += ["--output", "heat", "--hidden", "", "--lags", "1", "--test-fraction"]
    result = run("identify", *files, *choice, "0.5", "--out", tmp_path / "r")
    assert result.exit_code == 0, result.output
    assert "run1: gap at samples 50 to 54" in result.stderr
    assert "RMSE of heat" in result.stdout
    table = pd.read_csv(tmp_path / "r" / "predictions.csv")
    assert table["record"].unique().tolist() == [1, 2]
    assert len(table) == 310
    # A channel has the name that ours would have had.
    assert set(table["part_"]) == {"estimation", "test"}
    found = json.loads((tmp_path / "r" / "result.json").read_text())
    # A run goes through missing outputs, and begins anew after missing inputs.
    for part, samples in (("estimation", 49 + 104), ("test", 3 * 49)):
        assert found["scores"][part]["samples"] == samples
        assert max(found["scores"][part]["model"]["one_step"]) < 0.5


def test_no_test_part_if_none_is_wanted(folder: Path, tmp_path: Path) -> None:
    whole = sparsid.read_csv(folder / "pump.csv", "voltage", "level")
    file = write(tmp_path / "part.csv", whole[:150])
    choice = ["identify", file, "--input", "voltage", *SMALL, "--test-fraction", "0"]
    result = run(*choice, "--json", "--out", tmp_path / "r")
    assert result.exit_code == 0, result.output
    assert set(json.loads(result.stdout)["scores"]) == {"estimation"}


# -- bad input: a clear message, exit code 2, nothing written ------------------------

ROWS = 60
U = np.sin(np.arange(ROWS) * 0.7)
Y = np.cos(np.arange(ROWS) * 0.3)


def lines(*columns: Sequence[Any], header: str = "time,u,y") -> str:
    return "\n".join(
        [header, *(",".join(map(str, row)) for row in zip(*columns, strict=True))]
    )


T = np.arange(ROWS) * 0.5
GOOD = lines(T, U, Y)
BAD_FILES = {
    "is empty": "",
    "no rows": "time,u,y\n",
    "is not a number": GOOD.replace(str(U[9]), "high"),
    "is infinite": GOOD.replace(str(Y[9]), "inf"),
    "NaN throughout": lines(T, U, [""] * ROWS),
    "is constant": lines(T, np.ones(ROWS), Y),
    "time does not increase": lines(np.where(T == 4, 1, T), U, Y),
    "range from": lines(T + 0.2 * (np.arange(ROWS) > 9), U, Y),
    "samples are left after the largest lag": lines(T[:12], U[:12], Y[:12]),
    "not clear which are inputs": lines(T, U, Y, Y, header="time,a,b,c"),
    "two columns named": lines(T, U, Y, header="time,u,u"),
    "has 4 cells": GOOD + "\n1,2,3,4",
}
BAD_OPTIONS = {
    "lags=-1": ["--lags", "-1"],
    "lags=1000000": ["--lags", "1000000"],
    "delay=-2": ["--delay", "-2"],
    "hidden=-5": ["--hidden", "-5"],
    "hidden=999999999": ["--hidden", "999999999"],
    "--hidden 'many'": ["--hidden", "many"],
    "activation='cos'": ["--activation", "cos"],
    "prior": ["--prior", "circle"],
    "method='best'": ["--method", "best"],
    "algorithm='new'": ["--algorithm", "new"],
    "curvature='flat'": ["--curvature", "flat"],
    "strength=-1.0": ["--strength", "-1"],
    "noise_std": ["--noise-std", "-0.1"],
    "max_cycles=0": ["--max-cycles", "0"],
    "starts=0": ["--starts", "0"],
    "seed=-1": ["--seed", "-1"],
    "dt is -4.0": ["--dt", "-4"],
    "dt is nan": ["--dt", "nan"],
    "no column 'speed'": ["--input", "speed"],
    "inputs has 'u' more than once": ["--input", "u", "--input", "u"],
    "no column 'clock'": ["--time-column", "clock"],
    "--test-fraction 1": ["--test-fraction", "1"],
    "--test-fraction -0.1": ["--test-fraction", "-0.1"],
    "--test-fraction nan": ["--test-fraction", "nan"],
    "raise --test-fraction": ["--test-fraction", "0.05"],
}


def refused(tmp_path: Path, message: str, *arguments: object) -> None:
    before = sorted(tmp_path.rglob("*"))
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    last = result.stderr.strip().splitlines()[-1]
    assert last.startswith("sparsid: ")
    assert message in last
    assert "Traceback" not in result.output
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("message", BAD_FILES)
def test_bad_file(tmp_path: Path, message: str) -> None:
    (tmp_path / "bad.csv").write_text(BAD_FILES[message])
    out = ["--out", tmp_path / "r", "--hidden", "3", "--test-fraction", "0"]
    refused(tmp_path, message, "identify", tmp_path / "bad.csv", *out)


@pytest.mark.parametrize("message", BAD_OPTIONS)
def test_bad_option(tmp_path: Path, message: str) -> None:
    (tmp_path / "good.csv").write_text(GOOD)
    arguments = ["identify", tmp_path / "good.csv", "--out", tmp_path / "r"]
    small = ["--hidden", "3", *BAD_OPTIONS[message]]
    refused(tmp_path, message, *arguments, *small)


def test_signals_of_different_lengths(tmp_path: Path) -> None:
    np.savez(tmp_path / "bad.npz", u=U, y=Y[:-1])
    arguments = ["identify", tmp_path / "bad.npz", "--out", tmp_path / "r"]
    refused(tmp_path, "same number", *arguments)


def test_files_that_do_not_belong_together(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(GOOD)
    (tmp_path / "b.csv").write_text(lines(2 * T, U, Y))
    files = [tmp_path / "a.csv", tmp_path / "b.csv"]
    refused(tmp_path, "dt", "identify", *files, "--out", tmp_path / "r")


def test_missing_foreign_and_unknown_files(tmp_path: Path) -> None:
    (tmp_path / "a.ods").write_text("x")
    (tmp_path / "a.xlsx").write_text("x")
    (tmp_path / "a.mat").write_text("x")
    out = ["--out", tmp_path / "r"]
    refused(tmp_path, "does not exist", "identify", tmp_path / "no.csv", *out)
    refused(tmp_path, "suffix '.ods'", "identify", tmp_path / "a.ods", *out)
    refused(tmp_path, "no readable Excel", "identify", tmp_path / "a.xlsx", *out)
    refused(tmp_path, "no readable MAT", "identify", tmp_path / "a.mat", *out)


def test_columns_without_a_file(tmp_path: Path) -> None:
    refused(tmp_path, "no file", "identify", "--input", "u", "--out", tmp_path / "r")


@pytest.mark.parametrize(
    "option",
    [
        ["--dt", "0"],
        ["--time-column", ""],
        ["--no-input"],
        ["--separator", ";"],
        ["--decimal", ","],
    ],
)
def test_options_for_files_were_ignored_without_a_file(
    tmp_path: Path, option: list[str]
) -> None:
    refused(tmp_path, "no file", "identify", *option, "--out", tmp_path / "r")


def test_a_series_without_inputs_could_not_be_identified(tmp_path: Path) -> None:
    (tmp_path / "nou.csv").write_text(lines(T, Y, header="time,level"))
    arguments = ["identify", tmp_path / "nou.csv", "--output", "level"]
    arguments += ["--hidden", "", "--lags", "2", "--out", tmp_path / "r"]
    refused(tmp_path, "--no-input", *arguments)
    refused(tmp_path, "leave one", *arguments, "--no-input", "--input", "level")
    result = run(*arguments, "--no-input")
    assert result.exit_code == 0, result.output
    assert "no input -> level" in result.stderr
    assert sparsid.load(tmp_path / "r" / "model.sparsid").fitted_.lags.n_inputs == 0


def test_options_that_messages_name_did_not_exist(tmp_path: Path) -> None:
    text = GOOD.replace(",", "\t").replace(".", ",")
    (tmp_path / "a.csv").write_text(text)
    wanted: dict[str, Any] = {
        "memory_limit": 2.0,
        "form": "primal",
        "kappa_upsilon": 1e-9,
        "kappa_w": 1e-8,
        "tolerance": 0.5,
        "workers": 1,
    }
    chosen = ["--no-prune", "--separator", "\\t", "--decimal", ","]
    for name, value in wanted.items():
        chosen += [f"--{name.replace('_', '-')}", str(value)]
    arguments = ["identify", tmp_path / "a.csv", "--hidden", "", "--lags", "1"]
    result = run(*arguments, *chosen, "--json", "--out", tmp_path / "r")
    assert result.exit_code == 0, result.output
    settings = json.loads(result.stdout)["settings"]
    assert {name: settings[name] for name in wanted} == wanted
    assert settings["prune"] is False
    model = tmp_path / "r" / "model.sparsid"
    out = ["--out", tmp_path / "p.csv"]
    table = ["--separator", ";", "--decimal", ","]
    (tmp_path / "b.csv").write_text(text.replace("\t", ";"))
    assert run("predict", model, tmp_path / "b.csv", *table, *out).exit_code == 0
    other = ["--separator", ":", "--overwrite", *out]
    refused(tmp_path, "no column", "simulate", model, tmp_path / "b.csv", *other)


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "good.csv").write_text(GOOD)
    identify = ["identify", tmp_path / "good.csv", "--hidden", "3", "--out"]
    refused(tmp_path, "is a file", *identify, tmp_path / "good.csv")
    refused(tmp_path, "cannot be written", *identify, "/proc/results")


def test_places_that_were_refused_only_after_the_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sparsid.cli.identify._fit", pytest.fail)
    data = tmp_path / "good.csv"
    data.write_text(GOOD)
    (tmp_path / "nowhere").symlink_to(tmp_path / "missing")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for out, name in (("a", "model.sparsid"), ("b", "report.html")):
        (tmp_path / out / name).mkdir(parents=True)
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "pictures").write_text("mine")
    for out, message in (
        ("good.csv/results", f"is below the file {data}"),
        ("good.csv/deep/results", f"is below the file {data}"),
        ("nowhere", "is a link that leads nowhere"),
        ("nowhere/results", "is a link that leads nowhere"),
        ("loop", "is a link that leads nowhere"),
        ("loop/results", "is a link that leads nowhere"),
        ("a", "model.sparsid is a folder"),
        ("b", "report.html is a folder"),
        ("c", "pictures is a file"),
    ):
        for more in ([], ["--overwrite"]):
            arguments = ["identify", data, *SMALL, "--out", tmp_path / out, *more]
            refused(tmp_path, message, *arguments)


def test_a_table_was_written_over_a_link(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "p.csv").symlink_to(tmp_path / "missing")
    arguments = ["predict", model_file(folder), folder / "other.csv"]
    refused(tmp_path, "--overwrite", *arguments, "--out", tmp_path / "p.csv")


def test_unknown_options_are_usage_errors() -> None:
    assert run("identify", "--no-such-option").exit_code == 2
    assert run("identify", "--lags", "few").exit_code == 2
    assert run("teach").exit_code == 2


def test_a_missing_dataset_is_told_by_its_class_not_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(error: Exception) -> None:
        def default() -> None:
            raise error

        monkeypatch.setattr(datasets, "default", default)

    class Offline(errors.DatasetUnavailable):
        pass

    assert datasets.DatasetUnavailable is errors.DatasetUnavailable
    fail(Offline("not to be had"))
    refused(tmp_path, "not to be had", "identify", "--out", tmp_path / "r")
    fail(type("DatasetUnavailable", (RuntimeError,), {})("no"))
    result = run("identify", "--out", tmp_path / "r")
    assert isinstance(result.exception, RuntimeError)


def test_unexpected_errors_are_not_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise RuntimeError("a fault of the program")

    monkeypatch.setattr(datasets, "default", fail)
    result = run("identify", "--out", tmp_path / "r")
    assert isinstance(result.exception, RuntimeError)


# -- predict, simulate, info ---------------------------------------------------------


def model_file(folder: Path) -> Path:
    return folder / "results" / "model.sparsid"


def test_predict_writes_what_the_library_predicts(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "p.csv"
    result = run(
        "predict",
        model_file(folder),
        folder / "other.csv",
        "--horizon",
        3,
        "--out",
        out,
    )
    assert result.exit_code == 0, result.output
    model = sparsid.load(model_file(folder))
    record = sparsid.read_csv(folder / "other.csv", "voltage", "level")
    forecast = model.predict(record, horizon=3)
    table = pd.read_csv(out)
    assert np.array_equal(
        table["level predicted [V]"], forecast.mean[:, 0], equal_nan=True
    )
    assert f"RMSE {sparsid.rmse(record, forecast)[0]:#.4g} V" in result.stdout


def test_simulate_from_outputs_and_from_inputs_only(
    folder: Path, tmp_path: Path, tanks: Benchmark
) -> None:
    model = sparsid.load(model_file(folder))
    test = tanks.reveal_test()
    write_csv(tmp_path / "u.csv", {"voltage": test.u[:, 0]})
    arguments = ["simulate", model_file(folder)]
    first = run(*arguments, folder / "other.csv", "--out", tmp_path / "1.csv", "--json")
    assert json.loads(first.stdout)["rmse"] == pytest.approx(
        sparsid.rmse(test, model.simulate(test, samples=0))
    )
    second = run(
        *arguments, tmp_path / "u.csv", "--inputs-only", "--out", tmp_path / "2.csv"
    )
    assert second.exit_code == 0, second.output
    assert "no measured outputs" in second.stderr
    assert "RMSE" not in second.stdout
    table = pd.read_csv(tmp_path / "2.csv")
    expected = model.simulate(test.u, samples=0).mean[:, 0]
    assert np.allclose(table["level simulated [V]"], expected)
    # The file does not tell its sampling time: it is taken to be the model's.
    assert table["time [s]"][1] == 4.0
    assert "assumed" not in second.stderr


def test_predict_takes_the_sampling_time_of_the_model_if_the_file_tells_none(
    folder: Path, tmp_path: Path, tanks: Benchmark
) -> None:
    data = write(tmp_path / "bare.csv", tanks.reveal_test(), time=False)
    tables = []
    for source in (data, folder / "other.csv"):
        out = tmp_path / f"{source.stem} predicted.csv"
        result = run("predict", model_file(folder), source, "--out", out)
        assert result.exit_code == 0, result.output
        assert "assumed" not in result.stderr
        tables.append(pd.read_csv(out))
    pd.testing.assert_frame_equal(*tables)


def test_simulate_goes_on_where_outputs_are_missing(
    folder: Path, tmp_path: Path, tanks: Benchmark
) -> None:
    test = tanks.reveal_test()
    y = test.y.copy()
    y[10:] = np.nan
    cut = Record(test.u, y, 4.0, input_names="voltage", output_names="level")
    write(tmp_path / "cut.csv", cut)
    out = tmp_path / "s.csv"
    result = run("simulate", model_file(folder), tmp_path / "cut.csv", "--out", out)
    assert result.exit_code == 0, result.output
    assert pd.read_csv(out)["level simulated [V]"].notna().sum() == 198


def test_existing_table_is_not_overwritten_unless_asked(
    folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "p.csv"
    out.write_text("mine")
    arguments = ["predict", model_file(folder), folder / "other.csv", "--out", out]
    refused(tmp_path, "--overwrite", *arguments)
    assert out.read_text() == "mine"
    assert run(*arguments, "--overwrite", "--quiet").exit_code == 0
    assert out.read_text() != "mine"


def test_bad_data_for_a_model(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "good.csv").write_text(GOOD)
    out = ["--out", tmp_path / "p.csv"]
    both = [model_file(folder), folder / "other.csv"]
    refused(tmp_path, "no column", "predict", both[0], tmp_path / "good.csv", *out)
    refused(tmp_path, "horizon=0", "predict", *both, "--horizon", 0, *out)
    refused(tmp_path, "longer record", "predict", *both, "--horizon", 500, *out)
    refused(tmp_path, "every 1 s", "simulate", *both, "--dt", 1, *out)
    refused(tmp_path, "no sparsid model", "predict", both[1], both[1], *out)
    refused(tmp_path, "does not exist", "simulate", tmp_path / "no", both[1], *out)
    refused(tmp_path, "is a folder", "simulate", *both, "--out", tmp_path)
    refused(tmp_path, "does not exist", "predict", *both, "--out", tmp_path / "a" / "b")


def test_compare_leaves_a_table_and_a_picture(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "model.sparsid"
    other.write_bytes(model_file(folder).read_bytes())
    data, out = folder / "other.csv", tmp_path / "c.png"
    table = ["--table", tmp_path / "c.csv", "--horizon", 3, "--out", out]
    result = run("compare", data, model_file(folder), other, *table)
    assert result.exit_code == 0, result.output
    assert out.read_bytes().startswith(b"\x89PNG")
    # Files of the same name are told apart by their folders.
    found = pd.read_csv(tmp_path / "c.csv", index_col="model")
    assert list(found.index) == [str(Path("results/model")), f"{tmp_path.name}/model"]
    assert "3 steps ahead RMSE level [V]" in found
    assert "smallest error" in result.stdout
    refused(tmp_path, "exists", "compare", data, other, "--out", out)
    refused(tmp_path, "ends in .png", "compare", data, other, "--out", "c.txt")
    refused(tmp_path, "given twice", "compare", data, other, other)
    asked = run("compare", data, other, "--out", tmp_path / "d.svg", "--json")
    facts = json.loads(asked.stdout)
    assert facts["models"]["model"]["states"] >= 1
    assert (tmp_path / "d.svg").exists()


def test_info_prints_the_summary(folder: Path) -> None:
    model = sparsid.load(model_file(folder))
    assert run("info", model_file(folder)).stdout == model.summary() + "\n"
    facts = json.loads(run("info", model_file(folder), "--json").stdout)
    assert facts["regressors"] == list(model.regressors_)
    result = run("info", folder / "pump.csv")
    assert result.exit_code == 2
    assert "no sparsid model file" in result.stderr


# -- the command itself --------------------------------------------------------------


def test_defaults_are_those_of_the_estimator() -> None:
    options = inspect.signature(commands.identify).parameters
    settings = inspect.signature(NARX).parameters
    assert set(settings) <= set(options)
    for name in set(settings) - {"hidden"}:
        assert options[name].default == settings[name].default, name
    hidden = options["hidden"].default
    assert commands._widths(hidden) == settings["hidden"].default


def test_help_and_version_load_nothing_heavy() -> None:
    code = (
        "import sys\n"
        "from typer.testing import CliRunner\n"
        "from sparsid.cli.app import app\n"
        "for words in (['--help'], ['identify', '--help'], ['--version']):\n"
        "    result = CliRunner().invoke(app, words)\n"
        "    assert result.exit_code == 0, result.output\n"
        "    print(result.stdout)\n"
        "heavy = {'jax', 'numpy', 'sklearn', 'pandas', 'matplotlib'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    )
    assert f"sparsid {sparsid.__version__}" in done.stdout
    assert "--test-fraction" in done.stdout


def test_import_loads_nothing_heavy_and_offers_every_name() -> None:
    code = (
        "import sys, sparsid\n"
        "assert not {'jax', 'numpy', 'sklearn'} & set(sys.modules)\n"
        "for name in dir(sparsid): getattr(sparsid, name)\n"
        "from sparsid import NARX, datasets, load\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        sparsid.nothing  # noqa: B018


def test_lazy_names_are_those_that_type_checkers_see() -> None:
    text = Path(sparsid.__file__).read_text()
    seen = {
        line.split(" as ")[1]
        for line in text.splitlines()
        if " as " in line[4:] and line.startswith("    from sparsid")
    }
    assert seen == set(sparsid._HOMES)


def test_compiled_programs_are_kept_where_the_user_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in list(os.environ):
        if name.startswith("JAX_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("SPARSID_CACHE", str(tmp_path))
    # Registered so that they are taken back after the test.
    monkeypatch.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "7")
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "")
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR")
    commands.keep_compiled_programs()
    assert os.environ["JAX_COMPILATION_CACHE_DIR"] == str(tmp_path / "compiled")
    assert os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] == "7"


# -- stopping ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.mark.parametrize("starts", [1, 3])
def test_ctrl_c_keeps_the_best_model_so_far(
    folder: Path, tmp_path: Path, cache: Path, starts: int
) -> None:
    out = tmp_path / "r"
    data = [str(folder / "pump.csv"), "--input", "voltage", "--test-fraction", "0"]
    small = ["--lags", "1", "--hidden", "3", "--starts", str(starts)]
    process = subprocess.Popen(
        [*COMMAND, "identify", *data, *small, "--out", str(out)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "SPARSID_CACHE": str(cache)},
    )
    assert process.stderr is not None
    told = ""
    with process:
        # The fit has not begun when this is printed: programs are compiled now.
        for line in process.stderr:
            told += line
            if line.startswith("Data:"):
                process.send_signal(signal.SIGINT)
        stdout = process.communicate(timeout=300)[0]
    assert process.returncode == 130, told
    assert "stopping with the best so far" in told
    assert "stopped" in stdout
    # Who stops a fit does not wait for a report.
    files = [name for name in LEFT if name not in ("report.html", "pictures")]
    assert sorted(p.name for p in out.iterdir()) == files
    assert not list(tmp_path.glob(".*"))
    result = json.loads((out / "result.json").read_text())
    assert result["stopped"] is True
    assert result["model"]["outcome"] == "stopped"
    assert result["model"]["cycles"] <= 2
    assert sparsid.load(out / "model.sparsid").outcome_ is sparsid.Outcome.STOPPED


def test_second_ctrl_c_raises_and_the_old_handler_comes_back() -> None:
    before = signal.getsignal(signal.SIGINT)
    with Interrupt() as interrupt:
        signal.raise_signal(signal.SIGINT)
        assert interrupt.asked
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_interrupt_outside_the_main_thread_does_nothing() -> None:
    entered = []

    def enter() -> None:
        with Interrupt() as interrupt:
            entered.append(interrupt.asked)

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert entered == [False]


LINEAR = ["--structure", "linear", "--states", "1"]


def test_a_failure_after_the_fit_lost_the_model(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("sparsid.cli.identify.write_picture", fail)
    arguments = ["identify", folder / "pump.csv", "--input", "voltage", *LINEAR]
    result = run(*arguments, "--out", tmp_path / "r")
    assert result.exit_code == 2
    assert "disk full" in result.stderr
    made = sorted(p.name for p in (tmp_path / "r").iterdir())
    assert made == ["model.sparsid", "predictions.csv", "result.json"]
    assert json.loads((tmp_path / "r/result.json").read_text())["files"] == made
    assert sparsid.load(tmp_path / "r/model.sparsid").outcome_
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    ("place", "left"),
    [
        ("_parts", ["model.sparsid"]),
        (
            "write_report",
            ["model.sparsid", "predictions.csv", "result.json", "simulation.png"],
        ),
    ],
)
def test_ctrl_c_after_the_fit_was_not_heard(
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    place: str,
    left: list[str],
    number: signal.Signals,
) -> None:
    def stop(*_: Any, **__: Any) -> None:
        signal.raise_signal(number)
        pytest.fail("nobody heard")

    monkeypatch.setattr(f"sparsid.cli.identify.{place}", stop)
    arguments = ["identify", folder / "pump.csv", "--input", "voltage", *LINEAR]
    result = run(*arguments, "--out", tmp_path / "r")
    assert result.exit_code == 130, result.output
    assert "not written. The model is in" in result.stderr
    assert sorted(p.name for p in (tmp_path / "r").iterdir()) == left
    assert not list(tmp_path.glob(".*"))
    if "result.json" in left:
        found = json.loads((tmp_path / "r/result.json").read_text())
        assert found["files"] == left
        assert found["stopped"] is True


def test_ctrl_c_in_a_callback_was_lost_with_a_traceback() -> None:
    told: list[Any] = []
    heard = repeating(told.append)
    heard(SimpleNamespace(exc_type=ValueError))
    assert len(told) == 1

    def lose() -> None:
        heard(SimpleNamespace(exc_type=KeyboardInterrupt))
        time.sleep(60.0)

    with pytest.raises(KeyboardInterrupt):
        lose()
    assert len(told) == 1


def test_a_signal_that_an_import_swallowed_ended_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sparsid.cli.signals._came", True)
    with pytest.raises(KeyboardInterrupt), Interrupt():
        pytest.fail("it came before")


def test_a_free_run_of_many_deviations_was_told_without_a_word() -> None:
    own = {"output_std": [2.0, 1.0, 3.0, 0.0]}
    own |= {"model": {"free_run": [16.0, 0.5, float("inf"), 1.0]}}
    assert poor_runs({"test": own, "protocols": {}}, ["a", "b", "c", "d"]) == [
        "a: the free run over the test record is off by 8.0 standard deviations, no "
        "better than the mean",
        "c: the free run over the test record diverges",
    ]


# -- pieces --------------------------------------------------------------------------


def report(phase: str, cycle: int, start: int = 0, starts: int = 1) -> Progress:
    noise = np.array([0.0004])
    return Progress(phase, cycle, 200, -12.34, noise, 0.0123, 1.0, start, starts)


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_shows_the_state_of_the_fit(terminal: bool) -> None:
    interrupt = Interrupt()
    console = Console(force_terminal=terminal, width=200, record=True, quiet=False)
    with FitProgress(console, interrupt) as progress:
        assert "preparing" in progress.text()
        assert not progress(report("warm up", 1, 1, 3))
        line = progress.text()
        interrupt.asked = True
        assert progress(report("prune", 42))
        last = progress.text()
    for words in (
        "start 2 of 3",
        "warm up, cycle 1",
        "cost -12.3",
        "noise 2 %",
        "1.2 %",
    ):
        assert words in line
    assert "stopping" in last


def test_time_left_follows_pace_and_phases() -> None:
    left = TimeLeft()
    for cycle in range(1, 21):
        left.update(report("warm up", cycle), 0.5 * cycle)
    # 20 to settle, 5 to prune, 10 to converge, half a second each.
    assert left.seconds(1) == pytest.approx(17.5)
    # A pause to compile does not count.
    left.update(report("settle", 21), 30.0)
    assert left.seconds(1) == pytest.approx(17.0)
    # Another start that has not begun needs 55 cycles.
    assert left.seconds(2) == pytest.approx(17.0 + 27.5)
    assert TimeLeft().seconds(1) is None


def test_time_left_counts_cycles_that_were_not_reported() -> None:
    left = TimeLeft()
    for cycle in range(2, 21, 2):
        left.update(report("warm up", cycle), 0.5 * cycle)
    # The first cycle is not known of: one more of the warm-up.
    assert left.seconds(1) == pytest.approx(18.0)


def test_time_left_begins_anew_with_another_round() -> None:
    left = TimeLeft()
    for cycle in range(1, 101):
        for start in range(4):
            now = 2.0 * cycle + 0.5 * start
            left.update(report("trying this", cycle, start, 4), now)
    for cycle in range(1, 51):
        for start in range(2):
            now = 202.0 + cycle + 0.5 * start
            left.update(report("free run", cycle, start, 2), now)
    # Two groups have a hundred and fifty cycles to go, half a second each.
    assert left.seconds(2) == pytest.approx(150.0)


def linear_record(samples: int = 120) -> Record:
    rng = np.random.default_rng(0)
    u, y = rng.normal(size=samples), np.zeros(samples)
    for t in range(2, samples):
        y[t] = 1.2 * y[t - 1] - 0.4 * y[t - 2] + 0.5 * u[t - 1] + 0.3
    return Record(u, y)


def test_arx_finds_a_linear_system() -> None:
    record = linear_record()
    arx = Arx.fit([record], Lags(1, 1, 2, 2), Scaling.of(record))
    assert np.allclose(arx.predict(record)[2:], record.y[2:])
    assert np.allclose(arx.simulate(record)[2:], record.y[2:])
    assert np.isnan(arx.simulate(record)[:2]).all()


def test_arx_that_diverges_ends_in_infinity() -> None:
    record = linear_record()
    scaling = Scaling.of(record)
    arx = Arx(Lags(1, 1, 0, 1), scaling, np.array([[0.0], [3.0], [1.0]]))
    assert np.isinf(arx.simulate(record)[-1]).all()


def test_persistence_is_the_sample_before() -> None:
    record = linear_record(5)
    assert np.isnan(persistence(record)[0]).all()
    assert np.array_equal(persistence(record)[1:], record.y[:-1])


def test_held_back_part_is_the_last_of_each_record(folder: Path) -> None:
    pump = folder / "pump.csv"
    data = load_data([pump], ["voltage"], ["level"], test_fraction=0.3)
    (test,) = data.reveal_test()
    assert (len(data.estimation[0]), len(test), test.start) == (140, 60, 140)


def test_a_late_step_was_called_constant_without_naming_the_test_part(
    tmp_path: Path,
) -> None:
    file = tmp_path / "step.csv"
    file.write_text("".join(["u,y\n", *(f"{int(t >= 90)},{t}\n" for t in range(100))]))
    message = "(0) in samples 0 to 74, which are to be learnt from"
    refused(tmp_path, message, "identify", file, *SMALL, "--out", tmp_path / "r")
    with pytest.raises(InputError, match=r"moves there, lower --test-fraction\.$"):
        load_data([file])
    assert load_data([file], test_fraction=0.05).estimation[0].u.max() == 1.0


def test_predictions_held_formulas_for_spreadsheets(tmp_path: Path) -> None:
    record = Record([1.0, 2.0], [3.0, 4.0], input_names="=1+1", output_names="@y")
    values = Forecast(record.y, record.y, record.y, 0, 1, None, ("@y",), ("V",))
    part = Part("test", [record], [1], [values], [values])
    write_predictions(tmp_path / "p.csv", [part])
    header = (tmp_path / "p.csv").read_text().splitlines()[0].split(",")
    assert header[:5] == ["record", "part", "time [s]", "'=1+1", "'@y"]
    assert not [name for name in header if name[0] in "=+-@"]


def test_a_file_with_a_long_gap_gives_several_records(tmp_path: Path, caplog) -> None:
    times = [*range(40), *range(10_000, 10_080), 90_000]
    rows = "".join(f"{t},{t % 7},{t % 5}\n" for t in times)
    (tmp_path / "gap.csv").write_text("time,u,y\n" + rows)
    data = load_data([tmp_path / "gap.csv"])
    assert data.title == "gap"
    assert [len(r) for r in data.estimation] == [30, 60]
    assert [(r.start, len(r)) for r in data.reveal_test()] == [(30, 10), (10_060, 20)]
    assert "gap: 1 samples between long gaps are left out" in caplog.text
    whole = load_data([tmp_path / "gap.csv"], test_fraction=0.0)
    assert [len(r) for r in whole.estimation] == [40, 80, 1]


def test_result_folder_is_complete_or_absent(tmp_path: Path) -> None:
    def present() -> list[str]:
        return sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*"))

    with ResultFolder(tmp_path / "a" / "b", overwrite=False) as folder:
        (folder.part / "x").write_text("1")
    assert present() == []
    with ResultFolder(tmp_path / "a" / "b", overwrite=False) as folder:
        (folder.part / "x").write_text("1")
        assert folder.publish() == [tmp_path / "a" / "b" / "x"]
    assert present() == ["a", "a/b", "a/b/x"]


def filled(part: Path, *names: str) -> None:
    for name in names:
        (part / name).parent.mkdir(exist_ok=True)
        (part / name).write_text("new")


def test_results_of_two_models_were_mixed(tmp_path: Path) -> None:
    """A report and pictures of the old model stayed beside the new one."""
    out = tmp_path / "out"
    old = ["model.sparsid", "report.html", "pictures/a.png", "pictures/old.svg"]
    for name in [*old, "mine.txt", "pictures/mine.txt"]:
        (out / name).parent.mkdir(exist_ok=True, parents=True)
        (out / name).write_text("old")
    with ResultFolder(out, overwrite=True) as folder:
        filled(folder.part, "model.sparsid", "pictures/a.png")
        published = folder.publish()
    assert published == [out / "model.sparsid", out / "pictures"]
    found = {str(p.relative_to(out)): p for p in out.rglob("*") if p.is_file()}
    assert {name: path.read_text() for name, path in found.items()} == {
        "model.sparsid": "new",
        "pictures/a.png": "new",
        "pictures/mine.txt": "old",
        "mine.txt": "old",
    }
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out"]


def test_pictures_of_somebody_else_stay(tmp_path: Path) -> None:
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / "mine.png").write_text("old")
    with pytest.raises(InputError, match="already holds pictures"):
        ResultFolder(tmp_path, overwrite=False)
    with ResultFolder(tmp_path, overwrite=True) as folder:
        filled(folder.part, "model.sparsid", "report.html", "pictures/a.png")
        folder.publish()
    pictures = sorted(p.name for p in (tmp_path / "pictures").iterdir())
    assert pictures == ["a.png", "mine.png"]


def test_a_failed_exchange_leaves_the_old_results_and_keeps_the_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    filled(out, "model.sparsid", "result.json")
    for path in out.iterdir():
        path.write_text("old")
    rename = Path.rename

    def fail(self: Path, target: Path) -> Path:
        if self.parent.name == "new" and self.name == "result.json":
            raise OSError(28, "No space left on device")
        return rename(self, target)

    with ResultFolder(out, overwrite=True) as folder:
        filled(folder.part, "model.sparsid", "result.json")
        monkeypatch.setattr(Path, "rename", fail)
        with pytest.raises(OSError, match=r"No space left .*kept in") as error:
            folder.publish()
    kept = Path(str(error.value).split("kept in ")[1])
    assert kept.is_relative_to(tmp_path)
    for place, content in ((out, "old"), (kept, "new")):
        assert sorted(p.name for p in place.iterdir()) == [
            "model.sparsid",
            "result.json",
        ]
        assert {p.read_text() for p in place.iterdir()} == {content}


def test_results_were_lost_if_their_place_was_taken_during_the_fit(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "deep" / "results"

    def take(*_: Any) -> None:
        out.mkdir(parents=True)
        (out / "theirs").write_text("x")

    monkeypatch.setattr("sparsid.cli.identify.write_picture", take)
    arguments = ["identify", folder / "pump.csv", "--input", "voltage", *SMALL]
    result = run(*arguments, "--out", out)
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1].startswith("sparsid: the results could not")
    kept = Path(result.stderr.strip().split("kept in ")[1])
    assert sparsid.load(kept / "model.sparsid").max_lag_ == 2
    assert [p.name for p in out.iterdir()] == ["theirs"]
    assert not list(tmp_path.rglob("*.part"))


@pytest.mark.parametrize("there", [True, False])
def test_the_second_of_two_runs_replaced_the_results_of_the_first(
    tmp_path: Path, there: bool
) -> None:
    out = tmp_path / "r"
    if there:
        out.mkdir()
    with ResultFolder(out, False) as first, ResultFolder(out, False) as second:
        (first.part / "result.json").write_text("first")
        (second.part / "result.json").write_text("second")
        first.publish()
        with pytest.raises(OSError, match="are kept in") as failed:
            second.publish()
    assert (out / "result.json").read_text() == "first"
    kept = Path(str(failed.value).split("are kept in ")[1])
    assert (kept / "result.json").read_text() == "second"


def test_results_stay_where_they_are_if_no_other_place_takes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"

    def fail(*_: Any, **__: Any) -> str:
        raise OSError("disk full")

    with ResultFolder(out, overwrite=False) as folder:
        filled(folder.part, "model.sparsid")
        filled(out, "theirs")
        monkeypatch.setattr("sparsid.cli.results.mkdtemp", fail)
        with pytest.raises(OSError, match="kept in"):
            folder.publish()
    assert (folder.part / "model.sparsid").read_text() == "new"


# -- models --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model", "state-space", "--lags", "3"], "--lags is for --model narx"),
        (["--model", "auto", "--hidden", "3"], "--hidden is for --model narx or"),
        (
            ["--states", "3", "--lags", "2"],
            "--states is for --model auto or",
        ),
        (["--model", "boat"], "'boat' is not known"),
        (["--model", "auto", "--budget", "soon"], "'soon' is no time"),
        (["--budget", "2m", "--model", "narx"], "--budget is for --model auto"),
    ],
)
def test_options_of_another_model_are_refused(arguments, message, tmp_path) -> None:
    result = run("identify", *arguments, "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())
    assert not (tmp_path / "out").exists()


def test_durations() -> None:
    assert [commands._seconds(t) for t in (None, "90", "90s", "2m", "1h")] == [
        None,
        90.0,
        90.0,
        120.0,
        3600.0,
    ]
