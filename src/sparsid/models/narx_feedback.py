"""A NARX network fed with its own outputs, as a model of states.

The state is the window of past outputs; past inputs come as regressors with the input
table. A run begins with its *start outputs*, which are among the weights: it emits
them first, the oldest first, so that every measured sample counts exactly once, and
then goes on by itself::

    y(t) = start output                           while it settles
    y(t) = net(inputs(t), x(t))                   from there on
    x(t+1) = [y(t) + gain(t) (measured(t) - y(t)); x(t) without its oldest]

A gain of zero is the free run, a gain of one the one-step prediction. In between the
run is pulled towards what was measured: the way from one fit to the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from sparsid.arrays import Array
from sparsid.models.narx import Recursion
from sparsid.models.network import Block, Network, Params

WINDOWS, PAST = "windows", "past outputs"


class Rows(NamedTuple):
    """What a run is given at its samples, in one table."""

    z: Float[Array, "*time input_regressors"]
    settling: Float[Array, "*time 1"]
    gain: Float[Array, "*time outputs"]
    measured: Float[Array, "*time outputs"]

    @property
    def table(self) -> Array:
        """All columns side by side."""
        return jnp.concatenate(self, axis=-1)


@dataclass(frozen=True)
class Feedback:
    """The structure, without data.

    Parameters
    ----------
    recursion
        Where the network's regressors come from.
    windows
        Runs that the records are cut into: each has its own start outputs.
    """

    network: Network
    recursion: Recursion
    windows: int

    @property
    def outputs(self) -> int:
        """Number of outputs."""
        return self.network.widths[-1]

    @property
    def states(self) -> int:
        """Numbers in the window of past outputs."""
        return self.recursion.output_lags * self.outputs

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The weight arrays, in the order of the parameters."""
        return (*self.network.blocks, Block("start", WINDOWS, PAST, bias=False))

    def start(self, params: Params, record: Array) -> Array:
        """Return the start outputs of a window, which are among the weights."""
        return params[-1][record]

    def advance(self, params: Params, x: Array, u: Array) -> Array:
        """Return the next window of past outputs."""
        y, now = self.emit(params, x, u), self.rows(u)
        fed_back = y + now.gain * (now.measured - y)
        return jnp.concatenate([fed_back, x])[: x.size]

    def emit(self, params: Params, x: Array, u: Array) -> Array:
        """Return the outputs."""
        now = self.rows(u)
        source = np.asarray(self.recursion.source, dtype=int)
        z = jnp.concatenate([now.z, x])[source]
        y = self.network.apply(params[:-1], z[None])[0]
        return jnp.where(now.settling > 0, x[-self.outputs :], y)

    def rows(self, table: Array) -> Rows:
        """Return the parts of a table."""
        inputs, n = len(self.recursion.input_table), self.outputs
        ends = np.cumsum([inputs, 1, n])
        return Rows(*jnp.split(table, ends, axis=-1))
