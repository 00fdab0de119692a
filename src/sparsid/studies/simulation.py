"""The paper's simulation study: free runs of networks trained on the one-step error.

39-10-10-10-1, lag 19; sparse Bayes with priors on weights, rows and columns, and no
regularisation, twenty repeats each. Beside them a state-space model trained on the free
run itself, and comparators run live on the same data.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from sparsid.errors import InputError
from sparsid.parallel.fingerprint import code_fingerprint
from sparsid.studies import published
from sparsid.studies.comparators import available
from sparsid.studies.prediction import chosen_inside
from sparsid.studies.runner import Run
from sparsid.studies.store import Spec, Store
from sparsid.studies.trials import PROTOCOLS

NAME = "simulation"
REPEATS, QUICK_REPEATS = 20, 2
STATE_SPACE = "state-space"
# Label, method and prior of what is compared.
VARIANTS = {
    "shape": ("sparse Bayes, every weight", "sparse-bayes", "shape"),
    "row": ("sparse Bayes, rows", "sparse-bayes", "row"),
    "column": ("sparse Bayes, columns", "sparse-bayes", "column"),
    "none": ("no regularisation", "none", "row"),
    "free-run": ("sparse Bayes, states, free-run training", STATE_SPACE, "row+column"),
}
# Shown in the comparison.
SELECTIONS = (
    "paper's way: best on test",
    "fair: mean",
    "fair: chosen inside",
    "fair: best free run over estimation",
)
POOLED = "sparse Bayes, all three priors"
FULL: dict[str, Any] = {
    "lags": 19,
    "hidden": [10, 10, 10],
    "activation": "tanh",
    # Without regularisation a network needs more than five hundred to converge.
    "max_cycles": 1500,
}
QUICK: dict[str, Any] = {**FULL, "lags": 5, "hidden": [6, 6], "max_cycles": 100}
# Members of one state-space model, in full and in quick runs.
MEMBERS, QUICK_MEMBERS = 8, 2

Rows = list[dict[str, Any]]


def settings(dataset: str, *, quick: bool) -> dict[str, Any]:
    """Return what all trials share; another value is another study."""
    here = Path(__file__).parent
    code = code_fingerprint([here / "comparators.py", here / "peers.py"])
    return {
        "dataset": dataset,
        **(QUICK if quick else FULL),
        "members": QUICK_MEMBERS if quick else MEMBERS,
        "comparators": code.hex()[:12],
    }


def check(variants: Sequence[str]) -> None:
    """Refuse unknown variants."""
    for name in variants:
        if name not in VARIANTS:
            raise InputError(
                f"method {name!r} is not known: choose from {', '.join(VARIANTS)}"
            )


def specs(shared: dict[str, Any], variants: Sequence[str], repeats: int) -> list[Spec]:
    """Return all trials, repeat by repeat, comparators first."""
    dataset = {"dataset": shared["dataset"]}
    trials: list[Spec] = [{"kind": "measured", **dataset}]
    for name, package in available().items():
        trials.append({"kind": "compare", **dataset, "name": name, "package": package})
    network = {
        name: shared[name] for name in ("lags", "hidden", "activation", "max_cycles")
    }
    for seed in range(repeats):
        for variant in variants:
            label, method, prior = VARIANTS[variant]
            states = {"members": shared["members"]}
            trials.append(
                {
                    "kind": "simulate",
                    **dataset,
                    **(states if method == STATE_SPACE else network),
                    "label": label,
                    "method": method,
                    "prior": prior,
                    "seed": seed,
                }
            )
    return trials


# -- what it shows -------------------------------------------------------------------


def work(store: Store, run: Run, variants: Sequence[str], repeats: int) -> None:
    """Run the study, which has one part."""
    run("fitting", specs(store.study.settings, variants, repeats))


def runs_frame(rows: Rows) -> pd.DataFrame:
    """Return the finished networks as a table, failures left out."""
    good = [r for r in rows if r["kind"] == "simulate" and "error" not in r]
    frame = pd.DataFrame(good)
    numbers = [f"test_rmse_{p}" for p in (*PROTOCOLS, "paper")]
    numbers += ["train_simulation_rmse", "log_evidence", "cost", "kept"]
    return frame.astype({name: float for name in numbers if name in frame})


def runs_table(runs: pd.DataFrame) -> pd.DataFrame:
    """Return free-run errors by variant and protocol.

    A run that diverged has no error: means and standard deviations are over the others,
    a median takes it as infinite.
    """
    labels = [label for label, *_ in VARIANTS.values()]
    groups = {label: runs[runs["label"] == label] for label in labels}
    groups[POOLED] = runs[runs["method"] == "sparse-bayes"]
    return pd.DataFrame(
        [
            _summary(label, group, protocol)
            for label, group in groups.items()
            for protocol in PROTOCOLS
            if len(group)
        ]
    )


def _summary(label: str, group: pd.DataFrame, protocol: str) -> dict[str, Any]:
    errors = group[f"test_rmse_{protocol}"]
    own = group["train_simulation_rmse"].fillna(math.inf).to_numpy()
    paper = group["test_rmse_paper"].min() if protocol == "B" else math.nan
    return {
        "network": label,
        "protocol": protocol,
        "repeats": len(group),
        "diverged": int(errors.isna().sum()),
        "paper's way: best on test": errors.min(),
        "the same, over all samples": paper,
        "fair: mean": errors.mean(),
        "std": errors.std(),
        "fair: median": errors.fillna(math.inf).median(),
        "fair: chosen inside": errors.iloc[chosen_inside(group)],
        "fair: best free run over estimation": errors.iloc[int(np.argmin(own))],
        "kept": group["kept"].mean(),
    }


def comparison_table(rows: Rows) -> pd.DataFrame:
    """Return one table of free-run errors: published, comparators, ours."""
    table: Rows = [
        {"model": name, "how": "published", "B": value}
        for name, value in published.SIMULATION.items()
    ]
    for row in rows:
        if row["kind"] == "compare" and "error" not in row:
            errors: dict[str, Any] = {p: row[f"test_rmse_{p}"] for p in PROTOCOLS}
            how = f"run live ({row['package']})"
            table.append({"model": row["name"], "how": how, **errors})
    runs = runs_frame(rows)
    if not runs.empty:
        wide = runs_table(runs).set_index(["network", "protocol"])
        for label in wide.index.unique("network"):
            mine = wide.loc[label]
            for column in SELECTIONS:
                how = f"ours, {column}, {mine['repeats'].iloc[0]} repeats"
                errors = mine[column].to_dict()
                table.append({"model": label, "how": how, **errors})
    columns = ["model", "how", "B", "A", "C"]
    return pd.DataFrame(table, columns=columns).astype(
        {p: float for p in PROTOCOLS}  # noqa: C420
    )
