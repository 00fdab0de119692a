"""What the command says before it works: help, completion, mistyped names."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sparsid import datasets
from sparsid.cli import options
from sparsid.cli.app import app
from sparsid.cli.identify import KINDS
from sparsid.simulation.wanted import STRUCTURES

HEAVY = ("numpy", "jax", "pandas", "matplotlib", "sklearn", "numba", "scipy")


def alone(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
    )
    return done.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ["identify", "pomp.csv"],
        ["predict", "model.sparsid", "pomp.csv"],
        ["simulate", "model.sparsid", "pomp.csv"],
        ["report", "model.sparsid", "pomp.csv"],
        ["info", "pomp.csv"],
    ],
)
def test_a_mistyped_name_waited_for_the_libraries(
    arguments: list[str], tmp_path: Path
) -> None:
    for name in ("pump.csv", "model.sparsid"):
        (tmp_path / name).write_text("")
    code = f"""
import os, sys
os.chdir({str(tmp_path)!r})
sys.argv = ["sparsid", *{arguments!r}]
sys.stderr = sys.stdout
from sparsid.cli.app import app
try:
    app()
except SystemExit as end:
    print(end.code, [name for name in {HEAVY!r} if name in sys.modules])
"""
    said, end = alone(code).splitlines()
    assert said.endswith(
        "pomp.csv does not exist: check the name and the folder. Is it pump.csv?"
    )
    assert end == "2 []"


def test_flags_looked_as_if_they_took_a_value() -> None:
    for command in ([], ["identify"], ["reproduce", "prediction"]):
        shown = CliRunner().invoke(app, [*command, "--help"]).output
        assert "--help" in shown
        assert "<bool>" not in shown
        assert "BOOLEAN" not in shown


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("sparsid ident", ["identify"]),
        ("sparsid identify --benchmark silv", ["silverbox"]),
        ("sparsid identify --structure casc", ["cascade"]),
        ("sparsid identify --model stat", ["state-space"]),
        ("sparsid identify --test-f", ["--test-fraction"]),
    ],
)
def test_a_shell_completes(words: str, expected: list[str]) -> None:
    code = "from sparsid.cli.app import app; app(prog_name='sparsid')"
    told = alone(
        f"import sys; sys.argv = ['sparsid']; {code}",
        _SPARSID_COMPLETE="complete_bash",
        COMP_WORDS=words,
        COMP_CWORD=str(len(words.split()) - 1),
    )
    assert told.split() == expected


def test_completion_is_installed_for_a_shell(tmp_path: Path) -> None:
    code = "from sparsid.cli.app import app; app(prog_name='sparsid')"
    arguments = "['sparsid', '--install-completion', 'bash']"
    alone(f"import sys; sys.argv = {arguments}; {code}", HOME=str(tmp_path))
    assert "sparsid.sh" in (tmp_path / ".bashrc").read_text()


def test_what_a_shell_completes_is_what_there_is() -> None:
    assert datasets.NAMES == options.BENCHMARKS
    assert set(KINDS) == set(options.KINDS)
    assert options.STRUCTURES == STRUCTURES
