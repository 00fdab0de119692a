"""Measured against forecast outputs, and what is between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sparsid.data.record import Record
from sparsid.errors import InputError
from sparsid.plots.style import (
    BAND,
    BLACK,
    BLUE,
    FIGURE_WIDTH,
    GREY,
    ORANGE,
    new_axes,
    plain_frame,
)
from sparsid.results.forecast import Forecast
from sparsid.results.texts import with_unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# A band may widen a picture by so many ranges of its signals, below and above.
WIDEST = 1.2
# Samples of a picture, about; of longer records the ends of every stretch.
LARGEST_SAMPLES = 8000
# Channels that a picture of a record has at most.
LARGEST_CHANNELS = 12
# More records than this would be too small to read side by side.
LARGEST_COLUMNS = 3
# Inches: heights of a signal and its residual strip.
SIGNAL_HEIGHT, RESIDUAL_HEIGHT = 3.4, 1.1


def simulation(
    record: Record,
    forecast: Forecast,
    ax: Axes | None = None,
    channel: int = 0,
    band: bool = True,
) -> Axes:
    """Return axes with one measured output and its forecast, with a 95 % band.

    The darker part of the band is what the model is unsure of; the rest is noise.

    Parameters
    ----------
    forecast
        A free run or a prediction over the record.
    ax
        Where to draw; by default a figure of its own.
    channel
        Number of the output.
    band
        Whether to draw the band.
    """
    _check_pair(record, forecast, channel)
    ax = new_axes() if ax is None else ax
    y, mean = record.y[:, channel], forecast.mean[:, channel]
    at = kept_samples([y, mean], LARGEST_SAMPLES)
    time, y, mean = record.time[at], y[at], mean[at]
    name, unit = record.output_names[channel], record.output_units[channel]
    what = forecast.kind
    ax.plot(time, y, color=BLACK, lw=1.1, label="measured")
    ax.plot(time, mean, color=ORANGE, lw=1.4, label=what)
    std = forecast.std[at, channel]
    if band and np.isfinite(std).any():
        parts = ((std, "95 % band"), (forecast.model_std[at, channel], None))
        for spread, label in parts:
            low, high = mean - BAND * spread, mean + BAND * spread
            ax.fill_between(time, low, high, color=ORANGE, alpha=0.2, lw=0, label=label)
        _show_all(ax, (y, mean), BAND * std)
    if forecast.diverged_at is not None:
        ax.axvline(record.time[forecast.diverged_at], color=GREY, lw=1.0, ls="--")
    ax.set_title(f"{what}: {error_text(record, forecast, channel)}", loc="left")
    ax.set_ylabel(f"{name} [{unit}]" if unit else name)
    ax.set_xlabel("time [s]")
    ax.margins(x=0)
    # Beside the title: inside, it would hide a signal sooner or later.
    ax.legend(
        loc="lower right",
        bbox_to_anchor=(1.0, 0.98),
        frameon=False,
        ncols=3,
        borderaxespad=0.0,
        handlelength=1.5,
    )
    plain_frame(ax)
    return ax


def forecast(found: Forecast, ax: Axes | None = None, channel: int = 0) -> Axes:
    """Return axes with one output of a forecast alone, with a 95 % band.

    Parameters
    ----------
    ax
        Where to draw; by default a figure of its own.
    channel
        Number of the output.
    """
    _check_channel(channel, len(found.output_names))
    ax = new_axes() if ax is None else ax
    time, mean = found.dt * np.arange(len(found)), found.mean[:, channel]
    ax.plot(time, mean, color=ORANGE, lw=1.4, label=found.kind)
    for spread, label in ((found.std, "95 % band"), (found.model_std, None)):
        half = BAND * spread[:, channel]
        ax.fill_between(
            time, mean - half, mean + half, color=ORANGE, alpha=0.2, lw=0, label=label
        )
    name, unit = found.output_names[channel], found.output_units[channel]
    ax.set_title(found.kind, loc="left")
    ax.set_ylabel(f"{name} [{unit}]" if unit else name)
    ax.set_xlabel("time [s]")
    ax.margins(x=0)
    plain_frame(ax)
    return ax


def recording(record: Record) -> Figure:
    """Return a figure with all channels of a record: outputs, and inputs below them."""
    from matplotlib.figure import Figure

    names = [*record.output_names, *record.input_names]
    units = [*record.output_units, *record.input_units]
    values = np.concatenate([record.y, record.u], axis=1)
    drawn = min(len(names), LARGEST_CHANNELS)
    figure = Figure(figsize=(9.0, 0.6 + 1.5 * drawn), dpi=110, layout="constrained")
    rows = figure.subplots(drawn, 1, squeeze=False, sharex=True)[:, 0]
    for k, ax in enumerate(rows):
        colour = BLACK if k < record.n_outputs else BLUE
        ax.plot(*thinned(record.time, values[:, k]), color=colour, lw=1.0)
        ax.set_ylabel(f"{names[k]} [{units[k]}]" if units[k] else names[k])
        ax.margins(x=0)
        plain_frame(ax)
    more = len(names) - drawn
    rows[-1].set_xlabel("time [s]" + (f"; {more} more channels" if more else ""))
    figure.align_ylabels(rows)
    return figure


def thinned(time: Any, values: Any, most: int = 4000) -> tuple[Any, Any]:
    """Return a signal with fewer points that looks the same.

    Of every stretch the smallest and the largest value stay, in their order, so that
    no spike vanishes; what is not longer than ``most`` stays as it is.
    """
    kept = extremes(values, most // 2)
    return time[kept], values[kept]


def kept_samples(signals: Sequence[Any], most: int) -> NDArray[np.int64]:
    """Return about so many samples, in which no signal misses a spike."""
    samples = len(signals[0])
    if samples <= most:
        return np.arange(samples, dtype=np.int64)
    stretches = most // (2 * len(signals))
    return np.unique(np.concatenate([extremes(s, stretches) for s in signals]))


def extremes(values: Any, stretches: int) -> NDArray[np.int64]:
    """Return which samples hold the ends of so many stretches, and where gaps are."""
    if len(values) <= 2 * stretches:
        return np.arange(len(values), dtype=np.int64)
    edges = np.linspace(0, len(values), stretches + 1).astype(int)[:-1]
    kept = []
    for first, stop in zip(edges, [*edges[1:], len(values)], strict=True):
        part = values[first:stop]
        seen = np.isfinite(part)
        if not seen.any():
            kept.append(first)
            continue
        low = first + int(np.argmin(np.where(seen, part, np.inf)))
        high = first + int(np.argmax(np.where(seen, part, -np.inf)))
        gap = [first + int(np.argmin(seen))] if not seen.all() else []
        kept += sorted({low, high, *gap})
    return np.array(kept, dtype=np.int64)


def residual(
    record: Record, forecast: Forecast, ax: Axes | None = None, channel: int = 0
) -> Axes:
    """Return axes with measured minus forecast output, over the 95 % band.

    Parameters
    ----------
    forecast, ax, channel
        As for `simulation`.
    """
    _check_pair(record, forecast, channel)
    ax = new_axes() if ax is None else ax
    error = record.y[:, channel] - forecast.mean[:, channel]
    limit = BAND * forecast.std[:, channel]
    if np.isfinite(limit).any():
        ax.fill_between(record.time, -limit, limit, color=ORANGE, alpha=0.22, lw=0)
    if np.isfinite(error).any():
        largest = float(np.nanmax(np.abs(error))) or 1.0
        edge = float(np.nanmax(limit)) if np.isfinite(limit).any() else 0.0
        reach = 1.1 * max(largest, min(edge, 4.0 * largest))
        ax.set_ylim(-reach, reach)
    ax.axhline(0.0, color=GREY, lw=0.8)
    ax.plot(record.time, error, color=BLUE, lw=0.9)
    unit = record.output_units[channel]
    ax.set_ylabel(f"error [{unit}]" if unit else "error")
    ax.set_xlabel("time [s]")
    ax.margins(x=0)
    plain_frame(ax)
    return ax


def identification_picture(
    records: Sequence[Record], forecasts: Sequence[Forecast], title: str = ""
) -> Figure:
    """Return a figure: each output, measured and simulated, over a residual strip.

    Parameters
    ----------
    records, forecasts
        What was measured, and the free run over it. The first three are drawn, side
        by side.
    title
        Headline.
    """
    from matplotlib.figure import Figure

    pairs = list(zip(records, forecasts, strict=True))
    if not pairs:
        raise InputError("No record was given: there is nothing to draw.")
    left_out = len(pairs) - LARGEST_COLUMNS
    pairs = pairs[:LARGEST_COLUMNS]
    outputs = pairs[0][0].n_outputs
    height = 0.5 + outputs * (SIGNAL_HEIGHT + RESIDUAL_HEIGHT)
    figure = Figure(figsize=(FIGURE_WIDTH, height), dpi=130, layout="constrained")
    grid = figure.subplots(
        2 * outputs,
        len(pairs),
        squeeze=False,
        sharex="col",
        height_ratios=[SIGNAL_HEIGHT, RESIDUAL_HEIGHT] * outputs,
    )
    for column, (record, forecast) in enumerate(pairs):
        for channel in range(outputs):
            upper, lower = grid[2 * channel : 2 * channel + 2, column]
            simulation(record, forecast, upper, channel)
            residual(record, forecast, lower, channel)
            upper.set_xlabel("")
            if channel < outputs - 1:
                lower.set_xlabel("")
            if len(pairs) > 1:
                # No room beside the title: one legend for all, at the top.
                upper.get_legend().remove()
                upper.set_title(
                    f"{record.name}\n{error_text(record, forecast, channel)}",
                    loc="left",
                    fontsize="medium",
                )
    if left_out > 0:
        title += f" (first {LARGEST_COLUMNS} of {len(records)} records)"
    figure.suptitle(title, x=0.01, ha="left", fontweight="bold")
    if len(pairs) > 1:
        figure.legend(
            *grid[0, 0].get_legend_handles_labels(),
            loc="outside upper right",
            frameon=False,
            ncols=3,
        )
    figure.align_ylabels(grid[:, 0])
    return figure


def error_text(record: Record, forecast: Forecast, channel: int) -> str:
    """Return error and fit of a forecast in words, or where it diverged."""
    if forecast.diverged_at is not None:
        return f"diverged at {record.time[forecast.diverged_at]:g} s"
    y, mean = record.y[:, channel], forecast.mean[:, channel]
    counts = np.isfinite(y) & np.isfinite(mean)
    if not counts.any():
        return "no measured output"
    error = float(np.sqrt(np.mean((y - mean)[counts] ** 2)))
    text = f"RMSE {with_unit(error, record.output_units[channel])}"
    spread = float(y[counts].std())
    return f"{text}, fit {100 * (1 - error / spread):.1f} %" if spread > 0 else text


# -- pieces --------------------------------------------------------------------------


def _check_pair(record: Record, forecast: Forecast, channel: int) -> None:
    if forecast.mean.shape != record.y.shape:
        raise InputError(
            f"The forecast has shape {forecast.mean.shape} but the record's outputs "
            f"have {record.y.shape}: both need the same samples and channels."
        )
    _check_channel(channel, record.n_outputs)


def _check_channel(channel: int, outputs: int) -> None:
    if not 0 <= channel < outputs:
        raise InputError(
            f"channel is {channel} but the record has {outputs} outputs: "
            f"choose from 0 to {outputs - 1}."
        )


def _show_all(ax: Axes, signals: Sequence[Any], half: Any) -> None:
    """Set limits by signals and band: only a very wide band is cut.

    Parameters
    ----------
    signals, half
        What was measured and the forecast; half the band around the forecast.
    """
    seen = np.concatenate([s[np.isfinite(s)] for s in signals])
    low, high = float(seen.min()), float(seen.max())
    room = WIDEST * (high - low) or 1.0
    edges = np.concatenate([signals[-1] - half, signals[-1] + half])
    edges = edges[np.isfinite(edges)]
    margin = 0.05 * (high - low)
    bottom = min(low, max(float(edges.min()), low - room))
    top = max(high, min(float(edges.max()), high + room))
    ax.set_ylim(bottom - margin, top + margin)
