"""A linearised model as plain values for the page."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparsid.app.operations import real
from sparsid.errors import InputError
from sparsid.results.texts import with_unit

# Points of a curve on the page.
POINTS = 200


def linear_view(model: Any, at: Any) -> dict[str, Any]:
    """Return poles, frequency and step responses around a steady state.

    Parameters
    ----------
    at
        Inputs there, a list; None: their means.
    """
    channels = model.fitted_.channels
    if at is not None:
        if not isinstance(at, list) or len(at) != channels.n_inputs:
            raise InputError(f"the model has {channels.n_inputs} inputs: give as many")
        named = dict(zip(channels.input_names, at, strict=True))
        at = [real(named, name) for name in named]
    found = model.linearise(at=at)
    poles = np.asarray(found.poles.value)
    figures = zip(
        poles,
        found.time_constants.value,
        found.damping.value,
        found.frequencies.value,
        strict=True,
    )
    return {
        "text": _point(found, channels),
        "stable": bool(found.stable),
        "poles": [{"real": p.real, "imag": p.imag} for p in poles.astype(complex)],
        "table": [
            {"real": p.real, "imag": p.imag, "time_constant": t, "damping": d}
            | {"frequency": w / (2.0 * np.pi)}
            for p, t, d, w in figures
        ],
        "responses": _responses(found, channels),
    }


def _point(found: Any, channels: Any) -> str:
    """Return where the model is at rest, in words."""
    sides = []
    for side in ("input", "output"):
        names = getattr(channels, f"{side}_names")
        units = getattr(channels, f"{side}_units")
        values = np.asarray(getattr(found, f"{side}s"), dtype=float).ravel()
        triples = zip(names, values, units, strict=True)
        sides.append(", ".join(f"{n} {with_unit(float(v), u)}" for n, v, u in triples))
    text = f"At rest with {sides[0]}: {sides[1]}."
    held = " A state or an output is held at its bound there." if found.held else ""
    return text + held


def _responses(found: Any, channels: Any) -> list[dict[str, Any]]:
    """Return gain, phase and step for every pair of input and output."""
    bode, step = found.frequency_response(), found.step_response()
    thin = np.unique(np.linspace(0, len(step.time) - 1, POINTS).astype(int))
    hertz = bode.w / (2.0 * np.pi)
    pairs = []
    for k, output in enumerate(channels.output_names):
        for j, given in enumerate(channels.input_names):
            own = np.s_[:, k, j]
            gain = {
                "y": bode.magnitude[own],
                "low": bode.magnitude_low[own],
                "high": bode.magnitude_high[own],
            }
            phase = {"low": bode.phase_low[own], "high": bode.phase_high[own]}
            pairs.append(
                {
                    "name": f"{given} to {output}",
                    "gain": {"x": hertz, **{n: _decibel(v) for n, v in gain.items()}},
                    "phase": {"x": hertz, "y": bode.phase[own], **phase},
                    "step": {
                        "x": step.time[thin],
                        "y": step.response[own][thin],
                        "low": step.low[own][thin],
                        "high": step.high[own][thin],
                    },
                }
            )
    return pairs


def _decibel(values: Any) -> Any:
    return 20.0 * np.log10(np.maximum(values, 1e-300))
