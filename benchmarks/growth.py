"""How time and memory grow with samples, weights, channels, lags and starts.

    python benchmarks/growth.py --out docs/results/growth.json

Every point is a process of its own, so that its peak memory is its own. `samples` is
a whole identification of a small network with everything, compilation included;
`rows` (the samples of a small network), `weights` (of 1000 rows, and of 20 000),
`channels` and `lags` are one evaluation of the evidence with its gradient and one step,
in the form that is chosen by itself; `starts` is one cycle of the members of a
state-space model. The exponent is that of the last two points. The figure goes
to `docs/pictures/growth.png`.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib as mpl
import numpy as np
from threadpoolctl import threadpool_limits

import sparsid
from sparsid.bayes.cost import CostTerms, Problem, State, evaluate, step
from sparsid.bayes.curvature import choose
from sparsid.bayes.objective import OneStep, Regression
from sparsid.bayes.prior import start_prior
from sparsid.datasets import systems
from sparsid.models.network import Network
from sparsid.parallel.local import keep_freed_memory

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.ticker import NullFormatter

Row = dict[str, Any]
POINTS: dict[str, tuple[int, ...]] = {
    "samples": (1_000, 10_000, 100_000, 1_000_000),
    "rows": (1_000, 10_000, 100_000, 1_000_000),
    "weights": (100, 1_000, 10_000, 100_000),
    "weights, many rows": (100, 1_000, 30_000, 100_000),
    "channels": (1, 2, 4, 8),
    "lags": (4, 16, 64, 256),
    "starts": (1, 4, 16, 64),
}
ROWS, MANY_ROWS, REPEATS = 1_000, 20_000, 3
PICTURE = Path(__file__).parents[1] / "docs" / "pictures" / "growth.png"


def samples(count: int) -> Row:
    """Identify a small network from a long record of a Wiener system."""
    record = systems.simulate("wiener", samples=count).estimation
    began = time.perf_counter()
    model = sparsid.NARX(lags=4, hidden=(10,)).fit(record)
    seconds = time.perf_counter() - began
    details = model.fitted_.details
    return {
        "seconds": seconds,
        "cycles": len(model.fitted_.history["cost"]),
        "kept": model.fitted_.weights_kept,
        "one_step_share_of_noise": details["one_step_rmse"][0]
        / (systems.NOISE * float(record.y.std())),
    }


def rows(count: int) -> Row:
    """Evaluate the network that `samples` starts with on so many rows."""
    return _evaluated(Network((9, 10, 1)), count)


def weights(count: int, rows: int = ROWS) -> Row:
    """Evaluate a network with two hidden layers of so many weights."""
    width = round((-12 + (12**2 + 4 * count) ** 0.5) / 2)
    return _evaluated(Network((11, width, width, 1)), rows)


def weights_many_rows(count: int) -> Row:
    """Evaluate it where neither weights nor rows are few."""
    return weights(count, MANY_ROWS)


def channels(count: int) -> Row:
    """Evaluate a network of lag 5 with so many inputs and as many outputs."""
    return _evaluated(Network((11 * count, 20, count)))


def lags(count: int) -> Row:
    """Evaluate a network of one input and one output with such a lag."""
    return _evaluated(Network((2 * count + 1, 20, 1)))


def starts(count: int) -> Row:
    """Run some cycles of a state-space model with so many members."""
    record = systems.simulate("wiener").estimation
    told: list[float] = []
    sparsid.StateSpace(hidden=(6,), starts=count, max_cycles=8).fit(
        record, progress=lambda _: told.append(time.perf_counter())
    )
    # The first cycles compile.
    return {"seconds": float(np.median(np.diff(told)[3:]))}


def _evaluated(network: Network, rows: int = ROWS) -> Row:
    rng = np.random.default_rng(0)
    kinds = ("row+column",) * len(network.blocks)
    curvature = choose("auto", "auto", network, kinds, rows * network.widths[-1])
    problem, prior = Problem(OneStep(network), curvature), start_prior(network, kinds)
    state = State(
        network.init(key=jax.random.key(0)), prior, jnp.ones(network.widths[-1])
    )
    data = Regression(
        jnp.asarray(rng.standard_normal((rows, network.widths[0]))),
        jnp.asarray(rng.standard_normal((rows, network.widths[-1]))),
    )

    def once() -> None:
        at = evaluate(problem, state, prior, data, CostTerms(1.0, 1.0), 0.0, full=True)
        jax.block_until_ready(step(problem, state.params, prior, at, 1.0, 1.0))

    once()
    took = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        once()
        took.append(time.perf_counter() - began)
    return {
        "seconds": min(took),
        "form": curvature.forms[0],
        "weights": network.weights,
    }


MEASURES: dict[str, Callable[[int], Row]] = {
    "samples": samples,
    "rows": rows,
    "weights": weights,
    "weights, many rows": weights_many_rows,
    "channels": channels,
    "lags": lags,
    "starts": starts,
}


def measured(what: str, count: int) -> Row:
    """Return a point, measured in a process of its own."""
    command = [sys.executable, __file__, "--point", what, str(count)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{what} {count}: {done.stderr}")
    row: Row = json.loads(done.stdout.splitlines()[-1])
    print(what, row, flush=True)
    return row


def exponent(rows: list[Row], of: str) -> float:
    """Return the slope between the last two points, in logarithms."""
    (n, a), (m, b) = ((row["count"], row[of]) for row in rows[-2:])
    return float(np.log(b / a) / np.log(m / n))


def picture(found: dict[str, Any]) -> None:
    """Draw time and memory of every kind, in logarithms."""
    plt.style.use("default")
    figure, grid = plt.subplots(2, 4, figsize=(13, 6.2), layout="constrained")
    axes = grid.ravel()
    for ax, (what, growth) in zip(axes, found.items(), strict=False):
        counts = [row["count"] for row in growth["rows"]]
        for of, color, marker, unit in (
            ("seconds", "#0072B2", "o", "s"),
            ("peak_gb", "#D55E00", "s", "GB"),
        ):
            values = [row[of] for row in growth["rows"]]
            label = f"{of.replace('_gb', ' memory')} [{unit}]"
            ax.loglog(counts, values, color=color, marker=marker, label=label)
        slopes = growth["exponents"]
        ax.set_title(
            f"last slopes: time {slopes['seconds']:.2f}, "
            f"memory {slopes['peak_gb']:.2f}",
            fontsize=9,
        )
        ax.set_xlabel(what)
        ax.xaxis.set_minor_formatter(NullFormatter())
        ax.grid(alpha=0.3, which="major")
    for ax in axes[len(found) :]:
        ax.axis("off")
    figure.legend(*axes[0].get_legend_handles_labels(), loc=(0.82, 0.2))
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, dpi=110)


def main() -> None:
    """Measure all points, or one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--point", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path)
    parser.add_argument(
        "--only", nargs="+", choices=POINTS, help="these again, the others as in --out"
    )
    args = parser.parse_args()
    if args.only and not args.out:
        parser.error("--only needs --out, with what was measured before")
    if args.point:
        what, count = args.point[0], int(args.point[1])
        keep_freed_memory()
        # As fits do.
        with jax.enable_x64(True), threadpool_limits(1, user_api="blas"):
            row = MEASURES[what](count)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        print(json.dumps({"count": count, **row, "peak_gb": peak}))
        return
    found = json.loads(args.out.read_text())["growth"] if args.only else {}
    for what in args.only or POINTS:
        counts = POINTS[what]
        points = [measured(what, count) for count in counts]
        slopes = {of: exponent(points, of) for of in ("seconds", "peak_gb")}
        found[what] = {"rows": points, "exponents": slopes}
    if args.out:
        result = {
            "version": sparsid.__version__,
            "cores": os.cpu_count(),
            "growth": found,
        }
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(json.dumps(result, indent=2) + "\n")
        picture(found)


if __name__ == "__main__":
    main()
