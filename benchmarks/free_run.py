"""Free-run errors: simulated tanks with known truth, and six other systems.

    python benchmarks/free_run.py simulated-tanks --out ...
    python benchmarks/free_run.py systems --auto --out ...
    python benchmarks/free_run.py blocks --out ...
    python benchmarks/free_run.py members --out ...

The recipe is `sparsid.StateSpace()` with its defaults, or the automatic mode with
`--auto`; the test records score finished models only. Variants are compared on
realisations of the simulated tanks other than those that are scored, as in
`simulated-tanks --first 100 --seeds 10 --set '{"states": 3}'`. `blocks` compares
numbers of held-out blocks and of starts for each, inside the estimation record of
Cascaded Tanks, `members`
when a member should count as poor. Recorded data are scored by
`benchmarks/calibration.py`.
"""

import argparse
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import sparsid
from sparsid import free_fitting
from sparsid.baselines import Arx
from sparsid.calibration import BLOCKS as TRIAL_BLOCKS
from sparsid.calibration import TRIAL_CYCLES, band_factor, held_out_bands
from sparsid.copies import held_out_errors, held_out_fits
from sparsid.datasets import simulated_tanks, systems
from sparsid.processes import keep_freed_memory
from sparsid.scaling import Scaling
from sparsid.stretches import held_out

Row = dict[str, Any]
# Held-out blocks, and starts of the copy for each.
BLOCKS = ((4, 3), (8, 2), (8, 4))
# Members that a model is left with, about: its bands allow for them.
MEMBERS_LEFT = 8
# A member is poor beyond so many times the error of the median or of the best one.
POOR = (
    ("none", np.inf),
    *(("median", factor) for factor in (2.0, 1.5, 1.3, 1.0)),
    *(("best", factor) for factor in (2.0, 1.5, 1.3)),
)


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
    free_fitting.POOR = np.inf
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
    inside = args.what in ("blocks", "members")
    if args.auto and (args.set or inside):
        parser.error("--auto chooses by itself: leave --set, blocks and members out")
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
