"""Several records of one plant, one of them with a gap, make one model.

Run it with ``python examples/several_records.py [folder for the results]``.
"""

import sys
from pathlib import Path

import numpy as np

import sparsid


def recorded(seed: int, samples: int = 200) -> sparsid.Record:
    """Return a recording of a motor that drives a fan."""
    rng = np.random.default_rng(seed)
    voltage = np.repeat(rng.uniform(2.0, 10.0, samples // 20), 20)
    speed = np.zeros(samples)
    for t in range(1, samples):
        drag = 0.004 * speed[t - 1] * abs(speed[t - 1])
        speed[t] = speed[t - 1] + 0.3 * voltage[t - 1] - drag
    speed += 0.1 * rng.normal(size=samples)
    return sparsid.Record(
        voltage, speed, 0.1, input_names="voltage", output_names="speed", name=str(seed)
    )


def main(folder: Path) -> None:
    records = [recorded(seed) for seed in range(4)]

    # A sensor that failed for a while: NaN marks a gap, no value is made up.
    y = records[1].y.copy()
    y[80:95] = np.nan
    names = {"input_names": "voltage", "output_names": "speed"}
    records[1] = sparsid.Record(records[1].u, y, 0.1, name="1", **names)
    print("gap:", records[1].gaps)

    # The last one is for the test. The linear structure only, to be quick.
    *train, test = records
    model = sparsid.Simulator("linear").fit(train)
    print(model.summary())

    # A list of records gives a list of runs.
    for record, run in zip(records, model.simulate(records), strict=True):
        print(f"record {record.name}: {sparsid.fit_percent(record, run)[0]:.1f} %")
    model.simulate(test).plot(test).figure.savefig(folder / "motor.png")
    print(f"written to {folder}: motor.png")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
