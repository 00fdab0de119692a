"""Slices of the attacks, so that they are ready when they are needed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[1] / "tools"


@pytest.mark.parametrize(
    "share",
    [
        ["--inputs", "6", "--models", "0"],
        ["--inputs", "0", "--models", "30", "--kinds", "linear"],
    ],
)
def test_a_slice_of_the_attack_finds_nothing(share: list[str]) -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "attack", "--seed", "7", *share),
            *("--kills", "0", "--studies", "0"),
        ],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{TOOLS}{os.pathsep}{_path()}"},
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def _path() -> str:
    return os.pathsep.join(p for p in sys.path if p)
