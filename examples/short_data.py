"""Short data: sixty samples, and what the bands say about them.

Run it with ``python examples/short_data.py [folder for the results]``.
"""

import sys
from pathlib import Path

import numpy as np

import sparsid


def recorded(seed: int, samples: int) -> sparsid.Record:
    """Return a recording of an oven."""
    rng = np.random.default_rng(seed)
    power = np.repeat(rng.uniform(0.0, 1.0, samples // 5 + 1), 5)[:samples]
    heat = np.zeros(samples)
    for t in range(1, samples):
        heat[t] = 0.9 * heat[t - 1] + 5.0 * power[t - 1]
    heat += 20.0 + 0.5 * rng.normal(size=samples)
    return sparsid.Record(
        power, heat, 10.0, input_names="power", output_names="heat", output_units="°C"
    )


def main(folder: Path) -> None:
    # Thirty samples are the least. Neurons hardly pay on so few; a linear model is
    # honest, and held-out blocks set the width of its bands.
    train, test = recorded(0, 60), recorded(1, 200)
    model = sparsid.Simulator("linear").fit(train)
    print(model.summary())

    run = model.simulate(test)
    low, high = run.band(0.9)
    inside = ((low < test.y) & (test.y < high))[run.start :].mean()
    print(f"fit {sparsid.fit_percent(test, run)[0]:.1f} %")
    print(f"{100 * inside:.0f} % of new samples are in the 90 % band")
    run.plot(test).figure.savefig(folder / "oven.png")
    print(f"written to {folder}: oven.png")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
