"""What models answer with, and what they ask of the records they are given."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray
from scipy.stats import norm

from sparsid.checks import number, whole
from sparsid.data.pieces import stretches_of
from sparsid.data.record import Record
from sparsid.data.scaling import Scaling
from sparsid.errors import InputError

# A run is called diverged when an output is this many standard deviations of the
# estimation record away from its mean.
DIVERGED = 100.0
# Half a 95 % band of a Gaussian, in standard deviations.
BAND = 1.96


@dataclass(frozen=True, eq=False)
class Forecast:
    """Predicted or simulated outputs, aligned with the record they are for.

    Attributes
    ----------
    mean, std
        (time, output) in the data's units; NaN before ``start``. ``std`` is that of a
        new measurement: noise and model uncertainty together.
    model_std
        The part of it that is not noise: weights, start state, members apart.
    start
        First sample that is a forecast.
    horizon
        Samples ahead, None for a free run.
    diverged_at
        Sample at which the run left all bounds, None if it did not; NaN from there on.
    """

    mean: Float[np.ndarray, "time outputs"]
    std: Float[np.ndarray, "time outputs"]
    model_std: Float[np.ndarray, "time outputs"]
    start: int
    horizon: int | None
    diverged_at: int | None
    output_names: tuple[str, ...]
    output_units: tuple[str, ...]

    @property
    def noise_std(self) -> NDArray[np.float64]:
        """The part of the standard deviation that is noise."""
        rest = np.maximum(self.std**2 - self.model_std**2, 0.0)
        return np.asarray(np.sqrt(rest))

    def band(
        self, level: float = 0.95
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the ends of the central band that holds a measurement so often."""
        half = half_width(level) * self.std
        return self.mean - half, self.mean + half


def half_width(level: float) -> float:
    """Return half a central band of a Gaussian in standard deviations."""
    if not 0.0 < number("level", level, 0.0) < 1.0:
        raise InputError(f"level={level!r}: give a share between 0 and 1, as in 0.95")
    return float(norm.ppf(0.5 + 0.5 * level))


class BandFactors(NamedTuple):
    """What standard deviations are multiplied with, one for each output.

    One unless they were compared with errors on data not learnt from; see
    :mod:`sparsid.validation.calibration`.
    """

    one_step: tuple[float, ...]
    free_run: tuple[float, ...]

    @staticmethod
    def none(outputs: int) -> BandFactors:
        """Return the factors that change nothing."""
        return BandFactors((1.0,) * outputs, (1.0,) * outputs)

    def at(self, horizon: int | None) -> NDArray[np.float64]:
        """Return the factors for predictions, or for free runs (None)."""
        return np.array(self.free_run if horizon is None else self.one_step)


class Draws(NamedTuple):
    """How many runs are drawn for a standard deviation, and how.

    ``sampled`` sends drawn weights through the model itself, not its linearisation.
    """

    samples: int
    seed: int
    sampled: bool

    def checked(self) -> Draws:
        """Return these, or refuse numbers that tell nothing."""
        whole("samples", self.samples, 0, 1_000_000)
        if self.samples == 1:
            raise InputError("samples=1 has no spread: give 0 for none, or 2 or more")
        whole("seed", self.seed, 0, 2**32 - 1)
        return self


@dataclass(frozen=True)
class Channels:
    """Names, units and sampling time of the records a model was estimated from."""

    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
    input_units: tuple[str, ...]
    output_units: tuple[str, ...]
    dt: float

    @staticmethod
    def of(records: list[Record]) -> Channels:
        """Return the channels of records, with the units that any of them knows."""
        first = records[0]
        units = [
            tuple(next(filter(None, known), "") for known in zip(*side, strict=True))
            for side in (
                [r.input_units for r in records],
                [r.output_units for r in records],
            )
        ]
        names = tuple(first.input_names), tuple(first.output_names)
        return Channels(*names, units[0], units[1], float(first.dt))

    @property
    def n_inputs(self) -> int:
        """Number of inputs."""
        return len(self.input_names)

    @property
    def n_outputs(self) -> int:
        """Number of outputs."""
        return len(self.output_names)

    def check(self, record: Record) -> None:
        """Refuse a record that is not of these channels."""
        if not isinstance(record, Record):
            raise InputError(
                f"a Record was expected, not {type(record).__name__}: wrap the signals "
                "in sparsid.Record(u, y, dt)"
            )
        if (record.n_inputs, record.n_outputs) != (
            self.n_inputs,
            self.n_outputs,
        ):
            raise InputError(
                f"the record has {record.n_inputs} inputs and {record.n_outputs} "
                f"outputs but the model has {self.n_inputs} and "
                f"{self.n_outputs}: choose the same columns"
            )
        for what in ("input_names", "output_names"):
            given, own = getattr(record, what), getattr(self, what)
            unnamed = _plain(given) or _plain(own)
            if given != own and (sorted(given) == sorted(own) or not unnamed):
                raise InputError(
                    f"the record has {what} {', '.join(given)} but the model "
                    f"{', '.join(own)}: give the same channels in the same order"
                )
        for what in ("input", "output"):
            names, given = getattr(record, f"{what}_names"), f"{what}_units"
            pairs = zip(
                names, getattr(record, given), getattr(self, given), strict=True
            )
            for name, unit, own in pairs:
                if unit and own and unit != own:
                    raise InputError(
                        f"the record has {name!r} in {unit} but the model in {own}: "
                        "convert the record"
                    )
        if not np.isclose(record.dt, self.dt, rtol=1e-3, atol=0.0):
            raise InputError(
                f"the record is sampled every {record.dt:g} but the model every "
                f"{self.dt:g}: resample the record"
            )

    def inputs(self, u: Any) -> NDArray[np.float64]:
        """Return inputs as (time, channel), or say what is wrong with them."""
        if not hasattr(u, "__len__"):
            raise InputError(
                f"u is a {type(u).__name__}: give a Record, or inputs as array or table"
            )
        names = self.input_names
        outputs = np.zeros((len(u), 1))
        shaped = Record(u, outputs, self.dt, output_names=_unlike(names)).u
        if shaped.shape[1] != self.n_inputs:
            raise InputError(
                f"u has {shaped.shape[1]} channels but the model has "
                f"{self.n_inputs} inputs"
            )
        return shaped

    def first_outputs(
        self, y_init: Any, fewest: int, most: int | None = None
    ) -> NDArray[np.float64]:
        """Return the outputs that start a run, or say what is wrong with them.

        Parameters
        ----------
        fewest, most
            How many are needed, and how many are used; None: not more than needed.
        """
        try:
            y = np.asarray(y_init, dtype=float)
        except (TypeError, ValueError) as error:
            raise InputError(
                f"y_init holds something that is no number: {error}"
            ) from error
        if np.isinf(y).any():
            raise InputError("y_init holds an infinite value")
        y = y[:, None] if y.ndim == 1 else y
        if y.ndim != 2 or y.shape[1] != self.n_outputs or len(y) < fewest:
            raise InputError(
                f"y_init has shape {np.shape(y_init)} but at least {fewest} samples of "
                f"{self.n_outputs} outputs are needed to start the run"
            )
        return y[: most or fewest]

    def forecast(
        self,
        scaling: Scaling,
        values: tuple[Any, Any, Any],
        start: int,
        length: int,
        horizon: int | None,
        factors: BandFactors,
    ) -> Forecast:
        """Return scaled outputs from ``start`` on as a forecast in the data's units.

        Parameters
        ----------
        values
            Mean, standard deviation, and its part that is not noise.
        """
        mean, std, model_std = (np.array(v) for v in values)
        std, model_std = std * factors.at(horizon), model_std * factors.at(horizon)
        if horizon is None:
            # A free run does not come back.
            wild = np.logical_or.accumulate(~(np.abs(mean) < DIVERGED).all(1))
        else:
            # NaN is no divergence here: some lag was not measured.
            wild = (np.abs(mean) >= DIVERGED).any(1)
        diverged_at = start + int(np.argmax(wild)) if wild.any() else None
        mean[wild] = np.nan
        std[np.isnan(mean)] = model_std[np.isnan(mean)] = np.nan
        full = np.full((3, length, self.n_outputs), np.nan)
        full[0, start:] = scaling.unscale_y(mean)
        full[1, start:] = scaling.unscale_y_std(std)
        full[2, start:] = scaling.unscale_y_std(model_std)
        return Forecast(
            full[0],
            full[1],
            full[2],
            start,
            horizon,
            diverged_at,
            self.output_names,
            self.output_units,
        )


def over_stretches(
    record: Record,
    start: int,
    forecast: Callable[[Record], Forecast],
    measured: int = 0,
) -> Forecast:
    """Return the forecasts over all stretches of a record as one, NaN between them.

    A stretch is where all inputs were measured: a run goes through missing outputs with
    the inputs alone, and begins anew where inputs were missing. Stretches not longer
    than ``start`` have no forecast.

    Parameters
    ----------
    start
        Samples before the first that is a forecast.
    measured
        Outputs that have to be there to start: a stretch begins at the first place
        where so many samples in a row have all of them.
    """
    values = np.full((3, *record.y.shape), np.nan)
    parts = []
    for stretch in stretches_of([record]):
        missing = np.isnan(stretch.y).any(1)
        first = first_whole(missing, measured)
        if len(stretch) - first <= max(start, 1):
            continue
        at = stretch.start + first - record.start
        part = forecast(stretch[first:])
        values[:, at : at + len(part.mean)] = part.mean, part.std, part.model_std
        parts.append((at, part))
    diverged = [at + p.diverged_at for at, p in parts if p.diverged_at is not None]
    return Forecast(
        values[0],
        values[1],
        values[2],
        min([at + p.start for at, p in parts], default=len(record)),
        parts[0][1].horizon if parts else None,
        min(diverged, default=None),
        record.output_names,
        record.output_units,
    )


def first_whole(missing: NDArray[np.bool_], count: int) -> int:
    """Return where so many samples begin of which none is missing, or the end."""
    since = 0
    for t, gap in enumerate(missing):
        if t - since >= count:
            return since
        since = t + 1 if gap else since
    return since if len(missing) - since >= count else len(missing)


def over_record(
    record: Record, start: int, forecast: Callable[[Record], Forecast]
) -> Forecast:
    """Return the forecast over a record; one without any if the record is too short.

    For one of several records, of which short ones are no error.
    """
    if len(record) > max(start, 1):
        return forecast(record)
    return over_stretches(record, len(record), forecast)


def paired(
    records: Record | Sequence[Record], forecasts: Forecast | Sequence[Forecast]
) -> tuple[list[Record], list[Forecast]]:
    """Return records and the forecasts over them, one of each or as many of both."""
    records = [records] if isinstance(records, Record) else list(records)
    forecasts = [forecasts] if isinstance(forecasts, Forecast) else list(forecasts)
    if len(records) != len(forecasts) or not records:
        raise InputError(
            f"{len(records)} records and {len(forecasts)} forecasts were given: give "
            "one forecast for each record"
        )
    return records, forecasts


def _plain(names: tuple[str, ...]) -> bool:
    """Return whether names are those a record gives to channels without one."""
    return all(re.fullmatch(r"[uy]\d*", name) for name in names)


def _unlike(names: tuple[str, ...]) -> str:
    """Return a name that is not taken."""
    return "y" + "'" * (1 + max((len(name) for name in names), default=0))


def width(runs: Any) -> NDArray[np.float64]:
    """Return half the central 68 % of runs, the standard deviation of a Gaussian.

    One run that runs away does not move it.
    """
    runs = np.nan_to_num(
        np.asarray(runs), nan=DIVERGED, posinf=DIVERGED, neginf=-DIVERGED
    )
    low, high = np.quantile(np.clip(runs, -DIVERGED, DIVERGED), (0.158655, 0.841345), 0)
    return np.asarray((high - low) / 2.0)
