"""Other models on the same data by the same protocols, run live.

Each is fitted to the estimation record; what has to be chosen (orders, terms, regions)
is chosen by the free run over the last quarter of it, then refitted to all of it.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares
from scipy.signal import lfilter
from sklearn.cluster import KMeans

from sparsid.data.record import Record
from sparsid.errors import InputError
from sparsid.models.narx import Lags, regression_rows
from sparsid.validation.scores import rmse

Array = NDArray[np.float64]
# Held back at the end of the estimation record to choose orders by.
VALIDATION = 0.25
# Fewer rows than this for each regressor do not settle an affine map.
ROWS_PER_REGRESSOR = 2
# A free run that leaves the range of the record by more than this many times its width
# has diverged.
ROOM = 1.0
# Outputs that settle the state in which a linear run starts: the paper's lag.
START_OUTPUTS = 19
# Singular values below this share of the largest are left out: the recorded input is so
# smooth that its lags are nearly dependent, and the rest would fit rounding errors.
CONDITION = 1e-6
# Residual of an unstable candidate, in units of the output: large, but finite.
LARGEST_RESIDUAL = 1e6


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


class Affine:
    """Affine map by least squares."""

    def fit(self, z: Array, y: Array) -> Affine:
        """Fit weights, the constant last."""
        mean = z.mean(0)
        weights = np.linalg.lstsq(z - mean, y - y.mean(), rcond=CONDITION)[0]
        self.weights = np.append(weights, y.mean() - mean @ weights)
        return self

    def predict(self, z: Array) -> Array:
        """Return the map of each row."""
        return np.asarray(z @ self.weights[:-1] + self.weights[-1])


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
        whole, maps = Affine().fit(z, y), []
        for k in range(self.regions):
            inside = labels == k
            enough = inside.sum() >= ROWS_PER_REGRESSOR * z.shape[1]
            one = Affine().fit(z[inside], y[inside]) if enough else whole
            maps.append(one.weights)
        self.maps = np.array(maps)
        return self

    def predict(self, z: Array) -> Array:
        """Return the affine map of each row's region."""
        scaled = (z - self.mean) / self.std
        distance = ((scaled[:, None] - self.centres) ** 2).sum(2)
        maps = self.maps[distance.argmin(1)]
        return np.asarray((z * maps[:, :-1]).sum(1) + maps[:, -1])


class Lti:
    """Linear state space of some order, fitted to its own free run.

    In transposed direct form, of centred signals: numerator ``b``, denominator ``a``,
    the state at the start and a constant, by least squares from the linear ARX model.
    """

    max_lag_ = START_OUTPUTS

    def __init__(self, order: int) -> None:
        self.order = order

    def fit(self, record: Record) -> Lti:
        """Fit the system and the state in which the record starts."""
        self.u_mean, self.y_mean = float(record.u.mean()), float(record.y.mean())
        u, y = record.u[:, 0] - self.u_mean, record.y[:, 0] - self.y_mean
        self.b, self.a, constant = self._system(record, u, y)
        self.y_mean += constant
        self.start = self._state(u, y - constant)
        return self

    def _system(self, record: Record, u: Array, y: Array) -> tuple[Array, Array, float]:
        """Return numerator, denominator and constant."""
        n = self.order
        linear = linear_arx(n).fit(record).f.weights[:-1]
        self.b, self.a = linear[: n + 1], np.append(1.0, -linear[n + 1 :])
        theta = np.concatenate([self.b, self.a[1:], self._state(u, y), [0.0]])

        def residual(theta: Array) -> Array:
            b, a = theta[: n + 1], np.append(1.0, theta[n + 1 : 2 * n + 1])
            error = lfilter(b, a, u, zi=theta[2 * n + 1 : -1])[0] + theta[-1] - y
            limit = LARGEST_RESIDUAL
            return np.asarray(np.clip(np.nan_to_num(error, nan=limit), -limit, limit))

        with np.errstate(over="ignore", invalid="ignore"):
            theta = least_squares(residual, theta, x_scale="jac").x
        a = np.append(1.0, theta[n + 1 : 2 * n + 1])
        return theta[: n + 1], a, float(theta[-1])

    def _state(self, u: Array, y: Array) -> Array:
        """Return the initial state that fits the outputs best."""
        still = np.zeros(len(u))
        forced = lfilter(self.b, self.a, u)
        free = [
            lfilter(self.b, self.a, still, zi=unit)[0] for unit in np.eye(self.order)
        ]
        return np.asarray(np.linalg.lstsq(np.array(free).T, y - forced, rcond=None)[0])

    def predict(self, record: Any) -> Run:
        """Return the free run: the model has no one-step predictor."""
        return self.simulate(record)

    def simulate(self, u: Any) -> Run:
        """Return the free run over a record, or over inputs from the learnt start."""
        if not isinstance(u, Record):
            return Run(self._respond(u[:, 0] - self.u_mean, self.start), 0)
        n = START_OUTPUTS
        inputs = u.u[:, 0] - self.u_mean
        state = self._state(inputs[:n], u.y[:n, 0] - self.y_mean)
        mean = self._respond(inputs, state)
        mean[:n] = np.nan
        return Run(mean, n)

    def _respond(self, u: Array, state: Array) -> Array:
        return (
            np.asarray(lfilter(self.b, self.a, u, zi=state)[0][:, None]) + self.y_mean
        )


def linear_arx(lags: int) -> Arx:
    """Return the unfitted linear model with constant."""
    return Arx(lags, Affine)


def choose(candidates: Sequence[Comparator], record: Record) -> Comparator:
    """Return the one with the best free run on the end of the record, refitted."""
    learn, judge = record.split(VALIDATION)
    errors = [float(rmse(judge, c.fit(learn).simulate(judge))[0]) for c in candidates]
    best: Comparator = candidates[int(np.argmin(errors))].fit(record)
    return best


# -- the comparators by name ---------------------------------------------------------


def _arx_5(record: Record) -> Comparator:
    return linear_arx(5).fit(record)


def _arx_19(record: Record) -> Comparator:
    return linear_arx(19).fit(record)


def _piecewise(record: Record) -> Comparator:
    candidates = [
        Arx(lags, partial(Piecewise, regions))
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


def _output_error(record: Record) -> Comparator:
    return choose([Lti(order) for order in (2, 3, 4)], record)


def _subspace(record: Record) -> Comparator:
    from sparsid.studies.peers import Subspace

    return choose([Subspace(order) for order in (2, 3, 4)], record)


# How to fit each, and the package it needs beyond sparsid's own.
COMPARATORS: dict[str, tuple[Callable[[Record], Comparator], str | None]] = {
    "linear ARX, lag 5": (_arx_5, None),
    "linear ARX, lag 19": (_arx_19, None),
    "LTI state space (output error)": (_output_error, None),
    "LTI state space (subspace)": (_subspace, "nfoursid"),
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
