"""The result of an identification as tables on the terminal."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from sparsid.cli.results import REPORT
from sparsid.estimators import Model
from sparsid.results.texts import with_unit
from sparsid.validation.relevance import alternatives

PREDICTORS = {
    "model": "this model",
    "linear_arx": "linear ARX",
    "persistence": "persistence",
}


def print_result(
    console: Console, model: Model, scores: dict[str, Any], files: list[Path]
) -> None:
    """Print errors, structure, outcome and the files written.

    Parameters
    ----------
    scores
        By part, as `evaluation.scores` returns them, and "protocols" for a benchmark.
    """
    parts = [name for name in scores if name != "protocols"]
    channels = model.fitted_.channels
    tables: list[RenderableType] = [Text()]
    named = zip(channels.output_names, channels.output_units, strict=True)
    for k, (name, unit) in enumerate(named):
        label = f"{name} [{unit}]" if unit else name
        tables.append(_errors(label, scores, parts, k))
    tables += _candidates(model)
    console.print(Group(*tables, _facts(model, scores, files)))


def print_end(
    console: Console, title: str, model: Model, scores: dict[str, Any], out: Path
) -> None:
    """Print in two lines what was identified from what, how good it is, where to look.

    Parameters
    ----------
    title
        What the data are.
    out
        The folder with the results.
    """
    part = [name for name in scores if name != "protocols"][-1]
    fits = scores[part].get("free_run_fit_percent", ())
    names = model.fitted_.channels.output_names
    several = len(names) > 1
    texts = [
        f"{name} " * several + (f"{fit:.1f} %" if math.isfinite(fit) else "diverged")
        for name, fit in zip(names, fits, strict=False)
    ]
    line = f"{title}: {model.fitted_.described().rstrip(',')}"
    if texts:
        line += f"; free-run fit on the {part} part {', '.join(texts)}"
    console.print(Text(f"\n{line}.", style="bold"), soft_wrap=True)
    page = out / REPORT
    where = f"open {page}" if page.is_file() else f"see {out}"
    console.print(f"To look at it: {where}", soft_wrap=True, markup=False)


def _candidates(model: Model) -> list[RenderableType]:
    """Return what was tried and why one was chosen; a linear winner stands alone."""
    found = alternatives(model)
    found = found[found["held_out_error"].notna()]
    if found.empty:
        return []
    if found["chosen"].iloc[0]:
        found = found[:1]
    title = "held-out free-run error, in standard deviations of the output"
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("candidate")
    table.add_column("error", justify="right")
    for row in found.sort_values("held_out_error").to_dict("records"):
        mark = " (chosen)" if row["chosen"] else ""
        style = "bold" if row["chosen"] else ""
        table.add_row(
            f"{row['what']}{mark}", f"{row['held_out_error']:.3f}", style=style
        )
    why = model.fitted_.details.get("chosen_because")
    return [table, *([Text(_sentence(why))] if why else []), Text()]


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + "."


def _errors(
    label: str, scores: dict[str, Any], parts: list[str], channel: int
) -> Table:
    table = Table(title=f"RMSE of {label}", title_justify="left", title_style="bold")
    table.add_column("")
    for kind in ("one step", "free run"):
        for part in parts:
            table.add_column(f"{kind}\n{part}", justify="right")
    for key, title in PREDICTORS.items():
        cells = [
            _cell(scores[part].get(key, {}).get(kind), channel)
            for kind in ("one_step", "free_run")
            for part in parts
        ]
        table.add_row(title, *cells, style="bold" if key == "model" else "")
    return table


def _cell(errors: list[float] | None, channel: int) -> str:
    return "-" if errors is None else with_unit(errors[channel], "")


def _facts(model: Model, scores: dict[str, Any], files: list[Path]) -> Table:
    fitted, channels = model.fitted_, model.fitted_.channels
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold")
    grid.add_column(overflow="fold")
    for line in _protocol_lines(scores.get("protocols")):
        grid.add_row(*line)
    noise = ", ".join(
        f"{name} {with_unit(value, unit)}"
        for name, value, unit in zip(
            channels.output_names,
            fitted.noise_std.tolist(),
            channels.output_units,
            strict=True,
        )
    )
    grid.add_row("weights kept", f"{fitted.kept_text()}, biases not counted")
    for row in fitted.table_rows():
        grid.add_row(*row)
    grid.add_row("noise std", noise)
    if model.log_evidence_ == model.log_evidence_:
        grid.add_row("log evidence", f"{model.log_evidence_:.2f}")
    good = "green" if not fitted.outcome.remedy else "yellow"
    grid.add_row("outcome", Text(str(fitted.outcome), style=good))
    for k, path in enumerate(files):
        grid.add_row("" if k else "written", Text(str(path)))
    return grid


def _protocol_lines(protocols: dict[str, Any] | None) -> list[tuple[str, str]]:
    """Return the free runs over a benchmark's test record, protocol by protocol."""
    words = {
        "window": "from the start window",
        "A": "from the inputs alone",
        "B": "from the first outputs",
        "C": "from sample 50 on",
    }
    return [
        (f"protocol {key}", f"{with_unit(error, '')}  test free run {text}")
        for key, text in words.items()
        for error in (protocols or {}).get(key, {}).get("rmse") or ()
    ]
