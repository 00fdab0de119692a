"""Whether to believe a model: residuals, ranges, bands, stability."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sparsid.plots.style import BLUE, GREY, ORANGE, new_axes, plain_frame
from sparsid.validation.calibration import Calibration
from sparsid.validation.residuals import Correlation
from sparsid.validation.stability import Stability
from sparsid.validation.valid_range import OperatingRange

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PIT_BINS = 10


def correlation(test: Correlation, ax: Axes | None = None) -> Axes:
    """Return axes with a correlation, lag by lag, between its 99 % limits.

    Parameters
    ----------
    test
        One of `diagnostics.residual_tests`.
    ax
        Where to draw; by default a figure of its own.
    """
    ax = new_axes() if ax is None else ax
    beyond = np.abs(test.values) > test.limit
    ax.axhspan(-test.limit, test.limit, color=BLUE, alpha=0.15, lw=0)
    ax.axhline(0.0, color=GREY, lw=0.8)
    for chosen, colour, marker in ((~beyond, BLUE, "o"), (beyond, ORANGE, "D")):
        ax.vlines(test.lags[chosen], 0.0, test.values[chosen], color=colour, lw=1.4)
        ax.plot(
            test.lags[chosen], test.values[chosen], marker, color=colour, ms=4, ls=""
        )
    reach = 1.25 * max(float(np.abs(test.values).max()), test.limit)
    ax.set_ylim(-reach, reach)
    ax.set_xlabel("lag [samples]")
    ax.set_ylabel("correlation")
    what = "themselves" if test.source is None else test.source
    ax.set_title(f"residuals of {test.output} with {what}", loc="left")
    plain_frame(ax)
    return ax


def operating_range(found: OperatingRange, ax: Axes | None = None) -> Axes:
    """Return axes with the error by range of the output; hatched: never learnt from.

    Parameters
    ----------
    found
        One of `diagnostics.operating_range`.
    ax
        Where to draw; by default a figure of its own.
    """
    ax = new_axes() if ax is None else ax
    table = found.table
    largest = max(float(table["samples"].max()), 1.0)
    for row in table.to_dict("records"):
        width = max(row["high"] - row["low"], 1e-12)
        ax.bar(
            row["low"],
            0.0 if np.isnan(row["rmse"]) else row["rmse"],
            width=width,
            align="edge",
            color=BLUE if row["inside"] else ORANGE,
            hatch=None if row["inside"] else "///",
            alpha=0.35 + 0.6 * row["samples"] / largest,
            edgecolor="white",
        )
        if row["samples"]:
            ax.annotate(
                f"{row['samples']}",
                (row["low"] + width / 2.0, row["rmse"]),
                ha="center",
                va="bottom",
                fontsize="x-small",
            )
    unit = f" [{found.unit}]" if found.unit else ""
    ax.set_xlabel(f"measured {found.output}{unit}")
    ax.set_ylabel(f"RMSE{unit}")
    ax.set_title("error by range, with samples", loc="left")
    ax.margins(y=0.15)
    plain_frame(ax)
    return ax


def coverage(
    found: Calibration, ax: Axes | None = None, channel: int = 0, label: str = "bands"
) -> Axes:
    """Return axes with the share of samples inside bands, against what they promise.

    Parameters
    ----------
    ax
        Where to draw; several calibrations can share axes.
    channel
        Number of the output.
    label
        Name in the legend.
    """
    ax = new_axes() if ax is None else ax
    pit = found.pit[channel]
    if not ax.lines:
        ax.plot([0, 100], [0, 100], color=GREY, lw=1.0, ls="--", label="right")
    promised = np.linspace(0.0, 1.0, 101)
    # A central band of level p holds what lies within p/2 of the median.
    inside = [(np.abs(pit - 0.5) <= p / 2.0).mean() for p in promised]
    colour = (BLUE, ORANGE)[(len(ax.lines) - 1) % 2]
    style = ("-", "-.")[(len(ax.lines) - 1) % 2]
    ax.plot(
        100 * promised,
        100 * np.array(inside),
        color=colour,
        ls=style,
        lw=1.6,
        label=label,
    )
    ax.set_xlabel("promised [%]")
    ax.set_ylabel("inside [%]")
    ax.set_title("coverage of the bands", loc="left")
    ax.set_xlim(0, 100)
    ax.set_ylim(0, 100)
    ax.legend(loc="upper left", frameon=False)
    plain_frame(ax)
    return ax


def pit(
    found: Calibration, ax: Axes | None = None, channel: int = 0, label: str = ""
) -> Axes:
    """Return axes with the histogram of the probability integral transform.

    Flat is right; a hill means bands too wide, a valley too narrow, a slope a bias.

    Parameters
    ----------
    ax
        Where to draw; by default a figure of its own.
    channel
        Number of the output.
    label
        What the forecast is, for the title.
    """
    ax = new_axes() if ax is None else ax
    counts, edges = np.histogram(found.pit[channel], PIT_BINS, (0.0, 1.0))
    share = PIT_BINS * counts / max(counts.sum(), 1)
    ax.bar(
        edges[:-1], share, np.diff(edges), align="edge", color=BLUE, edgecolor="white"
    )
    ax.axhline(1.0, color=ORANGE, lw=1.2, ls="--")
    ax.set_xlabel("probability integral transform")
    ax.set_ylabel("density")
    of = f", {label}" if label else ""
    ax.set_title(f"where measurements fall in the forecast{of}", loc="left")
    plain_frame(ax)
    return ax


def stability(found: Stability, ax: Axes | None = None) -> Axes:
    """Return axes with the distance of runs from other starts, sample by sample.

    Parameters
    ----------
    found
        From `diagnostics.stability`.
    ax
        Where to draw; by default a figure of its own.
    """
    ax = new_axes() if ax is None else ax
    distance = np.maximum(np.where(np.isfinite(found.apart), found.apart, 1e3), 1e-8)
    time = found.dt * np.arange(len(distance))
    ax.semilogy(time, distance, color=BLUE, lw=1.4)
    if found.forgotten is not None:
        ax.axvline(found.forgotten * found.dt, color=ORANGE, lw=1.0, ls="--")
    ax.set_xlabel("time [s]")
    ax.set_ylabel("distance [std]")
    ax.set_title("runs from two starts", loc="left")
    ax.margins(x=0)
    plain_frame(ax)
    return ax
