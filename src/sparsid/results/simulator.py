"""Members in the canonical form, fitted to the free run, as one model.

The centre is the median over members: one that strays does not move it. The spread is
what members say of their parameters, how far they are apart, and the noise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sparsid.bayes.posterior import Posterior
from sparsid.checks import LARGEST_LAG, whole
from sparsid.data.record import Record
from sparsid.data.scaling import Scaling
from sparsid.errors import InputError
from sparsid.models.residual_model import ResidualModel
from sparsid.results.base import Drawing, FittedModel, Group, Places, Weights
from sparsid.results.channels import Channels
from sparsid.results.forecast import (
    BandFactors,
    Draws,
    Forecast,
    over_stretches,
    width,
)
from sparsid.results.outcome import Outcome
from sparsid.results.simulator_member import SimulatorMember
from sparsid.results.simulator_parts import drawing_of, layers_of
from sparsid.results.simulator_texts import ends_text, structure_rows_of
from sparsid.results.structure_counts import groups_left, in_common
from sparsid.results.texts import Row

if TYPE_CHECKING:
    from sparsid.analysis.steps import Waiting
    from sparsid.results.formulas import Digits, Equation

Values = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class FittedSimulator(FittedModel):
    """The result of a search in the canonical form.

    Attributes
    ----------
    name
        What the chosen candidate is called.
    delays
        Samples by which each input comes late.
    members
        Simulators side by side.
    residual
        What a free run leaves over, predicted from what it left over before.
    known
        Measured outputs that a start state is fitted to.
    """

    title: ClassVar[str] = "Simulation"
    calibrated: ClassVar[bool] = True
    has_equations: ClassVar[bool] = True

    channels: Channels
    scaling: Scaling
    name: str
    delays: tuple[int, ...]
    members: tuple[SimulatorMember, ...]
    residual: ResidualModel
    known: int
    band_factors: BandFactors
    weights_kept: int
    weights_total: int
    outcome: Outcome
    history: dict[str, Values]
    details: dict[str, Any]

    def __len__(self) -> int:
        return len(self.members)

    def member(self, k: int) -> FittedSimulator:
        """Return one member as a result of its own."""
        own = self.members[range(len(self))[k]]
        return replace(self, members=(own,), weights_kept=own.structure.parameters)

    # -- use -----------------------------------------------------------------------

    def simulate(
        self,
        u: Any,
        y_init: Any = None,
        *,
        samples: int = 100,
        seed: int = 0,
        sampled: bool = False,
    ) -> Forecast:
        """Return the free run.

        Parameters
        ----------
        u
            A record: each member's start state is fitted to its first outputs. Or
            inputs alone: the run starts from the state in which the first estimation
            record started.
        y_init
            Measured outputs of the first samples of ``u``.
        samples
            0 leaves the standard deviation NaN. Else it is that of the linearised
            model, for which nothing needs to be drawn.
        sampled
            Whether so many drawn parameters go through the model itself instead.
        """
        draws = Draws(samples, seed, sampled).checked()
        first: Any
        if isinstance(u, Record):
            if y_init is not None:
                raise InputError("a record carries its outputs: leave y_init out")
            self.channels.check(u)
            if np.isnan(u.u).any():
                return over_stretches(
                    u,
                    self.start_samples,
                    lambda part: self.simulate(part, **draws._asdict()),
                )
            inputs, first = u.u, u.y[: self.start_samples]
        else:
            inputs = self.channels.inputs(u)
            first = None
            if y_init is not None:
                first = self.channels.first_outputs(y_init, 1, self.start_samples)
        if np.isnan(inputs).any():
            raise InputError(
                "a free run cannot cross a gap: there is a NaN in the inputs; simulate "
                "each of record.segments()"
            )
        start = 0 if first is None else len(first)
        if len(inputs) <= start:
            raise InputError(
                f"{len(inputs)} samples were given but the first {start} only settle "
                "the start state: give a longer record"
            )
        late_inputs = self.delayed(inputs)
        starts, covariances = self._starts(late_inputs, first)
        values = self._from(starts, covariances, late_inputs, draws)
        late = tuple(v[start:] for v in values)
        found = self._forecast(late, start, len(inputs), None)
        return replace(found, surprise=self._surprise(starts, late_inputs))

    def predict(self, record: Record, horizon: int = 1) -> Forecast:
        """Return predictions ``horizon`` samples ahead of the measured outputs.

        A prediction is the free run from the fitted start state, plus what is expected
        of the residual from those before.
        """
        self.channels.check(record)
        horizon = whole("horizon", horizon, 1, LARGEST_LAG)
        start = self.start_samples + horizon - 1
        if len(record) <= start:
            raise InputError(
                f"the record has {len(record)} samples but {start} are needed before "
                f"the first prediction ({self.start_samples} settle the start state, "
                f"horizon {horizon}): give a longer record"
            )
        if np.isnan(record.u).any():
            return over_stretches(
                record, start, lambda part: self.predict(part, horizon)
            )
        u = self.delayed(record.u)
        starts, covariances = self._starts(u, record.y[: self.start_samples])
        mean = self._from(starts, covariances, u, Draws(0, 0, False))[0]
        y = self.scaling.scale_y(record.y)
        mean = mean + self.residual.expected(y - mean, u[:, :-1], mean, horizon)
        sizes, bounds = self.members[0].structure.sizes, self._bounds()
        mean = np.clip(mean, bounds[0, sizes.states :], bounds[1, sizes.states :])
        std = np.sqrt(self.residual.variance_ahead(horizon))
        # What parameters get wrong is in the residual that is followed.
        values = (mean, np.broadcast_to(std, mean.shape), np.zeros(mean.shape))
        late = tuple(v[start:] for v in values)
        found = self._forecast(late, start, len(record), horizon)
        return replace(found, surprise=self._surprise(starts, u))

    # -- pieces --------------------------------------------------------------------

    def _bounds(self) -> Values:
        return self.members[0].structure.bounds

    def delayed(self, u: Values) -> Values:
        """Return scaled inputs that arrive when they act, with the constant."""
        scaled = self.scaling.scale_u(u)
        late = np.ones((len(u), scaled.shape[1] + 1))
        for k, d in enumerate(self.delays):
            held = np.concatenate([scaled[:1, k].repeat(d), scaled[:, k]])
            late[:, k] = held[: len(u)]
        return late

    def _surprise(self, starts: list[Values], u: Values) -> Values | None:
        """Return how far runs are from what was seen, the median over members."""
        found = [
            m.seen.surprise(m.structure.run(m.theta, x, u)[1][:-1], u[:, :-1])
            for m, x in zip(self.members, starts, strict=True)
            if m.seen is not None
        ]
        return np.asarray(np.median(found, axis=0)) if found else None

    def _starts(self, u: Values, first: Any) -> tuple[list[Values], list[Values]]:
        """Return start states that fit first outputs, and covariances with them."""
        starts, covariances = [], []
        for member in self.members:
            start, covariance = member.start, member.covariance
            if first is not None:
                y = np.ascontiguousarray(self.scaling.scale_y(first))
                start, covariance = member.started(u[: len(y)], y)
            starts.append(start)
            covariances.append(covariance)
        return starts, covariances

    def spread_from(
        self, starts: list[Values], covariances: list[Values], u: Values
    ) -> tuple[Values, Values]:
        """Return centre and deviation of runs from given start states, scaled.

        Parameters
        ----------
        covariances
            Of parameters and start, member by member.
        """
        centre, std, _ = self._from(starts, covariances, u, Draws(2, 0, False))
        return centre, std

    def _from(
        self, starts: list[Values], covariances: list[Values], u: Values, draws: Draws
    ) -> tuple[Values, Values, Values]:
        """Return centre, deviation, and its part that is not noise, scaled."""
        runs = [m.run(x, u) for m, x in zip(self.members, starts, strict=True)]
        centre = np.median(runs, axis=0)
        if not draws.samples:
            unknown = np.full(centre.shape, np.nan)
            return centre, unknown, unknown
        each = max(draws.samples // len(self), 2)
        variances = [
            self.members[k].drawn_variance(start, covariance, u, each, [draws.seed, k])
            if draws.sampled
            else self.members[k].variance(start, covariance, u)
            for k, (start, covariance) in enumerate(
                zip(starts, covariances, strict=True)
            )
        ]
        model = np.median(variances, axis=0) + width(runs) ** 2
        noise = np.median(
            [[law.variance for law in m.noise] for m in self.members], axis=0
        )
        return centre, np.sqrt(model + noise), np.sqrt(model)

    # -- what it says of itself ----------------------------------------------------

    @property
    def start_samples(self) -> int:
        """Number of measured outputs that start a run."""
        return self.known

    @property
    def noise_std(self) -> Values:
        """Standard deviation of what a free run leaves over, median over members."""
        variance = [[law.variance for law in m.noise] for m in self.members]
        return np.asarray(self.scaling.unscale_y_std(np.sqrt(np.median(variance, 0))))

    @property
    def evidences(self) -> Values:
        """Log evidence of all members."""
        return np.array([m.log_evidence for m in self.members])

    @property
    def best_log_evidence(self) -> float:
        """Log evidence of the best member."""
        return float(self.evidences.max())

    @property
    def is_linear(self) -> bool:
        """Whether there are no neurons."""
        return all(m.structure.sizes.neurons == 0 for m in self.members)

    def described(self) -> str:
        """Return in a few words what it is."""
        if self.is_linear:
            states = ends_text([m.structure.sizes.states for m in self.members])
            return f"a linear model with {states} states, fitted to the free run,"
        count = len(self)
        several = f" (an ensemble of {count})" if count > 1 else ""
        return f"a simulation model of the kind {self.name!r}{several}"

    def structure_rows(self) -> list[Row]:
        """Return the lines of a summary about structure, delays and neurons."""
        return structure_rows_of(self)

    @property
    def weight_counts(self) -> tuple[int, ...]:
        """Parameters of each member: whole numbers, what was removed is not there."""
        return tuple(m.structure.parameters for m in self.members)

    @property
    def weights_in_common(self) -> int:
        """Parameters that every member has."""
        return in_common([m.structure for m in self.members])

    def quality_rows(self) -> list[Row]:
        """Return the lines of a summary about noise, members and outcome."""
        orders = [law.order for m in self.members for law in m.noise]
        memory = f"remembers {np.median(orders):.0f} samples"
        lines = [("noise std", f"{self.per_output(self.noise_std)} ({memory})")]
        errors = self.details.get("free_run_rmse")
        if errors is not None:
            lines.append(("free-run error", f"{self.per_output(errors)} (estimation)"))
        found = self.evidences
        ends = f"{found.min():.1f} to {found.max():.1f}"
        lines.append(("members", f"{len(self)}; log evidence {ends}"))
        return [*lines, self.outcome_row()]

    def table_rows(self) -> list[Row]:
        """Return the lines about kind and members."""
        return [("kind", self.name), ("members", f"{len(self)}")]

    def facts(self) -> dict[str, Any]:
        """Return structure, members and noise, as plain values."""
        structure = self.members[0].structure
        return {
            "structure": structure.name,
            "name": self.name,
            "states": structure.sizes.states,
            "neurons": structure.sizes.neurons,
            "dead_times": list(self.delays),
            "poles": [
                {"real": float(p.real), "imag": float(p.imag)}
                for p in np.linalg.eigvals(structure.named(self.members[0].theta)["A"])
            ],
            "members": len(self),
            "members_weights": list(self.weight_counts),
            "weights_in_common": self.weights_in_common,
            "groups": groups_left(structure),
            "members_log_evidence": self.evidences.tolist(),
            "noise_orders": [law.order for law in self.members[0].noise],
            "prediction_order": self.residual.order,
        }

    # -- for analysis and equations ------------------------------------------------

    def written(self, digits: Digits, member: int = 0) -> list[Equation]:
        """Return the equations of a member."""
        from sparsid.results.equations import canonical_equations

        return canonical_equations(self, digits, member)

    def steps(self, draws: int, seed: int) -> Waiting:
        """Return the members as steps, with draws of each."""
        from sparsid.analysis.steps import simulator_steps

        return simulator_steps(self, draws, seed)

    # -- weights -------------------------------------------------------------------

    def _input_names(self) -> list[str]:
        late = zip(self.channels.input_names, self.delays, strict=True)
        return [f"{name}(t-{d})" if d else name for name, d in late]

    def drawing(self, member: int = 0) -> Drawing:
        """Return a member as a network from states and inputs to what follows."""
        own = self.members[range(len(self))[member]]
        return drawing_of(own, self._input_names(), self.channels.output_names)

    def weights(self, member: int = 0) -> Weights:
        """Return the parameters of a member: poles, then entries of the matrices."""
        own = self.members[range(len(self))[member]]
        structure = own.structure
        places = [("pole", k, 0) for k in range(structure.leading)]
        places += list(structure.free)
        P = structure.parameters
        C = own.covariance[:P, :P]
        std = np.sqrt(np.maximum(np.diagonal(C), 0.0))
        return Weights(places, own.theta, Posterior(std, C, own.prior_std))

    def layers(self, member: int = 0) -> Iterator[tuple[Places, list[Group]]]:
        """Yield what inputs and states do, and what neurons do."""
        structure = self.members[range(len(self))[member]].structure
        return layers_of(structure, self._input_names())
