"""A first model: simulated water tanks, identified, judged, saved and drawn.

Run it with ``python examples/first_model.py [folder for the results]``.
"""

import sys
from pathlib import Path

import sparsid
from sparsid import plots
from sparsid.datasets import simulated_tanks


def main(folder: Path) -> None:
    # A pump fills the upper of two tanks; the level of the lower one is measured.
    # The test record stays closed until the model is finished.
    benchmark = simulated_tanks.simulate(samples=400).benchmark
    train = benchmark.estimation

    # Two layers of 100 neurons are the default; one small layer is quick.
    model = sparsid.NARX(lags=3, hidden=(20,), seed=0).fit(train)
    print(model.summary())

    # One step ahead from measured outputs, and a free run from the first ones.
    test = benchmark.reveal_test()
    forecast, free_run = model.predict(test), model.simulate(test)
    print(f"\none-step error {sparsid.rmse(test, forecast)[0]:.4f} V")
    print(f"free-run error {sparsid.rmse(test, free_run)[0]:.4f} V")

    # One file holds everything the model needs.
    model.save(folder / "tanks.sparsid")
    same = sparsid.load(folder / "tanks.sparsid")
    assert (same.predict(test).mean[3:] == forecast.mean[3:]).all()

    plots.simulation(test, free_run).figure.savefig(folder / "free_run.png")
    plots.history(model).figure.savefig(folder / "history.png")
    print(f"written to {folder}: tanks.sparsid, free_run.png, history.png")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
