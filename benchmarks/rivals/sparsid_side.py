"""sparsid's side of the comparison, by the same data, clocks and scores.

Every fit is done twice in one process, on one core. The driver runs the script with an
empty folder for compiled programs, then again with the one it left. So the first fits
of the first process include compilation (*cold*), the first of the second load programs
from disk (*cached*), and all second fits are computation alone (*warm*).
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

from common import (
    NOISE_VARIANCE,
    PRIOR_VARIANCE,
    Clock,
    Data,
    arguments,
    evidence_problem,
    peak_gigabytes,
    read,
    report,
    versions,
)

from sparsid.parallel.local import settle_on_one_core

# Before JAX is imported: one core, and the folder for compiled programs.
settle_on_one_core()

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

import sparsid  # noqa: E402
from sparsid.bayes.cost import CostTerms, Problem, State, evaluate  # noqa: E402
from sparsid.bayes.curvature import choose  # noqa: E402
from sparsid.bayes.objective import OneStep, Regression  # noqa: E402
from sparsid.bayes.posterior import laplace  # noqa: E402
from sparsid.bayes.prior import start_prior  # noqa: E402
from sparsid.models.network import Network  # noqa: E402

PROTOCOLS = {
    "one_step_rmse": "one-step",
    "free_run_A_rmse": "A",
    "free_run_B_rmse": "B",
}


def benchmark(data: Data) -> sparsid.datasets.Benchmark:
    """Return the records behind the guard that scores finished models only."""
    record = sparsid.Record(data.u, data.y, dt=4.0)
    test = sparsid.Record(data.u_test, data.y_test, dt=4.0)
    return sparsid.datasets.Benchmark("tanks", "Cascaded Tanks", record, "CSV", test)


def fits(data: Data, make: Callable[[int], Any], seeds: range) -> dict[str, Any]:
    """Fit every seed twice; return times and errors of each."""
    tanks, rows = benchmark(data), []
    for seed in seeds:
        row: dict[str, Any] = {"seed": seed}
        for pass_ in ("first", "second"):
            clock = Clock()
            model = make(seed).fit(tanks.estimation)
            row[pass_] = clock.read()
        for name, protocol in PROTOCOLS.items():
            error = float(tanks.score(model, protocol).rmse[0])
            row[name] = error if np.isfinite(error) else None
        row |= {"kept": model.kept_, "cycles": len(model.history_["cost"])}
        rows.append(row)
    return {"rows": rows}


def narx(data: Data, options: Any) -> dict[str, Any]:
    """Return fits of the network of the paper, one start each."""
    settings = {"lags": options.lag, "hidden": tuple(options.hidden)}
    if options.max_cycles is not None:
        settings["max_cycles"] = options.max_cycles
    seeds = range(options.seed, options.seed + options.fits)
    found = fits(data, lambda seed: sparsid.NARX(**settings, seed=seed), seeds)
    return {"settings": {"model": "NARX", **settings}, "starts": 1, **found}


def state_space(data: Data, options: Any) -> dict[str, Any]:
    """Return fits of the state-space model, all starts of one in one batch."""
    settings = {"starts": options.starts}
    seeds = range(options.seed, options.seed + options.fits)
    found = fits(data, lambda seed: sparsid.StateSpace(**settings, seed=seed), seeds)
    return {
        "settings": {"model": "StateSpace", **settings},
        "starts": options.starts,
        **found,
    }


def evidence(data: Data, options: Any) -> dict[str, Any]:
    """Return times of the exact evidence and posterior, Gram form."""
    rows, target, weights = evidence_problem(
        data, options.lag, options.hidden, options.seed
    )
    network = Network((rows.shape[1], *options.hidden, 1))
    kinds = ("row+column",) * len(network.blocks)
    with jax.enable_x64(True):
        form = choose("gauss-newton", "auto", network, kinds, len(target), 4e9)
        problem = Problem(OneStep(network), form)
        points = Regression(jnp.asarray(rows), jnp.asarray(target)[:, None])
        prior = tuple(
            p.scaled(PRIOR_VARIANCE / float(p.variances()[0, 0]))
            for p in start_prior(network, kinds)
        )
        state = State(
            tuple(map(jnp.asarray, weights)), prior, jnp.full(1, NOISE_VARIANCE)
        )

        def once() -> float:
            at = evaluate(problem, state, prior, points, CostTerms(1.0, 1.0), 0.0, True)
            return -0.5 * float(at.cost)

        def deviations() -> float:
            linearised = OneStep(network).linearise(
                state.params, state.noise, points, False
            )
            return float(laplace(linearised, prior).std.mean())

        result: dict[str, Any] = {}
        for name, work in (("evidence", once), ("posterior", deviations)):
            clock = Clock()
            result[f"{name}_value"] = work()
            result[f"first_{name}"] = clock.read()
            times = []
            for _ in range(options.repetitions):
                clock = Clock()
                work()
                times.append(clock.read())
            result[name] = {k: statistics.median(t[k] for t in times) for k in times[0]}
    return {
        "settings": {
            "widths": list(network.widths),
            "form": form.forms[0],
            "samples": len(target),
            "weights": sum(W.size for W in weights),
            "prior": "isotropic, held as row and column factors",
            "prior_variance": PRIOR_VARIANCE,
            "noise_variance": NOISE_VARIANCE,
            "precision": "float64",
        },
        "with_gradient": True,
        **result,
    }


def main() -> None:
    """Do one of the three, print the line."""
    parser = arguments(__doc__)
    kinds = {"narx": narx, "state-space": state_space, "evidence": evidence}
    parser.add_argument("--what", choices=kinds, required=True)
    parser.add_argument("--lag", type=int, default=5)
    parser.add_argument("--hidden", type=int, nargs="+", default=[100, 100])
    parser.add_argument("--max-cycles", type=int, help="of a network; default: its own")
    parser.add_argument("--starts", type=int, default=16)
    parser.add_argument("--fits", type=int, default=3)
    parser.add_argument("--repetitions", type=int, default=10)
    options = parser.parse_args()
    result = kinds[options.what](read(options.data), options)
    report(
        {
            "rival": "sparsid",
            "versions": versions("sparsid", "jax", "numpy"),
            **result,
            "peak_gigabytes": peak_gigabytes(),
        }
    )


if __name__ == "__main__":
    main()
