"""The HTML of a report."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from datetime import date
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

import sparsid
from sparsid.data.record import Record
from sparsid.results.ensemble import Ensemble
from sparsid.results.forecast import Forecast
from sparsid.results.summary import kept_text, percent, summary, with_unit
from sparsid.validation.diagnosis import Diagnosis
from sparsid.validation.relevance import alternatives

if TYPE_CHECKING:
    from sparsid.estimators import Model

# Records with a chart, and samples in it; of longer ones every k-th is drawn.
LARGEST_CHARTS, LARGEST_SAMPLES = 4, 6000
SECTIONS = {
    "verdicts": "What to know",
    "runs": "Measured and simulated",
    "residuals": "Residuals",
    "range": "Where it is valid",
    "kept": "What was kept",
    "fit": "How it was found",
    "bands": "Are the bands right?",
    "data": "Data",
    "use": "Using the model",
}

Figures = dict[str, str]


class Facts(NamedTuple):
    """What the caller knows and the model does not."""

    title: str
    part: str
    comparison: dict[str, dict[str, list[float]]]


def page(model: Model, diagnosis: Diagnosis, figures: Figures, facts: Facts) -> str:
    """Return the page.

    Parameters
    ----------
    figures
        SVG by name, from `report.figures`.
    """
    outputs = ", ".join(model.fitted_.channels.output_names)
    title = facts.title or f"Model of {outputs}"
    links = " ".join(f'<a href="#{k}">{escape(v)}</a>' for k, v in SECTIONS.items())
    bodies = {
        "verdicts": _verdicts(model, diagnosis),
        "runs": _runs(diagnosis, figures),
        "residuals": _residuals(figures),
        "range": _range(figures),
        "kept": _kept(model, figures),
        "fit": _fit(model, figures),
        "bands": _bands(diagnosis, figures, model),
        "data": _data(model, diagnosis),
        "use": _use(model),
    }
    sections = "\n".join(
        f'<section id="{key}"><h2>{escape(SECTIONS[key])}</h2>\n{body}</section>'
        for key, body in bodies.items()
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<link rel="icon" href="data:,">
<style>
{_asset("page.css")}</style>
</head>
<body>
<main>
<h1>{escape(title)}</h1>
<p class="lead">{escape(_paragraph(model, diagnosis, facts))}</p>
{_cards(model, diagnosis)}
{_comparison(model, diagnosis, facts)}
<nav aria-label="Sections">{links}</nav>
{sections}
<footer>sparsid {escape(sparsid.__version__)}, {date.today().isoformat()}.</footer>
</main>
<script>
{_asset("chart.js")}</script>
</body>
</html>
"""


# -- the top -------------------------------------------------------------------------


def _paragraph(model: Model, diagnosis: Diagnosis, facts: Facts) -> str:
    """Return in a few sentences what was identified and how good it is."""
    fitted, channels = model.fitted_, model.fitted_.channels
    samples = fitted.details.get("samples")
    counted = f"{samples} samples" if samples else "its records"
    inputs = _joined(channels.input_names, channels.input_units) or "no input"
    outputs = _joined(channels.output_names, channels.output_units)
    sentences = [
        f"From {counted} of {inputs} and {outputs}, taken every {channels.dt:g} s, "
        f"{_kind(model)} was identified; {kept_text(fitted)} are left."
    ]
    part = facts.part or _names(diagnosis.records)
    free, one = (diagnosis.scores[k]["rmse"] for k in ("free_run", "one_step"))
    fit = diagnosis.scores["free_run"]["fit_percent"]
    errors = []
    for k, name in enumerate(channels.output_names):
        unit = channels.output_units[k]
        if not math.isfinite(free[k]):
            errors.append(f"{name} diverges in free run")
            continue
        errors.append(
            f"{name} is simulated with an error of {with_unit(free[k], unit)} "
            f"(fit {fit[k]:.1f} %) and predicted one step ahead with "
            f"{with_unit(one[k], unit)}"
        )
    sentences.append(f"On the {part}, {'; '.join(errors)}.")
    notes = fitted.details.get("notes", ())
    sentences += [f"Note: {note}." for note in notes[:2]]
    return " ".join(sentences)


def _kind(model: Model) -> str:
    fitted = model.fitted_
    if isinstance(fitted, Ensemble):
        return (
            f"a state-space model with {fitted.model.states} states (an ensemble of "
            f"{len(fitted)} networks, fitted to the free run)"
        )
    if not fitted.network.hidden_axes:
        return "a linear model"
    widths = "-".join(str(n) for n in fitted.network.widths)
    start = "-".join(str(n) for n in fitted.start_widths)
    return f"a network {widths}, pruned from {start},"


def _cards(model: Model, diagnosis: Diagnosis) -> str:
    channels, cards = model.fitted_.channels, []
    several = len(channels.output_names) > 1
    for k, name in enumerate(channels.output_names):
        unit, of = channels.output_units[k], f", {name}" if several else ""
        free, one = diagnosis.scores["free_run"], diagnosis.scores["one_step"]
        cards.append((with_unit(free["rmse"][k], unit), f"free-run error{of}"))
        if math.isfinite(free["fit_percent"][k]):
            cards.append((f"{free['fit_percent'][k]:.1f} %", f"free-run fit{of}"))
        cards.append((with_unit(one["rmse"][k], unit), f"one-step error{of}"))
        bands = diagnosis.calibration_free_run
        if bands is not None:
            inside = 100 * bands.coverage[bands.levels.index(0.9), k]
            cards.append((f"{inside:.0f} %", f"inside the 90 % band{of}"))
    cards.append((percent(model.kept_), "of the weights kept"))
    body = "".join(
        f'<div class="card"><b>{escape(value)}</b><span>{escape(what)}</span></div>'
        for value, what in cards
    )
    return f'<div class="cards">{body}</div>'


def _comparison(model: Model, diagnosis: Diagnosis, facts: Facts) -> str:
    """Return the errors of other models on the same samples, as a table."""
    if not facts.comparison:
        return ""
    channels = model.fitted_.channels
    rows: list[tuple[str, dict[str, list[float]]]] = [
        ("this model", {k: v["rmse"] for k, v in diagnosis.scores.items()}),
        *facts.comparison.items(),
    ]
    head = ["RMSE"]
    for name, unit in zip(channels.output_names, channels.output_units, strict=True):
        label = f"{name} [{unit}]" if unit else name
        head += [f"{label}, free run", f"{label}, one step"]
    cells = []
    for name, errors in rows:
        row = [name]
        for k in range(len(channels.output_names)):
            for kind in ("free_run", "one_step"):
                found = errors.get(kind)
                row.append("-" if found is None else with_unit(found[k], ""))
        cells.append(row)
    return _table(head, cells, own=0)


# -- the sections --------------------------------------------------------------------


def _verdicts(model: Model, diagnosis: Diagnosis) -> str:
    items = list(diagnosis.verdicts)
    outcome = model.outcome_
    items.insert(0, (not outcome.remedy, f"the fit: {outcome}"))
    lines = "".join(
        f'<li class="{"good" if good else "look"}">{escape(_sentence(text))}</li>'
        for good, text in items
    )
    return f'<ul class="verdicts">{lines}</ul>'


def _runs(diagnosis: Diagnosis, figures: Figures) -> str:
    parts = [
        '<p class="soft">The band holds 95 % of new measurements if the model is '
        "right; its darker part is what the model is unsure of, the rest is noise. "
        "Drag over the picture to zoom, double-click to see all again.</p>"
    ]
    number = 0
    triples = zip(
        diagnosis.records, diagnosis.free_run, diagnosis.one_step, strict=True
    )
    for record, free_run, one_step in list(triples)[:LARGEST_CHARTS]:
        for k, name in enumerate(record.output_names):
            number += 1
            label = f"{record.name}: {name}" if record.name else name
            parts.append(_chart(record, free_run, one_step, k, number, label))
    left = len(diagnosis.records) - LARGEST_CHARTS
    if left > 0:
        parts.append(f'<p class="soft">{left} more records are not drawn.</p>')
    still = [svg for name, svg in figures.items() if name.startswith("simulation")]
    parts.append(f"<noscript>{_figures(still)}</noscript>")
    return "\n".join(parts)


def _chart(
    record: Record,
    free_run: Forecast,
    one_step: Forecast,
    channel: int,
    number: int,
    label: str,
) -> str:
    step = max(1, math.ceil(len(record) / LARGEST_SAMPLES))
    unit = record.output_units[channel]
    data = {
        "id": number,
        "name": record.output_names[channel],
        "unit": unit,
        "start": record.start * record.dt,
        "dt": record.dt * step,
        "measured": _numbers(record.y[::step, channel]),
    }
    for key, forecast in (("free_run", free_run), ("one_step", one_step)):
        data[key] = {
            name: _numbers(getattr(forecast, name)[::step, channel])
            for name in ("mean", "std", "model_std")
        }
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    # A name must not end the script it is in.
    text = text.replace("<", "\\u003c")
    thinned = f", every {step}th sample" if step > 1 else ""
    axis = f" [{unit}]" if unit else ""
    return f"""<h3>{escape(label + axis + thinned)}</h3>
<div class="chart">
<div class="tools">
<button data-kind="free_run" aria-pressed="true">free run</button>
<button data-kind="one_step" aria-pressed="false">one step ahead</button>
<span class="key">measured</span><span class="key f">model</span>
<span class="key b">95 % band</span><span class="key i">of it model</span>
<button data-do="in" aria-label="zoom in">+</button>
<button data-do="out" aria-label="zoom out">&minus;</button>
<button data-do="left" aria-label="earlier">&larr;</button>
<button data-do="right" aria-label="later">&rarr;</button>
<button data-do="all">all</button>
</div>
<div class="view"></div>
<div class="tip" aria-live="polite"></div>
<script type="application/json">{text}</script>
</div>"""


def _residuals(figures: Figures) -> str:
    return (
        '<p class="soft">One step ahead, what is left over should be correlated '
        "neither with itself nor with the inputs: lags beyond the shaded limits (99 %) "
        "show what the model does not explain.</p>"
        + _figures(_named(figures, "correlation"))
    )


def _range(figures: Figures) -> str:
    return (
        '<p class="soft">Free-run error by measured output, with the number of '
        "samples; hatched ranges were never seen in estimation. Beside it, how fast "
        "runs from two wrong starts come together.</p>"
        + _figures([*_named(figures, "range"), *_named(figures, "stability")])
    )


def _kept(model: Model, figures: Figures) -> str:
    note = (
        '<p class="soft">How much the log evidence would fall without each input, lag '
        "or state, all else equal; and the network that is left. In the drawing wide "
        "lines are strong weights, solid ones positive, dashed ones negative."
    )
    if isinstance(model.fitted_, Ensemble):
        note += " Medians over members; the drawing and the maps show the first."
    maps = _named(figures, "weights")
    return (
        note
        + "</p>"
        + _figures([figures["relevance"], figures["network"]])
        + "<h3>Weights, before and after</h3>"
        + _figures(maps)
    )


def _fit(model: Model, figures: Figures) -> str:
    table = alternatives(model)
    shown = [*_named(figures, "history"), *_named(figures, "members")]
    parts = [_figures(shown)]
    tried = table[table["held_out_error"].notna()]
    if len(tried):
        rows = [
            [
                str(row["what"]) + (" (chosen)" if row["chosen"] else ""),
                f"{row['held_out_error']:.3f}",
            ]
            for row in tried.to_dict("records")
        ]
        head = ["candidate", "held-out free-run error [std]"]
        parts.append("<h3>Against alternatives</h3>" + _table(head, rows))
    return "".join(parts)


def _bands(diagnosis: Diagnosis, figures: Figures, model: Model) -> str:
    factors = model.fitted_.band_factors
    pairs = (
        ("one step ahead", diagnosis.calibration_one_step, factors.one_step),
        ("free run", diagnosis.calibration_free_run, factors.free_run),
    )
    rows, head = [], ["forecast"]
    for what, found, factor in pairs:
        if found is None:
            continue
        head = ["forecast", *(f"inside {100 * v:g} %" for v in found.levels)]
        head += ["90 % width", "CRPS", "neg. log density", "factor"]
        for k, name in enumerate(found.output_names):
            unit = found.output_units[k]
            width = found.widths[found.levels.index(0.9), k]
            rows.append(
                [
                    f"{name}, {what}",
                    *(f"{100 * v:.0f} %" for v in found.coverage[:, k]),
                    with_unit(float(width), unit),
                    with_unit(float(found.crps[k]), unit),
                    f"{found.nll[k]:.2f}",
                    f"{factor[k]:.2f}",
                ]
            )
    if not rows:
        return "<p>The model has no bands: it diverged, or has no posterior.</p>"
    note = (
        '<p class="soft">A band that promises 90 % should hold 90 %. In the second '
        "kind of picture a flat histogram is right, a hill means bands too wide, a "
        "valley too narrow, a slope a bias. <em>Factor</em> is what the bands were "
        "multiplied with after comparing them with errors on held-out blocks of the "
        "estimation records; 1 means that this was not done.</p>"
    )
    shown = [*_named(figures, "coverage"), *_named(figures, "pit")]
    return note + _table(head, rows) + _figures(shown)


def _data(model: Model, diagnosis: Diagnosis) -> str:
    fitted, channels = model.fitted_, model.fitted_.channels
    details = fitted.details
    learnt = ", ".join(
        f"{details[key]} {key}" for key in ("records", "samples") if key in details
    )
    parts = [f"<p>Estimated from {escape(learnt or 'its records')}.</p>"]
    known = details.get("range") or {}
    ends = [*known.get("inputs", ()), *known.get("outputs", ())]
    names = [*channels.input_names, *channels.output_names]
    units = [*channels.input_units, *channels.output_units]
    values = np.concatenate(
        [np.concatenate([r.u, r.y], axis=1) for r in diagnosis.records]
    )
    frame = pd.DataFrame(values, columns=names)
    rows = []
    for k, name in enumerate(names):
        column = frame.iloc[:, k]
        learnt_range = f"{ends[k][0]:.4g} to {ends[k][1]:.4g}" if ends else "-"
        rows.append(
            [
                f"{name} [{units[k]}]" if units[k] else name,
                learnt_range,
                f"{column.min():.4g} to {column.max():.4g}",
                f"{column.mean():.4g}",
                f"{column.std():.4g}",
                f"{int(column.isna().sum())}",
            ]
        )
    head = ["channel", "range in estimation", "range here", "mean", "std", "missing"]
    parts.append(_table(head, rows))
    notes = [escape(str(note)) for note in details.get("notes", ())]
    if notes:
        items = "".join(f"<li>{note}</li>" for note in notes)
        parts.append(f"<h3>Notes and warnings</h3><ul>{items}</ul>")
    parts.append(
        "<details><summary>Summary as text, and settings</summary>"
        f"<pre>{escape(summary(model))}</pre>"
        f"<pre>{escape(_settings(model))}</pre></details>"
    )
    return "".join(parts)


def _use(model: Model) -> str:
    names = model.fitted_.channels
    columns = (
        f"inputs={list(names.input_names)!r}, outputs={list(names.output_names)!r}"
    )
    code = (
        "import sparsid\n\n"
        'model = sparsid.load("model.sparsid")\n'
        f'record = sparsid.read("other.csv", {columns}, dt={names.dt:g})\n'
        "forecast = model.simulate(record)      # .mean, .std, .band(0.9)"
    )
    shell = "sparsid simulate model.sparsid other.csv --out simulated.csv"
    return f"<pre><code>{escape(code)}</code></pre><pre><code>{shell}</code></pre>"


# -- pieces --------------------------------------------------------------------------


def _named(figures: Figures, start: str) -> list[str]:
    return [svg for name, svg in figures.items() if name.startswith(start)]


def _figures(drawn: Iterable[str]) -> str:
    body = "".join(f"<figure>{svg}</figure>" for svg in drawn)
    return f'<div class="figures">{body}</div>'


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], own: int = -1) -> str:
    top = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    lines = []
    for k, row in enumerate(rows):
        cells = "".join(f"<td>{escape(cell)}</td>" for cell in row)
        lines.append(
            f'<tr class="own">{cells}</tr>' if k == own else f"<tr>{cells}</tr>"
        )
    body = "".join(lines)
    return (
        f'<div class="scroll"><table><thead><tr>{top}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _numbers(values: Any) -> list[float | None]:
    """Return values with five digits, null where there is none."""
    return [float(f"{v:.5g}") if math.isfinite(v) else None for v in values.tolist()]


def _settings(model: Model) -> str:
    settings = model.get_params(deep=False)
    given = ",\n    ".join(f"{key}={value!r}" for key, value in settings.items())
    return f"sparsid.{type(model).__name__}(\n    {given},\n)"


def _joined(names: Sequence[str], units: Sequence[str]) -> str:
    pairs = zip(names, units, strict=True)
    return ", ".join(f"{n} [{u}]" if u else n for n, u in pairs)


def _names(records: Sequence[Record]) -> str:
    names = [r.name for r in records if r.name]
    if not names:
        return "record" if len(records) == 1 else "records"
    return f"record{'s' * (len(names) > 1)} {', '.join(names[:3])}"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + "."


def _asset(name: str) -> str:
    return (files("sparsid.report") / name).read_text(encoding="utf-8")
