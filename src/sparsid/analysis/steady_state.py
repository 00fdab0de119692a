"""Where a model comes to rest when its inputs are held."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsid.analysis.spread import (
    DRAWS,
    ends,
    extrapolated,
    named_values,
    per_member,
    spread_text,
)
from sparsid.analysis.step import Step
from sparsid.analysis.steps import Waiting, steps_of
from sparsid.errors import InputError
from sparsid.results.base import FittedModel
from sparsid.results.channels import Channels

Values = NDArray[np.float64]

# Newton steps, and how close to rest is at rest.
NEWTON_STEPS, AT_REST = 50, 1e-9
# Samples with inputs held before Newton's method, each tried if the last led nowhere.
HELD = (200, 2_000, 20_000)


@dataclass(frozen=True, eq=False)
class SteadyState:
    """Where a model comes to rest.

    Attributes
    ----------
    inputs, outputs
        In the data's units; outputs are the median over members.
    low, high
        Ends of the outputs: 90 % of members and draws of their parameters lie between.
    states
        Of every member, (member, state), in its own coordinates; zero where it has
        fewer states than others.
    stable
        Whether a small push away from it dies out, for most members.
    """

    inputs: Values
    outputs: Values
    low: Values
    high: Values
    states: Values
    stable: bool
    channels: Channels

    def __str__(self) -> str:
        names = self.channels
        given = named_values(self.inputs, names.input_names, names.input_units)
        texts = [
            f"{name} {spread_text(value, low, high, unit)}"
            for name, unit, value, low, high in zip(
                names.output_names,
                names.output_units,
                self.outputs.tolist(),
                self.low.tolist(),
                self.high.tolist(),
                strict=True,
            )
        ]
        text = f"{given or 'no inputs'} -> {', '.join(texts)}"
        return text if self.stable else f"{text}, unstable"


def steady_state(
    fitted: FittedModel, u: Any = None, *, draws: int = DRAWS, seed: int = 0
) -> SteadyState:
    """Return where a model comes to rest with its inputs held at ``u``.

    See `Estimator.steady_state`.
    """
    channels = fitted.channels
    inputs = operating_inputs(fitted, u)
    waiting = steps_of(fitted, per_member(draws, len(fitted)), seed)
    v = fitted.scaling.scale_u(inputs)
    states = rests(waiting, v, channels, inputs)
    found = [step.emit(x, v) for step, x in zip(waiting.members, states, strict=True)]
    pool = list(found)
    for x, own, drawn in zip(states, found, waiting.draws, strict=True):
        for step in drawn:
            here = newton(step, x, v)
            if here is not None:
                pool.append(extrapolated(own, step.emit(here, v)))
    low, high = ends(np.array(pool))
    stable = [
        is_stable(step, x, v) for step, x in zip(waiting.members, states, strict=True)
    ]
    unscale = fitted.scaling.unscale_y
    return SteadyState(
        inputs,
        unscale(np.median(found, axis=0)),
        unscale(low),
        unscale(high),
        of_one_length(states),
        bool(np.mean(stable) >= 0.5),
        channels,
    )


def rests(
    waiting: Waiting, v: Values, channels: Channels, inputs: Values
) -> list[Values]:
    """Return the state of rest of every member, or say that there is none."""
    found = [rest(step, v) for step in waiting.members]
    lost = [k for k, x in enumerate(found) if x is None]
    if lost:
        given = named_values(inputs, channels.input_names, channels.input_units)
        raise InputError(
            f"no steady state was found for {given or 'no inputs'}: "
            f"{len(lost)} of {len(found)} members keep moving or drift, as an "
            "integrator does; give other inputs, or states too: "
            "linearise(at=..., states=...)"
        )
    return [x for x in found if x is not None]


def of_one_length(states: Sequence[Values]) -> Values:
    """Return the states of all members, (member, state).

    Pruned members may have fewer states than others: what they lack is zero.
    """
    most = max(len(x) for x in states)
    return np.array([np.pad(x, (0, most - len(x))) for x in states])


def rest(step: Step, v: Values) -> Values | None:
    """Return the state at which a member rests with inputs ``v``; None: not found.

    The inputs are held for some samples, and Newton's method does the rest. A rest that
    is stable is preferred.
    """
    x, unstable = step.rest(), None
    for first, stop in zip((0, *HELD), HELD, strict=False):
        # One that runs away is seen by its values.
        with np.errstate(over="ignore", invalid="ignore"):
            x = step.run(x, v, stop - first)
        if not np.isfinite(x).all():
            break
        found = newton(step, x, v)
        if found is not None:
            if is_stable(step, found, v):
                return found
            unstable = found if unstable is None else unstable
    return unstable


def newton(step: Step, x: Values, v: Values) -> Values | None:
    """Return the solution of ``x = f(x, v)`` near ``x``, None if it is not found."""
    gap = step.advance(x, v) - x
    # As states usually are: far away, where nothing holds an integrator back, a drift
    # is small beside the state.
    near = AT_REST * (1.0 + np.abs(step.rest()).max(initial=0.0))
    for _ in range(NEWTON_STEPS):
        size = np.abs(gap).max(initial=0.0)
        if size <= near:
            return x
        A = step.derivatives(x, v)[0]
        move = solved(np.eye(len(x)) - A, gap)
        share = 1.0
        while share > 1e-4:
            there = x + share * move
            rest_of_it = step.advance(there, v) - there
            if np.abs(rest_of_it).max(initial=0.0) < size:
                break
            share *= 0.5
        else:
            return None
        x, gap = there, rest_of_it
    return None


def solved(M: Values, b: Values) -> Values:
    """Return the solution, the least one where an integrator leaves it open."""
    try:
        return np.asarray(np.linalg.solve(M, b))
    except np.linalg.LinAlgError:
        return np.asarray(np.linalg.lstsq(M, b)[0])


def is_stable(step: Step, x: Values, v: Values) -> bool:
    """Return whether a small push away from a state of rest dies out."""
    A = step.derivatives(x, v)[0]
    return bool(np.abs(np.linalg.eigvals(A)).max(initial=0.0) < 1.0)


def operating_inputs(fitted: FittedModel, at: Any) -> Values:
    """Return one value for each input, in its unit.

    None are the means of the estimation records. A mapping by name may leave inputs
    out: they have their means.
    """
    channels, means = fitted.channels, np.array(fitted.scaling.u_mean)
    if isinstance(at, SteadyState):
        return at.inputs.copy()
    if at is None:
        return means
    if isinstance(at, Mapping):
        for name, value in at.items():
            if name not in channels.input_names:
                raise InputError(
                    f"{name!r} is no input of the model: choose from "
                    f"{', '.join(channels.input_names) or 'none, it has no inputs'}"
                )
            means[channels.input_names.index(name)] = finite(value)
        return means
    try:
        values = np.atleast_1d(np.asarray(at, dtype=float))
    except (TypeError, ValueError) as error:
        raise InputError(f"inputs {at!r} are no numbers: give one for each") from error
    if values.shape != (channels.n_inputs,) or not np.isfinite(values).all():
        raise InputError(
            f"inputs of shape {np.shape(at)} were given but {channels.n_inputs} "
            f"numbers are needed: {', '.join(channels.input_names) or 'none'}"
        )
    return values


def finite(value: Any) -> float:
    """Return a value that is a finite number, or say that it is none."""
    if isinstance(value, numbers.Real) and math.isfinite(value):
        return float(value)
    raise InputError(f"an input is {value!r}: give a finite number")
