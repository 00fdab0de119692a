"""What is said of a linear model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sparsid.analysis.spread import named_values, spread_text
from sparsid.results.texts import Row, counted

if TYPE_CHECKING:
    from sparsid.analysis.linearisation import Linearisation

# Poles smaller than this are a memory of samples, not a motion.
SMALLEST_POLE = 1e-6
# Modes and gains in a text.
LISTED = 4


def point_text(model: Linearisation) -> str:
    """Return the operating point in words."""
    names = model.channels
    given = named_values(model.inputs, names.input_names, names.input_units)
    there = named_values(model.outputs, names.output_names, names.output_units)
    kind = "" if model.steady else ", states given"
    held = ", held at a bound: it does not move" if model.held else ""
    return f"{given or 'no inputs'} -> {there}{kind}{held}"


def rows(model: Linearisation) -> list[Row]:
    """Return the lines of a summary about poles, gains and dead times."""
    found: list[Row] = [("linear at", point_text(model))]
    lines = _gain_lines(model)
    found += [("" if k else "gain", text) for k, text in enumerate(lines)]
    modes = mode_lines(model)
    shown = modes[:LISTED]
    if len(modes) > LISTED:
        shown.append(f"and {counted(len(modes) - LISTED, 'faster one')}")
    found += [("" if k else "motions", text) for k, text in enumerate(shown)]
    if any(model.delays):
        late = zip(model.channels.input_names, model.dead_times.value, strict=True)
        texts = [f"{name} {value:g} s" for name, value in late]
        found.append(("dead times", ", ".join(texts)))
    return found


def _gain_lines(model: Linearisation) -> list[str]:
    found, names, lines = model.gain, model.channels, []
    for i, output in enumerate(names.output_names):
        for j, given in enumerate(names.input_names):
            unit = model.gain_unit(i, j)
            low, high = float(found.low[i, j]), float(found.high[i, j])
            text = spread_text(float(found.value[i, j]), low, high, unit)
            if not np.isfinite(found.value[i, j]):
                text = "none: it does not come to rest"
            lines.append(f"{given} to {output}: {text}")
    if len(lines) == 1:
        return [lines[0].split(": ", 1)[1]]
    more = len(lines) - LISTED
    return lines if more <= 0 else [*lines[:LISTED], f"and {more} more"]


def mode_lines(model: Linearisation) -> list[str]:
    """Return one text for each real pole or pair, the slowest first."""
    poles, taus = model.poles.value, model.time_constants
    zeta, omega = model.damping, model.frequencies
    lines = []
    for k, pole in enumerate(poles):
        if abs(pole) < SMALLEST_POLE or pole.imag < 0.0:
            continue
        if not np.isfinite(taus.value[k]):
            lines.append("an integrator")
            continue
        three = np.array([taus.value[k], taus.low[k], taus.high[k]])
        if three[0] < 0.0:
            three = -three[[0, 2, 1]]
            text = "unstable, grows with time constant "
        else:
            text = "time constant "
        text += spread_text(float(three[0]), float(three[1]), float(three[2]), "s")
        if pole.imag > 0.0:
            turn = 2.0 * np.pi / abs(np.angle(pole)) * model.dt
            damped = spread_text(zeta.value[k], zeta.low[k], zeta.high[k])
            text += f", period {turn:.3g} s, damping {damped}"
            text += f", {omega.value[k]:.3g} rad/s"
        elif pole.real < 0.0:
            text += ", alternating"
        lines.append(text)
    return lines
