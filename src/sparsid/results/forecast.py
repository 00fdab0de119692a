"""What models answer with, and what they ask of the records they are given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray
from scipy.stats import norm

from sparsid.checks import number, whole
from sparsid.data.pieces import stretches_of
from sparsid.data.record import Record
from sparsid.errors import InputError
from sparsid.results.texts import with_unit

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

# A run is called diverged when an output is this many standard deviations of the
# estimation record away from its mean.
DIVERGED = 100.0
# Beyond this surprise no coverage is promised: a tenth further than anything seen.
SURPRISE_LIMIT = 1.1
# Half a 95 % band of a Gaussian, in standard deviations.
BAND = 1.96


@dataclass(frozen=True, eq=False, repr=False)
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
    dt
        Sampling time in seconds.
    surprise
        (time,) how far inputs and states are from their mean, in terms of the largest
        distance in the estimation records; None if the model does not know it.
    run_factors
        Scale and rate of bands for whole runs, output by output; see `band`.
    """

    mean: Float[np.ndarray, "time outputs"]
    std: Float[np.ndarray, "time outputs"]
    model_std: Float[np.ndarray, "time outputs"]
    start: int
    horizon: int | None
    diverged_at: int | None
    output_names: tuple[str, ...]
    output_units: tuple[str, ...]
    dt: float = 1.0

    def __len__(self) -> int:
        return len(self.mean)

    @property
    def kind(self) -> str:
        """What it is, such as "free run" or "5 steps ahead"."""
        if self.horizon is None:
            return "free run"
        steps = "step" if self.horizon == 1 else "steps"
        return f"{'one' if self.horizon == 1 else self.horizon} {steps} ahead"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """Return the mean, so that scores of other packages take a forecast."""
        return np.array(self.mean, dtype=dtype, copy=copy)

    def __repr__(self) -> str:
        parts = [f"{len(self)} samples, forecast from {self.start} on"]
        named = zip(self.output_names, self.output_units, strict=True)
        for k, (name, unit) in enumerate(named):
            mean, std = (v[np.isfinite(v[:, k]), k] for v in (self.mean, self.std))
            if not mean.size:
                parts.append(f"{name} nowhere known")
                continue
            text = f"{name} {mean.min():.4g} to {with_unit(float(mean.max()), unit)}"
            parts.append(text + (f" ± {np.median(std):.2g}" if std.size else ""))
        if self.diverged_at is not None:
            parts.append(f"diverged at sample {self.diverged_at}")
        return f"Forecast({self.kind}, {', '.join(parts)})"

    def to_frame(self, record: Record | None = None) -> pandas.DataFrame:
        """Return one table: time, and of every output mean, deviation and 95 % band.

        Parameters
        ----------
        record
            What it is for: its time counts, and its measured outputs stand beside.
        """
        import pandas as pd

        if record is not None and record.y.shape != self.mean.shape:
            raise InputError(
                f"the forecast has shape {self.mean.shape} but the record's outputs "
                f"{record.y.shape}: give the record that it is for"
            )
        first = 0 if record is None else record.start
        samples = first + np.arange(len(self))
        dt = self.dt if record is None else record.dt
        columns: dict[str, Any] = {"time": samples * dt}
        low, high = self.band()
        for k, name in enumerate(self.output_names):
            if record is not None:
                columns[f"{name} measured"] = record.y[:, k]
            columns |= {
                name: self.mean[:, k],
                f"{name} std": self.std[:, k],
                f"{name} lower": low[:, k],
                f"{name} upper": high[:, k],
            }
        return pd.DataFrame(columns, index=pd.RangeIndex(first, first + len(self)))

    def plot(
        self, record: Record | None = None, ax: Axes | None = None, channel: int = 0
    ) -> Axes:
        """Return axes with one output and its 95 % band.

        Parameters
        ----------
        record
            What was measured, to be drawn beside it.
        ax
            Where to draw; by default a figure of its own.
        channel
            Number of the output.
        """
        from sparsid import plots

        if record is not None:
            return plots.simulation(record, self, ax, channel)
        return plots.forecast(self, ax, channel)

    def _repr_html_(self) -> str:
        """Return what a notebook shows: a line, and a picture of the first outputs."""
        from sparsid.plots.notebook import forecast_html

        return forecast_html(self)

    surprise: NDArray[np.float64] | None = None
    run_factors: tuple[tuple[float, float], ...] = ()

    @property
    def beyond(self) -> NDArray[np.bool_]:
        """Samples further from what was seen than the limit: no coverage is promised.

        All false for a model that does not know what was seen.
        """
        if self.surprise is None:
            return np.zeros(len(self.mean), dtype=bool)
        return np.asarray(np.nan_to_num(self.surprise) > SURPRISE_LIMIT)

    @property
    def caveat(self) -> str:
        """Where no coverage is promised, as a sentence; empty if it is everywhere."""
        count = int(self.beyond.sum())
        if not count or self.surprise is None:
            return ""
        first, most = int(np.argmax(self.beyond)), float(np.nanmax(self.surprise))
        return (
            f"inputs and states of {count} of {len(self.mean)} samples, from sample "
            f"{first} on, are up to {most:.1f} times as far from their mean as ever in "
            "estimation: no coverage is promised there"
        )

    @property
    def noise_std(self) -> NDArray[np.float64]:
        """The part of the standard deviation that is noise."""
        rest = np.maximum(self.std**2 - self.model_std**2, 0.0)
        return np.asarray(np.sqrt(rest))

    def band(
        self, level: float = 0.95, *, whole_run: bool = False
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the ends of the central band that holds a measurement so often.

        Parameters
        ----------
        whole_run
            Whether it is all measurements of the free run together, of each output,
            that are to be held so often. By what errors in held-out blocks were; if
            there were none, samples count as independent of each other.
        """
        half = half_width(level) * self.std
        if whole_run:
            half = half * self._wider(level)
        return self.mean - half, self.mean + half

    def _wider(self, level: float) -> NDArray[np.float64]:
        """Return by how much bands for the whole run are wider, output by output."""
        if self.horizon is not None:
            raise InputError(
                "whole_run=True was given for predictions: it is for free runs, as "
                "simulate() gives them"
            )
        counts = np.isfinite(self.std).sum(axis=0)
        factors = self.run_factors or ((1.0, 1.0),) * len(counts)
        widths = [
            scale * whole_run_width(level, rate * n)
            for (scale, rate), n in zip(factors, counts, strict=True)
        ]
        # One that holds the run holds each sample of it, too.
        return np.maximum(np.array(widths) / half_width(level), 1.0)


def half_width(level: float) -> float:
    """Return half a central band of a Gaussian in standard deviations."""
    if not 0.0 < number("level", level, 0.0) < 1.0:
        raise InputError(f"level={level!r}: give a share between 0 and 1, as in 0.95")
    return float(norm.ppf(0.5 + 0.5 * level))


def whole_run_width(level: float, independent: float) -> float:
    """Return half a band that holds so many independent Gaussians, all of them."""
    # Of the share that is left out: 1 - p^(1/n) without loss of digits.
    outside = -np.expm1(np.log(level) / max(independent, 1.0))
    return float(norm.isf(0.5 * outside))


class BandFactors(NamedTuple):
    """What standard deviations are multiplied with, one for each output.

    One unless they were compared with errors on data not learnt from; see
    :mod:`sparsid.validation.calibration`. For bands that hold a whole run: what the
    width of independent samples is multiplied with, and how many samples are worth one
    that is independent, inverse; empty where that is not known.
    """

    one_step: tuple[float, ...]
    free_run: tuple[float, ...]
    run_scale: tuple[float, ...] = ()
    run_rate: tuple[float, ...] = ()

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
    surprise = np.full(len(record), np.nan)
    parts = []
    for stretch in stretches_of([record]):
        missing = np.isnan(stretch.y).any(1)
        first = first_whole(missing, measured)
        if len(stretch) - first <= max(start, 1):
            continue
        at = stretch.start + first - record.start
        part = forecast(stretch[first:])
        values[:, at : at + len(part.mean)] = part.mean, part.std, part.model_std
        if part.surprise is not None:
            surprise[at : at + len(part.surprise)] = part.surprise
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
        record.dt,
        surprise if any(p.surprise is not None for _, p in parts) else None,
        parts[0][1].run_factors if parts else (),
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


def width(runs: Any) -> NDArray[np.float64]:
    """Return half the central 68 % of runs, the standard deviation of a Gaussian.

    One run that runs away does not move it.
    """
    runs = np.nan_to_num(
        np.asarray(runs), nan=DIVERGED, posinf=DIVERGED, neginf=-DIVERGED
    )
    low, high = np.quantile(np.clip(runs, -DIVERGED, DIVERGED), (0.158655, 0.841345), 0)
    return np.asarray((high - low) / 2.0)
