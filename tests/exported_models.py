"""Models of every kind with random stable parameters: exports need no fit."""

import numpy as np

from sparsid.bayes.noise import Noise
from sparsid.bayes.posterior import Posterior
from sparsid.data.scaling import Scaling
from sparsid.kernel.activations import CUBE, SIGMOID, SOFTROOT, SQUARE, TANH
from sparsid.models.autoregression import Autoregression
from sparsid.models.canonical import Pole, Sizes
from sparsid.models.narx import Lags
from sparsid.models.network import Network
from sparsid.models.residual_model import ResidualModel
from sparsid.models.state_space import StateNetwork
from sparsid.models.structures.cascade import cascade
from sparsid.models.structures.even_output import even_output
from sparsid.models.structures.linear import linear
from sparsid.results.channels import Channels
from sparsid.results.ensemble import Ensemble
from sparsid.results.forecast import BandFactors
from sparsid.results.narx import Fitted
from sparsid.results.outcome import Outcome
from sparsid.results.simulator import FittedSimulator
from sparsid.results.simulator_member import SimulatorMember


def _shared(rng, nu, ny):
    return {
        "channels": Channels(
            tuple(f"valve {k}" for k in range(nu)),
            tuple(f"level {k} µ" for k in range(ny)),
            ("V",) * nu,
            ("°C",) * ny,
            0.5,
        ),
        "scaling": Scaling(
            rng.normal(size=nu),
            rng.uniform(1, 2, nu),
            rng.normal(size=ny),
            rng.uniform(1, 2, ny),
        ),
        "band_factors": BandFactors.none(ny),
        "weights_kept": 5,
        "weights_total": 9,
        "outcome": Outcome.CONVERGED,
        "history": {"cost": np.zeros(1), "kept": np.ones(1)},
        "details": {},
    }


def _structure(kind, nu, ny, states, neurons):
    poles = [Pole("pair", i) for i in range(0, states, 2)]
    if kind == "linear":
        return linear(Sizes(states, nu, 0, ny), poles)
    if kind == "linear first":
        kinds = [TANH, SQUARE, SOFTROOT, CUBE, SIGMOID]
        return linear(Sizes(states, nu, neurons, ny), poles, kinds)
    if kind == "cascade":
        low, high = [-1.5] + [-np.inf] * (ny - 1), [0.9] * ny
        return cascade(Sizes(states, nu, neurons, ny), 0.1, low, high)
    return even_output(Sizes(states + ny, nu, neurons + ny, ny), poles)


def simulator(kind, nu=1, ny=1, members=1, delays=None, seed=0, states=4, neurons=5):
    """A fitted simulator of a kind, with so many random members."""
    rng = np.random.default_rng(seed)
    structure = _structure(kind, nu, ny, states, neurons)
    n = structure.sizes.states

    def one():
        theta = 0.4 * rng.normal(size=structure.parameters)
        inner = np.concatenate([structure.where(m) for m in "EF"])
        theta[inner] *= 0.5
        spread = rng.normal(size=(n, n)) / np.sqrt(n)
        root = np.linalg.cholesky(spread @ spread.T + 1e-6 * np.eye(n))
        P = structure.parameters
        return SimulatorMember(
            structure,
            theta,
            rng.normal(size=n),
            0.1 * rng.normal(size=n),
            root,
            tuple(Autoregression.white(0.01) for _ in range(ny)),
            np.zeros((P + n, P + n)),
            np.ones(P),
            np.ones(P + n),
            0.0,
        )

    return FittedSimulator(
        name=kind,
        delays=tuple(delays or (0,) * nu),
        members=tuple(one() for _ in range(members)),
        residual=ResidualModel.none(nu, np.full(ny, 0.01)),
        known=20,
        **_shared(rng, nu, ny),
    )


def compact_tanks():
    """A model as small as one of tanks is when it is compact."""
    return simulator("cascade", states=3, neurons=6)


def regression(
    nu=1, ny=1, hidden=(4, 3), activation="tanh", straight=False, delay=0, seed=0
):
    """A fitted one-step network, some of its regressors pruned."""
    rng = np.random.default_rng(seed)
    lags = Lags(nu, ny, 2, 3, delay)
    regressors = lags.table[::2]
    network = Network((len(regressors), *hidden, ny), activation, straight)
    count = sum(a * b for a, b in network.shapes)
    rows = max(len(regressors), 1)
    return Fitted(
        lags=lags,
        regressors=regressors,
        network=network,
        params=tuple(
            rng.normal(size=shape) / np.sqrt(2 * rows) for shape in network.shapes
        ),
        noise=np.full(ny, 0.01),
        posterior=Posterior(np.ones(count), None, np.ones(count)),
        start_outputs=rng.normal(size=ny),
        start_widths=network.widths,
        log_evidence=0.0,
        **_shared(rng, nu, ny),
    )


def ensemble(nu=1, ny=1, states=3, hidden=(4, 3), members=3, seed=0):
    """A fitted ensemble of leaky states."""
    rng = np.random.default_rng(seed)
    top = (0.8,) * ny
    model = StateNetwork(nu, ny, states, hidden, 1, 0.1, (-np.inf,) * ny, top)
    params = [rng.normal(size=(members, *shape)) / 2 for shape in model.shapes]
    params[-3] *= model.couplings
    count = sum(a * b for a, b in model.shapes)
    parts = (np.full((members, ny), v) for v in (0.005, 0.005, 0.5))
    return Ensemble(
        model=model,
        params=tuple(params),
        noise=Noise(*parts),
        covariance=np.zeros((members, count, count)),
        prior_std=np.ones((members, count)),
        log_evidence=np.zeros(members),
        known=8,
        dropped=0,
        **_shared(rng, nu, ny),
    )


MODELS = {
    "linear": lambda: simulator("linear"),
    "linear first, 5 members": lambda: simulator("linear first", members=5, seed=1),
    "linear first, 4 members": lambda: simulator("linear first", members=4, seed=2),
    "cascade that saturates": lambda: simulator("cascade", members=3, seed=3),
    "even output": lambda: simulator("even output", seed=4),
    "several channels and delays": lambda: simulator(
        "linear first", nu=3, ny=2, members=3, delays=(0, 4, 1), seed=5
    ),
    "no inputs": lambda: simulator("linear", nu=0, seed=6),
    "one step": lambda: regression(),
    "one step, several channels": lambda: regression(2, 2, (5,), "softroot", True, 3),
    "one step, rectifiers": lambda: regression(hidden=(6,), activation="relu"),
    "one step, linear": lambda: regression(hidden=(), activation="sigmoid"),
    "ensemble": lambda: ensemble(),
    "ensemble, several channels": lambda: ensemble(2, 2, 4, (5,), 4),
    "ensemble, linear": lambda: ensemble(hidden=()),
}


def inputs(model, samples=1000, seed=0):
    """Inputs in the data's units, over the range that was learnt from."""
    rng = np.random.default_rng(seed)
    steps = rng.normal(size=(samples // 5 + 1, model.channels.n_inputs)).repeat(5, 0)
    return model.scaling.u_mean + model.scaling.u_std * steps[:samples]


def free_run(model, u):
    """The free run of a model from its own start, which an export has to repeat."""
    if model.channels.n_inputs == 0:
        return model.simulate(np.zeros((len(u), 0)), samples=0).mean
    return model.simulate(u, samples=0).mean


def relative(found, expected):
    """The largest difference, in standard deviations of the outputs."""
    return np.max(np.abs(found - expected) / expected.std(axis=0))
