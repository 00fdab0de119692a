"""The step table: one plain description of any fitted model, for all writers.

A model is either members in the canonical form, each with its state

    n = phi(F x + H u),  deeper layers n <- phi(W n + b)
    x+ = hold(A x + B u + E n),  y = hold(C x + D u + G n)

or a regression network on past inputs and outputs. Inputs and outputs are scaled, and
each input has its own dead time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsid.data.scaling import Scaling
from sparsid.errors import InputError
from sparsid.export.observer import observer_gain
from sparsid.kernel.activations import NAMES
from sparsid.models.state_space import TYPICAL_LEAK
from sparsid.results.base import FittedModel
from sparsid.results.channels import Channels
from sparsid.results.ensemble import Ensemble
from sparsid.results.narx import Fitted
from sparsid.results.simulator import FittedSimulator
from sparsid.results.simulator_member import SimulatorMember

Values = NDArray[np.float64]

COMBINATIONS = ("median", "mean", "member:K", "compact")


@dataclass(frozen=True, eq=False)
class Layer:
    """``phi(W v + b)``; each neuron has its activation and its limit."""

    weights: Values
    bias: Values
    kinds: tuple[str, ...]
    limits: Values


@dataclass(frozen=True, eq=False)
class StateMember:
    """A member in the canonical form.

    Attributes
    ----------
    matrices
        A, B, E, F, H, C, D, G; the last columns of B, H and D are biases.
    kinds, limits
        Activation of every neuron of the first layer, and where its argument is held.
    deeper
        Layers between the first neurons and those that E and G read.
    bounds
        Lowest and highest value of states, then outputs.
    start
        The state it starts from.
    gain
        What one unit of output error moves the states by, in the observer.
    """

    matrices: Mapping[str, Values]
    kinds: tuple[str, ...]
    limits: Values
    deeper: tuple[Layer, ...]
    bounds: Values
    start: Values
    gain: Values


@dataclass(frozen=True, eq=False)
class Regression:
    """A network on past inputs and outputs.

    Attributes
    ----------
    sources
        Signal ("u" or "y"), channel and lag of every regressor.
    layers
        The last one is linear.
    straight
        What regressors do to outputs directly, (output, regressor); None: nothing.
    start_outputs
        Scaled outputs that are held before the first sample.
    """

    sources: tuple[tuple[str, int, int], ...]
    layers: tuple[Layer, ...]
    straight: Values | None
    start_outputs: Values


@dataclass(frozen=True, eq=False)
class StepTable:
    """Everything that a step of a model needs.

    Attributes
    ----------
    delays
        Samples by which each input comes late; a regression has them in its lags.
    members
        Empty for a regression.
    combine
        How members become one output: "median" or "mean".
    described
        What the model is, in a few words.
    """

    channels: Channels
    scaling: Scaling
    delays: tuple[int, ...]
    members: tuple[StateMember, ...]
    regression: Regression | None
    combine: str
    described: str


def table_of(fitted: FittedModel, combine: str = "median") -> StepTable:
    """Return the step table of a fitted model.

    Parameters
    ----------
    combine
        ``"median"`` or ``"mean"`` over members, ``"member:K"`` for one of them, counted
        from 0 as in ``fitted.member(K)``, or ``"compact"`` for the one that
        ``fitted.compact()`` makes of all.
    """
    fitted, how = _chosen(fitted, combine)
    for kind, describe in _TABLES.items():
        if isinstance(fitted, kind):
            return describe(fitted, how)
    raise InputError(
        f"a {type(fitted).__name__} cannot be exported: give a fitted NARX, StateSpace "
        "or Simulator model"
    )


def _chosen(fitted: FittedModel, combine: str) -> tuple[FittedModel, str]:
    """Return the model that is meant, and how its members are combined."""
    if combine in ("median", "mean"):
        return fitted, combine
    if combine == "compact":
        make: Any = getattr(fitted, "compact", None)
        if make is None:
            raise InputError(
                f"combine='compact': {fitted.described()} has no compact form; choose "
                "'median', 'mean' or 'member:0'"
            )
        return make(), "median"
    head, _, number = combine.partition(":")
    if head != "member" or not number.isdecimal():
        raise InputError(
            f"combine={combine!r} is not known: choose one of {', '.join(COMBINATIONS)}"
        )
    if int(number) >= len(fitted):
        raise InputError(
            f"combine={combine!r}: the model has {len(fitted)} members, 0 to "
            f"{len(fitted) - 1}"
        )
    return fitted.member(int(number)), "median"


def _of_simulator(fitted: FittedSimulator, combine: str) -> StepTable:
    return StepTable(
        fitted.channels,
        fitted.scaling,
        fitted.delays,
        tuple(_canonical(member, fitted.known) for member in fitted.members),
        None,
        combine,
        fitted.described(),
    )


def _canonical(member: SimulatorMember, known: int) -> StateMember:
    structure = member.structure
    matrices = structure.named(member.theta)
    kinds = tuple(NAMES[k] for k in structure.kinds)
    gain = observer_gain(
        matrices,
        Layer(matrices["F"], matrices["H"][:, -1], kinds, structure.limits),
        (),
        (member.state_mean, member.state_root @ member.state_root.T),
        np.array([law.variance for law in member.noise]),
        known,
    )
    return StateMember(
        matrices, kinds, structure.limits, (), structure.bounds, member.start, gain
    )


def _of_ensemble(fitted: Ensemble, combine: str) -> StepTable:
    members = tuple(_leaky(fitted, k) for k in range(len(fitted)))
    delays = (0,) * fitted.channels.n_inputs
    return StepTable(
        fitted.channels,
        fitted.scaling,
        delays,
        members,
        None,
        combine,
        fitted.described(),
    )


def _leaky(fitted: Ensemble, k: int) -> StateMember:
    """Return a member of leaky states in the canonical form."""
    model = fitted.model
    blocks = [np.asarray(w[k], dtype=float) for w in fitted.params]
    *layers, drive, coupling, leak, start = blocks
    n, m, ny, rate = model.states, model.inputs, model.outputs, model.rate
    last = layers[-1]
    matrices = {
        "A": np.diag(np.exp(-rate * TYPICAL_LEAK * np.exp(leak[0])))
        + rate * coupling.T,
        "B": rate * np.column_stack([drive.T, last[-1]]),
        "C": np.eye(ny, n),
        "D": np.zeros((ny, m + 1)),
    }
    first, deeper = layers[0], layers[1:-1]
    if len(layers) == 1:
        # Without hidden layers the network itself is linear in states and inputs.
        matrices["A"] = matrices["A"] + rate * last[:n].T
        matrices["B"][:, :m] += rate * last[n:-1].T
        first, last = np.zeros((n + m + 1, 0)), np.zeros((1, n))
    matrices |= {
        "E": rate * last[:-1].T,
        "F": first[:n].T,
        "H": first[n:].T,
        "G": np.zeros((ny, len(last) - 1)),
    }
    inner = tuple(_layer(W, model.activation) for W in deeper)
    head = _layer(np.concatenate([first[:n], first[-1:]]), model.activation)
    noise = np.asarray(fitted.noise.white[k]) + np.asarray(fitted.noise.coloured[k])
    # States are in units of standardised outputs, all around zero.
    around = (np.zeros(n), np.eye(n))
    gain = observer_gain(matrices, head, inner, around, noise, fitted.known)
    low, high = model.bounds
    bounds = np.stack([np.append(low, low[:ny]), np.append(high, high[:ny])])
    return StateMember(matrices, head.kinds, head.limits, inner, bounds, start[0], gain)


def _layer(block: Values, activation: str) -> Layer:
    """Return a layer from a block of weights whose last row is the bias."""
    width = block.shape[1]
    limits = np.full(width, np.inf)
    return Layer(block[:-1].T, block[-1], (activation,) * width, limits)


def _of_regression(fitted: Fitted, combine: str) -> StepTable:
    network = fitted.network
    blocks = [np.asarray(w, dtype=float) for w in fitted.params]
    layers = tuple(_layer(W, network.activation) for W in blocks[: network.layers])
    regression = Regression(
        tuple((r.signal, r.channel, r.lag) for r in fitted.regressors),
        layers,
        blocks[-1].T if network.linear_path else None,
        np.asarray(fitted.scaling.scale_y(fitted.start_outputs)),
    )
    delays = (0,) * fitted.channels.n_inputs
    return StepTable(
        fitted.channels,
        fitted.scaling,
        delays,
        (),
        regression,
        combine,
        fitted.described(),
    )


_TABLES: dict[type[FittedModel], Callable[[Any, str], StepTable]] = {
    FittedSimulator: _of_simulator,
    Ensemble: _of_ensemble,
    Fitted: _of_regression,
}
