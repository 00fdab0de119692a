"""What was identified: as text for people, as plain values for machines."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sparsid.estimators import NARX, StateSpace
from sparsid.results.ensemble import Ensemble
from sparsid.results.narx import Fitted
from sparsid.results.narx_free_run import RunFitted

WIDTH = 80
LABEL_WIDTH = 18
# Notes beyond these are counted, not listed.
LISTED_NOTES = 5


def summary(model: NARX | StateSpace) -> str:
    """Return what was identified, as aligned text of at most 80 columns."""
    check_is_fitted(model, "fitted_")
    fitted = model.fitted_
    if isinstance(fitted, Ensemble):
        structure, quality = _state_lines(fitted), _member_lines(fitted)
    else:
        structure, quality = _structure_lines(fitted), _quality_lines(fitted, model)
    lines = [*_data_lines(fitted), ("", ""), *structure, ("", ""), *quality]
    kind = "State-space" if isinstance(fitted, Ensemble) else "NARX"
    title = f"{kind} model of {', '.join(fitted.channels.output_names)}"
    head = textwrap.shorten(title, WIDTH, placeholder=" ...")
    return "\n".join([head, "-" * len(head), *_aligned(lines)])


def result_dict(model: NARX | StateSpace) -> dict[str, Any]:
    """Return the facts of the summary as numbers, texts and lists.

    Values that are not finite become None, so that every JSON reader accepts them.
    """
    check_is_fitted(model, "fitted_")
    fitted = model.fitted_
    channels = fitted.channels
    facts = {
        "inputs": _named(channels.input_names, channels.input_units),
        "outputs": _named(channels.output_names, channels.output_units),
        "dt": channels.dt,
        "max_lag": model.max_lag_,
        "weights_kept": fitted.weights_kept,
        "weights_total": fitted.weights_total,
        "kept": fitted.weights_kept / fitted.weights_total,
        "noise_std": fitted.noise_std.tolist(),
        "log_evidence": model.log_evidence_,
        "cycles": len(fitted.history.get("cost", ())),
        "outcome": fitted.outcome.value,
        "remedy": fitted.outcome.remedy,
        **(_ensemble(fitted) if isinstance(fitted, Ensemble) else _network(fitted)),
        **fitted.details,
    }
    cleaned: dict[str, Any] = finite(facts)
    return cleaned


def _network(fitted: Fitted) -> dict[str, Any]:
    return {
        "regressors": list(fitted.regressor_names),
        "widths": list(fitted.network.widths),
        "start_widths": list(fitted.start_widths),
        "activation": fitted.network.activation,
        "linear_path": fitted.network.linear_path,
        "effective_weights": _last(fitted, "effective_weights"),
        **(_noise_parts(fitted) if isinstance(fitted, RunFitted) else {}),
    }


def _noise_parts(fitted: Ensemble | RunFitted) -> dict[str, Any]:
    white, coloured, phi = fitted.noise_parts
    return {
        "white_std": white.tolist(),
        "coloured_std": coloured.tolist(),
        "coloured_phi": phi.tolist(),
    }


def _ensemble(fitted: Ensemble) -> dict[str, Any]:
    return {
        "states": fitted.model.states,
        "hidden": list(fitted.model.hidden),
        "activation": fitted.model.activation,
        "rate": fitted.model.rate,
        "members": len(fitted),
        "dropped": fitted.dropped,
        "members_log_evidence": fitted.log_evidence.tolist(),
        **_noise_parts(fitted),
    }


def finite(value: Any) -> Any:
    """Return plain values with None in place of NaN and infinity."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def with_unit(value: float, unit: str) -> str:
    """Return a number of four digits and its unit."""
    number = f"{value:#.4g}".rstrip(".") if math.isfinite(value) else "diverged"
    return f"{number} {unit}".rstrip() if math.isfinite(value) else number


def kept_text(fitted: Fitted | Ensemble) -> str:
    """Return how many weights are left, such as "26 of 11200 weights, 0.23 %"."""
    share = percent(fitted.weights_kept / fitted.weights_total)
    return (
        f"{round(fitted.weights_kept, 1):g} of {fitted.weights_total} weights, {share}"
    )


def percent(share: float) -> str:
    """Return a share such as "0.23 %" or "41 %"."""
    value = 100.0 * share
    return f"{value:.0f} %" if value >= 10.0 else f"{value:.2g} %"


# -- the parts of the text -----------------------------------------------------------


def _data_lines(fitted: Fitted | Ensemble) -> list[tuple[str, str]]:
    channels, details = fitted.channels, fitted.details
    counts = []
    for key, what in (("records", "record"), ("samples", "sample")):
        if key in details:
            counts.append(_count(details[key], what))
    counts.append(f"every {channels.dt:g} s")
    lines = [
        ("data", ", ".join(counts)),
        ("inputs", _joined(channels.input_names, channels.input_units) or "none"),
        ("outputs", _joined(channels.output_names, channels.output_units)),
    ]
    notes = list(details.get("notes", ()))
    lines += [("note", note) for note in notes[:LISTED_NOTES]]
    if len(notes) > LISTED_NOTES:
        lines.append(("", f"and {len(notes) - LISTED_NOTES} more notes like these"))
    return lines


def _structure_lines(fitted: Fitted) -> list[tuple[str, str]]:
    network, start = fitted.network, fitted.start_widths
    widths = zip(network.widths[1:-1], start[1:-1], strict=True)
    neurons = [f"layer {k}: {n} of {m}" for k, (n, m) in enumerate(widths, 1)]
    path = ", and a linear path" if network.linear_path else ""
    kind = f" ({network.activation}{path})" if neurons else ""
    names = ", ".join(fitted.regressor_names) or "none: the model is a constant"
    return [
        ("regressors", f"{network.widths[0]} of {start[0]}: {names}"),
        ("neurons", (", ".join(neurons) or "none: a linear model") + kind),
        ("kept", f"{kept_text(fitted)}; biases not counted"),
    ]


def _state_lines(fitted: Ensemble) -> list[tuple[str, str]]:
    model = fitted.model
    outputs = ", ".join(fitted.channels.output_names)
    hidden = model.states - model.outputs
    latent = f" and {hidden} that {'is' if hidden == 1 else 'are'} not measured"
    neurons = ", ".join(f"layer {k}: {n}" for k, n in enumerate(model.hidden, 1))
    return [
        ("states", f"{model.states}: {outputs}{latent if hidden else ''}"),
        ("neurons", f"{neurons or 'none: a linear model'} ({model.activation})"),
        ("kept", f"{kept_text(fitted)}; mean over members, biases not counted"),
    ]


def _run_lines(fitted: Ensemble | RunFitted) -> list[tuple[str, str]]:
    """Return what is left over by a free run."""
    names, units = fitted.channels.output_names, fitted.channels.output_units
    white, coloured, phi = fitted.noise_parts
    slow = "correlation " + ", ".join(f"{p:.3f}" for p in phi)
    lines = [
        ("white noise std", _values(white.tolist(), names, units)),
        ("coloured std", f"{_values(coloured.tolist(), names, units)} ({slow})"),
    ]
    errors = fitted.details.get("free_run_rmse")
    if errors is not None:
        text = f"{_values(errors, names, units)} (estimation)"
        lines.append(("free-run error", text))
    return lines


def _member_lines(fitted: Ensemble) -> list[tuple[str, str]]:
    lines = _run_lines(fitted)
    evidence = fitted.log_evidence
    spread = f"{evidence.min():.1f} to {evidence.max():.1f}"
    dropped = f", {fitted.dropped} dropped" if fitted.dropped else ""
    lines.append(("members", f"{len(fitted)}{dropped}; log evidence {spread}"))
    cycles = len(fitted.history.get("cost", ()))
    lines.append(("outcome", f"{fitted.outcome} after {_count(cycles, 'cycle')}"))
    return lines


def _quality_lines(fitted: Fitted, model: Any) -> list[tuple[str, str]]:
    names, units = fitted.channels.output_names, fitted.channels.output_units
    noise = fitted.noise_std.tolist()
    lines = [("noise std", _values(noise, names, units))]
    if isinstance(fitted, RunFitted):
        lines = [("objective", _objective(fitted)), *_run_lines(fitted)]
    errors = fitted.details.get("one_step_rmse")
    if errors is not None:
        lines.append(
            ("one-step error", f"{_values(errors, names, units)} (estimation)")
        )
    if math.isfinite(fitted.log_evidence):
        lines.append(("log evidence", f"{fitted.log_evidence:.2f}"))
    else:
        lines.append(("log evidence", f"none (method {model.method!r})"))
    effective = _last(fitted, "effective_weights")
    if effective is not None and effective > 0.0:
        lines.append(("effective weights", f"{effective:.1f}"))
    lines += _start_lines(fitted)
    cycles = len(fitted.history.get("cost", ()))
    lines.append(("outcome", f"{fitted.outcome} after {_count(cycles, 'cycle')}"))
    return lines


def _objective(fitted: RunFitted) -> str:
    if fitted.window is None:
        return "free run over each record"
    windows = _count(len(fitted.starts), "window")
    return f"free runs over {windows} of at most {fitted.window} samples"


def _start_lines(fitted: Fitted) -> list[tuple[str, str]]:
    starts = fitted.details.get("starts", ())
    if len(starts) < 2:
        return []
    chosen = f"{len(starts)}, number {fitted.details['chosen_start'] + 1} chosen"
    scores = np.array([start["log_evidence"] for start in starts], dtype=float)
    scores = scores[np.isfinite(scores)]
    if not scores.size or not math.isfinite(fitted.log_evidence):
        return [("starts", chosen)]
    spread = (
        f"from {scores.min():.1f} to {scores.max():.1f}, median {np.median(scores):.1f}"
    )
    return [("starts", chosen), ("", f"log evidence {spread}")]


# -- small texts ---------------------------------------------------------------------


def _aligned(lines: Iterable[tuple[str, str]]) -> list[str]:
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


def _joined(names: Sequence[str], units: Sequence[str]) -> str:
    return ", ".join(
        f"{n} [{u}]" if u else n for n, u in zip(names, units, strict=True)
    )


def _values(values: Sequence[float], names: Sequence[str], units: Sequence[str]) -> str:
    """Return one value with unit for each channel, named if there are several."""
    texts = [with_unit(v, u) for v, u in zip(values, units, strict=True)]
    if len(texts) == 1:
        return texts[0]
    return ", ".join(f"{n} {t}" for n, t in zip(names, texts, strict=True))


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _last(fitted: Fitted, key: str) -> float | None:
    values = fitted.history.get(key)
    return None if values is None or not len(values) else float(values[-1])
