"""Multi-layer perceptron as blocks of weights over named axes.

Every weight array of a model is a *block*: a matrix whose rows are indexed by one
named axis and whose columns by another. The regressors, the neurons of a hidden
layer and the outputs are such axes, and neighbouring blocks share them. Row and
column groups, removal and folding all read this table.

The functions here take NumPy or JAX arrays alike and answer in kind: compiled inside
the fit, plain NumPy in the moves between, where compiling for every new size would cost
more than the work.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Float

from sparsid.arrays import Array, namespace
from sparsid.errors import InputError

Params = tuple[Array, ...]

REGRESSORS = "regressors"
OUTPUTS = "outputs"


def _sigmoid(xp: Any, h: Array) -> Array:
    made: Array = 0.5 * (1.0 + xp.tanh(0.5 * h))
    return made


def _softroot(xp: Any, h: Array) -> Array:
    """Nothing on one side, a square root on the other: (1 + log(1 + exp h))^1/2 - 1."""
    made: Array = _smooth_softroot(h) if xp is jnp else _plain_softroot(xp, h)
    return made


def _plain_softroot(xp: Any, h: Array) -> Array:
    made: Array = xp.sqrt(1.0 + xp.logaddexp(h, 0.0)) - 1.0
    return made


def _softroot_slope(xp: Any, h: Array, a: Array) -> Array:
    made: Array = _sigmoid(xp, h) / (2.0 * (1.0 + a))
    return made


# The derivative by its formula takes a third of the time of differentiated code.
_smooth_softroot = jax.custom_jvp(partial(_plain_softroot, jnp))


@_smooth_softroot.defjvp
def _(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    a = _smooth_softroot(*primals)
    return a, _softroot_slope(jnp, *primals, a) * tangents[0]


# f(h), and f', f'' as functions of h and a = f(h); xp is the array namespace.
_Derivative = Callable[[Any, Array, Array], Array]
_ACTIVATIONS: dict[str, tuple[Callable[[Any, Array], Array], _Derivative, _Derivative]]
_ACTIVATIONS = {
    "tanh": (
        lambda xp, h: xp.tanh(h),
        lambda xp, h, a: 1.0 - a**2,
        lambda xp, h, a: -2.0 * a * (1.0 - a**2),
    ),
    "sigmoid": (
        _sigmoid,
        lambda xp, h, a: a * (1.0 - a),
        lambda xp, h, a: a * (1.0 - a) * (1.0 - 2.0 * a),
    ),
    "softroot": (
        _softroot,
        _softroot_slope,
        lambda xp, h, a: (
            _sigmoid(xp, h)
            * (1.0 - _sigmoid(xp, h) * (1.0 + 0.5 / (1.0 + a) ** 2))
            / (2.0 * (1.0 + a))
        ),
    ),
    "relu": (
        lambda xp, h: xp.maximum(h, xp.zeros_like(h)),
        lambda xp, h, a: xp.where(h > 0.0, xp.ones_like(h), xp.zeros_like(h)),
        lambda xp, h, a: xp.zeros_like(h),
    ),
}
ACTIVATIONS = tuple(_ACTIVATIONS)
# Those whose output grows less than in proportion to their input.
SUBLINEAR = ("tanh", "sigmoid", "softroot")


@dataclass(frozen=True)
class Block:
    """One weight array: its name, its two axes, and whether its last row is a bias."""

    name: str
    rows: str
    columns: str
    bias: bool


class Factors(NamedTuple):
    """Derivative of the outputs with respect to every block, in factored form.

    For sample ``t``, output ``o`` and weight ``(i, j)`` of block ``l`` the derivative
    is ``left[l][t, i] * right[l][t, o, j]``: layer input times back-propagated output
    derivative.
    """

    left: tuple[Array, ...]
    right: tuple[Array, ...]


@dataclass(frozen=True)
class Network:
    """MLP ``z -> y``, with an optional linear path from regressors to outputs.

    The weights of layer ``l`` are stored as one ``(n_in + 1, n_out)`` array whose last
    row is the bias, so ``h = W' [a; 1]``. The linear path has no bias of its own.

    Parameters
    ----------
    widths
        Regressors, hidden widths, outputs: ``(n_z, n_1, ..., n_y)``.
    activation
        ``"tanh"``, ``"sigmoid"``, ``"softroot"`` or ``"relu"``.
    linear_path
        Whether outputs also depend on the regressors directly.
    """

    widths: tuple[int, ...]
    activation: str = "tanh"
    linear_path: bool = False

    def __post_init__(self) -> None:
        if self.activation not in _ACTIVATIONS:
            raise InputError(
                f"activation={self.activation!r} is not known: "
                f"choose one of {', '.join(ACTIVATIONS)}"
            )

    @property
    def layers(self) -> int:
        """Number of layers with weights, the output layer included."""
        return len(self.widths) - 1

    @property
    def axes(self) -> dict[str, int]:
        """Size of every named axis."""
        hidden = {f"hidden{k}": n for k, n in enumerate(self.widths[1:-1], start=1)}
        return {REGRESSORS: self.widths[0], **hidden, OUTPUTS: self.widths[-1]}

    @property
    def hidden_axes(self) -> tuple[str, ...]:
        """Names of the axes of neurons."""
        return tuple(self.axes)[1:-1]

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The weight arrays, in the order of the parameters."""
        names = tuple(self.axes)
        layers = tuple(
            Block(f"layer{k + 1}", names[k], names[k + 1], bias=True)
            for k in range(self.layers)
        )
        if not self.linear_path:
            return layers
        return (*layers, Block("linear", REGRESSORS, OUTPUTS, bias=False))

    @property
    def shapes(self) -> tuple[tuple[int, int], ...]:
        """Shape of every block, bias row included."""
        axes = self.axes
        return tuple((axes[b.rows] + b.bias, axes[b.columns]) for b in self.blocks)

    @property
    def weights(self) -> int:
        """Number of weights, biases not counted."""
        pairs = zip(self.blocks, self.shapes, strict=True)
        return sum((rows - block.bias) * columns for block, (rows, columns) in pairs)

    def resized(self, axes: dict[str, int]) -> Network:
        """Return the network with other axis sizes."""
        return replace(self, widths=tuple(axes[name] for name in self.axes))

    def init(self, *, key: Array) -> Params:
        """Return weights drawn from ``N(0, 1 / n_in)``, biases included."""
        keys = jax.random.split(key, len(self.blocks))
        return tuple(
            jax.random.normal(k, shape, jnp.float64)
            / jnp.sqrt(max(shape[0] - b.bias, 1))
            for k, b, shape in zip(keys, self.blocks, self.shapes, strict=True)
        )

    def forward(
        self, params: Params, z: Float[Array, "time regressors"]
    ) -> tuple[list[Array], list[Array], Array]:
        """Return layer inputs (ones appended), pre-activations and outputs."""
        inputs, pre, a = [], [], z
        for k, W in enumerate(params[: self.layers]):
            inputs.append(_with_ones(a))
            pre.append(inputs[-1] @ W)
            a = self.emit(pre[-1]) if k < self.layers - 1 else pre[-1]
        if self.linear_path:
            a = a + z @ params[-1]
        return inputs, pre, a

    def apply(
        self, params: Params, z: Float[Array, "time regressors"]
    ) -> Float[Array, "time outputs"]:
        """Return the outputs."""
        return self.forward(params, z)[2]

    def emit(self, h: Array) -> Array:
        """Return the activation function of ``h``."""
        return _ACTIVATIONS[self.activation][0](namespace(h), h)

    def slope(self, h: Array, a: Array) -> Array:
        """Return the derivative of the activation at ``h``, where it is ``a``."""
        return _ACTIVATIONS[self.activation][1](namespace(h), h, a)

    def factors(
        self, params: Params, z: Float[Array, "time regressors"]
    ) -> tuple[Float[Array, "time outputs"], Factors]:
        """Return the outputs and their derivative with respect to the weights.

        Back-propagation of every output: ``D_L = I``,
        ``D_l = (D_{l+1} W_{l+1}') o f'(h_l)``.
        """
        xp = namespace(z)
        inputs, pre, y = self.forward(params, z)
        n_y = self.widths[-1]
        identity = xp.broadcast_to(xp.eye(n_y, dtype=z.dtype), (len(z), n_y, n_y))
        right = [identity]
        for k in range(self.layers - 1, 0, -1):
            a = inputs[k][:, :-1]
            back = right[0] @ params[k][:-1].T
            right.insert(0, back * self.slope(pre[k - 1], a)[:, None, :])
        if self.linear_path:
            inputs.append(z)
            right.append(identity)
        return y, Factors(tuple(inputs), tuple(right))

    def layer_hessians(
        self,
        params: Params,
        z: Float[Array, "time regressors"],
        slope_y: Float[Array, "time outputs"],
        curve_y: Float[Array, " outputs"],
    ) -> Factors:
        """Return layer inputs and the Hessian of the loss in the pre-activations.

        The paper's recursion, per sample, in the ``(n_in, n_out)`` convention::

            H_l = B_l W_{l+1} H_{l+1} W_{l+1}' B_l + D_l
            B_l = diag f'(h_l),   D_l = diag( f''(h_l) o dE/da_l )
            dE/da_l = W_{l+1} (dE/da_{l+1} o f'(h_{l+1}))

        The Hessian of the loss in block ``l`` is ``sum_t (a a')_t (x) H_{l,t}``.

        Parameters
        ----------
        slope_y
            ``dE/dy`` per sample, ``-r / sigma2``.
        curve_y
            Diagonal of ``d2E/dy2``, ``1 / sigma2`` per output.
        """
        _, slope, bend = _ACTIVATIONS[self.activation]
        inputs, pre, _ = self.forward(params, z)
        H = jnp.broadcast_to(jnp.diag(curve_y), (len(z), len(curve_y), len(curve_y)))
        hessians, dE_dh = [H], slope_y
        for k in range(self.layers - 1, 0, -1):
            W, a = params[k][:-1], inputs[k][:, :-1]
            dE_da = dE_dh @ W.T
            B = slope(jnp, pre[k - 1], a)
            D = bend(jnp, pre[k - 1], a) * dE_da
            H = B[:, :, None] * jnp.einsum("ij,tjk,lk->til", W, H, W) * B[:, None, :]
            H = H + D[:, :, None] * jnp.eye(D.shape[1], dtype=D.dtype)
            hessians.insert(0, H)
            dE_dh = dE_da * B
        if self.linear_path:
            inputs.append(z)
            hessians.append(hessians[-1])
        return Factors(tuple(inputs), tuple(hessians))


def _with_ones(a: Array) -> Array:
    xp = namespace(a)
    return xp.concatenate([a, xp.ones((len(a), 1), dtype=a.dtype)], axis=1)
