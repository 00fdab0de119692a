"""What all scripts of the comparison share: data, lags, scores, clocks, one JSON line.

NumPy only: every rival has an environment of its own, and none of them has sparsid.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray
COLUMNS = ("uEst", "uVal", "yEst", "yVal")
# The evidence is compared at this noise and prior variance of standardised outputs.
NOISE_VARIANCE, PRIOR_VARIANCE = 0.01, 0.01


@dataclass(frozen=True)
class Data:
    """Estimation and test record; the latter scores finished models only."""

    u: Array
    y: Array
    u_test: Array
    y_test: Array


def read(path: Path) -> Data:
    """Return the two records of a CSV with the columns of the benchmark's own."""
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    column = {name: np.array([float(r[name]) for r in rows]) for name in COLUMNS}
    return Data(column["uEst"], column["yEst"], column["uVal"], column["yVal"])


def write(path: Path, data: Data) -> None:
    """Write the two records, every digit of them."""
    columns = (data.u, data.u_test, data.y, data.y_test)
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(COLUMNS)
        out.writerows(
            [repr(float(v)) for v in row] for row in zip(*columns, strict=True)
        )


def lagged(u: Array, y: Array, lag: int) -> tuple[Array, Array]:
    """Return rows ``u(t), ..., u(t - lag), y(t - 1), ..., y(t - lag)`` and ``y(t)``."""
    times = np.arange(lag, len(y))
    inputs = [u[times - k] for k in range(lag + 1)]
    outputs = [y[times - k] for k in range(1, lag + 1)]
    return np.stack(inputs + outputs, axis=1), y[times]


def free_run(one_step: Callable[[Array], float], u: Array, y: Array, lag: int) -> Array:
    """Return a one-step model's run on its own; only ``y[:lag]`` is looked at."""
    run = np.full(len(u), np.nan)
    run[:lag] = y[:lag]
    for t in range(lag, len(u)):
        row = np.concatenate([u[t - lag : t + 1][::-1], run[t - lag : t][::-1]])
        run[t] = one_step(row)
        if not abs(run[t]) < 1e6:
            break
    return run


def evidence_problem(
    data: Data, lag: int, hidden: list[int], seed: int
) -> tuple[Array, Array, list[Array]]:
    """Return standardised rows and outputs, and random weights, biases last.

    The same for every package, so that their evidences can be compared.
    """
    u = (data.u - data.u.mean()) / data.u.std()
    y = (data.y - data.y.mean()) / data.y.std()
    rows, target = lagged(u, y, lag)
    widths = [rows.shape[1], *hidden, 1]
    draw = np.random.default_rng(seed)
    shapes = pairwise(widths)
    weights = [draw.normal(size=(n + 1, m)) / math.sqrt(n) for n, m in shapes]
    return rows, target, weights


def rmse(measured: Array, computed: Array) -> float | None:
    """Return the root mean squared error; None if the run diverged."""
    error = math.sqrt(np.mean((np.ravel(measured) - np.ravel(computed)) ** 2))
    return error if math.isfinite(error) else None


def cpu_seconds() -> float:
    """Return user and system time of this process and its ended children."""
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


class Clock:
    """Wall and CPU seconds since it was made."""

    def __init__(self) -> None:
        self.wall, self.cpu = time.perf_counter(), cpu_seconds()

    def read(self) -> dict[str, float]:
        """Return both."""
        wall, cpu = time.perf_counter() - self.wall, cpu_seconds() - self.cpu
        return {"wall_seconds": wall, "cpu_seconds": cpu}


def peak_gigabytes() -> float:
    """Return the most memory this process has held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def versions(*names: str) -> dict[str, str]:
    """Return the versions of installed packages."""
    return {name: version(name) for name in names}


def arguments(text: str | None) -> argparse.ArgumentParser:
    """Return a parser with what every script takes."""
    parser = argparse.ArgumentParser(description=(text or "").splitlines()[0])
    parser.add_argument(
        "--data", type=Path, required=True, help="CSV with both records"
    )
    parser.add_argument("--seed", type=int, default=0)
    return parser


def report(result: dict[str, Any]) -> None:
    """Print the result as the one JSON line the driver reads."""
    print(json.dumps(result), flush=True)
