"""What was identified: as text for people, as plain values for machines."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from sparsid.results.base import FittedModel
from sparsid.results.texts import Row, counted, joined

WIDTH = 80
LABEL_WIDTH = 18
# Notes beyond these are counted, not listed.
LISTED_NOTES = 5


def summary(fitted: FittedModel, dynamics: Sequence[Row] = ()) -> str:
    """Return what was identified, as aligned text of at most 80 columns.

    Parameters
    ----------
    dynamics
        Lines about poles and gains near an operating point.
    """
    structure, quality = fitted.structure_rows(), fitted.quality_rows()
    lines = [*_data_rows(fitted), ("", ""), *structure, ("", ""), *quality]
    lines += [("", ""), *dynamics] if dynamics else []
    title = f"{fitted.title} model of {', '.join(fitted.channels.output_names)}"
    head = textwrap.shorten(title, WIDTH, placeholder=" ...")
    return "\n".join([head, "-" * len(head), *_aligned(lines)])


def result_dict(fitted: FittedModel) -> dict[str, Any]:
    """Return the facts of the summary as numbers, texts and lists.

    Values that are not finite become None, so that every JSON reader accepts them.
    """
    channels = fitted.channels
    facts = {
        "inputs": _named(channels.input_names, channels.input_units),
        "outputs": _named(channels.output_names, channels.output_units),
        "dt": channels.dt,
        "max_lag": fitted.start_samples,
        "weights_kept": fitted.weights_kept,
        "weights_total": fitted.weights_total,
        "kept": fitted.weights_kept / fitted.weights_total,
        "noise_std": fitted.noise_std.tolist(),
        "log_evidence": fitted.best_log_evidence,
        "cycles": len(fitted.history.get("cost", ())),
        "outcome": fitted.outcome.value,
        "remedy": fitted.outcome.remedy,
        **fitted.facts(),
        **fitted.details,
    }
    cleaned: dict[str, Any] = finite(facts)
    return cleaned


def finite(value: Any) -> Any:
    """Return plain values with None in place of NaN and infinity."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _data_rows(fitted: FittedModel) -> list[Row]:
    channels, details = fitted.channels, fitted.details
    counts = []
    for key, what in (("records", "record"), ("samples", "sample")):
        if key in details:
            counts.append(counted(details[key], what))
    counts.append(f"every {channels.dt:g} s")
    lines = [
        ("data", ", ".join(counts)),
        ("inputs", joined(channels.input_names, channels.input_units) or "none"),
        ("outputs", joined(channels.output_names, channels.output_units)),
    ]
    shaping = details.get("shaping", ())
    told = dict.fromkeys(step["note"] for steps in shaping for step in steps)
    lines += [("shaped", note) for note in list(told)[:LISTED_NOTES]]
    if len(told) > LISTED_NOTES:
        lines.append(("", f"and {len(told) - LISTED_NOTES} more steps"))
    notes = list(details.get("notes", ()))
    lines += [("note", note) for note in notes[:LISTED_NOTES]]
    if len(notes) > LISTED_NOTES:
        lines.append(("", f"and {len(notes) - LISTED_NOTES} more notes like these"))
    return lines


def _aligned(lines: Iterable[Row]) -> list[str]:
    texts: list[str] = []
    for label, text in lines:
        head = label.ljust(LABEL_WIDTH)
        if not label and not text:
            texts.append("")
            continue
        wrapped = textwrap.wrap(
            text,
            WIDTH,
            initial_indent=head,
            subsequent_indent=" " * LABEL_WIDTH,
            break_on_hyphens=False,
        )
        texts += wrapped or [head.rstrip()]
    return texts


def _named(names: Sequence[str], units: Sequence[str]) -> list[dict[str, str]]:
    return [{"name": n, "unit": u} for n, u in zip(names, units, strict=True)]
