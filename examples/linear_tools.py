"""A tank near two levels: one fitted model, two linear ones, Bode and step.

Run it with ``python examples/linear_tools.py [folder for the results]``. It needs
python-control: ``pip install "sparsid[control]"``.
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import sparsid
from sparsid import plots

DT = 2.0


def recorded(samples: int = 400) -> sparsid.Record:
    """Return a record of a tank whose outflow grows with the root of the level.

    At rest the level is the square of the inflow, so the gain is twice the inflow.
    """
    rng = np.random.default_rng(1)
    times = rng.integers(5, 30, samples)
    pump = np.repeat(rng.uniform(0.2, 1.5, samples), times)[:samples]
    level, x = np.zeros(samples), 0.8
    for t in range(samples):
        level[t] = x
        x += 0.15 * (pump[t] - np.sqrt(x))
    level += 0.01 * rng.normal(size=samples)
    names = {"input_names": "pump", "output_names": "level"}
    return sparsid.Record(pump, level, DT, **names, output_units="m")


def main(folder: Path) -> None:
    model = sparsid.Simulator("cascade", states=1, neurons=3).fit(recorded())
    print(model.summary())

    low, high = model.linearise(at=[0.5]), model.linearise(at=[1.2])
    for pump, linear in ((0.5, low), (1.2, high)):
        # What the equation of the tank gives.
        gain, pole = 2.0 * pump, 1.0 - 0.15 / (2.0 * pump)
        tau = -DT / np.log(pole)
        print(f"\n{linear}\ntruth       gain {gain:.2f} m, time constant {tau:.1f} s")
    both = {"pump 0.5": low, "pump 1.2": high}
    picture(model, both).savefig(folder / "linear_tools.png")

    # For controller design elsewhere: dead times are in the states.
    system = high.to_control()
    print(f"\npython-control: {system.nstates} states, gain {system.dcgain():.3f} m")
    print(f"written to {folder}: linear_tools.png")


def picture(
    model: sparsid.Simulator, models: dict[str, sparsid.Linearisation]
) -> Figure:
    """Return Bode, step, poles and the static curve side by side."""
    figure = Figure(figsize=(11.0, 7.5), dpi=110, layout="constrained")
    left, right = figure.subfigures(1, 2)
    upper, middle, lower = left.subplots(3, 1, height_ratios=[1, 1, 1.2])
    plots.bode(models, axes=(upper, middle))
    plots.step_response(models, lower)
    first, second = right.subplots(2, 1, height_ratios=[1.4, 1])
    plots.poles(models, first)
    plots.static_gain(model.static_gain(), second)
    return figure


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
