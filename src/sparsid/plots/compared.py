"""Free runs of several models over what was measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sparsid.analysis.comparison import Comparison
from sparsid.plots.style import BLACK, FIGURE_WIDTH, GREY, SERIES, plain_frame
from sparsid.results.texts import with_unit

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Inches: heights of a signal, and of its errors.
SIGNAL_HEIGHT, ERROR_HEIGHT = 3.0, 1.6


def comparison(found: Comparison) -> Figure:
    """Return a figure: each output, measured and simulated, over the errors.

    Parameters
    ----------
    found
        What `sparsid.compare` returns.
    """
    from matplotlib.figure import Figure

    record = found.record
    outputs = record.n_outputs
    height = 0.6 + outputs * (SIGNAL_HEIGHT + ERROR_HEIGHT)
    figure = Figure(figsize=(FIGURE_WIDTH, height), dpi=130, layout="constrained")
    grid = figure.subplots(
        2 * outputs,
        1,
        squeeze=False,
        sharex=True,
        height_ratios=[SIGNAL_HEIGHT, ERROR_HEIGHT] * outputs,
    )[:, 0]
    for k, name in enumerate(record.output_names):
        upper, lower = grid[2 * k : 2 * k + 2]
        unit = record.output_units[k]
        measured = record.y[:, k]
        upper.plot(record.time, measured, color=BLACK, lw=1.1, label="measured")
        lower.axhline(0.0, color=GREY, lw=0.8)
        for j, model in enumerate(found.models):
            colour, style = SERIES[j % len(SERIES)]
            run = model.free_run.mean[:, k]
            error = with_unit(model.free_run_rmse[k], unit)
            label = f"{model.name}: {error}"
            upper.plot(record.time, run, color=colour, ls=style, lw=1.3, label=label)
            left = measured - run
            lower.plot(record.time, left, color=colour, lw=0.9)
        seen = measured[np.isfinite(measured)]
        if seen.size and np.ptp(seen) > 0.0:
            # One that runs away must not flatten the others.
            room = 0.6 * np.ptp(seen)
            bottom, top = upper.get_ylim()
            upper.set_ylim(max(bottom, seen.min() - room), min(top, seen.max() + room))
        in_unit = f" [{unit}]" if unit else ""
        upper.set_ylabel(f"{name}{in_unit}")
        lower.set_ylabel(f"error{in_unit}")
        upper.legend(
            loc="lower left",
            bbox_to_anchor=(0.0, 1.0),
            frameon=False,
            ncols=min(len(found.models) + 1, 5),
            borderaxespad=0.2,
        )
        for ax in (upper, lower):
            ax.margins(x=0)
            plain_frame(ax)
    grid[-1].set_xlabel("time [s]")
    title = f"free run over {record.name}" if record.name else "free run"
    figure.suptitle(title, x=0.01, ha="left", fontweight="bold")
    figure.align_ylabels(list(grid))
    return figure
