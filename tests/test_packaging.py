"""What the package tells installers, type checkers and other tools."""

import subprocess
import sys
import tomllib
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


def test_the_citation_names_this_version() -> None:
    lines = (ROOT / "CITATION.cff").read_text().splitlines()
    assert f"version: {PROJECT['version']}" in lines
    assert f"license: {PROJECT['license']}" in lines


@pytest.mark.parametrize("name", ["CITATION.cff", ".pre-commit-config.yaml"])
def test_yaml_files_can_be_read(name: str) -> None:
    yaml = pytest.importorskip("yaml")
    assert yaml.safe_load((ROOT / name).read_text())
