"""Your own recordings: two CSV files, a model from both, a forecast for a third.

Run it with ``python examples/own_csv.py [folder for the files]``. The files it makes
stand for yours: a header with units, a time column, a gap.
"""

import sys
from pathlib import Path

import numpy as np

import sparsid


def record_plant(path: Path, seed: int, gap: bool = False) -> None:
    """Write a recording of a heater with a lag and a saturating valve."""
    rng = np.random.default_rng(seed)
    valve = np.repeat(rng.uniform(0.0, 1.0, 30), 10)
    heat = np.zeros(len(valve))
    for t in range(1, len(valve)):
        heat[t] = 0.9 * heat[t - 1] + np.tanh(3.0 * valve[t - 1])
    heat += 0.02 * rng.normal(size=len(heat))
    rows = [f"{0.5 * t},{valve[t]},{20.0 + heat[t]}" for t in range(len(valve))]
    if gap:
        # Rows that are missing: the time column tells, and no regressor crosses.
        del rows[100:110]
    path.write_text("\n".join(["time [s],valve,heat [°C]", *rows]), encoding="utf-8")


def main(folder: Path) -> None:
    for seed, name in enumerate(("monday", "tuesday", "friday")):
        record_plant(folder / f"{name}.csv", seed, gap=name == "tuesday")

    # Columns by name; units and sampling time come from the file.
    monday, tuesday, friday = (
        sparsid.read_csv(folder / f"{name}.csv", "valve", "heat")
        for name in ("monday", "tuesday", "friday")
    )
    print(monday, "gaps on tuesday:", tuesday.gaps)

    # Several records make one model. Friday is for the test, nothing else.
    model = sparsid.NARX(lags=2, hidden=(10,), seed=0).fit([monday, tuesday])
    print(model.summary())

    free_run = model.simulate(friday)
    print(f"\nfriday, free run: fit {sparsid.fit_percent(friday, free_run)[0]:.1f} %")
    ahead = model.predict(friday, horizon=5)
    inside = np.abs(friday.y - ahead.mean) <= 1.96 * ahead.std
    print(f"friday, 5 steps ahead: {100 * inside[ahead.start :].mean():.0f} % in band")

    # The same on the command line:
    #   sparsid identify monday.csv tuesday.csv --input valve --output heat
    #   sparsid simulate sparsid-results/model.sparsid friday.csv


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
