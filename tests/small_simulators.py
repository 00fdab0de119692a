"""Simulators with random numbers in them: no fit is needed to write or store one."""

import numpy as np

from sparsid.bayes.posterior import Posterior
from sparsid.data.scaling import Scaling
from sparsid.estimators import NARX, Simulator
from sparsid.kernel.activations import CUBE, MODULUS, SIGMOID, SQUARE, TANH
from sparsid.models.autoregression import Autoregression
from sparsid.models.canonical import Pole, Sizes, Structure
from sparsid.models.narx import Lags
from sparsid.models.network import Network
from sparsid.models.residual_model import ResidualModel
from sparsid.models.structures.cascade import cascade
from sparsid.models.structures.even_output import even_output
from sparsid.models.structures.linear import linear
from sparsid.results.channels import Channels
from sparsid.results.forecast import BandFactors
from sparsid.results.narx import Fitted
from sparsid.results.outcome import Outcome
from sparsid.results.simulator import FittedSimulator
from sparsid.results.simulator_member import SimulatorMember

POLES = [Pole("pair", 0, 0.3, 0.98), Pole("real", 2), Pole("leak", 3), Pole("one", 4)]
KINDS = [TANH, SQUARE, CUBE, MODULUS, SIGMOID]
STRUCTURES = {
    "linear": linear(Sizes(5, 2, 0, 2), POLES),
    "linear first": linear(Sizes(5, 2, 5, 2), POLES, KINDS),
    "cascade": cascade(Sizes(3, 2, 2, 1), 0.3, [-1.0], [1.0]),
    "even output": even_output(Sizes(3, 1, 2, 1), [Pole("pair", 0)]),
}


def member(structure: Structure, rng: np.random.Generator) -> SimulatorMember:
    """A member with small random weights."""
    p, n = structure.parameters, structure.sizes.states
    root = rng.normal(size=(p + n, p + n)) / (100.0 * np.sqrt(p + n))
    return SimulatorMember(
        structure,
        0.1 * rng.normal(size=p),
        rng.normal(size=n),
        np.zeros(n),
        np.eye(n),
        tuple([Autoregression.white(0.01)] * structure.sizes.outputs),
        root @ root.T + 1e-6 * np.eye(p + n),
        np.ones(p),
        np.ones(p + n),
        float(rng.normal()),
    )


def made(
    name: str, members: int = 1, seed: int = 0, names: tuple[str, ...] = ()
) -> Simulator:
    """A simulator of a structure, with dead times."""
    rng, structure = np.random.default_rng(seed), STRUCTURES[name]
    nu, ny = structure.sizes.inputs, structure.sizes.outputs
    model = Simulator(seed=seed)
    model.fitted_ = FittedSimulator(
        Channels(
            names or tuple(f"pump {k}" for k in range(nu)),
            tuple(f"level {k}" for k in range(ny)),
            ("V",) * nu,
            ("m",) * ny,
            0.5,
        ),
        Scaling(
            10.0 * rng.normal(size=nu),
            rng.uniform(0.5, 2.0, nu),
            300.0 * rng.normal(size=ny),
            rng.uniform(0.5, 20.0, ny),
        ),
        name,
        tuple(range(0, 3 * nu, 3)),
        tuple(member(structure, rng) for _ in range(members)),
        ResidualModel.none(nu, np.ones(ny)),
        10,
        BandFactors((1.1,) * ny, (1.2,) * ny),
        structure.parameters,
        structure.parameters,
        Outcome.CONVERGED,
        {"cost": np.zeros(3), "kept": np.ones(3)},
        {"samples": 100},
    )
    return model


def made_narx(linear_path: bool = False, activation: str = "tanh") -> NARX:
    """A network with two inputs and two outputs."""
    rng, lags = np.random.default_rng(0), Lags(2, 2, 1, 2)
    regressors = lags.table[::2]
    network = Network((len(regressors), 3, 2, 2), activation, linear_path)
    count = sum(n * m for n, m in network.shapes)
    model = NARX(lags=2, hidden=(3, 2))
    model.fitted_ = Fitted(
        channels=Channels(
            ("a", "b"), ("level 0", "level 1"), ("V",) * 2, ("m",) * 2, 1.0
        ),
        scaling=Scaling(
            rng.normal(size=2), np.ones(2) * 3.0, rng.normal(size=2), np.ones(2) * 0.2
        ),
        lags=lags,
        regressors=regressors,
        network=network,
        params=tuple(0.4 * rng.normal(size=shape) for shape in network.shapes),
        noise=np.ones(2) * 0.01,
        posterior=Posterior(np.full(count, 0.01), None, np.ones(count)),
        start_outputs=np.zeros(2),
        start_widths=network.widths,
        band_factors=BandFactors.none(2),
        weights_kept=network.weights,
        weights_total=network.weights,
        log_evidence=1.0,
        outcome=Outcome.CONVERGED,
        history={"cost": np.zeros(1), "kept": np.ones(1)},
        details={},
    )
    return model
