"""The pictures of a report."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparsid import plots
from sparsid.analysis.linearisation import Linearisation
from sparsid.plots.style import GRID
from sparsid.report.dynamics import drawers
from sparsid.validation.diagnosis import Diagnosis

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from sparsid.estimators import Model

# Inches: read at full size on a phone, side by side on a laptop.
SMALL, TALL = (5.0, 3.0), (5.0, 4.4)
WIDE = (9.0, 3.2)
FONT_SIZE = 9.0
# Inputs and outputs beyond these have no correlation picture of their own.
LARGEST_TESTS = 8
# Layers of a network with a picture of their weights.
LARGEST_MAPS = 3
# Colours of the paper, the ink and the grid, which the page sets for day and night.
INKS = {"#000000": "currentColor", GRID: "var(--grid)", "#ffffff": "var(--paper)"}

# Draws into axes, or into as many as it wants, one below the other.
Drawer = Callable[[Any], Any]


def figures_of(
    model: Model, diagnosis: Diagnosis, linear: Linearisation | str = ""
) -> dict[str, Figure]:
    """Return all pictures by name, in the order of the page.

    Parameters
    ----------
    linear
        The linear model, or why there is none.
    """
    made: dict[str, Figure] = {}
    # With many records the page draws all, the file the first.
    first = zip(diagnosis.records[:1], diagnosis.free_run[:1], strict=True)
    for record, run in first:
        for k, name in enumerate(record.output_names):
            draw = partial(plots.simulation, record, run, channel=k)
            made[f"simulation {name}"] = _figure(draw, WIDE)
    for test in diagnosis.residuals[:LARGEST_TESTS]:
        label = f"correlation {test.output} {test.source or 'itself'}"
        made[label] = _figure(partial(plots.correlation, test))
    for own in diagnosis.ranges:
        made[f"range {own.output}"] = _figure(partial(plots.operating_range, own))
    stable = diagnosis.stability
    if stable is not None:
        made["stability"] = _figure(partial(plots.stability, stable))
    if isinstance(linear, Linearisation):
        for name, count, drawer in drawers(linear):
            made[name] = _figure(drawer, TALL, count)
    _add_structure(made, model)
    _add_calibration(made, diagnosis)
    return made


def _add_structure(made: dict[str, Figure], model: Model) -> None:
    fitted = model.fitted_
    made["relevance"] = _figure(partial(plots.relevance, model), TALL)
    made["network"] = _figure(partial(plots.network, model), TALL)
    random_start = fitted.drawing_before(model.seed) is not None
    for layer in range(1, min(fitted.drawing().network.layers, LARGEST_MAPS) + 1):
        for before in (True, False) if random_start else (False,):
            when = "before" if before else "after"
            draw = partial(plots.weight_map, model, layer=layer, before=before)
            made[f"weights {layer} {when}"] = _figure(draw)
    made["history"] = _figure(partial(plots.history, model))
    if len(fitted.evidences) > 1:
        made["members"] = _figure(partial(plots.members, model))


def _add_calibration(made: dict[str, Figure], diagnosis: Diagnosis) -> None:
    one_step, free_run = diagnosis.calibration_one_step, diagnosis.calibration_free_run
    for k, name in enumerate(diagnosis.records[0].output_names):

        def both(ax: Axes, k: int = k) -> None:
            if free_run is not None:
                plots.coverage(free_run, ax, k, "free run")
            if one_step is not None:
                plots.coverage(one_step, ax, k, "one step ahead")

        if one_step is not None or free_run is not None:
            made[f"coverage {name}"] = _figure(both)
        for label, found in (("one step", one_step), ("free run", free_run)):
            if found is not None:
                draw = partial(plots.pit, found, channel=k, label=label)
                made[f"pit {label} {name}"] = _figure(draw)


def _figure(draw: Drawer, size: tuple[float, float] = SMALL, rows: int = 1) -> Figure:
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context({"font.size": FONT_SIZE, "axes.titlesize": FONT_SIZE + 1.0}):
        figure = Figure(figsize=size, layout="constrained")
        draw(figure.subplots(rows, 1, sharex=True))
    # The layout is found once, not again for every format.
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    figure.patch.set_alpha(0.0)
    for axes in figure.axes:
        axes.patch.set_alpha(0.0)
    return figure


def svg_text(name: str, figure: Figure) -> str:
    """Return a picture as SVG."""
    from matplotlib import rc_context

    buffer = io.StringIO()
    # Text stays text; marks that pictures refer to must not meet on one page.
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return buffer.getvalue()


def for_page(name: str, text: str) -> str:
    """Return an SVG for the inside of a page, in the page's own ink and type."""
    text = text[text.index("<svg") :]
    for colour, ink in INKS.items():
        text = re.sub(re.escape(colour), ink, text, flags=re.IGNORECASE)
    # Sizes come from the page; the picture keeps its proportions.
    head = text.index(">")
    opening = re.sub(r'\s(width|height)="[^"]*"', "", text[:head])
    return f'{opening} role="img" aria-label="{_attribute(name)}"{text[head:]}'


def write_pictures(
    folder: Path, figures: dict[str, Figure], drawn: dict[str, str]
) -> None:
    """Write all pictures as PNG and, as they were drawn, as SVG."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, figure in figures.items():
        stem = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_")
        figure.savefig(folder / f"{stem}.png", dpi=150, facecolor="white")
        (folder / f"{stem}.svg").write_text(drawn[name], encoding="utf-8")


def _attribute(text: str) -> str:
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
