"""State-space structures compared without the test record.

    python benchmarks/candidates.py --workers 2 --out docs/results/candidates.json

Copies of each structure, are fitted without one
eighth of the record each. Their error over these blocks is what a choice
chooses by; that of their median over the test record is what it should choose by, for
realisations of simulated systems that are not scored elsewhere (seeds from 100 on).
"""

import argparse
import json
import multiprocessing
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

import sparsid
from sparsid.datasets import simulated_tanks, systems
from sparsid.datasets.benchmark import Benchmark
from sparsid.estimators.recalibration import BLOCKS, TRIAL_CYCLES, TRIAL_STARTS
from sparsid.fitting.cross_validation import Errors, held_out_errors, held_out_fits
from sparsid.parallel.local import ONE_CORE, keep_freed_memory

Row = dict[str, Any]
# States beyond the outputs and neurons of the first candidates, and their variants.
STATES, NEURONS = (1, 2), 6
VARIANTS: tuple[dict[str, Any], ...] = ({"hidden": (12,)}, {"prior": "shape"})
# States (of one output), neurons, kind of prior.
STRUCTURES = (
    (2, 6, "row+column"),
    (3, 6, "row+column"),
    (2, 12, "row+column"),
    (2, 6, "shape"),
    (3, 12, "row+column"),
    (3, 6, "shape"),
)
BASE = {"neurons": NEURONS, "prior": sparsid.StateSpace().prior}


def clearly_best(trials: Any, errors: Any) -> Any:
    """Return the last one that was clearly better than the best before it."""
    best, *others = trials
    for trial in others:
        if errors(trial).clearly_below(errors(best)):
            best = trial
    return best


def compare(task: tuple[str, int]) -> list[Row]:
    """Return the figures of all structures on one record."""
    name, seed = task
    keep_freed_memory()
    benchmark, truth = _benchmark(name, seed)
    record, test, rows = benchmark.estimation, benchmark.reveal_test(), []
    for states, neurons, prior in STRUCTURES:
        model = sparsid.StateSpace(
            states,
            (neurons,),
            prior=prior,
            starts=TRIAL_STARTS,
            max_cycles=TRIAL_CYCLES,
            seed=seed,
        )
        fits = held_out_fits(model.get_params(), [record], BLOCKS)
        assert fits is not None
        row: Row = {"record": name, "seed": seed, "states": states, "neurons": neurons}
        errors = held_out_errors(fits, [record])
        row |= {"prior": prior, "held_out": errors.rms}
        row |= {"squares": errors.squares.tolist(), "counts": errors.counts.tolist()}
        members = [fit.member(k) for fit in fits for k in range(len(fit))]
        runs = [member.simulate(test, samples=0).mean for member in members]
        error = float(np.sqrt(np.nanmean((np.median(runs, 0) - test.y) ** 2)))
        row["test"] = error / (truth or float(test.y.std()))
        rows.append(row)
        print(row, flush=True)
    return rows


def _benchmark(name: str, seed: int) -> tuple[Benchmark, float | None]:
    """Return the records, and the error of the truth where that is known."""
    if name == "simulated-tanks":
        physics = simulated_tanks.Physics.random(seed)
        system = simulated_tanks.simulate(seed, physics=physics)
        return system.benchmark, system.truth_rmse
    return systems.simulate(name, seed), None


def tasks(seeds: int) -> Iterator[tuple[str, int]]:
    """Return the records, those of different kinds first."""
    for name in systems.SYSTEMS:
        if name != "linear":
            yield name, 100
    for seed in range(seeds):
        yield "simulated-tanks", 100 + seed


def chosen(rows: list[Row], pooled: bool = False) -> Row:
    """Return the structure that is taken of those on one record.

    Parameters
    ----------
    pooled
        By the error over all blocks alone, whether a gain is due to one of them or not.
    """

    def row(settings: dict[str, Any]) -> Row:
        (found,) = [r for r in rows if all(r[k] == v for k, v in settings.items())]
        return found

    def errors(settings: dict[str, Any]) -> Errors:
        squares, counts = (np.array(row(settings)[k]) for k in ("squares", "counts"))
        if pooled:
            return Errors(squares.sum(keepdims=True), counts.sum(keepdims=True))
        return Errors(squares, counts)

    first = clearly_best(({"states": 1 + n, **BASE} for n in STATES), errors)
    variants = (first | _plain(variant) for variant in VARIANTS)
    return row(clearly_best((first, *variants), errors))


def _plain(variant: dict[str, Any]) -> dict[str, Any]:
    return {"neurons": variant["hidden"][0]} if "hidden" in variant else variant


def main() -> None:
    """Compare the structures, print and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="simulated tanks")
    parser.add_argument("--workers", type=int, default=1, help="processes at once")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    if args.workers > 1:
        os.environ.update(ONE_CORE)
    with ProcessPoolExecutor(
        args.workers, multiprocessing.get_context("spawn")
    ) as pool:
        rows = [row for found in pool.map(compare, tasks(args.seeds)) for row in found]
    result = {"version": sparsid.__version__, "rows": rows}
    if args.out:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
