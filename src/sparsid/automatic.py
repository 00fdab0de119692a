"""The automatic mode: model class, states, width and prior chosen inside the record.

Candidates are judged by the free run over rotating blocks that they did not learn from.
The linear model is always among them, and each one after it is taken only if it is
clearly better than the best before: first numbers of states, then variants of the best.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import numpy as np

from sparsid.data.pieces import excerpts, held_out, stretches_of
from sparsid.data.record import Record, check_compatible
from sparsid.data.scaling import Scaling
from sparsid.data.tables import as_records
from sparsid.errors import InputError
from sparsid.estimators import NARX, Model, StateSpace
from sparsid.fitting.cross_validation import (
    Errors,
    held_out_errors,
    held_out_fits_apart,
)
from sparsid.fitting.outcome import Outcome
from sparsid.fitting.progress import Progress, Report
from sparsid.fitting.settings import LARGEST_COUNT, number, whole
from sparsid.fitting.state_space import described, fit_free_run
from sparsid.fitting.state_space_structure import most_starts
from sparsid.parallel.pool import Crew, hire
from sparsid.results.ensemble import Ensemble
from sparsid.validation.baselines import Arx
from sparsid.validation.calibration import (
    BLOCKS,
    TRIAL_CYCLES,
    factors_of,
    recalibrate,
    trial_starts,
)

log = logging.getLogger(__name__)

Trial = TypeVar("Trial")

# Most samples that candidates are compared on, and that the chosen one is fitted to;
# of longer records they see pieces, no longer than this, spread over all.
COMPARED_SAMPLES, COMPARED_PIECE = 5_000, 1_250
FITTED_SAMPLES, FITTED_PIECE = 40_000, 10_000
# A model fitted to more samples than were compared has fewer members, but so many.
FEWEST_MEMBERS = 4
# Share of the time budget after which no further candidate is tried.
TRIAL_SHARE = 0.5
# States beyond the outputs of the first candidates, and their neurons.
STATES, NEURONS = (1, 2), 6
# What is then changed of the best of them, each on its own.
VARIANTS: tuple[dict[str, Any], ...] = ({"hidden": (12,)}, {"prior": "shape"})


def identify(
    u: Any,
    y: Any = None,
    *,
    dt: float | None = None,
    budget: float | None = None,
    seed: int = 0,
    workers: int | None = None,
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
    workers
        Processes at once; None: one for every core.
    progress
        Called after every cycle of every group of members with a ``Progress``, maybe
        in another thread; returning True ends the search with the best model so far.
    scheduler
        Address of a Dask scheduler, as in ``"tcp://host:8786"``: its workers fit the
        held-out blocks of the candidates and the members of the chosen one. None:
        processes of this computer.
    """
    records = as_records(u, y, dt)
    check_compatible(records)
    if budget is not None and number("budget", budget, 0.0) == 0.0:
        raise InputError("budget=0: give the seconds that may be spent, or None")
    if workers is not None:
        workers = whole("workers", workers, 1, LARGEST_COUNT)
    search = _Search(records, budget, seed, progress)
    with hire(scheduler, workers) as crew:
        return search.run(crew)


def clearly_best(trials: Iterable[Trial], errors: Callable[[Trial], Errors]) -> Trial:
    """Return the last one that was clearly better than the best before it."""
    best, *others = trials
    for trial in others:
        if errors(trial).clearly_below(errors(best)):
            best = trial
    return best


class _Search:
    """Candidates tried round after round, and the best fitted to everything."""

    def __init__(
        self,
        records: list[Record],
        budget: float | None,
        seed: int,
        progress: Report | None,
    ) -> None:
        self.records, self.seed, self.progress = records, seed, progress
        self.compared = excerpts(records, COMPARED_SAMPLES, COMPARED_PIECE)
        self.learnt = excerpts(records, FITTED_SAMPLES, FITTED_PIECE)
        self.trials: list[_Trial] = []
        self.notes: list[str] = []
        self.began, self.budget = time.perf_counter(), budget
        self.stopped = False
        self.arx = Arx.chosen(records, Scaling.of(records))

    def run(self, crew: Crew) -> Model:
        """Return the model that the held-out blocks prefer."""
        self._add(_Trial("linear ARX", {}, self._linear_errors(), []))
        self._try(self._sizes(), crew)
        best = self._best().settings
        if best:
            self._try([best | variant for variant in VARIANTS], crew)
        chosen = self._chosen()
        model = self._final(chosen, crew)
        details = model.fitted_.details
        details["candidates"] = [
            {"name": t.name, "held_out_error": t.errors.rms} for t in self.trials
        ]
        details["chosen_candidate"] = chosen.name
        if self.compared is not self.records:
            self.notes.append(
                f"candidates were compared on {_samples(self.compared)} of "
                f"{_samples(self.records)} samples"
            )
        if self.notes:
            details.setdefault("notes", []).extend(self.notes)
        return model

    def _add(self, trial: _Trial) -> None:
        log.info("%s", trial)
        self.trials.append(trial)

    def _best(self) -> _Trial:
        return clearly_best(self.trials, lambda trial: trial.errors)

    def _chosen(self) -> _Trial:
        """Return the trial whose model is taken; notes say why if it is the linear."""
        linear, best = self.trials[0], self._best()
        if len(self.trials) == 1:
            if not self.notes:
                self.notes.append("there was no time to try a nonlinear model")
        elif best is linear:
            self.notes.append(
                "the data do not support a nonlinear model: the linear one is taken"
            )
        return best

    def _sizes(self) -> list[dict[str, Any]]:
        """Return the settings of the first candidates."""
        outputs = self.records[0].n_outputs
        same = {"hidden": (NEURONS,), "prior": StateSpace().prior, "seed": self.seed}
        return [same | {"states": outputs + extra} for extra in STATES]

    def _try(self, candidates: list[dict[str, Any]], crew: Crew) -> None:
        """Try candidates, all at once, but those there is no room or no time for."""
        wanted = {}
        for settings in candidates:
            name = _name(settings)
            if self._members(settings):
                wanted[name] = settings
            else:
                self.notes.append(f"{name}: not tried, the records are too long")
        if not wanted or self.stopped or self._spent(TRIAL_SHARE):
            return
        found, left_out = held_out_fits_apart(
            {name: self._copies(s) for name, s in wanted.items()},
            self.compared,
            BLOCKS,
            crew,
            self._report(TRIAL_SHARE),
            members=StateSpace().starts,
        )
        for name, fits in found.items():
            errors = held_out_errors(fits, self.compared)
            self._add(_Trial(name, wanted[name], errors, fits))
        self.notes += [f"{name}: left out, {why}" for name, why in left_out.items()]

    def _copies(self, settings: dict[str, Any]) -> dict[str, Any]:
        """Return the settings of the copies for held-out blocks."""
        params: dict[str, Any] = StateSpace(**settings).get_params()
        starts = trial_starts(params, self.compared, BLOCKS)
        return {**params, "starts": starts, "max_cycles": TRIAL_CYCLES}

    def _members(self, settings: dict[str, Any]) -> int:
        """Return how many members a model gets; 0 if it or its trials are too large."""
        model = StateSpace(**settings)
        params = model.get_params()
        if not trial_starts(params, self.compared, BLOCKS):
            return 0
        fewer = round(model.starts * min(1.0, COMPARED_SAMPLES / _samples(self.learnt)))
        wanted = min(model.starts, max(fewer, FEWEST_MEMBERS))
        return min(wanted, most_starts(params, self.learnt))

    def _final(self, best: _Trial, crew: Crew) -> Model:
        """Return the chosen model, fitted to what it may learn from."""
        if not best.settings:
            # A matter of seconds: not worth stopping.
            linear = NARX(self.arx.lags.input_lags, (), seed=self.seed)
            return recalibrate(linear.fit(self.records), self.records, blocks=2)
        model = StateSpace(**best.settings, starts=self._members(best.settings))
        fitted = self._fitted(model, crew)
        if fitted is None:
            copies = self._copies(best.settings)
            few: dict[str, Any] = {"starts": BLOCKS * copies["starts"]}
            model = model.set_params(**few, max_cycles=TRIAL_CYCLES)
            joined = replace(Ensemble.joined(best.fits), outcome=Outcome.STOPPED)
            fitted = described(joined, self.compared)
            self.notes.append(
                "stopped: its members are the copies that were compared with other "
                f"candidates, each fitted without one of {BLOCKS} blocks"
            )
        factors = factors_of(best.fits, self.compared, fitted.known, len(fitted))
        model.fitted_ = replace(fitted, band_factors=factors)
        return model

    def _fitted(self, model: StateSpace, crew: Crew) -> Ensemble | None:
        """Return it fitted to what it may learn from; None if that was cut short."""
        if self.stopped or self._spent():
            return None
        fitted = fit_free_run(model.get_params(), self.learnt, self._report(), crew)
        cycles = len(fitted.history["cost"])
        if fitted.outcome is Outcome.STOPPED and cycles < TRIAL_CYCLES:
            # The copies have come further.
            return None
        if self.learnt is not self.records:
            self.notes.append(
                f"fitted to {_samples(self.learnt)} of {_samples(self.records)} samples"
            )
        return fitted

    def _linear_errors(self) -> Errors:
        """Return those of the linear model, run through blocks it did not see."""
        stretches, lags = stretches_of(self.compared), self.arx.lags
        # That of the other candidates.
        scaling = Scaling.of(stretches)
        errors = Errors.none(BLOCKS)
        blocks = held_out(stretches, BLOCKS, StateSpace().start_samples)
        for k, masks in enumerate(blocks):
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
                errors.squares[k] += (np.nan_to_num(error, nan=np.inf) ** 2).sum()
                errors.counts[k] += error.size
        return errors

    def _spent(self, share: float = 1.0) -> bool:
        passed = time.perf_counter() - self.began
        return self.budget is not None and passed > share * self.budget

    def _report(self, share: float = 1.0) -> Callable[[Progress], bool]:
        def told(progress: Progress) -> bool:
            if self.progress is not None and self.progress(progress):
                self.stopped = True
            return self.stopped or self._spent(share)

        return told


class _Trial(NamedTuple):
    """A candidate and how it did on blocks it had not seen; no settings: linear."""

    name: str
    settings: dict[str, Any]
    errors: Errors
    fits: list[Ensemble]

    def __str__(self) -> str:
        """Return it as a line of the log."""
        error = f"{self.errors.rms:.3f} standard deviations"
        return f"{self.name}: held-out free-run error {error}"


def _name(settings: dict[str, Any]) -> str:
    """Return what tells a candidate from the others."""
    name = f"{settings['states']} states, {settings['hidden'][0]} neurons"
    own = settings["prior"] != StateSpace().prior
    return f"{name}, {settings['prior']} prior" if own else name


def _samples(records: list[Record]) -> int:
    return sum(len(r) for r in records)
