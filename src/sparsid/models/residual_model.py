"""What is left over by a free run, predicted from what was left over before.

    r(t) = sum_k P_k r(t-k) + sum_k U_k u(t-k) + sum_k Y_k s(t-k) + c + e(t)

with the free run ``s``. Without U, Y and c this is an autoregression of the residual;
with them it holds every linear regression of outputs on past outputs and inputs, too:
what the free run lacks can be made up for one step ahead.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sparsid.kernel.runs import expected_residuals

Values = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ResidualModel:
    """A linear model of the residual, in scaled units.

    Attributes
    ----------
    past
        P, (lag, output, output), from lag 1 on.
    inputs, runs
        U, (lag, output, input), and Y, (lag, output, output), from lag 0 on; may have
        no lags.
    constant
        (output).
    covariance
        Of what is left over one step ahead, (output, output).
    """

    past: Values
    inputs: Values
    runs: Values
    constant: Values
    covariance: Values

    @staticmethod
    def none(inputs: int, variance: Values) -> ResidualModel:
        """Return one that expects nothing."""
        ny = len(variance)
        empty = np.zeros((0, ny, ny))
        no_inputs = np.zeros((0, ny, inputs))
        return ResidualModel(empty, no_inputs, empty, np.zeros(ny), np.diag(variance))

    @property
    def order(self) -> int:
        """Residuals that it remembers."""
        return len(self.past)

    def expected(
        self, residual: Values, u: Values, runs: Values, horizon: int
    ) -> Values:
        """Return residuals expected ``horizon`` samples ahead, (time, output).

        Parameters
        ----------
        residual
            NaN where no output was measured.
        u, runs
            Scaled inputs without the constant, and the free run.
        """
        drive = np.tile(self.constant, (len(runs), 1))
        for matrices, signal in ((self.inputs, u), (self.runs, runs)):
            for k, matrix in enumerate(matrices):
                # What was before the first sample: as at the first.
                late = np.concatenate([signal[:1].repeat(k, 0), signal])[: len(signal)]
                drive += late @ matrix.T
        out = np.empty_like(runs)
        expected_residuals(
            np.ascontiguousarray(self.past),
            np.ascontiguousarray(drive),
            np.ascontiguousarray(residual),
            horizon,
            out,
        )
        return out

    def variance_ahead(self, horizon: int) -> Values:
        """Return the variance of predictions ``horizon`` samples ahead, by output."""
        ny = len(self.constant)
        responses = [np.eye(ny)]
        for k in range(1, horizon):
            lags = range(min(self.order, k))
            terms = (self.past[j] @ responses[k - 1 - j] for j in lags)
            responses.append(sum(terms, np.zeros((ny, ny))))
        total = sum((R @ self.covariance @ R.T for R in responses), np.zeros((ny, ny)))
        return np.asarray(np.diagonal(total)).copy()
