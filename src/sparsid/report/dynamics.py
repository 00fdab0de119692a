"""The pictures of a linear model in a report."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from sparsid import plots
from sparsid.analysis.linearisation import Linearisation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Pairs of input and output with pictures.
LARGEST_PAIRS = 4


def drawers(linear: Linearisation) -> Iterator[tuple[str, int, Callable[..., Any]]]:
    """Yield name, number of axes and drawing of every picture."""
    names = linear.channels
    pairs = [(i, o) for o in names.output_names for i in names.input_names]
    for given, output in pairs[:LARGEST_PAIRS]:
        label, pair = f"{given} to {output}", (given, output)
        yield f"step {label}", 1, partial(_step, linear, pair)
        yield f"bode {label}", 2, partial(_bode, linear, pair)
    if linear.A.size:
        yield "poles", 1, partial(plots.poles, linear)


def _step(linear: Linearisation, pair: tuple[str, str], ax: Any) -> None:
    plots.step_response(linear, ax, *pair)


def _bode(linear: Linearisation, pair: tuple[str, str], axes: Any) -> None:
    plots.bode(linear, axes, *pair)
