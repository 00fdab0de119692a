"""Steps and sinusoids through many linear systems at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparsid.analysis.spread import ends
from sparsid.checks import whole
from sparsid.errors import InputError
from sparsid.results.channels import Channels

if TYPE_CHECKING:
    from sparsid.analysis.linearisation import Linearisation

Values = NDArray[np.float64]
Complex = NDArray[np.complex128]

# Frequencies of a response, and how far below the slowest pole they begin.
FREQUENCIES, BELOW = 200, 0.05
# Samples over which members are compared.
COMPARED = 200


class Systems(NamedTuple):
    """Matrices of linear systems, along a first axis."""

    A: Values
    B: Values
    C: Values
    D: Values

    def delayed(self, delays: tuple[int, ...]) -> Systems:
        """Return systems whose states also hold the inputs on their way."""
        extra, n = sum(delays), self.A.shape[1]
        many, outputs, inputs = self.D.shape
        A = np.zeros((many, n + extra, n + extra))
        B = np.zeros((many, n + extra, inputs))
        C = np.zeros((many, outputs, n + extra))
        D = np.zeros(self.D.shape)
        A[:, :n, :n], C[:, :, :n] = self.A, self.C
        first = n
        for k, late in enumerate(delays):
            if not late:
                B[:, :n, k], D[:, :, k] = self.B[:, :, k], self.D[:, :, k]
                continue
            # The first place takes the input, the last one acts.
            B[:, first, k] = 1.0
            for j in range(1, late):
                A[:, first + j, first + j - 1] = 1.0
            A[:, :n, first + late - 1] = self.B[:, :, k]
            C[:, :, first + late - 1] = self.D[:, :, k]
            first += late
        return Systems(A, B, C, D)

    def at(self, z: complex) -> Complex:
        """Return the transfer functions at ``z``, (system, output, input)."""
        away = z * np.eye(self.A.shape[1]) - self.A
        try:
            inner = np.linalg.solve(away, self.B.astype(complex))
        except np.linalg.LinAlgError:
            # A pole lies there: one of them an integrator, say. Others still count.
            inner = np.full(self.B.shape, np.inf, dtype=complex)
            for k, own in enumerate(away):
                if np.linalg.matrix_rank(own) == len(own):
                    inner[k] = np.linalg.solve(own, self.B[k])
        with np.errstate(invalid="ignore"):
            return np.asarray(self.C @ inner + self.D)

    def gains(self) -> Values:
        """Return static gains, (system, output, input); infinite for an integrator."""
        return self.at(1.0).real

    def steps(self, samples: int) -> Values:
        """Return responses to steps, (system, sample, output, input)."""
        many, outputs, inputs = self.D.shape
        x = np.zeros(self.B.shape)
        found = np.empty((many, samples, outputs, inputs))
        for t in range(samples):
            found[:, t] = self.C @ x + self.D
            x = self.A @ x + self.B
        return found

    def nearest_to_median(self, count: int) -> int:
        """Return which of the first systems responds most like their median."""
        if count == 1 or not self.D.shape[2]:
            return 0
        found = Systems(*(m[:count] for m in self)).steps(COMPARED)
        apart = found - np.median(found, axis=0)
        size = np.abs(found).max(axis=(0, 1)) + 1e-300
        return int(np.argmin(((apart / size) ** 2).sum(axis=(1, 2, 3))))


@dataclass(frozen=True, eq=False)
class FrequencyResponse:
    """Gain and phase over frequencies, of the chosen member, and the spread of all.

    Attributes
    ----------
    w
        Frequencies in rad/s.
    response
        Complex, (frequency, output, input), in units of the output for one of the
        input.
    magnitude_low, magnitude_high, phase_low, phase_high
        Between them lie 90 % of members and draws; phases in degrees.
    """

    w: Values
    response: Complex
    magnitude_low: Values
    magnitude_high: Values
    phase: Values
    phase_low: Values
    phase_high: Values
    channels: Channels

    @property
    def magnitude(self) -> Values:
        """Gain, (frequency, output, input)."""
        return np.abs(self.response)


@dataclass(frozen=True, eq=False)
class StepResponse:
    """What outputs do after one input rises by one, of the chosen member.

    Attributes
    ----------
    time
        In seconds; the input rises at zero.
    response, low, high
        (sample, output, input), in units of the output; between the last two lie 90 %
        of members and draws.
    """

    time: Values
    response: Values
    low: Values
    high: Values
    channels: Channels


def frequency_response(model: Linearisation, w: Any) -> FrequencyResponse:
    """Return gain and phase over frequencies in rad/s."""
    w = _default_frequencies(model) if w is None else _frequencies(w, model.dt)
    delays = np.array(model.delays, dtype=float)
    found = []
    for omega in w:
        z = np.exp(1j * omega * model.dt)
        found.append(model.systems.at(z) * z**-delays)
    # (system, frequency, output, input)
    G = np.moveaxis(np.array(found), 0, 1)
    phase = _phases(G, model.chosen)
    size_low, size_high = ends(np.abs(G))
    low, high = ends(phase)
    own = phase[model.chosen]
    return FrequencyResponse(
        w, G[model.chosen], size_low, size_high, own, low, high, model.channels
    )


def _phases(G: Complex, chosen: int) -> Values:
    """Return phases in degrees without jumps, all on the same turn."""
    phase = np.unwrap(np.angle(G), axis=1)
    turns = np.round((phase - phase[chosen])[:, :1] / (2.0 * np.pi))
    # A positive gain begins near zero, and not a turn away.
    turns = turns + np.round(phase[chosen, :1] / (2.0 * np.pi))
    found: Values = np.degrees(phase - 2.0 * np.pi * turns)
    return found


def _default_frequencies(model: Linearisation) -> Values:
    top = np.pi / model.dt
    slow = model.frequencies.value
    slow = slow[(slow > 1e-9 * top) & (slow < top)]
    bottom = BELOW * slow.min(initial=0.1 * top)
    return np.geomspace(bottom, top, FREQUENCIES)


def _frequencies(w: Any, dt: float) -> Values:
    try:
        values = np.atleast_1d(np.asarray(w, dtype=float))
    except (TypeError, ValueError) as error:
        raise InputError(f"w={w!r}: give frequencies in rad/s") from error
    top = np.pi / dt
    good = values.ndim == 1 and values.size and np.isfinite(values).all()
    if not good or values.min() < 0.0 or values.max() > top * (1.0 + 1e-9):
        raise InputError(
            f"frequencies w: give numbers from 0 to pi / dt = {top:.4g} rad/s; beyond "
            "it a sampled system only repeats itself"
        )
    return values


def step_response(model: Linearisation, samples: int | None) -> StepResponse:
    """Return what outputs do after one input rises by one."""
    count = model.settling_samples if samples is None else samples
    count = whole("samples", count, 1, 1_000_000)
    found = model.systems.steps(count)
    for k, late in enumerate(model.delays):
        if late:
            found[:, late:, :, k] = found[:, : max(count - late, 0), :, k]
            found[:, :late, :, k] = 0.0
    time: Values = model.dt * np.arange(count, dtype=float)
    low, high = ends(found)
    return StepResponse(time, found[model.chosen], low, high, model.channels)
