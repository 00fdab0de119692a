"""Other models on the same data by the same protocols, run live.

Each is fitted to the estimation record; what has to be chosen (orders, terms, regions)
is chosen on the last quarter of it, then refitted to all of it.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.linear_model import LinearRegression

import sparsid
from sparsid.datasets import Benchmark
from sparsid.errors import InputError
from sparsid.models.narx import Lags, regression_rows
from sparsid.records import Record

Array = NDArray[np.float64]
# Held back at the end of the estimation record to choose orders by.
VALIDATION = 0.25


@dataclass(frozen=True)
class Run:
    """A free run or prediction, aligned with its record."""

    mean: Array
    start: int


class Arx:
    """A model ``y(t) = f(z(t))`` on lagged samples, for any regression ``f``.

    Offers what ``Benchmark.score`` wants of a finished model.
    """

    def __init__(self, lags: int, make: Callable[[], Any]) -> None:
        self.max_lag_ = lags
        self.table = Lags(1, 1, lags, lags).table
        self.make = make

    def fit(self, record: Record) -> Arx:
        """Fit ``f`` to the one-step error."""
        z = regression_rows(self.table, self.max_lag_, record.u, record.y)
        self.f = self.make().fit(z, record.y[self.max_lag_ :, 0])
        self.first = record.y[0]
        # A free run that leaves three ranges of the record has diverged.
        low, high = record.y.min(), record.y.max()
        self.bounds = (low - (high - low), high + (high - low))
        return self

    def predict(self, record: Record) -> Run:
        """Return the one-step prediction."""
        z = regression_rows(self.table, self.max_lag_, record.u, record.y)
        mean = np.full(record.y.shape, np.nan)
        mean[self.max_lag_ :, 0] = self.f.predict(z)
        return Run(mean, self.max_lag_)

    def simulate(self, u: Any) -> Run:
        """Return the free run over a record, or over inputs from the first output."""
        lag = self.max_lag_
        if isinstance(u, Record):
            return Run(self._run(u.u, u.y[:lag]), lag)
        padded = np.concatenate([np.repeat(u[:1], lag, axis=0), u])
        held = np.repeat(self.first[None], lag, axis=0)
        return Run(self._run(padded, held)[lag:], 0)

    def _run(self, u: Array, first: Array) -> Array:
        lag = self.max_lag_
        y = np.full((len(u), 1), np.nan)
        y[:lag] = first
        past = np.array([r.lag for r in self.table])
        inputs = np.array([r.signal == "u" for r in self.table])
        for t in range(lag, len(u)):
            z = np.where(inputs, u[t - past, 0], y[t - past, 0])
            y[t] = self.f.predict(z[None])[0]
            if not self.bounds[0] < y[t, 0] < self.bounds[1]:
                y[t:] = np.nan
                break
        y[:lag] = np.nan
        return y


class Piecewise:
    """Piecewise affine map: k-means regions of standardised rows, least squares each."""

    def __init__(self, regions: int) -> None:
        self.regions = regions

    def fit(self, z: Array, y: Array) -> Piecewise:
        """Cut the rows into regions and fit each."""
        self.mean, self.std = z.mean(0), z.std(0)
        scaled = (z - self.mean) / self.std
        self.cut = KMeans(self.regions, n_init=10, random_state=0).fit(scaled)
        whole = LinearRegression().fit(z, y)
        self.maps = []
        for k in range(self.regions):
            inside = self.cut.labels_ == k
            few = inside.sum() < 2 * z.shape[1]
            self.maps.append(
                whole if few else LinearRegression().fit(z[inside], y[inside])
            )
        return self

    def predict(self, z: Array) -> Array:
        """Return the affine map of each row's region."""
        regions = self.cut.predict((z - self.mean) / self.std)
        return np.array(
            [
                self.maps[k].predict(row[None])[0]
                for k, row in zip(regions, z, strict=True)
            ]
        )


def _free_run_error(model: Any, record: Record) -> float:
    run = model.simulate(record)
    return float(sparsid.rmse(record, run)[0])


def _best(candidates: list[Any], record: Record) -> Any:
    """Return the candidate with the best free run on the end of the record, refitted."""
    learn, judge = record.split(VALIDATION)
    errors = [_free_run_error(c.fit(learn), judge) for c in candidates]
    return candidates[int(np.argmin(errors))].fit(record)


def _linear(lags: int) -> Arx:
    return Arx(lags, LinearRegression)


def _arx_5(record: Record) -> Any:
    return _linear(5).fit(record)


def _arx_19(record: Record) -> Any:
    return _linear(19).fit(record)


def _pwarx(record: Record) -> Any:
    return _best(
        [
            Arx(lags, lambda k=k: Piecewise(k))  # type: ignore[misc]
            for lags in (2, 3, 5)
            for k in (2, 3, 4, 6)
        ],
        record,
    )


def _polynomial(record: Record) -> Any:
    """Polynomial NARX by SysIdentPy's forward selection, if it is installed."""
    from sparsid.studies.peers import SysIdentPolynomial

    candidates = [
        SysIdentPolynomial(lags, degree, terms)
        for lags in (2, 3, 5)
        for degree in (2, 3)
        for terms in (6, 10)
    ]
    return _best(candidates, record)


def _state_space(record: Record) -> Any:
    """LTI state space by N4SID (nfoursid), if it is installed."""
    from sparsid.studies.peers import StateSpaceLti

    return _best([StateSpaceLti(order) for order in (2, 3, 4)], record)


# Name, how to fit it, and the package it needs beyond sparsid's own.
COMPARATORS: dict[str, tuple[Callable[[Record], Any], str | None]] = {
    "linear ARX, lag 5": (_arx_5, None),
    "linear ARX, lag 19": (_arx_19, None),
    "LTI state space (nfoursid)": (_state_space, "nfoursid"),
    "polynomial NARX (SysIdentPy)": (_polynomial, "sysidentpy"),
    "piecewise affine ARX (k-means)": (_pwarx, None),
}


def available() -> list[str]:
    """Return the comparators whose packages are installed."""
    return [
        name
        for name, (_, package) in COMPARATORS.items()
        if package is None or importlib.util.find_spec(package)
    ]


def run_comparator(name: str, benchmark: Benchmark) -> dict[str, Any]:
    """Return the errors of a comparator on the test record."""
    if name not in COMPARATORS:
        raise InputError(
            f"comparator {name!r} is not known: choose from {', '.join(COMPARATORS)}"
        )
    model = COMPARATORS[name][0](benchmark.estimation)
    result: dict[str, Any] = {}
    for protocol in ("A", "B", "C", "one-step"):
        value = float(benchmark.score(model, protocol).rmse[0])  # type: ignore[arg-type]
        result[f"test_rmse_{protocol}"] = value if np.isfinite(value) else None
    return result
