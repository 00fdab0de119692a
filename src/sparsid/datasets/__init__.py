"""Benchmarks: recorded or simulated systems with a hidden test record."""

import difflib
import logging

from sparsid.datasets import cascaded_tanks as cascaded_tanks
from sparsid.datasets import public as public
from sparsid.datasets import simulated_tanks as simulated_tanks
from sparsid.datasets.benchmark import Benchmark as Benchmark
from sparsid.datasets.benchmark import Score as Score
from sparsid.errors import DatasetUnavailable as DatasetUnavailable
from sparsid.errors import InputError

NAMES = ("cascaded-tanks", "simulated-tanks", *public.SOURCES)

logger = logging.getLogger(__name__)


def load(name: str, *, offline: bool = False, seed: int = 0) -> Benchmark:
    """Return the benchmark of this name.

    Parameters
    ----------
    name
        "cascaded-tanks", "simulated-tanks", or one of `public.SOURCES`.
    offline
        Do not try to download.
    seed
        For simulated systems.
    """
    key = name.replace("_", "-").lower()
    if key == "cascaded-tanks":
        return cascaded_tanks.load(offline=offline)
    if key == "simulated-tanks":
        return simulated_tanks.simulate(seed=seed).benchmark
    if key in public.SOURCES:
        return public.load(key)
    near = difflib.get_close_matches(key, NAMES, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else "."
    raise InputError(f"There is no dataset {name!r}, only {', '.join(NAMES)}{hint}")


def default(*, offline: bool = False) -> Benchmark:
    """Return the cascaded tanks if they are to be had, else the simulated ones.

    Parameters
    ----------
    offline
        Do not try to download.
    """
    try:
        return cascaded_tanks.load(offline=offline)
    except DatasetUnavailable as error:
        logger.warning("Simulated tanks are used instead of recorded ones. %s", error)
        return simulated_tanks.simulate().benchmark
