"""The tables at the end of an identification, and its last two lines."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from sparsid import Record
from sparsid.cli.app import app
from sparsid.data.files import write_csv


@pytest.fixture(scope="module")
def identified(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    folder = tmp_path_factory.mktemp("tables")
    rng = np.random.default_rng(0)
    u, y = rng.normal(size=160), np.zeros(160)
    for t in range(1, 160):
        y[t] = 0.8 * y[t - 1] + u[t - 1]
    record = Record(u, y + 0.3 * rng.normal(size=160), 0.5)
    columns = {"clock": record.time, "valve": record.u[:, 0], "flow": record.y[:, 0]}
    write_csv(folder / "plant.csv", columns, {})
    short = ["-i", "valve", "-o", "flow", "--time", "clock", "--no-report"]
    small = ["--structure", "linear first", "--states", "1", "--neurons", "1"]
    out = ["--out", str(folder / "r")]
    result = CliRunner().invoke(
        app, ["identify", str(folder / "plant.csv"), *short, *small, *out]
    )
    assert result.exit_code == 0, result.output
    return folder, result


def test_the_end_names_data_model_fit_and_where_to_look(
    identified: tuple[Path, Result],
) -> None:
    folder, result = identified
    last = " ".join(result.stdout.split("\n\n")[-1].split())
    assert last.startswith("plant: a simulation model of the kind 'linear first")
    assert "free-run fit on the test part " in last
    assert last.endswith(f"To look at it: see {folder / 'r'}")
    found = json.loads((folder / "r" / "result.json").read_text())
    fit = found["scores"]["test"]["free_run_fit_percent"][0]
    assert f"{fit:.1f} %" in last
    assert found["data"]["estimation_samples"] == [120]


def test_why_a_candidate_was_chosen_stands_under_the_table(
    identified: tuple[Path, Result],
) -> None:
    text = " ".join(identified[1].stdout.split())
    assert "(chosen)" in text
    assert "The chosen candidate has" in text
    assert "of the linear model" in text


def test_a_linear_winner_stands_alone(capsys: pytest.CaptureFixture[str]) -> None:
    from types import SimpleNamespace

    from rich.console import Console, Group

    from sparsid.cli.tables import _candidates

    tried: list[dict[str, Any]] = [
        {"name": "linear, 1 states", "held_out_error": 0.3},
        {"name": "cascade, 2 states", "held_out_error": 0.29},
    ]
    details = {
        "candidates": tried,
        "chosen_candidate": "linear, 1 states",
        "chosen_because": "the linear model is taken: 0.29 is not clearly better",
    }
    fitted = SimpleNamespace(
        details=details, several_called="member", evidences=np.array([1.0])
    )
    Console().print(Group(*_candidates(SimpleNamespace(fitted_=fitted))))
    told = capsys.readouterr().out
    assert "linear, 1 states (chosen)" in told
    assert "cascade" not in told
    assert "0.29 is not clearly better." in told
