"""A fitted NARX model: immutable, and all that prediction and simulation need."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

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
from sparsid.outcomes import Outcome
from sparsid.posterior import Posterior
from sparsid.records import Record
from sparsid.scaling import Scaling
from sparsid.settings import LARGEST_LAG, whole

# A run is called diverged when an output is this many standard deviations of the
# estimation record away from its mean.
DIVERGED = 100.0


@dataclass(frozen=True)
class Channels:
    """Names, units and sampling time of the records a model was estimated from."""

    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
    input_units: tuple[str, ...]
    output_units: tuple[str, ...]
    dt: float

    @staticmethod
    def of(record: Record) -> Channels:
        """Return the channels of a record."""
        return Channels(
            tuple(record.input_names),
            tuple(record.output_names),
            tuple(record.input_units),
            tuple(record.output_units),
            float(record.dt),
        )


@dataclass(frozen=True, eq=False)
class Forecast:
    """Predicted or simulated outputs, aligned with the record they are for.

    Attributes
    ----------
    mean, std
        (time, output) in the data's units; NaN before ``start``. ``std`` is that of a
        new measurement: noise and weight uncertainty together.
    start
        First sample that is a forecast.
    horizon
        Samples ahead, None for a free run.
    diverged_at
        Sample at which the run left all bounds, None if it did not; NaN from there on.
    """

    mean: Float[np.ndarray, "time outputs"]
    std: Float[np.ndarray, "time outputs"]
    start: int
    horizon: int | None
    diverged_at: int | None
    output_names: tuple[str, ...]
    output_units: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Fitted:
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
    weights_kept, weights_total
        Number of weights left and at the start, biases not counted.
    """

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
    def recursion(self) -> Recursion:
        """Where the regressors come from in a run."""
        return Recursion.of(self.regressors, self.lags.n_outputs)

    # -- prediction ----------------------------------------------------------------

    def predict(
        self, record: Record, horizon: int = 1, *, samples: int = 100, seed: int = 0
    ) -> Forecast:
        """Return predictions ``horizon`` samples ahead of the measured outputs.

        One step ahead the standard deviation is that of the linearised model; further
        ahead it comes from ``samples`` draws of weights and noise. After a gap there is
        no prediction until all lags have been measured again.
        """
        self._check(record)
        horizon = whole("horizon", horizon, 1, LARGEST_LAG)
        _check_draws(samples, seed)
        start = self.lags.max_lag + horizon - 1
        if len(record) <= start:
            raise InputError(
                f"the record has {len(record)} samples but {start} are needed before "
                f"the first prediction (largest lag {self.lags.max_lag}, horizon "
                f"{horizon}): give a longer record"
            )
        u, y = self.scaling.scale_u(record.u), self.scaling.scale_y(record.y)
        with jax.enable_x64(True):
            if horizon == 1:
                z = regression_rows(self.regressors, self.lags.max_lag, u, y)
                mean, std = self._one_step(z)
            else:
                mean, std = self._ahead(u, y, horizon, samples, seed)
        return self._forecast(mean, std, start, len(record), horizon)

    def _one_step(self, z: NDArray[np.float64]) -> tuple[Any, Any]:
        mean, factors = self.network.factors(self.params, jnp.asarray(z))
        variance = self.posterior.predictive_variance(factors)
        return np.asarray(mean), np.sqrt(np.asarray(variance) + self.noise)

    def _ahead(
        self, u: Any, y: Any, horizon: int, samples: int, seed: int
    ) -> tuple[Any, Any]:
        recursion, lag = self.recursion, self.lags.max_lag
        z_u = jnp.asarray(regression_rows(recursion.input_table, lag, u, y))
        origins = np.arange(lag, len(y) - horizon + 1)
        past = jnp.asarray(output_history(y, origins, recursion.output_lags))
        shape = (horizon, len(origins), y.shape[1])

        def run(params: Params, e: Any) -> Any:
            return ahead(self.network, recursion, params, z_u, past, e, horizon)

        mean = run(self.params, jnp.zeros(shape))
        return np.asarray(mean), self._spread(run, shape, samples, seed)

    # -- simulation ----------------------------------------------------------------

    def simulate(
        self,
        u: Any,
        y_init: Any = None,
        *,
        samples: int = 100,
        seed: int = 0,
    ) -> Forecast:
        """Return the free run of the model.

        Parameters
        ----------
        u
            A record: the run starts from its first measured outputs; where inputs are
            missing it starts again after the gap. Or inputs alone.
        y_init
            Measured outputs of the first samples of ``u``, at least the largest lag.
            Without them a run from inputs alone starts at sample 0 as the estimation
            record started: its first outputs, held before the run, and the first
            inputs held likewise (protocol A).
        samples
            Draws of weights and noise for the standard deviation; 0 leaves it NaN.
        """
        lag = self.lags.max_lag
        _check_draws(samples, seed)
        if isinstance(u, Record):
            if y_init is not None:
                raise InputError("a record carries its outputs: leave y_init out")
            self._check(u)
            if np.isnan(u.u).any() or np.isnan(u.y[:lag]).any():
                return over_segments(
                    u, lag, lambda part: self.simulate(part, samples=samples, seed=seed)
                )
            inputs: Any = u.u
            first: Any = u.y[:lag]
        else:
            inputs = self._inputs(u)
            first = None if y_init is None else self._first_outputs(y_init)
        if first is None:
            padded = np.concatenate([np.repeat(inputs[:1], lag, axis=0), inputs])
            held = np.repeat(self.start_outputs[None], lag, axis=0)
            mean, std = self._run(padded, held, samples, seed)
            return self._forecast(mean, std, 0, len(inputs), None)
        if len(inputs) <= lag:
            raise InputError(
                f"{len(inputs)} samples were given but the first {lag} only start the "
                "run (largest lag): give a longer record"
            )
        mean, std = self._run(inputs, first[-lag:] if lag else first[:0], samples, seed)
        return self._forecast(mean, std, lag, len(inputs), None)

    def _run(self, inputs: Any, first: Any, samples: int, seed: int) -> tuple[Any, Any]:
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
            return mean, self._spread(run, shape, samples, seed)

    def _spread(
        self, run: Any, shape: tuple[int, ...], samples: int, seed: int
    ) -> NDArray[np.float64]:
        """Return the standard deviation of runs with drawn noise and weights.

        Noise goes through the model as it is. Weights go through its linearisation:
        the posterior is Gaussian for the linearised model only, and draws along
        directions the data leave open would otherwise leave its range.
        """
        if samples == 0:
            return np.full(shape[-2:], np.nan)
        key_w, key_e = jax.random.split(jax.random.key(seed))
        e = jax.random.normal(key_e, (samples, *shape)) * jnp.sqrt(self.noise)
        still = jnp.zeros(shape)
        params = tuple(jnp.asarray(w) for w in self.params)

        def along(direction: Params) -> Any:
            return jax.jvp(lambda p: run(p, still), (params,), (direction,))[1]

        disturbed = jax.vmap(lambda e_k: run(params, e_k))(e)
        moved = jax.vmap(along)(self.posterior.sample(params, samples, key=key_w))
        return np.hypot(_width(disturbed), _width(moved))

    # -- pieces --------------------------------------------------------------------

    def _forecast(
        self, mean: Any, std: Any, start: int, length: int, horizon: int | None
    ) -> Forecast:
        mean, std = np.array(mean), np.array(std)
        if horizon is None:
            # A free run does not come back.
            wild = np.logical_or.accumulate(~(np.abs(mean) < DIVERGED).all(1))
        else:
            # NaN is no divergence here: some lag was not measured.
            wild = (np.abs(mean) >= DIVERGED).any(1)
        diverged_at = start + int(np.argmax(wild)) if wild.any() else None
        mean[wild] = np.nan
        std[np.isnan(mean)] = np.nan
        full = np.full((2, length, self.lags.n_outputs), np.nan)
        full[0, start:] = self.scaling.unscale_y(mean)
        full[1, start:] = self.scaling.unscale_y_std(std)
        return Forecast(
            full[0],
            full[1],
            start,
            horizon,
            diverged_at,
            self.channels.output_names,
            self.channels.output_units,
        )

    def _check(self, record: Record) -> None:
        if not isinstance(record, Record):
            raise InputError(
                f"a Record was expected, not {type(record).__name__}: wrap the signals "
                "in sparsid.Record(u, y, dt)"
            )
        if (record.n_inputs, record.n_outputs) != (
            self.lags.n_inputs,
            self.lags.n_outputs,
        ):
            raise InputError(
                f"the record has {record.n_inputs} inputs and {record.n_outputs} "
                f"outputs but the model has {self.lags.n_inputs} and "
                f"{self.lags.n_outputs}: choose the same columns"
            )
        for what in ("input_names", "output_names"):
            given, own = getattr(record, what), getattr(self.channels, what)
            unnamed = _plain(given) or _plain(own)
            if given != own and (sorted(given) == sorted(own) or not unnamed):
                raise InputError(
                    f"the record has {what} {', '.join(given)} but the model "
                    f"{', '.join(own)}: give the same channels in the same order"
                )
        if not np.isclose(record.dt, self.channels.dt, rtol=1e-3, atol=0.0):
            raise InputError(
                f"the record is sampled every {record.dt:g} but the model every "
                f"{self.channels.dt:g}: resample the record"
            )

    def _inputs(self, u: Any) -> NDArray[np.float64]:
        if not hasattr(u, "__len__"):
            raise InputError(
                f"u is a {type(u).__name__}: give a Record, or inputs as array or table"
            )
        names = self.channels.input_names
        outputs = np.zeros((len(u), 1))
        shaped = Record(u, outputs, self.channels.dt, output_names=_unlike(names)).u
        if shaped.shape[1] != self.lags.n_inputs:
            raise InputError(
                f"u has {shaped.shape[1]} channels but the model has "
                f"{self.lags.n_inputs} inputs"
            )
        return shaped

    def _first_outputs(self, y_init: Any) -> NDArray[np.float64]:
        lag = self.lags.max_lag
        try:
            y = np.asarray(y_init, dtype=float)
        except (TypeError, ValueError) as error:
            raise InputError(
                f"y_init holds something that is no number: {error}"
            ) from error
        if np.isinf(y).any():
            raise InputError("y_init holds an infinite value")
        y = y[:, None] if y.ndim == 1 else y
        if y.ndim != 2 or y.shape[1] != self.lags.n_outputs or len(y) < lag:
            raise InputError(
                f"y_init has shape {np.shape(y_init)} but at least {lag} samples of "
                f"{self.lags.n_outputs} outputs are needed (the largest lag)"
            )
        return y[:lag]


def over_segments(
    record: Record, lag: int, forecast: Callable[[Record], Forecast]
) -> Forecast:
    """Return the forecasts over all gap-free stretches as one, NaN between them.

    Stretches not longer than ``lag`` have none.
    """
    values = np.full((2, *record.y.shape), np.nan)
    parts = []
    for segment in record.segments():
        if len(segment) <= max(lag, 1):
            continue
        at = segment.start - record.start
        part = forecast(segment)
        values[:, at : at + len(segment)] = part.mean, part.std
        parts.append((at, part))
    diverged = [at + p.diverged_at for at, p in parts if p.diverged_at is not None]
    return Forecast(
        values[0],
        values[1],
        min([at + p.start for at, p in parts], default=len(record)),
        parts[0][1].horizon if parts else None,
        min(diverged, default=None),
        record.output_names,
        record.output_units,
    )


def _check_draws(samples: int, seed: int) -> None:
    whole("samples", samples, 0, 1_000_000)
    if samples == 1:
        raise InputError("samples=1 has no spread: give 0 for none, or 2 or more")
    whole("seed", seed, 0, 2**32 - 1)


def _plain(names: tuple[str, ...]) -> bool:
    """Return whether names are those a record gives to channels without one."""
    return all(re.fullmatch(r"[uy]\d*", name) for name in names)


def _unlike(names: tuple[str, ...]) -> str:
    """Return a name that is not taken."""
    return "y" + "'" * (1 + max((len(name) for name in names), default=0))


def _width(runs: Any) -> NDArray[np.float64]:
    """Return half the central 68 % of runs, the standard deviation of a Gaussian.

    One run that runs away does not move it.
    """
    runs = np.nan_to_num(
        np.asarray(runs), nan=DIVERGED, posinf=DIVERGED, neginf=-DIVERGED
    )
    low, high = np.quantile(np.clip(runs, -DIVERGED, DIVERGED), (0.158655, 0.841345), 0)
    return np.asarray((high - low) / 2.0)
