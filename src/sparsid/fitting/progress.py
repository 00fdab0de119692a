"""What is kept of the course of a fit."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sparsid.bayes.cost import log_evidence
from sparsid.fitting.descent import Descent


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
