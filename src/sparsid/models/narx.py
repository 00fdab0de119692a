"""NARX structure: which past samples a network sees, and how it runs on its own output.

The model predicts ``y(t)`` from::

    u(t - d), u(t - d - 1), ..., u(t - d - n_a),  y(t - 1), ..., y(t - n_b)

with input delay ``d``, so "lag 5" of one input and one output is 11 regressors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from sparsid.arrays import Array
from sparsid.models.network import Network, Params


class Regressor(NamedTuple):
    """One lagged sample: which signal ("u" or "y"), which channel, how long ago."""

    signal: str
    channel: int
    lag: int


@dataclass(frozen=True)
class Lags:
    """The regressors of a NARX model with so many inputs and outputs.

    Parameters
    ----------
    input_lags, output_lags
        ``n_a`` and ``n_b``.
    delay
        Samples before an input can act; 0 includes ``u(t)``.
    """

    n_inputs: int
    n_outputs: int
    input_lags: int
    output_lags: int
    delay: int = 0

    @property
    def max_lag(self) -> int:
        """Number of samples before the first that can be predicted."""
        inputs = self.delay + self.input_lags if self.n_inputs else 0
        return max(inputs, self.output_lags)

    @property
    def table(self) -> tuple[Regressor, ...]:
        """All regressors in order: inputs before outputs, channel by channel."""
        return tuple(
            Regressor("u", channel, self.delay + lag)
            for channel in range(self.n_inputs)
            for lag in range(self.input_lags + 1)
        ) + tuple(
            Regressor("y", channel, lag)
            for channel in range(self.n_outputs)
            for lag in range(1, self.output_lags + 1)
        )


def regressor_name(
    regressor: Regressor, inputs: Sequence[str], outputs: Sequence[str]
) -> str:
    """Return a readable name such as ``level(t-2)``."""
    names = inputs if regressor.signal == "u" else outputs
    ago = f"-{regressor.lag}" if regressor.lag else ""
    return f"{names[regressor.channel]}(t{ago})"


def regression_rows(
    table: Sequence[Regressor],
    max_lag: int,
    u: Float[np.ndarray, "time inputs"],
    y: Float[np.ndarray, "time outputs"],
) -> Float[np.ndarray, "rows regressors"]:
    """Return the regressors of samples ``max_lag`` to the end."""
    time = np.arange(max_lag, len(y))
    columns = [(u if r.signal == "u" else y)[time - r.lag, r.channel] for r in table]
    return np.stack(columns, axis=1) if columns else np.zeros((len(time), 0))


class Recursion(NamedTuple):
    """Where each regressor of a run comes from.

    The regressors are read from one vector per sample: input regressors first, then the
    past outputs, ``y(t-1)`` of every channel, ``y(t-2)`` of every channel, and so on.
    """

    source: tuple[int, ...]
    input_table: tuple[Regressor, ...]
    output_lags: int

    @staticmethod
    def of(table: Sequence[Regressor], outputs: int) -> Recursion:
        """Return the recursion of the regressors in ``table``."""
        inputs = tuple(r for r in table if r.signal == "u")
        place = {r: k for k, r in enumerate(inputs)}
        depth = max([r.lag for r in table if r.signal == "y"], default=1)
        source = tuple(
            place[r]
            if r.signal == "u"
            else len(inputs) + (r.lag - 1) * outputs + r.channel
            for r in table
        )
        return Recursion(source, inputs, depth)


@partial(jax.jit, static_argnames=("network", "recursion"))
def free_run(
    network: Network,
    recursion: Recursion,
    params: Params,
    z_u: Float[Array, "time input_regressors"],
    history: Float[Array, " past"],
    disturbance: Float[Array, "time outputs"],
) -> Float[Array, "time outputs"]:
    """Return the outputs of the model fed with its own outputs.

    Parameters
    ----------
    z_u
        Input regressors at every sample of the run.
    history
        Past outputs at the first sample, latest first, channels together.
    disturbance
        Added to every output before it is fed back: zero, or a draw of the noise.
    """
    source = jnp.asarray(recursion.source, dtype=int)

    def advance(past: Array, now: tuple[Array, Array]) -> tuple[Array, Array]:
        z_now, e = now
        z = jnp.concatenate([z_now, past])[source]
        y = network.apply(params, z[None])[0] + e
        return jnp.concatenate([y, past])[: past.size], y

    return jax.lax.scan(advance, history, (z_u, disturbance), unroll=4)[1]


@partial(jax.jit, static_argnames=("network", "recursion", "horizon"))
def ahead(
    network: Network,
    recursion: Recursion,
    params: Params,
    z_u: Float[Array, "time input_regressors"],
    histories: Float[Array, "origins past"],
    disturbance: Float[Array, "horizon origins outputs"],
    horizon: int,
) -> Float[Array, "origins outputs"]:
    """Return outputs ``horizon`` samples ahead from many origins at once.

    Origin ``k`` has measured outputs up to sample ``k - 1`` of the run; the result is
    for sample ``k + horizon - 1``.
    """
    source = jnp.asarray(recursion.source, dtype=int)
    origins = len(histories)

    def advance(j: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        past, _ = carry
        z_now = jax.lax.dynamic_slice_in_dim(z_u, j, origins)
        z = jnp.concatenate([z_now, past], axis=1)[:, source]
        y = network.apply(params, z) + disturbance[j]
        return jnp.concatenate([y, past], axis=1)[:, : past.shape[1]], y

    start = (histories, jnp.zeros((origins, disturbance.shape[2])))
    return jax.lax.fori_loop(0, horizon, advance, start)[1]


def output_history(
    y: Float[np.ndarray, "time outputs"], at: NDArray[np.intp], depth: int
) -> Float[np.ndarray, "origins past"]:
    """Return the ``depth`` outputs before each sample in ``at``, latest first."""
    past = y[at[:, None] - np.arange(1, depth + 1)]
    return np.asarray(past.reshape(len(at), depth * y.shape[1]))
