"""Tables (CSV, Markdown) and figures (PNG, SVG) from a store, finished or not."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

import sparsid
from sparsid import datasets
from sparsid.studies import prediction, published, simulation
from sparsid.studies.comparators import run_comparator
from sparsid.studies.store import Store

# Okabe and Ito's colours, told apart by colour-blind readers too.
COLOURS = {
    "none": "#0072B2",
    "ridge": "#E69F00",
    "group-lasso": "#009E73",
    "sparse-bayes": "#D55E00",
}


def write_prediction(store: Store, out: Path, command: str) -> list[Path]:
    """Write the prediction study's tables and figure; return the files."""
    fits = prediction.frame(store)
    if fits.empty:
        return []
    benchmark = datasets.load(str(fits["dataset"].iloc[0]))
    lines = _baselines(benchmark)
    errors = prediction.errors_table(fits)
    kept = prediction.kept_table(fits)
    paired = prediction.paired_table(fits)
    files = [
        _csv(errors, out / "prediction_errors.csv"),
        _csv(kept.reset_index(names="share kept [%]"), out / "prediction_kept.csv"),
        _csv(paired, out / "prediction_paired.csv"),
        *_save(_prediction_figure(errors, lines), out / "prediction"),
    ]
    strengths = prediction.chosen_strengths(store.rows())
    text = [
        "# Prediction study",
        "",
        _provenance(store, command, benchmark, f"{len(fits)} fits"),
        "",
        "One step ahead, 11-100-100-1, lag 5; errors in V on the test record, scored "
        "from the largest lag on. *Paper's way* is the best repeat on the test record; "
        "*fair* is the mean over repeats, and the one chosen inside the estimation "
        "record (by evidence for sparse Bayes, by the cost of the fit otherwise).",
        "",
        f"Linear ARX of the same lag: {lines['linear ARX']:.4f} V; persistence: "
        f"{lines['persistence']:.4f} V.",
        "",
        "![errors](prediction.png)",
        "",
        "## Errors",
        "",
        _markdown(errors),
        "",
        "## Share of weights kept, in per cent, mean over repeats",
        "",
        _markdown(kept.reset_index(names="")),
        "",
        "## Sparse Bayes against the others, paired by repeat",
        "",
        "Mean difference in V (positive: sparse Bayes has the smaller error) with a 95 % "
        "bootstrap interval over repeats.",
        "",
        _markdown(paired),
        "",
        "## Strengths chosen on rotating blocks of the estimation record",
        "",
        _markdown(
            pd.DataFrame(
                [
                    {"method": m, "ratio": r, "strength": s}
                    for (m, r), s in sorted(strengths.items())
                ]
            )
        ),
        "",
        "## Against the figures to reach",
        "",
        *_prediction_verdicts(errors, kept, paired),
        "",
    ]
    path = out / "prediction.md"
    path.write_text("\n".join(text))
    return [*files, path]


def write_simulation(store: Store, out: Path, command: str) -> list[Path]:
    """Write the simulation study's tables and figure; return the files."""
    runs, others = simulation.frames(store)
    if runs.empty and others.empty:
        return []
    rows = runs if not runs.empty else others
    benchmark = datasets.load(str(rows["dataset"].iloc[0]))
    comparison = simulation.comparison_table(runs, others)
    files = [_csv(comparison, out / "simulation_comparison.csv")]
    text = [
        "# Simulation study",
        "",
        _provenance(store, command, benchmark, f"{len(runs)} networks"),
        "",
        "Free run on the test record, networks 39-10-10-10-1, lag 19, trained on the "
        "one-step error. Protocol A: no test output used, all samples scored; B: the "
        "first outputs start the run, the rest is scored; C: scored from sample 50 on.",
        "",
        "## Comparison",
        "",
        _markdown(comparison),
        "",
    ]
    if not runs.empty:
        table = simulation.runs_table(runs)
        files += [
            _csv(table, out / "simulation_runs.csv"),
            *_save(_simulation_figure(runs, benchmark), out / "simulation"),
        ]
        text += ["## All protocols", "", _markdown(table), ""]
        text += ["![free runs](simulation.png)", "", "## Against the figure to reach"]
        text += ["", *_simulation_verdicts(table), ""]
    path = out / "simulation.md"
    path.write_text("\n".join(text))
    return [*files, path]


# -- verdicts ------------------------------------------------------------------------


def _prediction_verdicts(
    errors: pd.DataFrame, kept: pd.DataFrame, paired: pd.DataFrame
) -> list[str]:
    lines = []
    mean = errors.pivot_table(index="ratio", columns="method", values="fair: mean")
    if {"sparse-bayes", "none"} <= set(mean):
        worse = mean.index[mean["sparse-bayes"] >= mean["none"]]
        lines.append(_line("mean error below none at every ratio", list(worse)))
    if not paired.empty:
        lasso = paired[(paired["against"] == "group-lasso") & (paired["ratio"] >= 0.5)]
        worse = lasso.loc[lasso["high"] < 0, "ratio"]
        text = "not worse than group lasso (95 % interval) at 50 % and above"
        lines.append(_line(text, list(worse)))
    ours, paper = kept.loc["sparse Bayes (ours)"], kept.loc["sparse Bayes (paper)"]
    large = [
        r for r in kept if r >= 0.5 and np.isfinite(ours[r]) and ours[r] > paper[r]
    ]
    text = "kept share at or below the paper's row at 50 % and above"
    lines.append(_line(text, large))
    bayes = errors[errors["method"] == "sparse-bayes"]["paper's way: best"]
    if len(bayes):
        best = bayes.min()
        reached = "reached" if best <= published.BEST_ONE_STEP else "NOT reached"
        lines.append(
            f"- paper's way, best one-step error at most {published.BEST_ONE_STEP}: "
            f"**{reached}** ({best:.4f} V)"
        )
    return lines


def _line(text: str, failing: list[float]) -> str:
    if not failing:
        return f"- {text}: **reached**"
    at = ", ".join(f"{100 * r:g} %" for r in failing)
    return f"- {text}: **NOT reached** at {at}"


def _simulation_verdicts(table: pd.DataFrame) -> list[str]:
    b = table[(table["protocol"] == "B") & table["variant"].str.startswith("sparse")]
    best = b["paper's way: best"].min()
    reached = "reached" if best <= published.BEST_SIMULATION else "NOT reached"
    return [
        f"- paper's way, best free run over all repeats and priors at most "
        f"{published.BEST_SIMULATION} V: **{reached}** ({best:.3f} V)"
    ]


# -- figures -------------------------------------------------------------------------


def _prediction_figure(errors: pd.DataFrame, lines: dict[str, float]) -> Figure:
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    best, mean = figure.subplots(1, 2, sharey=True)
    for method in prediction.METHODS:
        group = errors[errors["method"] == method].sort_values("ratio")
        if group.empty:
            continue
        x, colour = 100 * group["ratio"], COLOURS[method]
        label = prediction.LABELS[method]
        best.plot(x, group["paper's way: best"], "o-", ms=4, color=colour, label=label)
        mean.errorbar(
            x,
            group["fair: mean"],
            group["std"],
            fmt="o-",
            ms=4,
            capsize=3,
            color=colour,
            label=label,
        )
    for ax, title in ((best, "best repeat on the test record"), (mean, "mean ± std")):
        for (name, value), style in zip(lines.items(), ("--", ":"), strict=True):
            ax.axhline(value, color="0.4", ls=style, lw=1, label=name)
        ax.set(title=title, xlabel="share of the estimation record [%]", yscale="log")
        ax.grid(color="0.9")
        ax.spines[["top", "right"]].set_visible(False)
    best.set_ylabel("one-step RMSE on the test record [V]")
    best.legend(frameon=False, fontsize="small")
    return figure


def _simulation_figure(runs: pd.DataFrame, benchmark: datasets.Benchmark) -> Figure:
    test = benchmark.reveal_test()
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    ax = figure.subplots()
    free = runs[runs["method"] == "none"]
    for k, series in enumerate(free["simulated"].head(10)):
        label = "no regularisation, ten repeats" if k == 0 else None
        values = np.array(series, float)
        ax.plot(test.time, values, color="0.75", lw=0.7, label=label)
    chosen = {
        "no regularisation, best": (free, "test_rmse_B", COLOURS["ridge"]),
        "sparse Bayes, best on the test record": (
            runs[runs["method"] != "none"],
            "test_rmse_B",
            COLOURS["sparse-bayes"],
        ),
    }
    ax.plot(test.time, test.y[:, 0], color="black", lw=1.8, label="measured")
    for label, (group, column, colour) in chosen.items():
        errors = group[column].astype(float)
        if errors.notna().any():
            row = group.loc[errors.idxmin()]
            text = f"{label}: {row[column]:.3f} V"
            values = np.array(row["simulated"], float)
            ax.plot(test.time, values, color=colour, lw=1.5, label=text)
    low, high = float(np.nanmin(test.y)), float(np.nanmax(test.y))
    ax.set(xlabel="time [s]", ylabel="level [V]", ylim=(low - 2, high + 2))
    ax.legend(frameon=False, fontsize="small", ncols=2)
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(color="0.9")
    return figure


# -- pieces --------------------------------------------------------------------------


def _baselines(benchmark: datasets.Benchmark) -> dict[str, float]:
    test = benchmark.reveal_test()
    persistence = float(np.sqrt(np.mean(np.diff(test.y[4:, 0]) ** 2)))
    linear = run_comparator("linear ARX, lag 5", benchmark)["test_rmse_one-step"]
    return {"linear ARX": float(linear), "persistence": persistence}


def _provenance(store: Store, command: str, benchmark: Any, count: str) -> str:
    today = datetime.now(UTC).date().isoformat()
    return (
        f"{benchmark.title} ({benchmark.source}). `{command}`, sparsid "
        f"{sparsid.__version__}, engine {store.engine}, study {store.study}, {count}, "
        f"repeats seeded 0, 1, ...; written {today}."
    )


def _csv(table: pd.DataFrame, path: Path) -> Path:
    table.to_csv(path, index=False, float_format="%.6g")
    return path


def _save(figure: Figure, stem: Path) -> list[Path]:
    paths = [stem.with_suffix(suffix) for suffix in (".png", ".svg")]
    for path in paths:
        figure.savefig(
            path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None
        )
    return paths


def _markdown(table: pd.DataFrame) -> str:
    """Return a table in Markdown; numbers with four digits."""

    def cell(value: Any) -> str:
        if isinstance(value, float):
            return "" if np.isnan(value) else f"{value:.4g}"
        return str(value)

    head = "| " + " | ".join(cell(c) for c in table.columns) + " |"
    rule = "|" + "---|" * len(table.columns)
    body = [
        "| " + " | ".join(cell(v) for v in row) + " |"
        for row in table.itertuples(index=False)
    ]
    return "\n".join([head, rule, *body])
