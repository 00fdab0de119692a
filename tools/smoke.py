"""A first walk through the whole program: ``python tools/smoke.py``.

Each kind of model is identified by the command from a small file; the model is loaded,
predicts, simulates and is reported on. For environments that are not developed in: the
lowest versions that are declared, the newest Python.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from importlib.metadata import requires, version
from pathlib import Path

import numpy as np
import scipy.io

import sparsid

KINDS = {
    "auto": ["--structure", "linear"],
    "linear-first": ["--structure", "linear first", "--states", "2", "--budget", "4s"],
    "narx": ["--model", "narx", "--hidden", "4", "--lags", "2", "--starts", "2"],
    "simulation": ["--hidden", "3", "--lags", "1", "--objective", "simulation"],
    "state-space": ["--model", "state-space", "--starts", "2", "--max-cycles", "5"],
}


def signals(samples: int = 200) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs and outputs of a system of first order with a soft limit."""
    rng = np.random.default_rng(1)
    u, y = rng.normal(size=samples).round(3), np.zeros(samples)
    for t in range(1, samples):
        y[t] = 0.8 * y[t - 1] + 0.5 * np.tanh(u[t - 1])
    return u, y + 0.01 * rng.normal(size=samples)


def write_files(folder: Path) -> list[Path]:
    """Write the signals in every format that is read; return the files."""
    u, y = signals()
    table = np.column_stack([0.5 * np.arange(len(u)), u, y])
    paths = [folder / f"data{suffix}" for suffix in (".csv", ".npz", ".mat")]
    np.savetxt(paths[0], table, delimiter=",", header="time,u,y", comments="")
    np.savez(paths[1], u=u, y=y, time=table[:, 0])
    scipy.io.savemat(paths[2], {"u": u, "y": y, "time": table[:, 0]})
    return paths


def run(*arguments: object) -> str:
    """Run the command and return what it printed; end if it failed."""
    call = [sys.executable, "-W", "error::DeprecationWarning:sparsid", "-m", "sparsid"]
    done = subprocess.run(
        [*call, *map(str, arguments)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{arguments}: exit {done.returncode}\n{done.stderr}")
    return done.stdout


def main() -> None:
    """Do everything once."""
    versions = {"python": sys.version.split()[0]}
    for line in requires("sparsid") or ():
        name = line.split(">")[0].split(";")[0]
        if "extra" not in line:
            versions[name] = version(name)
    print(", ".join(f"{name} {number}" for name, number in versions.items()))
    with tempfile.TemporaryDirectory() as room:
        folder = Path(room)
        files = write_files(folder)
        for k, (name, options) in enumerate(KINDS.items()):
            data, out = files[k % len(files)], folder / name
            columns = ["--input", "u", "--output", "y"]
            run("identify", data, *columns, *options, "--out", out)
            model = out / "model.sparsid"
            run("simulate", model, data, "--out", out / "simulated.csv")
            run("predict", model, data, "--out", out / "ahead.csv", "--horizon", "3")
            run("info", model)
            u, y = signals()
            score = sparsid.load(model).score(sparsid.Record(u, y, 0.5))
            if not score > 0.3:
                raise SystemExit(f"{name}: a free run of fit {score:.2f}")
            print(f"{name}: fit {score:.3f}", flush=True)
    print("done")


if __name__ == "__main__":
    main()
