"""What the package tells installers, type checkers and other tools."""

import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib.resources import files
from pathlib import Path

import pytest

import sparsid

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_type_checkers_were_not_told_that_the_package_is_typed() -> None:
    assert (files("sparsid") / "py.typed").is_file()
    assert "Typing :: Typed" in PROJECT["classifiers"]


def test_python_dash_m_sparsid_did_not_work() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "sparsid", "--version"],
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout == f"sparsid {sparsid.__version__}\n"


def test_the_changelog_begins_with_this_version() -> None:
    lines = (ROOT / "CHANGELOG.md").read_text().splitlines()
    first = next(line for line in lines if line.startswith("## "))
    assert first.split()[1] == PROJECT["version"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy: nothing is left beside the sources."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    leave = shutil.ignore_patterns("__pycache__", "*.nbi", "*.nbc")
    shutil.copytree(ROOT / "src", source / "src", ignore=leave)
    run("-m", "build", "--wheel", "--no-isolation", "--outdir", folder, source)
    (found,) = folder.glob("*.whl")
    return found


def run(*arguments: object, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_wheel_holds_every_file_of_the_package_and_nothing_else(
    wheel: Path,
) -> None:
    assert "PASSED" in run("-m", "twine", "--no-color", "check", "--strict", wheel)
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    about = f"sparsid-{PROJECT['version']}.dist-info/"
    inside = {name for name in names if not name.startswith(about)}
    source = ROOT / "src"
    expected = {
        str(path.relative_to(source))
        for path in (source / "sparsid").rglob("*")
        if path.is_file() and path.suffix not in (".pyc", ".nbi", ".nbc")
    }
    assert inside == expected
    assert {"sparsid/py.typed", "sparsid/report/chart.js"} <= inside


def test_the_installed_wheel_works(wheel: Path, tmp_path: Path) -> None:
    place = tmp_path / "place"
    run("-m", "pip", "install", "--quiet", "--no-deps", "--target", place, wheel)
    assert (place / "bin" / "sparsid").is_file()
    code = "import sparsid; print(sparsid.__version__, sparsid.__file__)"
    version, home = run("-c", code, PYTHONPATH=str(place)).split()
    assert version == PROJECT["version"]
    assert Path(home).is_relative_to(place)
    shown = run("-m", "sparsid", "--help", PYTHONPATH=str(place))
    assert "identify" in shown


def test_the_citation_names_this_version() -> None:
    lines = (ROOT / "CITATION.cff").read_text().splitlines()
    assert f"version: {PROJECT['version']}" in lines
    assert f"license: {PROJECT['license']}" in lines


@pytest.mark.parametrize("name", ["CITATION.cff", ".pre-commit-config.yaml"])
def test_yaml_files_can_be_read(name: str) -> None:
    yaml = pytest.importorskip("yaml")
    assert yaml.safe_load((ROOT / name).read_text())
