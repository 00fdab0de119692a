"""How settings of the identification fare on held-out blocks of the estimation record.

Cascaded Tanks, 11-100-100-1, lag 5, one step ahead. Each of eight contiguous blocks is
held out in turn; no test record is touched. The overflow episodes lie in two blocks,
whose absence leaves extrapolation; both figures are given.
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import sparsid
from sparsid.bayes.variance_rules import SparseBayes
from sparsid.data.scaling import Scaling
from sparsid.fitting.narx import regression
from sparsid.fitting.narx_one_step import fit_one_step
from sparsid.fitting.settings import Settings
from sparsid.models.narx import Lags
from sparsid.models.network import Network

BLOCKS = 8
# Blocks of the estimation record with overflow.
OVERFLOW = (1, 7)
VARIANTS = {
    "default": {},
    "fold within 0.3 noise": {"fold_tolerance": 0.3},
    "fold within 0.1 noise": {"fold_tolerance": 0.1},
    "no removal": {"largest_chi2": 0.0},
    "tolerance 0.1": {"tolerance": 0.1},
    "tolerance 5": {"tolerance": 5.0},
    "warm-up of 10 cycles": {"warm_up": 10},
    "all rows in the warm-up": {"warm_up_rows": 10_000},
}


def held_out_errors(record: sparsid.Record, settings: Settings, seeds: int) -> dict:
    """Return errors by block and seed, costs, sizes and times of one variant."""
    lags = Lags(1, 1, 5, 5)
    network = Network((len(lags.table), 100, 100, 1))
    errors = np.empty((BLOCKS, seeds))
    costs, kept, seconds = [], [], []
    for block in range(BLOCKS):
        learn = record.blocks(BLOCKS)
        judge = learn.pop(block)
        scaling = Scaling.of(learn)
        data = jax.tree.map(jnp.asarray, regression(learn, scaling, lags))
        held_out = regression([judge], scaling, lags)
        for seed in range(seeds):
            key = jax.random.key(BLOCKS * seed + block)
            found = fit_one_step(network, data, settings, key=key)
            mean = found.network.apply(found.state.params, held_out.z[:, found.columns])
            error = np.sqrt(np.mean((mean - held_out.y) ** 2))
            errors[block, seed] = error * scaling.y_std[0]
            costs.append(found.cost)
            kept.append(found.weights_kept / network.weights)
            seconds.append(found.seconds)
    inner = np.delete(errors, OVERFLOW, axis=0)
    return {
        "rmse": float(np.sqrt((errors**2).mean())),
        "rmse_without_overflow": float(np.sqrt((inner**2).mean())),
        "rmse_by_block": np.sqrt((errors**2).mean(1)).round(5).tolist(),
        "mean_cost": float(np.mean(costs)),
        "mean_kept": float(np.mean(kept)),
        "median_seconds": float(np.median(seconds)),
    }


def main() -> None:
    """Compare the variants, print a table, write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    record = sparsid.datasets.load("cascaded-tanks").estimation
    default = Settings(rule=SparseBayes(), kinds=("row+column",) * 3)
    results = {}
    print("| variant | RMSE [V] | without overflow | cost | kept [%] | s |")
    print("|---|---|---|---|---|---|")
    with jax.enable_x64(True):
        for name, change in VARIANTS.items():
            row = held_out_errors(record, replace(default, **change), args.seeds)
            results[name] = row
            print(
                f"| {name} | {row['rmse']:.4f} | {row['rmse_without_overflow']:.4f} | "
                f"{row['mean_cost']:.0f} | {100 * row['mean_kept']:.2f} | "
                f"{row['median_seconds']:.1f} |",
                flush=True,
            )
    if args.out:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
