"""The paper's prediction study: one-step error against the share of the record used.

11-100-100-1, lag 5; the first 5 to 100 % of the estimation record; four methods, fifty
repeats. Every method runs to convergence. The strengths of ridge and group lasso are
chosen by one-step error on rotating blocks of the part of the record in use.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import bootstrap

from sparsid.errors import InputError
from sparsid.results.outcome import Outcome
from sparsid.studies import published
from sparsid.studies.runner import Run
from sparsid.studies.store import Spec, Store

NAME = "prediction"
REPEATS = 50
METHODS = ("none", "ridge", "group-lasso", "sparse-bayes")
LABELS = {
    "none": "none",
    "ridge": "conventional (ridge)",
    "group-lasso": "conventional group (group lasso)",
    "sparse-bayes": "sparse Bayes",
}
# Seed of the fits that choose a strength; the repeats have seeds 0, 1, ...
SELECTION_SEED = 1000
FULL: dict[str, Any] = {
    "lags": 5,
    "hidden": [100, 100],
    "activation": "tanh",
    "prior": "row+column",
    "max_cycles": 500,
    "blocks": 3,
    # Wide enough that no choice falls on an end: short records want strong penalties,
    # long ones weak.
    "strengths": {
        "ridge": [1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0],
        "group-lasso": [1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2],
    },
}
QUICK: dict[str, Any] = {
    **FULL,
    "hidden": [10, 10],
    "max_cycles": 150,
    "blocks": 2,
    "strengths": {"ridge": [1e-4, 1e-3], "group-lasso": [1e-4, 1e-3]},
}
QUICK_RATIOS, QUICK_REPEATS = (0.1, 0.5, 1.0), 2
# Fits that ended otherwise say little about their method.
GOOD_ENDS = (Outcome.CONVERGED.value, Outcome.PRUNED.value)
# Draws of the bootstrap over repeats, and the level of its interval.
DRAWS, LEVEL = 10_000, 0.95
# Fewer pairs than this do not make an interval.
FEWEST_PAIRS = 6
BETTER, WORSE = "sparse Bayes better", "sparse Bayes worse"
UNCLEAR, TOO_FEW = "no clear difference", "too few repeats"

Rows = list[dict[str, Any]]
Strengths = dict[tuple[str, float], float]


def settings(dataset: str, *, quick: bool) -> dict[str, Any]:
    """Return what all trials share; another value is another study."""
    return {"dataset": dataset, **(QUICK if quick else FULL)}


def check(methods: Sequence[str], ratios: Sequence[float]) -> None:
    """Refuse unknown methods and impossible ratios."""
    for method in methods:
        if method not in METHODS:
            raise InputError(
                f"method {method!r} is not known: choose from {', '.join(METHODS)}"
            )
    for ratio in ratios:
        if not 0.0 < ratio <= 1.0:
            raise InputError(
                f"ratio {ratio:g} is no share of the record: give numbers above 0 and "
                "up to 1, as in 0.05,0.5,1"
            )


# -- the plan ------------------------------------------------------------------------


def baseline_specs(shared: dict[str, Any], ratios: Iterable[float]) -> list[Spec]:
    """Return the trials of the simple predictors."""
    common = {"kind": "baseline", "dataset": shared["dataset"], "lags": shared["lags"]}
    return [{**common, "ratio": ratio} for ratio in ratios]


def selection_specs(
    shared: dict[str, Any], methods: Sequence[str], ratios: Sequence[float]
) -> list[Spec]:
    """Return the trials that choose the strengths."""
    return [
        {
            "kind": "select",
            **_network(shared),
            "method": method,
            "ratio": ratio,
            "strength": strength,
            "blocks": shared["blocks"],
            "block": block,
            "seed": SELECTION_SEED,
        }
        for ratio in ratios
        for method in methods
        for strength in shared["strengths"].get(method, ())
        for block in range(shared["blocks"])
    ]


def fit_specs(
    shared: dict[str, Any],
    methods: Sequence[str],
    ratios: Sequence[float],
    repeats: int,
    strengths: Strengths | None = None,
) -> list[Spec]:
    """Return the fits, repeat by repeat.

    Parameters
    ----------
    strengths
        Those chosen: a method that needs one and has none at a ratio is left out
        there. None plans all fits, with strengths to come.
    """
    specs = []
    for seed in range(repeats):
        for ratio in ratios:
            for method in methods:
                spec = {"kind": "predict", **_network(shared), "method": method}
                if strengths is not None and method in shared["strengths"]:
                    if (method, ratio) not in strengths:
                        continue
                    spec["strength"] = strengths[method, ratio]
                specs.append({**spec, "ratio": ratio, "seed": seed})
    return specs


def work(
    store: Store, run: Run, methods: Sequence[str], ratios: Sequence[float], count: int
) -> None:
    """Run the study part by part: strengths are chosen before the fits begin.

    Parameters
    ----------
    count
        Repeats of each fit.
    """
    shared = store.study.settings
    fits = fit_specs(shared, methods, ratios, count)
    first = baseline_specs(shared, ratios)
    first += selection_specs(shared, methods, ratios)
    run("choosing strengths", first, later=fits)
    chosen = chosen_strengths(store.rows())
    run("fitting", fit_specs(shared, methods, ratios, count, chosen))


def _network(shared: dict[str, Any]) -> Spec:
    names = ("dataset", "lags", "hidden", "activation", "prior", "max_cycles")
    return {name: shared[name] for name in names}


def chosen_strengths(rows: Rows) -> Strengths:
    """Return the strengths with the smallest error over all blocks held out.

    A strength counts if all its blocks have an answer.
    """
    squares: dict[tuple[str, float], dict[float, list[float]]] = {}
    samples: dict[tuple[str, float], dict[float, int]] = {}
    needed = 0
    for row in rows:
        if row["kind"] != "select" or "error" in row:
            continue
        key, strength = (row["method"], row["ratio"]), row["strength"]
        value = math.inf if row["squares"] is None else row["squares"]
        squares.setdefault(key, {}).setdefault(strength, []).append(value)
        counts = samples.setdefault(key, {})
        counts[strength] = counts.get(strength, 0) + row["samples"]
        needed = row["blocks"]
    chosen = {}
    for key, candidates in squares.items():
        errors = {
            strength: sum(values) / samples[key][strength]
            for strength, values in candidates.items()
            if len(values) == needed
        }
        if errors:
            chosen[key] = min(errors, key=lambda s: errors[s])
    return chosen


# -- what it shows -------------------------------------------------------------------


def fits_frame(rows: Rows) -> pd.DataFrame:
    """Return the finished fits as a table, failures left out."""
    good = [r for r in rows if r["kind"] == "predict" and "error" not in r]
    frame = pd.DataFrame(good)
    numbers = ("test_rmse", "test_rmse_paper", "log_evidence", "cost", "kept")
    return frame.astype({name: float for name in numbers if name in frame})


def errors_table(fits: pd.DataFrame) -> pd.DataFrame:
    """Return test errors by method and ratio, under the paper's and fair selections."""
    rows: Rows = []
    for method in METHODS:
        for ratio, group in fits[fits["method"] == method].groupby("ratio"):
            errors = group["test_rmse"]
            rows.append(
                {
                    "method": method,
                    "ratio": ratio,
                    "repeats": len(group),
                    "paper's way: best on test": errors.min(),
                    "the same, over all samples": group["test_rmse_paper"].min(),
                    "fair: mean": errors.mean(),
                    "std": errors.std(),
                    "fair: median": errors.median(),
                    "fair: chosen inside": errors.iloc[chosen_inside(group)],
                    "kept": group["kept"].mean(),
                    "cycles": group["cycles"].mean(),
                    "not converged": int((~group["outcome"].isin(GOOD_ENDS)).sum()),
                }
            )
    return pd.DataFrame(rows)


def chosen_inside(group: pd.DataFrame) -> int:
    """Return the row that the estimation record prefers, by evidence or by cost."""
    bayes = group["method"].iloc[0] == "sparse-bayes"
    order = -group["log_evidence"] if bayes else group["cost"]
    return int(np.argmin(order.fillna(math.inf).to_numpy()))


def kept_table(fits: pd.DataFrame) -> pd.DataFrame:
    """Return the mean share of weights kept in per cent, the paper's rows and ours."""
    ratios = sorted({*published.RATIOS, *fits["ratio"].astype(float)})
    paper = {
        "group-lasso": dict(
            zip(published.RATIOS, published.KEPT_GROUP_LASSO, strict=True)
        ),
        "sparse-bayes": dict(
            zip(published.RATIOS, published.KEPT_SPARSE_BAYES, strict=True)
        ),
    }
    names = {"group-lasso": "group lasso", "sparse-bayes": "sparse Bayes"}
    rows: Rows = []
    for method, name in names.items():
        group = fits[fits["method"] == method]
        ours = 100.0 * group.groupby("ratio")["kept"].mean()
        for who, values in (("paper", paper[method]), ("ours", ours.to_dict())):
            cells = {ratio: values.get(ratio, math.nan) for ratio in ratios}
            rows.append({"method": f"{name} ({who})", **cells})
    return pd.DataFrame(rows)


def paired_table(fits: pd.DataFrame) -> pd.DataFrame:
    """Return mean differences to sparse Bayes over repeats, with 95 % intervals.

    Positive: sparse Bayes has the smaller error. Paired by repeat (equal seeds), with a
    percentile bootstrap over repeats.
    """
    rows: Rows = []
    wide = fits.pivot_table(
        index="seed", columns=["ratio", "method"], values="test_rmse"
    )
    for ratio in sorted(set(fits["ratio"].astype(float))):
        for method in METHODS[:-1]:
            columns = [(ratio, method), (ratio, "sparse-bayes")]
            if not set(columns) <= set(wide.columns):
                continue
            pairs = wide[columns].dropna().to_numpy()
            if len(pairs) < 2:
                continue
            difference = pairs[:, 0] - pairs[:, 1]
            low, high = bootstrap_interval(difference)
            rows.append(
                {
                    "ratio": ratio,
                    "against": method,
                    "pairs": len(pairs),
                    "mean difference": difference.mean(),
                    "low": low,
                    "high": high,
                    "share of its error [%]": 100.0
                    * difference.mean()
                    / pairs[:, 0].mean(),
                    "verdict": _verdict(len(pairs), low, high),
                }
            )
    return pd.DataFrame(rows)


def bootstrap_interval(values: NDArray[np.float64]) -> tuple[float, float]:
    """Return the 95 % percentile interval of the mean over resampled values."""
    found = bootstrap(
        (values,),
        np.mean,
        n_resamples=DRAWS,
        confidence_level=LEVEL,
        method="percentile",
        rng=np.random.default_rng(0),
    ).confidence_interval
    return float(found.low), float(found.high)


def _verdict(pairs: int, low: float, high: float) -> str:
    if pairs < FEWEST_PAIRS:
        return TOO_FEW
    if low > 0:
        return BETTER
    return WORSE if high < 0 else UNCLEAR


def cost_table(rows: Rows) -> pd.DataFrame:
    """Return what each method took, the choice of its strength counted, in seconds."""
    table: Rows = []
    for method in METHODS:
        mine = [r for r in rows if r.get("method") == method]
        fits = [r["seconds"] for r in mine if r["kind"] == "predict"]
        select = [r["seconds"] for r in mine if r["kind"] == "select"]
        if mine:
            table.append(
                {
                    "method": method,
                    "fits": len(fits),
                    "seconds per fit": np.mean(fits) if fits else math.nan,
                    "fits to choose the strength": len(select),
                    "seconds for these": sum(select),
                    "seconds in all": sum(fits) + sum(select),
                }
            )
    return pd.DataFrame(table)


def strengths_table(rows: Rows, grid: dict[str, list[float]]) -> pd.DataFrame:
    """Return the strengths chosen, and whether the grid ended there."""
    return pd.DataFrame(
        [
            {
                "method": method,
                "ratio": ratio,
                "strength": f"{strength:g}",
                "": "end of the grid"
                if strength in (min(grid[method]), max(grid[method]))
                else "",
            }
            for (method, ratio), strength in sorted(chosen_strengths(rows).items())
        ]
    )
