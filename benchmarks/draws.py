"""Time of 1000 posterior free runs of 1024 samples, after compilation.

    python benchmarks/draws.py --out docs/results/draws.json

As a ratio too: against the free run of the same model without draws.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

import sparsid
from sparsid.datasets import simulated_tanks

DRAWS, REPEATS = 1000, 5


def measured(model: Any, inputs: Any, samples: int) -> float:
    """Return the median seconds of a run, compiled before."""
    model.simulate(inputs, samples=samples)
    seconds = []
    for seed in range(REPEATS):
        began = time.perf_counter()
        model.simulate(inputs, samples=samples, seed=seed)
        seconds.append(time.perf_counter() - began)
    return float(np.median(seconds))


def main() -> None:
    """Measure both kinds of model, print and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    record = simulated_tanks.simulate(0).benchmark.estimation
    models = {
        "narx": sparsid.NARX(),
        # How long it was fitted does not change what a draw costs.
        "state-space": sparsid.StateSpace(max_cycles=15),
    }
    result: dict[str, Any] = {"draws": DRAWS, "samples": len(record)}
    for name, model in models.items():
        model.fit(record)
        drawn, plain = measured(model, record.u, DRAWS), measured(model, record.u, 0)
        result[name] = {
            "seconds": drawn,
            "seconds_without_draws": plain,
            "ratio": drawn / plain,
        }
        print(name, result[name], flush=True)
    if args.out:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
