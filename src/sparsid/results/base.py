"""What every fit leaves: one interface to predict, simulate, describe, draw and store.

Reports, drawings, files and checks ask a result only for what stands here, never what
kind of result it is. A new kind is one class.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, Self, cast

import numpy as np
from numpy.typing import NDArray

from sparsid.bayes.curvature.pieces import unflatten
from sparsid.bayes.posterior import Posterior
from sparsid.data.record import Record
from sparsid.data.scaling import Scaling
from sparsid.errors import InputError
from sparsid.models.narx import Lags
from sparsid.models.network import Network, Params
from sparsid.results.channels import Channels
from sparsid.results.forecast import BandFactors, Draws, Forecast, over_stretches
from sparsid.results.outcome import Outcome
from sparsid.results.texts import Row, counted, each, percent

if TYPE_CHECKING:
    from sparsid.analysis.steps import Waiting
    from sparsid.export.stepper import Stepper
    from sparsid.results.formulas import Digits, Equation

Values = NDArray[np.float64]
Places = NDArray[np.int64]


class Drawing(NamedTuple):
    """A network with its weights, and the names at both ends."""

    network: Network
    params: Params
    sources: list[str]
    targets: list[str]


class Weights(NamedTuple):
    """Weights of a member: block, row and column of each, values, uncertainty."""

    places: list[tuple[str, int, int]]
    values: Values
    posterior: Posterior


class Group(NamedTuple):
    """What a group is of, its name, and the numbers of its weights among all."""

    kind: str
    name: str
    weights: Places


class FittedModel(ABC):
    """The result of a fit, in scaled units inside and the data's units outside.

    Attributes
    ----------
    band_factors
        What standard deviations of forecasts are multiplied with.
    weights_kept, weights_total
        Number of weights left and at the start, biases not counted.
    history
        Figures of the fit, cycle by cycle.
    details
        What else is known: samples, ranges, candidates, notes.
    """

    title: ClassVar[str]
    # Whether bands come from held-out blocks already.
    calibrated: ClassVar[bool] = False

    channels: Channels
    scaling: Scaling
    band_factors: BandFactors
    weights_kept: float
    weights_total: int
    outcome: Outcome
    history: dict[str, Values]
    details: dict[str, Any]

    # -- use -----------------------------------------------------------------------

    @property
    @abstractmethod
    def start_samples(self) -> int:
        """Measured outputs that start a run over a record."""

    @abstractmethod
    def predict(self, record: Record, horizon: int = 1) -> Forecast:
        """Return predictions ``horizon`` samples ahead of the measured outputs."""

    # Measured outputs that have to be complete for a run to start.
    complete_start: ClassVar[bool] = False

    def simulate(
        self,
        u: Any,
        y_init: Any = None,
        *,
        samples: int = 100,
        seed: int = 0,
        sampled: bool = False,
    ) -> Forecast:
        """Return the free run over a record, or over inputs alone.

        It goes through missing outputs with the inputs alone, and begins anew where
        inputs were missing.

        Parameters
        ----------
        u
            A record: the run starts from its first ``start_samples`` measured outputs.
            Or inputs alone: it starts as the first estimation record did.
        y_init
            Measured outputs of the first samples of ``u``, at least so many.
        samples
            Draws of weights and noise for the standard deviation; 0 leaves it NaN.
        sampled
            Whether drawn weights go through the model itself, not its linearisation.
        """
        draws = Draws(samples, seed, sampled).checked()
        known = self.start_samples
        if not isinstance(u, Record):
            inputs, first = self.channels.inputs(u), None
            if y_init is not None:
                first = self.channels.first_outputs(y_init, known)
            return self._simulated(inputs, first, draws)
        if y_init is not None:
            raise InputError("a record carries its outputs: leave y_init out")
        self.channels.check(u)
        needed = known if self.complete_start else 0
        if np.isnan(u.u).any() or np.isnan(u.y[:needed]).any():
            return over_stretches(
                u, known, lambda part: self.simulate(part, **draws._asdict()), needed
            )
        return self._simulated(u.u, u.y[:known], draws)

    def _simulated(
        self, inputs: Values, first: Values | None, draws: Draws
    ) -> Forecast:
        """Return the run over inputs, from first outputs if there are any."""
        raise NotImplementedError

    def _forecast(
        self, values: Any, start: int, length: int, horizon: int | None
    ) -> Forecast:
        """Return scaled values from a sample on as a forecast in the data's units."""
        return self.channels.forecast(
            self.scaling, values, start, length, horizon, self.band_factors
        )

    def with_bands(self, factors: BandFactors) -> Self:
        """Return the same with other factors of the bands."""
        found: Self = replace(cast("Any", self), band_factors=factors)
        return found

    def export(self, to: str, folder: str | Path, **options: Any) -> Path:
        """Write the model for another place, and return the folder with it.

        Parameters
        ----------
        to
            ``"numpy"``, ``"c"``, ``"fmu"``, ``"casadi"``, ``"onnx"`` or ``"st"``.
        options
            ``combine``, ``precision``, ``name`` and ``overwrite``; see
            `sparsid.export.package.write_export`.
        """
        from sparsid.export.package import write_export

        return write_export(self, to, folder, **options)

    def stepper(self, combine: str = "median") -> Stepper:
        """Return the model as an object that goes on sample by sample."""
        from sparsid.export.stepper import Stepper

        return Stepper(self, combine)

    @property
    def regressor_lags(self) -> Lags | None:
        """Lags that a linear model for comparison gets; None: what suits the data."""
        return None

    # -- for analysis and equations ------------------------------------------------

    # Whether it can be written as equations.
    has_equations: ClassVar[bool] = False

    def written(self, digits: Digits, member: int = 0) -> list[Equation]:
        """Return the equations of a member, rounded."""
        raise InputError(
            f"a {self.title} model has no equations to write: identify one with "
            "sparsid.Simulator or sparsid.NARX"
        )

    def steps(self, draws: int, seed: int) -> Waiting:
        """Return the members as steps, with draws of each."""
        raise InputError(
            f"a {type(self).__name__} has no states to linearise: give a Simulator, a "
            "StateSpace or a NARX model"
        )

    # -- what it says of itself ----------------------------------------------------

    @property
    @abstractmethod
    def noise_std(self) -> Values:
        """Standard deviation of the noise per output, in the data's units."""

    @property
    @abstractmethod
    def evidences(self) -> Values:
        """Log evidence of all members, or of all starts."""

    @property
    @abstractmethod
    def best_log_evidence(self) -> float:
        """Log evidence of the standardised outputs; NaN for fits without one."""

    @abstractmethod
    def described(self) -> str:
        """Return in a few words what it is, such as "a linear model"."""

    @abstractmethod
    def structure_rows(self) -> list[Row]:
        """Return the lines of a summary about its structure."""

    @abstractmethod
    def quality_rows(self) -> list[Row]:
        """Return the lines of a summary about noise, errors, evidence and outcome."""

    @abstractmethod
    def table_rows(self) -> list[Row]:
        """Return the short lines below the tables of errors on the terminal."""

    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """Return what only this kind of result has, as plain values."""

    def kept_text(self) -> str:
        """Return how many weights are left, such as "26 of 11200 weights, 0.23 %"."""
        kept, total = self.weights_kept, self.weights_total
        return f"{round(kept)} of {total} weights, {percent(kept / total)}"

    def outcome_row(self) -> Row:
        """Return the line of a summary about how the fit ended."""
        cycles = len(self.history.get("cost", ()))
        return ("outcome", f"{self.outcome} after {counted(cycles, 'cycle')}")

    def per_output(self, values: Any) -> str:
        """Return one value with unit for each output."""
        channels = self.channels
        listed = np.asarray(values, dtype=float).tolist()
        return each(listed, channels.output_names, channels.output_units)

    # -- members and weights -------------------------------------------------------

    # What evidences are of, and whether their spread is worth a picture.
    several_called: ClassVar[str] = "member"

    def __len__(self) -> int:
        return 1

    def member(self, k: int) -> FittedModel:
        """Return one member as a result of its own."""
        range(len(self))[k]
        return self

    @abstractmethod
    def drawing(self, member: int = 0) -> Drawing:
        """Return a member as a network."""

    def drawing_before(self, seed: int) -> Drawing | None:
        """Return the network that the first start began with, if it was random."""
        return None

    @abstractmethod
    def weights(self, member: int = 0) -> Weights:
        """Return the weights of a member."""

    @abstractmethod
    def layers(self, member: int = 0) -> Iterator[tuple[Places, list[Group]]]:
        """Yield the weights of each layer, by number, and the groups in it."""


class HasResult(Protocol):
    """Whatever was fitted and keeps the result, such as an estimator."""

    @property
    def fitted_(self) -> FittedModel:
        """The result of the fit."""


def result_of(model: FittedModel | HasResult) -> FittedModel:
    """Return the result itself, or that of an estimator."""
    return model if isinstance(model, FittedModel) else model.fitted_


# -- networks kept as blocks of weights ------------------------------------------------


def block_weights(
    blocks: Sequence[Any], params: Params
) -> tuple[list[tuple[str, int, int]], Values]:
    """Return block, row and column of each weight, and the values."""
    arrays = [np.asarray(w) for w in params]
    places = [
        (block.name, i, j)
        for block, values in zip(blocks, arrays, strict=True)
        for i, j in np.ndindex(values.shape)
    ]
    return places, np.concatenate([w.ravel() for w in arrays])


def block_places(blocks: Sequence[Any], params: Params) -> dict[str, Places]:
    """Return the numbers of the weights of each block, shaped as it is."""
    places = unflatten(np.arange(sum(np.size(w) for w in params)), params)
    return {b.name: np.asarray(p) for b, p in zip(blocks, places, strict=True)}


def neuron_layers(
    blocks: dict[str, Places],
) -> Iterator[tuple[Places, list[Group]]]:
    """Yield the weights of each layer behind the first, and its neurons."""
    number = 1
    while f"layer{number + 1}" in blocks:
        after = blocks[f"layer{number + 1}"]
        yield (
            after.ravel(),
            [
                Group("neuron", f"layer {number}, neuron {j}", row)
                for j, row in enumerate(after[:-1], 1)
            ],
        )
        number += 1
