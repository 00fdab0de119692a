"""Colours and frames that all pictures share."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from sparsid.results.forecast import BAND as BAND

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

# Okabe and Ito's colours, told apart by all readers.
BLACK, BLUE, ORANGE, GREEN, GREY = "black", "#0072B2", "#D55E00", "#009E73", "#777777"
GRID = "#dddddd"
# Colour and line of several things side by side, in their order.
SERIES = (
    (BLUE, "-"),
    (ORANGE, "--"),
    (GREEN, "-."),
    ("#CC79A7", (0, (1, 0.7))),
    ("#E69F00", (0, (5, 1))),
    ("#56B4E9", (0, (3, 1, 1, 1))),
)
# Inches: a laptop's width.
FIGURE_WIDTH = 11.0


def new_axes() -> Axes:
    """Return the axes of a figure of their own."""
    from matplotlib.figure import Figure

    axes: Axes = Figure(figsize=(9.0, 4.0), dpi=130, layout="constrained").subplots()
    return axes


def plain_text(artist: Artist) -> None:
    """Show the text of a figure or of axes as it is: a name is no formula."""
    from matplotlib.axis import Axis
    from matplotlib.text import Text
    from matplotlib.ticker import FuncFormatter

    texts = {*artist.findobj(Text)}
    for axis in cast("list[Axis]", artist.findobj(Axis)):
        # Powers of ten beside an axis are formulas indeed.
        texts -= {*axis.findobj(Text)} - {axis.label}
        if isinstance(axis.get_major_formatter(), FuncFormatter):
            texts |= {tick.label1 for tick in axis.get_major_ticks()}
    for text in texts:
        text.set_usetex(False)
        text.set_parse_math(False)


def plain_frame(ax: Axes) -> None:
    """Leave what a reader needs: plain text, two spines and a faint grid."""
    plain_text(ax)
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(True, color=GRID, lw=0.6)
    ax.set_axisbelow(True)
