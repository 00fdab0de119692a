"""Small simulated systems of different kinds, to see what a method is good for.

Each is driven by a random input that is held for a few samples, measured with white
noise of one per cent, and recorded twice from rest: once to learn from, once to test.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from sparsid.data.record import Record
from sparsid.datasets.benchmark import Benchmark
from sparsid.errors import InputError

# Samples for which an input is held, and noise as a share of the output's deviation.
HOLD, NOISE = 8, 0.01

# From the inputs to the outputs without noise.
Response = Callable[[Any], list[float]]


def wiener(u: Any) -> list[float]:
    """Return a second-order linear system seen through a soft saturation."""
    return [math.tanh(1.5 * x) for x in linear(u)]


def hammerstein(u: Any) -> list[float]:
    """Return a second-order linear system behind a dead zone."""
    return linear([math.copysign(max(abs(v) - 0.3, 0.0), v) for v in u])


def linear(u: Any) -> list[float]:
    """Return a second-order linear system."""
    x, v, y = 0.0, 0.0, []
    for drive in u:
        y.append(x)
        x, v = x + 0.3 * v, v + 0.3 * (drive - x - 1.2 * v)
    return y


def bilinear(u: Any) -> list[float]:
    """Return a system whose time constant depends on the input."""
    x, y = 0.0, []
    for drive in u:
        y.append(x)
        x += 0.2 * (drive - x - 0.6 * drive * x)
    return y


def duffing(u: Any) -> list[float]:
    """Return a damped mass on a hardening spring."""
    x, v, y, steps = 0.0, 0.0, [], 4
    for drive in u:
        y.append(x)
        for _ in range(steps):
            v += 0.4 / steps * (drive - 0.8 * v - x - 2.0 * x**3)
            x += 0.4 / steps * v
    return y


def friction(u: Any) -> list[float]:
    """Return the speed of a drive with Coulomb and viscous friction."""
    v, y = 0.0, []
    for drive in u:
        y.append(v)
        v += 0.15 * (drive - 0.4 * math.tanh(v / 0.05) - 0.5 * v)
    return y


SYSTEMS: dict[str, Response] = {
    "wiener": wiener,
    "hammerstein": hammerstein,
    "bilinear": bilinear,
    "duffing": duffing,
    "friction": friction,
    "linear": linear,
}


def simulate(name: str, seed: int = 0, samples: int = 1000) -> Benchmark:
    """Return a benchmark recorded from a system.

    Parameters
    ----------
    name
        One of ``SYSTEMS``.
    seed
        The same seed gives the same records.
    samples
        Length of each of the two records.
    """
    if name not in SYSTEMS:
        raise InputError(
            f"system {name!r} is not known: choose one of {', '.join(SYSTEMS)}"
        )
    rng = np.random.default_rng([seed, list(SYSTEMS).index(name)])
    records = []
    for part in ("estimation", "test"):
        levels = rng.uniform(-1.2, 1.2, samples // HOLD + 1)
        u = np.repeat(levels, HOLD)[:samples]
        y = np.array(SYSTEMS[name](u.tolist()))
        y = y + NOISE * y.std() * rng.standard_normal(samples)
        records.append(Record(u, y, 1.0, name=f"{name}, seed {seed}, {part}"))
    title = f"{name.capitalize()} (simulated, seed {seed})"
    return Benchmark(name, title, records[0], "simulated", records[1])
