"""What a running fit or search tells its caller."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Progress:
    """A look at a running fit; noise is the variance per scaled output.

    ``start`` is one of so many starts, or of so many groups of members: see ``part``. A
    search over candidates says in ``text`` how far it has come, and in ``left``, as
    soon as it can tell, how many seconds are still to come in all. ``candidates`` is
    what has been tried so far, with its error over held-out blocks in deviations.
    """

    phase: str
    cycle: int
    max_cycles: int
    cost: float
    noise: NDArray[np.float64]
    kept: float
    seconds: float
    start: int = 0
    starts: int = 1
    part: str = "start"
    text: str = ""
    left: float | None = None
    candidates: tuple[tuple[str, float], ...] = ()


# Called after every cycle; True asks for an end.
ProgressCallback = Callable[[Progress], bool | None]
