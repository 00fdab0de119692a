"""A model as a linear one around an operating point, with its spread."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sparsid.analysis.linear_texts import rows
from sparsid.analysis.poles import (
    damping_ratios,
    logarithm,
    matched,
    time_constants,
)
from sparsid.analysis.responses import (
    FrequencyResponse,
    StepResponse,
    Systems,
    frequency_response,
    step_response,
)
from sparsid.analysis.spread import (
    DRAWS,
    Spread,
    ends,
    extrapolated,
    per_member,
)
from sparsid.analysis.steady_state import (
    SteadyState,
    newton,
    of_one_length,
    operating_inputs,
    rests,
)
from sparsid.analysis.steps import Waiting, steps_of
from sparsid.errors import InputError
from sparsid.results.base import FittedModel
from sparsid.results.channels import Channels
from sparsid.results.texts import Row, counted

if TYPE_CHECKING:
    import control
    import pandas as pd

Values = NDArray[np.float64]

# Samples of a step response: so many of the slowest time constants, within bounds.
SETTLED, FEWEST, MOST = 5.0, 20, 5_000


@dataclass(frozen=True, eq=False)
class Linearisation:
    """A linear model around an operating point, of every member and draw.

    ``x(t+1) = A x(t) + B u(t - d)``, ``y(t) = C x(t) + D u(t - d)``: deviations from
    the operating point, inputs and outputs in the data's units, time in samples. Dead
    times ``d`` are the attribute `delays` and not in the states; `with_delays` puts
    them there. Responses have them in any case.

    Members have states of their own, so their matrices cannot be compared entry by
    entry; poles and responses can. ``A``, ``B``, ``C``, ``D`` are those of the member
    whose step response is nearest to the median over members.

    Attributes
    ----------
    systems
        Matrices of all members, then of draws of their parameters, along a first axis.
    members, chosen
        How many of them are members; which one ``A`` and so on are of.
    delays
        Samples by which each input comes late.
    inputs, outputs, states
        The operating point: inputs and outputs in the data's units (outputs are the
        median over members), states of every member, (member, state).
    steady
        Whether it is a state of rest.
    held
        Whether a state or an output is held at a bound there, so that it does not move.
    """

    systems: Systems
    members: int
    chosen: int
    delays: tuple[int, ...]
    inputs: Values
    outputs: Values
    states: Values
    steady: bool
    held: bool
    channels: Channels

    # -- matrices ------------------------------------------------------------------

    @property
    def A(self) -> Values:  # noqa: N802
        """States by states, (state, state)."""
        return np.asarray(self.systems.A[self.chosen])

    @property
    def B(self) -> Values:  # noqa: N802
        """States by inputs, (state, input)."""
        return np.asarray(self.systems.B[self.chosen])

    @property
    def C(self) -> Values:  # noqa: N802
        """Outputs by states, (output, state)."""
        return np.asarray(self.systems.C[self.chosen])

    @property
    def D(self) -> Values:  # noqa: N802
        """Outputs by inputs, (output, input)."""
        return np.asarray(self.systems.D[self.chosen])

    @property
    def dt(self) -> float:
        """Sampling time in seconds."""
        return self.channels.dt

    def with_delays(self) -> Linearisation:
        """Return the same with dead times in the states: delayed inputs, in a row."""
        if not any(self.delays):
            return self
        from dataclasses import replace

        extra = sum(self.delays)
        rest = np.zeros((len(self.states), extra))
        return replace(
            self,
            systems=self.systems.delayed(self.delays),
            delays=(0,) * len(self.delays),
            states=np.concatenate([self.states, rest], axis=1),
        )

    def to_control(self, member: int | None = None) -> control.StateSpace:
        """Return it as ``control.ss`` of python-control, dead times in the states.

        Parameters
        ----------
        member
            Number of a member; by default the one nearest to the median.
        """
        try:
            import control
        except ImportError as error:
            raise InputError(
                'python-control is missing: pip install "sparsid[control]"'
            ) from error
        k = self.chosen if member is None else range(self.members)[member]
        found = self.with_delays().systems
        return control.ss(
            found.A[k],
            found.B[k],
            found.C[k],
            found.D[k],
            self.dt,
            inputs=list(self.channels.input_names),
            outputs=list(self.channels.output_names),
        )

    # -- poles ---------------------------------------------------------------------

    @cached_property
    def pole_cloud(self) -> NDArray[np.complex128]:
        """Poles of all members and draws, (system, pole), matched one by one."""
        found = np.linalg.eigvals(self.systems.A).astype(complex)
        centre = found[self.chosen]
        centre = centre[np.lexsort((-centre.imag, -np.abs(centre)))]
        return np.array([matched(poles, centre) for poles in found])

    def _spread(self, values: Any) -> Spread:
        """Return the value of the chosen member and the ends over all."""
        return Spread(values[self.chosen], *ends(values))

    @property
    def poles(self) -> Spread:
        """Poles in the z plane, the slowest first; real and imaginary parts apart."""
        cloud = self.pole_cloud
        real, imaginary = ends(cloud.real), ends(cloud.imag)
        return Spread(cloud[self.chosen], *(real + 1j * imaginary))

    @property
    def damping(self) -> Spread:
        """Damping ratio of every pole, as ``-cos(angle(log z))``; negative: unstable.

        1 for a pole on the positive real axis, which does not oscillate.
        """
        return self._spread(damping_ratios(self.pole_cloud))

    @property
    def time_constants(self) -> Spread:
        """Time constant of every pole in seconds, ``-dt / log|z|``.

        Infinite on the unit circle; negative outside, where a motion grows.
        """
        return self._spread(time_constants(self.pole_cloud, self.dt))

    @property
    def frequencies(self) -> Spread:
        """Natural frequency of every pole in rad/s, ``|log z| / dt``."""
        return self._spread(np.abs(logarithm(self.pole_cloud)) / self.dt)

    @property
    def dead_times(self) -> Spread:
        """Dead time of every input in seconds: whole samples, the same for all members.

        They are chosen with the structure, so that nothing is known of their spread.
        """
        late = self.dt * np.array(self.delays, dtype=float)
        return Spread(late, late, late)

    @property
    def stable(self) -> bool:
        """Whether all poles are inside the unit circle."""
        return bool((np.abs(self.poles.value) < 1.0).all())

    @property
    def gain(self) -> Spread:
        """Static gain, (output, input), in units of the output for one of the input."""
        return self._spread(self.systems.gains())

    def gain_unit(self, output: int, given: int) -> str:
        """Return the unit of a gain, such as "m/V", by numbers of output and input."""
        top = self.channels.output_units[output]
        bottom = self.channels.input_units[given]
        return f"{top or '1'}/{bottom}" if bottom else top

    # -- responses -----------------------------------------------------------------

    def frequency_response(self, w: Any = None) -> FrequencyResponse:
        """Return gain and phase over frequencies.

        Parameters
        ----------
        w
            Frequencies in rad/s, up to ``pi / dt``; by default from well below the
            slowest pole to there.
        """
        return frequency_response(self, w)

    def step_response(self, samples: int | None = None) -> StepResponse:
        """Return what the outputs do after every input rises by one, one at a time.

        Parameters
        ----------
        samples
            By default until the slowest motion has settled.
        """
        return step_response(self, samples)

    @property
    def settling_samples(self) -> int:
        """Samples after which the slowest motion has settled, within bounds."""
        slowest = self.time_constants.value
        slowest = slowest[np.isfinite(slowest) & (slowest > 0.0)]
        most = slowest.max(initial=0.0) / self.dt
        wanted = SETTLED * most + max(self.delays, default=0)
        return int(np.clip(np.ceil(wanted), FEWEST, MOST))

    # -- what it says of itself ----------------------------------------------------

    def to_frame(self) -> pd.DataFrame:
        """Return a table of the poles, with the ends of what is known of each."""
        import pandas as pd

        poles = self.poles
        columns: dict[str, Any] = {
            "real": poles.value.real,
            "imaginary": poles.value.imag,
        }
        for name, found in (
            ("time constant [s]", self.time_constants),
            ("natural frequency [rad/s]", self.frequencies),
            ("damping", self.damping),
        ):
            columns[name] = found.value
            columns[f"{name} low"], columns[f"{name} high"] = found.low, found.high
        return pd.DataFrame(columns)

    def rows(self) -> list[Row]:
        """Return the lines of a summary about poles, gains and dead times."""
        return rows(self)

    def __str__(self) -> str:
        rows = self.rows()
        members = f"{counted(self.members, 'member')}, "
        draws = counted(len(self.systems.A) - self.members, "draw")
        rows.append(("spread", f"90 % of {members}{draws} of the parameters"))
        return "\n".join(f"{label:<12}{text}" for label, text in rows)

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        from html import escape

        return f"<pre>{escape(str(self))}</pre>"


# -- making it -------------------------------------------------------------------------


def linearise(
    fitted: FittedModel,
    at: Any = None,
    *,
    states: Any = None,
    draws: int = DRAWS,
    seed: int = 0,
) -> Linearisation:
    """Return a model as a linear one around a point; see `Estimator.linearise`."""
    inputs = operating_inputs(fitted, at)
    waiting = steps_of(fitted, per_member(draws, len(fitted)), seed)
    scaling, v = fitted.scaling, fitted.scaling.scale_u(inputs)
    if states is None:
        points = rests(waiting, v, fitted.channels, inputs)
    else:
        points = _given_states(waiting, states)
    pairs = list(zip(waiting.members, points, strict=True))
    found = [step.derivatives(x, v) for step, x in pairs]
    for k, drawn in enumerate(waiting.draws):
        for step in drawn:
            here = newton(step, points[k], v) if states is None else points[k]
            if here is not None:
                near = zip(found[k], step.derivatives(here, v), strict=True)
                A, B, C, D = (extrapolated(own, there) for own, there in near)
                found.append((A, B, C, D))
    A, B, C, D = _of_one_size(found)
    y_std, u_std = scaling.y_std[:, None], scaling.u_std
    systems = Systems(A, B / u_std, y_std * C, y_std * D / u_std)
    outputs = [step.emit(x, v) for step, x in pairs]
    return Linearisation(
        systems,
        len(pairs),
        systems.nearest_to_median(len(pairs)),
        waiting.delays,
        inputs,
        scaling.unscale_y(np.median(outputs, axis=0)),
        of_one_length(points),
        states is None,
        any(step.is_held(x, v) for step, x in pairs),
        fitted.channels,
    )


def _of_one_size(
    found: list[tuple[Values, Values, Values, Values]],
) -> tuple[Values, Values, Values, Values]:
    """Return the matrices of all systems, stacked.

    Pruned members may have fewer states than others: what they lack is at zero, is
    moved by nothing and moves nothing.
    """
    most = max(len(A) for A, *_ in found)
    parts: tuple[list[Values], ...] = ([], [], [], [])
    for A, B, C, D in found:
        rest = (0, most - len(A))
        parts[0].append(np.pad(A, (rest, rest)))
        parts[1].append(np.pad(B, (rest, (0, 0))))
        parts[2].append(np.pad(C, ((0, 0), rest)))
        parts[3].append(D)
    A, B, C, D = (np.array(part) for part in parts)
    return A, B, C, D


def _given_states(waiting: Waiting, states: Any) -> list[Values]:
    """Return the states of every member, or say what is wrong with them.

    Of members with fewer states than others the first ones count.
    """
    if isinstance(states, SteadyState):
        states = states.states
    counts = [len(step.rest()) for step in waiting.members]
    wanted = (len(counts), max(counts))
    try:
        found = np.asarray(states, dtype=float)
    except (TypeError, ValueError) as error:
        raise InputError(f"states={states!r} are no numbers") from error
    if found.ndim == 1 and wanted[0] == 1:
        found = found[None]
    if found.shape != wanted or not np.isfinite(found).all():
        raise InputError(
            f"states of shape {found.shape} were given but {wanted} finite numbers are "
            "needed, (member, state), as steady_state(u).states has them"
        )
    return [x[:n] for x, n in zip(found, counts, strict=True)]
