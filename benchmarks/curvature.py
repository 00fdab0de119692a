"""Gram form against the dense Jacobian, and approximations against both.

One evaluation of the full cost (gradient of the evidence included) and one damped step
of 11-100-100-1 at 1019 rows of the simulated tanks, lag 5. The exact forms have the
same cost and step; of the approximations the log-determinant and the direction of the
step are compared.

    python benchmarks/curvature.py --out curvature.json
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from sparsid import datasets
from sparsid.bayes.cost import CostTerms, Problem, State, evaluate, step
from sparsid.bayes.curvature import APPROXIMATE, choose
from sparsid.bayes.objective import OneStep, Regression
from sparsid.bayes.prior import start_prior
from sparsid.data.scaling import Scaling
from sparsid.fitting.narx import regression
from sparsid.models.narx import Lags
from sparsid.models.network import Network

KIND = "row+column"
START_NOISE = 0.01
DAMPING = 1.0


def problem_data(lag: int, hidden: tuple[int, ...]) -> tuple[Network, Regression]:
    """Return network and regression rows of the simulated tanks."""
    record = datasets.load("simulated-tanks").estimation
    lags = Lags(1, 1, lag, lag)
    rows = regression([record], Scaling.of(record), lags)
    network = Network((len(lags.table), *hidden, 1))
    return network, Regression(jnp.asarray(rows.z), jnp.asarray(rows.y))


def measure(
    name: str, form: str, network: Network, data: Regression, repetitions: int
) -> dict[str, Any]:
    """Return median seconds of one evaluation and step, and their results."""
    kinds = (KIND,) * len(network.blocks)
    problem = Problem(
        OneStep(network),
        choose(name, form, network, kinds, data.y.size, 1e11),
    )
    state = State(
        network.init(key=jax.random.key(0)),
        start_prior(network, kinds),
        jnp.full(1, START_NOISE),
    )

    def once() -> tuple[Any, Any, Any]:
        at = evaluate(
            problem, state, state.prior, data, CostTerms(1.0, 1.0), 0.0, full=True
        )
        params, _ = step(problem, state.params, state.prior, at, 1.0, DAMPING)
        params[0].block_until_ready()
        return at.cost, at.log_det, params

    began = time.perf_counter()
    cost, log_det, params = once()
    first = time.perf_counter() - began
    times = []
    for _ in range(repetitions):
        began = time.perf_counter()
        once()
        times.append(time.perf_counter() - began)
    moved = [
        np.asarray(w - v).ravel() for w, v in zip(params, state.params, strict=True)
    ]
    return {
        "cost": float(cost),
        "log_det": float(log_det),
        "step": np.concatenate(moved),
        "seconds": statistics.median(times),
        "first_seconds": first,
    }


def cosine(a: Any, b: Any) -> float:
    """Return the cosine of the angle between two steps."""
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def main() -> None:
    """Measure, print a table, write JSON if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--width", type=int, default=100)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    with jax.enable_x64(True):
        network, data = problem_data(5, (options.width, options.width))
        # The dense Jacobian dual is the cheaper of the two dense forms here.
        found = {
            form: measure("gauss-newton", form, network, data, options.repetitions)
            for form in ("dual", "gram")
        }
        approximate = {
            name: measure(name, "auto", network, data, options.repetitions)
            for name in APPROXIMATE
        }
    dual, gram = found["dual"], found["gram"]
    result = {
        "network": "-".join(map(str, network.widths)),
        "rows": len(data.y),
        "repetitions": options.repetitions,
        "dual_seconds": dual["seconds"],
        "gram_seconds": gram["seconds"],
        "ratio": dual["seconds"] / gram["seconds"],
        "cost_difference": abs(gram["cost"] - dual["cost"]) / abs(dual["cost"]),
        "step_difference": float(
            np.abs(gram["step"] - dual["step"]).max() / np.abs(dual["step"]).max()
        ),
        "log_det": gram["log_det"],
        "approximate": {
            name: {
                "seconds": row["seconds"],
                "log_det": row["log_det"],
                "cosine_of_step": cosine(row["step"], gram["step"]),
            }
            for name, row in approximate.items()
        },
    }
    print(
        f"{result['network']}, {result['rows']} rows, median of {options.repetitions}"
    )
    print()
    print("| form | evaluation and step (ms) | with compilation (s) |")
    print("|---|---|---|")
    names = {"dual": "dense Jacobian", "gram": "Gram"}
    for form, row in {**found, **approximate}.items():
        name = names.get(form, f"{form}, approximate")
        print(f"| {name} | {1e3 * row['seconds']:.0f} | {row['first_seconds']:.1f} |")
    print()
    print(
        f"ratio {result['ratio']:.1f}, relative difference of cost "
        f"{result['cost_difference']:.1e}, of step {result['step_difference']:.1e}"
    )
    print(f"log-determinant {result['log_det']:.1f}; approximations of it:")
    for name, row in result["approximate"].items():
        print(
            f"{name} {row['log_det']:.1f}, cosine between its step and the exact one "
            f"{row['cosine_of_step']:.2f}"
        )
    if options.out:
        options.out.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
