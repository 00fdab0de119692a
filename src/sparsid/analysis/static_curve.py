"""The curve of states of rest: outputs over one input, and how steep they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsid.analysis.spread import DRAWS, ends, extrapolated, per_member
from sparsid.analysis.steady_state import (
    finite,
    newton,
    operating_inputs,
    rests,
    solved,
)
from sparsid.analysis.step import Step
from sparsid.analysis.steps import steps_of
from sparsid.checks import whole
from sparsid.errors import InputError
from sparsid.results.base import FittedModel
from sparsid.results.channels import Channels

Values = NDArray[np.float64]

# Points of a curve.
POINTS = 25


@dataclass(frozen=True, eq=False)
class StaticCurve:
    """Outputs at rest over one input, and how steep they are.

    Attributes
    ----------
    values
        Of the input, in its unit.
    outputs, gain
        (point, output); ``gain`` is the slope ``dy/du``. Medians over members.
    outputs_low, outputs_high, gain_low, gain_high
        Between them lie 90 % of members and draws.
    inputs
        All inputs; the one that moves has its value of `at`.
    """

    input_name: str
    values: Values
    outputs: Values
    outputs_low: Values
    outputs_high: Values
    gain: Values
    gain_low: Values
    gain_high: Values
    inputs: Values
    channels: Channels

    def to_frame(self) -> Any:
        """Return the curve as a DataFrame, one row for each point."""
        import pandas as pd

        columns: dict[str, Any] = {self.input_name: self.values}
        for k, name in enumerate(self.channels.output_names):
            for what in ("outputs", "outputs_low", "outputs_high"):
                label = name + what.removeprefix("outputs").replace("_", " ")
                columns[label] = getattr(self, what)[:, k]
            for what in ("gain", "gain_low", "gain_high"):
                columns[f"{what.replace('_', ' ')} of {name}"] = getattr(self, what)[
                    :, k
                ]
        return pd.DataFrame(columns)


def static_curve(
    fitted: FittedModel,
    input_name: str | None = None,
    *,
    over: tuple[float, float] | None = None,
    points: int = POINTS,
    at: Any = None,
    draws: int = DRAWS,
    seed: int = 0,
) -> StaticCurve:
    """Return outputs at rest over one input; see `Estimator.static_gain`."""
    channels, scaling = fitted.channels, fitted.scaling
    k = _input_number(channels, input_name)
    inputs = operating_inputs(fitted, at)
    whole("points", points, 2, 10_000)
    values = np.linspace(*_ends_of_input(fitted, k, over), points)
    waiting = steps_of(fitted, per_member(draws, len(fitted)), seed)
    slope_unit = scaling.y_std / scaling.u_std[k]
    rows = []
    for value in values:
        here = inputs.copy()
        here[k] = value
        v = scaling.scale_u(here)
        members, pool = [], []
        states = rests(waiting, v, channels, here)
        for step, x, drawn in zip(waiting.members, states, waiting.draws, strict=True):
            members.append(_static(step, x, v, k))
            pool.append(members[-1])
            for other in drawn:
                there = newton(other, x, v)
                if there is not None:
                    near = _static(other, there, v, k)
                    pool.append(extrapolated(members[-1], near))
        rows.append([np.median(members, axis=0), *ends(np.array(pool))])
    # (point, centre and ends, output and slope, channel)
    table = np.array(rows)
    y = scaling.unscale_y(table[:, :, 0])
    g = table[:, :, 1] * slope_unit
    return StaticCurve(
        channels.input_names[k],
        values,
        y[:, 0],
        y[:, 1],
        y[:, 2],
        g[:, 0],
        g[:, 1],
        g[:, 2],
        inputs,
        channels,
    )


def _static(step: Step, x: Values, v: Values, k: int) -> Values:
    """Return outputs at rest, and their slopes by input ``k``."""
    A, B, C, D = step.derivatives(x, v)
    slope = D[:, k] + C @ solved(np.eye(len(x)) - A, B[:, k])
    return np.array([step.emit(x, v), slope])


def _input_number(channels: Channels, name: str | None) -> int:
    names = channels.input_names
    if name is None and len(names) == 1:
        return 0
    if name not in names:
        raise InputError(
            f"input_name={name!r}: choose the input that moves, one of "
            f"{', '.join(names) or 'none: the model has no inputs'}"
        )
    return names.index(name)


def _ends_of_input(
    fitted: FittedModel, k: int, over: tuple[float, float] | None
) -> tuple[float, float]:
    """Return the ends of the curve: by default where the records were."""
    if over is None:
        known = fitted.details.get("range")
        if known:
            low, high = known["inputs"][k]
            return float(low), float(high)
        mean, std = fitted.scaling.u_mean[k], fitted.scaling.u_std[k]
        return float(mean - 2.0 * std), float(mean + 2.0 * std)
    low, high = (finite(v) for v in over)
    if not low < high:
        raise InputError(f"over={over!r}: give the lower end first, then the higher")
    return low, high
