"""How long the command and the library take to be there, and what is compiled when.

    python benchmarks/start_up.py --out docs/results/start_up.json

Medians over fresh processes, after one that warms the disk. Then fits at constant size,
with every compilation counted by JAX's own events: once each program has been used, a
cycle compiles nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

STARTS = {
    "sparsid --help": ("-m", "sparsid.cli", "--help"),
    "import sparsid": ("-c", "import sparsid"),
    "sparsid.NARX, numerical libraries loaded": ("-c", "import sparsid; sparsid.NARX"),
}
BARS = {"sparsid --help": 1.0, "import sparsid": 2.0}
EVENT = "/jax/core/compile/backend_compile_duration"
# Cycles after which every program has been used: a state-space fit goes through its
# warm-up first.
SETTLED = 15
CYCLES = 30


def start_ups(repetitions: int) -> list[dict[str, Any]]:
    """Return median times of fresh processes, taken in turn."""
    walls: dict[str, list[float]] = {name: [] for name in STARTS}
    cpus: dict[str, list[float]] = {name: [] for name in STARTS}
    for repetition in range(repetitions + 1):
        for name, arguments in STARTS.items():
            before, began = os.times(), time.perf_counter()
            subprocess.run(
                [sys.executable, *arguments], stdout=subprocess.DEVNULL, check=True
            )
            wall, after = time.perf_counter() - began, os.times()
            if repetition:
                walls[name].append(wall)
                cpus[name].append(
                    after.children_user
                    + after.children_system
                    - before.children_user
                    - before.children_system
                )
    return [
        {
            "what": name,
            "wall_seconds": statistics.median(walls[name]),
            "cpu_seconds": statistics.median(cpus[name]),
            "bar_seconds": BARS.get(name),
        }
        for name in STARTS
    ]


def compilations() -> list[dict[str, Any]]:
    """Return the programs compiled in every cycle of fits at constant size."""
    from jax import monitoring

    import sparsid

    count = 0

    def listen(event: str, duration: float, **_: Any) -> None:
        nonlocal count
        count += event == EVENT

    monitoring.register_event_duration_secs_listener(listen)
    record = sparsid.datasets.load("simulated-tanks").estimation[:300]
    models = {
        "NARX, 11-20-20-1": sparsid.NARX(
            hidden=(20, 20), prune=False, max_cycles=CYCLES, tolerance=0.0
        ),
        "StateSpace, two members": sparsid.StateSpace(
            starts=2, max_cycles=CYCLES, tolerance=0.0
        ),
    }
    out = []
    for name, model in models.items():
        totals = [count]
        model.fit(record, progress=lambda _, totals=totals: totals.append(count))
        by_cycle = [b - a for a, b in pairwise(totals)]
        out.append(
            {
                "model": name,
                "cycles": len(by_cycle),
                "compilations_by_cycle": by_cycle,
                "settled_after_cycle": SETTLED,
                "compilations_after": sum(by_cycle[SETTLED:]),
            }
        )
    return out


def main() -> None:
    """Measure, print tables, write JSON if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=9)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    result = {
        "repetitions": options.repetitions,
        "start_up": start_ups(options.repetitions),
        "compilations": compilations(),
    }
    print("| | wall (s) | CPU (s) | bar (s) |\n|---|---|---|---|")
    for row in result["start_up"]:
        bar = "" if row["bar_seconds"] is None else f"{row['bar_seconds']:g}"
        print(
            f"| {row['what']} | {row['wall_seconds']:.2f} | {row['cpu_seconds']:.2f} | "
            f"{bar} |"
        )
    print()
    for row in result["compilations"]:
        print(
            f"{row['model']}: {sum(row['compilations_by_cycle'])} compilations in "
            f"{row['cycles']} cycles, {row['compilations_after']} after cycle {SETTLED}"
        )
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
