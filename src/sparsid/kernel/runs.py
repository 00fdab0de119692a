"""Free runs of the canonical form, and their sensitivities.

    n(t)   = phi(F x + H u)
    x(t+1) = hold(A x + B u + E n)
    y(t)   = hold(C x + D u + G n)

``u`` ends with a constant one, so the last columns of B, H and D are biases. The
matrices come one behind the other in a vector, row by row, in the order A, B, E, F, H,
C, D, G. ``hold`` keeps states and outputs within bounds.

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

# Names of the matrices, in the order of the vector.
MATRICES = ("A", "B", "E", "F", "H", "C", "D", "G")


def shapes(states: int, inputs: int, neurons: int, outputs: int) -> dict[str, Any]:
    """Return the shape of every matrix; ``inputs`` counts the constant, too."""
    x, u, n, y = states, inputs, neurons, outputs
    sizes = ((x, x), (x, u), (x, n), (n, x), (n, u), (y, x), (y, u), (y, n))
    return dict(zip(MATRICES, sizes, strict=True))


_UNPACK = f"Tuple(({', '.join(['f8[:,::1]'] * 8)}))(f8[::1],i8,i8,i8,i8)"


@compiled(_UNPACK)
def unpack(c: Values, nx: int, nu: int, nn: int, ny: int) -> Any:
    """Return the matrices of a vector, as views."""
    a = nx * nx
    b = a + nx * nu
    e = b + nx * nn
    f = e + nn * nx
    h = f + nn * nu
    k = h + ny * nx
    d = k + ny * nu
    g = d + ny * nn
    return (
        c[:a].reshape(nx, nx),
        c[a:b].reshape(nx, nu),
        c[b:e].reshape(nx, nn),
        c[e:f].reshape(nn, nx),
        c[f:h].reshape(nn, nu),
        c[h:k].reshape(ny, nx),
        c[k:d].reshape(ny, nu),
        c[d:g].reshape(ny, nn),
    )


@compiled(
    "void(f8[::1],i8[::1],f8[::1],f8[:,::1],f8[::1],f8[:,::1],f8[:,::1],f8[:,::1])"
)
def run(
    c: Values,
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
    c, kinds, limits
        Matrices; activation of every neuron, and where its argument is held.
    bounds
        Lowest and highest value, states first and then outputs: (2, states + outputs).
    """
    nx, nn, ny, nu = len(start), len(kinds), y.shape[1], u.shape[1]
    A, B, E, F, H, C, D, G = unpack(c, nx, nu, nn, ny)
    n = np.zeros(nn)
    for i in range(nx):
        x[0, i] = start[i]
    for t in range(len(u)):
        for k in range(nn):
            z = 0.0
            for j in range(nx):
                z += F[k, j] * x[t, j]
            for j in range(nu):
                z += H[k, j] * u[t, j]
            n[k] = activate(kinds[k], z, limits[k])[0]
        for i in range(nx):
            v = 0.0
            for j in range(nx):
                v += A[i, j] * x[t, j]
            for j in range(nu):
                v += B[i, j] * u[t, j]
            for k in range(nn):
                v += E[i, k] * n[k]
            x[t + 1, i] = min(max(v, bounds[0, i]), bounds[1, i])
        for o in range(ny):
            v = 0.0
            for j in range(nx):
                v += C[o, j] * x[t, j]
            for j in range(nu):
                v += D[o, j] * u[t, j]
            for k in range(nn):
                v += G[o, k] * n[k]
            y[t, o] = min(max(v, bounds[0, nx + o]), bounds[1, nx + o])


@compiled(
    "void(f8[::1],i8[::1],f8[::1],f8[:,::1],i8[:,::1],f8[::1],i8[::1],f8[::1],f8[:,::1],f8[:,::1],f8[:,::1],f8[:,:,::1],f8[:,::1])"
)
def sensitivities(
    c: Values,
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
    nx, nn, ny, nu = len(start), len(kinds), y.shape[1], u.shape[1]
    P = dy.shape[2] - 1
    A, B, E, F, H, C, D, G = unpack(c, nx, nu, nn, ny)
    n, s, v = np.zeros(nn), np.zeros(nn), np.zeros(max(nx, ny))
    Jx, Jy = np.zeros((nx, nx)), np.zeros((ny, nx))
    S, S2 = carry.copy(), np.zeros((nx, P))
    for i in range(nx):
        x[0, i] = start[i]
    for t in range(len(u)):
        for k in range(nn):
            z = 0.0
            for j in range(nx):
                z += F[k, j] * x[t, j]
            for j in range(nu):
                z += H[k, j] * u[t, j]
            n[k], s[k], _ = activate(kinds[k], z, limits[k])
        # The states.
        for i in range(nx):
            w = 0.0
            for j in range(nx):
                w += A[i, j] * x[t, j]
                Jx[i, j] = A[i, j]
            for j in range(nu):
                w += B[i, j] * u[t, j]
            for k in range(nn):
                w += E[i, k] * n[k]
                es = E[i, k] * s[k]
                if es != 0.0:
                    for j in range(nx):
                        Jx[i, j] += es * F[k, j]
            x[t + 1, i] = min(max(w, bounds[0, i]), bounds[1, i])
        for i in range(nx):
            first = True
            for j in range(nx):
                g = Jx[i, j]
                if g == 0.0:
                    continue
                if first:
                    for p in range(P):
                        S2[i, p] = g * S[j, p]
                    first = False
                else:
                    for p in range(P):
                        S2[i, p] += g * S[j, p]
            if first:
                for p in range(P):
                    S2[i, p] = 0.0
        for m in range(0, ends[0]):
            S2[table[m, 0], table[m, 2]] += weights[m] * x[t, table[m, 1]]
        for m in range(ends[0], ends[1]):
            S2[table[m, 0], table[m, 2]] += weights[m] * u[t, table[m, 1]]
        for m in range(ends[1], ends[2]):
            S2[table[m, 0], table[m, 2]] += weights[m] * n[table[m, 1]]
        for m in range(ends[2], ends[4]):
            k, p = table[m, 0], table[m, 2]
            w = x[t, table[m, 1]] if m < ends[3] else u[t, table[m, 1]]
            w *= weights[m] * s[k]
            for i in range(nx):
                S2[i, p] += E[i, k] * w
        # The outputs.
        for o in range(ny):
            w = 0.0
            for j in range(nx):
                w += C[o, j] * x[t, j]
                Jy[o, j] = C[o, j]
            for j in range(nu):
                w += D[o, j] * u[t, j]
            for k in range(nn):
                w += G[o, k] * n[k]
                gs = G[o, k] * s[k]
                if gs != 0.0:
                    for j in range(nx):
                        Jy[o, j] += gs * F[k, j]
            v[o] = w
            y[t, o] = min(max(w, bounds[0, nx + o]), bounds[1, nx + o])
            for p in range(P + 1):
                dy[t, o, p] = 0.0
            for j in range(nx):
                g = Jy[o, j]
                if g != 0.0:
                    for p in range(P):
                        dy[t, o, p] += g * S[j, p]
        for m in range(ends[2], ends[4]):
            k, p = table[m, 0], table[m, 2]
            w = x[t, table[m, 1]] if m < ends[3] else u[t, table[m, 1]]
            w *= weights[m] * s[k]
            for o in range(ny):
                dy[t, o, p] += G[o, k] * w
        for m in range(ends[4], ends[5]):
            dy[t, table[m, 0], table[m, 2]] += weights[m] * x[t, table[m, 1]]
        for m in range(ends[5], ends[6]):
            dy[t, table[m, 0], table[m, 2]] += weights[m] * u[t, table[m, 1]]
        for m in range(ends[6], ends[7]):
            dy[t, table[m, 0], table[m, 2]] += weights[m] * n[table[m, 1]]
        for o in range(ny):
            if (
                y[t, o] != v[o]
                or v[o] == bounds[0, nx + o]
                or v[o] == bounds[1, nx + o]
            ):
                for p in range(P):
                    dy[t, o, p] = 0.0
        for i in range(nx):
            if x[t + 1, i] == bounds[0, i] or x[t + 1, i] == bounds[1, i]:
                for p in range(P):
                    S2[i, p] = 0.0
        S, S2 = S2, S
    carry[:] = S


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
