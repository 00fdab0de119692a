"""How long a step of a compact model of tanks takes in C, and in Python.

    python benchmarks/c_step.py --out docs/results/c_step.json

Three leaky states in a row that saturate, six neurons, one member, with weights at
random: time does not depend on their values. The best of several runs, so that other
programs on the computer count little.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import timeit
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from exported_models import compact_tanks, inputs

from sparsid.export.package import write_export

BAR = 1e-6
REPETITIONS = 7
TIMER = r"""
#include <stdio.h>
#include <time.h>
#include "tank.h"

int main(void)
{
    const long steps = 1000000;
    tank_real u[1] = {0}, y[1] = {0}, sum = 0;
    tank_state state;
    tank_start(&state, u, tank_own_start);
    const clock_t began = clock();
    for (long k = 0; k < steps; k++) {
        u[0] = (tank_real)((k >> 4) & 3) - (tank_real)1.5;
        tank_step(&state, u, y);
        sum += y[0];
    }
    const double seconds = (double)(clock() - began) / CLOCKS_PER_SEC;
    printf("%.4g %g\n", seconds / steps, (double)sum);
    return 0;
}
"""


def c_seconds(precision: str) -> float:
    """Return the seconds of processor time that a step takes."""
    with tempfile.TemporaryDirectory() as room:
        folder = write_export(
            compact_tanks(), "c", Path(room) / "c", name="tank", precision=precision
        )
        (folder / "timer.c").write_text(TIMER)
        command = ["gcc", "-std=c99", "-O2", "timer.c", "tank.c", "-lm", "-o", "timer"]
        subprocess.run(command, cwd=folder, check=True)
        times = []
        for _ in range(REPETITIONS):
            said = subprocess.run(
                ["./timer"], cwd=folder, check=True, capture_output=True, text=True
            )
            times.append(float(said.stdout.split()[0]))
    return min(times)


def python_seconds() -> float:
    """Return the seconds that a call of the stepper takes."""
    model = compact_tanks()
    stepper, u = model.stepper(), inputs(model, 1)[0]
    stepper.step(u)
    return min(timeit.repeat(lambda: stepper.step(u), number=1000, repeat=9)) / 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    out = parser.parse_args().out
    found: dict[str, Any] = {
        "model": "cascade, 3 states, 6 neurons, one member, saturating",
        "bar_seconds": BAR,
        "c_double_seconds": c_seconds("double"),
        "c_float_seconds": c_seconds("float"),
        "python_stepper_seconds": python_seconds(),
    }
    found["within_bar"] = found["c_double_seconds"] < BAR
    out.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    print(out.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
