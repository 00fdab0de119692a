"""Noise of a free run: AR(1) plus white, whitened exactly.

What a simulation leaves over is what the model lacks and what disturbed the system: it
changes slowly. Counted as white noise, a thousand such residuals would pass for a
thousand independent facts, and the evidence would believe far too much. So

    v(t) = a(t) + e(t),   a(t+1) = phi a(t) + sqrt(1 - phi^2) w(t),
    var a = coloured,     var e = white,

one of each per output. A scalar Kalman filter turns ``v`` into independent innovations
of variance ``F(t)``; it is linear, so it whitens a derivative just as well, and a
sample that was not measured costs it nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Float

from sparsid.arrays import Array

# A correlation beyond this cannot be told from an offset in any record.
LARGEST_PHI = 0.999


class Noise(NamedTuple):
    """Noise per output, in unbounded coordinates.

    ``innovation`` is the variance of the coloured part's steps, ``(1 - phi^2)`` of its
    own: what a record says of it hardly depends on what it says of ``phi``.
    """

    log_white: Float[Array, " outputs"]
    log_innovation: Float[Array, " outputs"]
    logit_phi: Float[Array, " outputs"]

    @property
    def white(self) -> Array:
        """Variance of the white part."""
        return jnp.exp(self.log_white)

    @property
    def coloured(self) -> Array:
        """Variance of the AR(1) part."""
        return jnp.exp(self.log_innovation) / (1.0 - self.phi**2)

    @property
    def phi(self) -> Array:
        """Correlation of the AR(1) part from sample to sample."""
        return LARGEST_PHI * jax.nn.sigmoid(self.logit_phi)


def gains(
    noise: Noise, measured: Float[Array, "time outputs *lanes"]
) -> tuple[Array, Array]:
    """Return gain and innovation variance of the filter, as many as measurements.

    Runs side by side are further axes of ``measured``; the noise then has as many.
    """
    white, coloured, phi = noise.white, noise.coloured, noise.phi

    def advance(P: Array, seen: Array) -> tuple[Array, tuple[Array, Array]]:
        F = P + white
        gain = seen * P / F
        P_next = phi**2 * (1.0 - gain) * P + (1.0 - phi**2) * coloured
        return P_next, (gain, F)

    first = jnp.broadcast_to(coloured, measured.shape[1:])
    _, (gain, F) = jax.lax.scan(advance, first, measured)
    return gain, F


def whiten(
    noise: Noise,
    measured: Float[Array, "time outputs *lanes"],
    signals: Float[Array, "time outputs columns *lanes"],
) -> tuple[Float[Array, "time outputs columns *lanes"], Array]:
    """Return signals of unit independent noise, and the noise's log-determinant.

    Parameters
    ----------
    measured
        One where a sample was measured, zero where not: there the result is zero. Runs
        side by side are further axes; the noise then has as many.
    signals
        Residuals and derivatives, whitened column by column.
    """
    gain, F = gains(noise, measured)
    phi = noise.phi[:, None]

    def advance(a: Array, now: tuple[Array, Array]) -> tuple[Array, Array]:
        k, v = now
        innovation = v - a
        return phi * (a + k[:, None] * innovation), innovation

    start = jnp.zeros(signals.shape[1:], signals.dtype)
    _, innovations = jax.lax.scan(advance, start, (gain, signals))
    scale = measured / jnp.sqrt(F)
    log_det = (measured * jnp.log(F)).sum((0, 1))
    return innovations * scale[:, :, None], log_det


def predicted(
    noise: Noise,
    measured: Float[Array, "time outputs"],
    residual: Float[Array, "time outputs"],
    horizon: int,
) -> tuple[Array, Array]:
    """Return the coloured part expected ``horizon`` samples ahead, and the variance.

    Row ``t`` is for sample ``t``, from residuals up to ``t - horizon``; rows before
    the first such sample expect nothing.
    """
    gain, F = gains(noise, measured)
    phi = noise.phi

    def advance(a: Array, now: tuple[Array, Array]) -> tuple[Array, Array]:
        k, v = now
        return phi * (a + k * (v - a)), a

    _, a = jax.lax.scan(advance, jnp.zeros(residual.shape[1]), (gain, residual))
    ago = horizon - 1
    first = jnp.zeros((ago, residual.shape[1]))
    mean = jnp.concatenate([first, phi**ago * a[: len(a) - ago]])
    P = jnp.concatenate([first + noise.coloured, F[: len(F) - ago] - noise.white])
    spread = phi ** (2 * ago) * P + (1.0 - phi ** (2 * ago)) * noise.coloured
    return mean, spread + noise.white


def sampled(noise: Noise, length: int, *, key: Array) -> Float[Array, "time outputs"]:
    """Return a draw of the noise."""
    key_a, key_e = jax.random.split(key)
    shape = (length, len(noise.log_white))
    w = jnp.sqrt(noise.coloured) * jax.random.normal(key_a, shape)
    e = jnp.sqrt(noise.white) * jax.random.normal(key_e, shape)

    def advance(a: Array, w: Array) -> tuple[Array, Array]:
        return noise.phi * a + jnp.sqrt(1.0 - noise.phi**2) * w, a

    _, a = jax.lax.scan(advance, w[0], jnp.roll(w, -1, axis=0))
    return a + e
