"""The member of an ensemble that is nearest to all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sparsid.results.base import FittedModel

Values = NDArray[np.float64]
F = TypeVar("F", bound=FittedModel)

# Samples of made-up inputs, and how long they hold a level, in samples.
SAMPLES, HOLDS = 1000, (1, 3, 10, 30, 100)


def nearest_member(fitted: F, inputs: Sequence[Values] | None = None) -> F:
    """Return the member whose free run is nearest to that of the ensemble.

    ``details["compact"]`` says which one, and how far it is away for each output, as
    root mean square in the unit of the output.

    Parameters
    ----------
    inputs
        What to run over; by default steps within the range of the estimation records.
    """
    if len(fitted) == 1:
        return fitted
    inputs = [made_up(fitted)] if inputs is None else inputs
    centre = [fitted.simulate(u, samples=0).mean for u in inputs]
    found = []
    for k in range(len(fitted)):
        own = [fitted.member(k).simulate(u, samples=0).mean for u in inputs]
        squares = np.concatenate(
            [(a - b) ** 2 for a, b in zip(own, centre, strict=True)]
        )
        distance = np.sqrt(np.nan_to_num(squares, nan=np.inf).mean(axis=0))
        found.append(distance)
    scaled = [float(np.max(d / fitted.scaling.y_std)) for d in found]
    best = int(np.argmin(scaled))
    single: Any = fitted.member(best)
    facts = {
        "member": best,
        "weights": single.weights_kept,
        "weights_full": single.weights_total,
        "ensemble_members": len(fitted),
        "distance": found[best].tolist(),
    }
    made: F = replace(single, details={**fitted.details, "compact": facts})
    return made


def compact_text(fitted: FittedModel) -> str:
    """Return what a small model costs in error; empty if it was not asked for."""
    facts = fitted.details.get("compact")
    if facts is None:
        return ""
    left = f"{facts['weights']} of {facts['weights_full']} weights"
    several = f"the ensemble of {facts['ensemble_members']}"
    if "ratio" in facts:
        more = 100.0 * (facts["ratio"] - 1.0)
        price = f"{abs(more):.1f} % {'more' if more >= 0 else 'less'}"
        text = f"{left}; held-out free-run error {price} than that of {several}"
        return f"{text}: {facts['warning']}" if "warning" in facts else text
    away = fitted.per_output(facts["distance"])
    return f"{left}; in free run {away} from {several}"


def made_up(fitted: FittedModel) -> Values:
    """Return inputs that step at random within what the estimation records had."""
    rng = np.random.default_rng(0)
    known = fitted.details.get("range", {}).get("inputs")
    scaling = fitted.scaling
    if known is None:
        low, high = (scaling.u_mean + s * 2.0 * scaling.u_std for s in (-1.0, 1.0))
    else:
        low, high = np.array(known, dtype=float).reshape(-1, 2).T
    u = np.empty((SAMPLES, len(scaling.u_mean)))
    for k in range(u.shape[1]):
        first = 0
        while first < SAMPLES:
            hold = int(rng.choice(HOLDS))
            u[first : first + hold, k] = rng.uniform(low[k], high[k])
            first += hold
    return u
