"""Members of a latent-state model, fitted to the free run, as one model.

The centre is the median over members: one that strays does not move it. The spread is
what members say of their noise and weights, and how far they are apart.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from sparsid.arrays import Array
from sparsid.errors import InputError
from sparsid.forecasts import Channels, Forecast, over_segments
from sparsid.models.network import Params
from sparsid.models.state_space import START_VARIANCE, StateNetwork
from sparsid.noise import Noise, predicted, whiten
from sparsid.objectives import outputs, sensitivities
from sparsid.outcomes import Outcome
from sparsid.records import Record
from sparsid.scaling import Scaling
from sparsid.settings import LARGEST_LAG, whole

# Iterations that fit a start state; damping of the first.
START_STEPS, START_DAMPING = 15, 0.1


@dataclass(frozen=True, eq=False)
class Ensemble:
    """The result of a fit, in scaled units inside and the data's units outside.

    Attributes
    ----------
    params, noise, covariance, log_evidence
        Weights, noise, covariance of the weights and log evidence; the first axis of
        every array is the member.
    known
        Measured outputs that a start state is fitted to.
    dropped
        Starts that ended in nothing usable and are no members.
    """

    channels: Channels
    scaling: Scaling
    model: StateNetwork
    params: Params
    noise: Noise
    covariance: NDArray[np.float64]
    log_evidence: NDArray[np.float64]
    known: int
    dropped: int
    weights_kept: float
    weights_total: int
    outcome: Outcome
    history: dict[str, NDArray[np.float64]]
    details: dict[str, Any]

    def __len__(self) -> int:
        return len(self.log_evidence)

    @property
    def noise_std(self) -> NDArray[np.float64]:
        """Standard deviation of what a free run leaves over, median over members."""
        with jax.enable_x64(True):
            variance = np.asarray(self.noise.white + self.noise.coloured)
        return np.asarray(self.scaling.unscale_y_std(np.sqrt(np.median(variance, 0))))

    def member(self, k: int) -> Ensemble:
        """Return one member, as an ensemble of one."""
        k = range(len(self))[k]
        return replace(
            self,
            params=tuple(w[k : k + 1] for w in self.params),
            noise=Noise(*(c[k : k + 1] for c in self.noise)),
            covariance=self.covariance[k : k + 1],
            log_evidence=self.log_evidence[k : k + 1],
            dropped=0,
        )

    # -- use -----------------------------------------------------------------------

    def simulate(self, u: Any, y_init: Any = None, *, bands: bool = True) -> Forecast:
        """Return the free run.

        Parameters
        ----------
        u
            A record: each member's start state is fitted to its first ``known``
            outputs. Or inputs alone: the run starts from the state in which the first
            estimation record started.
        y_init
            Measured outputs of the first samples of ``u``, at least ``known``.
        bands
            Whether to compute standard deviations.
        """
        if isinstance(u, Record):
            if y_init is not None:
                raise InputError("a record carries its outputs: leave y_init out")
            self.channels.check(u)
            if np.isnan(u.u).any() or np.isnan(u.y[: self.known]).any():
                return over_segments(
                    u, self.known, lambda part: self.simulate(part, bands=bands)
                )
            inputs: Any = u.u
            first: Any = u.y[: self.known]
            if len(u) <= self.known:
                raise InputError(
                    f"the record has {len(u)} samples but the first {self.known} only "
                    "settle the start state: give a longer record"
                )
        else:
            inputs = self.channels.inputs(u)
            first = (
                None
                if y_init is None
                else self.channels.first_outputs(y_init, self.known)
            )
        if np.isnan(inputs).any():
            raise InputError(
                "a free run cannot cross a gap: there is a NaN in the inputs; simulate "
                "each of record.segments()"
            )
        start = 0 if first is None else self.known
        with jax.enable_x64(True):
            v = jnp.asarray(self.scaling.scale_u(inputs))
            params = self._started(v, first)
            runs, variance = self._runs(params, v, bands)
        noise = self._noise_variance() if bands else np.nan
        mean, std = _combined(runs, variance + noise)
        return self.channels.forecast(
            self.scaling, mean[start:], std[start:], start, len(inputs), None
        )

    def predict(self, record: Record, horizon: int = 1) -> Forecast:
        """Return predictions ``horizon`` samples ahead of the measured outputs.

        A prediction is the free run from the fitted start state, plus what the noise
        filter expects of the coloured residual from those before.
        """
        self.channels.check(record)
        horizon = whole("horizon", horizon, 1, LARGEST_LAG)
        start = self.known + horizon - 1
        if len(record) <= start:
            raise InputError(
                f"the record has {len(record)} samples but {start} are needed before "
                f"the first prediction ({self.known} settle the start state, horizon "
                f"{horizon}): give a longer record"
            )
        if np.isnan(record.u).any() or np.isnan(record.y[: self.known]).any():
            return over_segments(
                record, start, lambda part: self.predict(part, horizon)
            )
        with jax.enable_x64(True):
            u = jnp.asarray(self.scaling.scale_u(record.u))
            params = self._started(u, record.y[: self.known])
            runs, variance = self._runs(params, u, bands=True)
            y = self.scaling.scale_y(record.y)
            measured = jnp.asarray(~np.isnan(y), float)
            residual = jnp.nan_to_num(jnp.asarray(y) - runs)
            expected, spread = jax.vmap(
                lambda noise, r: predicted(noise, measured, r, horizon)
            )(self.noise, residual)
        runs = np.clip(
            runs + np.asarray(expected), self.model.floor, self.model.ceiling
        )
        # The filter has seen what the weights get wrong; what is left of that is in
        # the residual's own spread.
        mean, std = _combined(runs, 0.0 * variance + np.asarray(spread))
        return self.channels.forecast(
            self.scaling, mean[start:], std[start:], start, len(record), horizon
        )

    # -- pieces --------------------------------------------------------------------

    def _started(self, u: Array, first: Any) -> Params:
        """Return the weights with start states fitted to the first outputs."""
        start = self.params[-1][:, :1]
        if first is not None:
            y = jnp.asarray(self.scaling.scale_y(first))
            start = _fitted_starts(
                self.model, self.params, self.noise, u[: len(y)], y, start[:, 0]
            )[:, None]
        return (*self.params[:-1], start)

    def _runs(self, params: Params, u: Array, bands: bool) -> tuple[Any, Any]:
        """Return the members' runs, and the variance that their weights cause."""
        if not bands:
            runs = np.asarray(_member_runs(self.model, params, u))
            return runs, np.full(runs.shape, np.nan)
        weights = sum(w[0].size for w in params)
        shape = self.covariance[:, :weights, :weights]
        runs, variance = _member_bands(self.model, params, u, jnp.asarray(shape))
        return np.asarray(runs), np.asarray(variance)

    def _noise_variance(self) -> Any:
        with jax.enable_x64(True):
            return np.asarray(self.noise.white + self.noise.coloured)[:, None]


def _combined(runs: Any, variance: Any) -> tuple[Any, Any]:
    """Return the median of the runs, and their own and mutual spread as one."""
    low, mean, high = np.quantile(runs, (0.158655, 0.5, 0.841345), axis=0)
    own = np.median(np.broadcast_to(variance, runs.shape), axis=0)
    return mean, np.sqrt(own + ((high - low) / 2.0) ** 2)


@partial(jax.jit, static_argnames="model")
def _member_runs(model: StateNetwork, params: Params, u: Array) -> Array:
    return jax.vmap(lambda p: outputs(model, p, p[-1][0], u))(params)


@partial(jax.jit, static_argnames="model")
def _member_bands(
    model: StateNetwork, params: Params, u: Array, covariance: Array
) -> tuple[Array, Array]:
    """Return runs and their variance by the weights, member after member."""

    def one(member: tuple[Params, Array]) -> tuple[Array, Array]:
        weights, C = member
        y, J = sensitivities(model, weights, jnp.array(0), jnp.zeros(0), u)
        return y, ((J @ C) * J).sum(-1)

    runs, variance = jax.lax.map(one, (params, covariance))
    return runs, variance


@partial(jax.jit, static_argnames="model")
def _fitted_starts(
    model: StateNetwork, params: Params, noise: Noise, u: Array, y: Array, start: Array
) -> Array:
    """Return each member's state at the first sample, fitted to the outputs ``y``."""
    measured = jnp.asarray(~jnp.isnan(y), y.dtype)

    def one(weights: Params, noise: Noise, x: Array) -> Array:
        centre = x

        def residual(x: Array) -> Array:
            r = jnp.nan_to_num(y - outputs(model, weights, x, u))
            fit = whiten(noise, measured, r[..., None])[0].ravel()
            return jnp.concatenate([fit, (x - centre) / np.sqrt(START_VARIANCE)])

        def improve(_: int, carry: tuple[Array, Array]) -> tuple[Array, Array]:
            x, damping = carry
            r, J = residual(x), jax.jacfwd(residual)(x)
            B = J.T @ J
            d = jnp.linalg.solve(B + damping * jnp.diag(jnp.diagonal(B)), -J.T @ r)
            better = (residual(x + d) ** 2).sum() < (r**2).sum()
            return jnp.where(better, x + d, x), damping * jnp.where(better, 0.2, 5.0)

        x = x.at[: model.outputs].set(jnp.nan_to_num(y[0]))
        return jax.lax.fori_loop(0, START_STEPS, improve, (x, START_DAMPING))[0]

    return jax.vmap(one)(params, noise, start)
