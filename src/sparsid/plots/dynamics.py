"""Linear models around operating points: Bode, steps, poles, static curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sparsid.analysis.linear_texts import SMALLEST_POLE
from sparsid.analysis.linearisation import Linearisation
from sparsid.analysis.static_curve import StaticCurve
from sparsid.errors import InputError
from sparsid.plots.style import (
    GREY,
    SERIES,
    new_axes,
    plain_frame,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# One linear model, or several by name.
Given = Linearisation | Mapping[str, Linearisation]

# Damping ratios with a line in the z plane.
DAMPINGS = (0.2, 0.4, 0.6, 0.8)
# Around the poles, in the z plane: at least so much is shown.
FEWEST_SHOWN = 0.12


def bode(
    given: Given,
    axes: Any = None,
    input_name: str | None = None,
    output_name: str | None = None,
    w: Any = None,
) -> Any:
    """Return two axes with gain and phase over frequency, with 90 % bands.

    Parameters
    ----------
    given
        What `linearise` returns, or several by name.
    axes
        Where to draw, gain first; by default a figure of their own.
    input_name, output_name
        Which pair; by default the first of each.
    w
        Frequencies in rad/s.
    """
    models = _named(given)
    upper, lower = _two_axes() if axes is None else axes
    if w is None and len({model.dt for model in models.values()}) == 1:
        # One range for all: the widest.
        w = min((m.frequency_response().w for m in models.values()), key=lambda v: v[0])
    for k, (name, model) in enumerate(models.items()):
        i, j = _pair(model, input_name, output_name)
        found = model.frequency_response(w)
        for ax, values, low, high in (
            (upper, found.magnitude, found.magnitude_low, found.magnitude_high),
            (lower, found.phase, found.phase_low, found.phase_high),
        ):
            _banded(ax, found.w, values[:, i, j], low[:, i, j], high[:, i, j], k)
        upper.lines[-1].set_label(name)
    first = next(iter(models.values()))
    i, j = _pair(first, input_name, output_name)
    names = first.channels
    # An input that nothing follows from has no gain to show on a logarithmic axis.
    felt = any((np.asarray(line.get_ydata()) > 0.0).any() for line in upper.lines)
    upper.set(xscale="log", yscale="log" if felt else "linear")
    lower.set(xscale="log")
    upper.set_ylabel(f"gain{_in_unit(first.gain_unit(i, j))}")
    lower.set_ylabel("phase [deg]")
    lower.set_xlabel("frequency [rad/s]")
    upper.set_title(
        f"from {names.input_names[j]} to {names.output_names[i]}", loc="left"
    )
    _legend(upper, models)
    for ax in (upper, lower):
        ax.margins(x=0)
        plain_frame(ax)
    return upper, lower


def step_response(
    given: Given,
    ax: Axes | None = None,
    input_name: str | None = None,
    output_name: str | None = None,
    samples: int | None = None,
) -> Axes:
    """Return axes with what an output does after an input rises by one, with 90 % band.

    Parameters
    ----------
    given, input_name, output_name
        As for `bode`.
    ax
        Where to draw; by default a figure of its own.
    samples
        By default until the slowest motion has settled.
    """
    models = _named(given)
    ax = new_axes() if ax is None else ax
    if samples is None:
        samples = max(model.settling_samples for model in models.values())
    for k, (name, model) in enumerate(models.items()):
        i, j = _pair(model, input_name, output_name)
        found = model.step_response(samples)
        mean, low, high = (v[:, i, j] for v in (found.response, found.low, found.high))
        _banded(ax, found.time, mean, low, high, k)
        ax.lines[-1].set_label(name)
        gain = float(model.gain.value[i, j])
        if np.isfinite(gain):
            ax.axhline(gain, color=SERIES[k % len(SERIES)][0], lw=0.8, ls=":")
    first = next(iter(models.values()))
    i, j = _pair(first, input_name, output_name)
    names = first.channels
    output, given_name = names.output_names[i], names.input_names[j]
    unit, input_unit = names.output_units[i], names.input_units[j]
    ax.axhline(0.0, color=GREY, lw=0.8)
    ax.set_xlabel("time [s]")
    ax.set_ylabel(f"change of {output}{_in_unit(unit)}")
    rise = f"1 {input_unit}".rstrip()
    ax.set_title(f"{output} after {given_name} rises by {rise}", loc="left")
    # Away from where the responses end.
    falls = float(first.step_response(samples).response[-1, i, j]) < 0.0
    _legend(ax, models, "upper right" if falls else "lower right")
    ax.margins(x=0)
    plain_frame(ax)
    return ax


def poles(given: Given, ax: Axes | None = None) -> Axes:
    """Return axes with poles in the z plane, and where members and draws have them.

    Crosses are the poles, dots those of all members and draws. Fine lines are of equal
    damping.

    Parameters
    ----------
    given
        As for `bode`.
    ax
        Where to draw; by default a figure of its own.
    """
    models = _named(given)
    ax = _square_axes() if ax is None else ax
    angle = np.linspace(0.0, 2.0 * np.pi, 361)
    ax.plot(np.cos(angle), np.sin(angle), color=GREY, lw=1.0)
    for zeta in DAMPINGS:
        turn = np.linspace(0.0, np.pi, 200)
        z = np.exp(turn * (1j - zeta / np.sqrt(1.0 - zeta**2)))
        for side in (1.0, -1.0):
            ax.plot(z.real, side * z.imag, color=GREY, lw=0.5, ls=":")
    shown = []
    for k, (name, model) in enumerate(models.items()):
        colour = SERIES[k % len(SERIES)][0]
        own = model.poles.value
        real = np.abs(own) > SMALLEST_POLE
        cloud = model.pole_cloud[:, real].ravel()
        ax.plot(cloud.real, cloud.imag, ".", color=colour, ms=5, alpha=0.3, mew=0)
        own = own[real]
        ax.plot(own.real, own.imag, "x", color=colour, ms=7, mew=1.6, label=name)
        shown.append(own)
    _show_poles(ax, np.concatenate(shown))
    ax.set_xlabel("real part")
    ax.set_ylabel("imaginary part")
    ax.set_title("poles in the z plane", loc="left")
    _legend(ax, models)
    plain_frame(ax)
    return ax


def static_gain(
    curve: StaticCurve, ax: Axes | None = None, output_name: str | None = None
) -> Axes:
    """Return axes with an output at rest over an input, with 90 % band.

    Parameters
    ----------
    curve
        What `static_gain` returns.
    ax
        Where to draw; by default a figure of its own.
    output_name
        By default the first.
    """
    ax = new_axes() if ax is None else ax
    names = curve.channels
    k = _number(names.output_names, output_name, "output")
    low, high = curve.outputs_low[:, k], curve.outputs_high[:, k]
    _banded(ax, curve.values, curve.outputs[:, k], low, high, 0)
    j = names.input_names.index(curve.input_name)
    ax.set_xlabel(f"{curve.input_name}{_in_unit(names.input_units[j])}")
    ax.set_ylabel(f"{names.output_names[k]}{_in_unit(names.output_units[k])}")
    slope = curve.gain[:, k]
    ends = f"from {slope.min():.3g} to {slope.max():.3g}"
    ax.set_title(f"at rest; gain {ends}", loc="left")
    ax.margins(x=0)
    plain_frame(ax)
    return ax


# -- pieces ----------------------------------------------------------------------------


def _named(given: Given) -> dict[str, Linearisation]:
    """Return linear models by name; one alone has none."""
    if isinstance(given, Linearisation):
        return {"": given}
    if not isinstance(given, Mapping) or not given:
        raise InputError(
            f"a {type(given).__name__} was given: give what linearise returns, or "
            "several by name, as in {'low': ..., 'high': ...}"
        )
    return dict(given)


def _pair(
    model: Linearisation, input_name: str | None, output_name: str | None
) -> tuple[int, int]:
    """Return numbers of output and input."""
    names = model.channels
    return (
        _number(names.output_names, output_name, "output"),
        _number(names.input_names, input_name, "input"),
    )


def _number(names: Sequence[str], name: str | None, what: str) -> int:
    if not names:
        raise InputError(f"the model has no {what}s: there is no response to draw")
    if name is None:
        return 0
    if name not in names:
        raise InputError(
            f"{what}_name={name!r} is not known: choose one of {', '.join(names)}"
        )
    return list(names).index(name)


def _banded(ax: Axes, x: Any, middle: Any, low: Any, high: Any, k: int) -> None:
    """Draw a line and the band around it, in the colour of number ``k``."""
    colour, style = SERIES[k % len(SERIES)]
    ax.fill_between(x, low, high, color=colour, alpha=0.2, lw=0)
    ax.plot(x, middle, color=colour, ls=style, lw=1.6)


def _legend(ax: Axes, models: Mapping[str, Any], loc: Any = "best") -> None:
    if list(models) != [""]:
        ax.legend(frameon=False, loc=loc)


def _in_unit(unit: str) -> str:
    return f" [{unit}]" if unit else ""


def _two_axes() -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.0, 5.5), dpi=130, layout="constrained")
    return figure.subplots(2, 1, sharex=True)


def _square_axes() -> Axes:
    from matplotlib.figure import Figure

    made: Any = Figure(figsize=(5.5, 5.0), dpi=130, layout="constrained").subplots()
    return made  # type: ignore[no-any-return]


def _show_poles(ax: Axes, found: Any) -> None:
    """Show all poles, as near as they allow, and the part of the circle at them."""
    if not found.size:
        found = np.zeros(1)
    points = np.concatenate([found, found.conj(), [1.0]])
    low, high = float(points.real.min()), float(points.real.max())
    top = float(np.abs(points.imag).max())
    half = max(0.6 * (high - low), 1.2 * top, FEWEST_SHOWN)
    middle = 0.5 * (low + high)
    ax.set_xlim(middle - half, middle + half)
    ax.set_ylim(-half, half)
    ax.set_aspect("equal")
