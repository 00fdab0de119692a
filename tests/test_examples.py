"""Every example runs, and leaves what it says."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
LEFT_BEHIND = {
    "embedded_c.py": ["controller"],
    "first_model.py": ["free_run.png", "history.png", "tanks.sparsid"],
    "linear_tools.py": ["linear_tools.png"],
    "own_csv.py": ["friday.csv", "monday.csv", "tuesday.csv"],
    "several_records.py": ["motor.png"],
    "short_data.py": ["oven.png"],
    "two_outputs.py": ["mixing.csv"],
}
# What needs more than the tests install, for its own reasons.
ELSEWHERE = {"mpc_tanks.py"}
NAMES = sorted({p.name for p in EXAMPLES.glob("*.py")} - ELSEWHERE)


@pytest.mark.parametrize("name", NAMES)
def test_example_runs(name: str, tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", str(EXAMPLES / name), str(tmp_path)]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=tmp_path, env=dict(os.environ)
    )
    assert done.returncode == 0, done.stderr
    assert " model of " in done.stdout
    assert sorted(p.name for p in tmp_path.iterdir()) == LEFT_BEHIND[name]
