"""What a fit did and what it left: its course, the network, the weights, the groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sparsid.errors import InputError
from sparsid.plots.style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    new_axes,
    plain_frame,
    plain_text,
)
from sparsid.results.texts import percent
from sparsid.validation.relevance import relevance as relevance_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from sparsid.estimators import Model
    from sparsid.results.base import Drawing

# More units than these would not be told apart: the strongest are drawn.
LARGEST_LAYER = 24
LARGEST_LABELS = 30
# Rows and columns of a map with names.
LARGEST_NAMES = 24
# Log evidence from which a group is strongly preferred.
STRONG = 5.0


def history(model: Model, ax: Axes | None = None) -> Axes:
    """Return axes with the cost per cycle, and the share of weights kept.

    The share is on an axis of its own at the right, logarithmic.

    Parameters
    ----------
    ax
        Where to draw; by default a figure of its own.
    """
    check_is_fitted(model, "fitted_")
    ax = new_axes() if ax is None else ax
    cycles = 1 + np.arange(len(model.history_["cost"]))
    (cost,) = ax.plot(cycles, model.history_["cost"], color=BLUE, lw=1.6, label="cost")
    right = ax.twinx()
    share = 100.0 * np.asarray(model.history_["kept"])
    (kept,) = right.plot(
        cycles, share, color=ORANGE, lw=1.6, ls="--", label="weights kept"
    )
    if (share > 0.0).any():
        right.set_yscale("log")
    if np.ptp(share) == 0.0:
        right.set_ylim(top=2.0 * share[0] or 1.0)
    right.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    ax.set_xlabel("cycle")
    bayes = np.isfinite(model.log_evidence_)
    ax.set_ylabel("cost (-2 log evidence)" if bayes else "cost", color=BLUE)
    right.set_ylabel("weights kept [%]", color=ORANGE)
    ax.set_title(f"{model.outcome_.value}, {percent(model.kept_)} kept", loc="left")
    ax.legend(handles=[cost, kept], loc="upper right", frameon=False)
    ax.margins(x=0)
    plain_frame(ax)
    right.spines["top"].set_visible(False)
    return ax


def relevance(model: Model, ax: Axes | None = None, kind: str | None = None) -> Axes:
    """Return axes with the log evidence for each group, and how uncertain it is.

    Parameters
    ----------
    ax
        Where to draw; by default a figure of its own.
    kind
        ``"regressor"``, ``"input"``, ``"state"`` or ``"neuron"``; None draws all but
        neurons.
    """
    check_is_fitted(model, "fitted_")
    ax = new_axes() if ax is None else ax
    table = relevance_table(model)
    kinds = set(table["kind"])
    if kind is not None and kind not in kinds:
        raise InputError(
            f"kind={kind!r}: the model has {', '.join(sorted(kinds)) or 'no groups'}"
        )
    table = table[table["kind"] == kind if kind else table["kind"] != "neuron"]
    left_out = len(table) - LARGEST_LABELS
    table = table.nlargest(LARGEST_LABELS, "evidence") if left_out > 0 else table
    values = table["evidence"].fillna(0.0).to_numpy(dtype=float)
    places = np.arange(len(table))[::-1]
    colours = np.where(values >= STRONG, BLUE, GREY)
    unsure = table["evidence_std"].fillna(0.0).to_numpy(dtype=float)
    ax.barh(places, values, color=colours.tolist(), height=0.65)
    ax.errorbar(values, places, xerr=unsure, fmt="none", ecolor=GREY, lw=1.0)
    ax.set_yticks(places, [str(name) for name in table["name"]])
    ax.axvline(STRONG, color=ORANGE, lw=1.0, ls="--", label="strong")
    if (values > 100.0).any():
        ax.set_xscale("symlog", linthresh=10.0)
        ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    ax.set_xlabel("log evidence lost without it")
    more = f" (strongest {LARGEST_LABELS})" if left_out > 0 else ""
    ax.set_title(f"what the evidence keeps{more}", loc="left")
    ax.legend(loc="lower right", frameon=False)
    plain_frame(ax)
    ax.grid(False, axis="y")
    return ax


def network(model: Model, ax: Axes | None = None, member: int = 0) -> Axes:
    """Return axes with the network as it is left: units, and lines for weights.

    Wide lines are strong weights; blue are positive, orange dashed negative.

    Parameters
    ----------
    ax
        Where to draw; by default a figure of its own.
    member
        Which member of an ensemble.
    """
    check_is_fitted(model, "fitted_")
    ax = new_axes() if ax is None else ax
    structure, params, names, outputs = model.fitted_.drawing(member)
    layers = [np.asarray(w)[:-1] for w in params[: structure.layers]]
    strength = [np.abs(layers[0]).sum(1), *(np.abs(w).sum(0) for w in layers)]
    shown = [np.sort(np.argsort(-s)[:LARGEST_LAYER]) for s in strength]
    places = [0.5 - (np.arange(len(s)) + 0.5) / max(len(s), 1) for s in shown]
    for k, W in enumerate(layers):
        part = W[np.ix_(shown[k], shown[k + 1])]
        largest = float(np.abs(W).max()) if W.size else 1.0
        for i, row in enumerate(part):
            for j, value in enumerate(row):
                size = abs(value) / (largest or 1.0)
                if size < 0.01:
                    continue
                ax.plot(
                    [k, k + 1],
                    [places[k][i], places[k + 1][j]],
                    color=BLUE if value > 0 else ORANGE,
                    ls="-" if value > 0 else "--",
                    lw=0.3 + 2.2 * size,
                    alpha=0.25 + 0.7 * size,
                    zorder=1,
                )
    for k, where in enumerate(places):
        x = np.full(len(where), float(k))
        ax.scatter(x, where, s=70, color="white", edgecolors=BLACK, lw=1.2, zorder=2)
    for label, y in zip([names[i] for i in shown[0]], places[0], strict=True):
        ax.annotate(label, (-0.06, y), ha="right", va="center", fontsize="small")
    for label, y in zip(outputs, places[-1], strict=True):
        ax.annotate(
            label, (len(layers) + 0.06, y), ha="left", va="center", fontsize="small"
        )
    counts = [len(s) for s in strength]
    left = [f"{c} units, {len(s)} drawn" for c, s in zip(counts, shown, strict=True)]
    crowded = [t for t, c, s in zip(left, counts, shown, strict=True) if c > len(s)]
    title = "-".join(str(c) for c in counts)
    ax.set_title(
        f"network {title}" + (f" ({'; '.join(crowded)})" if crowded else ""), loc="left"
    )
    ax.set_xlim(-0.9, len(layers) + 0.7)
    ax.set_ylim(-0.55, 0.55)
    ax.axis("off")
    return ax


def weight_map(
    model: Model, ax: Axes | None = None, layer: int = 1, before: bool = False
) -> Axes:
    """Return axes with the magnitudes of a layer's weights, as the fit left them.

    Parameters
    ----------
    ax
        Where to draw; by default a figure of its own.
    layer
        Number of the layer, 1 is the first.
    before
        Draw the random weights that the (first) start began with.
    """
    check_is_fitted(model, "fitted_")
    ax = new_axes() if ax is None else ax
    fitted = model.fitted_
    drawn = fitted.drawing()
    structure = drawn.network
    if not 1 <= layer <= structure.layers:
        raise InputError(
            f"layer={layer}: the network has {structure.layers} layers with weights"
        )
    if before:
        begun = fitted.drawing_before(model.seed)
        if begun is None:
            raise InputError("before=True: this model did not begin at random weights")
        drawn = begun
    W = np.abs(np.asarray(drawn.params[layer - 1])[:-1])
    _name_ends(ax, drawn, layer, W.shape)
    ax.set_title(
        f"layer {layer}, {'at the start' if before else 'kept'}: {W.size} weights",
        loc="left",
    )
    if not W.size:
        ax.annotate(
            "nothing is left", (0.5, 0.5), xycoords="axes fraction", ha="center"
        )
        return ax
    image = ax.imshow(
        W,
        cmap="cividis",
        aspect="auto",
        interpolation="nearest",
        vmin=0.0,
        vmax=float(W.max()) if W.size and W.max() > 0.0 else 1.0,
    )
    ax.figure.colorbar(image, ax=ax, label="magnitude")
    return ax


def _name_ends(ax: Axes, drawn: Drawing, layer: int, shape: tuple[int, ...]) -> None:
    """Label rows and columns of a map by what they are, if there is room."""
    layers = drawn.network.layers
    sources, what = _named(drawn.sources, layer == 1, shape[0], layer - 1)
    ax.set_yticks(np.arange(len(sources)), sources)
    ax.set_ylabel(f"from {what}".rstrip())
    targets, what = _named(drawn.targets, layer == layers, shape[1], layer)
    upright = max((len(t) for t in targets), default=0) * len(targets) > 40
    ax.set_xticks(np.arange(len(targets)), targets, rotation=90 if upright else 0)
    ax.set_xlabel(f"to {what}".rstrip())
    plain_text(ax)


def _named(
    names: list[str], outside: bool, count: int, layer: int
) -> tuple[list[str], str]:
    """Return the labels of one side of a map, and what they are."""
    if not outside:
        numbers = [str(k + 1) for k in range(count)] if count <= LARGEST_NAMES else []
        return numbers, f"neurons of layer {layer}"
    if len(names) != count or count > LARGEST_NAMES:
        return [], f"{count}"
    return list(names), "" if count else "nothing"


def members(model: Model, ax: Axes | None = None) -> Axes:
    """Return axes with the log evidence of all members, or of all starts.

    Parameters
    ----------
    ax
        Where to draw; by default a figure of its own.
    """
    check_is_fitted(model, "fitted_")
    ax = new_axes() if ax is None else ax
    fitted = model.fitted_
    values, what = fitted.evidences, fitted.several_called
    order = np.sort(values[np.isfinite(values)])[::-1]
    ax.plot(1 + np.arange(len(order)), order, "o", color=GREEN, ms=5)
    ax.set_xlabel(f"{what}, best first")
    ax.set_ylabel("log evidence")
    ax.set_title(f"{len(order)} {what}{'s' * (len(order) != 1)}", loc="left")
    ax.locator_params(axis="x", integer=True)
    plain_frame(ax)
    return ax
