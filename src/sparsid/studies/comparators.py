"""Other models on the same data by the same protocols, run live.

Each is fitted to the estimation record; what has to be chosen (orders, terms, regions)
is chosen by the free run over the last quarter of it, then refitted to all of it.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.linear_model import LinearRegression

from sparsid.errors import InputError
from sparsid.models.narx import Lags, regression_rows
from sparsid.records import Record
from sparsid.scores import rmse

Array = NDArray[np.float64]
# Held back at the end of the estimation record to choose orders by.
VALIDATION = 0.25
# Fewer rows than this for each regressor do not settle an affine map.
ROWS_PER_REGRESSOR = 2
# A free run that leaves the range of the record by more than this many times its width
# has diverged.
ROOM = 1.0


@dataclass(frozen=True)
class Run:
    """A free run or prediction, aligned with its record."""

    mean: Array
    start: int


class Comparator(Protocol):
    """What ``Benchmark.score`` wants of a finished model, and how to get there."""

    max_lag_: int

    def fit(self, record: Record) -> Any:
        """Fit to a record and return the model."""

    def predict(self, record: Any) -> Run:
        """Return the one-step prediction."""

    def simulate(self, u: Any) -> Run:
        """Return the free run over a record, or over inputs from the first output."""


class FreeRuns:
    """Starts of free runs for models that need ``max_lag_`` outputs before them."""

    max_lag_: int
    first: Array

    def simulate(self, u: Any) -> Run:
        """Return the free run over a record, or over inputs from the first output."""
        lag = self.max_lag_
        if isinstance(u, Record):
            return Run(self._run(u.u, u.y[:lag]), lag)
        padded = np.concatenate([np.repeat(u[:1], lag, axis=0), u])
        held = np.repeat(self.first[None], lag, axis=0)
        return Run(self._run(padded, held)[lag:], 0)

    def _run(self, u: Array, first: Array) -> Array:
        """Return outputs for all inputs, NaN for those that start the run."""
        raise NotImplementedError


class Arx(FreeRuns):
    """A model ``y(t) = f(z(t))`` on lagged samples, for any regression ``f``.

    Parameters
    ----------
    make
        Returns an unfitted ``f``, with the manners of scikit-learn.
    """

    def __init__(self, lags: int, make: Callable[[], Any]) -> None:
        self.max_lag_, self.make = lags, make
        self.table = Lags(1, 1, lags, lags).table

    def fit(self, record: Record) -> Arx:
        """Fit ``f`` to the one-step error."""
        z = regression_rows(self.table, self.max_lag_, record.u, record.y)
        self.f = self.make().fit(z, record.y[self.max_lag_ :, 0])
        self.first = record.y[0]
        room = ROOM * float(np.ptp(record.y))
        self.bounds = float(record.y.min()) - room, float(record.y.max()) + room
        return self

    def predict(self, record: Any) -> Run:
        """Return the one-step prediction."""
        z = regression_rows(self.table, self.max_lag_, record.u, record.y)
        mean = np.full(record.y.shape, np.nan)
        mean[self.max_lag_ :, 0] = self.f.predict(z)
        return Run(mean, self.max_lag_)

    def _run(self, u: Array, first: Array) -> Array:
        lag = self.max_lag_
        y = np.full((len(u), 1), np.nan)
        y[:lag] = first
        ago = np.array([r.lag for r in self.table])
        inputs = np.array([r.signal == "u" for r in self.table])
        for t in range(lag, len(u)):
            z = np.where(inputs, u[t - ago, 0], y[t - ago, 0])
            y[t] = self.f.predict(z[None])[0]
            if not self.bounds[0] < y[t, 0] < self.bounds[1]:
                y[t:] = np.nan
                break
        y[:lag] = np.nan
        return y


class Persistence:
    """The forecast that nothing changes, scored from ``lags`` on as the others are."""

    def __init__(self, lags: int) -> None:
        self.max_lag_ = lags

    def predict(self, record: Any) -> Run:
        """Return ``y(t-1)``."""
        mean = np.concatenate([np.full((1, 1), np.nan), record.y[:-1]])
        return Run(mean, self.max_lag_)

    def simulate(self, u: Any) -> Run:
        """Refuse: what never changes is no simulation."""
        raise InputError("persistence needs measured outputs: it cannot run freely")


class Piecewise:
    """Piecewise affine map: nearest of k means, least squares in each region."""

    def __init__(self, regions: int) -> None:
        self.regions = regions

    def fit(self, z: Array, y: Array) -> Piecewise:
        """Cut the standardised rows into regions and fit each."""
        self.mean, self.std = z.mean(0), z.std(0)
        cut = KMeans(self.regions, n_init=10, random_state=0)
        labels = cut.fit_predict((z - self.mean) / self.std)
        self.centres = cut.cluster_centers_
        whole = LinearRegression().fit(z, y)
        self.maps = []
        for k in range(self.regions):
            inside = labels == k
            enough = inside.sum() >= ROWS_PER_REGRESSOR * z.shape[1]
            one = LinearRegression().fit(z[inside], y[inside]) if enough else whole
            self.maps.append(np.append(one.coef_, one.intercept_))
        return self

    def predict(self, z: Array) -> Array:
        """Return the affine map of each row's region."""
        scaled = (z - self.mean) / self.std
        distance = ((scaled[:, None] - self.centres) ** 2).sum(2)
        maps = np.array(self.maps)[distance.argmin(1)]
        return np.asarray((z * maps[:, :-1]).sum(1) + maps[:, -1])


def linear_arx(lags: int) -> Arx:
    """Return the unfitted linear model with constant."""
    return Arx(lags, LinearRegression)


def choose(candidates: Sequence[Comparator], record: Record) -> Comparator:
    """Return the one with the best free run on the end of the record, refitted."""
    learn, judge = record.split(VALIDATION)
    errors = [float(rmse(judge, c.fit(learn).simulate(judge))[0]) for c in candidates]
    return candidates[int(np.argmin(errors))].fit(record)  # type: ignore[no-any-return]


# -- the comparators by name ---------------------------------------------------------


def _arx_5(record: Record) -> Comparator:
    return linear_arx(5).fit(record)


def _arx_19(record: Record) -> Comparator:
    return linear_arx(19).fit(record)


def _piecewise(record: Record) -> Comparator:
    candidates = [
        Arx(lags, lambda regions=regions: Piecewise(regions))  # type: ignore[misc]
        for lags in (2, 3, 5)
        for regions in (2, 3, 4, 6)
    ]
    return choose(candidates, record)


def _polynomial(record: Record) -> Comparator:
    from sparsid.studies.peers import SysIdentPolynomial

    candidates = [
        SysIdentPolynomial(lags, degree, terms)
        for lags in (2, 3, 5)
        for degree in (2, 3)
        for terms in (6, 10)
    ]
    return choose(candidates, record)


def _state_space(record: Record) -> Comparator:
    from sparsid.studies.peers import StateSpaceLti

    return choose([StateSpaceLti(order) for order in (2, 3, 4)], record)


# How to fit each, and the package it needs beyond sparsid's own.
COMPARATORS: dict[str, tuple[Callable[[Record], Comparator], str | None]] = {
    "linear ARX, lag 5": (_arx_5, None),
    "linear ARX, lag 19": (_arx_19, None),
    "LTI state space (N4SID)": (_state_space, "nfoursid"),
    "polynomial NARX (FROLS)": (_polynomial, "sysidentpy"),
    "piecewise affine ARX (k-means)": (_piecewise, None),
}


def available() -> dict[str, str]:
    """Return the comparators that can run here, each with package and version."""
    found = {}
    for name, (_, package) in COMPARATORS.items():
        if package is None:
            found[name] = "sparsid"
        elif importlib.util.find_spec(package):
            found[name] = f"{package} {version(package)}"
    return found


def fit_comparator(name: str, record: Record) -> Comparator:
    """Return the comparator of this name, fitted to the record."""
    if name not in COMPARATORS:
        raise InputError(
            f"comparator {name!r} is not known: choose from {', '.join(COMPARATORS)}"
        )
    return COMPARATORS[name][0](record)
