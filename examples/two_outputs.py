"""Several inputs and outputs: a mixing tank with a level and a temperature.

Run it with ``python examples/two_outputs.py [folder for the results]``.
"""

import sys
from pathlib import Path

import numpy as np

import sparsid


def recorded(seed: int, samples: int = 300) -> sparsid.Record:
    """Return a recording of a tank into which hot and cold water flow."""
    rng = np.random.default_rng(seed)
    hot, cold = (np.repeat(rng.uniform(0.2, 1.0, samples // 10), 10) for _ in "ab")
    level, heat = np.ones(samples), np.full(samples, 30.0)
    for t in range(1, samples):
        flow = 0.1 * (hot[t - 1] + cold[t - 1])
        level[t] = level[t - 1] + flow - 0.12 * np.sqrt(level[t - 1])
        mixed = 0.1 * hot[t - 1] * (60.0 - heat[t - 1])
        mixed += 0.1 * cold[t - 1] * (10.0 - heat[t - 1])
        heat[t] = heat[t - 1] + mixed / level[t - 1]
    y = np.stack([level, heat], axis=1)
    return sparsid.Record(
        np.stack([hot, cold], axis=1),
        y + [0.01, 0.2] * rng.normal(size=y.shape),
        dt=2.0,
        input_names=["hot", "cold"],
        output_names=["level", "temperature"],
        output_units=["m", "°C"],
    )


def main(folder: Path) -> None:
    train, test = recorded(0), recorded(1)

    # A structure of our choice is quicker than the search; identify() would choose.
    model = sparsid.Simulator("linear first", states=2, neurons=2).fit(train)
    print(model.summary())

    # One error and one band for each output, each in its own unit.
    run = model.simulate(test)
    fits = sparsid.fit_percent(test, run)
    for name, fit in zip(test.output_names, fits, strict=True):
        print(f"free run of {name}: fit {fit:.1f} %")
    run.to_frame(test).to_csv(folder / "mixing.csv", index=False)
    print(f"written to {folder}: mixing.csv")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
