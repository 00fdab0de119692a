"""One-step error and size of 11-100-100-1 on Cascaded Tanks, several seeds.

No seed is selected: the mean over all of them is the figure to quote. The test record
scores finished models only. Run with one core per process for the time per start:
`taskset -c 0 python benchmarks/one_step.py`.
"""

import argparse
import json
import resource
import time
from pathlib import Path

import numpy as np

import sparsid
from sparsid.data.scaling import Scaling
from sparsid.models.narx import Lags
from sparsid.validation.baselines import Arx


def linear_arx(benchmark: sparsid.datasets.Benchmark, lags: int) -> float:
    """Test error of the linear model of the same regressors by least squares."""
    record, test = benchmark.estimation, benchmark.reveal_test()
    model = Arx.fit([record], Lags(1, 1, lags, lags), Scaling.of([record]))
    return float(np.sqrt(np.nanmean((test.y - model.predict(test)) ** 2)))


def main() -> None:
    """Fit all seeds, print a table, write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()

    benchmark = sparsid.datasets.load("cascaded-tanks")
    rows = []
    for seed in range(args.seeds):
        began = time.perf_counter()
        model = sparsid.NARX(lags=5, hidden=(100, 100), seed=seed)
        model.fit(benchmark.estimation)
        seconds = time.perf_counter() - began
        rows.append(
            {
                "seed": seed,
                "one_step_rmse": float(benchmark.score(model, "one-step").rmse[0]),
                "kept": model.kept_,
                "log_evidence": model.log_evidence_,
                "outcome": model.outcome_.value,
                "seconds": seconds,
            }
        )
        print(
            f"seed {seed}: {rows[-1]['one_step_rmse']:.4f} V, "
            f"{100 * model.kept_:.2f} % kept, {seconds:.1f} s",
            flush=True,
        )
    errors = np.array([r["one_step_rmse"] for r in rows])
    kept = np.array([r["kept"] for r in rows])
    result = {
        "benchmark": benchmark.title,
        "source": benchmark.source,
        "version": sparsid.__version__,
        "protocol": "one step ahead, scored from the largest lag on, none selected",
        "mean_rmse": float(errors.mean()),
        "std_rmse": float(errors.std(ddof=1)) if len(errors) > 1 else 0.0,
        "mean_kept": float(kept.mean()),
        "largest_kept": float(kept.max()),
        "linear_arx": linear_arx(benchmark, 5),
        "first_seconds": rows[0]["seconds"],
        "median_later_seconds": float(
            np.median([r["seconds"] for r in rows[1:]] or [0])
        ),
        "peak_memory_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
        "seeds": rows,
    }
    print(
        f"mean {result['mean_rmse']:.4f} V (std {result['std_rmse']:.4f}; linear ARX "
        f"{result['linear_arx']:.4f}), kept {100 * kept.mean():.2f} % "
        f"(largest {100 * kept.max():.2f} %), first {result['first_seconds']:.1f} s, "
        f"then {result['median_later_seconds']:.1f} s, "
        f"{result['peak_memory_gb']:.2f} GB"
    )
    if args.out:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
