"""How a fit ended, and what helps when it did not end well."""

from __future__ import annotations

import enum


class Outcome(enum.Enum):
    """The end of a fit; ``remedy`` says what to do about it."""

    CONVERGED = "converged"
    CYCLES = "cycle limit reached"
    STOPPED = "stopped"
    DIVERGED = "diverged"
    PRUNED = "everything pruned"

    @property
    def remedy(self) -> str:
        """What to do, empty if nothing needs doing."""
        return _REMEDIES[self]

    def __str__(self) -> str:
        return f"{self.value} ({self.remedy})" if self.remedy else self.value


_REMEDIES = {
    Outcome.CONVERGED: "",
    Outcome.CYCLES: "the cost was still falling: raise max_cycles",
    Outcome.STOPPED: "best model so far kept: run again to go on to the end",
    Outcome.DIVERGED: (
        "the cost was no longer finite: check the record for outliers, or use fewer "
        "neurons or another seed"
    ),
    Outcome.PRUNED: (
        "the data do not support any input of the network, so it predicts a constant: "
        "check that inputs and outputs belong together, use more samples, or lower the "
        "thresholds"
    ),
}
