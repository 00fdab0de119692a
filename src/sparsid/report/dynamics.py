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
        pair = {"input_name": given, "output_name": output}
        label = f"{given} to {output}"
        yield f"step {label}", 1, partial(plots.step_response, linear, **pair)
        yield f"bode {label}", 2, partial(plots.bode, linear, **pair)
    if linear.A.size:
        yield "poles", 1, partial(plots.poles, linear)
