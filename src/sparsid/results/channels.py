"""What models know and ask of the channels of records: names, units, sampling time."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsid.data.record import Record
from sparsid.data.scaling import Scaling
from sparsid.errors import InputError
from sparsid.results.forecast import DIVERGED, BandFactors, Forecast


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
            unnamed = without_name(given) or without_name(own)
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
            self.dt,
            run_factors=tuple(zip(factors.run_scale, factors.run_rate, strict=True)),
        )


def without_name(names: tuple[str, ...]) -> bool:
    """Return whether names are those a record gives to channels without one."""
    return all(re.fullmatch(r"[uy]\d*", name) for name in names)


def _unlike(names: tuple[str, ...]) -> str:
    """Return a name that is not taken."""
    return "y" + "'" * (1 + max((len(name) for name in names), default=0))
