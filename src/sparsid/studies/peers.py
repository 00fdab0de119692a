"""Models of other packages behind one face; needs ``pip install sparsid[peers]``."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from sparsid.records import Record
from sparsid.studies.comparators import FreeRuns, Run

Array = NDArray[np.float64]
# A polynomial that left the record's range by so many widths has run away.
RUNAWAY = 1e3
# Block rows of the subspace method: well above the orders tried.
BLOCK_ROWS = 20
# Outputs that settle the state in which a run starts, as many as the paper's lag.
START_OUTPUTS = 19


class SysIdentPolynomial(FreeRuns):
    """Polynomial NARX, terms by forward orthogonal least squares (SysIdentPy)."""

    def __init__(self, lags: int, degree: int, terms: int) -> None:
        self.max_lag_, self.degree, self.terms = lags, degree, terms

    def fit(self, record: Record) -> SysIdentPolynomial:
        """Choose terms and fit them to the one-step error."""
        from sysidentpy.basis_function import Polynomial
        from sysidentpy.model_structure_selection import FROLS
        from sysidentpy.parameter_estimation import LeastSquares

        self.model = FROLS(
            order_selection=False,
            n_terms=self.terms,
            ylag=self.max_lag_,
            xlag=self.max_lag_,
            basis_function=Polynomial(degree=self.degree),
            estimator=LeastSquares(),
        )
        self.model.fit(X=record.u, y=record.y)
        self.first = record.y[0]
        self.limit = RUNAWAY * float(np.ptp(record.y))
        return self

    def predict(self, record: Any) -> Run:
        """Return the one-step prediction."""
        mean = self.model.predict(X=record.u, y=record.y, steps_ahead=1)
        return Run(self._bounded(mean), self.max_lag_)

    def _run(self, u: Array, first: Array) -> Array:
        with warnings.catch_warnings():
            # One that runs away overflows; the run is cut off there.
            warnings.simplefilter("ignore", RuntimeWarning)
            return self._bounded(self.model.predict(X=u, y=first))

    def _bounded(self, mean: Any) -> Array:
        bounded: Array = np.array(mean, dtype=float).reshape(-1, 1)
        wild = ~(np.abs(bounded[:, 0]) < self.limit)
        if wild.any():
            bounded[int(np.argmax(wild)) :] = np.nan
        bounded[: self.max_lag_] = np.nan
        return bounded


class StateSpaceLti:
    """Linear state space by subspace identification (nfoursid), centred signals.

    A run over a record starts in the state that fits its first outputs best, one over
    inputs alone in that of the estimation record.
    """

    max_lag_ = START_OUTPUTS

    def __init__(self, order: int) -> None:
        self.order = order

    def fit(self, record: Record) -> StateSpaceLti:
        """Identify the system and the state in which the record starts."""
        from nfoursid.nfoursid import NFourSID

        self.u_mean, self.y_mean = record.u.mean(0), record.y.mean(0)
        table = pd.DataFrame(
            {"u": (record.u - self.u_mean)[:, 0], "y": (record.y - self.y_mean)[:, 0]}
        )
        found = NFourSID(table, ["y"], ["u"], num_block_rows=BLOCK_ROWS)
        found.subspace_identification()
        system, _ = found.system_identification(rank=self.order)
        self.a, self.b, self.c, self.d = system.a, system.b, system.c, system.d
        self.start = self._start(record.u, record.y)
        return self

    def predict(self, record: Any) -> Run:
        """Return the free run: the model has no one-step predictor."""
        return self.simulate(record)

    def simulate(self, u: Any) -> Run:
        """Return the response over a record, or over inputs."""
        if not isinstance(u, Record):
            return Run(self._respond(u, self.start), 0)
        mean = self._respond(u.u, self._start(u.u, u.y))
        mean[: self.max_lag_] = np.nan
        return Run(mean, self.max_lag_)

    def _respond(self, u: Array, x: Array) -> Array:
        y = np.empty((len(u), 1))
        for t, u_t in enumerate(u - self.u_mean):
            y[t] = self.c @ x + self.d @ u_t
            x = self.a @ x + self.b @ u_t
        return np.asarray(y + self.y_mean)

    def _start(self, u: Array, y: Array) -> Array:
        """Return the initial state that fits the first outputs best."""
        n = START_OUTPUTS
        forced = self._respond(u[:n], np.zeros(self.order))
        rows = [self.c[0]]
        for _ in range(n - 1):
            rows.append(rows[-1] @ self.a)
        free = (y[:n] - forced)[:, 0]
        return np.asarray(np.linalg.lstsq(np.array(rows), free, rcond=None)[0])
