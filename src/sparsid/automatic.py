"""The automatic mode: model class, states and width chosen inside the record.

Candidates are judged by the free run over rotating blocks that they did not learn from.
The linear model is always among them; unless another is clearly better, it is taken.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from sparsid.baselines import Arx
from sparsid.errors import InputError
from sparsid.estimators import NARX, Model, StateSpace
from sparsid.frames import as_records
from sparsid.free_fitting import held_out_errors
from sparsid.history import Progress, Report
from sparsid.records import Record, check_compatible
from sparsid.scaling import Scaling
from sparsid.settings import number

log = logging.getLogger(__name__)

BLOCKS = 4
# Starts for each block when candidates are compared.
TRIAL_STARTS = 3
# A candidate has to beat the linear model by this factor.
CLEARLY = 0.95
# Share of the time budget after which no further candidate is tried.
TRIAL_SHARE = 0.5
# States beyond the outputs, and neurons, of the candidates.
CANDIDATES = ((1, 6), (2, 6), (1, 12))


def identify(
    u: Any,
    y: Any = None,
    *,
    dt: float | None = None,
    budget: float | None = None,
    seed: int = 0,
    progress: Report | None = None,
) -> Model:
    """Return a fitted model, everything about it chosen inside the records.

    Parameters
    ----------
    u, y, dt
        A record, several records, or inputs with outputs and sampling time.
    budget
        Seconds that this may take, about; None: as long as it takes. A fit that is
        under way at the end is stopped with the best so far.
    progress
        Called after every cycle with a ``Progress``; returning True ends the search
        with the best model so far.
    """
    records = as_records(u, y, dt)
    check_compatible(records)
    if budget is not None and number("budget", budget, 0.0) == 0.0:
        raise InputError("budget=0: give the seconds that may be spent, or None")
    search = _Search(records, budget, seed, progress)
    return search.run()


class _Search:
    """Candidates tried in turn, and the best of them fitted to everything."""

    def __init__(
        self,
        records: list[Record],
        budget: float | None,
        seed: int,
        progress: Report | None,
    ) -> None:
        self.records, self.seed, self.progress = records, seed, progress
        self.began, self.budget = time.perf_counter(), budget
        self.stopped = False
        self.scaling = Scaling.of(records)
        self.arx = Arx.chosen(records, self.scaling)

    def run(self) -> Model:
        """Return the model that the held-out blocks prefer."""
        trials = [self._trial("linear ARX", None, self._linear_error())]
        for extra, width in CANDIDATES:
            if self.stopped or self._spent(TRIAL_SHARE):
                log.info("no time for more candidates")
                break
            settings: dict[str, Any] = {
                "states": self.records[0].n_outputs + extra,
                "hidden": (width,),
                "starts": TRIAL_STARTS,
                "seed": self.seed,
            }
            name = f"{settings['states']} states, {width} neurons"
            errors = held_out_errors(
                StateSpace(**settings).get_params(),
                self.records,
                BLOCKS,
                self._report(f"trying {name}"),
            )
            if not self.stopped:
                trials.append(self._trial(name, settings, float(_rms(errors))))
        best = min(trials, key=lambda t: t["held_out_error"])
        if best["held_out_error"] > CLEARLY * trials[0]["held_out_error"]:
            best = trials[0]
        model = self._final(best)
        model.fitted_.details["candidates"] = [
            {k: t[k] for k in ("name", "held_out_error")} for t in trials
        ]
        model.fitted_.details["chosen_candidate"] = best["name"]
        if best is trials[0]:
            note = "the data do not support a nonlinear model: the linear one is taken"
            model.fitted_.details.setdefault("notes", []).append(note)
        return model

    def _final(self, best: dict[str, Any]) -> Model:
        report = self._report("")
        if best["settings"] is None:
            lag = self.arx.lags.input_lags
            return NARX(lag, (), seed=self.seed).fit(self.records, progress=report)
        settings = {k: v for k, v in best["settings"].items() if k != "starts"}
        return StateSpace(**settings).fit(self.records, progress=report)

    def _trial(self, name: str, settings: Any, error: float) -> dict[str, Any]:
        log.info("%s: held-out free-run error %.3f standard deviations", name, error)
        return {"name": name, "settings": settings, "held_out_error": error}

    def _linear_error(self) -> float:
        """Return the error of the linear model, run through blocks it did not see."""
        squares, count = 0.0, 0
        for record in self.records:
            edges = np.linspace(0, len(record), BLOCKS + 1).astype(int)
            for first, stop in pairwise(edges):
                y = record.y.copy()
                y[first:stop] = np.nan
                others = [r for r in self.records if r is not record]
                rest = _with_outputs(record, y)
                model = Arx.fit([*others, rest], self.arx.lags, self.scaling)
                for segment in record.segments():
                    if len(segment) <= self.arx.lags.max_lag:
                        continue
                    at = segment.start - record.start + np.arange(len(segment))
                    error = (segment.y - model.simulate(segment)) / self.scaling.y_std
                    inside = (at >= first) & (at < stop) & ~np.isnan(segment.y).any(1)
                    inside[: self.arx.lags.max_lag] = False
                    error = np.nan_to_num(error[inside], nan=np.inf)
                    squares += float((error**2).sum())
                    count += error.size
        return float(np.sqrt(squares / max(count, 1)))

    def _spent(self, share: float = 1.0) -> bool:
        passed = time.perf_counter() - self.began
        return self.budget is not None and passed > share * self.budget

    def _report(self, phase: str) -> Callable[[Progress], bool]:
        def told(progress: Progress) -> bool:
            if self.progress is not None and self.progress(
                replace(progress, phase=phase or progress.phase)
            ):
                self.stopped = True
            return self.stopped or self._spent()

        return told


def _rms(errors: Any) -> float:
    return float(np.sqrt(np.mean(np.square(errors))))


def _with_outputs(record: Record, y: Any) -> Record:
    return Record(
        record.u if record.n_inputs else None,
        y,
        record.dt,
        input_names=record.input_names if record.n_inputs else None,
        output_names=record.output_names,
        start=record.start,
    )
