"""A page about a record before any fit: findings, signals, spectra, dead times."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from functools import partial
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from sparsid.data.advice import Advice
from sparsid.data.whole_file import whole_file
from sparsid.plots.style import plain_text

# Points of a line; of more, the smallest and the largest of each piece are drawn.
DRAWN = 2000
# Channels that are drawn; the findings are about all.
MOST_CHANNELS = 24
COLOURS = {"warning": "#b3261e", "note": "#8a6100", "ok": "#2e7d32"}
STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem;
  padding: 0 1rem; color: #1c1b1f; }
table { border-collapse: collapse; width: 100%; }
td, th { text-align: left; vertical-align: top; padding: .35rem .6rem;
  border-bottom: 1px solid #ddd; }
img { max-width: 100%; }
.severity { font-weight: 600; }
@media (prefers-color-scheme: dark) {
  body { background: #1c1b1f; color: #eee; } img { background: #fff; }
  td, th { border-color: #444; } }
"""


def write_page(advice: Advice, path: Path) -> None:
    """Write the page; it needs nothing but itself."""
    with whole_file(path) as part:
        part.write_text(page(advice), encoding="utf-8")


def page(advice: Advice) -> str:
    """Return the page as HTML."""
    record = advice.record
    title = escape(f"Inspection of {record.name or 'a record'}")
    rows = "".join(
        f'<tr><td class="severity" style="color:{COLOURS[f.severity]}">{f.severity}'
        f"</td><td>{escape(f.topic)}</td><td>{escape(f.channel)}</td>"
        f"<td>{escape(f.text)}</td><td>{escape(f.remedy)}</td></tr>"
        for f in advice.findings
    )
    notes = "".join(f"<li>{escape(note)}</li>" for note in record.notes)
    shaped = f"<h2>What was done to the data</h2><ul>{notes}</ul>" if notes else ""
    pictures = "".join(
        f"<h2>{escape(name)}</h2>{text}" for name, text in _pictures(advice).items()
    )
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{STYLE}</style></head><body><h1>{title}</h1>"
        f"<p>{len(record)} samples every {record.dt:g} s, "
        f"{escape(', '.join(record.input_names) or 'no input')} to "
        f"{escape(', '.join(record.output_names))}.</p>"
        "<table><tr><th></th><th>about</th><th>channel</th><th>found</th>"
        f"<th>what to do</th></tr>{rows}</table>{shaped}{pictures}</body></html>\n"
    )


def _pictures(advice: Advice) -> dict[str, str]:
    """Return pictures by heading."""
    outputs = advice.curves["outputs"]
    found = {"Signals": _image(lambda figure: _signals(figure, advice))}
    if advice.curves["inputs"] or outputs:
        found["Spectra"] = _image(lambda figure: _spectra(figure, advice))
    for name in list(outputs)[:MOST_CHANNELS]:
        curves = outputs[name]
        if "coherence" in curves or "correlation" in curves:
            found[f"From the inputs to {name}"] = _image(partial(_relations, curves))
    return found


def _image(draw: Callable[[Any], None]) -> str:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.5, 3.0), layout="constrained")
    draw(figure)
    plain_text(figure)
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=110)
    code = base64.b64encode(content.getvalue()).decode()
    return f'<img alt="" src="data:image/png;base64,{code}">'


def _signals(figure: Any, advice: Advice) -> None:
    record = advice.record
    values = np.concatenate([record.u, record.y], axis=1)
    names = (record.input_names + record.output_names)[:MOST_CHANNELS]
    units = record.input_units + record.output_units
    figure.set_size_inches(9.5, 0.6 + 1.3 * len(names))
    axes = figure.subplots(len(names), 1, sharex=True, squeeze=False)[:, 0]
    for k, (name, axis) in enumerate(zip(names, axes, strict=True)):
        colour = "C0" if k < record.n_inputs else "C1"
        axis.plot(*thinned(record.time, values[:, k]), lw=0.8, color=colour)
        axis.set_ylabel(f"{name} [{units[k]}]" if units[k] else name)
    axes[-1].set_xlabel("time [s]")


def _spectra(figure: Any, advice: Advice) -> None:
    left, right = figure.subplots(1, 2)
    for axis, side in ((left, "inputs"), (right, "outputs")):
        for name, curves in list(advice.curves[side].items())[:MOST_CHANNELS]:
            frequency, power = curves["spectrum"]
            axis.loglog(frequency, np.maximum(power, 1e-300), lw=1, label=name)
        axis.set_title(f"power density of {side}")
        axis.set_xlabel("frequency [Hz]")
        _legend(axis)


def _relations(curves: dict[str, Any], figure: Any) -> None:
    left, middle, right = figure.subplots(1, 3)
    if "coherence" in curves:
        left.semilogx(*curves["coherence"], lw=1)
    left.set(title="coherence with all inputs", xlabel="frequency [Hz]", ylim=(0, 1.02))
    for name, (lags, found, edge) in curves.get("correlation", {}).items():
        middle.plot(lags, found, lw=1, label=name)
        middle.axhline(edge, color="0.6", lw=0.7, ls="--")
        middle.axhline(-edge, color="0.6", lw=0.7, ls="--")
    middle.axvline(0, color="0.6", lw=0.7)
    middle.set(title="correlation, whitened", xlabel="output later by [samples]")
    _legend(middle)
    for name, criterion in curves.get("criterion", {}).items():
        right.plot(criterion - criterion.min(), lw=1, label=name)
    right.set(title="BIC above its smallest", xlabel="dead time [samples]")
    _legend(right)


def _legend(axis: Any) -> None:
    handles, names = axis.get_legend_handles_labels()
    if handles:
        axis.legend(handles, names, fontsize=8)


def thinned(time: Any, values: Any) -> tuple[Any, Any]:
    """Return a line of fewer points that looks the same: extremes of each piece."""
    if len(values) <= DRAWN:
        return time, values
    edges = np.linspace(0, len(values), DRAWN // 2 + 1).astype(int)
    first = edges[:-1]
    low, high = np.fmin.reduceat(values, first), np.fmax.reduceat(values, first)
    return np.repeat(time[first], 2), np.stack([low, high], 1).ravel()
