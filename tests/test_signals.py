"""Excitation signals: levels, rates, frequencies, repetition."""

import numpy as np
import pytest

from sparsid import signals
from sparsid.errors import InputError

RATE, DT = 2.0, 0.1


def one_of_each(rate, seed=0):
    return {
        "multisine": signals.multisine(
            600, DT, (0.1, 2), low=2, high=5, rate=rate, seed=seed
        ),
        "prbs": signals.prbs(600, DT, 0.5, low=2, high=5, rate=rate, seed=seed),
        "steps": signals.steps(600, DT, (0.5, 3), low=2, high=5, rate=rate, seed=seed),
        "sweep": signals.sweep(600, DT, (0.1, 2), low=2, high=5, rate=rate),
    }


@pytest.mark.parametrize("rate", [None, RATE])
def test_signals_stay_within_their_limits(rate) -> None:
    for name, values in one_of_each(rate).items():
        assert values.shape == (600,), name
        assert values.min() >= 2 - 1e-12, name
        assert values.max() <= 5 + 1e-12, name
        if rate is not None:
            assert np.abs(np.diff(values)).max() <= RATE * DT * (1 + 1e-9), name


def test_the_seed_decides() -> None:
    first, again, other = (one_of_each(None, seed) for seed in (1, 1, 2))
    for name in first:
        np.testing.assert_array_equal(first[name], again[name])
        assert name == "sweep" or (first[name] != other[name]).any()


def test_a_multisine_has_equal_power_at_the_wanted_frequencies_alone() -> None:
    values = signals.multisine(1000, DT, (0.5, 2.0), periods=2)
    power = np.abs(np.fft.rfft(values[:500] - values.mean()))
    wanted = (np.arange(251) / 50 >= 0.5) & (np.arange(251) / 50 <= 2.0)
    np.testing.assert_allclose(power[wanted], power[wanted].mean(), rtol=1e-6)
    assert power[~wanted].max() < 1e-9 * power.max()
    np.testing.assert_allclose(values[:500], values[500:])


@pytest.mark.parametrize("bits", [b for b in signals.TAPS if b <= 12])
def test_registers_run_through_all_their_states(bits: int) -> None:
    state, count = 1, 0
    while state != 1 or count == 0:
        new = sum(state >> (bits - tap) for tap in signals.TAPS[bits]) & 1
        state, count = state >> 1 | new << (bits - 1), count + 1
    assert count == 2**bits - 1


def test_a_binary_sequence_is_white_over_a_period() -> None:
    values = signals.prbs(127, 1.0, 1.0)
    correlation = np.fft.ifft(np.abs(np.fft.fft(values)) ** 2).real / 127
    np.testing.assert_allclose(correlation[1:], -1 / 127, atol=1e-9)


def test_steps_visit_the_whole_range() -> None:
    values = signals.steps(1000, 1.0, 10, low=0, high=10)
    counts, _ = np.histogram(values, bins=10, range=(0, 10))
    np.testing.assert_array_equal(counts, 100)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: signals.prbs(1, 1.0, 1.0), "samples is 1"),
        (lambda: signals.prbs(10, 0.0, 1.0), "dt is 0.0"),
        (lambda: signals.prbs(10, 1.0, 0.5), "hold is 0.5"),
        (lambda: signals.prbs(10, 1.0, 1.0, low=2.0), "low is 2 but must be below"),
        (lambda: signals.prbs(10, 1.0, 1.0, rate=0), "rate is 0"),
        (lambda: signals.prbs(10, 1.0, 1.0, seed=-1), "seed is -1"),
        (lambda: signals.steps(10, 1.0, (3, 1)), "the shortest time has to come first"),
        (lambda: signals.sweep(10, 1.0, (0.1, 0.9)), "up to 0.5 Hz"),
        (lambda: signals.multisine(10, 1.0, (0.6, 0.9)), "No frequency from 0.6"),
        (lambda: signals.multisine(10, 1.0, 3), "band is 3"),
        (lambda: signals.multisine(10, 1.0, (0, 1), periods=3), "periods is 3"),
    ],
)
def test_refusals(call, message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()
