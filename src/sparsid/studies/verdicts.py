"""What was to be reached, and whether it was: reached, NOT reached, or still open."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from sparsid.studies import published
from sparsid.studies.prediction import TOO_FEW, WORSE

# From this share of the record on sparse Bayes must keep up with group lasso.
LARGE_RATIO = 0.5


def prediction_verdicts(
    errors: pd.DataFrame, kept: pd.DataFrame, paired: pd.DataFrame
) -> list[str]:
    """Return a sentence for each figure to reach in the prediction study.

    Parameters
    ----------
    errors, kept, paired
        As the tables of `prediction` have them.
    """
    large = [r for r in published.RATIOS if r >= LARGE_RATIO]
    mean = errors.pivot_table(index="method", columns="ratio", values="fair: mean")
    below = {
        float(str(ratio)): bool(column["sparse-bayes"] < column["none"])
        for ratio, column in mean.items()
        if column.reindex(["sparse-bayes", "none"]).notna().all()
    }
    lasso = paired[paired["against"] == "group-lasso"] if len(paired) else paired
    keeps_up = {
        float(r["ratio"]): r["verdict"] != WORSE
        for r in lasso.to_dict("records")
        if r["verdict"] != TOO_FEW
    }
    share = kept.set_index("method")
    ours, paper = share.loc["sparse Bayes (ours)"], share.loc["sparse Bayes (paper)"]
    both = (ours.notna() & paper.notna()).to_dict()
    small = {r: bool(ours[r] <= paper[r]) for r in large if both.get(r)}
    lines = [
        _by_ratio("mean error below none at every ratio", below, published.RATIOS),
        _by_ratio(
            "not worse than group lasso (95 % interval) at 50 % and above",
            keeps_up,
            large,
        ),
        _by_ratio(
            "kept share at or below the paper's row at 50 % and above", small, large
        ),
    ]
    bayes = errors[errors["method"] == "sparse-bayes"]
    if len(bayes):
        limit = published.BEST_ONE_STEP
        best = float(bayes["the same, over all samples"].min())
        lines.append(
            f"paper's way, best one-step error at most {limit} V: "
            f"**{_word(best <= limit)}** ({best:.4f} V)"
        )
    return [f"Sparse Bayes: {line}" for line in lines]


def simulation_verdicts(table: pd.DataFrame) -> list[str]:
    """Return a sentence for the figure to reach in the simulation study.

    Parameters
    ----------
    table
        As `simulation.runs_table` returns it.
    """
    b = table[(table["protocol"] == "B") & table["network"].str.startswith("sparse")]
    if b.empty or b["paper's way: best on test"].isna().all():
        return ["Sparse Bayes: no free run yet: **open**"]
    limit = published.BEST_SIMULATION
    best = float(b["the same, over all samples"].min())
    scored = float(b["paper's way: best on test"].min())
    return [
        f"Sparse Bayes: paper's way, best free run over all repeats and priors at most "
        f"{limit} V: **{_word(best <= limit)}** ({best:.3f} V as the paper counts, "
        f"{scored:.3f} V over the samples scored)"
    ]


def _by_ratio(text: str, holds: dict[float, bool], wanted: Iterable[float]) -> str:
    """Return the verdict on what must hold at every wanted ratio."""
    wanted = list(wanted)
    known = {ratio: holds[ratio] for ratio in wanted if ratio in holds}
    failing = [ratio for ratio, good in known.items() if not good]
    if failing:
        at = ", ".join(f"{100 * ratio:g} %" for ratio in failing)
        return f"{text}: **{_word(False)}** at {at}"
    if len(known) < len(wanted):
        return f"{text}: **open**, holds at {len(known)} of {len(wanted)} ratios so far"
    return f"{text}: **{_word(True)}**"


def _word(reached: bool) -> str:
    return "reached" if reached else "NOT reached"
