"""Two simulated water tanks that resemble the benchmark, with the truth at hand."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from sparsid.data.record import Record
from sparsid.datasets.benchmark import Benchmark
from sparsid.errors import InputError
from sparsid.validation.scores import rmse

# Seconds between Euler steps: the tanks need a minute or two to settle.
EULER_STEP = 0.5
# The multisine of the recorded estimation input: all lines up to the first
# frequency (Hz) are equal, those up to the second are ten times weaker.
BAND, WEAK_BAND = 19 / 4096, 59 / 4096
WEAK_SHARE = 0.1
# Mean and deviation of the recorded estimation input, in volts.
PUMP_MEAN, PUMP_STD = 2.8, 1.0
# The recorded input has peaks much higher (3.7 deviations) than its troughs are deep
# (2.4). Of this many random phases the most lopsided are taken: water runs over.
PHASE_DRAWS = 50


@dataclass(frozen=True)
class Physics:
    """The constants of two tanks, levels in volts of the sensor.

        dx1/dt = -k1 sqrt(x1) + k4 u + w1
        dx2/dt =  k2 sqrt(x1) - k3 sqrt(x2) + overflow + w2
        y      =  min(x2 + e, sensor_limit)

    Attributes
    ----------
    k1, k2, k3, k4
        Flow constants of the paper's equation: out of tank 1, into tank 2, out of
        tank 2, pump.
    rim1, rim2
        Levels at which the tanks run over.
    overflow_share
        Share of the water over the rim of tank 1 that falls into tank 2; the rest,
        and all water over the rim of tank 2, is lost.
    sensor_limit
        Largest level that the sensor shows.
    """

    k1: float = 0.053
    k2: float = 0.040
    k3: float = 0.037
    k4: float = 0.041
    rim1: float = 8.5
    rim2: float = 10.4
    overflow_share: float = 0.95
    sensor_limit: float = 10.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not 0 < value < math.inf and not (
                name == "overflow_share" and not value
            ):
                raise InputError(f"{name} is {value!r} but must be positive.")
        if self.overflow_share > 1:
            raise InputError(
                f"overflow_share is {self.overflow_share!r} but must be at most 1."
            )

    @classmethod
    def random(cls, seed: int) -> "Physics":
        """Return plausible constants, drawn by way of levels and settling times.

        Parameters
        ----------
        seed
            The same seed gives the same constants.
        """
        draw = np.random.default_rng([seed, 1]).uniform
        level1, level2 = draw(4.0, 5.5), draw(4.7, 6.2)
        settling1, settling2 = draw(60, 120), draw(90, 160)
        # At rest at the mean input both flows balance; linearised there, a tank
        # settles with the time constant 2 sqrt(level) / k.
        k1, k3 = 2 * math.sqrt(level1) / settling1, 2 * math.sqrt(level2) / settling2
        return cls(
            k1=k1,
            k2=k3 * math.sqrt(level2 / level1),
            k3=k3,
            k4=k1 * math.sqrt(level1) / PUMP_MEAN,
            rim1=level1 * draw(1.6, 1.9),
            rim2=draw(10.1, 10.8),
            overflow_share=draw(0.6, 1.0),
        )

    def rest(self, u: float = PUMP_MEAN) -> tuple[float, float]:
        """Return both levels at rest under a constant input, below the rims."""
        x1 = min((self.k4 * u / self.k1) ** 2, self.rim1)
        return x1, min((self.k2 / self.k3) ** 2 * x1, self.rim2)


@dataclass(frozen=True, eq=False)
class SimulatedTanks:
    """A simulated benchmark together with the system that produced it.

    Attributes
    ----------
    benchmark
        Estimation and test record; both start from the same state.
    physics
        The true constants.
    initial_state
        Levels of both tanks at the first sample.
    """

    benchmark: Benchmark
    physics: Physics
    initial_state: tuple[float, float]

    def true_response(
        self, u: Any, *, state: tuple[float, float] | None = None
    ) -> Float[np.ndarray, "time 1"]:
        """Return the output of the true system without any noise.

        Parameters
        ----------
        u
            Input, 1-D or (time, 1).
        state
            Levels at the first sample; by default those of the records.
        """
        inputs = np.asarray(u, dtype=np.float64).reshape(-1)
        nothing = np.zeros((len(inputs), 2))
        start = self.initial_state if state is None else state
        dt = self.benchmark.estimation.dt
        levels = _levels(self.physics, inputs, dt, start, nothing)
        response: np.ndarray = np.minimum(levels, self.physics.sensor_limit)
        return response[:, None]

    @property
    def truth_rmse(self) -> float:
        """Error of the true system, run without noise, on the test record.

        No model can be expected to do better under protocol A.
        """
        test = self.benchmark.reveal_test()
        return float(rmse(test, self.true_response(test.u))[0])


def simulate(
    seed: int = 0,
    samples: int = 1024,
    dt: float = 4.0,
    physics: Physics | None = None,
    process_noise: float = 0.018,
    measurement_noise: float = 0.02,
) -> SimulatedTanks:
    """Return a benchmark recorded from simulated tanks.

    Parameters
    ----------
    seed
        The same seed gives the same records.
    samples
        Length of each of the two records.
    dt
        Sampling time in seconds.
    physics
        Constants of the tanks; by default ones that resemble the recorded benchmark.
    process_noise
        Deviation (V) of the random change of each level in one second.
    measurement_noise
        Deviation (V) of the noise of the sensor.
    """
    if samples < 2 or dt <= 0:
        raise InputError(
            f"samples is {samples} and dt is {dt}, but two samples and a positive dt "
            "are the least."
        )
    if process_noise < 0 or measurement_noise < 0:
        raise InputError(
            f"process_noise is {process_noise} and measurement_noise is "
            f"{measurement_noise}, but neither can be negative."
        )
    physics = Physics() if physics is None else physics
    rng = np.random.default_rng(seed)
    start = physics.rest()
    records = []
    for part in ("estimation", "test"):
        u = _multisine(rng, samples, dt)
        noise = process_noise * math.sqrt(dt) * rng.standard_normal((samples, 2))
        levels = _levels(physics, u, dt, start, noise)
        sensed = levels + measurement_noise * rng.standard_normal(samples)
        records.append(
            Record(
                u,
                np.minimum(sensed, physics.sensor_limit),
                dt,
                input_names="voltage",
                output_names="level",
                input_units="V",
                output_units="V",
                name=f"simulated tanks, seed {seed}, {part}",
            )
        )
    title = f"Simulated Tanks (seed {seed})"
    return SimulatedTanks(
        Benchmark("simulated-tanks", title, records[0], "simulated", records[1]),
        physics,
        start,
    )


def _multisine(rng: np.random.Generator, samples: int, dt: float) -> Any:
    """Return an input with the spectrum of the recorded one and random phases."""
    frequency = np.fft.rfftfreq(samples, dt)
    amplitude = np.where(frequency <= BAND, 1.0, WEAK_SHARE)
    amplitude[frequency > WEAK_BAND] = 0.0
    # A short record has no line inside the band: keep the slowest one.
    amplitude[:2] = 0.0, 1.0
    waves = (
        np.fft.irfft(
            amplitude * np.exp(2j * np.pi * rng.random(len(frequency))), samples
        )
        for _ in range(PHASE_DRAWS)
    )
    wave = max(waves, key=lambda wave: wave.max() + wave.min())
    # A pump does not run backwards.
    return np.maximum(PUMP_MEAN + PUMP_STD * wave / wave.std(), 0.0)


def _levels(
    physics: Physics, u: Any, dt: float, start: tuple[float, float], noise: Any
) -> Any:
    """Return the level of tank 2 at each sample, by fine Euler steps.

    Plain floats: on steps this small they are faster than arrays.
    """
    k1, k2, k3, k4 = physics.k1, physics.k2, physics.k3, physics.k4
    # Water over the rim of tank 1 counts in its own volts, like its outflow.
    spill = physics.overflow_share * k2 / k1
    steps = max(1, math.ceil(dt / EULER_STEP))
    h = dt / steps
    x1, x2 = start
    levels = []
    for volts, (w1, w2) in zip(u.tolist(), noise.tolist(), strict=True):
        levels.append(x2)
        for _ in range(steps):
            root = math.sqrt(x1)
            x1 += h * (k4 * volts - k1 * root) + w1 / steps
            x2 += h * (k2 * root - k3 * math.sqrt(x2)) + w2 / steps
            if x1 > physics.rim1:
                x2 += spill * (x1 - physics.rim1)
                x1 = physics.rim1
            x1, x2 = max(x1, 0.0), min(max(x2, 0.0), physics.rim2)
    return np.array(levels)
