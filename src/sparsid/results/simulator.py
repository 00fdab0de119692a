"""Members in the canonical form, fitted to the free run, as one model.

The centre is the median over members: one that strays does not move it. The spread is
what members say of their parameters, how far they are apart, and the noise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sparsid.bayes.posterior import Posterior, square_root
from sparsid.checks import LARGEST_LAG, whole
from sparsid.data.record import Record
from sparsid.data.scaling import Scaling
from sparsid.errors import InputError
from sparsid.kernel.activations import NAMES
from sparsid.kernel.whitening import whiten
from sparsid.models.autoregression import Autoregression
from sparsid.models.canonical import Structure
from sparsid.models.network import Network
from sparsid.models.residual_model import ResidualModel
from sparsid.results.base import Drawing, FittedModel, Group, Places, Weights
from sparsid.results.forecast import (
    BandFactors,
    Channels,
    Draws,
    Forecast,
    over_stretches,
    width,
)
from sparsid.results.nearest import compact_text
from sparsid.results.outcome import Outcome
from sparsid.results.structure_counts import groups_left, in_common
from sparsid.results.surprise import Seen
from sparsid.results.texts import Row

Values = NDArray[np.float64]

# Iterations that fit a start state; damping of the first.
START_STEPS, START_DAMPING = 12, 1e-3
# Start states lie where states were in the estimation records, so many times as wide.
START_SPREAD = 2.0
# Samples between which derivatives are carried over, not kept.
CHUNK = 20_000


@dataclass(frozen=True, eq=False)
class SimulatorMember:
    """A simulator: its structure with values, scaled units.

    Attributes
    ----------
    theta, start
        Parameters; state in which the first estimation record started.
    state_mean, state_root
        Mean of the states over the estimation records, and a root of their covariance.
    noise
        What free runs leave over, output by output.
    covariance
        Of parameters and that start state.
    prior_std
        Deviation of the prior of the parameters, around zero.
    prior_variance
        Of parameters and that start state, around what the fit began with.
    seen
        Where states and inputs were; None in files of earlier versions.
    """

    structure: Structure
    theta: Values
    start: Values
    state_mean: Values
    state_root: Values
    noise: tuple[Autoregression, ...]
    covariance: Values
    prior_std: Values
    prior_variance: Values
    log_evidence: float
    seen: Seen | None = None

    def run(self, start: Values, u: Values) -> Values:
        """Return the free run, (time, output); ``u`` ends with the constant."""
        return self.structure.run(self.theta, start, u)[0]

    def started(self, u: Values, y: Values) -> tuple[Values, Values]:
        """Return the start state that fits first outputs, and a joint covariance.

        By Gauss and Newton in the coordinates in which the states of the estimation
        records have unit variance, with those records as prior. The start follows the
        parameters: with derivatives ``P`` by them and ``J`` by the start, whitened, and
        ``C`` the covariance of the start at given parameters,

            x0(theta) = x0 - C J' P (theta - their estimate),

        so that what the scale of a state leaves open does not count as spread.

        Returns
        -------
        start, covariance
            The covariance is that of parameters and start.
        """
        structure, seen = self.structure, np.isfinite(y)
        root = START_SPREAD * self.state_root
        target = np.where(seen, y, 0.0)
        count = structure.parameters

        def look(z: Values) -> tuple[Values, Values, Values]:
            runs, _, dy = structure.sensitivities(
                self.theta, self.state_mean + root @ z, u
            )
            columns = np.concatenate(
                [
                    dy[:, :, :count],
                    dy[:, :, count:-1] @ root,
                    (target - runs)[..., None],
                ],
                axis=2,
            )
            for o, law in enumerate(self.noise):
                whiten(
                    law.predictors,
                    law.variances,
                    law.ahead,
                    np.ascontiguousarray(seen[:, o], dtype=float),
                    columns[:, o],
                )
            flat = columns.reshape(-1, columns.shape[2])
            prior = np.zeros((len(z), flat.shape[1]))
            prior[:, count:-1] = np.eye(len(z))
            prior[:, -1] = -z
            stack = np.concatenate([flat, prior])
            return stack[:, count:-1], stack[:, -1], stack[:, :count]

        z, damping = np.zeros(len(self.start)), START_DAMPING
        J, r, P = look(z)
        for _ in range(START_STEPS):
            normal = J.T @ J
            step = np.linalg.solve(
                normal + damping * np.diag(np.diagonal(normal)), J.T @ r
            )
            J_new, r_new, P_new = look(z + step)
            if (r_new**2).sum() < (r**2).sum():
                z, J, r, P, damping = z + step, J_new, r_new, P_new, 0.2 * damping
                if np.abs(step).max() < 1e-8:
                    break
            else:
                damping = max(5.0 * damping, 1e-3)
        own = np.linalg.inv(J.T @ J)
        follows = -root @ own @ (J.T @ P)
        C = self.covariance[:count, :count]
        cross = follows @ C
        joint = np.block(
            [[C, cross.T], [cross, root @ own @ root.T + cross @ follows.T]]
        )
        return self.state_mean + root @ z, joint

    def variance(self, start: Values, covariance: Values, u: Values) -> Values:
        """Return the variance of the free run by parameters and start, (time, output).

        Parameters
        ----------
        covariance
            Of parameters and start state.
        """
        structure = self.structure
        R = square_root(covariance)
        carry = np.eye(len(start), len(covariance), structure.parameters)
        found = np.empty((len(u), structure.sizes.outputs))
        for first in range(0, len(u), CHUNK):
            part = slice(first, first + CHUNK)
            _, x, dy = structure.sensitivities(self.theta, start, u[part], carry)
            start = x[-1]
            for o in range(found.shape[1]):
                found[part, o] = ((dy[:, o, :-1] @ R) ** 2).sum(1)
        return found


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
        variances = [
            self._drawn(k, start, covariance, u, draws)
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

    def _drawn(
        self, k: int, start: Values, covariance: Values, u: Values, draws: Draws
    ) -> Values:
        """Return the variance of free runs of a member with drawn parameters.

        Along directions that the data leave open, such as the scale of a state, a long
        way changes nothing to first order and everything in the end: what is drawn is
        the part of the covariance that comes from the data.
        """
        member, rng = self.members[k], np.random.default_rng([draws.seed, k])
        P = member.structure.parameters
        weak = covariance / np.sqrt(member.prior_variance)
        R = square_root(covariance - weak @ weak.T)
        each = max(draws.samples // len(self), 2)
        runs = []
        for _ in range(each):
            w = np.concatenate([member.theta, start]) + R @ rng.normal(size=len(R))
            runs.append(member.structure.run(w[:P], w[P:], u)[0])
        return np.asarray(np.var(runs, axis=0, ddof=1))

    def _forecast(
        self, values: Any, start: int, length: int, horizon: int | None
    ) -> Forecast:
        return self.channels.forecast(
            self.scaling, values, start, length, horizon, self.band_factors
        )

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
        return self.members[0].structure.sizes.neurons == 0

    def described(self) -> str:
        """Return in a few words what it is."""
        if self.is_linear:
            states = self.members[0].structure.sizes.states
            return f"a linear model with {states} states, fitted to the free run,"
        count = len(self)
        several = f" (an ensemble of {count})" if count > 1 else ""
        return f"a simulation model of the kind {self.name!r}{several}"

    def structure_rows(self) -> list[Row]:
        """Return the lines of a summary about structure, delays and neurons."""
        structure = self.members[0].structure
        kinds = {NAMES[k]: int((structure.kinds == k).sum()) for k in structure.kinds}
        neurons = ", ".join(f"{count} {name}" for name, count in kinds.items())
        rows = [
            ("kind", self.name),
            ("states", f"{structure.sizes.states}"),
            ("neurons", neurons or "none: a linear model"),
        ]
        if any(self.delays):
            late = zip(self.channels.input_names, self.delays, strict=True)
            texts = [f"{name} {d} samples" for name, d in late]
            rows.append(("dead time", ", ".join(texts)))
        rows.append(("kept", self._counts_text()))
        price = compact_text(self)
        return [*rows, ("compact", price)] if price else rows

    @property
    def weight_counts(self) -> tuple[int, ...]:
        """Parameters of each member: whole numbers, what was removed is not there."""
        return tuple(m.structure.parameters for m in self.members)

    @property
    def weights_in_common(self) -> int:
        """Parameters that every member has."""
        return in_common([m.structure for m in self.members])

    def _counts_text(self) -> str:
        """Return how many weights members have, and how many all of them."""
        counts = self.weight_counts
        if len(counts) == 1:
            return self.kept_text()
        same = len({*counts}) == 1
        ends = f"{counts[0]} each" if same else f"{min(counts)} to {max(counts)}"
        return (
            f"{self.kept_text()} (median; members {ends}); "
            f"{self.weights_in_common} in common"
        )

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

    # -- weights -------------------------------------------------------------------

    def _input_names(self) -> list[str]:
        late = zip(self.channels.input_names, self.delays, strict=True)
        return [f"{name}(t-{d})" if d else name for name, d in late]

    def drawing(self, member: int = 0) -> Drawing:
        """Return a member as a network from states and inputs to what follows."""
        own = self.members[range(len(self))[member]]
        sizes, M = own.structure.sizes, own.structure.named(own.theta)
        states = [f"state {k + 1}" for k in range(sizes.states)]
        sources = [*states, *self._input_names()]
        targets = [*(f"{s} next" for s in states), *self.channels.output_names]
        linear = np.block([[M["A"], M["B"]], [M["C"], M["D"]]]).T
        if not sizes.neurons:
            network = Network((len(sources), len(targets)), "tanh", False)
            return Drawing(network, (linear,), sources, targets)
        kinds = own.structure.kinds
        name = NAMES[int(np.bincount(kinds).argmax())]
        drawn = name if name in ("tanh", "softroot", "sigmoid") else "tanh"
        network = Network((len(sources), sizes.neurons, len(targets)), drawn, True)
        enter = np.concatenate([M["F"], M["H"]], axis=1).T
        leave = np.concatenate([M["E"], M["G"]]).T
        leave = np.concatenate([leave, linear[-1:]])
        return Drawing(network, (enter, leave, linear[:-1]), sources, targets)

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
        sizes = structure.sizes

        def column(matrices: str, j: int) -> Places:
            found = [
                structure.leading + k
                for k, (matrix, _, c) in enumerate(structure.free)
                if matrix in matrices and c == j
            ]
            return np.array(found, dtype=np.int64)

        groups = [
            Group("input", name, column("BDH", j))
            for j, name in enumerate(self._input_names())
        ]
        groups += [
            Group("state", f"state {j + 1}", column("ACF", j))
            for j in range(sizes.states)
        ]
        groups = [g for g in groups if len(g.weights)]
        yield np.unique(np.concatenate([g.weights for g in groups])), groups
        neurons = [
            Group("neuron", f"neuron {j + 1}", column("EG", j))
            for j in range(sizes.neurons)
        ]
        neurons = [g for g in neurons if len(g.weights)]
        if neurons:
            yield np.concatenate([g.weights for g in neurons]), neurons
