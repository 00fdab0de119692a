"""Folders with exports: complete, refused, replaced."""

import json
import subprocess
import sys

import numpy as np
import pytest
from exported_models import MODELS, free_run, inputs, regression, relative, simulator

from sparsid.errors import InputError
from sparsid.export.package import write_export


@pytest.mark.parametrize("kind", MODELS)
def test_the_numpy_module_repeats_the_free_run(kind, tmp_path):
    model = MODELS[kind]()
    folder = write_export(model, "numpy", tmp_path / "out", name="plant")
    u = inputs(model)
    np.savez(tmp_path / "u.npz", u=u)
    # Not in this process: the module is to work where there is no sparsid.
    code = (
        "import sys, numpy as np, plant\n"
        "u = np.load('../u.npz')['u']\n"
        "np.save('../y.npy', plant.run(u))\n"
        "print(any(m.startswith('sparsid') for m in sys.modules))\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert done.stdout == "False\n", done.stderr
    assert relative(np.load(tmp_path / "y.npy"), free_run(model, u)) < 1e-9


def test_the_check_of_a_numpy_module_passes_and_notices_changes(tmp_path):
    folder = write_export(simulator("cascade", members=3), "numpy", tmp_path / "out")
    command = [sys.executable, "check.py"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert "all 200 samples agree" in done.stdout, done.stderr
    text = (folder / "model.py").read_text()
    (folder / "model.py").write_text(text.replace("return following", "return x"))
    broken = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert broken.returncode != 0


def test_a_folder_says_what_it_holds(tmp_path):
    folder = write_export(simulator("cascade", members=3), "numpy", tmp_path / "out")
    files = {path.name for path in folder.iterdir()}
    beside = {"README.md", "check.py", "export.json", "test_vectors.csv"}
    assert files == {"model.py", *beside}
    facts = json.loads((folder / "export.json").read_text())
    assert facts["outputs"] == ["level 0 µ [°C]"]
    assert facts["dt"] == 0.5
    page = (folder / "README.md").read_text()
    assert "Bands, and everything else about uncertainty, stay in Python" in page
    assert "the median over 3 members" in page


def test_folders_of_others_stay_and_exports_are_replaced_on_demand(tmp_path):
    model, folder = simulator("linear"), tmp_path / "out"
    folder.mkdir()
    write_export(model, "numpy", folder)
    with pytest.raises(InputError, match="holds an export already"):
        write_export(model, "numpy", folder)
    write_export(model, "c", folder, overwrite=True)
    assert not (folder / "model.py").exists()
    assert (folder / "model.c").exists()
    (folder / "export.json").unlink()
    with pytest.raises(InputError, match="other files than an export"):
        write_export(model, "c", folder, overwrite=True)
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"to": "matlab"}, "numpy"),
        ({"combine": "best"}, "member:K"),
        ({"combine": "member:7"}, "0 to 2"),
        ({"combine": "member:-1"}, "not known"),
        ({"precision": "half"}, "float"),
        ({"to": "numpy", "precision": "float"}, "have doubles"),
        ({"name": "while"}, "no word of C"),
        ({"name": "a-b"}, "letters"),
    ],
)
def test_bad_requests_are_refused_and_leave_nothing(wrong, message, tmp_path):
    request = {"to": "c", **wrong}
    to = request.pop("to")
    with pytest.raises(InputError, match=message):
        write_export(simulator("linear", members=3), to, tmp_path / "out", **request)
    assert not list(tmp_path.iterdir())


def test_compact_is_refused_where_there_is_none(tmp_path):
    with pytest.raises(InputError, match="no compact form"):
        write_export(regression(), "c", tmp_path / "out", combine="compact")


def test_the_compact_form_of_a_model_that_has_one_is_taken(tmp_path, monkeypatch):
    model = simulator("cascade", members=3)
    kind = type(model)
    monkeypatch.setattr(kind, "compact", lambda self: self.member(2), raising=False)
    folder = write_export(model, "numpy", tmp_path / "out", combine="compact")
    u = inputs(model, 100)
    namespace: dict = {}
    exec((folder / "model.py").read_text(), namespace)
    assert relative(namespace["run"](u), free_run(model.member(2), u)) < 1e-9


def test_one_member_and_the_mean(tmp_path):
    model = simulator("linear first", members=3)
    u = inputs(model, 100)
    runs = [free_run(model.member(k), u) for k in range(3)]
    for combine, expected in [("member:1", runs[1]), ("mean", np.mean(runs, axis=0))]:
        where = tmp_path / combine.replace(":", "")
        folder = write_export(model, "numpy", where, combine=combine)
        namespace: dict = {}
        exec((folder / "model.py").read_text(), namespace)
        assert relative(namespace["run"](u), expected) < 1e-9
