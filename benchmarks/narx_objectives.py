"""NARX fitted one step ahead, to windows, and to the free run.

    python benchmarks/narx_objectives.py tanks --out docs/results/narx_objectives.json
    python benchmarks/narx_objectives.py systems --out docs/results/narx_predictors.json

`tanks` holds out quarters of the *estimation* record of Cascaded Tanks in turn (or
those named by `--blocks`); the test record is not looked at. The free run over a
quarter starts from its first measured outputs. `systems` are simulated, with a record
of their own to test on. Both compare two predictors one step ahead: the model's own
(free run plus what the noise filter expects) and the bare network, fed with measured
outputs. The file is written anew after every fit.
"""

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import sparsid
from sparsid.datasets import systems

OBJECTIVES = ("one-step", "windows", "simulation")
QUARTERS = 4
Row = dict[str, Any]


def tanks(blocks: list[int]) -> Iterator[tuple[Row, list[Any], Any, Row]]:
    """Yield the quarters: what they are called, the rest, themselves, settings."""
    record = sparsid.datasets.load("cascaded-tanks").estimation
    edges = np.linspace(0, len(record), QUARTERS + 1).round().astype(int)
    for k in blocks:
        low, high = edges[k], edges[k + 1]
        outside = [(0, low), (high, len(record))]
        rest = [record[a:b] for a, b in outside if b > a]
        yield {"quarter": k + 1}, rest, record[low:high], {}


def simulated(blocks: list[int]) -> Iterator[tuple[Row, list[Any], Any, Row]]:
    """Yield simulated systems in the same way."""
    del blocks
    for name in ("bilinear", "wiener", "duffing"):
        benchmark = systems.simulate(name, samples=500)
        small = {"lags": 3, "hidden": (20,)}
        yield (
            {"system": name},
            [benchmark.estimation],
            benchmark.reveal_test(),
            small,
        )


def scored(model: sparsid.NARX, record: sparsid.Record) -> Row:
    """Return the errors over a record that was not learnt from."""
    forecasts = {
        "free_run": model.simulate(record, samples=0),
        "one_step": model.predict(record),
        "one_step_by_network": sparsid.Fitted.predict(model.fitted_, record),
    }
    row = {}
    for name, forecast in forecasts.items():
        error = float(sparsid.rmse(record, forecast)[0])
        # A run that diverged: JSON has no word for that.
        row[name] = error if np.isfinite(error) else None
    return row


def main() -> None:
    """Run one of the two, print and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("tanks", "systems"))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--blocks", default="1,2,3,4", help="quarters, from 1")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    blocks = [int(k) - 1 for k in args.blocks.split(",")]
    cases = (tanks if args.what == "tanks" else simulated)(blocks)
    rows: list[Row] = []
    for case, rest, held, settings in cases:
        for seed in range(args.seeds):
            for objective in OBJECTIVES:
                began = time.process_time()
                model = sparsid.NARX(objective=objective, seed=seed, **settings)
                model.fit(rest)
                row = {**case, "seed": seed, "objective": objective}
                row |= scored(model, held)
                row |= {
                    "weights_kept": model.fitted_.weights_kept,
                    "outcome": model.outcome_.value,
                    "cpu_seconds": round(time.process_time() - began, 1),
                }
                rows.append(row)
                print(row, flush=True)
                write(args.out, rows)


def write(path: Path | None, rows: list[Row]) -> None:
    """Write all rows so far, and their medians."""
    if path is None:
        return
    medians: dict[str, Row] = {}
    for objective in OBJECTIVES:
        own = [row for row in rows if row["objective"] == objective]
        for key in ("free_run", "one_step", "one_step_by_network"):
            values = [np.inf if row[key] is None else row[key] for row in own]
            middle = float(np.median(values)) if values else np.inf
            medians.setdefault(objective, {})[key] = (
                middle if np.isfinite(middle) else None
            )
    result = {"version": sparsid.__version__, "medians": medians, "rows": rows}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
