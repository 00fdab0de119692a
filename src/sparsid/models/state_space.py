"""A latent-state model that cannot run away.

    x+ = decay x + rate (C x + B' u + W2' tanh(W1' [x; u; 1]) + b2)
    y  = the first states, no higher than the sensor goes

``decay = exp(-rate exp(leak))`` lies between zero and one, ``C`` couples a state to
earlier ones only, and tanh is bounded: whatever the weights, a bounded input gives a
bounded run. States are in units of standardised outputs.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from sparsid.arrays import Array
from sparsid.models.network import Block, Params
from sparsid.priors import BlockPrior, Prior

STATES, INPUTS, HIDDEN, RECORDS = "states", "inputs", "hidden", "records"
# Time constants are looked for around ``1 / (rate * TYPICAL_LEAK)`` samples.
TYPICAL_LEAK = 0.5
# Prior variances that are not learnt: of log leaks, and of start states.
LEAK_VARIANCE, START_VARIANCE = 1.0, 4.0


@dataclass(frozen=True)
class StateNetwork:
    """The structure, without data.

    Parameters
    ----------
    rate
        Typical change of an output from sample to sample, in its standard deviations.
    ceiling
        Where each scaled output saturates; infinite where it does not.
    saturate
        ``"state"``: what is over the ceiling is lost. ``"output"``: it is not seen.
    """

    inputs: int
    outputs: int
    states: int
    hidden: int
    records: int
    rate: float
    ceiling: tuple[float, ...]
    saturate: str = "state"

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The weight arrays, in the order of the parameters."""
        return (
            Block("layer1", STATES + "+" + INPUTS, HIDDEN, bias=True),
            Block("layer2", HIDDEN, STATES, bias=True),
            Block("drive", INPUTS, STATES, bias=False),
            Block("coupling", STATES, STATES, bias=False),
            Block("leak", "", STATES, bias=False),
            Block("start", RECORDS, STATES, bias=False),
        )

    @property
    def shapes(self) -> tuple[tuple[int, int], ...]:
        """Shape of every block, bias row included."""
        n, m, h = self.states, self.inputs, self.hidden
        return ((n + m + 1, h), (h + 1, n), (m, n), (n, n), (1, n), (self.records, n))

    @property
    def above(self) -> np.ndarray:
        """Where a state (row) may act on another (column)."""
        return np.tril(np.ones((self.states, self.states)), -1)

    def init(self, first: Float[Array, "records outputs"], *, key: Array) -> Params:
        """Return random weights, and start states at the first outputs."""
        keys = jax.random.split(key, 6)
        draws = [
            jax.random.normal(k, s, jnp.float64) / np.sqrt(max(s[0], 1))
            for k, s in zip(keys, self.shapes, strict=True)
        ]
        leak = jax.random.normal(keys[4], self.shapes[4], jnp.float64) * 0.5
        start = jnp.zeros(self.shapes[5]).at[:, : self.outputs].set(first)
        return (*draws[:3], draws[3] * self.above, leak, start)

    def start_prior(self, kind: str) -> Prior:
        """Return the prior that a fit begins with."""
        made = []
        for block, shape in zip(self.blocks, self.shapes, strict=True):
            variance = jnp.full(shape, 1.0 / max(shape[0] - block.bias, 1))
            if block.name == "coupling":
                variance = variance * self.above
            if block.name == "leak":
                variance = jnp.full(shape, LEAK_VARIANCE)
            if block.name == "start":
                variance = jnp.full(shape, START_VARIANCE)
            fixed = block.name in ("leak", "start")
            own = "fixed" if fixed else ("shape" if "layer" not in block.name else kind)
            if own in ("shape", "fixed"):
                rows, columns = jnp.ones(shape[0]), jnp.ones(shape[1])
                made.append(BlockPrior(rows, columns, variance, own, block.bias))
            else:
                rows = jnp.full(shape[0], variance[0, 0])
                columns = jnp.ones(shape[1])
                if own == "column":
                    rows, columns = jnp.ones(shape[0]), columns * variance[0, 0]
                made.append(BlockPrior(rows, columns, None, own, block.bias))
        return tuple(made)

    def advance(self, params: Params, x: Array, u: Array) -> Array:
        """Return the next state."""
        W1, W2, drive, coupling, leak, _ = params
        z = jnp.concatenate([x, u, jnp.ones(1, x.dtype)])
        a = jnp.tanh(z @ W1)
        decay = jnp.exp(-self.rate * TYPICAL_LEAK * jnp.exp(leak[0]))
        push = u @ drive + x @ coupling + a @ W2[:-1] + W2[-1]
        x_next = decay * x + self.rate * push
        if self.saturate == "state":
            top = np.full(self.states, np.inf)
            top[: self.outputs] = self.ceiling
            x_next = jnp.minimum(x_next, top)
        return x_next

    def emit(self, params: Params, x: Array, u: Array) -> Array:
        """Return the outputs at a state."""
        return jnp.minimum(x[: self.outputs], np.array(self.ceiling))
