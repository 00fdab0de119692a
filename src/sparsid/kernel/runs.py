"""Free runs of the canonical form, and their sensitivities.

    n(t)   = phi(F x + H u)
    x(t+1) = hold(A x + B u + E n)
    y(t)   = hold(C x + D u + G n)

``u`` ends with a constant one, so the last columns of B, H and D are biases. ``hold``
keeps states and outputs within bounds.

A parameter ``p`` moves entries of these matrices by known coefficients. With ``s`` the
slopes of the neurons, sensitivities ``S = dx/dp`` and ``Y = dy/dp`` follow

    S(t+1) = (A + E s F) S + dA x + dB u + dE n + E s (dF x + dH u)
    Y(t)   = (C + G s F) S + dC x + dD u + dG n + G s (dF x + dH u)

with zeros where a state or an output is held. The last columns of ``S`` are for the
start state: the identity at the beginning.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsid.kernel.activations import activate
from sparsid.kernel.compiling import compiled

Values = NDArray[np.float64]
Whole = NDArray[np.int64]

# Names of the matrices, in their order.
MATRICES = ("A", "B", "E", "F", "H", "C", "D", "G")


def shapes(states: int, inputs: int, neurons: int, outputs: int) -> dict[str, Any]:
    """Return the shape of every matrix; ``inputs`` counts the constant, too."""
    x, u, n, y = states, inputs, neurons, outputs
    sizes = ((x, x), (x, u), (x, n), (n, x), (n, u), (y, x), (y, u), (y, n))
    return dict(zip(MATRICES, sizes, strict=True))


# Small loops of their own: each is compiled once and used in several places.


@compiled("void(f8[:,::1],f8[:,::1],f8[:,::1],f8[::1],f8[::1],f8[::1],f8[::1])")
def _affine(
    A: Values, B: Values, E: Values, x: Values, u: Values, n: Values, out: Values
) -> None:
    """Fill ``out`` with ``A x + B u + E n``."""
    for i in range(len(A)):
        v = 0.0
        for j in range(A.shape[1]):
            v += A[i, j] * x[j]
        for j in range(B.shape[1]):
            v += B[i, j] * u[j]
        for j in range(E.shape[1]):
            v += E[i, j] * n[j]
        out[i] = v


@compiled("void(i8[::1],f8[::1],f8[:,::1],f8[:,::1],f8[::1],f8[::1],f8[::1],f8[::1])")
def _neurons(
    kinds: Whole,
    limits: Values,
    F: Values,
    H: Values,
    x: Values,
    u: Values,
    n: Values,
    s: Values,
) -> None:
    """Fill ``n`` with the values of the neurons and ``s`` with their slopes."""
    for k in range(len(kinds)):
        z = 0.0
        for j in range(F.shape[1]):
            z += F[k, j] * x[j]
        for j in range(H.shape[1]):
            z += H[k, j] * u[j]
        n[k], s[k], _ = activate(kinds[k], z, limits[k])


@compiled("void(f8[:,::1],f8[:,::1],f8[:,::1],f8[::1],f8[:,::1])")
def _slopes(A: Values, E: Values, F: Values, s: Values, J: Values) -> None:
    """Fill ``J`` with ``A + E s F``."""
    for i in range(len(A)):
        for j in range(A.shape[1]):
            J[i, j] = A[i, j]
        for k in range(len(s)):
            g = E[i, k] * s[k]
            if g != 0.0:
                for j in range(A.shape[1]):
                    J[i, j] += g * F[k, j]


@compiled("void(f8[:,::1],f8[:,::1],f8[:,::1])")
def _carried(J: Values, S: Values, out: Values) -> None:
    """Fill the first columns of ``out`` with ``J S``, the others with zeros."""
    for i in range(len(J)):
        for p in range(out.shape[1]):
            out[i, p] = 0.0
        for j in range(len(S)):
            g = J[i, j]
            if g != 0.0:
                for p in range(S.shape[1]):
                    out[i, p] += g * S[j, p]


@compiled("void(i8[:,::1],f8[::1],i8,i8,f8[::1],f8[:,::1])")
def _moved(
    table: Whole, weights: Values, first: int, stop: int, by: Values, out: Values
) -> None:
    """Add what parameters do to entries of a matrix that multiplies ``by``."""
    for m in range(first, stop):
        out[table[m, 0], table[m, 2]] += weights[m] * by[table[m, 1]]


@compiled("void(i8[:,::1],f8[::1],i8,i8,f8[::1],f8[::1],f8[:,::1],f8[:,::1])")
def _moved_inside(
    table: Whole,
    weights: Values,
    first: int,
    stop: int,
    by: Values,
    s: Values,
    E: Values,
    out: Values,
) -> None:
    """Add the same for a matrix inside the neurons, whose effects are ``E``."""
    for m in range(first, stop):
        k, p = table[m, 0], table[m, 2]
        w = weights[m] * by[table[m, 1]] * s[k]
        for i in range(len(E)):
            out[i, p] += E[i, k] * w


@compiled("void(f8[::1],f8[:,::1],i8)")
def _hold(values: Values, bounds: Values, first: int) -> None:
    """Keep values within the bounds that begin at ``first``."""
    for i in range(len(values)):
        low, high = bounds[0, first + i], bounds[1, first + i]
        values[i] = min(max(values[i], low), high)


@compiled("void(f8[::1],f8[:,::1],i8,f8[:,::1])")
def _still(values: Values, bounds: Values, first: int, out: Values) -> None:
    """Set the derivatives of values that are held to zero."""
    for i in range(len(values)):
        low, high = bounds[0, first + i], bounds[1, first + i]
        if values[i] == low or values[i] == high:
            for p in range(out.shape[1]):
                out[i, p] = 0.0


@compiled(
    "void(UniTuple(f8[:,::1],8),i8[::1],f8[::1],f8[:,::1],f8[::1],"
    "f8[:,::1],f8[:,::1],f8[:,::1])"
)
def run(
    matrices: tuple[Values, ...],
    kinds: Whole,
    limits: Values,
    bounds: Values,
    start: Values,
    u: Values,
    y: Values,
    x: Values,
) -> None:
    """Fill ``y`` (time, outputs) and ``x`` (time + 1, states) with a free run.

    Parameters
    ----------
    matrices, kinds, limits
        A, B, E, F, H, C, D, G; activation of every neuron; where its argument is held.
    bounds
        Lowest and highest value, states first and then outputs: (2, states + outputs).
    """
    nx, nn = len(start), len(kinds)
    A, B, E, F, H, C, D, G = matrices
    n, s = np.zeros(nn), np.zeros(nn)
    for i in range(nx):
        x[0, i] = start[i]
    for t in range(len(u)):
        _neurons(kinds, limits, F, H, x[t], u[t], n, s)
        _affine(A, B, E, x[t], u[t], n, x[t + 1])
        _affine(C, D, G, x[t], u[t], n, y[t])
        _hold(x[t + 1], bounds, 0)
        _hold(y[t], bounds, nx)


@compiled(
    "void(UniTuple(f8[:,::1],8),i8[::1],f8[::1],f8[:,::1],i8[:,::1],f8[::1],"
    "i8[::1],f8[::1],f8[:,::1],f8[:,::1],f8[:,::1],f8[:,:,::1],f8[:,::1])"
)
def sensitivities(
    matrices: tuple[Values, ...],
    kinds: Whole,
    limits: Values,
    bounds: Values,
    table: Whole,
    weights: Values,
    ends: Whole,
    start: Values,
    u: Values,
    y: Values,
    x: Values,
    dy: Values,
    carry: Values,
) -> None:
    """Fill ``y``, ``x`` as `run` does, and ``dy`` (time, outputs, parameters).

    Parameters
    ----------
    table, weights, ends
        Row by row an entry that a parameter moves: its row and column and the
        parameter; by how much; and where the rows of each matrix end.
    dy
        The columns before the last, as many as states, are for the start state; the
        last is left zero, for the residual.
    carry
        Sensitivities of the states, (states, parameters): those of the start, replaced
        by those of the end, so that a run can go on.
    """
    nx, nn, ny = len(start), len(kinds), y.shape[1]
    A, B, E, F, H, C, D, G = matrices
    n, s = np.zeros(nn), np.zeros(nn)
    Jx, Jy = np.zeros((nx, nx)), np.zeros((ny, nx))
    S, S2 = carry.copy(), carry.copy()
    for i in range(nx):
        x[0, i] = start[i]
    for t in range(len(u)):
        _neurons(kinds, limits, F, H, x[t], u[t], n, s)
        _affine(A, B, E, x[t], u[t], n, x[t + 1])
        _affine(C, D, G, x[t], u[t], n, y[t])
        _hold(x[t + 1], bounds, 0)
        _hold(y[t], bounds, nx)
        _slopes(A, E, F, s, Jx)
        _carried(Jx, S, S2)
        _moved(table, weights, 0, ends[0], x[t], S2)
        _moved(table, weights, ends[0], ends[1], u[t], S2)
        _moved(table, weights, ends[1], ends[2], n, S2)
        _moved_inside(table, weights, ends[2], ends[3], x[t], s, E, S2)
        _moved_inside(table, weights, ends[3], ends[4], u[t], s, E, S2)
        _still(x[t + 1], bounds, 0, S2)
        _slopes(C, G, F, s, Jy)
        _carried(Jy, S, dy[t])
        _moved_inside(table, weights, ends[2], ends[3], x[t], s, G, dy[t])
        _moved_inside(table, weights, ends[3], ends[4], u[t], s, G, dy[t])
        _moved(table, weights, ends[4], ends[5], x[t], dy[t])
        _moved(table, weights, ends[5], ends[6], u[t], dy[t])
        _moved(table, weights, ends[6], ends[7], n, dy[t])
        _still(y[t], bounds, nx, dy[t])
        S, S2 = S2, S
    for i in range(nx):
        for p in range(carry.shape[1]):
            carry[i, p] = S[i, p]


@compiled("void(f8[:,:,::1],f8[:,::1],f8[:,::1],i8,f8[:,::1])")
def expected_residuals(
    past: Values, drive: Values, residual: Values, horizon: int, out: Values
) -> None:
    """Fill ``out`` with residuals expected ``horizon`` samples ahead.

    Parameters
    ----------
    past
        Effect of the residual 1, 2, ... samples before, (lag, output, output).
    drive
        What is added to it at each time, (time, outputs).
    residual
        (time, outputs), NaN where nothing was measured: there it is what was expected.
    """
    order, ny = past.shape[0], residual.shape[1]
    known = np.zeros((len(residual), ny))
    ahead = np.zeros((horizon, ny))
    for t in range(len(residual)):
        # Known so far: up to t - horizon. Go on from there.
        first = t - horizon + 1
        for k in range(horizon):
            at = first + k
            for o in range(ny):
                v = drive[at, o] if at >= 0 else 0.0
                for j in range(order):
                    back = at - 1 - j
                    if back < 0:
                        break
                    for m in range(ny):
                        inner = back >= first
                        v += past[j, o, m] * (
                            ahead[back - first, m] if inner else known[back, m]
                        )
                ahead[k, o] = v
        for o in range(ny):
            out[t, o] = ahead[horizon - 1, o]
        # What is known of this sample: measured, or expected one step ahead.
        for o in range(ny):
            if residual[t, o] == residual[t, o]:
                known[t, o] = residual[t, o]
            else:
                v = drive[t, o]
                for j in range(min(order, t)):
                    for m in range(ny):
                        v += past[j, o, m] * known[t - 1 - j, m]
                known[t, o] = v
