"""Equations: what is written is what runs."""

import math
import re

import numpy as np
import pytest
import sympy
from small_simulators import STRUCTURES, made, made_narx

from sparsid import InputError, Record
from sparsid.models.canonical import Structure
from sparsid.results.equations import (
    canonical_equations,
    equations,
    held_deviations,
    start_state,
)
from sparsid.results.formulas import rounded

NAMES = {name: getattr(math, name) for name in ("tanh", "sqrt", "log", "exp")} | {
    "min": min,
    "max": max,
    "Min": min,
    "Max": max,
}


def evaluated(lines: str, start: list[str], u: np.ndarray, inputs: list[str]):
    """Evaluate text line by line, sample by sample, as it stands."""
    now = {f"x{k + 1}": float(v) for k, v in enumerate(start)}
    found = []
    for t in range(len(u)):

        def value(match: re.Match[str], t: int = t, now: dict = now) -> str:
            name, ago = match[1], int(match[2] or 0)
            if name in inputs:
                return repr(float(u[max(t + ago, 0), inputs.index(name)]))
            return f"({now[name]!r})"

        following, outputs = {}, []
        for line in lines.splitlines():
            target, right = line.split(" = ", 1)
            numbers = re.sub(r"(\w+)\(t([+-]\d+)?\)", value, right)
            result = eval(numbers, {"__builtins__": {}}, NAMES)
            name = target.split("(")[0]
            if target.endswith("(t+1)"):
                following[name] = result
            else:
                now[name] = result
                if name.startswith("level"):
                    outputs.append(result)
        now |= following
        found.append(outputs)
    return np.array(found)


def inputs_of(model, samples: int = 60) -> np.ndarray:
    scaling = model.fitted_.scaling
    u = np.random.default_rng(1).normal(size=(samples, len(scaling.u_mean)))
    return u * scaling.u_std + scaling.u_mean


def plain(model) -> list[str]:
    return [name.replace(" ", "_") for name in model.fitted_.channels.input_names]


@pytest.mark.parametrize("name", STRUCTURES)
def test_with_all_digits_equations_are_the_simulation(name) -> None:
    model = made(name)
    u = inputs_of(model)
    start = start_state(model.fitted_, None)
    found = evaluated(model.equations(digits=None), start, u, plain(model))
    wanted = model.simulate(u, samples=0).mean
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)


def rounded_run(model, u: np.ndarray) -> np.ndarray:
    """The kernel with the matrices that the rounded equations have."""
    fitted = model.fitted_
    structure, scaling = fitted.members[0].structure, fitted.scaling
    sizes = structure.sizes
    M = {key: np.zeros(shape) for key, shape in sizes.shapes.items()}
    # Channels keep the data's units here: deviations from the printed means.
    made_from = {"x": "ACF", "v": "BDH", "n": "EG"}
    row_of = {"x": "ABE", "n": "FH"}
    bounds = structure.bounds.copy()
    means, level = np.zeros(sizes.inputs), 0
    for e in canonical_equations(fitted, "auto", 0):
        head, k = e.target.name[0], int(re.sub(r"\D", "", e.target.name)) - 1
        if head == "v":
            means[k] = -float(e.constant)
            continue
        if head in row_of:
            letters, row = row_of[head], k
        else:
            letters, row = "CDG", level
            level += 1
        for factor, signal in e.terms:
            own = made_from[signal.name[0]]
            matrix = next(m for m in letters if m in own)
            M[matrix][row, int(signal.name[1:]) - 1] = float(factor)
        constant = next(m for m in letters if m in "BHD")
        M[constant][row, -1] = float(e.constant)
        at = {"x": row}.get(head, sizes.states + row)
        if head != "n":
            bounds[:, at] = (
                -np.inf if e.low is None else float(e.low),
                np.inf if e.high is None else float(e.high),
            )
    fixed = np.concatenate([m.ravel() for m in M.values()])
    by_hand = Structure(
        "by hand",
        sizes,
        (),
        fixed,
        (),
        np.zeros(0),
        structure.kinds,
        structure.limits,
        bounds,
    )
    late = fitted.delayed(u)
    late[:, :-1] = late[:, :-1] * scaling.u_std + scaling.u_mean - means
    start = np.array([float(x) for x in start_state(fitted)])
    return by_hand.run(np.zeros(0), start, late)[0]


@pytest.mark.parametrize("name", STRUCTURES)
def test_rounded_equations_run_as_a_model_with_the_same_numbers(name) -> None:
    model = made(name)
    u = inputs_of(model)
    found = evaluated(model.equations(), start_state(model.fitted_), u, plain(model))
    np.testing.assert_allclose(found, rounded_run(model, u), rtol=1e-9, atol=1e-9)
    # And they lose less than the data can tell.
    forecast = model.simulate(u)
    assert (np.abs(found - forecast.mean) < 0.3 * forecast.model_std).all()


@pytest.mark.parametrize("name", ["linear first", "cascade"])
def test_sympy_reads_every_line(name) -> None:
    model = made(name, names=("S", "lambda"))
    u = inputs_of(model, 3)
    text, ready = model.equations(), model.equations("sympy")
    inputs = ["signal_S", "signal_lambda"]
    start = start_state(model.fitted_)
    wanted = evaluated(text, start, u, inputs)[0]
    values = {sympy.Symbol(f"x{k + 1}"): float(x) for k, x in enumerate(start)}
    values |= {sympy.Symbol("signal_S"): u[0, 0]}
    values |= {sympy.Symbol("signal_lambda_3"): u[0, 1]}
    found = []
    for line in ready.splitlines():
        target, right = line.split(" = ", 1)
        result = sympy.sympify(right).subs(values)
        assert result.is_number, line
        if not target.endswith("_next"):
            values[sympy.Symbol(target)] = float(result)
        if target.startswith("level"):
            found.append(float(result))
    np.testing.assert_allclose(found, wanted, rtol=1e-9)


def test_latex_has_balanced_braces_and_escaped_names() -> None:
    text = made("linear first").equations("latex")
    assert text.count("{") == text.count("}")
    assert "\\mathrm{pump\\_0}" in text
    assert text.count("\\left") == text.count("\\right")


@pytest.mark.parametrize("activation", ["tanh", "sigmoid", "softroot", "relu"])
@pytest.mark.parametrize("linear_path", [False, True])
def test_equations_of_a_network_are_its_predictions(activation, linear_path) -> None:
    model = made_narx(linear_path, activation)
    rng = np.random.default_rng(2)
    u, y = rng.normal(size=(12, 2)), rng.normal(size=(12, 2))
    record = Record(
        u, y, 1.0, input_names=["a", "b"], output_names=["level 0", "level 1"]
    )
    wanted = model.predict(record).mean
    text = model.equations(digits=None)
    signals = {"a": u[:, 0], "b": u[:, 1], "level_0": y[:, 0], "level_1": y[:, 1]}
    for t in range(2, 12):
        now: dict[str, float] = {}

        def value(match: re.Match[str], t: int = t, now: object = now) -> str:
            if match[1] in signals:
                return repr(float(signals[match[1]][t + int(match[2] or 0)]))
            return f"({now[match[1]]!r})"  # type: ignore[index]

        for line in text.splitlines():
            target, right = line.split(" = ", 1)
            numbers = re.sub(r"(\w+)\(t([+-]\d+)?\)", value, right)
            result = eval(numbers, {"__builtins__": {}}, NAMES)
            now[target.removesuffix("(t)")] = result
        found = [now["level_0"], now["level_1"]]
        np.testing.assert_allclose(found, wanted[t], rtol=1e-9)
    assert len(model.equations().splitlines()) == len(text.splitlines())


def test_held_deviations_are_those_of_the_precision() -> None:
    rng = np.random.default_rng(0)
    root = rng.normal(size=(6, 6))
    C = root @ root.T
    expected = 1.0 / np.sqrt(np.diagonal(np.linalg.inv(C)))
    np.testing.assert_allclose(held_deviations(C), expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("value", "std", "text"),
    [
        (0.123456, 0.034, "0.123"),
        (0.123456, 0.0034, "0.1235"),
        (1234.56, 340.0, "1230"),
        (-0.002, 0.4, "0"),
        (1.23456e-7, 3.4e-9, "1.235e-07"),
        (2.0, np.inf, "2.0"),
    ],
)
def test_numbers_end_with_the_second_digit_of_their_deviation(value, std, text) -> None:
    assert rounded(value, std, "auto") == text


def test_what_cannot_be_written_is_refused() -> None:
    model = made("linear")
    with pytest.raises(InputError, match="kind='html'"):
        model.equations("html")
    with pytest.raises(InputError, match="digits=0"):
        model.equations(digits=0)
    with pytest.raises(IndexError):
        equations(model.fitted_, member=3)
