"""What a running fit tells its caller, and what is kept of its course."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sparsid.bayes.cost import log_evidence
from sparsid.fitting.descent import Descent


@dataclass(frozen=True)
class Progress:
    """A look at a running fit; noise is the variance per scaled output.

    ``start`` is one of so many starts, or of so many groups of members: see ``part``. A
    search over candidates says in ``text`` how far it has come, and lists what has
    been tried so far with its error over held-out blocks, in deviations of the output.
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
    candidates: tuple[tuple[str, float], ...] = ()


# Called after every cycle; True asks for an end.
Report = Callable[[Progress], bool | None]


class History:
    """Figures of every cycle, by name.

    ``cost`` never rises while ``structure`` and ``rows`` stay the same: each removal,
    folding or change of the rows in use begins another structure.
    """

    def __init__(self) -> None:
        self.figures: dict[str, list[float]] = {}

    def __len__(self) -> int:
        return len(self.figures.get("cost", ()))

    def add(
        self,
        descent: Descent,
        *,
        cost: float,
        kept: dict[str, int],
        total: int,
        structure: int,
        seconds: float,
    ) -> None:
        """Keep the figures of a cycle."""
        at, noise = descent.at, np.asarray(descent.state.noise)
        rows = len(descent.data.y)
        effective = 0.0 if at.gamma_outputs is None else float(at.gamma_outputs.sum())
        figures = {
            "cost": cost,
            "log_evidence": log_evidence(descent.rule, at, noise, rows),
            "kept": sum(kept.values()) / total,
            "effective_weights": effective,
            "damping": descent.damping,
            "structure": float(structure),
            "rows": float(rows),
            "seconds": seconds,
        }
        figures |= {f"noise{k}": float(v) for k, v in enumerate(noise, 1)}
        figures |= {f"kept_{name}": float(count) for name, count in kept.items()}
        for name, value in figures.items():
            self.figures.setdefault(name, []).append(value)

    def last(self, name: str) -> float:
        """Return a figure of the latest cycle."""
        return self.figures[name][-1]

    def arrays(self) -> dict[str, NDArray[np.float64]]:
        """Return all figures as arrays."""
        return {name: np.array(values) for name, values in self.figures.items()}
