"""The paper's prediction study: one-step error against the share of the record used.

11-100-100-1, lag 5; the first 5 to 100 % of the estimation record; four methods, fifty
repeats. Every method runs to convergence. The strengths of ridge and group lasso are
chosen by one-step error on rotating blocks of the part of the record in use.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from sparsid.errors import InputError
from sparsid.studies import published
from sparsid.studies.store import Spec, Store

NAME = "prediction"
METHODS = ("none", "ridge", "group-lasso", "sparse-bayes")
LABELS = {
    "none": "none",
    "ridge": "conventional (ridge)",
    "group-lasso": "conventional group (group lasso)",
    "sparse-bayes": "sparse Bayes",
}
STRENGTHS = {
    "ridge": (1e-6, 1e-5, 1e-4, 1e-3),
    "group-lasso": (1e-6, 1e-5, 1e-4, 1e-3),
}
BLOCKS = 3
# Seed of the fits that choose a strength; the repeats have seeds 0, 1, ...
SELECTION_SEED = 1000


def settings(dataset: str, *, quick: bool) -> dict[str, Any]:
    """Return what all trials share; another value is another study."""
    return {
        "dataset": dataset,
        "lags": 5,
        "hidden": [20, 20] if quick else [100, 100],
        "max_cycles": 150 if quick else 500,
        "blocks": BLOCKS,
        "strengths": {m: list(s) for m, s in STRENGTHS.items()},
    }


def check(methods: list[str], ratios: list[float]) -> None:
    """Refuse unknown methods and impossible ratios."""
    for method in methods:
        if method not in METHODS:
            raise InputError(
                f"method {method!r} is not known: choose from {', '.join(METHODS)}"
            )
    for ratio in ratios:
        if not 0.0 < ratio <= 1.0:
            raise InputError(f"ratio {ratio:g} is not a share between 0 and 1")


def _spec(shared: dict[str, Any], method: str, ratio: float, **more: Any) -> Spec:
    return {
        "dataset": shared["dataset"],
        "lags": shared["lags"],
        "hidden": shared["hidden"],
        "prior": "row+column",
        "max_cycles": shared["max_cycles"],
        "method": method,
        "ratio": ratio,
        **more,
    }


def selection_specs(
    shared: dict[str, Any], methods: list[str], ratios: list[float]
) -> list[Spec]:
    """Return the trials that choose the strengths."""
    return [
        _spec(
            shared,
            method,
            ratio,
            kind="select",
            strength=strength,
            block=block,
            blocks=shared["blocks"],
            repeat=SELECTION_SEED,
        )
        for ratio in ratios
        for method in methods
        for strength in shared["strengths"].get(method, ())
        for block in range(shared["blocks"])
    ]


def chosen_strengths(rows: list[dict[str, Any]]) -> dict[tuple[str, float], float]:
    """Return the strength with the smallest error over all held-out blocks."""
    errors: dict[tuple[str, float], dict[float, list[float]]] = {}
    for row in rows:
        if row["kind"] != "select" or "error" in row:
            continue
        entry = errors.setdefault((row["method"], row["ratio"]), {})
        sums = entry.setdefault(row["strength"], [0.0, 0.0])
        sums[0] += row["squares"]
        sums[1] += row["samples"]
    return {
        key: min(sums, key=lambda s: sums[s][0] / max(sums[s][1], 1.0))
        for key, sums in errors.items()
    }


def fit_specs(
    shared: dict[str, Any],
    methods: list[str],
    ratios: list[float],
    repeats: int,
    strengths: dict[tuple[str, float], float],
) -> list[Spec]:
    """Return the trials of the study proper, repeat by repeat."""
    specs = []
    for repeat in range(repeats):
        for ratio in ratios:
            for method in methods:
                more: dict[str, Any] = {"kind": "predict", "repeat": repeat}
                if method in shared["strengths"]:
                    more["strength"] = strengths[method, ratio]
                specs.append(_spec(shared, method, ratio, **more))
    return specs


# -- what it shows -------------------------------------------------------------------


def frame(store: Store) -> pd.DataFrame:
    """Return the finished fits as a table, failures left out."""
    rows = [r for r in store.rows() if r["kind"] == "predict" and "error" not in r]
    return pd.DataFrame(rows)


def errors_table(fits: pd.DataFrame) -> pd.DataFrame:
    """Return test errors by method and ratio under both selections.

    ``paper's way`` is the best of the repeats on the test record; ``fair`` are the mean
    over repeats and the one chosen inside the estimation record, by evidence where
    there is one and by the cost of the fit where not.
    """
    rows = []
    for (method, ratio), group in fits.groupby(["method", "ratio"]):
        inside = _choose_inside(group, str(method))
        rows.append(
            {
                "method": method,
                "ratio": ratio,
                "repeats": len(group),
                "paper's way: best": group["test_rmse"].min(),
                "fair: mean": group["test_rmse"].mean(),
                "std": group["test_rmse"].std(),
                "median": group["test_rmse"].median(),
                "fair: chosen inside": inside["test_rmse"],
                "kept: mean": group["kept"].mean(),
                "seconds": group["seconds"].mean(),
                "not converged": int((group["outcome"] != "converged").sum()),
            }
        )
    return pd.DataFrame(rows)


def _choose_inside(group: pd.DataFrame, method: str) -> pd.Series:
    if method == "sparse-bayes":
        return group.loc[group["log_evidence"].idxmax()]
    return group.loc[group["cost"].idxmin()]


def kept_table(fits: pd.DataFrame) -> pd.DataFrame:
    """Return the mean share of weights kept in per cent, the paper's rows beside ours."""
    mean = fits.groupby(["method", "ratio"])["kept"].mean().unstack("ratio") * 100.0
    rows = {
        "group lasso (paper)": published.KEPT_GROUP_LASSO,
        "group lasso (ours)": None,
        "sparse Bayes (paper)": published.KEPT_SPARSE_BAYES,
        "sparse Bayes (ours)": None,
    }
    ours = {
        "group lasso (ours)": "group-lasso",
        "sparse Bayes (ours)": "sparse-bayes",
    }
    table = pd.DataFrame(index=list(rows), columns=list(published.RATIOS), dtype=float)
    for name, values in rows.items():
        if values is not None:
            table.loc[name] = values
        elif ours[name] in mean.index:
            table.loc[name] = mean.loc[ours[name]].reindex(published.RATIOS)
    return table


def paired_table(fits: pd.DataFrame, draws: int = 10_000) -> pd.DataFrame:
    """Return mean differences to sparse Bayes over repeats, with 95 % intervals.

    Positive: sparse Bayes has the smaller error. Paired by repeat (equal seeds), with a
    percentile bootstrap over repeats.
    """
    generator = np.random.default_rng(0)
    wide = fits.pivot_table(
        index=["ratio", "repeat"], columns="method", values="test_rmse"
    )
    rows = []
    if "sparse-bayes" not in wide:
        return pd.DataFrame(rows)
    for ratio, group in wide.groupby(level="ratio"):
        for method in METHODS[:-1]:
            if method not in group:
                continue
            pairs = (group[method] - group["sparse-bayes"]).dropna().to_numpy()
            if len(pairs) < 2:
                continue
            sample = generator.integers(len(pairs), size=(draws, len(pairs)))
            low, high = np.quantile(pairs[sample].mean(1), (0.025, 0.975))
            rows.append(
                {
                    "ratio": ratio,
                    "against": method,
                    "pairs": len(pairs),
                    "mean difference": pairs.mean(),
                    "low": low,
                    "high": high,
                    "verdict": _verdict(low, high),
                }
            )
    return pd.DataFrame(rows)


def _verdict(low: float, high: float) -> str:
    if low > 0:
        return "sparse Bayes better"
    return "sparse Bayes worse" if high < 0 else "no clear difference"
