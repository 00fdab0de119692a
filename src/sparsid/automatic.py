"""The automatic mode: model class, states and width chosen inside the record.

Candidates are judged by the free run over rotating blocks that they did not learn from.
The linear model is always among them; unless another is clearly better, it is taken.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from sparsid.baselines import Arx
from sparsid.calibration import (
    BLOCKS,
    TRIAL_CYCLES,
    TRIAL_STARTS,
    factors_of,
    recalibrate,
)
from sparsid.ensemble import Ensemble
from sparsid.errors import InputError
from sparsid.estimators import NARX, Model, StateSpace
from sparsid.frames import as_records
from sparsid.free_fitting import held_out_error, held_out_fits
from sparsid.history import Progress, Report
from sparsid.records import Record, check_compatible
from sparsid.scaling import Scaling
from sparsid.settings import number
from sparsid.state_structure import most_starts
from sparsid.stretches import excerpts, held_out, stretches_of

log = logging.getLogger(__name__)

# A candidate has to beat the linear model by this factor.
CLEARLY = 0.95
# Most samples that candidates are compared on, and that the chosen one is fitted to;
# of longer records they see pieces, no longer than this, spread over all.
COMPARED_SAMPLES, COMPARED_PIECE = 5_000, 1_250
FITTED_SAMPLES, FITTED_PIECE = 40_000, 10_000
# A model fitted to more samples than were compared has fewer members, but so many.
FEWEST_MEMBERS = 4
# Share of the time budget after which no further candidate is tried.
TRIAL_SHARE = 0.5
# States beyond the outputs, and neurons, of the candidates.
CANDIDATES = ((1, 6), (2, 6))


def identify(
    u: Any,
    y: Any = None,
    *,
    dt: float | None = None,
    budget: float | None = None,
    seed: int = 0,
    progress: Report | None = None,
    scheduler: str | None = None,
) -> Model:
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
    progress
        Called after every cycle with a ``Progress``; returning True ends the search
        with the best model so far.
    scheduler
        Address of a Dask scheduler, as in ``"tcp://host:8786"``: its workers fit the
        held-out blocks of each candidate, and the members of the chosen one.
    """
    records = as_records(u, y, dt)
    check_compatible(records)
    if budget is not None and number("budget", budget, 0.0) == 0.0:
        raise InputError("budget=0: give the seconds that may be spent, or None")
    search = _Search(records, budget, seed, progress, scheduler)
    return search.run()


class _Search:
    """Candidates tried in turn, and the best of them fitted to everything."""

    def __init__(
        self,
        records: list[Record],
        budget: float | None,
        seed: int,
        progress: Report | None,
        scheduler: str | None,
    ) -> None:
        self.records, self.seed, self.progress = records, seed, progress
        self.compared = excerpts(records, COMPARED_SAMPLES, COMPARED_PIECE)
        self.learnt = excerpts(records, FITTED_SAMPLES, FITTED_PIECE)
        self.notes: list[str] = []
        self.scheduler = scheduler
        self.began, self.budget = time.perf_counter(), budget
        self.stopped = False
        self.arx = Arx.chosen(records, Scaling.of(records))

    def run(self) -> Model:
        """Return the model that the held-out blocks prefer."""
        linear = self._trial("linear ARX", None, self._linear_error())
        trials = [linear]
        for extra, width in CANDIDATES:
            settings: dict[str, Any] = {
                "states": self.records[0].n_outputs + extra,
                "hidden": (width,),
                "starts": TRIAL_STARTS,
                "max_cycles": TRIAL_CYCLES,
                "seed": self.seed,
            }
            name = f"{settings['states']} states, {width} neurons"
            if not self._members(settings):
                self.notes.append(f"{name}: not tried, the records are too long")
                continue
            fits = self._held_out_fits(name, settings)
            if fits is None:
                break
            error = held_out_error(fits, self.compared)
            trials.append(self._trial(name, settings, error) | {"fits": fits})
        best = min(trials, key=lambda t: t["held_out_error"])
        if self.stopped and best is not linear:
            # There is no time left to fit it to everything.
            best = linear
            self.notes.append("stopped: the linear model is kept")
        elif len(trials) == 1:
            if not self.notes:
                self.notes.append("there was no time to try a nonlinear model")
        elif best["held_out_error"] > CLEARLY * linear["held_out_error"]:
            best = linear
            self.notes.append(
                "the data do not support a nonlinear model: the linear one is taken"
            )
        model = self._final(best)
        details = model.fitted_.details
        details["candidates"] = [
            {k: t[k] for k in ("name", "held_out_error")} for t in trials
        ]
        details["chosen_candidate"] = best["name"]
        if self.compared is not self.records:
            self.notes.append(
                f"candidates were compared on {_samples(self.compared)} of "
                f"{_samples(self.records)} samples"
            )
        if self.notes:
            details.setdefault("notes", []).extend(self.notes)
        return model

    def _members(self, settings: dict[str, Any]) -> int:
        """Return how many members a model gets; 0 if it or its trials are too large."""
        model = StateSpace(**settings | {"starts": StateSpace().starts})
        params = model.get_params()
        if most_starts(params, self.compared) < BLOCKS * TRIAL_STARTS:
            return 0
        fewer = round(model.starts * min(1.0, COMPARED_SAMPLES / _samples(self.learnt)))
        wanted = min(model.starts, max(fewer, FEWEST_MEMBERS))
        return min(wanted, most_starts(params, self.learnt))

    def _held_out_fits(
        self, name: str, settings: dict[str, Any]
    ) -> list[Ensemble] | None:
        """Return a candidate fitted without each block, None if there was no time."""
        if self.stopped or self._spent(TRIAL_SHARE):
            return None
        params = StateSpace(**settings).get_params()
        report = self._report(f"trying {name}", TRIAL_SHARE)
        return held_out_fits(params, self.compared, BLOCKS, report, self.scheduler)

    def _final(self, best: dict[str, Any]) -> Model:
        """Return the chosen model, fitted to what it may learn from."""
        if best["settings"] is None:
            # A matter of seconds: not worth stopping.
            linear = NARX(self.arx.lags.input_lags, (), seed=self.seed)
            return recalibrate(linear.fit(self.records), self.records, blocks=2)
        settings = {k: best["settings"][k] for k in ("states", "hidden", "seed")}
        model = StateSpace(**settings, starts=self._members(settings))
        if self.learnt is not self.records:
            self.notes.append(
                f"fitted to {_samples(self.learnt)} of {_samples(self.records)} samples"
            )
        fitted = model.fit(
            self.learnt, progress=self._report(""), scheduler=self.scheduler
        ).fitted_
        factors = factors_of(best["fits"], self.compared, fitted.known, len(fitted))
        model.fitted_ = replace(fitted, band_factors=factors)
        return model

    def _trial(self, name: str, settings: Any, error: float) -> dict[str, Any]:
        log.info("%s: held-out free-run error %.3f standard deviations", name, error)
        return {"name": name, "settings": settings, "held_out_error": error}

    def _linear_error(self) -> float:
        """Return the error of the linear model, run through blocks it did not see."""
        stretches, lags = stretches_of(self.compared), self.arx.lags
        # That of the other candidates.
        scaling = Scaling.of(stretches)
        squares, count = 0.0, 0
        for masks in held_out(stretches, BLOCKS, StateSpace().start_samples):
            shown = [
                np.where(mask[:, None], np.nan, s.y)
                for s, mask in zip(stretches, masks, strict=True)
            ]
            model = Arx.fit_arrays([s.u for s in stretches], shown, lags, scaling)
            for stretch, mask in zip(stretches, masks, strict=True):
                if not mask.any():
                    continue
                error = (stretch.y - model.simulate(stretch)) / scaling.y_std
                error = error[mask & ~np.isnan(stretch.y).any(1)]
                squares += float((np.nan_to_num(error, nan=np.inf) ** 2).sum())
                count += error.size
        return float(np.sqrt(squares / max(count, 1)))

    def _spent(self, share: float = 1.0) -> bool:
        passed = time.perf_counter() - self.began
        return self.budget is not None and passed > share * self.budget

    def _report(self, phase: str, share: float = 1.0) -> Callable[[Progress], bool]:
        def told(progress: Progress) -> bool:
            if self.progress is not None and self.progress(
                replace(progress, phase=phase or progress.phase)
            ):
                self.stopped = True
            return self.stopped or self._spent(share)

        return told


def _samples(records: list[Record]) -> int:
    return sum(len(r) for r in records)
