"""Studies: the store, the plans, the processes, the tables and the command."""

import json
import math
import os
import signal
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import calls
import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

import sparsid
from sparsid.cli.app import app
from sparsid.cli.reproduce import StudyProgress, clock
from sparsid.datasets import simulated_tanks
from sparsid.errors import DatasetUnavailable, FileFormatError, InputError
from sparsid.parallel import fingerprint
from sparsid.studies import (
    comparators,
    prediction,
    published,
    report,
    runner,
    simulation,
    store,
    trials,
    verdicts,
)
from sparsid.studies.runner import Pace, Standing, pool_for_trials, run_trials
from sparsid.studies.store import FILE, Store, Study

COMMAND = [sys.executable, "-m", "sparsid.cli", "reproduce"]
# The same where interrupts are ignored, as they are in a job in the background.
INTERRUPTIBLE = [
    sys.executable,
    "-c",
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "from sparsid.cli import main; main()",
    "reproduce",
]
# Known to the conftest: compiled programs of earlier runs.
CACHE = Path(__file__).parents[1] / ".pytest_cache" / "jax"


@pytest.fixture
def study() -> Study:
    return Study("prediction", {"dataset": "simulated-tanks", "lags": 2}, "engine")


@pytest.fixture
def kept(tmp_path: Path, study: Study) -> Store:
    return Store.open(tmp_path / FILE, study)


# -- store ---------------------------------------------------------------------------


def test_answers_come_back_as_they_went_in(kept: Store, tmp_path: Path) -> None:
    spec = {"kind": "predict", "ratio": 0.1, "hidden": [3, 3], "seed": 0}
    result = {"test_rmse": 0.123456789012345, "kept": None, "simulated": [0.5] * 200}
    kept.add(spec, result, 1.5)
    (row,) = kept.rows()
    assert {**spec, **result, "seconds": 1.5}.items() <= row.items()
    kept.note_command("sparsid reproduce prediction")
    facts = {"version": sparsid.__version__, "command": "sparsid reproduce prediction"}
    assert kept.facts() == facts
    table = pd.read_csv(kept.export(tmp_path / "trials.csv"))
    assert table["test_rmse"][0] == result["test_rmse"]
    assert table["hidden"][0] == "3 3"
    assert "simulated" not in table
    assert table["engine"][0] == "engine"


def test_store_continues_where_it_was(kept: Store, study: Study) -> None:
    specs = [{"kind": "predict", "seed": k} for k in range(3)]
    kept.add(specs[1], {"kept": 1.0}, 0.1)
    again = Store.open(kept.path, study)
    assert again.missing(specs) == [specs[0], specs[2]]
    again.add(specs[1], {"kept": 2.0}, 0.1)
    assert [row["kept"] for row in again.rows()] == [1.0]


def test_answer_of_a_process_that_died_is_tried_again(kept: Store) -> None:
    spec = {"kind": "predict", "seed": 0}
    kept.add(spec, {"error": "gone", "died": True}, 0.0)
    assert kept.missing([spec]) == [spec]
    kept.add(spec, {"kept": 1.0}, 0.1)
    assert kept.missing([spec]) == []
    (row,) = kept.rows()
    assert "error" not in row


def test_two_writers_at_once_lose_nothing(tmp_path: Path, study: Study) -> None:
    def write(first: int) -> None:
        mine = Store.open(tmp_path / FILE, study)
        for k in range(first, first + 20):
            mine.add({"kind": "predict", "seed": k}, {"kept": 1.0}, 0.0)

    with ThreadPoolExecutor(2) as pool:
        # Half of the trials are answered by both.
        list(pool.map(write, (0, 10)))
    rows = Store.open(tmp_path / FILE, study).rows()
    assert sorted(row["seed"] for row in rows) == list(range(30))


@pytest.mark.parametrize(
    "other",
    [
        Study("prediction", {"dataset": "simulated-tanks", "lags": 3}, "engine"),
        Study("prediction", {"dataset": "simulated-tanks", "lags": 2}, "other"),
        Study("simulation", {"dataset": "simulated-tanks", "lags": 2}, "engine"),
    ],
)
def test_another_setting_or_engine_is_another_study(kept: Store, other: Study) -> None:
    spec = {"kind": "predict", "seed": 0}
    kept.add(spec, {"kept": 1.0}, 0.0)
    second = Store.open(kept.path, other)
    assert second.missing([spec]) == [spec]
    second.add(spec, {"kept": 2.0}, 0.0)
    assert [row["kept"] for row in kept.rows()] == [1.0]


def test_report_finds_its_study_or_else_the_latest_of_its_name(
    kept: Store, study: Study
) -> None:
    with pytest.raises(InputError, match="has no trial of a prediction study"):
        Store.existing(kept.path, study)
    kept.add({"kind": "predict"}, {}, 0.0)
    older = Study("prediction", {}, "older")
    assert Store.existing(kept.path, older).study == study
    Store.open(kept.path, older).add({"kind": "predict"}, {}, 0.0)
    assert Store.existing(kept.path, older).study == older
    with pytest.raises(InputError, match="run the study before"):
        Store.existing(kept.path.with_name("none"), study)


def test_foreign_files_are_refused_and_left_alone(tmp_path: Path, study: Study) -> None:
    text, other, newer = tmp_path / "text", tmp_path / "other", tmp_path / "newer"
    text.write_text("no database, but long enough to be taken for one " * 30)
    with sqlite3.connect(other) as db:
        db.execute("CREATE TABLE songs (title TEXT)")
    Store.open(newer, study)
    with sqlite3.connect(newer) as db:
        db.execute("PRAGMA user_version = 2")
    for path, words in (
        (text, "is no store of trials"),
        (other, "is no store of trials"),
        (newer, "format 2"),
    ):
        before = path.read_bytes()
        for use in (Store.open, Store.existing):
            with pytest.raises(FileFormatError, match=words):
                use(path, study)
        assert path.read_bytes() == before


def test_comments_do_not_make_another_engine(tmp_path: Path) -> None:
    path = tmp_path / "code.py"
    prints = []
    for text in ("x = 1\n", '"""Doc."""\n# why\nx  =  1\n', "x = 2\n"):
        path.write_text(text)
        prints.append(fingerprint.code_fingerprint([path]))
    assert prints[0] == prints[1] != prints[2]
    assert fingerprint.engine_fingerprint() == fingerprint.engine_fingerprint()


# -- plans ---------------------------------------------------------------------------


def test_full_prediction_study_has_2200_fits() -> None:
    shared = prediction.settings("cascaded-tanks", quick=False)
    plan = (shared, prediction.METHODS, published.RATIOS)
    assert len(prediction.selection_specs(*plan)) == (7 + 6) * 3 * 11
    fits = prediction.fit_specs(*plan, prediction.REPEATS)
    assert len({store.canonical(s) for s in fits}) == 2200
    assert [s["seed"] for s in fits] == sorted(s["seed"] for s in fits)
    assert len(prediction.baseline_specs(shared, published.RATIOS)) == 11


def test_full_simulation_study_has_the_paper_s_networks_and_ours() -> None:
    shared = simulation.settings("cascaded-tanks", quick=False)
    plan = simulation.specs(shared, list(simulation.VARIANTS), simulation.REPEATS)
    kinds = [s["kind"] for s in plan]
    assert kinds.count("simulate") == 100
    states = [s for s in plan if s.get("method") == simulation.STATE_SPACE]
    assert [s["seed"] for s in states] == list(range(20))
    assert kinds.count("compare") == len(comparators.available())
    assert kinds.count("measured") == 1


def select(strength: float, block: int, squares: float | None) -> dict[str, Any]:
    what = {"kind": "select", "method": "ridge", "ratio": 0.5, "blocks": 2}
    return {
        **what,
        "strength": strength,
        "block": block,
        "squares": squares,
        "samples": 10,
    }


def test_strength_has_the_smallest_error_over_all_blocks() -> None:
    rows = [select(1.0, 0, 3.0), select(1.0, 1, 3.0)]
    rows += [select(2.0, 0, 5.0), select(2.0, 1, 0.5)]
    # Diverged on one block, and one block without an answer.
    rows += [select(3.0, 0, 0.1), select(3.0, 1, None), select(4.0, 0, 0.1)]
    rows += [{**select(4.0, 1, 0.0), "error": "gone"}]
    assert prediction.chosen_strengths(rows) == {("ridge", 0.5): 2.0}
    grid = {"ridge": [1.0, 2.0, 3.0]}
    table = prediction.strengths_table(rows, grid)
    assert table.iloc[0].tolist() == ["ridge", 0.5, "2", ""]
    assert prediction.chosen_strengths(rows[-2:]) == {}


def test_fits_take_the_strength_chosen_and_wait_for_none() -> None:
    shared = prediction.settings("cascaded-tanks", quick=True)
    methods = ["none", "ridge", "group-lasso"]
    chosen = {("ridge", 0.5): 2.0}
    specs = prediction.fit_specs(shared, methods, [0.5], 1, chosen)
    assert [(s["method"], s.get("strength")) for s in specs] == [
        ("none", None),
        ("ridge", 2.0),
    ]


def test_unknown_methods_and_ratios_are_refused() -> None:
    with pytest.raises(InputError, match="'lasso' is not known"):
        prediction.check(["lasso"], [0.5])
    with pytest.raises(InputError, match=r"ratio 1\.5 is no share"):
        prediction.check(["none"], [1.5])
    with pytest.raises(InputError, match="'rows' is not known"):
        simulation.check(["rows"])


# -- tables --------------------------------------------------------------------------


def fit(method: str, ratio: float, seed: int, error: float, **more: Any) -> Any:
    return {
        "kind": "predict",
        "method": method,
        "ratio": ratio,
        "seed": seed,
        "test_rmse": error,
        "test_rmse_paper": 0.9 * error,
        "log_evidence": None,
        "cost": error,
        "cycles": 10,
        "kept": 0.5,
        "outcome": "converged",
        "seconds": 2.0,
        "finished": "2030-01-01T00:00:00",
        **more,
    }


def test_errors_under_both_selections_by_hand() -> None:
    rows = [
        fit("sparse-bayes", 0.5, 0, 0.2, log_evidence=5.0, kept=0.1),
        fit("sparse-bayes", 0.5, 1, 0.1, log_evidence=1.0, kept=0.3),
        fit("none", 0.5, 0, 0.4, cost=2.0, outcome="cycle limit reached"),
        fit("none", 0.5, 1, 0.8, cost=1.0),
        {**fit("none", 0.5, 2, 0.0), "error": "gone"},
    ]
    table = prediction.errors_table(prediction.fits_frame(rows)).set_index("method")
    bayes, none = table.loc["sparse-bayes"], table.loc["none"]
    assert bayes["paper's way: best on test"] == 0.1
    assert bayes["the same, over all samples"] == pytest.approx(0.09)
    assert bayes["fair: mean"] == pytest.approx(0.15)
    assert bayes["std"] == pytest.approx(math.sqrt(0.005))
    assert bayes["fair: chosen inside"] == 0.2
    assert none["fair: chosen inside"] == 0.8
    assert bayes["kept"] == pytest.approx(0.2)
    assert (none["repeats"], none["not converged"]) == (2, 1)


def test_paired_differences_by_hand() -> None:
    rows = []
    for seed in range(8):
        rows += [
            fit("sparse-bayes", 0.5, seed, 0.1 + 0.01 * seed),
            fit("none", 0.5, seed, 0.3 + 0.01 * seed),
            fit("ridge", 0.5, seed, 0.1 + 0.01 * seed + (-1) ** seed * 0.05),
            fit("group-lasso", 0.5, seed, 0.05 + 0.01 * seed),
        ]
    # No partner: this one does not count.
    rows.append(fit("none", 0.5, 99, 7.0))
    table = prediction.paired_table(prediction.fits_frame(rows)).set_index("against")
    assert table["pairs"].tolist() == [8, 8, 8]
    assert table.loc["none", ["mean difference", "low", "high"]].tolist() == (
        pytest.approx([0.2, 0.2, 0.2])
    )
    assert table.loc["none", "share of its error [%]"] == pytest.approx(20 / 0.335)
    assert table.loc["ridge", "mean difference"] == pytest.approx(0.0)
    assert table["verdict"].to_dict() == {
        "none": prediction.BETTER,
        "ridge": prediction.UNCLEAR,
        "group-lasso": prediction.WORSE,
    }
    few = prediction.paired_table(prediction.fits_frame(rows[:8]))
    assert set(few["verdict"]) == {prediction.TOO_FEW}


def test_bootstrap_interval_of_two_values_is_known() -> None:
    # The mean of two draws from {0, 1} is 0, 1/2, 1 with 1/4, 1/2, 1/4.
    assert prediction.bootstrap_interval(np.array([0.0, 1.0])) == (0.0, 1.0)
    # For many values it is that of the normal distribution.
    values = np.random.default_rng(1).normal(size=400)
    low, high = prediction.bootstrap_interval(values)
    half = 1.96 * values.std() / 20
    assert (low, high) == pytest.approx(
        (values.mean() - half, values.mean() + half), abs=0.01
    )


def test_kept_table_has_the_papers_rows_and_ours() -> None:
    rows = [fit("sparse-bayes", 0.5, k, 0.1, kept=s) for k, s in enumerate((0.1, 0.3))]
    rows.append(fit("group-lasso", 0.25, 0, 0.1, kept=0.5))
    table = prediction.kept_table(prediction.fits_frame(rows)).set_index("method")
    assert table.loc["sparse Bayes (ours)", 0.5] == pytest.approx(20.0)
    assert table.loc["sparse Bayes (paper)", 0.5] == 2.71
    assert table.loc["group lasso (paper)", 0.9] == 51.26
    assert table.loc["group lasso (ours)", 0.25] == 50.0
    assert table.isna().sum().sum() == 11 + 11 + 2


def test_cost_counts_the_choice_of_the_strength() -> None:
    rows = [fit("ridge", 0.5, 0, 0.1), {**select(1.0, 0, 1.0), "seconds": 5.0}]
    (row,) = prediction.cost_table(rows).to_dict("records")
    assert row["seconds in all"] == 7.0


def everywhere(method: str, error: float, kept: float = 0.01) -> list[Any]:
    return [
        fit(method, ratio, seed, error + 0.001 * seed, kept=kept)
        for ratio in published.RATIOS
        for seed in range(6)
    ]


def prediction_lines(rows: list[Any]) -> list[str]:
    fits = prediction.fits_frame(rows)
    tables = prediction.errors_table, prediction.kept_table, prediction.paired_table
    errors, kept, paired = (table(fits) for table in tables)
    return verdicts.prediction_verdicts(errors, kept, paired)


def test_verdicts_say_what_was_reached() -> None:
    good = [
        *everywhere("sparse-bayes", 0.05),
        *everywhere("none", 0.06),
        *everywhere("group-lasso", 0.05),
    ]
    lines = prediction_lines(good)
    assert len(lines) == 4
    assert all("**reached**" in line for line in lines)
    assert "(0.0450 V)" in lines[-1]


def test_verdicts_say_what_was_not_reached_and_where() -> None:
    bad = [
        *everywhere("sparse-bayes", 0.07, kept=0.025),
        *everywhere("none", 0.06),
        *everywhere("group-lasso", 0.05),
    ]
    below, lasso, kept, best = prediction_lines(bad)
    assert "**NOT reached** at 5 %, 10 %" in below
    assert lasso.endswith("at 50 %, 60 %, 70 %, 80 %, 90 %, 100 %")
    assert kept.endswith("**NOT reached** at 70 %, 100 %")
    assert best.endswith("**NOT reached** (0.0630 V)")


def test_verdicts_are_open_while_ratios_are_missing() -> None:
    rows = [fit(m, 1.0, k, 0.1) for m in ("none", "sparse-bayes") for k in range(2)]
    rows[0]["test_rmse"] = 0.2
    below, lasso, *_ = prediction_lines(rows)
    assert "**open**, holds at 1 of 11" in below
    assert "**open**, holds at 0 of 6" in lasso


def network(label: str, seed: int, error: float | None, **more: Any) -> Any:
    method = "sparse-bayes" if label.startswith("sparse") else "none"
    errors = {f"test_rmse_{p}": error for p in ("A", "B", "C")}
    return {
        "kind": "simulate",
        "label": label,
        "method": method,
        "seed": seed,
        **errors,
        "test_rmse_paper": None if error is None else 0.9 * error,
        "train_simulation_rmse": 1.0,
        "log_evidence": None,
        "cost": 1.0,
        "kept": 0.5,
        "simulated": [None, 1.0, 2.0],
        "seconds": 1.0,
        "finished": "2030-01-01T00:00:00",
        **more,
    }


def test_simulation_tables_by_hand() -> None:
    rows = [
        network("sparse Bayes, rows", 0, 0.5, log_evidence=3.0),
        network("sparse Bayes, rows", 1, 0.4, log_evidence=2.0),
        network("sparse Bayes, columns", 0, 0.37, train_simulation_rmse=0.5),
        network("no regularisation", 0, None, cost=0.5),
        network("no regularisation", 1, 2.0),
        network("no regularisation", 2, 1.0),
    ]
    table = simulation.runs_table(simulation.runs_frame(rows))
    b = table[table["protocol"] == "B"].set_index("network")
    free, pooled = b.loc["no regularisation"], b.loc[simulation.POOLED]
    assert (free["repeats"], free["diverged"]) == (3, 1)
    assert (free["fair: mean"], free["fair: median"]) == (1.5, 2.0)
    assert math.isnan(free["fair: chosen inside"])
    assert pooled["paper's way: best on test"] == 0.37
    assert pooled["fair: chosen inside"] == 0.5
    assert pooled["fair: best free run over estimation"] == 0.37
    assert "every weight" not in " ".join(b.index)
    (line,) = verdicts.simulation_verdicts(table)
    assert "**reached** (0.333 V as the paper counts, 0.370 V over" in line
    (line,) = verdicts.simulation_verdicts(table[table["network"] == rows[0]["label"]])
    assert "**NOT reached**" in line
    empty = table[table["network"] == "no regularisation"]
    assert "**open**" in verdicts.simulation_verdicts(empty)[0]
    errors = {f"test_rmse_{p}": 0.6 for p in "ABC"}
    live = {"kind": "compare", "name": "linear", "package": "sparsid", **errors}
    compared = simulation.comparison_table([*rows, live]).set_index("model")
    assert compared.loc["NOMAD (Brunot et al. 2017)", "B"] == 0.376
    assert compared.loc["linear", "A"] == 0.6
    assert len(compared) == len(published.SIMULATION) + 1 + 4 * 4


# -- reports -------------------------------------------------------------------------


def test_report_of_a_store_that_has_barely_begun(tmp_path: Path) -> None:
    shared = prediction.settings("cascaded-tanks", quick=False)
    kept = Store.open(tmp_path / FILE, Study(prediction.NAME, shared, "engine"))
    written = report.write_report(kept, tmp_path)
    assert "No fit has been answered yet." in (tmp_path / "prediction.md").read_text()
    for row in (
        fit("sparse-bayes", 0.5, 0, 0.1),
        {**fit("none", 0.5, 0, 0.1), "error": "ValueError: a | b"},
    ):
        kept.add({k: row[k] for k in ("kind", "method", "ratio", "seed")}, row, 2.0)
    (tmp_path / "prediction_notes.md").write_text("Everything.")
    written = report.write_report(kept, tmp_path)
    text = (tmp_path / "prediction.md").read_text()
    assert written.failed == 1
    assert r"| 1 | predict, none, 0.5 | ValueError: a \| b |" in text
    assert "network 11-100-100-1 (tanh), lag 5; 1 fits" in text
    assert "What was tried\n\nEverything." in text
    assert "**NOT reached** (0.0900 V)" in text
    assert {path.suffix for path in written.files} == {".csv", ".md", ".png", ".svg"}
    assert all(path.stat().st_size for path in written.files)


def test_report_of_simulations_without_the_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sparsid.datasets, "load", pytest.fail)
    shared = simulation.settings("cascaded-tanks", quick=True)
    kept = Store.open(tmp_path / FILE, Study(simulation.NAME, shared, "engine"))
    measured = {"title": "Tanks", "time": [0.0, 1.0, 2.0], "measured": [1.0, 1.5, 2.0]}
    kept.add({"kind": "measured"}, measured, 0.1)
    report.write_report(kept, tmp_path)
    assert "No network has been answered" in (tmp_path / "simulation.md").read_text()
    for row in (
        network("sparse Bayes, rows", 0, 0.5, log_evidence=1.0),
        network("no regularisation", 0, None),
    ):
        kept.add({k: row[k] for k in ("kind", "label", "seed")}, row, 1.0)
    written = report.write_report(kept, tmp_path)
    text = (tmp_path / "simulation.md").read_text()
    assert "Tanks; network 11-6-6-1" in text
    assert "Not the paper's data or network" in text
    assert "Not run: linear ARX, lag 5" in text
    assert written.verdicts == []
    assert (tmp_path / "simulation.png").read_bytes().startswith(b"\x89PNG")


# -- trials and comparators ----------------------------------------------------------


def test_answers_are_values_that_json_knows() -> None:
    values = [np.float64(1.5), np.nan, float("inf"), [np.int64(3), float("nan")], "a"]
    assert [trials._plain(v) for v in values] == [1.5, None, None, [3, None], "a"]
    spec = {"kind": "baseline", "dataset": "simulated-tanks", "lags": 2, "ratio": 0.5}
    result = trials.run(spec)
    assert json.loads(json.dumps(result, allow_nan=False)) == result
    assert 0.0 < result["test_rmse_arx"] < result["test_rmse_persistence"]


@pytest.fixture(scope="module")
def tanks() -> sparsid.datasets.Benchmark:
    return simulated_tanks.simulate(samples=300).benchmark


def linear_record() -> sparsid.Record:
    """Order two, slow input, an offset: everything a linear model should find."""
    rng = np.random.default_rng(0)
    u, y = np.cumsum(rng.normal(size=300)) / 5, np.zeros(300)
    y[:2] = 1.0, 1.1
    for t in range(2, 300):
        y[t] = 1.2 * y[t - 1] - 0.4 * y[t - 2] + 0.5 * u[t - 1] + 0.3
    return sparsid.Record(u, y, 1.0)


def test_linear_comparators_find_a_linear_system() -> None:
    record = linear_record()
    for model in (comparators.linear_arx(2), comparators.Lti(2)):
        run = model.fit(record[:200]).simulate(record[150:])
        assert np.abs(run.mean - record[150:].y)[run.start :].max() < 1e-3
        # From inputs alone, as the record began.
        early = model.simulate(record.u)
        assert early.start == 0
        assert sparsid.rmse(record.y[50:], early.mean[50:])[0] < 0.05


def test_piecewise_map_finds_its_pieces() -> None:
    z = np.concatenate([np.linspace(-3, -1, 50), np.linspace(1, 3, 50)])[:, None]
    y = np.where(z[:, 0] < 0, 2 * z[:, 0], 1 - z[:, 0])
    assert np.allclose(comparators.Piecewise(2).fit(z, y).predict(z), y)


def test_free_run_of_a_comparator_that_diverges_ends_in_nan() -> None:
    record = linear_record()
    model = comparators.linear_arx(1).fit(record)
    model.f.weights = np.array([0.0, 0.0, 2.0, 1.0])
    run = model.simulate(record)
    assert np.isnan(run.mean[-1]).all()
    assert sparsid.rmse(record, run)[0] == math.inf


@pytest.mark.parametrize("name", list(comparators.available()))
def test_comparators_are_scored_by_all_protocols(
    name: str, tanks: sparsid.datasets.Benchmark
) -> None:
    model = comparators.fit_comparator(name, tanks.estimation)
    for protocol in trials.PROTOCOLS:
        assert tanks.score(model, protocol).rmse[0] > 0.0  # type: ignore[arg-type]


def test_unknown_comparator_is_refused(tanks: sparsid.datasets.Benchmark) -> None:
    with pytest.raises(InputError, match="'magic' is not known"):
        comparators.fit_comparator("magic", tanks.estimation)
    with pytest.raises(InputError, match="cannot run freely"):
        tanks.score(comparators.Persistence(2), "A")


# -- processes -----------------------------------------------------------------------


def baselines(count: int) -> list[dict[str, Any]]:
    common = {"kind": "baseline", "dataset": "simulated-tanks", "lags": 1}
    return [{**common, "ratio": round(0.2 + 0.01 * k, 2)} for k in range(count)]


@pytest.fixture
def present(tmp_path: Path) -> Store:
    study = Study.present("prediction", {"dataset": "simulated-tanks"})
    return Store.open(tmp_path / FILE, study)


def test_processes_that_die_lose_no_trial(
    present: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=os.pathsep)
    seen: list[Standing] = []
    specs = [*baselines(6), {"kind": "die"}, {"kind": "unknown"}]
    with pool_for_trials(present, 2, None) as pool:
        team = pool.team  # type: ignore[attr-defined]

        def watch(standing: Standing) -> None:
            seen.append(standing)
            if standing.done == 2:
                team.workers[0].process.kill()

        with monkeypatch.context() as patch:
            patch.setattr(runner, "answer_trial", calls.fragile_trial)
            end = run_trials(present, specs, pool, watch=watch)
        run_trials(present, baselines(8), pool)
        # The same processes go on with other work.
        pids = {worker.process.pid for worker in team.workers}
        run_trials(present, baselines(10), pool)
        assert pids & {worker.process.pid for worker in team.workers}
    assert (end.done, end.total, end.failed, end.seconds_left) == (8, 8, 2, 0.0)
    assert [s.done for s in seen] == list(range(9))
    rows = present.rows()
    errors = {row["kind"]: row["error"] for row in rows if "error" in row}
    assert "died 3 times" in errors["die"]
    assert "exit code 7" in errors["die"]
    assert errors["unknown"] == "KeyError: 'unknown'"
    assert len(rows) == 12
    # What died is tried again by the next run, what failed is not.
    assert present.missing(specs) == [{"kind": "die"}]


def test_code_that_changed_under_way_ends_the_run(tmp_path: Path, study: Study) -> None:
    other = Store.open(tmp_path / FILE, study)
    with (
        pool_for_trials(other, 1, None) as pool,
        pytest.raises(InputError, match="code of sparsid changed"),
    ):
        run_trials(other, baselines(1), pool)
    assert other.rows() == []


def test_a_trial_without_its_data_is_not_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing(spec: Any) -> None:
        raise DatasetUnavailable("set SPARSID_DATA")

    monkeypatch.setattr(trials, "run", missing)
    with pytest.raises(DatasetUnavailable, match=r"On .*: set SPARSID_DATA"):
        runner.answer_trial({}, progress=pytest.fail)


def test_time_left_follows_trials_of_the_same_kind() -> None:
    def spec(method: str, ratio: float, kind: str = "predict") -> Any:
        return {"kind": kind, "method": method, "ratio": ratio}

    pace = Pace([])
    assert pace.seconds(spec("none", 0.5)) is None
    for seconds in (2.0, 4.0):
        pace.add(spec("none", 0.5), seconds)
    pace.add(spec("ridge", 0.5), 9.0)
    assert pace.seconds(spec("none", 0.5)) == 3.0
    assert pace.seconds(spec("none", 0.5, "select")) == 3.0
    assert pace.seconds(spec("ridge", 1.0)) == 9.0
    assert pace.seconds(spec("group-lasso", 1.0)) == 5.0


# -- the command ---------------------------------------------------------------------


def command(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["reproduce", *map(str, arguments)])


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Make quick runs tiny, with compiled programs kept; return their options."""
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(CACHE))
    monkeypatch.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    tiny = {"lags": 1, "hidden": [2], "max_cycles": 3}
    one = {"blocks": 2, "strengths": {"ridge": [1e-3]}}
    monkeypatch.setattr(prediction, "QUICK", {**prediction.QUICK, **tiny, **one})
    monkeypatch.setattr(simulation, "QUICK", {**simulation.QUICK, **tiny})
    some = {"linear ARX, lag 5": "sparsid"}
    monkeypatch.setattr(simulation, "available", lambda: some)
    return ["--quick", "--dataset", "simulated-tanks", "--workers", 1]


def test_prediction_from_trials_to_report(tmp_path: Path, small: list[object]) -> None:
    chosen = ["--ratios", "0.2", "--methods", "ridge,sparse-bayes", "--repeats", 1]
    arguments = ["prediction", *small, *chosen, "--out", tmp_path]
    first = command(*arguments)
    assert first.exit_code == 0, first.output
    assert "choosing strengths, 3 of 3 trials" in first.stderr
    assert "fitting, 2 of 2 trials" in first.stderr
    files = sorted(path.name for path in tmp_path.iterdir())
    for name in ("prediction.md", "prediction.png", "prediction_trials.csv", FILE):
        assert name in files
        assert name == FILE or f"written: {tmp_path / name}" in first.stdout
    table = pd.read_csv(tmp_path / "prediction_trials.csv")
    assert "error" not in table
    assert sorted(table["kind"]) == ["baseline", *["predict"] * 2, *["select"] * 2]
    fits = table[table["kind"] == "predict"].set_index("method")
    assert fits.loc["ridge", "strength"] == 1e-3
    assert fits["test_rmse"].between(0.0, 3.0).all()

    again = command(*arguments, "--quiet")
    assert (again.exit_code, again.output) == (0, "")
    # Nothing is run a second time: durations and times are those of the first.
    assert pd.read_csv(tmp_path / "prediction_trials.csv").equals(table)

    (tmp_path / "prediction.md").unlink()
    report_only = command("prediction", "--report", "--out", tmp_path)
    assert report_only.exit_code == 0, report_only.output
    assert "this is the report of its latest one" in report_only.stderr
    assert (tmp_path / "prediction.md").exists()


def test_simulation_from_trials_to_report(tmp_path: Path, small: list[object]) -> None:
    chosen = ["--methods", "row", "--repeats", 1, "--out", tmp_path]
    result = command("simulation", *small, *chosen)
    assert result.exit_code == 0, result.output
    text = (tmp_path / "simulation.md").read_text()
    assert "linear ARX, lag 5 | run live (sparsid)" in text
    assert "sparse Bayes, rows | ours, fair: mean, 1 repeats" in text
    assert "Trials that failed" not in text


def test_bad_requests_are_refused_in_one_line(tmp_path: Path) -> None:
    for words, *arguments in (
        ("'lasso' is not known", "prediction", "--methods", "lasso"),
        ("--ratios 'a'", "prediction", "--ratios", "a"),
        ("ratio 2 is no share", "prediction", "--ratios", "2"),
        ("--methods is empty", "simulation", "--methods", ","),
        ("no dataset 'boats'", "simulation", "--dataset", "boats"),
        ("there is no store", "simulation", "--report"),
    ):
        result = command(*arguments, "--out", tmp_path / "out")
        assert result.exit_code == 2, result.output
        assert words in result.stderr
        assert result.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())
    (tmp_path / FILE).write_text("mine " * 300)
    arguments = ["simulation", "--dataset", "simulated-tanks", "--out", tmp_path]
    result = command(*arguments)
    assert result.exit_code == 2
    assert "is no store of trials" in result.stderr


def test_ctrl_c_keeps_what_was_answered(tmp_path: Path) -> None:
    arguments = ["simulation", "--quick", "--dataset", "simulated-tanks"]
    process = subprocess.Popen(
        [*INTERRUPTIBLE, *arguments, "--workers", "1", "--out", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    kept = tmp_path / FILE
    try:
        # The first trial compiles its programs, maybe beside a lot of other work.
        stop = time.monotonic() + 600.0
        while not answered(kept) and process.poll() is None:
            assert time.monotonic() < stop, "no trial was answered"
            time.sleep(0.1)
        # As a terminal does: to the command and all its processes.
        os.killpg(process.pid, signal.SIGINT)
        stdout, stderr = process.communicate(timeout=300)
    finally:
        # Nothing is left running, whatever failed.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        with process:
            pass
    assert process.returncode == 130, stderr
    count = answered(kept)
    assert count >= 1
    assert f"stopped: {count} answered trials are kept" in stderr
    assert "the same command continues" in stderr
    assert "Traceback" not in stderr
    assert stdout == ""
    half = command("simulation", "--quick", "--report", "--out", tmp_path)
    assert half.exit_code == 0, half.output
    assert (tmp_path / "simulation.md").exists()


def answered(path: Path) -> int:
    if not path.exists():
        return 0
    with sqlite3.connect(path, timeout=10.0) as db:
        try:
            (count,) = db.execute("SELECT count(*) FROM trials").fetchone()
        except sqlite3.OperationalError:
            return 0
    return int(count)


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_tells_part_count_failures_and_time_left(terminal: bool) -> None:
    console = Console(force_terminal=terminal, width=200, record=True)
    with StudyProgress(console) as progress:
        assert "preparing" in progress.text()
        progress.begin("fitting")
        progress(Standing(3, 10, 1, 200.0))
        line = progress.text()
    assert "fitting, 3 of 10 trials" in line
    assert "1 failed" in line
    assert "about 3 min left" in line


def test_durations_in_words() -> None:
    assert [clock(s) for s in (0.2, 42.0, 600.0, 9000.0)] == [
        "1 s",
        "42 s",
        "10 min",
        "2 h 30 min",
    ]
