"""The paper's simulation study: free runs of networks trained on the one-step error.

39-10-10-10-1, lag 19; sparse Bayes with priors on weights, rows and columns, and no
regularisation, twenty repeats each; comparators run live on the same data.
"""

from __future__ import annotations

from typing import Any

import pandas as pd

from sparsid.studies import published
from sparsid.studies.comparators import available
from sparsid.studies.store import Spec, Store

NAME = "simulation"
# Label, method and prior of what is compared.
VARIANTS = {
    "sparse Bayes, every weight": ("sparse-bayes", "shape"),
    "sparse Bayes, rows": ("sparse-bayes", "row"),
    "sparse Bayes, columns": ("sparse-bayes", "column"),
    "no regularisation": ("none", "row"),
}
PROTOCOLS = ("A", "B", "C")


def settings(dataset: str, *, quick: bool) -> dict[str, Any]:
    """Return what all trials share; another value is another study."""
    return {
        "dataset": dataset,
        "lags": 5 if quick else 19,
        "hidden": [6, 6] if quick else [10, 10, 10],
        "max_cycles": 100 if quick else 500,
    }


def specs(shared: dict[str, Any], repeats: int) -> list[Spec]:
    """Return all trials, repeat by repeat, comparators first."""
    trials: list[Spec] = [
        {"kind": "compare", "dataset": shared["dataset"], "name": name}
        for name in available()
    ]
    for repeat in range(repeats):
        for label, (method, prior) in VARIANTS.items():
            trials.append(
                {
                    "kind": "simulate",
                    **shared,
                    "label": label,
                    "method": method,
                    "prior": prior,
                    "repeat": repeat,
                }
            )
    return trials


def frames(store: Store) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the finished network runs and comparators, failures left out."""
    rows = [r for r in store.rows() if "error" not in r]
    runs = pd.DataFrame([r for r in rows if r["kind"] == "simulate"])
    others = pd.DataFrame([r for r in rows if r["kind"] == "compare"])
    return runs, others


def runs_table(runs: pd.DataFrame) -> pd.DataFrame:
    """Return free-run errors by variant and protocol; diverged runs are counted."""
    rows = []
    for label, group in runs.groupby("label", sort=False):
        bayes = group["method"].iloc[0] == "sparse-bayes"
        order = -group["log_evidence"] if bayes else group["cost"]
        inside = group.loc[order.idxmin()]
        for protocol in PROTOCOLS:
            errors = group[f"test_rmse_{protocol}"].astype(float)
            rows.append(
                {
                    "variant": label,
                    "protocol": protocol,
                    "repeats": len(group),
                    "diverged": int(errors.isna().sum()),
                    "paper's way: best": errors.min(),
                    "fair: mean": errors.mean(),
                    "std": errors.std(),
                    "fair: median": errors.median(),
                    "fair: chosen inside": inside[f"test_rmse_{protocol}"],
                    "kept: mean": group["kept"].mean(),
                }
            )
    return pd.DataFrame(rows)


def comparison_table(runs: pd.DataFrame, others: pd.DataFrame) -> pd.DataFrame:
    """Return one table of free-run errors: published, comparators, ours."""
    rows: list[dict[str, Any]] = [
        {"model": name, "RMSE": value, "how": "published"}
        for name, value in published.SIMULATION.items()
    ]
    for _, row in others.iterrows():
        how = "run live, protocol B"
        rows.append({"model": row["name"], "RMSE": row["test_rmse_B"], "how": how})
    if not runs.empty:
        table = runs_table(runs)
        b = table[table["protocol"] == "B"]
        for _, row in b.iterrows():
            for column in ("paper's way: best", "fair: mean", "fair: chosen inside"):
                how = f"ours, protocol B, {column}, {row['repeats']} repeats"
                rows.append({"model": row["variant"], "RMSE": row[column], "how": how})
    return pd.DataFrame(rows)
