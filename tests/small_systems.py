"""Small systems whose truth is known, and settings small enough for them."""

import numpy as np

from sparsid.data.record import Record

# One size of problem throughout: compilation is most of the time.
SAMPLES = 202
SMALL_NETWORK = {"lags": 2, "hidden": (5,)}
SMALL_STATES = {
    "states": 2,
    "hidden": (3,),
    "starts": 2,
    "max_cycles": 30,
    "start_samples": 8,
}


def sparse_system(seed: int) -> Record:
    """y(t) = 0.6 y(t-1) + 0.5 tanh(2 u(t-2)) + noise: two of five regressors."""
    rng = np.random.default_rng(seed)
    u, y = rng.normal(size=SAMPLES), np.zeros(SAMPLES)
    for t in range(2, SAMPLES):
        y[t] = 0.6 * y[t - 1] + 0.5 * np.tanh(2 * u[t - 2]) + 0.05 * rng.normal()
    return Record(u, y)


def tank(seed=0, samples=240, noise=0.01, top=np.inf):
    """A level with a root outflow, driven by steps, measured with noise."""
    rng = np.random.default_rng(seed)
    u = np.repeat(rng.uniform(0.2, 1.5, samples // 12 + 1), 12)[:samples]
    x, y = 0.8, []
    for volts in u:
        y.append(x)
        x = min(x + 0.15 * (volts - np.sqrt(x)), top)
    y = np.array(y)
    y = np.minimum(y + noise * rng.normal(size=samples), top)
    return Record(u, y, 2.0, input_names="pump", output_names="level", output_units="m")
