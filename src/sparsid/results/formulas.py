"""Equations as data, and how they are written: plain text, LaTeX, SymPy."""

from __future__ import annotations

import keyword
import math
import re
from dataclasses import dataclass

Digits = str | int | None

# Names that a channel must not have in an equation: ours, and those SymPy knows.
OURS = re.compile(r"[xnvh]\d+(_\d+)?")
FUNCTIONS = ("exp", "log", "sqrt", "tanh", "min", "max", "Min", "Max")
CONSTANTS = ("pi", "beta", "gamma", "zeta", "oo", "zoo", "nan", *"SINEOQCt")
TAKEN = frozenset([*keyword.kwlist, *FUNCTIONS, *CONSTANTS])
# Width of the rounded corner of a modulus, and its square.
CORNER, CORNER_SQUARED = "0.05", "0.0025"


@dataclass(frozen=True)
class Signal:
    """A signal at a sample: ``ago`` 3 is t - 3, -1 is t + 1."""

    name: str
    ago: int = 0


@dataclass(frozen=True)
class Equation:
    """``target = hold(function(constant + sum of factor * signal))``.

    Numbers are texts: what is written is what runs.

    Parameters
    ----------
    limit
        Where the argument of a polynomial is held.
    low, high
        Where the result is held; None: nowhere.
    """

    target: Signal
    constant: str
    terms: tuple[tuple[str, Signal], ...]
    function: str = ""
    limit: str = ""
    low: str | None = None
    high: str | None = None


def rounded(value: float, std: float, digits: str | int | None) -> str:
    """Return a number as text.

    Parameters
    ----------
    std
        Its uncertainty; with ``digits="auto"`` the text ends with the second digit of
        that.
    digits
        Or so many significant digits; None: all there are.
    """
    if digits is None or not math.isfinite(value):
        return repr(float(value))
    if digits == "auto":
        if not (math.isfinite(std) and std > 0.0):
            return repr(float(value))
        place = 1 - math.floor(math.log10(std))
        shown = round(value, place)
        if shown == 0.0:
            return "0"
        if place <= 0:
            return f"{shown:.0f}" if abs(shown) < 1e15 else repr(shown)
        text = f"{shown:.{place}f}" if place <= 12 else f"{shown:.15g}"
        if abs(shown) < 1e-4:
            text = f"{shown:.{max(place + math.floor(math.log10(abs(shown))), 0)}e}"
        return text
    return f"{value:.{digits}g}"


def plain_name(name: str, taken: set[str]) -> str:
    """Return a name that can stand in an equation, and that no other signal has."""
    found = re.sub(r"\W+", "_", name).strip("_") or "signal"
    if found[0].isdigit() or found in TAKEN or OURS.fullmatch(found):
        found = f"signal_{found}"
    while found in taken:
        found += "_"
    taken.add(found)
    return found


# -- writing ---------------------------------------------------------------------------


def as_text(equations: list[Equation]) -> str:
    """Return one line for each equation, as in ``x1(t+1) = 0.9*x1(t) + ...``."""
    return "\n".join(
        f"{_timed(e.target)} = {_right_side(e, _timed, 'min', 'max')}"
        for e in equations
    )


def as_sympy(equations: list[Equation]) -> str:
    """Return one line for each equation, ``name = expression``.

    ``sympy.sympify`` reads every expression: ``x1_next`` is x1 at t + 1, ``flow_3`` is
    flow at t - 3.
    """
    return "\n".join(
        f"{_bare(e.target)} = {_right_side(e, _bare, 'Min', 'Max')}" for e in equations
    )


def as_latex(equations: list[Equation]) -> str:
    """Return the equations aligned, for a LaTeX document with amsmath."""
    lines = [f"{_latex(e.target)} &= {_latex_side(e)}" for e in equations]
    return "\\begin{aligned}\n" + " \\\\\n".join(lines) + "\n\\end{aligned}"


WRITERS = {"text": as_text, "latex": as_latex, "sympy": as_sympy}


def _timed(signal: Signal) -> str:
    if signal.ago == 0:
        return f"{signal.name}(t)"
    sign = "+" if signal.ago < 0 else "-"
    return f"{signal.name}(t{sign}{abs(signal.ago)})"


def _bare(signal: Signal) -> str:
    if signal.ago == 0:
        return signal.name
    return f"{signal.name}_next" if signal.ago < 0 else f"{signal.name}_{signal.ago}"


def _sum(e: Equation, written: dict[Signal, str], times: str) -> str:
    parts = [f"{factor}{times}{written[s]}" for factor, s in e.terms]
    parts = [p.removeprefix(f"1{times}") for p in parts]
    if float(e.constant) != 0.0 or not parts:
        parts.append(e.constant)
    return " + ".join(parts).replace("+ -", "- ")


def _right_side(e: Equation, name: object, low: str, high: str) -> str:
    assert callable(name)
    z = _sum(e, {s: name(s) for _, s in e.terms}, "*")
    held = f"{low}({high}({z}, -{e.limit}), {e.limit})"
    forms = {
        "": z,
        "tanh": f"tanh({z})",
        "softroot": f"sqrt(1 + log(1 + exp({z}))) - 1",
        "sigmoid": f"1/(1 + exp(-({z})))",
        "relu": f"{high}({z}, 0)",
        "square": f"{held}**2",
        "cube": f"{held}**3",
        "modulus": f"sqrt(({z})**2 + {CORNER_SQUARED}) - {CORNER}",
    }
    value = forms[e.function]
    if e.low is not None:
        value = f"{high}({value}, {e.low})"
    return value if e.high is None else f"{low}({value}, {e.high})"


def _latex(signal: Signal) -> str:
    ours = re.fullmatch(r"([xnvh])(\d+)(?:_(\d+))?", signal.name)
    if ours:
        index = ours[2] + (f",{ours[3]}" if ours[3] else "")
        name = f"{ours[1]}_{{{index}}}"
    else:
        name = "\\mathrm{" + signal.name.replace("_", "\\_") + "}"
    ago = signal.ago
    when = "t" if ago == 0 else f"t{'+' if ago < 0 else '-'}{abs(ago)}"
    return f"{name}({when})"


def _latex_number(text: str) -> str:
    mantissa, _, exponent = text.partition("e")
    return f"{mantissa} \\cdot 10^{{{int(exponent)}}}" if exponent else text


def _latex_side(e: Equation) -> str:
    numbers = tuple((_latex_number(f), s) for f, s in e.terms)
    parts = [f"{f}\\,{_latex(s)}".removeprefix("1\\,") for f, s in numbers]
    if float(e.constant) != 0.0 or not parts:
        parts.append(_latex_number(e.constant))
    z = " + ".join(parts).replace("+ -", "- ")
    inside = f"\\left({z}\\right)"
    held = f"\\min\\left(\\max\\left({z}, -{e.limit}\\right), {e.limit}\\right)"
    forms = {
        "": z,
        "tanh": f"\\tanh{inside}",
        "softroot": f"\\sqrt{{1 + \\log\\left(1 + \\exp{inside}\\right)}} - 1",
        "sigmoid": f"\\frac{{1}}{{1 + \\exp\\left(-{inside}\\right)}}",
        "relu": f"\\max\\left({z}, 0\\right)",
        "square": f"{held}^2",
        "cube": f"{held}^3",
        "modulus": f"\\sqrt{{{inside}^2 + {CORNER_SQUARED}}} - {CORNER}",
    }
    value = forms[e.function]
    if e.low is not None:
        value = f"\\max\\left({value}, {_latex_number(e.low)}\\right)"
    if e.high is not None:
        value = f"\\min\\left({value}, {_latex_number(e.high)}\\right)"
    return value
