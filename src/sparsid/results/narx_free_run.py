"""A NARX model fitted to its free run: noise at the output, not in the feedback."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from sparsid.arrays import Array
from sparsid.bayes.noise import Noise, predicted, sampled
from sparsid.data.record import Record
from sparsid.models.narx import Recursion, free_run, output_history, regression_rows
from sparsid.models.network import Network, Params
from sparsid.results.forecast import Draws, Forecast, over_stretches, width
from sparsid.results.narx import Fitted, Values
from sparsid.results.noise_texts import free_run_rows, noise_facts
from sparsid.results.texts import Row, counted


@dataclass(frozen=True, eq=False, kw_only=True)
class RunFitted(Fitted):
    """The result of a fit to the free run.

    ``noise`` is the variance of what the run leaves over, its parts together.

    Attributes
    ----------
    window
        Most samples of a run in the fit; None: the whole record.
    parts
        White and coloured part of the noise, scaled units.
    starts, start_std
        Fitted outputs at the start of every window, (window, lag, output), the latest
        first, and their standard deviations, scaled units.
    """

    window: int | None
    parts: Noise
    starts: NDArray[np.float64]
    start_std: NDArray[np.float64]

    @property
    def noise_parts(self) -> tuple[NDArray[np.float64], ...]:
        """Deviations of the white and the coloured part, and the correlation of that.

        Per output, in the data's units.
        """
        with jax.enable_x64(True):
            parts = [self.parts.white, self.parts.coloured, self.parts.phi]
        white, coloured, phi = (np.asarray(p) for p in parts)
        scale = self.scaling.unscale_y_std
        return scale(np.sqrt(white)), scale(np.sqrt(coloured)), phi

    def noise_rows(self) -> list[Row]:
        """Return the lines of a summary about objective, noise and free run."""
        objective = "free run over each record"
        if self.window is not None:
            windows = counted(len(self.starts), "window")
            objective = f"free runs over {windows} of at most {self.window} samples"
        return [("objective", objective), *free_run_rows(self, self.noise_parts)]

    def facts(self) -> dict[str, Any]:
        """Return structure and noise, as plain values."""
        return {**super().facts(), **noise_facts(self.noise_parts)}

    def run_arrays(self) -> dict[str, Any]:
        """Return what a file holds of a fit to the free run, as arrays."""
        noise = {f"noise.{k}": v for k, v in self.parts._asdict().items()}
        return {**noise, "starts": self.starts, "start_std": self.start_std}

    def run_facts(self) -> dict[str, Any]:
        """Return what a file holds of a fit to the free run, as JSON."""
        return {"window": self.window}

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

        A prediction is the free run from the first measured outputs, plus what the
        noise filter expects of the residual from those before. The network itself is
        no predictor here: fed with measured outputs it would take their noise for
        motion. The standard deviation is that of the filter; nothing is drawn.
        """
        start = self._prediction_start(record, horizon)
        Draws(samples, seed, sampled).checked()
        lag = self.lags.max_lag
        if np.isnan(record.u).any() or np.isnan(record.y[:lag]).any():
            return over_stretches(
                record, start, lambda part: self.predict(part, horizon), lag
            )
        run, _, _ = self._run(record.u, record.y[:lag], Draws(0, 0, False))
        y = self.scaling.scale_y(record.y)[lag:]
        with jax.enable_x64(True):
            measured = jnp.asarray(~np.isnan(y), float)
            residual = jnp.nan_to_num(jnp.asarray(y - run))
            expected, variance = _predicted(self.parts, measured, residual, horizon)
        mean, std = run + np.asarray(expected), np.sqrt(np.asarray(variance))
        std = np.broadcast_to(std, mean.shape)
        # What the weights get wrong is in the residual that the filter has followed.
        late = slice(horizon - 1, None)
        values = (mean[late], std[late], np.zeros_like(mean[late]))
        return self._forecast(values, start, len(record), horizon)

    def _run(self, inputs: Any, first: Any, draws: Draws) -> Values:
        """Run over ``inputs`` from the outputs of its first samples."""
        mean, std, model_std = super()._run(inputs, first, draws._replace(samples=0))
        if draws.samples == 0:
            return mean, std, model_std
        recursion, lag = self.recursion, self.lags.max_lag
        u = self.scaling.scale_u(inputs)
        y = np.zeros((len(u), self.lags.n_outputs))
        y[:lag] = self.scaling.scale_y(first)
        with jax.enable_x64(True):
            z_u = regression_rows(recursion.input_table, lag, u, y)
            # One that is not fed back still has a place in the run.
            y = np.pad(y, ((1, 0), (0, 0))) if not lag else y
            past = output_history(y, np.array([max(lag, 1)]), recursion.output_lags)[0]
            key_w, key_e = jax.random.split(jax.random.key(draws.seed))
            params = tuple(jnp.asarray(w) for w in self.params)
            moved, noisy = _drawn_runs(
                self.network,
                recursion,
                params,
                self.posterior.sample(params, draws.samples, key=key_w),
                self.parts,
                jnp.asarray(z_u),
                jnp.asarray(past),
                jax.random.split(key_e, draws.samples),
                draws.sampled,
            )
        return mean, width(noisy), width(moved)


_predicted = jax.jit(predicted, static_argnames="horizon")


@partial(jax.jit, static_argnames=("network", "recursion", "through"))
def _drawn_runs(
    network: Network,
    recursion: Recursion,
    params: Params,
    directions: Params,
    noise: Noise,
    z_u: Array,
    past: Array,
    keys: Array,
    through: bool,
) -> tuple[Array, Array]:
    """Return runs with drawn weights, and as new measurements would show them.

    The outputs that start a run were measured with the same noise, so the run starts
    without it. Both go through the linearised model, as the posterior is Gaussian for
    that alone, or if asked through the model itself.
    """
    length, depth = len(z_u), recursion.output_lags
    still = jnp.zeros((length, network.widths[-1]))

    def run(params: Params, past: Array) -> Array:
        return free_run(network, recursion, params, z_u, past, still)

    def one(direction: Params, key: Array) -> tuple[Array, Array]:
        v = sampled(noise, depth + length, key=key)
        back = -v[:depth][::-1].ravel()
        if through:
            there = tuple(p + d for p, d in zip(params, direction, strict=True))
            moved = run(there, past + back)
        else:
            mean, change = jax.jvp(run, (params, past), (direction, back))
            moved = mean + change
        return moved, moved + v[depth:]

    runs: tuple[Array, Array] = jax.vmap(one)(directions, keys)
    return runs
