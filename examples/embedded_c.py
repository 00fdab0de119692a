"""From data to C: a small model of simulated tanks, its step compiled and run.

Run it with ``python examples/embedded_c.py [folder]``. It needs a C compiler, gcc.
"""

import subprocess
import sys
from pathlib import Path

import sparsid
from sparsid.datasets import simulated_tanks


def main(folder: Path) -> None:
    train = simulated_tanks.simulate(samples=300).benchmark.estimation
    model = sparsid.NARX(lags=2, hidden=(5,), seed=0).fit(train)
    print(model.summary())

    # Single precision, for a controller without doubles; names begin with tank_.
    controller = model.export(
        "c", folder / "controller", name="tank", precision="float"
    )
    print((controller / "tank.h").read_text())

    # The check that comes with it, here with the compiler of this computer.
    build = ["gcc", "-std=c99", "-O2", "check.c", "tank.c", "-lm", "-o", "check"]
    subprocess.run(build, cwd=controller, check=True)
    command = ["./check", "test_vectors.csv"]
    done = subprocess.run(
        command, cwd=controller, check=True, capture_output=True, text=True
    )
    print(done.stdout.strip())

    # The same step in Python, sample by sample.
    stepper = model.stepper()
    for u, y in zip(train.u[:10], train.y[:10], strict=True):
        expected = stepper.update(u, y)
    print(f"expected {expected[0]:.3f} V, measured {y[0]:.3f} V")

    # The same on the command line:
    #   sparsid export model.sparsid --to c --name tank --precision float


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
