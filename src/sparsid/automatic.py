"""The automatic mode: everything about the model chosen inside the records."""

from __future__ import annotations

from typing import Any

from sparsid.data.tables import as_records
from sparsid.estimators import Simulator
from sparsid.progress import ProgressCallback


def identify(
    u: Any,
    y: Any = None,
    *,
    dt: float | None = None,
    budget: float | None = None,
    seed: int = 0,
    workers: int | None = None,
    progress: ProgressCallback | None = None,
    verbose: bool = False,
) -> Simulator:
    """Return a fitted model, everything about it chosen inside the records.

    Parameters
    ----------
    u, y, dt
        A record, several records, or inputs with outputs and sampling time.
    budget
        Seconds that this may take, about; None: as long as it takes. A fit that is
        under way at the end is stopped with the best so far.
    seed
        Makes results repeatable.
    workers
        Threads at once; None: one for every core.
    progress
        Called every half second with a ``Progress``; returning True ends the search
        with the best model so far.
    verbose
        Show what is being tried and how long the whole takes: a bar in a notebook, a
        line on a terminal.
    """
    model = Simulator(budget=budget, workers=workers, seed=seed)
    return model.fit(as_records(u, y, dt), progress=progress, verbose=verbose)
