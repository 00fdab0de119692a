"""Reading a large CSV file, against pandas: seconds of both, and their ratio.

Run with ``python benchmarks/read_csv.py``; the target is a ratio below 2.
"""

import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

import sparsid

ROWS, REPEATS = 300_000, 5


def seconds(read) -> float:
    times = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        read()
        times.append(time.perf_counter() - began)
    return min(times)


def main() -> None:
    rng = np.random.default_rng(0)
    columns = {"time": 0.1 * np.arange(ROWS)}
    columns |= {name: rng.normal(size=ROWS).round(6) for name in ("valve", "level")}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "long.csv"
        pd.DataFrame(columns).round(6).to_csv(path, index=False)
        plain = seconds(lambda: pd.read_csv(path))
        ours = seconds(lambda: sparsid.read_csv(path, "valve", "level"))
    print(f"pandas {plain:.3f} s, sparsid {ours:.3f} s, ratio {ours / plain:.2f}")


if __name__ == "__main__":
    main()
