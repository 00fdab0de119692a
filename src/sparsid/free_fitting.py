"""From records and settings to an ensemble fitted to the free run."""

from __future__ import annotations

import logging
import time
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from sparsid import members
from sparsid.arrays import Array
from sparsid.curvature import Curvature
from sparsid.ensemble import Ensemble
from sparsid.errors import InputError
from sparsid.evidence import Problem, State
from sparsid.forecasts import Channels
from sparsid.history import Progress, Report
from sparsid.models.network import Params
from sparsid.models.state_space import StateNetwork
from sparsid.moves import threshold
from sparsid.noise import Noise
from sparsid.objectives import FreeRun, Linearised, Runs, outputs
from sparsid.outcomes import Outcome
from sparsid.posterior import laplace
from sparsid.priors import resolve_kinds
from sparsid.records import Record, check_compatible
from sparsid.rules import SparseBayes
from sparsid.scaling import Scaling
from sparsid.settings import LARGEST_COUNT, LARGEST_WIDTH, number, one_of, whole

log = logging.getLogger(__name__)

ACTIVATIONS = ("tanh", "sigmoid")
SATURATION = ("auto", "none")
# Noise at the start, as logarithms of scaled variances and of the odds of phi.
START_NOISE = (-3.0, -3.0, 2.0)
# Cycles before the variances are first updated.
SETTLING = 3
# Steps of the weights between two updates.
STEPS = 2
# Cycles over which the fall of the cost is judged.
WINDOW = 6
# A group whose prior variance is below this has vanished.
VANISHED = 1e-8
# Outputs at an extreme that count as saturation: so many in a row, so many in all.
IN_A_ROW, SATURATED_SHARE = 3, 0.005
# Typical change per sample, in the steps from sample to sample of the outputs; out of
# a few values, as programs are compiled for each.
RATE_FACTOR = 2.0
RATES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
FEWEST_SAMPLES = 30


class Settings(NamedTuple):
    """What the user can set, checked."""

    states: int
    hidden: tuple[int, ...]
    activation: str
    prior: Any
    saturation: str
    start_samples: int
    max_cycles: int
    tolerance: float
    starts: int
    seed: int

    @staticmethod
    def of(params: dict[str, Any], outputs: int) -> Settings:
        """Return the settings, or say what is wrong with them."""
        hidden = params["hidden"]
        hidden = (hidden,) if isinstance(hidden, int) else tuple(hidden)
        states = whole("states", params["states"], 1, LARGEST_WIDTH)
        if states < outputs:
            raise InputError(
                f"states={states}: every output is a state, so at least {outputs} are "
                "needed"
            )
        return Settings(
            states,
            tuple(whole("hidden", n, 1, LARGEST_WIDTH) for n in hidden),
            one_of("activation", params["activation"], ACTIVATIONS),
            params["prior"],
            one_of("saturation", params["saturation"], SATURATION),
            whole("start_samples", params["start_samples"], 1, LARGEST_COUNT),
            whole("max_cycles", params["max_cycles"], 1, LARGEST_COUNT),
            number("tolerance", params["tolerance"], 0.0),
            whole("starts", params["starts"], 1, LARGEST_COUNT),
            whole("seed", params["seed"], 0, 2**32 - 1),
        )


def fit_free_run(
    params: dict[str, Any], records: list[Record], report: Report | None = None
) -> Ensemble:
    """Return the ensemble fitted to the free-run error over all records.

    Parameters
    ----------
    params
        The estimator's settings by name.
    """
    check_compatible(records)
    settings = Settings.of(params, records[0].n_outputs)
    stretches = _stretches(records)
    samples = sum(int((~np.isnan(s.y)).all(1).sum()) for s in stretches)
    if samples < FEWEST_SAMPLES:
        raise InputError(
            f"{samples} samples without gaps were given: at least {FEWEST_SAMPLES} are "
            "needed for a model of free runs"
        )
    scaling = Scaling.of(stretches)
    with jax.enable_x64(True):
        data = _runs(stretches, scaling)
        model, notes = _structure(settings, stretches, scaling)
        everything = np.repeat(data.measured[None], settings.starts, axis=0)
        run = _Fit(model, data._replace(measured=everything), settings, report)
        outcome = run.run()
        fitted = run.finish(outcome, Channels.of(records[0]), scaling, notes)
        runs = np.asarray(member_outputs(model, fitted.params, data))
    y, measured = np.asarray(data.y), np.asarray(data.measured)
    squares = (np.median(runs, axis=0) - y) ** 2 * measured
    mean = squares.sum((0, 1)) / measured.sum((0, 1))
    fitted.details.update(
        free_run_rmse=scaling.unscale_y_std(np.sqrt(mean)).tolist(),
        samples=sum(len(r) for r in records),
        records=len(records),
        segments=len(stretches),
    )
    return fitted


def held_out_errors(
    params: dict[str, Any],
    records: list[Record],
    blocks: int,
    report: Report | None = None,
) -> NDArray[np.float64]:
    """Return the free-run error on every block that was not learnt from.

    The run goes through the block with its inputs known and its outputs unseen, so one
    batch of members serves all blocks. The error is that of the median over the starts
    of a block, root mean squared over outputs, in standard deviations.
    """
    settings = Settings.of(params, records[0].n_outputs)
    stretches = _stretches(records)
    scaling = Scaling.of(stretches)
    with jax.enable_x64(True):
        data = _runs(stretches, scaling)
        model, _ = _structure(settings, stretches, scaling)
        held = _blocks(data.measured, blocks)
        masks = np.asarray(data.measured) * (1.0 - held)
        masks = np.repeat(masks, settings.starts, axis=0)
        starts = settings._replace(starts=blocks * settings.starts)
        run = _Fit(model, data._replace(measured=jnp.asarray(masks)), starts, report)
        run.run()
        runs = np.asarray(member_outputs(model, run.descent.state.params, data))
    runs = runs.reshape(blocks, settings.starts, *runs.shape[1:])
    squares = (np.median(runs, axis=1) - np.asarray(data.y)) ** 2
    counted = held * np.asarray(data.measured)
    error = (squares * counted).sum((1, 2, 3)) / counted.sum((1, 2, 3))
    return np.asarray(np.sqrt(error))


@partial(jax.jit, static_argnames="model")
def member_outputs(model: StateNetwork, params: Params, data: Runs) -> Array:
    """Return the runs of all members over all records."""

    def one(params: Params) -> Array:
        return jax.vmap(lambda x, u: outputs(model, params, x, u))(params[-1], data.u)

    return jax.vmap(one)(params)


def _blocks(measured: Array, blocks: int) -> NDArray[np.float64]:
    """Return one where a sample belongs to a block, for each of equal blocks."""
    seen = np.asarray(measured).any(-1)
    place = np.cumsum(seen.ravel()).reshape(seen.shape) - 1
    number_ = np.minimum(place * blocks // max(int(seen.sum()), 1), blocks - 1)
    shape = (blocks, 1, 1, 1)
    return np.where(
        number_[None, :, :, None] == np.arange(blocks).reshape(shape), 1.0, 0.0
    )


class _Fit:
    """One fit of all starts together."""

    def __init__(
        self,
        model: StateNetwork,
        data: Runs,
        settings: Settings,
        report: Report | None,
    ) -> None:
        self.model, self.data, self.settings = model, data, settings
        self.report, self.began = report, time.perf_counter()
        # A free run has no layer structure to use: one dense derivative.
        whole_model = Curvature("gauss-newton", ((),), ("primal",))
        self.problem = Problem(FreeRun(model), whole_model)
        self.rule = SparseBayes()
        self.costs: list[NDArray[np.float64]] = []
        self.seconds: list[float] = []

    def run(self) -> Outcome:
        """Cycle until the cost of every member has settled."""
        settings, problem, data = self.settings, self.problem, self.data
        self.descent = members.begin(problem, self._start(), data)
        for cycle in range(settings.max_cycles):
            for _ in range(STEPS):
                self.descent = members.take_step(problem, self.descent, data)
            if cycle >= SETTLING:
                self.descent = members.update(problem, self.rule, self.descent, data)
            if cycle % 2:
                self.descent = members.update_noise(problem, self.descent, data)
            if self._told():
                return Outcome.STOPPED
            if self._settled():
                return Outcome.CONVERGED
        return Outcome.CYCLES

    def _start(self) -> State:
        """Return random weights, the prior and the noise of all starts."""
        count, model = self.settings.starts, self.model
        key = jax.random.key(self.settings.seed)
        keys = [jax.random.fold_in(key, k) for k in range(count)]
        first = jnp.nan_to_num(self.data.y[:, 0])
        params = [model.init(first, key=k) for k in keys]
        prior = model.start_prior(resolve_kinds(self.settings.prior, model.network))
        noise = Noise(*(jnp.full(model.outputs, value) for value in START_NOISE))
        states = [State(p, prior, noise) for p in params]
        stacked: State = jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)
        return stacked

    def _told(self) -> bool:
        """Keep the history and tell the caller; return whether to stop."""
        cost = self.descent.cost
        self.costs.append(cost)
        self.seconds.append(time.perf_counter() - self.began)
        if self.report is None:
            return False
        best = int(np.nanargmin(cost))
        noise = jax.tree.map(lambda c: c[best], self.descent.state.noise)
        progress = Progress(
            "free run",
            len(self.costs),
            self.settings.max_cycles,
            float(cost[best]),
            np.asarray(noise.white + noise.coloured),
            1.0,
            self.seconds[-1],
        )
        return bool(self.report(progress))

    def _settled(self) -> bool:
        if len(self.costs) <= WINDOW:
            return False
        fall = self.costs[-1 - WINDOW] - self.costs[-1]
        return bool((fall < WINDOW * self.settings.tolerance).all())

    def finish(
        self, outcome: Outcome, channels: Channels, scaling: Scaling, notes: list[str]
    ) -> Ensemble:
        """Return the usable members."""
        cost = self.descent.cost
        usable = np.flatnonzero(np.isfinite(cost))
        if not usable.size:
            raise InputError(
                "no start led to a finite cost: check the record for outliers, or use "
                "fewer states or neurons"
            )
        chosen: State = jax.tree.map(
            lambda leaf: np.asarray(leaf)[usable], self.descent.state
        )
        kept, covariances, params = [], [], []
        total = sum(self._countable(np.ones(s), b.bias) for s, b in self._weights())
        for k in range(len(usable)):
            state: State = jax.tree.map(lambda leaf, k=k: leaf[k], chosen)
            state = threshold(state, VANISHED, 0.0)
            kept.append(
                sum(
                    self._countable(p.variances() > 0, p.bias)
                    for p in state.prior[: len(self._weights())]
                )
            )
            J = jax.tree.map(
                lambda leaf, k=k: leaf[usable[k]], self.descent.at.derivative
            )
            found = laplace(
                Linearised(jnp.zeros(0), J, jnp.zeros(())),
                jax.tree.map(jnp.asarray, state.prior),
            )
            covariances.append(found.covariance)
            params.append(state.params)
        return Ensemble(
            channels,
            scaling,
            self.model,
            tuple(np.stack(w) for w in zip(*params, strict=True)),
            chosen.noise,
            np.stack([np.asarray(c) for c in covariances]),
            -0.5 * cost[usable],
            self.settings.start_samples,
            self.settings.starts - len(usable),
            float(np.mean(kept)),
            int(total),
            outcome,
            {"cost": np.array(self.costs), "seconds": np.array(self.seconds)},
            {"notes": notes, "seconds": self.seconds[-1]},
        )

    def _weights(self) -> list[tuple[tuple[int, int], Any]]:
        """Return shapes and blocks of weights: leaks and start states are none."""
        pairs = list(zip(self.model.shapes, self.model.blocks, strict=True))
        return pairs[:-2]

    @staticmethod
    def _countable(present: Any, bias: bool) -> int:
        return int((present[:-1] if bias else present).sum())


# -- pieces --------------------------------------------------------------------------


def _stretches(records: list[Record]) -> list[Record]:
    """Return stretches with all inputs; outputs may be missing within."""
    stretches = []
    for record in records:
        missing = np.isnan(record.u).any(1)
        edges = np.flatnonzero(np.diff(np.concatenate([[True], missing, [True]])))
        for first, stop in zip(edges[::2], edges[1::2], strict=True):
            if stop - first >= 2:
                stretches.append(record[int(first) : int(stop)])
    return stretches


def _runs(stretches: list[Record], scaling: Scaling) -> Runs:
    """Return the stretches as one array, filled up to the longest."""
    length = max(len(s) for s in stretches)

    def filled(values: Any) -> Any:
        missing = ((0, length - len(values)), (0, 0))
        return np.pad(values, missing, mode="edge")

    u = np.stack([filled(scaling.scale_u(s.u)) for s in stretches])
    y = [scaling.scale_y(s.y) for s in stretches]
    measured = np.stack(
        [np.pad(~np.isnan(v), ((0, length - len(v)), (0, 0))) for v in y]
    )
    y = np.nan_to_num(np.stack([filled(v) for v in y]))
    known = np.zeros((len(stretches), 0))
    return Runs(*(jnp.asarray(a, float) for a in (u, y, measured, known)))


def _structure(
    settings: Settings, stretches: list[Record], scaling: Scaling
) -> tuple[StateNetwork, list[str]]:
    """Return the model without data, and what was found in the data."""
    y = [scaling.scale_y(s.y) for s in stretches]
    names, notes = stretches[0].output_names, []
    floor, ceiling = [-np.inf] * len(names), [np.inf] * len(names)
    if settings.saturation == "auto":
        for k, name in enumerate(names):
            for side, bounds in ((-1, floor), (1, ceiling)):
                at = saturation([side * v[:, k] for v in y])
                if at is not None:
                    bounds[k] = side * at
                    value = scaling.y_mean[k] + side * at * scaling.y_std[k]
                    notes.append(f"{name} saturates at {value:.6g}")
    for note in notes:
        log.info(note)
    steps = np.concatenate([np.diff(v, axis=0) for v in y])
    rate = RATE_FACTOR * float(np.sqrt(np.nanmean(steps**2)))
    model = StateNetwork(
        stretches[0].n_inputs,
        len(names),
        settings.states,
        settings.hidden,
        len(stretches),
        min(RATES, key=lambda r: abs(np.log(r / max(rate, RATES[0])))),
        tuple(floor),
        tuple(ceiling),
        settings.activation,
    )
    return model, notes


def saturation(signals: list[NDArray[np.float64]]) -> float | None:
    """Return the value at which signals stop rising, if they do.

    That shows as many samples at exactly the largest value, several of them in a row.
    """
    top = max(float(np.nanmax(v)) for v in signals)
    count = sum(int((v == top).sum()) for v in signals)
    samples = sum(len(v) for v in signals)
    longest = 0
    for v in signals:
        run = 0
        for here in v == top:
            run = run + 1 if here else 0
            longest = max(longest, run)
    if longest >= IN_A_ROW and count >= max(IN_A_ROW, SATURATED_SHARE * samples):
        return top
    return None
