"""Public benchmarks from a local copy, with their official parts and start windows.

The folder named by the environment variable SPARSID_DATA holds the files, in it or in
the folders below. Every file is checked by its number of rows.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sparsid.data.record import Record
from sparsid.datasets.benchmark import Benchmark
from sparsid.errors import DatasetUnavailable, FileFormatError


@dataclass(frozen=True)
class Source:
    """A file, which columns and samples of it are used, and how.

    Attributes
    ----------
    columns
        Input and output: names in the header, or numbers.
    units
        Of input, output; empty if unknown.
    estimation
        First sample, and the one after the last.
    tests
        The same by name; the first is the benchmark's test record.
    window
        First outputs of a test record that may start the run and are not scored.
    """

    title: str
    file: str
    rows: int
    columns: tuple[str | int, str | int]
    dt: float
    names: tuple[str, str]
    units: tuple[str, str]
    estimation: tuple[int, int]
    tests: dict[str, tuple[int, int]]
    window: int


def _drives(number: int) -> Source:
    return Source(
        f"Coupled Electric Drives, record {number}",
        "nonlinear_benchmarks/DATAUNIF.csv",
        500,
        (f"u1{number}", f"z1{number}"),
        0.02,
        ("voltage", "speed"),
        ("V", "ticks/s"),
        (0, 400),
        {"test": (400, 500)},
        10,
    )


SOURCES = {
    "silverbox": Source(
        "Silverbox",
        "nonlinear_benchmarks/SNLS80mV.csv",
        131_072,
        ("V1", "V2"),
        1.0 / 610.35,
        ("input", "output"),
        ("V", "V"),
        (40_650, 105_712),
        {
            "multisine": (105_712, 127_400),
            "arrow": (100, 40_575),
            "arrow without extrapolation": (100, 32_100),
        },
        50,
    ),
    "wiener-hammerstein": Source(
        "Wiener-Hammerstein",
        "nonlinear_benchmarks/WienerHammerBenchmark.csv",
        188_000,
        ("uBenchMark", "yBenchMark"),
        1.0 / 51_200.0,
        ("input", "output"),
        ("V", "V"),
        (5_200, 105_200),
        {"test": (105_200, 184_000)},
        50,
    ),
    "coupled-drives-1": _drives(1),
    "coupled-drives-2": _drives(2),
    "heat-exchanger": Source(
        "Heat exchanger",
        "daisy/exchanger.dat",
        4_000,
        (1, 2),
        1.0,
        ("flow", "temperature"),
        ("", ""),
        (0, 3_000),
        {"test": (3_000, 4_000)},
        50,
    ),
    "robot-arm": Source(
        "Flexible robot arm",
        "daisy/robot_arm.dat",
        1_024,
        (0, 1),
        1.0,
        ("torque", "acceleration"),
        ("", ""),
        (0, 512),
        {"test": (512, 1_024)},
        50,
    ),
}


def load(name: str) -> Benchmark:
    """Return a benchmark from the local copy."""
    source = SOURCES[name]
    u, y = _signals(source)
    first = next(iter(source.tests))
    return Benchmark(
        name,
        source.title,
        _record(source, u, y, "estimation", source.estimation),
        "local copy",
        _record(source, u, y, first, source.tests[first]),
        window=source.window,
    )


def all_tests(name: str) -> dict[str, Record]:
    """Return every test record of a benchmark, for final scores alone."""
    source = SOURCES[name]
    u, y = _signals(source)
    parts = source.tests.items()
    return {part: _record(source, u, y, part, ends) for part, ends in parts}


def _record(
    source: Source,
    u: NDArray[np.float64],
    y: NDArray[np.float64],
    part: str,
    ends: tuple[int, int],
) -> Record:
    inside = slice(*ends)
    return Record(
        u[inside],
        y[inside],
        source.dt,
        input_names=source.names[0],
        output_names=source.names[1],
        input_units=source.units[0],
        output_units=source.units[1],
        name=f"{source.title}, {part}",
    )


def _signals(source: Source) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return input and output of the whole file."""
    path = _local_copy(source)
    if isinstance(source.columns[0], str):
        with path.open() as file:
            header = [cell.strip().strip('"') for cell in file.readline().split(",")]
        if not set(source.columns) <= set(header):
            raise FileFormatError(
                f"{path} has the columns {', '.join(header)} but "
                f"{' and '.join(map(str, source.columns))} are needed: use the "
                "original file"
            )
        columns = [header.index(str(name)) for name in source.columns]
        table = np.loadtxt(path, delimiter=",", skiprows=1, usecols=columns)
    else:
        table = np.loadtxt(path, usecols=[int(c) for c in source.columns])
    if len(table) != source.rows:
        raise FileFormatError(
            f"{path} has {len(table)} rows but {source.rows} were expected: use the "
            "original file"
        )
    return table[:, 0], table[:, 1]


def _local_copy(source: Source) -> Path:
    folder = os.environ.get("SPARSID_DATA")
    if folder:
        for path in (Path(folder, source.file), Path(folder, Path(source.file).name)):
            if path.is_file():
                return path
    where = f"not in {folder}" if folder else "SPARSID_DATA is not set"
    raise DatasetUnavailable(
        f"The {source.title} data are not to be had ({where}): set SPARSID_DATA to a "
        f"folder with {source.file}."
    )
