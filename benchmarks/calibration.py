"""Coverage of the bands: the tanks, and simulated tanks with random physics.

    python benchmarks/calibration.py simulated-tanks --out docs/results/...json
    python benchmarks/calibration.py tanks --out docs/results/calibration_tanks.json

Each model is finished, recalibrated inside the estimation record, and then compared
with the test record: one step ahead, and in free run from its first measured outputs.
`narx` is `NARX()`, `state-space` is `StateSpace()` with the copies of `recalibrate`,
`automatic` is `sparsid.identify(record)`, which has recalibrated bands already.
"""

import argparse
import json
import multiprocessing
import os
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import sparsid
from sparsid.datasets import Benchmark, simulated_tanks
from sparsid.estimators.recalibration import recalibrate
from sparsid.parallel.local import ONE_CORE, keep_freed_memory
from sparsid.results.forecast import BandFactors
from sparsid.validation.calibration import LEVELS, calibration

MODELS = {"narx": sparsid.NARX, "state-space": sparsid.StateSpace}
AUTOMATIC = "automatic"
# Draws behind a band in free run.
SAMPLES = 400
Row = dict[str, Any]


def score(
    name: str,
    settings: dict[str, Any],
    benchmark: Benchmark,
    seed: int,
    truth: float | None,
) -> list[Row]:
    """Return the figures of a model with its own and with recalibrated bands.

    Parameters
    ----------
    truth
        Error of the true system run without noise, if it is known.
    """
    record, test = benchmark.estimation, benchmark.reveal_test()
    began = time.perf_counter()
    if name == AUTOMATIC:
        model = sparsid.identify(record, seed=seed)
    else:
        model = recalibrate(MODELS[name](**settings, seed=seed).fit(record), record)
    seconds = time.perf_counter() - began
    factors, rows = model.fitted_.band_factors, []
    plain = BandFactors.none(1)
    one_step, free_run = model.predict(test), model.simulate(test, samples=SAMPLES)
    protocols = {
        key: float(benchmark.score(model, key).rmse[0])
        for key in ("one-step", "A", "B", "C")
    }
    members = _members(model, benchmark)
    print(name, seed, seconds, protocols, f"truth {truth}", flush=True)
    for kind, forecast in (("one-step", one_step), ("free-run", free_run)):
        horizon = forecast.horizon
        for bands, factor in (("own", plain), ("recalibrated", factors)):
            scale = float(factor.at(horizon)[0] / factors.at(horizon)[0])
            scaled = type(forecast)(
                **vars(forecast)
                | {"std": forecast.std * scale, "model_std": forecast.model_std * scale}
            )
            found = calibration(test, scaled)
            rows.append(
                {
                    "model": name,
                    "seed": seed,
                    "forecast": kind,
                    "bands": bands,
                    "used_factor": float(factor.at(horizon)[0]),
                    "rmse": float(sparsid.rmse(test, scaled)[0]),
                    "model_share": float(
                        np.nanmean(scaled.model_std**2) / np.nanmean(scaled.std**2)
                    ),
                    **found.facts(),
                    "protocols": protocols,
                    "members": members,
                    "chosen": model.fitted_.details.get("chosen_candidate"),
                    "truth": truth,
                    "seconds": seconds,
                }
            )
    for row in rows:
        shown = ("model", "seed", "forecast", "bands", "rmse", "used_factor")
        text = {k: row[k] for k in shown}
        inside = {k: v[0] for k, v in row["coverage"].items()}
        print(text, inside, "width", row["widths"]["0.9"], flush=True)
    return rows


def realisation(
    what: str, models: list[str], settings: dict[str, Any], seed: int
) -> list[Row]:
    """Return the figures of all models for a seed."""
    keep_freed_memory()
    if what == "tanks":
        benchmark, truth = sparsid.datasets.load("cascaded-tanks"), None
    else:
        physics = simulated_tanks.Physics.random(seed)
        system = simulated_tanks.simulate(seed, physics=physics)
        benchmark, truth = system.benchmark, system.truth_rmse
    found = [score(name, settings, benchmark, seed, truth) for name in models]
    return [row for rows in found for row in rows]


def _members(model: Any, benchmark: Benchmark) -> Row | None:
    """Return the errors of the members of an ensemble by protocol A, and of their mean.

    A member that runs away would move the mean, and not the median that is scored.
    """
    if not isinstance(model, sparsid.StateSpace):
        return None
    u, y = benchmark.test_inputs, benchmark.reveal_test().y
    members = model.members_
    runs = np.array(
        [members.member(k).simulate(u, samples=0).mean for k in range(len(members))]
    )
    return {
        "errors": np.sqrt(((runs - y) ** 2).mean((1, 2))).tolist(),
        "mean": float(np.sqrt(((runs.mean(0) - y) ** 2).mean())),
        "dropped": members.dropped,
    }


def summary(rows: list[Row]) -> list[Row]:
    """Return means over realisations for each kind of band."""
    keys = sorted({(r["model"], r["forecast"], r["bands"]) for r in rows})
    table = []
    for key in keys:
        own = [r for r in rows if (r["model"], r["forecast"], r["bands"]) == key]
        entry = dict(zip(("model", "forecast", "bands"), key, strict=True))
        entry["realisations"] = len(own)
        for level in LEVELS:
            shares = [100.0 * r["coverage"][f"{level:g}"][0] for r in own]
            entry[f"inside_{level:g}"] = float(np.mean(shares))
        for name in ("crps", "nll", "factor"):
            entry[name] = float(np.mean([r[name][0] for r in own]))
        entry["width_0.9"] = float(np.mean([r["widths"]["0.9"][0] for r in own]))
        entry["rmse"] = float(np.mean([r["rmse"] for r in own]))
        for key in ("A", "B", "C"):
            entry[f"median_{key}"] = float(
                np.median([r["protocols"][key] for r in own])
            )
        if own[0]["truth"] is not None:
            ratios = [r["protocols"]["A"] / r["truth"] for r in own]
            entry["median_A_over_truth"] = float(np.median(ratios))
            entry["worst_A_over_truth"] = float(np.max(ratios))
        table.append(entry)
    return table


def main() -> None:
    """Run one of the two, print and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("tanks", "simulated-tanks"))
    known = (*MODELS, AUTOMATIC)
    parser.add_argument(
        "--models", nargs="+", choices=known, default=[AUTOMATIC, "narx"]
    )
    parser.add_argument("--seeds", type=int, help="realisations, or seeds of the fit")
    parser.add_argument("--set", type=json.loads, default={}, help="settings as JSON")
    parser.add_argument("--workers", type=int, default=1, help="processes at once")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    if args.set and AUTOMATIC in args.models:
        parser.error("--set is for models that do not choose by themselves")
    seeds = range(args.seeds or (5 if args.what == "tanks" else 20))
    one = partial(realisation, args.what, args.models, args.set)
    if args.workers > 1:
        os.environ.update(ONE_CORE)
    with ProcessPoolExecutor(
        args.workers, multiprocessing.get_context("spawn")
    ) as pool:
        rows = [row for found in pool.map(one, seeds) for row in found]
    result = {
        "data": args.what,
        "settings": args.set,
        "version": sparsid.__version__,
        "summary": summary(rows),
        "rows": rows,
    }
    for entry in result["summary"]:
        print(entry)
    if args.out:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
