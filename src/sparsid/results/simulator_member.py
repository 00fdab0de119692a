"""A member in the canonical form: its run, its start, what it is unsure of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sparsid.bayes.posterior import square_root
from sparsid.kernel.whitening import whiten
from sparsid.models.autoregression import Autoregression
from sparsid.models.canonical import Structure
from sparsid.results.surprise import Seen

Values = NDArray[np.float64]

# Iterations that fit a start state; damping of the first.
START_STEPS, START_DAMPING = 12, 1e-3
# Start states lie where states were in the estimation records, so many times as wide.
START_SPREAD = 2.0
# Samples between which derivatives are carried over, not kept.
CHUNK = 20_000


@dataclass(frozen=True, eq=False)
class SimulatorMember:
    """A simulator: its structure with values, scaled units.

    Attributes
    ----------
    theta, start
        Parameters; state in which the first estimation record started.
    state_mean, state_root
        Mean of the states over the estimation records, and a root of their covariance.
    noise
        What free runs leave over, output by output.
    covariance
        Of parameters and that start state.
    prior_std
        Deviation of the prior of the parameters, around zero.
    prior_variance
        Of parameters and that start state, around what the fit began with.
    seen
        Where states and inputs were; None in files of earlier versions.
    """

    structure: Structure
    theta: Values
    start: Values
    state_mean: Values
    state_root: Values
    noise: tuple[Autoregression, ...]
    covariance: Values
    prior_std: Values
    prior_variance: Values
    log_evidence: float
    seen: Seen | None = None

    def run(self, start: Values, u: Values) -> Values:
        """Return the free run, (time, output); ``u`` ends with the constant."""
        return self.structure.run(self.theta, start, u)[0]

    def started(self, u: Values, y: Values) -> tuple[Values, Values]:
        """Return the start state that fits first outputs, and a joint covariance.

        By Gauss and Newton in the coordinates in which the states of the estimation
        records have unit variance, with those records as prior. The start follows the
        parameters: with derivatives ``P`` by them and ``J`` by the start, whitened, and
        ``C`` the covariance of the start at given parameters,

            x0(theta) = x0 - C J' P (theta - their estimate),

        so that what the scale of a state leaves open does not count as spread.

        Returns
        -------
        start, covariance
            The covariance is that of parameters and start.
        """
        seen = np.isfinite(y)
        root = START_SPREAD * self.state_root
        target = np.where(seen, y, 0.0)
        count = self.structure.parameters

        def look(z: Values) -> tuple[Values, Values, Values]:
            return self._whitened(z, u, target, seen)

        z, damping = np.zeros(len(self.start)), START_DAMPING
        J, r, P = look(z)
        for _ in range(START_STEPS):
            normal = J.T @ J
            step = np.linalg.solve(
                normal + damping * np.diag(np.diagonal(normal)), J.T @ r
            )
            J_new, r_new, P_new = look(z + step)
            if (r_new**2).sum() < (r**2).sum():
                z, J, r, P, damping = z + step, J_new, r_new, P_new, 0.2 * damping
                if np.abs(step).max() < 1e-8:
                    break
            else:
                damping = max(5.0 * damping, 1e-3)
        own = np.linalg.inv(J.T @ J)
        follows = -root @ own @ (J.T @ P)
        C = self.covariance[:count, :count]
        cross = follows @ C
        joint = np.block(
            [[C, cross.T], [cross, root @ own @ root.T + cross @ follows.T]]
        )
        return self.state_mean + root @ z, joint

    def _whitened(
        self, z: Values, u: Values, target: Values, seen: NDArray[np.bool_]
    ) -> tuple[Values, Values, Values]:
        """Return derivatives by a start, the residual, and derivatives by parameters.

        All whitened, with the prior of the start behind.
        """
        structure, root = self.structure, START_SPREAD * self.state_root
        count = structure.parameters
        runs, _, dy = structure.sensitivities(self.theta, self.state_mean + root @ z, u)
        columns = np.concatenate(
            [
                dy[:, :, :count],
                dy[:, :, count:-1] @ root,
                (target - runs)[..., None],
            ],
            axis=2,
        )
        for o, law in enumerate(self.noise):
            whiten(
                law.predictors,
                law.variances,
                law.ahead,
                np.ascontiguousarray(seen[:, o], dtype=float),
                columns[:, o],
            )
        flat = columns.reshape(-1, columns.shape[2])
        prior = np.zeros((len(z), flat.shape[1]))
        prior[:, count:-1] = np.eye(len(z))
        prior[:, -1] = -z
        stack = np.concatenate([flat, prior])
        return stack[:, count:-1], stack[:, -1], stack[:, :count]

    def variance(self, start: Values, covariance: Values, u: Values) -> Values:
        """Return the variance of the free run by parameters and start, (time, output).

        Parameters
        ----------
        covariance
            Of parameters and start state.
        """
        structure = self.structure
        R = square_root(covariance)
        carry = np.eye(len(start), len(covariance), structure.parameters)
        found = np.empty((len(u), structure.sizes.outputs))
        for first in range(0, len(u), CHUNK):
            part = slice(first, first + CHUNK)
            _, x, dy = structure.sensitivities(self.theta, start, u[part], carry)
            start = x[-1]
            for o in range(found.shape[1]):
                found[part, o] = ((dy[:, o, :-1] @ R) ** 2).sum(1)
        return found

    def drawn_variance(
        self,
        start: Values,
        covariance: Values,
        u: Values,
        count: int,
        seed: Sequence[int],
    ) -> Values:
        """Return the variance of free runs with drawn parameters.

        Along directions that the data leave open, such as the scale of a state, a long
        way changes nothing to first order and everything in the end: what is drawn is
        the part of the covariance that comes from the data.
        """
        rng = np.random.default_rng(seed)
        P = self.structure.parameters
        weak = covariance / np.sqrt(self.prior_variance)
        R = square_root(covariance - weak @ weak.T)
        runs = []
        for _ in range(count):
            w = np.concatenate([self.theta, start]) + R @ rng.normal(size=len(R))
            runs.append(self.structure.run(w[:P], w[P:], u)[0])
        return np.asarray(np.var(runs, axis=0, ddof=1))
