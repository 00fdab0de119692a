"""Which records a model is estimated from, and which are held back to judge it."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sparsid import datasets
from sparsid.cli.shaping import OPTIONS, Shape, Steps
from sparsid.data.files import read_records
from sparsid.data.record import Record, check_compatible
from sparsid.data.scaling import Scaling
from sparsid.data.shaping import replay
from sparsid.datasets import Benchmark
from sparsid.errors import InputError

DEFAULT_TEST_FRACTION = 0.25
Trend = dict[str, list[float]]
logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Data:
    """Estimation records, and test records that only the finished model meets.

    Attributes
    ----------
    title, source
        What the data are, and where they come from.
    estimation
        What the model learns from.
    test_rule
        How the test part was chosen, in words.
    benchmark
        The benchmark that holds its own test record, if there is one.
    by_name
        Whether that was asked for by its name.
    """

    title: str
    source: str
    estimation: list[Record]
    test_rule: str
    benchmark: Benchmark | None = None
    by_name: bool = False
    _held_back: list[Record] = field(default_factory=list)

    def reveal_test(self) -> list[Record]:
        """Return the test records; to be called when the model is finished."""
        if self.benchmark is not None:
            return [self.benchmark.reveal_test()]
        return self._held_back

    def facts(self) -> dict[str, Any]:
        """Return what a report should say about the data."""
        return {
            "title": self.title,
            "source": self.source,
            "test": self.test_rule,
            "estimation_samples": [len(record) for record in self.estimation],
            "test_samples": [len(record) for record in self.reveal_test()],
            "shaped": [list(record.notes) for record in self.estimation],
        }


def load_data(
    files: Sequence[Path],
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    *,
    test_fraction: float | None = None,
    benchmark: str | None = None,
    shape: Shape | None = None,
    **table: Any,
) -> Data:
    """Return the records of the files, of a named benchmark, or of the default one.

    Parameters
    ----------
    files
        One record each, or several where the time makes a long jump.
    inputs, outputs
        As for `sparsid.read`.
    test_fraction
        Last part of each record that is held back; None is the default of 0.25.
    benchmark
        Name of a data set, in place of files.
    shape
        What is to be done to the data before they are used.
    **table
        Time, dt, separator and decimal, as for `sparsid.read`.
    """
    shape = shape or Shape()
    if not files:
        given = (inputs, outputs, test_fraction, shape or None, *table.values())
        return _without_files(given, benchmark)
    if benchmark is not None:
        raise InputError("files and --benchmark were given: leave one of them out")
    fraction = DEFAULT_TEST_FRACTION if test_fraction is None else test_fraction
    if not 0.0 <= fraction < 1.0 or math.isnan(fraction):
        raise InputError(
            f"--test-fraction {fraction:g}: give a share from 0 (no test) to below 1"
        )
    pieces = [
        _shaped_pieces(
            read_records(path, inputs, outputs, uneven=shape.resample, **table), shape
        )
        for path in files
    ]
    if fraction > 0.0:
        pieces = [_divisible(found, fraction) for found in pieces]
    records = [record for found in pieces for record in found]
    check_compatible(records)
    title = ", ".join(path.stem for path in files)
    source = ", ".join(str(path) for path in files)
    if fraction == 0.0:
        records, _ = _finished(records, [], shape)
        tell_steps(records)
        return Data(title, source, records, "none")
    parts = [record.split(fraction) for record in records]
    first, last = _finished([a for a, _ in parts], [b for _, b in parts], shape)
    tell_steps(first)
    _check_moving(first, fraction)
    return Data(
        title,
        source,
        first,
        f"last {100 * fraction:g} % of each record",
        _held_back=last,
    )


def _without_files(given: tuple[Any, ...], benchmark: str | None) -> Data:
    """Return a benchmark; refuse what is said about files."""
    if any(value is not None for value in given):
        raise InputError(
            "columns, a sampling time, a test fraction or options that shape data "
            "were given but no file: "
            "name the files, or leave these options out to identify the benchmark"
        )
    if benchmark is not None:
        return benchmark_data(datasets.load(benchmark), by_name=True)
    return benchmark_data(datasets.default())


def shaped(record: Record, steps: Steps) -> Record:
    """Return a record after steps; what is refused is told by the option."""
    for name, arguments in steps:
        if name == "resample" and math.isclose(record.dt, arguments["dt"]):
            # Uneven steps became these already.
            continue
        try:
            record = replay(record, [(name, arguments)])
        except InputError as error:
            raise InputError(f"{OPTIONS[name]}: {error}") from error
    return record


def tell_steps(records: Sequence[Record]) -> None:
    """Say what was done to the records, once if it was the same for all."""
    for note in dict.fromkeys(note for record in records for note in record.notes):
        logger.info("%s", note)


def _shaped_pieces(pieces: list[Record], shape: Shape) -> list[Record]:
    """Return the pieces of a file after the steps that need no test part to be known.

    A piece may lie outside the times that were asked for, but not all of them.
    """
    found = []
    for number, piece in enumerate(pieces, 1):
        try:
            found.append(shaped(piece, shape.before()))
        except InputError:
            if shape.cut is None or (number == len(pieces) and not found):
                raise
    return found


def _finished(
    first: list[Record], last: list[Record], shape: Shape
) -> tuple[list[Record], list[Record]]:
    """Return both parts of all records without trend, and filtered.

    What is taken away is found in the first parts alone: a mean over all of them, or a
    straight line in each.
    """
    if shape.detrend is not None:
        lines = [shaped(r, [("detrend", shape.trend())]).history[-1] for r in first]
        trends = [line.arguments["trend"] for line in lines]
        if shape.detrend == "constant":
            trends = [_mean_trend(first, trends[0])] * len(first)
        kind = shape.detrend
        first = [r.detrend(kind, trend=t) for r, t in zip(first, trends, strict=True)]
        last = [r.detrend(kind, trend=t) for r, t in zip(last, trends, strict=False)]
    after = shape.after()
    return [shaped(r, after) for r in first], [shaped(r, after) for r in last]


def _mean_trend(records: Sequence[Record], names: Iterable[str]) -> Trend:
    """Return the mean of each channel over all records, as a trend."""
    whole = np.concatenate([np.concatenate([r.u, r.y], axis=1) for r in records])
    means = np.nanmean(whole, axis=0).tolist()
    return {name: [mean, 0.0] for name, mean in zip(names, means, strict=True)}


def _divisible(pieces: list[Record], fraction: float) -> list[Record]:
    """Return the pieces of a file that are long enough to hold a part back."""
    good = [r for r in pieces if 0 < round(fraction * len(r)) < len(r)]
    # A file with none keeps the longest, which is refused when it is split.
    good = good or [max(pieces, key=len)]
    if len(good) < len(pieces):
        logger.warning(
            "%s: %d samples between long gaps are left out, too few to hold a part "
            "back",
            pieces[0].name,
            sum(map(len, pieces)) - sum(map(len, good)),
        )
    return good


def _check_moving(estimation: list[Record], fraction: float) -> None:
    """Refuse channels that rest until the test part begins, as a late step does."""
    try:
        Scaling.of(estimation)
    except InputError as error:
        raise InputError(
            f"{error} The last {100 * fraction:g} % are held back for a test: if it "
            "moves there, lower --test-fraction."
        ) from error


def benchmark_data(benchmark: Benchmark, *, by_name: bool = False) -> Data:
    """Return a benchmark as data."""
    return Data(
        benchmark.title,
        benchmark.source,
        [benchmark.estimation],
        "the benchmark's test record",
        benchmark,
        by_name,
    )


def check_test(data: Data, lag: int) -> None:
    """Refuse a test part that a model of this lag could not be scored on."""
    if data.benchmark is not None or data.test_rule == "none":
        return
    # Lengths and gaps only: the values stay unseen.
    stretches = [s for record in data.reveal_test() for s in record.segments()]
    longest = max((len(s) for s in stretches), default=0)
    if longest <= lag:
        raise InputError(
            f"the longest stretch of the test part has {longest} samples, not more "
            f"than the largest lag of {lag}: raise --test-fraction, or give 0 for no "
            "test"
        )


def data_lines(data: Data) -> list[str]:
    """Return what is used and why, in a line or two."""
    first = data.estimation[0]
    samples = sum(len(record) for record in data.estimation)
    count = len(data.estimation)
    records = "" if count == 1 else f" in {count} records"
    names = f"{', '.join(first.input_names) or 'no input'} -> "
    names += ", ".join(first.output_names)
    lines = [
        f"Data: {data.title} ({data.source}), {samples} samples{records} every "
        f"{first.dt:g} s, {names}"
    ]
    if data.benchmark is not None:
        if not data.by_name:
            lines[0] += ". No file was given: this is a benchmark."
        lines.append("Test: its test record, scored after the fit")
    elif data.test_rule != "none":
        lines.append(f"Test: {data.test_rule}, not used in the fit")
    return lines
