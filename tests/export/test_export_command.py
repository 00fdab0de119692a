"""``sparsid export``: what it leaves and what it refuses."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from exported_models import simulator
from typer.testing import CliRunner

import sparsid
from sparsid.cli.app import app
from sparsid.errors import InputError
from sparsid.estimators import Simulator


@pytest.fixture(scope="module")
def model_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    model = Simulator()
    fitted = simulator("cascade", members=3)
    model.fitted_ = replace(fitted, details={"notes": []})
    path = tmp_path_factory.mktemp("model") / "model.sparsid"
    model.save(path)
    return path


def run(*arguments: object):
    return CliRunner().invoke(app, ["export", *map(str, arguments)])


def test_files_are_listed(model_file, tmp_path):
    result = run(model_file, "--to", "c", "--out", tmp_path / "c", "--name", "tank")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "c" / "tank.c").is_file()
    listed = run(
        model_file, "--to", "c", "--out", tmp_path / "c", "--overwrite", "--json"
    )
    facts = json.loads(listed.stdout)
    assert str(tmp_path / "c" / "model.c") in facts["files"]
    assert not (tmp_path / "c" / "tank.c").exists()


def test_combinations_are_passed_on(model_file, tmp_path):
    out = tmp_path / "one"
    choice = ["--combine", "member:2", "--precision", "float"]
    result = run(model_file, "--to", "st", "--out", out, *choice)
    assert result.exit_code == 0, result.output
    facts = json.loads((out / "export.json").read_text())
    assert (facts["combine"], facts["precision"]) == ("member:2", "float")


def test_a_folder_of_others_is_refused(model_file, tmp_path):
    (tmp_path / "diary.txt").write_text("mine")
    result = run(model_file, "--to", "c", "--out", tmp_path)
    assert result.exit_code == 2
    assert [p.name for p in tmp_path.iterdir()] == ["diary.txt"]


def test_the_estimator_exports_and_steps(model_file, tmp_path):
    model = sparsid.load(model_file)
    assert model.export("numpy", tmp_path / "out") == tmp_path / "out"
    stepper = model.stepper()
    u = np.array([0.1])
    expected = model.simulate(u[:, None], samples=0).mean[0]
    np.testing.assert_allclose(stepper.step(u), expected, rtol=1e-12)
    with pytest.raises(InputError, match="not known"):
        model.stepper("best")


def test_the_compact_form_of_an_estimator_is_taken(model_file, monkeypatch, tmp_path):
    def compact(self):
        small = Simulator()
        small.fitted_ = self.fitted_.member(1)
        return small

    monkeypatch.setattr(Simulator, "compact", compact, raising=False)
    model = sparsid.load(model_file)
    u = np.array([[0.1]])
    expected = model.fitted_.member(1).simulate(u, samples=0).mean[0]
    np.testing.assert_allclose(model.stepper("compact").step(u[0]), expected)
    folder = model.export("numpy", tmp_path / "out", combine="compact")
    assert "STATES = 1, 1, 4" in (folder / "model.py").read_text()
