"""Bands for whole runs hold runs to come."""

import numpy as np
import pytest
from scipy.signal import lfilter
from scipy.stats import norm

from sparsid.results.forecast import whole_run_width
from sparsid.simulation.whole_run import whole_run_factor


def runs(rng: np.random.Generator, count: int, samples: int, memory: float):
    """Runs of unit variance that forget by ``memory`` from sample to sample."""
    e = rng.normal(size=(count, samples + 200)) * np.sqrt(1.0 - memory**2)
    return lfilter([1.0], [1.0, -memory], e, axis=1)[:, 200:]


@pytest.mark.parametrize("level", [0.5, 0.9, 0.99])
@pytest.mark.parametrize("samples", [1, 10, 1000])
def test_independent_samples_are_held_as_often_as_asked(level, samples) -> None:
    inside = 2.0 * norm.cdf(whole_run_width(level, samples)) - 1.0
    assert inside**samples == pytest.approx(level, rel=1e-9)


@pytest.mark.parametrize("memory", [0.0, 0.9])
@pytest.mark.parametrize("deviation", [1.0, 3.0])
def test_a_run_to_come_is_held_about_as_often_as_asked(memory, deviation) -> None:
    rng, held, level = np.random.default_rng(0), [], 8 / 9
    block = np.repeat(np.arange(8), 150)
    for _ in range(400):
        learnt, new = np.split(deviation * runs(rng, 9, 150, memory), [8])
        scale, rate = whole_run_factor(learnt.ravel(), block)
        held.append(np.abs(new).max() <= scale * whole_run_width(level, rate * 150))
    # Eight times in nine; four standard errors of 400 trials are 6 %.
    assert abs(np.mean(held) - level) < 0.065


def test_longer_runs_get_wider_bands() -> None:
    rng = np.random.default_rng(0)
    held, level = [], 0.9
    block = np.repeat(np.arange(8), 150)
    for _ in range(200):
        learnt = runs(rng, 8, 150, 0.8)
        scale, rate = whole_run_factor(learnt.ravel(), block)
        new = runs(rng, 1, 1500, 0.8)
        held.append(np.abs(new).max() <= scale * whole_run_width(level, rate * 1500))
    assert 0.8 < np.mean(held) < 0.99


def test_without_blocks_samples_count_as_independent() -> None:
    z = np.full(20, np.nan)
    assert whole_run_factor(z, np.zeros(20, dtype=int)) == (1.0, 1.0)
