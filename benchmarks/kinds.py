"""Simulated systems of many kinds: what the automatic mode makes of each.

    python benchmarks/kinds.py --out docs/results/kinds.json
    python benchmarks/kinds.py --only backlash boiler --seeds 3

Each system is simulated twice, to learn from and to test. The noise is known, so that
errors can be given over the smallest possible one. None of the systems is used in the
choice of a default alone: they show what breaks.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import sparsid

Values = NDArray[np.float64]
Row = dict[str, Any]


class Kind(NamedTuple):
    """How a system is driven and what it does.

    Attributes
    ----------
    drive
        From a generator and samples to inputs.
    respond
        From inputs and a generator to outputs without measurement noise.
    noise
        Measurement noise, as a share of the output's deviation.
    """

    drive: Callable[[np.random.Generator, int], Values]
    respond: Callable[[Values, np.random.Generator], Values]
    samples: int
    noise: float
    dt: float = 1.0


def held(hold: int, inputs: int = 1, low: float = -1.0, high: float = 1.0) -> Any:
    """Return random levels that are held."""

    def drive(rng: np.random.Generator, n: int) -> Values:
        levels = rng.uniform(low, high, (n // hold + 1, inputs))
        return np.repeat(levels, hold, axis=0)[:n]

    return drive


def multisine(low: float, high: float, size: float = 1.0) -> Any:
    """Return a sum of sines with random phases between shares of the sampling rate."""

    def drive(rng: np.random.Generator, n: int) -> Values:
        lines = np.zeros(n // 2 + 1, dtype=complex)
        band = np.arange(max(int(low * n), 1), int(high * n))
        lines[band] = np.exp(2j * np.pi * rng.uniform(size=len(band)))
        u = np.fft.irfft(lines, n)
        return (size * u / u.std())[:, None]

    return drive


def steps_and_ramps(rng: np.random.Generator, n: int) -> Values:
    """Return levels held for random times, reached by ramps."""
    times = np.cumsum(rng.integers(20, 120, n // 20))
    levels = rng.uniform(0.0, 1.0, len(times))
    return np.interp(np.arange(n), times, levels)[:, None]


def filtered(a: list[float], b: list[float], delay: int = 0) -> Any:
    """Return a difference equation of the first input."""

    def respond(u: Values, rng: np.random.Generator) -> Values:
        from scipy.signal import lfilter

        late = np.concatenate([np.zeros(delay), u[:, 0]])[: len(u)]
        return np.asarray(lfilter(b, a, late))[:, None]

    return respond


def dryer(u: Values, rng: np.random.Generator) -> Values:
    """Return a heater with dead time and a slow disturbance."""
    y = filtered([1.0, -1.3, 0.42], [0.0, 0.07, 0.05], 3)(u, rng)
    return y + filtered([1.0, -0.9], [1.0])(0.02 * rng.normal(size=(len(u), 1)), rng)


def bouc_wen(u: Values, rng: np.random.Generator) -> Values:
    """Return a mass on a spring with hysteresis."""
    x, v, z, y, inner = 0.0, 0.0, 0.0, [], 10
    h = 1.0 / 750.0 / inner
    for drive in 60.0 * u[:, 0]:
        y.append(x)
        for _ in range(inner):
            zd = 5e4 * v - 1e3 * (0.8 * abs(v) * z - 1.1 * v * abs(z))
            v += h * (drive - 10.0 * v - 5e4 * x - z) / 2.0
            x += h * v
            z += h * zd
    return np.array(y)[:, None]


def positioning(u: Values, rng: np.random.Generator) -> Values:
    """Return the position of a drive with friction under a loop that holds it."""
    x, v, y, inner = 0.0, 0.0, [], 5
    h = 0.02 / inner
    for drive in u[:, 0]:
        y.append(x)
        for _ in range(inner):
            v += h * (30.0 * drive - 4.0 * v - 6.0 * np.tanh(v / 0.02))
            x += h * v
    return np.array(y)[:, None]


def ball_and_beam(u: Values, rng: np.random.Generator) -> Values:
    """Return the position of a ball on a beam that is tilted."""
    x, v, y = 0.0, 0.0, []
    for angle in u[:, 0]:
        y.append(x)
        v += 0.1 * (5.0 * np.sin(0.15 * angle) - 0.25 * v - 0.6 * x)
        x += 0.1 * v
    return np.array(y)[:, None]


def neutralisation(u: Values, rng: np.random.Generator) -> Values:
    """Return the pH of a tank into which acid and base flow."""
    c = np.zeros(2)
    y = []
    for acid, base in u:
        c = c + 0.05 * (np.array([acid, base]) - c)
        excess = 6.0 * (c[1] - c[0])
        y.append(7.0 + 4.0 * np.arcsinh(3.0 * excess) / np.arcsinh(18.0))
    return np.array(y)[:, None]


def reactor(u: Values, rng: np.random.Generator) -> Values:
    """Return concentration and temperature of a cooled reactor, exothermic."""
    c, T, y = 0.9, 1.0, []
    for cooling in u[:, 0]:
        y.append([c, T])
        for _ in range(4):
            rate = 0.1 * c * np.exp(4.0 * (1.0 - 1.0 / max(T, 0.3)))
            c += 0.25 * (0.08 * (1.0 - c) - rate)
            T += 0.25 * (0.08 * (0.9 - T) + 0.9 * rate - 0.06 * (T - 0.8 - cooling))
    return np.array(y)


def boiler(u: Values, rng: np.random.Generator) -> Values:
    """Return four slow outputs of four inputs, all coupled, one nearly integrating."""
    weights = np.random.default_rng(7)
    B = weights.normal(size=(6, 4)) * 0.1
    C = weights.normal(size=(4, 6))
    poles = np.array([0.999, 0.99, 0.98, 0.95, 0.9, 0.7])
    x, y = np.zeros(6), []
    for now in u:
        y.append(C @ x)
        bent = now + 0.3 * now**2
        x = poles * x + B @ bent + 0.002 * rng.normal(size=6)
    return np.array(y)


def late_valve(u: Values, rng: np.random.Generator) -> Values:
    """Return a valve's square root behind a dead time of 25 samples."""
    opening = np.sqrt(np.maximum(u, 0.0))
    return np.asarray(filtered([1.0, -0.92], [0.08], 25)(opening, rng))


def backlash(u: Values, rng: np.random.Generator) -> Values:
    """Return a second-order system behind a gear with play."""
    at, passed = 0.0, []
    for v in u[:, 0]:
        at = min(max(at, v - 0.2), v + 0.2)
        passed.append(at)
    inner = np.array(passed)[:, None]
    return np.asarray(filtered([1.0, -1.5, 0.6], [0.0, 0.1])(inner, rng))


def lamp(u: Values, rng: np.random.Generator) -> Values:
    """Return the temperature of a plate under a lamp: power is a square."""
    heat = np.maximum(u, 0.0) ** 2
    return np.asarray(filtered([1.0, -1.85, 0.853], [0.0, 0.003], 5)(heat, rng))


def arm(u: Values, rng: np.random.Generator) -> Values:
    """Return a lightly damped arm: two pairs of poles close to the circle."""
    a = np.real(np.poly([0.995 * np.exp(0.3j), 0.995 * np.exp(-0.3j)]).astype(complex))
    c = np.real(np.poly([0.99 * np.exp(0.9j), 0.99 * np.exp(-0.9j)]))
    return np.asarray(filtered(list(np.convolve(a, c)), [0.0, 0.1, -0.1])(u, rng))


def level_counter(u: Values, rng: np.random.Generator) -> Values:
    """Return a slow level, measured by a coarse counter."""
    y = filtered([1.0, -0.97], [0.03])(np.tanh(1.5 * u), rng)
    return np.asarray(np.round(y / 0.02) * 0.02)


def oscillator(u: Values, rng: np.random.Generator) -> Values:
    """Return an oscillator of van der Pol that nothing drives."""
    x, v, y = rng.uniform(0.5, 1.5), 0.0, []
    for _ in range(len(u)):
        y.append(x)
        for _ in range(5):
            v += 0.04 * (1.0 * (1.0 - x * x) * v - x)
            x += 0.04 * v
    return np.array(y)[:, None]


def wings(u: Values, rng: np.random.Generator) -> Values:
    """Return two lifts of two flaps, coupled and saturating."""
    x, y = np.zeros(4), []
    A = np.array([[1.6, -0.75, 0.05, 0], [1, 0, 0, 0], [0, 0, 1.2, -0.5], [0, 0, 1, 0]])
    for a, b in u:
        y.append([np.tanh(x[0]), x[2] + 0.3 * x[0] * x[2]])
        x = A @ x + np.array([0.15 * a, 0.0, 0.3 * b, 0.0])
    return np.array(y)


KINDS: dict[str, Kind] = {
    "dryer": Kind(held(5), dryer, 1000, 0.02),
    "bouc-wen": Kind(multisine(0.007, 0.2), bouc_wen, 4096, 0.001, 1 / 750),
    "positioning": Kind(held(25), positioning, 1500, 0.001),
    "ball and beam": Kind(held(15), ball_and_beam, 1000, 0.03),
    "neutralisation": Kind(held(40, 2, 0.2, 1.0), neutralisation, 2000, 0.02),
    "reactor": Kind(held(50, 1, -0.1, 0.1), reactor, 2000, 0.02),
    "boiler": Kind(held(30, 4), boiler, 3000, 0.02),
    "late valve": Kind(held(30, 1, 0.0, 1.0), late_valve, 1000, 0.02),
    "backlash": Kind(held(6), backlash, 1000, 0.01),
    "lamp": Kind(steps_and_ramps, lamp, 800, 0.01),
    "arm": Kind(multisine(0.01, 0.25), arm, 512, 0.02),
    "coarse counter": Kind(held(20), level_counter, 600, 0.0),
    "wings": Kind(held(4, 2), wings, 1000, 0.02),
    "short": Kind(held(6), backlash, 200, 0.01),
}


def records(kind: Kind, seed: int) -> tuple[sparsid.Record, sparsid.Record, Values]:
    """Return what to learn from, what to test on, and the deviation of the noise."""
    found = []
    for part in range(2):
        rng = np.random.default_rng([seed, part, 11])
        u = kind.drive(rng, kind.samples)
        clean = kind.respond(u, rng)
        sigma = kind.noise * clean.std(axis=0)
        y = clean + sigma * rng.normal(size=clean.shape)
        found.append(sparsid.Record(u, y, kind.dt))
    return found[0], found[1], sigma


def fitted(kind: Kind, seed: int, budget: float | None) -> Row:
    train, test, sigma = records(kind, seed)
    began = time.perf_counter()
    model = sparsid.identify(train, seed=seed, budget=budget)
    seconds = time.perf_counter() - began
    details = model.fitted_.details
    run = model.simulate(test)
    first = run.start
    scale = test.y.std(axis=0)
    error = np.sqrt(np.nanmean((run.mean - test.y)[first:] ** 2, axis=0))
    low, high = run.band(0.9)
    inside = ((low <= test.y) & (test.y <= high))[first:].mean()
    line = sparsid.Simulator("linear", seed=seed).fit(train).simulate(test)
    plain = np.sqrt(np.nanmean((line.mean - test.y)[line.start :] ** 2, axis=0))
    held_out = {c["name"]: c["held_out_error"] for c in details["candidates"]}
    return {
        "seed": seed,
        "seconds": round(seconds, 1),
        "chosen": details["chosen_candidate"],
        "error": float(np.mean(error / scale)),
        "linear": float(np.mean(plain / scale)),
        "noise": float(np.mean(sigma / scale)),
        "held_out": held_out[details["chosen_candidate"]],
        "inside_90": float(inside),
        "width_over_error": float(np.nanmean((high - low)[first:] / (3.3 * error))),
        "kept": model.fitted_.kept_text(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=list(KINDS), choices=list(KINDS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--budget", type=float)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    found: dict[str, list[Row]] = {}
    for name in options.only:
        found[name] = []
        for seed in range(options.seeds):
            row = fitted(KINDS[name], seed, options.budget)
            found[name].append(row)
            print(name, json.dumps(row), flush=True)
            if options.out:
                options.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
