"""One self-contained HTML page about a model, and its pictures as files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sparsid.analysis.dynamics import mean_point
from sparsid.data.record import Record
from sparsid.data.whole_file import whole_file
from sparsid.errors import InputError
from sparsid.report.contents import Facts
from sparsid.report.figures import figures_of, for_page, svg_text, write_pictures
from sparsid.report.page import page
from sparsid.validation.diagnosis import Diagnosis, diagnose

if TYPE_CHECKING:
    from sparsid.estimators import Model
    from sparsid.results.forecast import Forecast

__all__ = ["write_report"]


def write_report(
    model: Model,
    records: Record | Sequence[Record],
    path: str | Path,
    *,
    part: str = "",
    title: str = "",
    comparison: dict[str, dict[str, list[float]]] | None = None,
    pictures: str | Path | None = None,
    overwrite: bool = True,
    forecasts: tuple[list[Forecast], list[Forecast]] | None = None,
) -> Diagnosis:
    """Write a page about a model on records, and return what it says.

    The page needs nothing but a browser: no network, no other file.

    Parameters
    ----------
    records
        What the model is compared with, test records if there are any.
    path
        The HTML file.
    part
        What the records are, as in "test record"; by default their names.
    title
        Headline; by default the outputs.
    comparison
        Errors of other models on the same samples: name, then ``"one_step"`` and
        ``"free_run"``, one number for each output.
    pictures
        A folder for all pictures as PNG and SVG; None writes none.
    overwrite
        Whether an existing page may be replaced.
    forecasts
        One step ahead and in free run, over each record, if they are there already.
    """
    path = Path(path)
    if path.exists() and not overwrite:
        raise InputError(f"{path} exists: give another name, or overwrite=True")
    if not path.parent.is_dir():
        raise InputError(f"the folder {path.parent} does not exist: make it first")
    diagnosis = diagnose(model, records, forecasts=forecasts)
    linear = mean_point(model.fitted_)
    figures = figures_of(model, diagnosis, linear)
    drawn = {name: svg_text(name, figure) for name, figure in figures.items()}
    facts = Facts(title, part, comparison or {})
    inside = {name: for_page(name, text) for name, text in drawn.items()}
    with whole_file(path) as temporary:
        text = page(model, diagnosis, inside, facts._replace(linear=linear))
        temporary.write_text(text, encoding="utf-8")
    if pictures is not None:
        write_pictures(Path(pictures), figures, drawn)
    return diagnosis
