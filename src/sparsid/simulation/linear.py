"""The linear model: dead times, a state space of every order, refined on its free run.

A regression of high order gives an impulse response, its Hankel matrix balanced states
of every order (Ho and Kalman), their modal form poles inside the unit circle; C, D come
by least squares and everything is refined on the error of the free run. The order is
the smallest whose free run over blocks it has not seen is within a few per cent of the
best.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from sparsid.models.autoregression import Autoregression
from sparsid.models.canonical import Pole, Sizes, Structure
from sparsid.models.structures.linear import linear
from sparsid.simulation.arx import SCANNED_ORDERS, Lagged, impulse_response
from sparsid.simulation.evidence import Prior, Run
from sparsid.simulation.member import Member
from sparsid.simulation.signals import Signals

Values = NDArray[np.float64]
Complex = NDArray[np.complex128]

# Orders of the regressions that are tried, beside that of the smallest criterion.
REGRESSIONS = (10, 20, 30)
# Rows of the Hankel matrix of impulse responses, with one input and output.
HANKEL = 120
# Largest order, with one output and with several.
LARGEST, LARGEST_MIMO = 10, 12
# Steps of the refinement.
STEPS = 15

# A pole with a time constant longer than this share of the record may be an integrator.
SLOWEST = 3.0
# Asked between two steps: whether to be content with what there is.
Stop = Callable[[], bool]

# Without inputs something has to move the states: where they begin.
START_WITHOUT_INPUT = 1.0


@dataclass(frozen=True, eq=False)
class LinearModel:
    """A linear state space in modal form, in standardised units."""

    structure: Structure
    theta: Values
    starts: Values
    delays: tuple[int, ...]

    @property
    def order(self) -> int:
        """Number of states."""
        return self.structure.sizes.states

    def outputs(self, runs: Sequence[Run]) -> list[Values]:
        """Return the free runs."""
        return [
            self.structure.run(self.theta, start, run.u)[0]
            for start, run in zip(self.starts, runs, strict=True)
        ]

    def states(self, runs: Sequence[Run]) -> list[Values]:
        """Return the states of the free runs."""
        return [
            self.structure.run(self.theta, start, run.u)[1][:-1]
            for start, run in zip(self.starts, runs, strict=True)
        ]


def realisations(
    runs: Sequence[Run], regressions: Sequence[int], orders: Sequence[int]
) -> list[dict[int, tuple[Values, Values]]]:
    """Return for every regression, order by order, A and B of a state space."""
    ny, nu = runs[0].y.shape[1], runs[0].u.shape[1] - 1
    found = []
    for m in regressions:
        lagged = Lagged.of(runs, m, m)
        if lagged.rows < len(lagged.gram):
            continue
        theta, _ = lagged.solve(lagged.columns(m, (0,) * nu))
        rows = max(HANKEL // max(ny, nu), max(orders) + 2)
        # Without inputs the poles are those of the response to what is not predicted.
        pushes = nu or ny
        if not nu:
            direct = np.zeros((ny, m + 1, ny))
            direct[:, 0] = np.eye(ny)
            theta = np.concatenate([theta[: m * ny], direct.reshape(-1, ny)])
        h = impulse_response(theta, m, ny, pushes, 2 * rows + 1)
        lags = np.arange(rows)
        blocks = h[lags[:, None] + lags + 1].transpose(0, 2, 1, 3)
        H = blocks.reshape(rows * ny, rows * pushes)
        U, s, Vt = scipy.linalg.svd(H, full_matrices=False, check_finite=False)
        balanced = {}
        for n in orders:
            if n > len(s) or s[n - 1] < 1e-9 * s[0] or s[0] == 0.0:
                break
            observed = U[:, :n] * np.sqrt(s[:n])
            R = np.sqrt(s[:n])[:, None] * Vt[:n]
            A = np.linalg.lstsq(observed[:-ny], observed[ny:], rcond=None)[0]
            balanced[n] = (A, R[:, :nu])
        if balanced:
            found.append(balanced)
    return found


def modal(
    A: Values, B: Values, most: float, integrator: bool = False
) -> tuple[list[Pole], list[float], Values]:
    """Return blocks, their parameters and the input matrix of the modal form.

    Parameters
    ----------
    most
        Largest radius of a pole.
    integrator
        Whether the largest real pole is exactly one.
    """
    values, vectors = np.linalg.eig(A)
    radius = np.abs(values)
    values = np.where(
        radius > 0.999 * most, values / np.maximum(radius, 1e-12) * 0.999 * most, values
    )
    inputs = np.linalg.lstsq(vectors, B.astype(complex), rcond=None)[0]
    poles: list[Pole] = []
    theta: list[float] = []
    rows: list[Values] = []
    real = [k for k in range(len(values)) if abs(values[k].imag) < 1e-9]
    real.sort(key=lambda k: values[k].real)
    if integrator and real:
        k = real.pop()
        poles.append(Pole("one", 0))
        rows.append(inputs[k].real)
    for k in range(len(values)):
        if values[k].imag >= 1e-9:
            b = values[k].imag
            pole = Pole("pair", len(rows), max(b, 1e-3), most)
            theta += pole.of(np.array([values[k], values[k].conj()]))
            # x = 2 Re(v z): coordinates 2 Re z and -2 Im z turn by a + ib.
            first, second = 2.0 * inputs[k].real, -2.0 * inputs[k].imag
            poles.append(pole)
            rows += [first, second * b / pole.scale]
    while len(real) >= 2:
        i, j = real.pop(), real.pop()
        half = (values[i].real - values[j].real) / 2.0
        pole = Pole("pair", len(rows), max(abs(half), 0.01), most)
        theta += pole.of(np.array([values[i], values[j]]))
        s = pole.scale
        poles.append(pole)
        rows += [
            s * (inputs[i].real + inputs[j].real),
            half * (inputs[i].real - inputs[j].real),
        ]
    for k in real:
        pole = Pole("real", len(rows), 1.0, most)
        theta += pole.of(np.array([values[k]]))
        poles.append(pole)
        rows.append(inputs[k].real)
    return poles, theta, np.array(rows)


def placed(
    runs: Sequence[Run], poles: Sequence[Pole], theta: Sequence[float], B: Values
) -> tuple[Structure, Values] | None:
    """Return the linear model with these poles and inputs; C, D by least squares."""
    n, nu, ny = len(B), B.shape[1], runs[0].y.shape[1]
    bare = linear(Sizes(n, nu, 0, ny), poles)
    w = np.zeros(bare.parameters)
    w[: bare.leading] = theta
    # Of an integrator also what the constant adds, which is zero at first.
    w[bare.where("B")[: B.size]] = B.ravel()
    begin = START_WITHOUT_INPUT * np.ones(n) if nu == 0 else np.zeros(n)
    states = [bare.run(w, begin, run.u)[1][:-1] for run in runs]
    if not all(np.isfinite(x).all() for x in states):
        return None
    size = np.sqrt(np.mean(np.concatenate(states) ** 2, axis=0))
    if not (size > 1e-9).all():
        return None
    structure, scale = rescaled(bare, size)
    w[bare.where("B")[: B.size]] = (B / scale[:, None]).ravel()
    w[structure.where("C")], w[structure.where("D")] = 0.0, 0.0
    for o in range(ny):
        rows = [
            np.concatenate([x / scale, run.u], axis=1)[run.seen[:, o] > 0]
            for x, run in zip(states, runs, strict=True)
        ]
        target = [run.y[run.seen[:, o] > 0, o] for run in runs]
        M = np.concatenate(rows)
        G = M.T @ M
        G[np.diag_indices_from(G)] *= 1.0 + 1e-9
        G[np.diag_indices_from(G)] += 1e-9
        k = np.linalg.solve(G, M.T @ np.concatenate(target))
        w[structure.where("C").reshape(ny, n)[o]] = k[:n]
        w[structure.where("D").reshape(ny, nu + 1)[o]] = k[n:]
    return structure, w


def rescaled(structure: Structure, size: Values) -> tuple[Structure, Values]:
    """Return a structure whose states are measured in units of their size.

    Within a pair of poles the ratio of the two is its scale.
    """
    poles = []
    scale = size.copy()
    for pole in structure.poles:
        i = pole.state
        if pole.kind == "pair":
            poles.append(replace(pole, scale=pole.scale * size[i + 1] / size[i]))
        else:
            poles.append(pole)
    return replace(structure, poles=tuple(poles)), scale


def broad_prior(structure: Structure, theta: Values, runs: int) -> Prior:
    """Return a prior that only keeps what the data do not determine where it is."""
    mean = np.concatenate([theta, np.zeros(runs * structure.sizes.states)])
    variance = np.full(len(mean), 100.0)
    variance[: structure.leading] = 4.0
    variance[structure.parameters :] = 9.0
    return Prior(mean, variance, np.full(len(mean), -1, dtype=np.int64))


def nearly_integrates(member: Member) -> bool:
    """Return whether a real pole is so close to one that the record cannot tell."""
    A = member.structure.named(member.theta)["A"]
    poles = np.linalg.eigvals(A)
    longest = max(len(run.y) for run in member.runs)
    real = np.abs(poles.imag) < 1e-9
    return bool((real & (poles.real > 1.0 - SLOWEST / longest)).any())


def free_run_error(member: Member) -> float:
    """Return the mean squared error of the outputs that may be learnt from."""
    total = count = 0.0
    for y, run in zip(member.outputs(), member.runs, strict=True):
        total += float((run.seen * (run.y - y) ** 2).sum())
        count += float(run.seen.sum())
    return total / max(count, 1.0)


def refined(
    structure: Structure,
    theta: Values,
    runs: Sequence[Run],
    starts: Values | None = None,
    steps: int = STEPS,
    stop: Stop | None = None,
) -> Member:
    """Return a linear model refined on its free run, as with white noise."""
    n = structure.sizes.states
    x = np.zeros((len(runs), n)) if starts is None else starts
    if starts is None and not structure.sizes.inputs:
        x += START_WITHOUT_INPUT
    member = Member(
        structure,
        runs,
        theta,
        x,
        broad_prior(structure, theta, len(runs)),
        [Autoregression.white(1.0)] * structure.sizes.outputs,
    )
    member.whiten_by_squares()
    for _ in range(steps):
        if stop is not None and stop():
            break
        before = member.cost
        member.step()
        member.whiten_by_squares()
        if (
            before - member.cost < 1e-3
            and member.damping < 1e3
            and member.growth == 2.0
        ):
            break
    return member.rest()


def candidates(
    signals: Signals,
    delays: tuple[int, ...],
    fold: int | None,
    orders: Sequence[int],
    steps: int = STEPS,
    tried: Sequence[int] = REGRESSIONS,
    integrator: bool = False,
    stop: Stop | None = None,
) -> dict[int, Member]:
    """Return the refined linear models of some orders.

    Told to stop, the smallest at least, as far as it got.

    Parameters
    ----------
    integrator
        Whether one of the poles is exactly one.
    """
    runs = signals.runs(delays, fold)
    samples = sum(int(run.seen.all(axis=1).sum()) for run in runs)
    width = signals.outputs + signals.inputs
    most = max(2, samples // (5 * width))
    lagged = Lagged.of(runs, min(8, most), min(8, most))
    small = [m for m in SCANNED_ORDERS if m <= most]
    by_criterion = min(small, key=lambda m: lagged.bic(m, (0,) * signals.inputs))
    regressions = sorted({by_criterion, *(m for m in tried if m <= most)})
    radius = 1.0 - 1.0 / (3.0 * max(len(run.y) for run in runs))
    found: dict[int, Member] = {}
    families = realisations(runs, regressions, orders)
    if not families:
        # Too few samples for a regression: any stable model is a beginning.
        n = min(orders)
        poles = np.diag(np.linspace(0.3, 0.9, n))
        families = [{n: (poles, np.ones((n, signals.inputs)))}]
    for n in orders:
        if found and stop is not None and stop():
            break
        best = None
        for family in families:
            if n not in family:
                continue
            model = placed(runs, *modal(*family[n], radius, integrator))
            if model is None:
                continue
            error = squared_error(*model, runs)
            if best is None or error < best[0]:
                best = (error, model)
        if best is not None:
            found[n] = refined(*best[1], runs, steps=steps, stop=stop)
    return found


def squared_error(structure: Structure, theta: Values, runs: Sequence[Run]) -> float:
    """Return the sum of squared errors of free runs from zero."""
    start = np.zeros(structure.sizes.states)
    return float(
        sum(
            (run.seen * (run.y - structure.run(theta, start, run.u)[0]) ** 2).sum()
            for run in runs
        )
    )
