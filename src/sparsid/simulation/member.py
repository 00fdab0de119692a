"""One member: a structure with its parameters, fitted to its free run by the evidence.

The cost is -2 log evidence of the linearised model,

    sum log F + |r|^2 + sum (w - m)^2 / v + log|I + V^1/2 J'J V^1/2|,

with whitened residual ``r`` and derivative ``J``, innovation variances ``F``, prior
means ``m`` and variances ``v``. Steps are those of Gauss and Newton, damped as
Marquardt does, and taken only if the whole cost falls.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from sparsid.bayes.posterior import square_root
from sparsid.kernel.whitening import whiten
from sparsid.models.autoregression import (
    LARGEST_ORDER,
    SAMPLES_EACH,
    Autoregression,
    moments_of,
)
from sparsid.models.canonical import Structure
from sparsid.simulation.evidence import Evaluation, Prior, Run

Values = NDArray[np.float64]

START_DAMPING = 1e-2
# By how much the log-determinant may make up for a larger error.
VOLUME_SLACK = 20.0
# The noise is estimated anew every so many cycles.
NOISE_EVERY = 3
# Cycles before prior variances are learnt: effects have to grow first.
FIXED_CYCLES = 8
SMALLEST_DAMPING, LARGEST_DAMPING = 1e-10, 1e10


class Member:
    """A fit under way.

    Parameters
    ----------
    theta, starts
        Parameters, and the start state of every run.
    """

    def __init__(
        self,
        structure: Structure,
        runs: Sequence[Run],
        theta: Values,
        starts: Values,
        prior: Prior,
        noise: Sequence[Autoregression],
    ) -> None:
        self.structure, self.runs = structure, list(runs)
        self.w = np.concatenate([theta, np.ravel(starts)])
        self.prior, self.noise = prior, list(noise)
        self.damping, self.growth = START_DAMPING, 2.0
        self.age = 0
        self.costs: list[float] = []
        self._at: Evaluation | None = None
        self.cost = np.inf

    @property
    def at(self) -> Evaluation:
        """Residual and derivative where the member is; forgotten when it rests."""
        if self._at is None:
            self._at = self.evaluate(self.w)
            self.cost = self._at.cost(self.w, self.prior)
        return self._at

    def rest(self) -> Member:
        """Forget what takes much memory and can be had again by an evaluation."""
        self._at = None
        return self

    def copy(self) -> Member:
        """Return a member that goes its own way from here."""
        found = copy(self)
        found.costs = list(self.costs)
        return found.rest()

    @property
    def theta(self) -> Values:
        """Parameters of the structure."""
        return self.w[: self.structure.parameters]

    @property
    def starts(self) -> Values:
        """Start states, run by run."""
        return self.w[self.structure.parameters :].reshape(len(self.runs), -1)

    # -- evaluation ----------------------------------------------------------------

    def _split(self, w: Values) -> tuple[Values, Values]:
        p = self.structure.parameters
        return w[:p], w[p:].reshape(len(self.runs), -1)

    def outputs(self, w: Values | None = None) -> list[Values]:
        """Return the free runs."""
        theta, starts = self._split(self.w if w is None else w)
        return [
            self.structure.run(theta, x, run.u)[0]
            for x, run in zip(starts, self.runs, strict=True)
        ]

    def evaluate(self, w: Values) -> Evaluation:
        """Return residual and derivative at a point, as normal matrices."""
        theta, starts = self._split(w)
        raw = []
        for start, run in zip(starts, self.runs, strict=True):
            y, _, dy = self.structure.sensitivities(theta, start, run.u)
            dy[:, :, -1] = run.y - y
            if not np.isfinite(dy[-1]).all():
                nothing = np.zeros((len(w), len(w)))
                return Evaluation(nothing, nothing[0], np.inf, 0.0, [])
            raw.append(dy)
        return self._whitened(raw, self.noise)

    def _whitened(
        self, raw: list[Values], noise: Sequence[Autoregression]
    ) -> Evaluation:
        """Return the normal matrices for a noise."""
        p, n = self.structure.parameters, self.structure.sizes.states
        count = p + n * len(self.runs)
        normal, gradient = np.zeros((count, count)), np.zeros(count)
        squares = log_noise = 0.0
        for r, (dy, run) in enumerate(zip(raw, self.runs, strict=True)):
            own = np.r_[0:p, p + r * n : p + (r + 1) * n]
            for o, law in enumerate(noise):
                columns = dy[:, o].copy()
                log_noise += whiten(
                    law.predictors,
                    law.variances,
                    law.ahead,
                    np.ascontiguousarray(run.seen[:, o]),
                    columns,
                )
                M = columns.T @ columns
                normal[np.ix_(own, own)] += M[:-1, :-1]
                gradient[own] += M[:-1, -1]
                squares += M[-1, -1]
        return Evaluation(normal, gradient, float(squares), float(log_noise), raw)

    # -- moves ---------------------------------------------------------------------

    def step(self) -> bool:
        """Take one damped step if the cost falls by it; return whether it did."""
        precision = 1.0 / self.prior.variance
        normal, residual = self.at.normal, self.w - self.prior.mean
        slope = self.at.gradient - precision * residual
        diagonal = np.diagonal(normal) + precision
        scale = 1.0 / np.sqrt(diagonal)
        M = scale[:, None] * normal * scale
        M[np.diag_indices_from(M)] = 1.0 + self.damping
        try:
            factor = scipy.linalg.cho_factor(M, check_finite=False)
            d = scale * scipy.linalg.cho_solve(
                factor, scale * slope, check_finite=False
            )
        except scipy.linalg.LinAlgError:
            d = np.full(len(self.w), np.nan)
        promised = float(d @ (slope + self.damping * diagonal * d))
        w, cost = self.w + d, np.inf
        if np.isfinite(d).all() and self._hopeful(w):
            at = self.evaluate(w)
            cost = at.cost(w, self.prior)
        fall = self.cost - cost
        if np.isfinite(cost) and fall > 0:
            gain = min(fall / max(promised, 1e-300), 1.0)
            self.damping *= max(1.0 / 5.0, 1.0 - (2.0 * gain - 1.0) ** 3)
            self.growth = 2.0
            self.w, self._at, self.cost = w, at, cost
        else:
            self.damping *= self.growth
            self.growth *= 2.0
        self.damping = min(max(self.damping, SMALLEST_DAMPING), LARGEST_DAMPING)
        return fall > 0

    def _hopeful(self, w: Values) -> bool:
        """Return whether the error at a point is not larger already than the cost here.

        A run without derivatives takes a small part of an evaluation.
        """
        squares = 0.0
        for y, run in zip(self.outputs(w), self.runs, strict=True):
            for o, law in enumerate(self.noise):
                residual = np.ascontiguousarray((run.y - y)[:, o : o + 1])
                seen = np.ascontiguousarray(run.seen[:, o])
                whiten(law.predictors, law.variances, law.ahead, seen, residual)
                squares += float((residual**2).sum())
        paid = ((w - self.prior.mean) ** 2 / self.prior.variance).sum()
        before = ((self.w - self.prior.mean) ** 2 / self.prior.variance).sum()
        return bool(squares + paid < self.at.squares + before + VOLUME_SLACK)

    def expect(self, prior: Prior) -> None:
        """Go on with another prior."""
        at = self.at
        self.prior, self.cost = prior, at.cost(self.w, prior)
        self.damping = min(self.damping, START_DAMPING)

    def update_prior(self, power: float = 0.5) -> None:
        """Update the variances of the groups if the cost falls by it.

        ``v <- v (e / gamma)^power`` with ``e = |w|^2 / v`` and the effective number of
        parameters ``gamma`` of the group.
        """
        self._update_groups(self.prior.groups, power)
        if self.prior.across is not None:
            self._update_groups(self.prior.across, power)

    def _update_groups(self, groups: NDArray[np.int64], power: float) -> None:
        learnt = groups >= 0
        if not learnt.any():
            return
        C = np.diagonal(self.at.covariance(self.prior))
        v = self.prior.variance
        gamma = np.bincount(groups[learnt], (1.0 - C / v)[learnt])
        energy = np.bincount(
            groups[learnt], ((self.w - self.prior.mean) ** 2 / v)[learnt]
        )
        ratio = np.clip(energy / np.maximum(gamma, 1e-12), 1e-4, 1e4) ** power
        variance = v.copy()
        variance[learnt] = np.clip(v[learnt] * ratio[groups[learnt]], 1e-10, 1e6)
        prior = replace(self.prior, variance=variance)
        cost = self.at.cost(self.w, prior)
        if cost <= self.cost:
            self.prior, self.cost = prior, cost

    def update_noise(self) -> None:
        """Estimate the noise anew, and keep it if the cost falls by it.

        From the moments of ``r r' + J C J'``: the residual, and what it would have been
        larger for other weights that the data allow.
        """
        noise = self.estimated_noise()
        at = self._whitened(self.at.raw, noise)
        cost = at.cost(self.w, self.prior)
        if cost < self.cost:
            self.noise, self._at, self.cost = noise, at, cost

    def whiten_by_squares(self) -> None:
        """Count the residual as white noise of its mean square."""
        noise = []
        for o in range(self.structure.sizes.outputs):
            total = count = 0.0
            for dy, run in zip(self.at.raw, self.runs, strict=True):
                total += float((run.seen[:, o] * dy[:, o, -1] ** 2).sum())
                count += float(run.seen[:, o].sum())
            noise.append(Autoregression.white(total / max(count, 1.0)))
        self.noise = noise
        self._at = self._whitened(self.at.raw, noise)
        self.cost = self._at.cost(self.w, self.prior)

    def estimated_noise(self) -> list[Autoregression]:
        """Return the noise of the residuals."""
        p, n = self.structure.parameters, self.structure.sizes.states
        L = square_root(self.at.covariance(self.prior))
        found = []
        for o in range(self.structure.sizes.outputs):
            samples = sum(run.seen[:, o].sum() for run in self.runs)
            most = int(min(LARGEST_ORDER, samples // SAMPLES_EACH))
            sums, pairs = np.zeros(most + 1), np.zeros(most + 1)
            for r, (dy, run) in enumerate(zip(self.at.raw, self.runs, strict=True)):
                own = np.r_[0:p, p + r * n : p + (r + 1) * n]
                spread = dy[:, o, :-1] @ L[own]
                signals = np.concatenate([dy[:, o, -1:], spread], axis=1)
                more = moments_of(signals, run.seen[:, o], most)
                sums, pairs = sums + more[0], pairs + more[1]
            enough = np.flatnonzero(pairs < SAMPLES_EACH)
            stop = int(enough[0]) if enough.size else most + 1
            taper = (samples - np.arange(stop)) / samples
            moments = sums[:stop] / np.maximum(pairs[:stop], 1.0) * taper
            found.append(Autoregression.of(moments, max(samples, 2.0)))
        return found

    def cycle(self, coloured: bool) -> None:
        """Take a step, then update variances and noise.

        Parameters
        ----------
        coloured
            Whether the residual may have a memory; else it is counted as white noise
            of its mean square, which pulls harder towards a small free-run error.
        """
        self.step()
        if self.age >= FIXED_CYCLES:
            self.update_prior()
        if coloured:
            if self.age % NOISE_EVERY == 0:
                self.update_noise()
        else:
            self.whiten_by_squares()
        self.age += 1
        self.costs.append(self.cost)

    def settled(self, window: int = 6, tolerance: float = 0.02) -> bool:
        """Return whether the cost hardly falls any more."""
        if len(self.costs) <= window:
            return False
        return bool(self.costs[-1 - window] - self.costs[-1] < window * tolerance)

    def states(self) -> Values:
        """Return the states of all runs, one behind the other."""
        passed = zip(self.starts, self.runs, strict=True)
        found = [self.structure.run(self.theta, x, run.u)[1][:-1] for x, run in passed]
        return np.concatenate(found)

    def covariances(self) -> list[Values]:
        """Return the covariance of parameters and start state, run by run."""
        p, n = self.structure.parameters, self.structure.sizes.states
        whole = self.at.covariance(self.prior)
        self.rest()
        own = [np.r_[0:p, p + r * n : p + (r + 1) * n] for r in range(len(self.runs))]
        return [whole[np.ix_(places, places)] for places in own]

    def shown(self, runs: Sequence[Run]) -> Member:
        """Return a member that goes on from here with other runs.

        Runs of the same lengths start where those before did; others at the mean of
        the states, from where they have to find their start.
        """
        p = self.structure.parameters
        starts, prior = self.starts, self.prior
        if [len(run.u) for run in runs] != [len(run.u) for run in self.runs]:
            count = len(runs) * self.structure.sizes.states
            starts = np.tile(self.states().mean(axis=0), (len(runs), 1))
            prior = prior.with_starts(p, count, float(prior.variance[-1]))
        fresh = Member(self.structure, runs, self.theta, starts, prior, self.noise)
        fresh.age = self.age
        return fresh
