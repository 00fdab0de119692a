"""A fitted NARX model: immutable, and all that prediction and simulation need."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from sparsid.bayes.posterior import Posterior
from sparsid.checks import LARGEST_LAG, whole
from sparsid.data.record import Record
from sparsid.data.scaling import Scaling
from sparsid.errors import InputError
from sparsid.models.narx import (
    Lags,
    Recursion,
    Regressor,
    ahead,
    free_run,
    output_history,
    regression_rows,
    regressor_name,
)
from sparsid.models.network import Network, Params
from sparsid.results.base import (
    Drawing,
    FittedModel,
    Group,
    Places,
    Weights,
    block_places,
    block_weights,
    neuron_layers,
)
from sparsid.results.channels import Channels
from sparsid.results.forecast import BandFactors, Draws, Forecast, width
from sparsid.results.outcome import Outcome
from sparsid.results.texts import Row

if TYPE_CHECKING:
    from sparsid.analysis.steps import Waiting
    from sparsid.results.formulas import Digits, Equation

# Mean, standard deviation, and its part that is not noise.
Values = tuple[Any, Any, Any]


@dataclass(frozen=True, eq=False)
class Fitted(FittedModel):
    """The result of a fit, in scaled units inside and the data's units outside.

    Attributes
    ----------
    lags
        The regressors the fit started with.
    regressors
        Those that are left, in the order of the network's first axis.
    network, params
        The pruned network.
    noise
        Noise variance per output, scaled units.
    start_outputs
        First outputs of the first estimation record, for runs from inputs alone.
    start_widths
        Widths of the network before pruning.
    band_factors
        What standard deviations of forecasts are multiplied with.
    weights_kept, weights_total
        Number of weights left and at the start, biases not counted.
    """

    title: ClassVar[str] = "NARX"
    several_called: ClassVar[str] = "start"
    complete_start: ClassVar[bool] = True
    has_equations: ClassVar[bool] = True

    channels: Channels
    scaling: Scaling
    lags: Lags
    regressors: tuple[Regressor, ...]
    network: Network
    params: Params
    noise: NDArray[np.float64]
    posterior: Posterior
    start_outputs: NDArray[np.float64]
    start_widths: tuple[int, ...]
    band_factors: BandFactors
    weights_kept: int
    weights_total: int
    log_evidence: float
    outcome: Outcome
    history: dict[str, NDArray[np.float64]]
    details: dict[str, Any]

    @property
    def noise_std(self) -> NDArray[np.float64]:
        """Noise standard deviation per output in the data's units."""
        return np.asarray(self.scaling.unscale_y_std(np.sqrt(self.noise)))

    @property
    def regressor_names(self) -> tuple[str, ...]:
        """Readable names of the regressors left."""
        return tuple(
            regressor_name(r, self.channels.input_names, self.channels.output_names)
            for r in self.regressors
        )

    @property
    def start_samples(self) -> int:
        """Number of samples before the first that can be predicted."""
        return self.lags.max_lag

    @property
    def regressor_lags(self) -> Lags | None:
        """Lags that a linear model for comparison gets."""
        return self.lags

    @property
    def recursion(self) -> Recursion:
        """Where the regressors come from in a run."""
        return Recursion.of(self.regressors, self.lags.n_outputs)

    # -- prediction ----------------------------------------------------------------

    def predict(
        self,
        record: Record,
        horizon: int = 1,
        *,
        samples: int = 100,
        seed: int = 0,
        sampled: bool = False,
    ) -> Forecast:
        """Return predictions ``horizon`` samples ahead of the measured outputs.

        One step ahead the standard deviation is that of the linearised model, exactly;
        further ahead, or if ``sampled``, it comes from draws of weights and noise.
        After a gap there is no prediction until all lags have been measured again.
        """
        start = self._prediction_start(record, horizon)
        draws = Draws(samples, seed, sampled).checked()
        u, y = self.scaling.scale_u(record.u), self.scaling.scale_y(record.y)
        with jax.enable_x64(True):
            if horizon == 1 and not sampled:
                z = regression_rows(self.regressors, self.lags.max_lag, u, y)
                values = self._one_step(z)
            else:
                values = self._ahead(u, y, horizon, draws)
        return self._forecast(values, start, len(record), horizon)

    def _prediction_start(self, record: Record, horizon: int) -> int:
        """Return the first sample that can be predicted, or say why none can."""
        self.channels.check(record)
        start = self.lags.max_lag + whole("horizon", horizon, 1, LARGEST_LAG) - 1
        if len(record) <= start:
            raise InputError(
                f"the record has {len(record)} samples but {start} are needed before "
                f"the first prediction (largest lag {self.lags.max_lag}, horizon "
                f"{horizon}): give a longer record"
            )
        return start

    def _one_step(self, z: NDArray[np.float64]) -> Values:
        mean, factors = self.network.factors(self.params, jnp.asarray(z))
        variance = np.asarray(self.posterior.predictive_variance(factors))
        return np.asarray(mean), np.sqrt(variance + self.noise), np.sqrt(variance)

    def _ahead(self, u: Any, y: Any, horizon: int, draws: Draws) -> Values:
        recursion, lag = self.recursion, self.lags.max_lag
        z_u = jnp.asarray(regression_rows(recursion.input_table, lag, u, y))
        origins = np.arange(lag, len(y) - horizon + 1)
        past = jnp.asarray(output_history(y, origins, recursion.output_lags))
        shape = (horizon, len(origins), y.shape[1])

        def run(params: Params, e: Any) -> Any:
            return ahead(self.network, recursion, params, z_u, past, e, horizon)

        mean = run(self.params, jnp.zeros(shape))
        return np.asarray(mean), *self._spread(run, shape, draws)

    # -- simulation ----------------------------------------------------------------

    def _simulated(self, inputs: Any, first: Any, draws: Draws) -> Forecast:
        """Return the run over inputs, from first outputs if there are any.

        Without them it starts at sample 0 as the estimation record started: its first
        outputs, held before the run, and the first inputs held likewise (protocol A).
        """
        lag = self.lags.max_lag
        if first is None:
            padded = np.concatenate([np.repeat(inputs[:1], lag, axis=0), inputs])
            held = np.repeat(self.start_outputs[None], lag, axis=0)
            values = self._run(padded, held, draws)
            return self._forecast(values, 0, len(inputs), None)
        if len(inputs) <= lag:
            raise InputError(
                f"{len(inputs)} samples were given but the first {lag} only start the "
                "run (largest lag): give a longer record"
            )
        values = self._run(inputs, first[-lag:] if lag else first[:0], draws)
        return self._forecast(values, lag, len(inputs), None)

    def _run(self, inputs: Any, first: Any, draws: Draws) -> Values:
        """Run over ``inputs`` from the outputs of its first samples."""
        recursion, lag = self.recursion, self.lags.max_lag
        if np.isnan(inputs).any() or np.isnan(first).any():
            raise InputError(
                "a free run cannot cross a gap: there is a NaN in the inputs or in the "
                "outputs that start the run; simulate each of record.segments()"
            )
        u = self.scaling.scale_u(inputs)
        y = np.zeros((len(u), self.lags.n_outputs))
        y[:lag] = self.scaling.scale_y(first)
        with jax.enable_x64(True):
            z_u = jnp.asarray(regression_rows(recursion.input_table, lag, u, y))
            depth = min(recursion.output_lags, lag)
            past = output_history(y, np.array([lag]), depth)[0]
            past = (
                jnp.zeros(recursion.output_lags * y.shape[1]).at[: len(past)].set(past)
            )
            shape = (len(u) - lag, y.shape[1])

            def run(params: Params, e: Any) -> Any:
                return free_run(self.network, recursion, params, z_u, past, e)

            mean = np.asarray(run(self.params, jnp.zeros(shape)))
            return mean, *self._spread(run, shape, draws)

    def _spread(
        self, run: Any, shape: tuple[int, ...], draws: Draws
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the standard deviation of runs, and the part due to the weights.

        Noise goes through the model as it is. Weights go through its linearisation,
        unless asked otherwise: the posterior is Gaussian for the linearised model only,
        and draws along directions the data leave open would leave its range.
        """
        if draws.samples == 0:
            nothing = np.full(shape[-2:], np.nan)
            return nothing, nothing.copy()
        key_w, key_e = jax.random.split(jax.random.key(draws.seed))
        e = jax.random.normal(key_e, (draws.samples, *shape)) * jnp.sqrt(self.noise)
        still = jnp.zeros(shape)
        params = tuple(jnp.asarray(w) for w in self.params)

        def along(direction: Params) -> Any:
            if draws.sampled:
                there = tuple(p + d for p, d in zip(params, direction, strict=True))
                return run(there, still)
            return jax.jvp(lambda p: run(p, still), (params,), (direction,))[1]

        disturbed = jax.vmap(lambda e_k: run(params, e_k))(e)
        directions = self.posterior.sample(params, draws.samples, key=key_w)
        moved = width(jax.vmap(along)(directions))
        return np.hypot(width(disturbed), moved), moved

    # -- what it says of itself ----------------------------------------------------

    @property
    def best_log_evidence(self) -> float:
        """Log evidence of the standardised outputs; NaN for methods without one."""
        return self.log_evidence

    @property
    def evidences(self) -> NDArray[np.float64]:
        """Log evidence of all starts."""
        starts = self.details.get("starts", ())
        return np.array([start["log_evidence"] for start in starts], dtype=float)

    def described(self) -> str:
        """Return in a few words what it is."""
        if not self.network.hidden_axes:
            return "a linear model"
        widths = "-".join(str(n) for n in self.network.widths)
        start = "-".join(str(n) for n in self.start_widths)
        return f"a network {widths}, pruned from {start},"

    def structure_rows(self) -> list[Row]:
        """Return the lines of a summary about regressors and neurons."""
        network, start = self.network, self.start_widths
        widths = zip(network.widths[1:-1], start[1:-1], strict=True)
        neurons = [f"layer {k}: {n} of {m}" for k, (n, m) in enumerate(widths, 1)]
        path = ", and a linear path" if network.linear_path else ""
        kind = f" ({network.activation}{path})" if neurons else ""
        names = ", ".join(self.regressor_names) or "none: the model is a constant"
        return [
            ("regressors", f"{network.widths[0]} of {start[0]}: {names}"),
            ("neurons", (", ".join(neurons) or "none: a linear model") + kind),
            ("kept", f"{self.kept_text()}; biases not counted"),
        ]

    def noise_rows(self) -> list[Row]:
        """Return the lines of a summary about what predictions leave over."""
        return [("noise std", self.per_output(self.noise_std))]

    def quality_rows(self) -> list[Row]:
        """Return the lines of a summary about errors, evidence and outcome."""
        lines = self.noise_rows()
        errors = self.details.get("one_step_rmse")
        if errors is not None:
            lines.append(("one-step error", f"{self.per_output(errors)} (estimation)"))
        if math.isfinite(self.log_evidence):
            lines.append(("log evidence", f"{self.log_evidence:.2f}"))
        else:
            lines.append(("log evidence", "none: the method has no evidence"))
        effective = self._last("effective_weights")
        if effective is not None and effective > 0.0:
            lines.append(("effective weights", f"{effective:.1f}"))
        return [*lines, *self._start_rows(), self.outcome_row()]

    def _start_rows(self) -> list[Row]:
        if len(self.evidences) < 2:
            return []
        number = self.details["chosen_start"] + 1
        chosen = f"{len(self.evidences)}, number {number} chosen"
        found = self.evidences[np.isfinite(self.evidences)]
        if not found.size or not math.isfinite(self.log_evidence):
            return [("starts", chosen)]
        ends = f"from {found.min():.1f} to {found.max():.1f}"
        middle = f"median {np.median(found):.1f}"
        return [("starts", chosen), ("", f"log evidence {ends}, {middle}")]

    def table_rows(self) -> list[Row]:
        """Return the line about regressors."""
        return [("regressors", ", ".join(self.regressor_names) or "none")]

    def facts(self) -> dict[str, Any]:
        """Return structure and effective weights, as plain values."""
        return {
            "regressors": list(self.regressor_names),
            "widths": list(self.network.widths),
            "start_widths": list(self.start_widths),
            "activation": self.network.activation,
            "linear_path": self.network.linear_path,
            "effective_weights": self._last("effective_weights"),
        }

    def _last(self, key: str) -> float | None:
        values = self.history.get(key)
        return None if values is None or not len(values) else float(values[-1])

    def run_arrays(self) -> dict[str, Any]:
        """Return the arrays of a fit to the free run in a file; here none."""
        return {}

    def run_facts(self) -> dict[str, Any]:
        """Return the facts of a fit to the free run in a file; here none."""
        return {}

    # -- weights -------------------------------------------------------------------

    def drawing(self, member: int = 0) -> Drawing:
        """Return the network that is left."""
        names = list(self.regressor_names), list(self.channels.output_names)
        return Drawing(self.network, self.params, *names)

    def written(self, digits: Digits, member: int = 0) -> list[Equation]:
        """Return the equations."""
        from sparsid.results.equations import narx_equations

        return narx_equations(self, digits)

    def steps(self, draws: int, seed: int) -> Waiting:
        """Return the model as a step, with draws of it."""
        from sparsid.analysis.steps import narx_steps

        return narx_steps(self, draws, seed)

    def drawing_before(self, seed: int) -> Drawing | None:
        """Return the network before pruning, with the weights it was started with."""
        number = self.details.get("chosen_start", 0)
        network = Network(
            self.start_widths, self.network.activation, self.network.linear_path
        )
        with jax.enable_x64(True):
            key = jax.random.fold_in(jax.random.key(seed), number)
            return Drawing(network, network.init(key=key), [], [])

    def weights(self, member: int = 0) -> Weights:
        """Return the weights that are left."""
        return Weights(*block_weights(self.network.blocks, self.params), self.posterior)

    def layers(self, member: int = 0) -> Iterator[tuple[Places, list[Group]]]:
        """Yield the weights of each layer, and its regressors or neurons."""
        blocks = block_places(self.network.blocks, self.params)
        first = [blocks[name] for name in ("layer1", "linear") if name in blocks]
        rows = [
            np.concatenate([block[i] for block in first])
            for i in range(len(self.regressors))
        ]
        named = zip(self.regressor_names, rows, strict=True)
        groups = [Group("regressor", name, row) for name, row in named]
        yield np.concatenate([block.ravel() for block in first]), groups
        yield from neuron_layers(blocks)
