"""Models of other packages behind one face; needs ``pip install sparsid[peers]``."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from sparsid.records import Record
from sparsid.studies.comparators import Run

Array = NDArray[np.float64]


class SysIdentPolynomial:
    """Polynomial NARX, terms chosen by forward orthogonal least squares (SysIdentPy)."""

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
        self.range = float(np.ptp(record.y))
        return self

    def predict(self, record: Record) -> Run:
        """Return the one-step prediction."""
        mean = self.model.predict(X=record.u, y=record.y, steps_ahead=1)
        return self._run(mean, self.max_lag_)

    def simulate(self, u: Any) -> Run:
        """Return the free run over a record, or over inputs from the first output."""
        lag = self.max_lag_
        if isinstance(u, Record):
            return self._run(self._free(u.u, u.y[:lag]), lag)
        padded = np.concatenate([np.repeat(u[:1], lag, axis=0), u])
        held = np.repeat(self.first[None], lag, axis=0)
        return Run(self._run(self._free(padded, held), lag).mean[lag:], 0)

    def _free(self, u: Array, first: Array) -> Array:
        with warnings.catch_warnings():
            # A polynomial that runs away overflows; the run is cut off below.
            warnings.simplefilter("ignore", RuntimeWarning)
            return np.asarray(self.model.predict(X=u, y=first))

    def _run(self, mean: Array, start: int) -> Run:
        mean = np.array(mean, dtype=float).reshape(-1, 1)
        wild = ~(np.abs(mean[:, 0]) < 1e3 * self.range)
        if wild.any():
            mean[int(np.argmax(wild)) :] = np.nan
        mean[:start] = np.nan
        return Run(mean, start)


class StateSpaceLti:
    """Linear state space by subspace identification (nfoursid), centred signals."""

    max_lag_ = 0
    BLOCK_ROWS = 20

    def __init__(self, order: int) -> None:
        self.order = order

    def fit(self, record: Record) -> StateSpaceLti:
        """Identify the system and the state in which the record starts."""
        from nfoursid.nfoursid import NFourSID

        self.u_mean, self.y_mean = record.u.mean(0), record.y.mean(0)
        table = pd.DataFrame(
            {"u": (record.u - self.u_mean)[:, 0], "y": (record.y - self.y_mean)[:, 0]}
        )
        identification = NFourSID(table, ["y"], ["u"], num_block_rows=self.BLOCK_ROWS)
        identification.subspace_identification()
        self.system, _ = identification.system_identification(rank=self.order)
        self.x0 = self._start(record.u, record.y)
        return self

    def _respond(self, u: Array, x: Array) -> Array:
        a, b, c, d = (getattr(self.system, name) for name in "abcd")
        y = np.empty((len(u), 1))
        for t, u_t in enumerate(u - self.u_mean):
            y[t] = c @ x + d @ u_t
            x = a @ x + b @ u_t
        return y + self.y_mean

    def _start(self, u: Array, y: Array) -> Array:
        """Return the initial state that fits the first outputs best."""
        n = min(len(y), 50)
        forced = self._respond(u[:n], np.zeros(self.order))
        a, c = self.system.a, self.system.c
        rows, power = [], np.eye(self.order)
        for _ in range(n):
            rows.append((c @ power)[0])
            power = a @ power
        return np.linalg.lstsq(np.array(rows), (y[:n] - forced)[:, 0], rcond=None)[0]

    def predict(self, record: Record) -> Run:
        """Return the free run: the model has no one-step predictor."""
        return self.simulate(record)

    def simulate(self, u: Any) -> Run:
        """Return the response from the start state of the estimation record."""
        if isinstance(u, Record):
            return Run(self._respond(u.u, self._start(u.u, u.y)), 0)
        return Run(self._respond(u, self.x0), 0)
