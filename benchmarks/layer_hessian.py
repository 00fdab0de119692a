"""Exact layer Hessian by the paper's recursion against autodiff, ratio of times.

All layer blocks of 39-10-10-10-1 at 1005 rows of the simulated tanks, lag 19.

    python benchmarks/layer_hessian.py --out layer_hessian.json
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from sparsid import datasets
from sparsid.bayes.curvature.hessian import block_hessian
from sparsid.data.scaling import Scaling
from sparsid.fitting.narx import regression
from sparsid.models.narx import Lags
from sparsid.models.network import Network

NOISE = 0.01


def main() -> None:
    """Measure, print a table, write JSON if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    with jax.enable_x64(True):
        result = compare(options.repetitions)
    print(
        f"{result['network']}, {result['rows']} rows, median of {options.repetitions}"
    )
    print()
    print("| exact layer Hessians | all layers (ms) |")
    print("|---|---|")
    print(f"| jax.hessian | {1e3 * result['autodiff_seconds']:.1f} |")
    print(f"| recursion | {1e3 * result['recursion_seconds']:.1f} |")
    print()
    print(f"ratio {result['ratio']:.0f}, largest relative difference ", end="")
    print(f"{result['difference']:.1e}")
    if options.out:
        options.out.write_text(json.dumps(result, indent=2) + "\n")


def compare(repetitions: int) -> dict[str, Any]:
    """Return times and agreement of recursion and autodiff."""
    record = datasets.load("simulated-tanks").estimation
    lags = Lags(1, 1, 19, 19)
    rows = regression([record], Scaling.of(record), lags)
    z, y = jnp.asarray(rows.z), jnp.asarray(rows.y)
    network = Network((len(lags.table), 10, 10, 10, 1))
    params = network.init(key=jax.random.key(0))

    @jax.jit
    def recursion(params: Any, z: Any, y: Any) -> Any:
        r = y - network.apply(params, z)
        noise = jnp.full(1, NOISE)
        factors = network.layer_hessians(params, z, -r / noise, 1 / noise)
        return [block_hessian(a, H) for a, H in zip(*factors, strict=True)]

    @jax.jit
    def autodiff(params: Any, z: Any, y: Any) -> Any:
        def loss(w: Any, k: int) -> Any:
            changed = (*params[:k], w, *params[k + 1 :])
            return ((y - network.apply(changed, z)) ** 2).sum() / (2 * NOISE)

        return [
            jax.hessian(loss)(w, k).reshape(w.size, w.size)
            for k, w in enumerate(params)
        ]

    ours, theirs = recursion(params, z, y), autodiff(params, z, y)
    difference = max(
        float(np.abs(a - b).max() / np.abs(b).max())
        for a, b in zip(ours, theirs, strict=True)
    )
    slow = seconds(lambda: autodiff(params, z, y), repetitions)
    fast = seconds(lambda: recursion(params, z, y), repetitions)
    return {
        "network": "-".join(map(str, network.widths)),
        "rows": len(y),
        "repetitions": repetitions,
        "autodiff_seconds": slow,
        "recursion_seconds": fast,
        "ratio": slow / fast,
        "difference": difference,
    }


def seconds(run: Callable[[], Any], repetitions: int) -> float:
    """Return the median time of a run that has been compiled before."""
    times = []
    for _ in range(repetitions):
        began = time.perf_counter()
        run()[0].block_until_ready()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


if __name__ == "__main__":
    main()
