"""How far evaluations are from what the machine's arithmetic allows.

The floating-point work of one full evaluation of the evidence in Gram form
(11-100-100-1, 1019 rows) and of one sensitivity sweep (two states, ten neurons, 1024
samples) is counted by hand, below. The bound is that work at the rates that this
machine reaches in the same run, in JAX, in float64: of a square matrix product and of a
Cholesky factorisation of the same size. Pinned to one core, then to two.

    python benchmarks/limit.py --out docs/results/limit.json

The pieces of the Gram form are timed on their own too, each with its own bound.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from threadpoolctl import threadpool_limits

from sparsid import datasets
from sparsid.bayes.cost import CostTerms, Problem, State, evaluate
from sparsid.bayes.curvature import choose, forms
from sparsid.bayes.objective import OneStep, Regression
from sparsid.bayes.prior import start_prior
from sparsid.bayes.sensitivities import free_runs as swept
from sparsid.data.scaling import Scaling
from sparsid.fitting.narx import regression
from sparsid.models.narx import Lags
from sparsid.models.network import Network
from sparsid.models.state_space import StateNetwork
from sparsid.parallel.local import ONE_CORE, keep_freed_memory

Row = dict[str, Any]
WIDTHS, LAG = (11, 100, 100, 1), 5
STATES, INPUTS, OUTPUTS, NEURONS, SAMPLES = 2, 1, 1, 10, 1024
MEMBERS = (1, 16)
# On a busy machine the CPU clock of a process on one core says what the wall clock
# would say on an idle one; with two cores it is the sum over both.
CLOCKS = ("wall", "cpu")


# -- the work, in floating-point operations ------------------------------------------


def gram_work(N: int, widths: tuple[int, ...]) -> dict[str, float]:
    """Return the least work of one full evaluation, by piece.

    Matrix products count two operations per multiply-add, and are counted in full: the
    symmetric ones could do with half. The inverse from the factor ``L`` is that of the
    triangle (``N^3/3``) and the product of two triangles (``N^3/3``).
    """
    shapes = [(n + 1, m) for n, m in pairwise(widths)]
    # A single output column only scales the rows: no second product.
    sides = sum(n + (m if m > 1 else 0) for n, m in shapes)
    weights = sum(n * m for n, m in shapes)
    return {
        # Forward, back-propagation of the output, and the reverse pass of both.
        "network": 2.0 * N * weights * 2 + 2.0 * N * weights * 4,
        "gram_products": 2.0 * N**2 * sides,
        "cholesky": N**3 / 3.0,
        "inverse": 2.0 * N**3 / 3.0,
        "cotangents": 2.0 * N**2 * sides,
    }


def sweep_work(n: int, m: int, h: int, T: int) -> dict[str, float]:
    """Return the work of one free run with sensitivities, of one member.

    ``x+ = decay x + rate (C' x + B' u + net([x; u]))`` with one hidden layer. Of
    ``F_w`` only the entries that are not zero by structure are counted: per state, the
    weights of its column, and all of the first layer.
    """
    first, second = (n + m + 1) * h, (h + 1) * n
    weights = first + second + m * n + n * n + n + n
    run = 2.0 * (first + second + m * n + n * n) + h + 3 * n
    F_w = n * (first + h) + second + m * n + n * n + n
    F_x = 2.0 * n * h * n + 2 * n * n
    move = 2.0 * n * n * weights + n * weights
    return {"run": T * run, "derivatives": T * (F_w + F_x), "sensitivities": T * move}


# -- measured ------------------------------------------------------------------------


def seconds(work: Callable[[], Any], repetitions: int) -> dict[str, float]:
    """Return median and least wall and CPU seconds of compiled work."""
    jax.block_until_ready(work())
    walls, cpus = [], []
    for _ in range(repetitions):
        wall, cpu = time.perf_counter(), time.process_time()
        jax.block_until_ready(work())
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    return {
        "wall_seconds": statistics.median(walls),
        "least_wall_seconds": min(walls),
        "cpu_seconds": statistics.median(cpus),
        "least_cpu_seconds": min(cpus),
    }


@contextmanager
def one_lapack_thread() -> Iterator[None]:
    """Do as fits do; the rates that bounds are set by are measured with all threads."""
    with threadpool_limits(1, user_api="blas"):
        # Those that are there go on spinning for a while.
        time.sleep(0.5)
        yield


_product = jax.jit(lambda A, B: A @ B)
_cholesky = jax.jit(jnp.linalg.cholesky)
_elementwise = jax.jit(lambda A, B: A * B)


def rates(N: int, repetitions: int) -> Row:
    """Return operations per second of matrix product and Cholesky, of size ``N``."""
    A = jax.random.normal(jax.random.key(0), (N, N), jnp.float64)
    S = A @ A.T / N + jnp.eye(N)
    product = seconds(lambda: _product(A, A), repetitions)
    factor = seconds(lambda: _cholesky(S), repetitions)
    passing = seconds(lambda: _elementwise(A, S), repetitions)
    return {
        clock: {
            "product": 2.0 * N**3 / product[f"{clock}_seconds"],
            "cholesky": N**3 / 3.0 / factor[f"{clock}_seconds"],
            "elementwise_pass_seconds": passing[f"{clock}_seconds"],
        }
        for clock in CLOCKS
    }


def gram(repetitions: int) -> Row:
    """Return the time of one full evaluation, of its pieces, and their bounds."""
    record = datasets.load("simulated-tanks").estimation
    rows = regression([record], Scaling.of(record), Lags(1, 1, LAG, LAG))
    data = Regression(jnp.asarray(rows.z), jnp.asarray(rows.y))
    N, network = len(data.y), Network(WIDTHS)
    kinds = ("row+column",) * len(network.blocks)
    curvature = choose("gauss-newton", "gram", network, kinds, N)
    problem = Problem(OneStep(network), curvature)
    params = network.init(key=jax.random.key(0))
    state = State(params, start_prior(network, kinds), jnp.full(1, 0.01))

    def full() -> Any:
        weights = CostTerms(1.0, 1.0)
        return evaluate(problem, state, state.prior, data, weights, 0.0, full=True)

    @jax.jit
    def products(derivative: Any) -> Any:
        grams = [
            forms._Gram.of(*block)
            for block in zip(*derivative, state.prior, strict=True)
        ]
        return sum(g.product() for g in grams)

    @jax.jit
    def cotangents(derivative: Any, Q: Any) -> Any:
        grams = [
            forms._Gram.of(*block)
            for block in zip(*derivative, state.prior, strict=True)
        ]
        return [g.product() for g in grams], [g.cotangents(Q) for g in grams]

    derivative = full().derivative
    K = products(derivative) + jnp.eye(N)
    L = _cholesky(K)
    invert = jax.jit(forms._inverse_by_halves)
    Q = invert(L)
    with one_lapack_thread():
        at = seconds(full, repetitions)
        apart = {
            "gram_products": seconds(lambda: products(derivative), repetitions),
            "gram_products_and_cotangents": seconds(
                lambda: cotangents(derivative, Q), repetitions
            ),
            "cholesky": seconds(lambda: _cholesky(K), repetitions),
            "inverse": seconds(lambda: invert(L), repetitions),
        }
    reached, work = rates(N, repetitions), gram_work(N, WIDTHS)
    bound = {
        clock: {
            name: flops
            / reached[clock]["cholesky" if name == "cholesky" else "product"]
            for name, flops in work.items()
        }
        for clock in CLOCKS
    }
    return {
        "network": "-".join(map(str, WIDTHS)),
        "rows": N,
        "rates": reached,
        "work": work,
        "total_work": sum(work.values()),
        "bound_seconds_by_piece": bound,
        "measured": at,
        **_against({clock: sum(bound[clock].values()) for clock in CLOCKS}, at),
        "pieces": apart,
    }


def sweep(repetitions: int) -> list[Row]:
    """Return the times of sensitivity sweeps, and their bounds."""
    far = (float("inf"),) * OUTPUTS
    model = StateNetwork(
        INPUTS, OUTPUTS, STATES, (NEURONS,), 1, 0.1, tuple(-f for f in far), far
    )
    u = jax.random.normal(jax.random.key(1), (SAMPLES, INPUTS), jnp.float64)
    work = sweep_work(STATES, INPUTS, NEURONS, SAMPLES)
    reached = rates(1024, repetitions)

    @jax.jit
    def run(params: Any, u: Any) -> Any:
        return swept(model, params, u[None])

    out = []
    for members in MEMBERS:
        keys = jax.random.split(jax.random.key(0), members)
        params = jax.vmap(lambda k: model.init(jnp.zeros((1, OUTPUTS)), key=k))(keys)
        with one_lapack_thread():
            at = seconds(lambda params=params: run(params, u), repetitions)
        total = members * sum(work.values())
        bound = {clock: total / reached[clock]["product"] for clock in CLOCKS}
        out.append(
            {
                "members": members,
                "samples": SAMPLES,
                "weights": sum(a * b for a, b in model.shapes),
                "work": {k: members * v for k, v in work.items()},
                "measured": at,
                **_against(bound, at),
                "cpu_microseconds_per_sample": 1e6 * at["cpu_seconds"] / SAMPLES,
            }
        )
    return out


def _against(bound: dict[str, float], at: dict[str, float]) -> Row:
    """Return bounds and how many times longer it took, by either clock."""
    return {
        "bound_seconds": bound,
        "ratio": {clock: at[f"{clock}_seconds"] / bound[clock] for clock in CLOCKS},
    }


def measure(cores: int, repetitions: int) -> Row:
    """Return everything, in this process, pinned to some cores."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    keep_freed_memory()
    with jax.enable_x64(True):
        return {
            "cores": cores,
            "repetitions": repetitions,
            "gram": gram(repetitions),
            "sweep": sweep(repetitions),
        }


def main() -> None:
    """Measure in processes of one and of two cores, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--cores", type=int, help="only here, with so many")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if options.cores:
        print(json.dumps(measure(options.cores, options.repetitions)))
        return
    found = []
    for cores in range(1, min(2, len(os.sched_getaffinity(0))) + 1):
        count = ["--cores", str(cores), "--repetitions", str(options.repetitions)]
        # Read when the numerical libraries are loaded: for the process, not by it.
        variables = {**os.environ, **{name: str(cores) for name in ONE_CORE}}
        done = subprocess.run(
            [sys.executable, __file__, *count],
            stdout=subprocess.PIPE,
            env=variables,
            check=True,
        )
        found.append(json.loads(done.stdout.splitlines()[-1]))
    print("| | cores | bound, CPU (ms) | measured (ms) | ratio, CPU | ratio, wall |")
    print("|---|---|---|---|---|---|")
    for row in found:
        _print("evidence, Gram form", row["cores"], row["gram"])
        for at in row["sweep"]:
            _print(f"sensitivities, {at['members']} members", row["cores"], at)
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(found, indent=2) + "\n")


def _print(name: str, cores: int, at: Row) -> None:
    print(
        f"| {name} | {cores} | {1e3 * at['bound_seconds']['cpu']:.3f} | "
        f"{1e3 * at['measured']['cpu_seconds']:.3f} | {at['ratio']['cpu']:.2f} | "
        f"{at['ratio']['wall']:.2f} |"
    )


if __name__ == "__main__":
    main()
