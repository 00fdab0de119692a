"""Models of other packages behind one face; needs ``pip install sparsid[peers]``."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.signal import ss2tf

from sparsid.data.record import Record
from sparsid.studies.comparators import FreeRuns, Lti, Run

Array = NDArray[np.float64]
# A polynomial that left the record's range by so many widths has run away.
RUNAWAY = 1e3
# Block rows of the subspace method: well above the orders tried.
BLOCK_ROWS = 20


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


class Subspace(Lti):
    """Linear state space by subspace identification (nfoursid)."""

    def _system(self, record: Record, u: Array, y: Array) -> tuple[Array, Array, float]:
        from nfoursid.nfoursid import NFourSID

        table = pd.DataFrame({"u": u, "y": y})
        found = NFourSID(table, ["y"], ["u"], num_block_rows=BLOCK_ROWS)
        found.subspace_identification()
        system, _ = found.system_identification(rank=self.order)
        b, a = ss2tf(system.a, system.b, system.c, system.d)
        return np.asarray(b[0]), np.asarray(a), 0.0
