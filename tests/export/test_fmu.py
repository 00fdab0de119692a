"""FMUs: valid, stepped by another program, hidden symbols, sources inside."""

import io
import subprocess
import sys
import zipfile
from dataclasses import replace

import pytest
from exported_models import MODELS, simulator

from sparsid.export import fmu
from sparsid.export.fmu import fmu_files
from sparsid.export.package import design_of, write_export


def named(model, inputs, outputs):
    channels = replace(model.channels, input_names=inputs, output_names=outputs)
    return replace(model, channels=channels)


@pytest.mark.parametrize(
    "kind", ["several channels and delays", "no inputs", "one step"]
)
def test_both_fmus_are_valid_and_agree_step_by_step(kind, tmp_path):
    # The check validates, steps, and asks for half a step, which has to be refused.
    folder = write_export(MODELS[kind](), "fmu", tmp_path / "out", name="plant")
    done = subprocess.run(
        [sys.executable, "check.py"], cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "plant.fmu all 200 samples agree" in done.stdout
    assert "plant_fmi3.fmu all 200 samples agree" in done.stdout


def test_a_simulation_by_another_program_starts_where_it_is_told(tmp_path):
    import fmpy
    import numpy as np

    model = simulator("linear", nu=0, seed=2)
    folder = write_export(model, "fmu", tmp_path / "out")
    stepper = model.stepper()
    stepper.reset([1.0, -2.0, 0.5, 0.0])
    expected = [stepper.step([])[0] for _ in range(21)]
    for file in ("model.fmu", "model_fmi3.fmu"):
        found = fmpy.simulate_fmu(
            str(folder / file),
            start_values={"start[1]": 1.0, "start[2]": -2.0, "start[3]": 0.5}
            | {"start[4]": 0.0},
            stop_time=10.0,
            output_interval=0.5,
        )
        np.testing.assert_allclose(found["level 0 µ"], expected, rtol=1e-9)


def test_nothing_but_the_fmi_can_be_seen_and_sources_are_inside(tmp_path):
    # A function called `step` met that of the C library once.
    for name, version in (("model.fmu", 2), ("model_fmi3.fmu", 3)):
        content = fmu_files(design_of(simulator("cascade", members=2)))[name]
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            files = archive.namelist()
            library = next(f for f in files if f.startswith("binaries/"))
            archive.extractall(tmp_path / name)
        for source in ("model.c", "model.h", "fmu.h", f"fmi{version}.c"):
            assert f"sources/{source}" in files
        command = ["nm", "-D", "--defined-only", str(tmp_path / name / library)]
        said = subprocess.run(command, capture_output=True, text=True, check=True)
        names = said.stdout.split()[2::3]
        assert names
        assert all(n.startswith(f"fmi{version}") for n in names)
        strict = ["gcc", "-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror", "-c"]
        sources = tmp_path / name / "sources"
        subprocess.run([*strict, f"fmi{version}.c"], cwd=sources, check=True)


def test_without_a_compiler_an_fmu_has_its_sources_alone(monkeypatch):
    monkeypatch.setattr(fmu.shutil, "which", lambda name: None)
    content = fmu_files(design_of(simulator("linear")))["model.fmu"]
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        files = archive.namelist()
    assert "sources/model.c" in files
    assert not [f for f in files if f.startswith("binaries/")]


def test_channels_with_the_same_name_or_called_time_stay_apart(tmp_path):
    import fmpy.validation

    model = named(simulator("linear"), ("time",), ("a < b & c",))
    folder = write_export(model, "fmu", tmp_path / "one")
    both = named(simulator("linear"), ("level",), ("level",))
    other = write_export(both, "fmu", tmp_path / "two")
    for place in (folder, other):
        for file in ("model.fmu", "model_fmi3.fmu"):
            assert not fmpy.validation.validate_fmu(str(place / file))


def test_the_same_model_gives_the_same_file():
    model = simulator("linear")
    assert fmu_files(design_of(model)) == fmu_files(design_of(model))
