"""Generated C: compiled strictly, run under sanitizers, compared with the free run."""

import ctypes
import subprocess
from pathlib import Path

import numpy as np
import pytest
from exported_models import MODELS, free_run, inputs, relative, simulator

from sparsid.export.package import write_export

STRICT = ["gcc", "-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror"]
SANITIZED = ["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]


def call(*command: str, cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def run(folder: Path, u, outputs, precision="double"):
    """Free run of a compiled model."""
    call(*STRICT, "-O2", "-shared", "-fPIC", "model.c", "-lm", "-o", "m.so", cwd=folder)
    library = ctypes.CDLL(str(folder / "m.so"))
    kind = np.float64 if precision == "double" else np.float32
    state = np.zeros(100_000, kind)
    values = np.ascontiguousarray(u, dtype=kind)
    y = np.zeros((len(u), outputs), kind)

    def at(array):
        return ctypes.c_void_p(array.ctypes.data)

    own = ctypes.addressof(ctypes.c_char.in_dll(library, "model_own_start"))
    library.model_start(at(state), at(values[0]), ctypes.c_void_p(own))
    for t in range(len(u)):
        library.model_step(at(state), at(values[t]), at(y[t]))
    return y.astype(float)


@pytest.mark.parametrize("kind", MODELS)
def test_a_thousand_steps_are_the_free_run(kind, tmp_path):
    model = MODELS[kind]()
    u = inputs(model)
    expected = free_run(model, u)
    double = write_export(model, "c", tmp_path / "double")
    assert relative(run(double, u, expected.shape[1]), expected) < 1e-9
    single = write_export(model, "c", tmp_path / "single", precision="float")
    assert relative(run(single, u, expected.shape[1], "float"), expected) < 1e-3


@pytest.mark.parametrize(
    ("kind", "precision"),
    [
        *((kind, "double") for kind in MODELS),
        ("several channels and delays", "float"),
        ("one step", "float"),
    ],
)
def test_the_check_runs_clean_under_sanitizers(kind, precision, tmp_path):
    folder = write_export(
        MODELS[kind](), "c", tmp_path / "out", precision=precision, name="plant"
    )
    build = [*STRICT, *SANITIZED, "check.c", "plant.c", "-lm", "-o", "check"]
    call(*build, cwd=folder)
    said = call("./check", "test_vectors.csv", cwd=folder)
    assert "all 200 samples agree" in said


def test_the_check_notices_a_wrong_model(tmp_path):
    folder = write_export(simulator("linear"), "c", tmp_path / "out")
    text = (folder / "model.c").read_text()
    (folder / "model.c").write_text(text.replace("sum += ", "sum -= "))
    call(*STRICT, "check.c", "model.c", "-lm", "-o", "check", cwd=folder)
    done = subprocess.run(["./check", "test_vectors.csv"], cwd=folder, check=False)
    assert done.returncode == 1


def test_names_of_channels_cannot_leave_a_comment(tmp_path):
    from dataclasses import replace

    model = simulator("linear")
    bad = replace(model.channels, input_names=("*/ #error \\",), input_units=("?",))
    folder = write_export(replace(model, channels=bad), "c", tmp_path / "out")
    call(*STRICT, "-c", "model.c", cwd=folder)


def test_only_prefixed_names_are_visible(tmp_path):
    # A function called `step` met that of the C library once.
    folder = write_export(simulator("cascade", members=2), "c", tmp_path / "out")
    call(*STRICT, "-c", "model.c", cwd=folder)
    names = call("nm", "--defined-only", "-g", "model.o", cwd=folder).split()[2::3]
    assert names
    assert all(name.startswith("model_") for name in names)
