"""What was identified, as difference equations in the data's units.

Numbers are rounded to what the data support: a number ends with the second digit of its
standard deviation if all others are held. (That a state can be scaled at will makes the
deviation of its weights large, but not together with all others: rounding one of them
alone would do harm.)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsid.errors import InputError
from sparsid.kernel.activations import NAMES
from sparsid.results.base import FittedModel
from sparsid.results.formulas import (
    WRITERS,
    Digits,
    Equation,
    Signal,
    plain_name,
    rounded,
)
from sparsid.results.narx import Fitted
from sparsid.results.simulator import FittedSimulator
from sparsid.results.simulator_member import SimulatorMember

Values = NDArray[np.float64]

# Means and bounds are no estimates: they are written up to this share of the deviation
# of their channel.
CONVENTION = 1e-4


def equations(
    fitted: FittedModel, kind: str = "text", digits: Digits = "auto", member: int = 0
) -> str:
    """Return the equations of a member as text, LaTeX or SymPy-ready lines.

    Parameters
    ----------
    kind
        ``"text"``, ``"latex"`` or ``"sympy"``.
    digits
        ``"auto"``: what the uncertainty of a number supports; or so many significant
        ones; None: all.
    member
        Which member of an ensemble.
    """
    if kind not in WRITERS:
        known = ", ".join(repr(k) for k in WRITERS)
        raise InputError(f"kind={kind!r}: give one of {known}")
    if digits not in ("auto", None) and not (
        isinstance(digits, int) and 1 <= digits <= 17
    ):
        raise InputError(f"digits={digits!r}: give 'auto', None, or 1 to 17")
    return WRITERS[kind](fitted.written(digits, member))


# -- the canonical form ----------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Entries:
    """Entries of the matrices with the deviation of each if all others are held."""

    matrices: dict[str, Values]
    deviations: dict[str, Values]

    @staticmethod
    def of(member: SimulatorMember) -> _Entries:
        """Return those of a member; infinite where nothing moves an entry."""
        structure, sizes = member.structure, member.structure.sizes
        alone = held_deviations(member.covariance)
        stds = np.full(sizes.offsets[""], np.inf)
        rows, weights, ends = structure.table(member.theta)
        matrices = list(sizes.shapes)
        for k, ((i, j, p), weight) in enumerate(zip(rows, weights, strict=True)):
            name = matrices[int(np.searchsorted(ends, k, side="right"))]
            at = sizes.at(name, int(i), int(j))
            stds[at] = min(stds[at], abs(weight) * alone[p])
        split = {
            name: stds[sizes.offsets[name] :][: shape[0] * shape[1]].reshape(shape)
            for name, shape in sizes.shapes.items()
        }
        return _Entries(structure.named(member.theta), split)


def held_deviations(covariance: Values) -> Values:
    """Return the deviation of each parameter if all others are held."""
    # In units of their deviations, so that small ones are no rounding errors.
    scale = np.sqrt(np.maximum(np.diagonal(covariance), 1e-300))
    values, vectors = np.linalg.eigh(covariance / np.outer(scale, scale))
    precision = (vectors**2 / np.maximum(values, 1e-14)).sum(axis=1)
    return np.asarray(scale / np.sqrt(precision))


def canonical_equations(
    fitted: FittedSimulator, digits: Digits, number: int
) -> list[Equation]:
    """Return inputs, neurons, states, outputs, and the states at the start."""
    member = fitted.members[range(len(fitted))[number]]
    sizes = member.structure.sizes
    entries, scaling = _Entries.of(member), fitted.scaling
    inputs, outputs = _names(fitted)
    made = [
        _centred(f"v{k + 1}", Signal(name, fitted.delays[k]), mean, std, digits)
        for k, (name, mean, std) in enumerate(
            zip(inputs, scaling.u_mean, scaling.u_std, strict=True)
        )
    ]
    states = [Signal(f"x{k + 1}") for k in range(sizes.states)]
    drives = [Signal(f"v{k + 1}") for k in range(sizes.inputs)]
    neurons = [Signal(f"n{k + 1}") for k in range(sizes.neurons)]
    per_unit = 1.0 / scaling.u_std

    def side(letters: str, row: int, unit: float) -> _Side:
        return _Side.of(entries, letters, row, unit, per_unit)

    kinds, limits = member.structure.kinds, member.structure.limits
    for k, neuron in enumerate(neurons):
        constant, terms = side("FH", k, 1.0).written([*states, *drives], digits)
        made.append(
            Equation(neuron, constant, terms, NAMES[kinds[k]], f"{limits[k]:.6g}")
        )
    signals = [*states, *drives, *neurons]
    for k, state in enumerate(states):
        constant, terms = side("ABE", k, 1.0).written(signals, digits)
        held = _held(member.structure.bounds[:, k], 0.0, 1.0, digits)
        made.append(Equation(Signal(state.name, -1), constant, terms, **held))
    for o, name in enumerate(outputs):
        unit, mean = float(scaling.y_std[o]), float(scaling.y_mean[o])
        constant, terms = side("CDG", o, unit).written(signals, digits, mean)
        bounds = member.structure.bounds[:, sizes.states + o]
        held = _held(bounds, mean, unit, digits)
        made.append(Equation(Signal(name), constant, terms, **held))
    return [e for e in made if _used(e, made, outputs)]


def start_state(
    fitted: FittedSimulator, digits: Digits = "auto", member: int = 0
) -> list[str]:
    """Return the state in which the first estimation record started, as numbers."""
    own = fitted.members[range(len(fitted))[member]]
    alone = held_deviations(own.covariance)[own.structure.parameters :]
    pairs = zip(own.start, alone, strict=True)
    return [rounded(float(x), float(s), digits) for x, s in pairs]


@dataclass(frozen=True, eq=False)
class _Side:
    """Factors of a right side, in units of the target, and their deviations."""

    factors: list[float]
    deviations: list[float]
    constant: float
    constant_deviation: float
    convention: float

    @staticmethod
    def of(
        entries: _Entries, letters: str, row: int, unit: float, per_unit: Values
    ) -> _Side:
        """Return the side of a row of some matrices; the second one is for inputs."""
        M, S = entries.matrices, entries.deviations
        factors: list[float] = []
        stds: list[float] = []
        constant, constant_std = 0.0, np.inf
        for letter in letters:
            scale = np.full(M[letter].shape[1], unit)
            value, std = M[letter][row], S[letter][row]
            if letter in "BHD":
                constant, constant_std = unit * float(value[-1]), unit * float(std[-1])
                value, std, scale = value[:-1], std[:-1], unit * per_unit
            factors += (value * scale).tolist()
            stds += (std * scale).tolist()
        return _Side(factors, stds, constant, constant_std, CONVENTION * unit)

    def written(
        self, signals: list[Signal], digits: Digits, mean: float = 0.0
    ) -> tuple[str, tuple[tuple[str, Signal], ...]]:
        """Return the constant and the terms that are left after rounding."""
        terms = []
        for factor, std, signal in zip(
            self.factors, self.deviations, signals, strict=True
        ):
            # What no parameter moves has no uncertainty.
            fixed = digits == "auto" and not np.isfinite(std)
            text = f"{factor:.8g}" if fixed else rounded(factor, std, digits)
            if float(text) != 0.0:
                terms.append((text, signal))
        std = self.constant_deviation
        if not np.isfinite(std):
            std = self.convention
        return rounded(self.constant + mean, std, digits), tuple(terms)


def _centred(
    name: str, signal: Signal, mean: float, std: float, digits: Digits
) -> Equation:
    """Return a signal without its mean in the estimation records."""
    text = rounded(-float(mean), CONVENTION * float(std), digits)
    return Equation(Signal(name), text, (("1", signal),))


def _held(bounds: Values, mean: float, unit: float, digits: Digits) -> dict[str, Any]:
    ends = [
        rounded(mean + unit * float(b), CONVENTION * unit, digits)
        if np.isfinite(b)
        else None
        for b in bounds
    ]
    return {"low": ends[0], "high": ends[1]}


def _used(equation: Equation, made: list[Equation], outputs: list[str]) -> bool:
    """Return whether anything follows from a signal."""
    name = equation.target.name
    return name in outputs or any(
        signal.name == name
        for other in made
        if other.target.name != name
        for _, signal in other.terms
    )


def _names(fitted: FittedModel) -> tuple[list[str], list[str]]:
    """Return the names of inputs and outputs as they stand in equations."""
    taken: set[str] = set()
    channels = fitted.channels
    inputs = [plain_name(name, taken) for name in channels.input_names]
    return inputs, [plain_name(name, taken) for name in channels.output_names]


# -- NARX ------------------------------------------------------------------------------


def narx_equations(fitted: Fitted, digits: Digits) -> list[Equation]:
    """Return regressors, neurons layer by layer, and outputs."""
    scaling, network = fitted.scaling, fitted.network
    inputs, outputs = _names(fitted)
    sources: list[Signal] = []
    made: list[Equation] = []
    units: list[float] = []
    for k, (kind, channel, lag) in enumerate(fitted.regressors):
        name = (inputs if kind == "u" else outputs)[channel]
        mean, std = (
            (scaling.u_mean, scaling.u_std)
            if kind == "u"
            else (scaling.y_mean, scaling.y_std)
        )
        sources.append(Signal(f"v{k + 1}"))
        units.append(1.0 / float(std[channel]))
        signal = Signal(name, lag)
        made.append(_centred(f"v{k + 1}", signal, mean[channel], std[channel], digits))
    blocks = dict(_blocks(fitted))
    first, scale = sources, np.array(units)
    for layer in range(1, network.layers + 1):
        W, S = blocks[f"layer{layer}"]
        last = layer == network.layers
        targets: list[Signal] = []
        for j in range(W.shape[1]):
            unit = float(scaling.y_std[j]) if last else 1.0
            middle = float(scaling.y_mean[j]) if last else 0.0
            factors, stds = unit * W[:-1, j] * scale, unit * S[:-1, j] * scale
            signals = list(first)
            if last and network.linear_path:
                direct, wide = (
                    v[:, j] * unit * np.array(units) for v in blocks["linear"]
                )
                factors, stds = np.append(factors, direct), np.append(stds, wide)
                signals += sources
            side = _Side(
                factors.tolist(),
                stds.tolist(),
                unit * float(W[-1, j]),
                unit * float(S[-1, j]),
                CONVENTION * unit,
            )
            constant, terms = side.written(signals, digits, middle)
            name = outputs[j] if last else f"h{layer}_{j + 1}"
            function = "" if last else network.activation
            targets.append(Signal(name))
            made.append(Equation(Signal(name), constant, terms, function))
        first, scale = targets, np.ones(len(targets))
    return made


def _blocks(fitted: Fitted) -> Iterator[tuple[str, tuple[Values, Values]]]:
    """Yield each block of weights by name, with deviations if all others are held."""
    posterior, first = fitted.posterior, 0
    alone = posterior.std
    if posterior.covariance is not None:
        alone = held_deviations(np.asarray(posterior.covariance))
    for block, values in zip(fitted.network.blocks, fitted.params, strict=True):
        W = np.asarray(values)
        yield block.name, (W, alone[first : first + W.size].reshape(W.shape))
        first += W.size
