"""A latent-state model that cannot run away.

    x+ = decay x + rate (C' x + B' u + net([x; u]))
    y  = the first states, held where the record shows that they saturate

``decay = exp(-rate exp(leak)/2)`` lies between zero and one, ``C`` lets a state act on
earlier ones only, and neurons grow less than in proportion to their inputs: whatever
the weights, a bounded input gives a bounded run. States are in units of standardised
outputs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from sparsid.arrays import Array
from sparsid.models.network import Block, Network, Params

STATES, INPUTS, RECORDS = "states", "inputs", "records"
# Time constants are looked for around ``1 / (rate * TYPICAL_LEAK)`` samples.
TYPICAL_LEAK = 0.5
# Prior variances that are not learnt: of log leaks, and of start states.
LEAK_VARIANCE, START_VARIANCE = 1.0, 4.0


class Steps(NamedTuple):
    """Derivative of the next state by the state and by all weights.

    By a weight of a layer that is not the last it is ``left[l][i] * right[l][s, j]``;
    all other weights, row by row, act on the state of their column alone: ``own``.
    """

    by_state: Float[Array, "*time state state *lanes"]
    left: tuple[Float[Array, "*time row *lanes"], ...]
    right: tuple[Float[Array, "*time state column *lanes"], ...]
    own: Float[Array, "*time row state *lanes"]


@dataclass(frozen=True)
class StateNetwork:
    """The structure, without data.

    Parameters
    ----------
    hidden
        Widths of the hidden layers of the network.
    records
        Estimation records: each has its own start state.
    rate
        Typical change from sample to sample, in standard deviations.
    floor, ceiling
        Where each scaled output saturates; infinite where it does not.
    """

    inputs: int
    outputs: int
    states: int
    hidden: tuple[int, ...]
    records: int
    rate: float
    floor: tuple[float, ...]
    ceiling: tuple[float, ...]
    activation: str = "softroot"

    @cached_property
    def network(self) -> Network:
        """What pushes the states, besides leak, coupling and drive."""
        widths = (self.states + self.inputs, *self.hidden, self.states)
        return Network(widths, self.activation)

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The weight arrays, in the order of the parameters."""
        return (
            *self.network.blocks,
            Block("drive", INPUTS, STATES, bias=False),
            Block("coupling", STATES, STATES, bias=False),
            Block("leak", "", STATES, bias=False),
            Block("start", RECORDS, STATES, bias=False),
        )

    @property
    def shapes(self) -> tuple[tuple[int, int], ...]:
        """Shape of every block, bias rows included."""
        n = self.states
        return (
            *self.network.shapes,
            (self.inputs, n),
            (n, n),
            (1, n),
            (self.records, n),
        )

    @property
    def couplings(self) -> NDArray[np.float64]:
        """One where a state (row) may act on another (column)."""
        return np.tril(np.ones((self.states, self.states)), -1)

    @property
    def bounds(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Lowest and highest value of each state."""
        hidden = [np.inf] * (self.states - self.outputs)
        return -np.array([*np.negative(self.floor), *hidden]), np.array(
            [*self.ceiling, *hidden]
        )

    def init(self, first: Float[Array, "records outputs"], *, key: Array) -> Params:
        """Return random weights, and start states at the first outputs."""
        keys = jax.random.split(key, 4)
        n, m = self.states, self.inputs
        drive = jax.random.normal(keys[1], (m, n), jnp.float64) / np.sqrt(max(m, 1))
        coupling = jax.random.normal(keys[2], (n, n), jnp.float64) / np.sqrt(n)
        leak = 0.5 * jax.random.normal(keys[3], (1, n), jnp.float64)
        start = jnp.zeros((self.records, n)).at[:, : self.outputs].set(first)
        layers = self.network.init(key=keys[0])
        return (*layers, drive, coupling * self.couplings, leak, start)

    def start(self, params: Params, record: Array) -> Array:
        """Return the start state of a record, which is among the weights."""
        return params[-1][record]

    def advance(self, params: Params, x: Array, u: Array) -> Array:
        """Return the next state.

        States and inputs may have further axes, for runs side by side; weights then
        have as many.
        """
        return jnp.clip(self._pushed(params, x, u)[-1], *self._limits(x))

    def emit(self, params: Params, x: Array, u: Array) -> Array:
        """Return the outputs at a state."""
        del params, u
        return self.seen(x[None])[0][0]

    def seen(self, X: Float[Array, "time states *lanes"]) -> tuple[Array, Array]:
        """Return the outputs along a run, and ones where they follow the states.

        At the very value where an output saturates it does not.
        """
        y = X[:, : self.outputs]
        low, high = (limit[: self.outputs] for limit in self._limits(y[0]))
        return jnp.clip(y, low, high), ((y > low) & (y < high)).astype(y.dtype)

    def derivatives(self, params: Params, x: Array, u: Array) -> Steps:
        """Return the derivatives of the next state, with axes as in ``advance``.

        Back-propagation through the layers from each state:
        ``right_l = (right_{l+1} W_{l+1}') o f'(h_l)``.
        """
        *layers, _, coupling, leak, _ = params
        inputs, pre, raw = self._pushed(params, x, u)
        low, high = self._limits(x)
        rate = self.rate * ((raw > low) & (raw < high)).astype(x.dtype)
        rights: list[Array] = []
        right = rate[:, None] * jnp.swapaxes(layers[-1][:-1], 0, 1)
        for k in range(len(layers) - 2, -1, -1):
            right = right * self.network.slope(pre[k], inputs[k + 1])
            rights.insert(0, right)
            right = (right[:, None] * layers[k][:-1]).sum(2)
        speed, decay = self._decay(leak)
        itself = np.eye(self.states).reshape(self.states, -1, *[1] * (x.ndim - 1))
        straight = decay[:, None] / self.rate * itself + jnp.swapaxes(coupling, 0, 1)
        signals = jnp.concatenate([_with_one(inputs[-1]), u, x])
        own = [signals[:, None] * rate, -(speed * decay / self.rate * rate * x)[None]]
        return Steps(
            right[:, : self.states] + rate[:, None] * straight,
            tuple(_with_one(a) for a in inputs[:-1]),
            tuple(rights),
            jnp.concatenate([*own, jnp.zeros_like(own[-1])]),
        )

    def _pushed(
        self, params: Params, x: Array, u: Array
    ) -> tuple[list[Array], list[Array], Array]:
        """Return inputs and pre-activations of the layers, and where it all leads.

        That is the next state, before it is held where it saturates.
        """
        *layers, drive, coupling, leak, _ = params
        inputs: list[Array] = [jnp.concatenate([x, u])]
        pre: list[Array] = []
        for W in layers:
            if pre:
                inputs.append(self.network.emit(pre[-1]))
            pre.append(_into(inputs[-1], W[:-1]) + W[-1])
        push = pre[-1] + _into(u, drive) + _into(x, coupling)
        return inputs, pre, self._decay(leak)[1] * x + self.rate * push

    def _decay(self, leak: Array) -> tuple[Array, Array]:
        """Return how fast states leak, and what is left of them after a step."""
        speed = self.rate * TYPICAL_LEAK * jnp.exp(leak[0])
        return speed, jnp.exp(-speed)

    def _limits(self, x: Array) -> tuple[Array, Array]:
        """Return the bounds of the states, to be compared with these."""
        axes = (-1, *[1] * (x.ndim - 1))
        low, high = self.bounds
        return low.reshape(axes), high.reshape(axes)


def _into(a: Array, W: Array) -> Array:
    """Return ``W' a``: so small a product is faster as one fused loop."""
    return (a[:, None] * W).sum(0)


def _with_one(a: Array) -> Array:
    return jnp.concatenate([a, jnp.ones_like(a[:1])])
