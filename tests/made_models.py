"""Models made up without a fit: known matrices, dead times, members, uncertainty."""

import numpy as np

import sparsid
from sparsid.bayes.posterior import Posterior
from sparsid.data.scaling import Scaling
from sparsid.estimators import NARX, Simulator
from sparsid.models.autoregression import Autoregression
from sparsid.models.canonical import Pole, Sizes, Structure
from sparsid.models.narx import Lags
from sparsid.models.network import Network
from sparsid.models.residual_model import ResidualModel
from sparsid.models.structures.linear import linear
from sparsid.results.channels import Channels
from sparsid.results.forecast import BandFactors
from sparsid.results.narx import Fitted
from sparsid.results.simulator import FittedSimulator
from sparsid.results.simulator_member import SimulatorMember

DT = 0.5


def names(inputs: int, outputs: int) -> Channels:
    return Channels(
        ("valve", "heat", "fan")[:inputs],
        ("level", "flow")[:outputs],
        ("V", "kW", "")[:inputs],
        ("m", "l/s")[:outputs],
        DT,
    )


def scaling(inputs: int, outputs: int) -> Scaling:
    return Scaling(
        np.linspace(1.0, -2.0, inputs),
        np.linspace(0.5, 3.0, inputs),
        np.linspace(10.0, 20.0, outputs),
        np.linspace(2.0, 0.2, outputs),
    )


def mixed(neurons: int = 3, inputs: int = 2, outputs: int = 2) -> Structure:
    """A pair and a real pole, with neurons beside them."""
    poles = [Pole("pair", 0, 0.3, 0.98), Pole("real", 2)]
    return linear(Sizes(3, inputs, neurons, outputs), poles)


def parameters(structure: Structure, seed: int) -> np.ndarray:
    """Random, with neurons that are felt and do not make the model wild."""
    theta = 0.3 * np.random.default_rng(seed).normal(size=structure.parameters)
    theta[: structure.leading] = [1.2, 0.8, 1.1][: structure.leading]
    return theta


def simulator(
    structure: Structure | None = None,
    members: int = 3,
    delays: tuple[int, ...] = (0, 4),
    width: float = 0.02,
    thetas: list[np.ndarray] | None = None,
) -> Simulator:
    """An ensemble whose members differ by ``width``, as their parameters do."""
    structure = mixed() if structure is None else structure
    n, size = structure.sizes.states, structure.parameters
    inputs, outputs = structure.sizes.inputs, structure.sizes.outputs
    rng = np.random.default_rng(5)
    centre = parameters(structure, 0)
    if thetas is None:
        thetas = [centre + width * rng.normal(size=size) for _ in range(members)]
    made = [
        SimulatorMember(
            structure,
            theta,
            np.zeros(n),
            np.zeros(n),
            np.eye(n),
            tuple(Autoregression.white(0.01) for _ in range(outputs)),
            width**2 * np.eye(size + n),
            np.ones(size),
            np.ones(size + n),
            -float(k),
        )
        for k, theta in enumerate(thetas)
    ]
    model = Simulator()
    model.fitted_ = FittedSimulator(
        names(inputs, outputs),
        scaling(inputs, outputs),
        "made up",
        delays,
        tuple(made),
        ResidualModel.none(inputs, np.full(outputs, 0.01)),
        3,
        BandFactors.none(outputs),
        float(size),
        size,
        sparsid.Outcome.CONVERGED,
        {"cost": np.zeros(4)},
        {"records": 1, "samples": 200},
    )
    return model


def narx(hidden: int = 3, linear_path: bool = True) -> NARX:
    """Two inputs, one late by two samples, and two outputs; some lags are gone."""
    lags = Lags(2, 2, 3, 3, 0)
    gone = {("u", 1, 0), ("u", 1, 1), ("y", 0, 2), ("u", 0, 3)}
    regressors = tuple(r for r in lags.table if tuple(r) not in gone)
    network = Network((len(regressors), hidden, 2), "tanh", linear_path)
    rng = np.random.default_rng(3)
    params = tuple(0.25 * rng.normal(size=shape) for shape in network.shapes)
    size = sum(w.size for w in params)
    std = np.full(size, 0.01)
    model = NARX(3, (hidden,))
    model.fitted_ = Fitted(
        names(2, 2),
        scaling(2, 2),
        lags,
        regressors,
        network,
        params,
        np.full(2, 0.01),
        Posterior(std, None, np.full(size, 0.5)),
        np.zeros(2),
        network.widths,
        BandFactors.none(2),
        size,
        size,
        -3.0,
        sparsid.Outcome.CONVERGED,
        {"cost": np.zeros(4)},
        {"records": 1, "samples": 200},
    )
    return model
