"""A model as a linear one around an operating point, with its spread."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

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
    named_values,
    per_member,
    spread_text,
)
from sparsid.analysis.steady_state import (
    SteadyState,
    newton,
    operating_inputs,
    rests,
)
from sparsid.analysis.steps import Waiting, steps_of
from sparsid.errors import InputError
from sparsid.results.base import FittedModel
from sparsid.results.forecast import Channels
from sparsid.results.texts import Row, counted

if TYPE_CHECKING:
    import control
    import pandas as pd

Values = NDArray[np.float64]

# Poles smaller than this are a memory of samples, not a motion.
SMALLEST_POLE = 1e-6
# Samples of a step response: so many of the slowest time constants, within bounds.
SETTLED, FEWEST, MOST = 5.0, 20, 5_000
# Modes and gains in a text.
LISTED = 4


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
        return self.systems.A[self.chosen]

    @property
    def B(self) -> Values:  # noqa: N802
        """States by inputs, (state, input)."""
        return self.systems.B[self.chosen]

    @property
    def C(self) -> Values:  # noqa: N802
        """Outputs by states, (output, state)."""
        return self.systems.C[self.chosen]

    @property
    def D(self) -> Values:  # noqa: N802
        """Outputs by inputs, (output, input)."""
        return self.systems.D[self.chosen]

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
        return np.array([_matched(poles, centre) for poles in found])

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
        return self._spread(_damping(self.pole_cloud))

    @property
    def time_constants(self) -> Spread:
        """Time constant of every pole in seconds, ``-dt / log|z|``.

        Infinite on the unit circle; negative outside, where a motion grows.
        """
        return self._spread(_time_constants(self.pole_cloud, self.dt))

    @property
    def frequencies(self) -> Spread:
        """Natural frequency of every pole in rad/s, ``|log z| / dt``."""
        return self._spread(np.abs(_logarithm(self.pole_cloud)) / self.dt)

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

    def point_text(self) -> str:
        """Return the operating point in words."""
        names = self.channels
        given = named_values(self.inputs, names.input_names, names.input_units)
        there = named_values(self.outputs, names.output_names, names.output_units)
        kind = "" if self.steady else ", states given"
        held = ", held at a bound: it does not move" if self.held else ""
        return f"{given or 'no inputs'} -> {there}{kind}{held}"

    def rows(self) -> list[Row]:
        """Return the lines of a summary about poles, gains and dead times."""
        rows: list[Row] = [("linear at", self.point_text())]
        lines = self._gain_lines()
        rows += [("" if k else "gain", text) for k, text in enumerate(lines)]
        modes = self.mode_lines()
        shown = modes[:LISTED]
        if len(modes) > LISTED:
            shown.append(f"and {counted(len(modes) - LISTED, 'faster one')}")
        rows += [("" if k else "motions", text) for k, text in enumerate(shown)]
        if any(self.delays):
            late = zip(self.channels.input_names, self.dead_times.value, strict=True)
            texts = [f"{name} {value:g} s" for name, value in late]
            rows.append(("dead times", ", ".join(texts)))
        return rows

    def _gain_lines(self) -> list[str]:
        found, names, lines = self.gain, self.channels, []
        for i, output in enumerate(names.output_names):
            for j, given in enumerate(names.input_names):
                unit = _unit_of_gain(names.output_units[i], names.input_units[j])
                three = (float(part[i, j]) for part in found)
                text = spread_text(*three, unit)
                if not np.isfinite(found.value[i, j]):
                    text = "none: it does not come to rest"
                lines.append(f"{given} to {output}: {text}")
        if len(lines) == 1:
            return [lines[0].split(": ", 1)[1]]
        more = len(lines) - LISTED
        return lines if more <= 0 else [*lines[:LISTED], f"and {more} more"]

    def mode_lines(self) -> list[str]:
        """Return one text for each real pole or pair, the slowest first."""
        poles, taus = self.poles.value, self.time_constants
        zeta, omega = self.damping, self.frequencies
        lines = []
        for k, pole in enumerate(poles):
            if abs(pole) < SMALLEST_POLE or pole.imag < 0.0:
                continue
            if not np.isfinite(taus.value[k]):
                lines.append("an integrator")
                continue
            text = "time constant " if taus.value[k] > 0.0 else "grows with "
            text += spread_text(taus.value[k], taus.low[k], taus.high[k], "s")
            if pole.imag > 0.0:
                turn = 2.0 * np.pi / abs(np.angle(pole)) * self.dt
                damped = spread_text(zeta.value[k], zeta.low[k], zeta.high[k])
                text += f", period {turn:.3g} s, damping {damped}"
                text += f", {omega.value[k]:.3g} rad/s"
            elif pole.real < 0.0:
                text += ", alternating"
            lines.append(text)
        return lines

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
        points = list(_given_states(waiting, states))
    pairs = list(zip(waiting.members, points, strict=True))
    found = [step.derivatives(x, v) for step, x in pairs]
    for drawn, x in zip(waiting.draws, points, strict=True):
        for step in drawn:
            here = newton(step, x, v) if states is None else x
            if here is not None:
                found.append(step.derivatives(here, v))
    A, B, C, D = (np.array(parts) for parts in zip(*found, strict=True))
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
        np.array(points),
        states is None,
        any(step.is_held(x, v) for step, x in pairs),
        fitted.channels,
    )


def _given_states(waiting: Waiting, states: Any) -> Values:
    """Return the states of every member, or say what is wrong with them."""
    if isinstance(states, SteadyState):
        states = states.states
    wanted = (len(waiting.members), len(waiting.members[0].rest()))
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
    return found


def _matched(
    poles: NDArray[np.complex128], centre: NDArray[np.complex128]
) -> NDArray[np.complex128]:
    """Return poles in the order of those that they are nearest to, by their speed."""
    from scipy.optimize import linear_sum_assignment

    a, b = _logarithm(centre)[:, None], _logarithm(poles)[None]
    apart = np.abs(a - b) / (np.abs(a) + np.abs(b) + 1e-12)
    return np.asarray(poles[linear_sum_assignment(apart)[1]])


def _logarithm(poles: NDArray[np.complex128]) -> NDArray[np.complex128]:
    """Return ``log z``, large where a pole is zero."""
    tiny = np.abs(poles) < 1e-300
    return np.asarray(np.log(np.where(tiny, 1e-300, poles)))


def _damping(poles: NDArray[np.complex128]) -> Values:
    s = _logarithm(poles)
    size = np.abs(s)
    return np.where(size > 0.0, -s.real / np.where(size > 0.0, size, 1.0), 0.0)


def _time_constants(poles: NDArray[np.complex128], dt: float) -> Values:
    speed = -_logarithm(poles).real
    with np.errstate(divide="ignore"):
        return np.where(speed == 0.0, np.inf, dt / speed)


def _unit_of_gain(output: str, given: str) -> str:
    if not given:
        return output
    return f"{output or '1'}/{given}"
