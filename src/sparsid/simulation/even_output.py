"""Outputs that lost their sign: found, given it back, and fitted as moduli.

A speed measured by counting pulses is a modulus. Which sign it had is guessed from the
filtered input, a linear model is fitted to the signed output, its free run gives better
signs, and so on; the best of several guesses starts the fit.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sparsid.models.canonical import Sizes
from sparsid.models.structures.even_output import even_output
from sparsid.simulation.linear import Stop, candidates
from sparsid.simulation.linear_first import EFFECT, Variances, directions, prior_of
from sparsid.simulation.member import Member
from sparsid.simulation.signals import Signals

Values = NDArray[np.float64]

# Time constants of the filters behind the first guesses, in samples.
CONSTANTS = (1.0, 3.0, 10.0, 30.0)
ROUNDS = 6
# Order of the regression behind a linear model that only has to give signs.
GUESSED_WITH = (10,)


def looks_folded(signals: Signals) -> bool:
    """Return whether every output comes down to zero and never goes below."""
    if signals.zero is None:
        return False
    for o, zero in enumerate(signals.zero[1]):
        y = np.concatenate([s[:, o] for s in signals.y]) - zero
        most = np.nanmax(y)
        low = y < 0.04 * most
        visits = int((low[1:] & ~low[:-1]).sum())
        if not np.nanmin(y) > -0.06 * most or visits < 3:
            return False
    return True


def signed(
    signals: Signals, delays: tuple[int, ...], order: int, stop: Stop | None = None
) -> Signals | None:
    """Return the outputs with a sign, the best of several guesses."""
    assert signals.zero is not None
    at_rest, zero = signals.zero
    size = [np.abs(y - zero) for y in signals.y]
    best: tuple[float, Signals] | None = None
    for tau in CONSTANTS:
        guess = [np.sign(_filtered(u - at_rest, tau)) for u in signals.u]
        for _ in range(ROUNDS):
            if stop is not None and stop():
                return None if best is None else best[1]
            turned = Signals(
                signals.u, tuple(a * s for a, s in zip(size, guess, strict=True))
            )
            found = candidates(turned, delays, None, [order], 4, GUESSED_WITH)
            if order not in found:
                break
            member = found[order]
            runs = member.outputs()
            error = sum(
                float((run.seen * (np.abs(v) - np.nan_to_num(a)) ** 2).sum())
                for v, a, run in zip(runs, size, member.runs, strict=True)
            )
            if best is None or error < best[0]:
                best = (error, turned)
            signs = [np.where(v >= 0, 1.0, -1.0) for v in runs]
            if all(np.array_equal(a, b) for a, b in zip(signs, guess, strict=True)):
                break
            guess = signs
    return None if best is None else best[1]


def begun(
    base: Member,
    signals: Signals,
    delays: tuple[int, ...],
    fold: int | None,
    kind: str,
    neurons: int,
    rng: np.random.Generator,
) -> Member:
    """Return a member whose moduli are the outputs of a signed linear model."""
    assert signals.zero is not None
    old, sizes = base.structure, base.structure.sizes
    n, nu, ny = sizes.states, sizes.inputs, sizes.outputs
    new = even_output(Sizes(n + ny, nu, neurons + ny, ny), old.poles)
    theta = np.zeros(new.parameters)
    theta[: old.leading] = base.theta[: old.leading]
    theta[new.where("B")] = base.theta[old.where("B")]
    named = old.named(base.theta)
    passed = [
        old.run(base.theta, x, run.u)
        for x, run in zip(base.starts, base.runs, strict=True)
    ]
    F, H = directions(
        kind,
        np.concatenate([x[:-1] for _, x in passed]),
        np.concatenate([y for y, _ in passed]),
        np.concatenate([run.u for run in base.runs]),
        neurons,
        rng,
    )
    theta[new.where("F")] = np.concatenate([F, named["C"]]).ravel()
    theta[new.where("H")] = np.concatenate([H, named["D"]]).ravel()
    theta[new.where("E")] = EFFECT * rng.normal(size=n * neurons)
    theta[new.where("D")] = signals.zero[1]
    theta[new.where("G")] = 1.0
    starts = np.concatenate([base.starts, np.zeros((len(base.runs), ny))], axis=1)
    runs = signals.runs(delays, fold)
    prior = prior_of(new, theta, len(runs), Variances())
    # Moduli are there in any case: their weights stay around those of the linear model.
    for k, (matrix, i, j) in enumerate(new.free):
        p = new.leading + k
        if (matrix in "FH" and i >= neurons) or (matrix in "EG" and j >= neurons):
            prior.mean[p], prior.variance[p], prior.groups[p] = theta[p], 1.0, -1
    return Member(new, runs, theta, starts, prior, base.noise)


def _filtered(u: Values, tau: float) -> Values:
    """Return the first input through a leaky average, for every output."""
    keep = np.exp(-1.0 / tau)
    out = np.empty((len(u), 1))
    level = 0.0
    for t, v in enumerate(u[:, 0]):
        level = keep * level + (1.0 - keep) * v
        out[t] = level
    return out
