"""What the caller of a search fixed, and what is left to the records."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from sparsid.checks import LARGEST_COUNT, number, whole
from sparsid.errors import InputError
from sparsid.simulation.prior_kinds import KINDS

STRUCTURES = ("auto", "linear", "linear first", "cascade", "even output")


@dataclass(frozen=True)
class Wanted:
    """What the caller fixed; None is chosen by the records."""

    structure: str = "auto"
    states: int | None = None
    neurons: int | None = None
    seed: int = 0
    workers: int = 2
    budget: float | None = None
    prior: str = "auto"

    @staticmethod
    def checked(given: dict[str, Any]) -> Wanted:
        """Return settings that make sense, or say which do not."""
        if given["structure"] not in STRUCTURES:
            known = ", ".join(repr(s) for s in STRUCTURES)
            raise InputError(f"structure={given['structure']!r}: give one of {known}")
        for name in ("states", "neurons"):
            if given[name] is not None:
                whole(name, given[name], 1, 100)
        budget = given["budget"]
        if budget is not None and number("budget", budget, 0.0) == 0.0:
            raise InputError("budget=0: give the seconds that may be spent, or None")
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2
        workers = given["workers"] or cores
        workers = whole("workers", workers, 1, LARGEST_COUNT)
        seed = whole("seed", given["seed"], 0, 2**32 - 1)
        prior = given.get("prior", "auto")
        if prior not in ("auto", *KINDS):
            known = ", ".join(repr(kind) for kind in ("auto", *KINDS))
            raise InputError(f"prior={prior!r}: give one of {known}")
        return Wanted(
            given["structure"],
            given["states"],
            given["neurons"],
            seed,
            workers,
            budget,
            prior,
        )
