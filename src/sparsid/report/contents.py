"""What a report says, as plain values for its templates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from sparsid.analysis.linearisation import Linearisation
from sparsid.data.record import Record
from sparsid.plots.signals import kept_samples
from sparsid.results.equations import equations
from sparsid.results.forecast import Forecast
from sparsid.results.outcome import Outcome
from sparsid.results.texts import counted, joined, percent, with_unit
from sparsid.validation.diagnosis import Diagnosis
from sparsid.validation.relevance import alternatives

if TYPE_CHECKING:
    from sparsid.estimators import Model

# Records with a chart, and samples in it; of longer ones the ends of every stretch.
LARGEST_CHARTS, LARGEST_SAMPLES = 4, 6000
# Inputs drawn below an output.
LARGEST_INPUTS = 4
# Weights of the largest model whose equations are shown.
MOST_WRITTEN = 500


class Facts(NamedTuple):
    """What the caller knows and the model does not."""

    title: str
    part: str
    comparison: dict[str, dict[str, list[float]]]
    # What the model is near its mean operating point, or why there is none.
    linear: Linearisation | str = ""


class Table(NamedTuple):
    """A table of text; ``own`` is the row of the model itself, -1 for none."""

    head: list[str]
    rows: list[list[str]]
    own: int = -1


class Card(NamedTuple):
    """A number at the top of the page, what it is, and "good" or "look"."""

    value: str
    what: str
    mood: str = ""


class Verdict(NamedTuple):
    """A finding, and whether it is good news."""

    good: bool
    text: str


class Chart(NamedTuple):
    """A picture that the page's script draws from ``data``."""

    label: str
    data: dict[str, Any]


def contents(model: Model, diagnosis: Diagnosis, facts: Facts) -> dict[str, Any]:
    """Return everything the templates show, by name, except pictures."""
    names = model.fitted_.channels
    return {
        "title": facts.title or f"Model of {', '.join(names.output_names)}",
        "lead": _lead(model, diagnosis, facts),
        "cards": _cards(model, diagnosis, facts),
        "comparison": _comparison(model, diagnosis, facts),
        "verdicts": _verdicts(model, diagnosis),
        "charts": _charts(diagnosis),
        "not_drawn": len(diagnosis.records) - LARGEST_CHARTS,
        "is_ensemble": len(model.fitted_) > 1,
        "candidates": _candidates(model),
        "because": model.fitted_.details.get("chosen_because", ""),
        "bands": _bands(diagnosis, model),
        "equations": _equations(model),
        "learnt": _learnt(model),
        "channels": _channels(model, diagnosis),
        "notes": [str(note) for note in model.fitted_.details.get("notes", ())],
        "dynamics": _dynamics(facts.linear),
        "summary": model.summary(),
        "settings": _settings(model),
        "input_names": repr(list(names.input_names)),
        "output_names": repr(list(names.output_names)),
        "dt": f"{names.dt:g}",
    }


# -- the top -------------------------------------------------------------------------


def _lead(model: Model, diagnosis: Diagnosis, facts: Facts) -> str:
    """Return in a few sentences what was identified and how good it is."""
    fitted, channels = model.fitted_, model.fitted_.channels
    samples = fitted.details.get("samples")
    counted = f"{samples} samples" if samples else "its records"
    inputs = joined(channels.input_names, channels.input_units) or "no input"
    outputs = joined(channels.output_names, channels.output_units)
    sentences = [
        f"From {counted} of {inputs} and {outputs}, taken every {channels.dt:g} s, "
        f"{fitted.described()} was identified; {fitted.kept_text()} are left."
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


def _cards(model: Model, diagnosis: Diagnosis, facts: Facts) -> list[Card]:
    channels = model.fitted_.channels
    cards: list[Card] = []
    if model.outcome_ is not Outcome.CONVERGED:
        cards.append(Card(model.outcome_.value, "how the fit ended", "look"))
    several = len(channels.output_names) > 1
    rivals = [own.get("free_run") for own in facts.comparison.values()]
    free, one = diagnosis.scores["free_run"], diagnosis.scores["one_step"]
    for k, name in enumerate(channels.output_names):
        unit, of = channels.output_units[k], f", {name}" if several else ""
        others = [rival[k] for rival in rivals if rival]
        error = free["rmse"][k]
        mood = _mood(error <= min(others)) if others else ""
        mood = mood if math.isfinite(error) else "look"
        cards.append(Card(with_unit(error, unit), f"free-run error{of}", mood))
        if math.isfinite(free["fit_percent"][k]):
            cards.append(
                Card(f"{free['fit_percent'][k]:.1f} %", f"free-run fit{of}", mood)
            )
        tests = [t.passed for t in diagnosis.residuals if t.output == name]
        mood = _mood(all(tests)) if tests else ""
        cards.append(Card(with_unit(one["rmse"][k], unit), f"one-step error{of}", mood))
        bands = diagnosis.calibration_free_run
        if bands is not None:
            inside = 100 * bands.coverage[bands.levels.index(0.9), k]
            mood = _mood(bands.verdict(k).endswith("right"))
            cards.append(Card(f"{inside:.0f} %", f"inside the 90 % band{of}", mood))
    cards.append(Card(percent(model.kept_), "of the weights kept"))
    return cards


def _mood(good: bool) -> str:
    return "good" if good else "look"


def _comparison(model: Model, diagnosis: Diagnosis, facts: Facts) -> Table | None:
    """Return the errors of other models on the same samples."""
    if not facts.comparison:
        return None
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
    return Table(head, cells, own=0)


# -- the sections --------------------------------------------------------------------


def _verdicts(model: Model, diagnosis: Diagnosis) -> list[Verdict]:
    outcome = model.outcome_
    items = [(not outcome.remedy, f"the fit: {outcome}"), *diagnosis.verdicts]
    names = model.fitted_.channels.output_names
    return [Verdict(bool(good), _sentence(text, names)) for good, text in items]


def _charts(diagnosis: Diagnosis) -> list[Chart]:
    charts: list[Chart] = []
    triples = zip(
        diagnosis.records, diagnosis.free_run, diagnosis.one_step, strict=True
    )
    for record, free_run, one_step in list(triples)[:LARGEST_CHARTS]:
        for k in range(record.n_outputs):
            number = len(charts) + 1
            charts.append(_chart(record, free_run, one_step, k, number))
    return charts


def _chart(
    record: Record,
    free_run: Forecast,
    one_step: Forecast,
    channel: int,
    number: int,
) -> Chart:
    shown = _shown(record, free_run, one_step, channel)
    unit = record.output_units[channel]
    data = {
        "id": number,
        "name": record.output_names[channel],
        "unit": unit,
        "start": record.start * record.dt,
        "dt": record.dt,
        "measured": _numbers(record.y[shown, channel]),
        "inputs": [
            {
                "name": record.input_names[k],
                "unit": record.input_units[k],
                "values": _numbers(record.u[shown, k]),
            }
            for k in range(min(record.n_inputs, LARGEST_INPUTS))
        ],
    }
    thinned = len(shown) < len(record)
    if thinned:
        data["samples"] = shown.tolist()
    for key, forecast in (("free_run", free_run), ("one_step", one_step)):
        data[key] = {
            name: _numbers(getattr(forecast, name)[shown, channel])
            for name in ("mean", "std", "model_std")
        }
    name = record.output_names[channel]
    label = f"{record.name}: {name}" if record.name else name
    few = f", {len(shown)} of {len(record)} samples: the ends of every stretch"
    axis = f" [{unit}]" if unit else ""
    return Chart(label + axis + few * thinned, data)


def _shown(
    record: Record, free_run: Forecast, one_step: Forecast, channel: int
) -> NDArray[np.int64]:
    """Return the samples that are drawn: no spike of any signal is left out."""
    signals = [record.y[:, channel], free_run.mean[:, channel]]
    signals += [one_step.mean[:, channel], *record.u.T[:LARGEST_INPUTS]]
    return kept_samples(signals, LARGEST_SAMPLES)


def _candidates(model: Model) -> Table | None:
    table = alternatives(model)
    tried = table[table["held_out_error"].notna()]
    if not len(tried):
        return None
    if tried["chosen"].iloc[0]:
        # A linear winner: what was not better is told below.
        tried = tried[:1]
    rows = [
        [
            str(row["what"]) + (" (chosen)" if row["chosen"] else ""),
            f"{row['held_out_error']:.3f}",
        ]
        for row in tried.sort_values("held_out_error").to_dict("records")
    ]
    return Table(["candidate", "held-out free-run error [std]"], rows)


def _bands(diagnosis: Diagnosis, model: Model) -> Table | None:
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
    return Table(head, rows) if rows else None


def _equations(model: Model) -> str:
    """Return the equations of the first member; empty where nobody would read them."""
    fitted = model.fitted_
    short = fitted.weights_kept <= MOST_WRITTEN
    if not fitted.has_equations or not short:
        return ""
    return equations(fitted)


def _dynamics(linear: Linearisation | str) -> dict[str, Any]:
    """Return the lines about poles and gains, or why there are none."""
    if isinstance(linear, str):
        return {"reason": linear, "rows": [], "spread": ""}
    draws = len(linear.systems.A) - linear.members
    spread = f"{counted(linear.members, 'member')} and {counted(draws, 'draw')}"
    return {"reason": "", "rows": linear.rows(), "spread": spread}


def _learnt(model: Model) -> str:
    details = model.fitted_.details
    known = [key for key in ("records", "samples") if key in details]
    return ", ".join(f"{details[key]} {key}" for key in known) or "its records"


def _channels(model: Model, diagnosis: Diagnosis) -> Table:
    channels = model.fitted_.channels
    known = model.fitted_.details.get("range") or {}
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
    return Table(head, rows)


# -- pieces --------------------------------------------------------------------------


def _numbers(values: Any) -> list[float | None]:
    """Return values with five digits, null where there is none."""
    return [float(f"{v:.5g}") if math.isfinite(v) else None for v in values.tolist()]


def _settings(model: Model) -> str:
    settings = model.get_params(deep=False)
    given = ",\n    ".join(f"{key}={value!r}" for key, value in settings.items())
    return f"sparsid.{type(model).__name__}(\n    {given},\n)"


def _names(records: Sequence[Record]) -> str:
    names = [r.name for r in records if r.name]
    if not names:
        return "record" if len(records) == 1 else "records"
    return f"record{'s' * (len(names) > 1)} {', '.join(names[:3])}"


def _sentence(text: str, names: Sequence[str] = ()) -> str:
    """Return a text as a sentence; a name at its beginning stays as it is."""
    if any(text.startswith(name) for name in names):
        return text + "."
    return text[:1].upper() + text[1:] + "."
