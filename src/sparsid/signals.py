"""Excitation signals: what to send to a system so that its model can be found.

All stay within ``low`` and ``high`` and, where ``rate`` is given, change by at most so
much per second. The same seed gives the same signal. Values are for a sampling time of
``dt`` seconds, one for each sample.
"""

from __future__ import annotations

import numbers

import numpy as np
from numpy.typing import NDArray

from sparsid.data.sampling_time import sampling_time
from sparsid.errors import InputError

Values = NDArray[np.float64]

# Random phases that are tried for a multisine: the one with the lowest peak is taken.
PHASES = 50
# Positions, counted from one, whose sum modulo 2 is fed back into a shift register of
# so many bits: its sequence repeats after 2^bits - 1 steps, the longest there is.
TAPS = {
    **{2: (2, 1), 3: (3, 2), 4: (4, 3), 5: (5, 3), 6: (6, 5), 7: (7, 6)},
    **{8: (8, 6, 5, 4), 9: (9, 5), 10: (10, 7), 11: (11, 9), 12: (12, 6, 4, 1)},
    **{13: (13, 4, 3, 1), 14: (14, 5, 3, 1), 15: (15, 14), 16: (16, 15, 13, 4)},
    **{17: (17, 14), 18: (18, 11), 20: (20, 17)},
}


def multisine(
    samples: int,
    dt: float,
    band: tuple[float, float],
    *,
    low: float = -1.0,
    high: float = 1.0,
    rate: float | None = None,
    periods: int = 1,
    seed: int = 0,
) -> Values:
    """Return a sum of sines of equal size at all frequencies in a band.

    Its phases are random, the best of fifty: amplitudes are close to Gaussian, so that
    all levels are visited. Best for frequency responses and for nonlinear models.

    Parameters
    ----------
    samples, dt
        Number of values, and seconds between them.
    band
        Lowest and highest frequency in Hz; zero is left out.
    low, high
        Ends of the range; both are approached and one is met.
    rate
        Most change per second; a signal that is faster is made smaller around the
        middle of the range.
    periods
        How often the signal repeats.
    seed
        Of the phases.
    """
    count, dt, rng = _checked(samples, dt, low, high, rate, seed)
    if not _is_count(periods) or count % periods:
        raise InputError(
            f"periods is {periods!r} but must be a whole number that divides the "
            f"{count} samples."
        )
    length = count // periods
    try:
        first, last = (float(end) for end in band)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"band is {band!r} but two frequencies in Hz are needed."
        ) from error
    lines = np.arange(1, (length + 1) // 2)
    lines = lines[(lines / (length * dt) >= first) & (lines / (length * dt) <= last)]
    if not len(lines):
        raise InputError(
            f"No frequency from {first:g} to {last:g} Hz fits: {length} samples every "
            f"{dt:g} s have {1 / (length * dt):.3g}, twice that, and so on, up to "
            f"{0.5 / dt:.3g} Hz."
        )
    best, lowest = np.zeros(length), np.inf
    for _ in range(PHASES):
        spectrum = np.zeros(length // 2 + 1, complex)
        spectrum[lines] = np.exp(2j * np.pi * rng.uniform(size=len(lines)))
        wave = np.fft.irfft(spectrum, length)
        crest = float(np.abs(wave).max() / wave.std())
        if crest < lowest:
            best, lowest = wave, crest
    wave = np.tile(best / np.abs(best).max(), periods)
    size = 0.5 * (high - low)
    if rate is not None:
        fastest = float(np.abs(np.diff(wave)).max(initial=0.0)) / dt
        size = min(size, rate / fastest) if fastest > 0.0 else size
    return np.asarray(np.clip(0.5 * (low + high) + size * wave, low, high))


def prbs(
    samples: int,
    dt: float,
    hold: float,
    *,
    low: float = -1.0,
    high: float = 1.0,
    rate: float | None = None,
    seed: int = 0,
) -> Values:
    """Return a pseudo-random binary sequence: two levels, switched as if by chance.

    It has the most power that two limits allow. With two levels nothing nonlinear in
    between shows: for nonlinear models take `steps` or `multisine`.

    Parameters
    ----------
    samples, dt
        Number of values, and seconds between them.
    hold
        Seconds between moments at which it may switch: a fifth of the rise time or so.
    low, high
        The two levels.
    rate
        Most change per second: switches become ramps.
    seed
        Where the sequence begins.
    """
    count, dt, rng = _checked(samples, dt, low, high, rate, seed)
    width = _held(hold, dt)
    needed = -(-count // width)
    bits = next((b for b in TAPS if 2**b - 1 >= needed), max(TAPS))
    state = int(rng.integers(1, 2**bits))
    levels = np.empty(needed)
    for k in range(needed):
        levels[k] = high if state & 1 else low
        new = sum(state >> (bits - tap) for tap in TAPS[bits]) & 1
        state = state >> 1 | new << (bits - 1)
    return _limited(np.repeat(levels, width)[:count], rate, dt)


def steps(
    samples: int,
    dt: float,
    hold: float | tuple[float, float],
    *,
    low: float = -1.0,
    high: float = 1.0,
    rate: float | None = None,
    seed: int = 0,
) -> Values:
    """Return steps of random height that last for random times.

    Levels are spread evenly over the range, in random order. What a plant can do by
    hand, and good for nonlinear models.

    Parameters
    ----------
    samples, dt
        Number of values, and seconds between them.
    hold
        Seconds for which a level lasts, or the shortest and the longest: some from a
        fifth of the settling time to all of it.
    low, high
        Ends of the range.
    rate
        Most change per second: steps become ramps.
    seed
        Of levels and times.
    """
    count, dt, rng = _checked(samples, dt, low, high, rate, seed)
    shortest, longest = hold if isinstance(hold, tuple | list) else (hold, hold)
    ends = _held(shortest, dt), _held(longest, dt)
    if ends[1] < ends[0]:
        raise InputError(f"hold is {hold!r} but the shortest time has to come first.")
    lengths: list[int] = []
    while sum(lengths) < count:
        lengths.append(int(rng.integers(ends[0], ends[1] + 1)))
    number = len(lengths)
    levels = (rng.permutation(number) + rng.uniform(size=number)) / number
    values = np.repeat(low + (high - low) * levels, lengths)[:count]
    return _limited(values, rate, dt)


def sweep(
    samples: int,
    dt: float,
    band: tuple[float, float],
    *,
    low: float = -1.0,
    high: float = 1.0,
    rate: float | None = None,
) -> Values:
    """Return a sine whose frequency rises from one end of a band to the other.

    It rises by the same factor in equal times. Where the sine would be faster than
    ``rate`` it gets smaller.

    Parameters
    ----------
    samples, dt
        Number of values, and seconds between them.
    band
        First and last frequency in Hz, above zero.
    low, high
        Ends of the range.
    rate
        Most change per second.
    """
    count, dt, _ = _checked(samples, dt, low, high, rate, 0)
    first, last = band
    if not 0.0 < first < last <= 0.5 / dt:
        raise InputError(
            f"band is {band!r} but two frequencies above 0 and up to {0.5 / dt:g} Hz "
            "are needed, the lower first."
        )
    time = np.arange(count) * dt
    growth = np.log(last / first) / (count * dt)
    frequency = first * np.exp(growth * time)
    phase = 2 * np.pi * (frequency - first) / growth
    size = np.full(count, 0.5 * (high - low))
    if rate is not None:
        size = np.minimum(size, rate / (2 * np.pi * frequency))
    wave = 0.5 * (low + high) + size * np.sin(phase)
    return np.asarray(_limited(wave, rate, dt))


def _checked(
    samples: int, dt: float, low: float, high: float, rate: float | None, seed: int
) -> tuple[int, float, np.random.Generator]:
    if not _is_count(samples) or samples < 2:
        raise InputError(f"samples is {samples!r} but two or more are needed.")
    dt = sampling_time(dt)
    for name, value in (("low", low), ("high", high)):
        if not isinstance(value, numbers.Real) or not np.isfinite(float(value)):
            raise InputError(f"{name} is {value!r} but must be a finite number.")
    if not low < high:
        raise InputError(f"low is {low:g} but must be below high, {high:g}.")
    if rate is not None and not (
        isinstance(rate, numbers.Real) and 0.0 < float(rate) < np.inf
    ):
        raise InputError(f"rate is {rate!r} but must be a change per second above 0.")
    if not isinstance(seed, numbers.Integral) or seed < 0:
        raise InputError(f"seed is {seed!r} but must be a whole number from 0 on.")
    return int(samples), dt, np.random.default_rng(int(seed))


def _is_count(value: object) -> bool:
    return isinstance(value, numbers.Integral) and int(value) >= 1


def _held(hold: float, dt: float) -> int:
    """Return the samples that a level lasts."""
    if not isinstance(hold, numbers.Real) or not dt <= float(hold) < np.inf:
        raise InputError(
            f"hold is {hold!r} but must be a time in seconds of at least dt, {dt:g}."
        )
    return max(round(float(hold) / dt), 1)


def _limited(values: Values, rate: float | None, dt: float) -> Values:
    """Return a signal that follows another as fast as it may."""
    if rate is None:
        return values
    most = rate * dt
    followed = values.copy()
    for k in range(1, len(values)):
        change = values[k] - followed[k - 1]
        followed[k] = followed[k - 1] + min(max(change, -most), most)
    return followed
