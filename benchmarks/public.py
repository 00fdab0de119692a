"""Free runs on the public benchmarks: the automatic mode, seed by seed, and its rivals.

    SPARSID_DATA=folder python benchmarks/public.py --out docs/results/public.json
    SPARSID_DATA=folder python benchmarks/public.py --only silverbox --seeds 1

Everything about a model is chosen inside the training part. Each test record scores the
finished model once, from the end of the benchmark's start window on. What was measured
is written after every fit, so that a run can be ended at any time.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from pathlib import Path
from typing import Any

import numpy as np

import sparsid
from sparsid import datasets
from sparsid.data.scaling import Scaling
from sparsid.datasets import public
from sparsid.validation.baselines import Arx

NAMES = ("cascaded-tanks", *public.SOURCES)
# Published free-run errors on the same test parts, in the unit of the output: best
# known, usual black box, linear.
PUBLISHED: dict[str, dict[str, list[float]]] = {
    "silverbox": {
        "multisine": [0.00026, 0.0015, 0.0069],
        "arrow": [0.0014, 0.0028, 0.014],
        "arrow without extrapolation": [0.00031, 0.00095, 0.0066],
    },
    "wiener-hammerstein": {"test": [0.00024, 0.004, 0.043]},
    "coupled-drives-1": {"test": [0.06, 0.10, 0.21]},
    "coupled-drives-2": {"test": [0.06, 0.10, 0.37]},
}


def tests_of(benchmark: datasets.Benchmark) -> dict[str, sparsid.Record]:
    if benchmark.name in public.SOURCES:
        return public.all_tests(benchmark.name)
    return {"test": benchmark.reveal_test()}


def rmse(errors: Any) -> float:
    return float(np.sqrt(np.mean(np.square(errors))))


def scored(model: Any, arx: Arx, benchmark: datasets.Benchmark) -> dict[str, Any]:
    """Return the errors of a finished model on every test record."""
    found: dict[str, Any] = {}
    for name, test in tests_of(benchmark).items():
        window = benchmark.window or 0
        start = test.y[:window] if window else None
        free = model.simulate(test.u, start, samples=0).mean[window:]
        ahead = model.predict(test)
        first = max(ahead.start, arx.lags.max_lag)
        low, high = model.simulate(test).band(0.9)
        inside = (low <= test.y) & (test.y <= high)
        known = np.isfinite(low)
        found[name] = {
            "free_run": rmse(free - test.y[window:]),
            "deviation": float(test.y.std()),
            "one_step": rmse(ahead.mean[first:] - test.y[first:]),
            "one_step_arx": rmse(arx.predict(test)[first:] - test.y[first:]),
            "inside_90": float(inside[known].mean()),
            "width_90": float((high - low)[known].mean()),
        }
    return found


def fitted(benchmark: datasets.Benchmark, seed: int) -> dict[str, Any]:
    train = benchmark.estimation
    arx = Arx.chosen([train], Scaling.of([train]))
    began = time.perf_counter()
    model = sparsid.identify(train, seed=seed)
    seconds = time.perf_counter() - began
    details = model.fitted_.details
    chosen = details["chosen_candidate"]
    errors = {c["name"]: c["held_out_error"] for c in details["candidates"]}
    return {
        "seed": seed,
        "seconds": seconds,
        "peak_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
        "chosen": chosen,
        "members": len(model.fitted_),
        "held_out": errors[chosen],
        "held_out_linear": details["candidates"][0]["held_out_error"],
        "tests": scored(model, arx, benchmark),
    }


def table(found: dict[str, Any]) -> str:
    """Return the medians over seeds as a Markdown table."""
    lines = [
        "| data | free run, median (range) | best known | usual | linear | one step "
        "over ARX | inside 90 % | chosen | seeds | seconds |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, own in found.items():
        fits = own["fits"]
        for part in fits[0]["tests"]:
            rows = [fit["tests"][part] for fit in fits]
            free = np.array([row["free_run"] for row in rows])
            ratio = np.median([row["one_step"] / row["one_step_arx"] for row in rows])
            inside = np.median([row["inside_90"] for row in rows])
            known = PUBLISHED.get(name, {}).get(part, [])
            others = [f"{v:.3g}" for v in known] or ["", "", ""]
            share = np.median(free / rows[0]["deviation"])
            cells = [
                f"{name}, {part}",
                f"{np.median(free):.3g} ({free.min():.3g} to {free.max():.3g}); "
                f"{100 * share:.2g} % of the deviation",
                *others,
                f"{ratio:.2f}",
                f"{100 * inside:.0f} %",
                fits[0]["chosen"],
                f"{len(fits)}",
                f"{np.median([fit['seconds'] for fit in fits]):.0f}",
            ]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=list(NAMES), choices=NAMES)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    found: dict[str, Any] = {}
    if options.out and options.out.exists():
        found = json.loads(options.out.read_text())
    for name in options.only:
        benchmark = datasets.load(name)
        found[name] = {"samples": len(benchmark.estimation), "fits": []}
        for seed in range(options.seeds):
            found[name]["fits"].append(fitted(benchmark, seed))
            print(json.dumps({name: found[name]["fits"][-1]}), flush=True)
            if options.out:
                options.out.write_text(json.dumps(found, indent=1) + "\n")
    print(table(found))


if __name__ == "__main__":
    main()
