"""The HTML of a report: templates, filled with the contents."""

from __future__ import annotations

from datetime import date
from importlib.resources import files
from typing import TYPE_CHECKING

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

import sparsid
from sparsid.report.contents import Facts, contents
from sparsid.validation.diagnosis import Diagnosis

if TYPE_CHECKING:
    from sparsid.estimators import Model

# The sections in order, each with a template of its name in ``templates/sections``.
SECTIONS = {
    "verdicts": "What to know",
    "runs": "Measured and simulated",
    "residuals": "Residuals",
    "range": "Where it is valid",
    "dynamics": "Dynamics",
    "kept": "What was kept",
    "fit": "How it was found",
    "bands": "Are the bands right?",
    "data": "Data",
    "use": "Using the model",
}


def page(
    model: Model, diagnosis: Diagnosis, figures: dict[str, str], facts: Facts
) -> str:
    """Return the page.

    Parameters
    ----------
    figures
        SVG by name, from `report.figures`. It becomes part of the page as it is;
        everything else is escaped.
    """
    drawn = {name: Markup(svg) for name, svg in figures.items()}

    def named(start: str) -> list[Markup]:
        return [svg for name, svg in drawn.items() if name.startswith(start)]

    return (
        _environment()
        .get_template("page.html")
        .render(
            contents(model, diagnosis, facts),
            named=named,
            sections=SECTIONS,
            css=Markup(_asset("page.css")),
            script=Markup(_asset("chart.js")),
            version=sparsid.__version__,
            today=date.today().isoformat(),
        )
    )


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("sparsid.report"),
        autoescape=True,
        undefined=StrictUndefined,
        keep_trailing_newline=False,
    )
    environment.policies["json.dumps_kwargs"] = {
        "allow_nan": False,
        "separators": (",", ":"),
    }
    return environment


def _asset(name: str) -> str:
    return (files("sparsid.report") / name).read_text(encoding="utf-8")
