"""What is said of noise that has a white and a coloured part."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsid.results.base import FittedModel
from sparsid.results.texts import Row

# Deviations of the white and the coloured part, and the correlation of that.
Parts = tuple[NDArray[np.float64], ...]


def free_run_rows(fitted: FittedModel, parts: Parts) -> list[Row]:
    """Return the lines of a summary about what a free run leaves over."""
    white, coloured, phi = parts
    slow = "correlation " + ", ".join(f"{p:.3f}" for p in phi)
    lines = [
        ("white noise std", fitted.per_output(white)),
        ("coloured std", f"{fitted.per_output(coloured)} ({slow})"),
    ]
    errors = fitted.details.get("free_run_rmse")
    if errors is not None:
        lines.append(("free-run error", f"{fitted.per_output(errors)} (estimation)"))
    return lines


def noise_facts(parts: Parts) -> dict[str, Any]:
    """Return the parts as plain values."""
    names = ("white_std", "coloured_std", "coloured_phi")
    return {name: part.tolist() for name, part in zip(names, parts, strict=True)}
