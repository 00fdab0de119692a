"""How long an identification takes, by the size of the record.

    python benchmarks/waiting.py --out docs/results/waiting.json

Simulated systems with as many inputs as outputs: leaky states in a row, a saturating
input. Wall seconds of the linear model alone and of the whole, everything compiled
before, on all cores of an idle machine.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np

from sparsid import Record, Simulator

SIZES = ((300, 1), (1_000, 1), (3_000, 1), (10_000, 1), (100_000, 1), (1_000, 2))


def recorded(samples: int, channels: int) -> Record:
    """Return a record of a nonlinear system."""
    rng = np.random.default_rng(0)
    u = np.repeat(rng.normal(size=(samples // 10 + 1, channels)), 10, 0)[:samples]
    x, y = np.zeros((2, channels)), np.zeros((samples, channels))
    for t in range(samples):
        y[t] = x[1]
        x[1] += 0.1 * (x[0] - x[1])
        x[0] += 0.2 * (np.tanh(u[t] + 0.3 * np.roll(u[t], 1)) - x[0])
    return Record(u, y + 0.02 * y.std() * rng.normal(size=y.shape))


def seconds(model: Simulator, record: Record) -> tuple[float, Simulator]:
    began = time.perf_counter()
    model.fit(record)
    return time.perf_counter() - began, model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    # What is compiled once on a computer is no part of it.
    Simulator("linear first", states=1, neurons=1).fit(recorded(200, 1))
    rows: list[dict[str, Any]] = []
    for samples, channels in SIZES:
        record = recorded(samples, channels)
        linear, _ = seconds(Simulator("linear"), record)
        whole, model = seconds(Simulator(), record)
        rows.append(
            {
                "samples": samples,
                "inputs": channels,
                "outputs": channels,
                "linear_seconds": linear,
                "seconds": whole,
                "chosen": model.fitted_.name,
            }
        )
        print(json.dumps(rows[-1]), flush=True)
    if options.out:
        found = {"cores": os.cpu_count(), "rows": rows}
        options.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
