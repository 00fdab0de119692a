"""Pictures of models and of what they get right and wrong.

Every function draws into the axes it is given, or into a figure of its own, and
returns the axes (``ax.figure.savefig(...)`` writes them). No global state of
matplotlib is touched.
"""

from sparsid.plots.checks import (
    correlation,
    coverage,
    operating_range,
    pit,
    stability,
)
from sparsid.plots.compared import comparison
from sparsid.plots.dynamics import (
    bode,
    poles,
    static_gain,
    step_response,
)
from sparsid.plots.signals import (
    error_text,
    extremes,
    forecast,
    identification_picture,
    recording,
    residual,
    simulation,
    thinned,
)
from sparsid.plots.structure import (
    history,
    members,
    network,
    relevance,
    weight_map,
)
from sparsid.plots.style import BAND, BLACK, BLUE, GREEN, GREY, ORANGE

__all__ = [
    "BAND",
    "BLACK",
    "BLUE",
    "GREEN",
    "GREY",
    "ORANGE",
    "bode",
    "comparison",
    "correlation",
    "coverage",
    "error_text",
    "extremes",
    "forecast",
    "history",
    "identification_picture",
    "members",
    "network",
    "operating_range",
    "pit",
    "poles",
    "recording",
    "relevance",
    "residual",
    "simulation",
    "stability",
    "static_gain",
    "step_response",
    "thinned",
    "weight_map",
]
