"""The pictures of the two studies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sparsid.data.whole_file import whole_file
from sparsid.plots import BLACK, BLUE, GREEN, GREY, ORANGE
from sparsid.studies import prediction

# Okabe and Ito's colours, told apart by all readers.
YELLOW, PURPLE, PALE = "#E69F00", "#CC79A7", "#C8C8C8"
COLOURS = {
    "none": BLUE,
    "ridge": YELLOW,
    "group-lasso": GREEN,
    "sparse-bayes": ORANGE,
}
# Shown thin in the simulation figure, as in the paper.
THIN_RUNS = 10
# Volts beyond the measured range that a free run may be drawn to.
ROOM = 2.0


def prediction_figure(errors: pd.DataFrame, baselines: pd.DataFrame) -> Figure:
    """Return best and mean test errors against the share of the record used.

    Parameters
    ----------
    errors
        As `prediction.errors_table` returns them.
    baselines
        Columns ratio, test_rmse_arx and test_rmse_persistence.
    """
    figure = Figure(figsize=(11, 4.6), layout="constrained")
    best, mean = figure.subplots(1, 2, sharey=True)
    for method in prediction.METHODS:
        group = errors[errors["method"] == method].sort_values("ratio")
        if len(group):
            style = {"color": COLOURS[method], "label": prediction.LABELS[method]}
            x = 100 * group["ratio"]
            best.plot(x, group["paper's way: best on test"], "o-", ms=4, **style)
            mean.plot(x, group["fair: mean"], "o-", ms=4, **style)
            _band(mean, x, group, COLOURS[method])
    lines = baselines.sort_values("ratio")
    for ax, title in (
        (best, "paper's way: best repeat on the test record"),
        (mean, "fair: mean over repeats, and one standard deviation"),
    ):
        x = 100 * lines["ratio"]
        for name, label, dash in (
            ("test_rmse_arx", "linear ARX, same lags", "--"),
            ("test_rmse_persistence", "persistence", ":"),
        ):
            ax.plot(x, lines[name], dash, color=GREY, lw=1.4, label=label)
        ax.set_title(title, loc="left", fontsize="medium")
        ax.set_xlabel("share of the estimation record [%]")
        ax.set_yscale("log")
        ax.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        ax.yaxis.set_minor_formatter(_sparse_label)
        _plain(ax)
    best.set_ylabel("one-step RMSE on the test record [V]")
    handles, labels = best.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    return figure


def _band(ax: Axes, x: Any, group: pd.DataFrame, colour: str) -> None:
    """Draw the spread, not below the best repeat: the axis is logarithmic."""
    mean, std = group["fair: mean"], group["std"].fillna(0.0)
    low = np.maximum(mean - std, group["paper's way: best on test"])
    ax.fill_between(x, low, mean + std, color=colour, alpha=0.15, lw=0)


def _sparse_label(value: float, _: Any) -> str:
    """Return the label of 2 and 5 between powers of ten, and none of the others."""
    digit = round(value / 10.0 ** np.floor(np.log10(value)))
    return f"{value:g}" if digit in (2, 5) else ""


def simulation_figure(runs: pd.DataFrame, time: Any, measured: Any) -> Figure:
    """Return simulated test outputs over the truth: the chosen bold, others thin.

    Parameters
    ----------
    runs
        As `simulation.runs_frame` returns them.
    """
    figure = Figure(figsize=(11, 4.8), layout="constrained")
    ax = figure.subplots()
    methods = ("none", "sparse-bayes", "state-space")
    free, bayes, states = (runs[runs["method"] == m] for m in methods)
    for k, series in enumerate(free["simulated"].head(THIN_RUNS)):
        count = min(len(free), THIN_RUNS)
        label = f"no regularisation, {count} repeats" if k == 0 else None
        values = np.array(series, dtype=float)
        ax.plot(time, values, color=PALE, lw=0.7, label=label)
    ax.plot(time, measured, color=BLACK, lw=2.0, label="measured")
    evidence = bayes["log_evidence"].fillna(-np.inf)
    own = states["log_evidence"].fillna(-np.inf)
    for label, group, order, colour, dash in (
        ("no regularisation, best on test", free, free["test_rmse_B"], BLUE, "-"),
        ("sparse Bayes, best on test", bayes, bayes["test_rmse_B"], ORANGE, "-"),
        ("sparse Bayes, best evidence", bayes, -evidence, GREEN, "--"),
        ("states, free-run training, best evidence", states, -own, PURPLE, "-"),
    ):
        if order.notna().any():
            row = group.iloc[int(np.argmin(order.fillna(np.inf)))]
            error = row["test_rmse_B"]
            text = f"{error:.3f} V" if np.isfinite(error) else "diverged"
            values = np.array(row["simulated"], dtype=float)
            ax.plot(time, values, dash, color=colour, lw=1.5, label=f"{label}: {text}")
    low, high = float(np.min(measured)), float(np.max(measured))
    ax.set_ylim(low - ROOM, high + ROOM)
    ax.set_xlabel("time [s]")
    ax.set_ylabel("level [V]")
    ax.margins(x=0)
    _plain(ax)
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    return figure


def save(figure: Figure, stem: Path) -> list[Path]:
    """Write a figure as PNG and SVG; return the files."""
    paths = [stem.with_suffix(suffix) for suffix in (".png", ".svg")]
    for path in paths:
        # Without a date equal figures are equal files.
        metadata = {"Date": None} if path.suffix == ".svg" else None
        with whole_file(path) as part:
            figure.savefig(part, dpi=130, metadata=metadata)
    return paths


def _plain(ax: Axes) -> None:
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(True, color="#dddddd", lw=0.6)
    ax.set_axisbelow(True)
