"""Free-run errors: simulated tanks with known truth, and six other systems.

    python benchmarks/free_run.py simulated-tanks --out ...
    python benchmarks/free_run.py systems --auto --out ...
    python benchmarks/free_run.py blocks --out ...
    python benchmarks/free_run.py members --out ...
    python benchmarks/free_run.py stacking --out ...

The recipe is `sparsid.StateSpace()` with its defaults, or the automatic mode with
`--auto`; the test records score finished models only. Variants are compared on
realisations of the simulated tanks other than those that are scored, as in
`simulated-tanks --first 100 --seeds 10 --set '{"states": 3}'`. `blocks` compares
numbers of held-out blocks and of starts for each, inside the estimation record of
Cascaded Tanks, `members` when a member should count as poor, `stacking` one structure
with a mean of several. Recorded data are scored by `benchmarks/calibration.py`.
"""

import argparse
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import nnls

import sparsid
from sparsid.data.pieces import held_out
from sparsid.data.scaling import Scaling
from sparsid.datasets import simulated_tanks, systems
from sparsid.estimators.recalibration import BLOCKS as TRIAL_BLOCKS
from sparsid.estimators.recalibration import TRIAL_CYCLES, TRIAL_STARTS
from sparsid.fitting import state_space
from sparsid.fitting.cross_validation import held_out_errors, held_out_fits
from sparsid.parallel.local import keep_freed_memory
from sparsid.validation.baselines import Arx
from sparsid.validation.calibration import band_factor, held_out_bands

Row = dict[str, Any]
# Held-out blocks, and starts of the copy for each.
BLOCKS = ((8, 2), (8, 4))
# Members that a model is left with, about: its bands allow for them.
MEMBERS_LEFT = 8
# A member is poor beyond so many times the error of the median or of the best one.
POOR = (
    ("none", np.inf),
    *(("median", factor) for factor in (2.0, 1.5, 1.3, 1.0)),
    *(("best", factor) for factor in (2.0, 1.5, 1.3)),
)
# What the automatic mode compares, for two states.
STRUCTURES: dict[str, dict[str, Any]] = {
    "2 states, 6 neurons": {},
    "3 states, 6 neurons": {"states": 3},
    "2 states, 12 neurons": {"hidden": (12,)},
    "2 states, 6 neurons, shape": {"prior": "shape"},
}


@dataclass(frozen=True)
class Recipe:
    """How a record becomes a model."""

    auto: bool
    settings: dict[str, Any]

    def fit(self, record: sparsid.Record, seed: int) -> tuple[Any, float]:
        """Return a finished model and the seconds it took."""
        began = time.perf_counter()
        if self.auto:
            model = sparsid.identify(record, seed=seed)
        else:
            model = sparsid.StateSpace(**self.settings, seed=seed).fit(record)
        return model, time.perf_counter() - began

    def __str__(self) -> str:
        """Return it as a line of code."""
        if self.auto:
            return "sparsid.identify(record)"
        given = ", ".join(f"{k}={v!r}" for k, v in self.settings.items())
        return f"sparsid.StateSpace({given}).fit(record)"


def held_out_blocks(seeds: range, recipe: Recipe) -> list[Row]:
    """Compare numbers of held-out blocks on the estimation record of Cascaded Tanks."""
    record = sparsid.datasets.load("cascaded-tanks").estimation
    rows = []
    for seed in seeds:
        for blocks, starts in BLOCKS:
            settings = recipe.settings | {"starts": starts, "max_cycles": TRIAL_CYCLES}
            model = sparsid.StateSpace(**settings, seed=seed)
            fits = held_out_fits(model.get_params(), [record], blocks)
            assert fits is not None
            error = held_out_errors(fits, [record]).rms * float(record.y.std())
            known = model.start_samples
            bands = held_out_bands("simulate", fits, [record], known, MEMBERS_LEFT)
            bands = [block[..., 0] for block in bands]
            row: Row = {"seed": seed, "blocks": blocks, "starts": starts}
            row |= {"held_out": error, "free_run_factor": band_factor(bands)}
            row["pooled_factor"] = band_factor([np.concatenate(bands, axis=1)])
            rows.append(row)
            print(row, flush=True)
    return rows


def poor_members(seeds: range, recipe: Recipe) -> list[Row]:
    """Compare rules for dropping members on blocks that they did not learn from."""
    record = sparsid.datasets.load("cascaded-tanks").estimation
    # All members, to compare rules on the same ones.
    state_space.POOR = np.inf
    rows = []
    for seed in seeds:
        model = sparsid.StateSpace(
            **{"max_cycles": TRIAL_CYCLES} | recipe.settings, seed=seed
        )
        fits = held_out_fits(model.get_params(), [record], TRIAL_BLOCKS)
        assert fits is not None
        masks = held_out([record], len(fits), model.start_samples)
        squares: dict[str, list[Any]] = {}
        kept: dict[str, int] = {}
        for fitted, (hidden,) in zip(fits, masks, strict=True):
            each = range(len(fitted))
            runs = [fitted.member(k).simulate(record.u, samples=0).mean for k in each]
            errors = np.array(runs)[..., 0] - record.y[:, 0]
            own = np.sqrt((errors[:, ~hidden] ** 2).mean(1))
            for against, factor in POOR:
                level = own.min() if against == "best" else np.median(own)
                good = own <= factor * level
                name = f"{factor:g} x {against}"
                kept[name] = kept.get(name, 0) + int(good.sum())
                found = errors[good][:, hidden]
                pair = (np.median(found, axis=0) ** 2, found.mean(0) ** 2)
                squares.setdefault(name, []).append(pair)
        for name, pairs in squares.items():
            median, mean = np.sqrt(np.concatenate(pairs, axis=1).mean(1))
            row = {"seed": seed, "rule": name, "kept": kept[name]}
            row |= {"held_out": float(median), "mean_of_members": float(mean)}
            rows.append(row)
            print(row, flush=True)
    return rows


def stacking(seeds: range, recipe: Recipe) -> list[Row]:
    """Compare one structure with a mean of all, by weights from the other blocks."""
    record = sparsid.datasets.load("cascaded-tanks").estimation
    rows = []
    for seed in seeds:
        runs = {}
        for name, settings in STRUCTURES.items():
            few = {"starts": TRIAL_STARTS, "max_cycles": TRIAL_CYCLES, "seed": seed}
            model = sparsid.StateSpace(**few | recipe.settings | settings)
            fits = held_out_fits(model.get_params(), [record], TRIAL_BLOCKS)
            assert fits is not None
            masks = [m for (m,) in held_out([record], len(fits), model.start_samples)]
            runs[name] = [
                fit.simulate(record.u, samples=0).mean[mask, 0]
                for fit, mask in zip(fits, masks, strict=True)
            ]
        measured = [record.y[mask, 0] for mask in masks]
        errors = [
            np.stack([run[k] - y for run in runs.values()])
            for k, y in enumerate(measured)
        ]
        stacked = []
        for k, error in enumerate(errors):
            others = np.concatenate([*errors[:k], *errors[k + 1 :]], axis=1)
            stacked.append(_stacking_weights(others) @ error)
        found = dict(zip(runs, np.concatenate(errors, axis=1), strict=True))
        found["stacked, weights from the other blocks"] = np.concatenate(stacked)
        found["mean of all"] = np.concatenate(errors, axis=1).mean(0)
        for name, error in found.items():
            row: Row = {"seed": seed, "structure": name}
            row["held_out"] = float(np.sqrt(np.mean(error**2)))
            rows.append(row)
            print(row, flush=True)
    return rows


def _stacking_weights(errors: Any) -> Any:
    """Return weights, none negative and one in all, with the least squared error."""
    # That they are one in all is one more equation, which counts more than all others.
    heavy = 1e3 * np.sqrt((errors**2).sum())
    equations = np.vstack([errors.T, np.full(len(errors), heavy)])
    weights, _ = nnls(equations, np.append(np.zeros(errors.shape[1]), heavy))
    return weights / weights.sum()


def simulated(seeds: range, recipe: Recipe) -> list[Row]:
    """Score realisations of the simulated tanks against their truth."""
    rows = []
    for seed in seeds:
        physics = simulated_tanks.Physics.random(seed)
        system = simulated_tanks.simulate(seed, physics=physics)
        model, seconds = recipe.fit(system.benchmark.estimation, seed)
        error = float(system.benchmark.score(model, "A").rmse[0])
        row = {
            "seed": seed,
            "A": error,
            "truth": system.truth_rmse,
            "ratio": error / system.truth_rmse,
            "seconds": seconds,
        }
        rows.append(row)
        print(row, flush=True)
    return rows


def others(seeds: range, recipe: Recipe) -> list[Row]:
    """Score systems of different kinds against the best linear model."""
    rows = []
    for name in systems.SYSTEMS:
        for seed in seeds:
            benchmark = systems.simulate(name, seed)
            record, test = benchmark.estimation, benchmark.reveal_test()
            model, seconds = recipe.fit(record, seed)
            arx = Arx.chosen([record], Scaling.of([record]))
            first = max(model.max_lag_, arx.lags.max_lag)
            run = model.simulate(test, samples=0).mean[first:]
            linear = arx.simulate(test)[first:]
            row = {
                "system": name,
                "seed": seed,
                "error": float(np.sqrt(np.mean((run - test.y[first:]) ** 2))),
                "linear": float(np.sqrt(np.mean((linear - test.y[first:]) ** 2))),
                "chosen": model.fitted_.details.get("chosen_candidate", "default"),
                "seconds": seconds,
            }
            # Both could in principle diverge: JSON has no word for that.
            row["ratio"] = row["error"] / row["linear"]
            rows.append({k: None if v != v else v for k, v in row.items()})
            print(row, flush=True)
    return rows


def main() -> None:
    """Run one of them, print and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    kinds = {
        "simulated-tanks": (simulated, 20),
        "systems": (others, 1),
        "blocks": (held_out_blocks, 5),
        "members": (poor_members, 3),
        "stacking": (stacking, 3),
    }
    parser.add_argument("what", choices=kinds)
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--auto", action="store_true")
    parser.add_argument("--set", type=json.loads, default={}, help="settings as JSON")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    run, default = kinds[args.what]
    keep_freed_memory()
    recipe = Recipe(args.auto, args.set)
    inside = args.what in ("blocks", "members", "stacking")
    if args.auto and (args.set or inside):
        parser.error(f"--auto chooses by itself: leave --set and {args.what} out")
    rows = run(range(args.first, args.first + (args.seeds or default)), recipe)
    key = "held_out" if inside else "ratio"
    values = np.array([row[key] for row in rows], dtype=float)
    result = {
        "recipe": str(recipe),
        "defaults": sparsid.StateSpace().get_params(),
        "version": sparsid.__version__,
        f"median_{key}": float(np.median(values)),
        f"worst_{key}": float(values.max()),
        "rows": rows,
    }
    print({k: v for k, v in result.items() if k != "rows"})
    if args.out:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
