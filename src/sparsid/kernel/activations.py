"""What neurons do, by number, with the first two derivatives.

=========  ==============================================  ========================
number     value                                           grows like
=========  ==============================================  ========================
TANH       tanh z                                          a constant
SOFTROOT   sqrt(1 + softplus z) - 1                        a root, on one side
SIGMOID    1 / (1 + exp -z)                                a constant
SQUARE     z^2, z held within +-limit                      a constant
CUBE       z^3, z held within +-limit                      a constant
MODULUS    sqrt(z^2 + w^2) - w, w = 0.05                   z: for outputs alone
=========  ==============================================  ========================
"""

from __future__ import annotations

import math

from sparsid.kernel.compiling import compiled

TANH, SOFTROOT, SIGMOID, SQUARE, CUBE, MODULUS = range(6)
NAMES = ("tanh", "softroot", "sigmoid", "square", "cube", "modulus")
# Width of the rounded corner of the modulus.
CORNER = 0.05


@compiled("UniTuple(float64, 3)(int64, float64, float64)")
def activate(kind: int, z: float, limit: float) -> tuple[float, float, float]:
    """Return value, slope and second derivative of a neuron at ``z``."""
    if kind == 0:
        v = math.tanh(z)
        s = 1.0 - v * v
        return v, s, -2.0 * v * s
    if kind == 1:
        # p: softplus, q: its slope.
        e = math.exp(-abs(z))
        p = math.log1p(e) + max(z, 0.0)
        q = (1.0 if z >= 0.0 else e) / (1.0 + e)
        root = math.sqrt(1.0 + p)
        s = 0.5 * q / root
        return root - 1.0, s, 0.5 * q * (1.0 - q) / root - 0.5 * s * q / (1.0 + p)
    if kind == 2:
        e = math.exp(-abs(z))
        v = (1.0 if z >= 0.0 else e) / (1.0 + e)
        s = v * (1.0 - v)
        return v, s, s * (1.0 - 2.0 * v)
    if kind == 5:
        root = math.sqrt(z * z + 0.0025)
        return root - 0.05, z / root, 0.0025 / (root * root * root)
    inside = 1.0 if abs(z) < limit else 0.0
    held = min(max(z, -limit), limit)
    if kind == 3:
        return held * held, inside * 2.0 * held, inside * 2.0
    return held * held * held, inside * 3.0 * held * held, inside * 6.0 * held
