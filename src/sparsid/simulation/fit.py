"""From records to a simulator: search, final members, bands, prediction.

The linear model is there after seconds. What races against it is chosen by what the
linear model and the signals show; the winner is taken only if it is clearly better in
blocks that it did not learn from.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparsid.data.pieces import excerpts, stretches_of
from sparsid.data.record import Record, check_compatible
from sparsid.data.scaling import Scaling
from sparsid.errors import InputError
from sparsid.models.residual_model import ResidualModel
from sparsid.progress import Progress, ProgressCallback
from sparsid.results.channels import Channels
from sparsid.results.forecast import BandFactors
from sparsid.results.outcome import Outcome
from sparsid.results.simulator import FittedSimulator
from sparsid.results.simulator_member import SimulatorMember
from sparsid.results.structure_counts import middle_count
from sparsid.results.surprise import Seen
from sparsid.simulation.bands import FoldRuns
from sparsid.simulation.linear_search import LinearFound
from sparsid.simulation.member import Member
from sparsid.simulation.prediction import residual_model
from sparsid.simulation.reasons import reason
from sparsid.simulation.rounds import Trial
from sparsid.simulation.search import Search
from sparsid.simulation.signals import Signals
from sparsid.simulation.wanted import Wanted
from sparsid.simulation.whole_run import with_whole_runs
from sparsid.simulation.work import Stage, StoppedError

Values = NDArray[np.float64]

# Most samples that candidates are compared on; of longer records they see pieces, no
# longer than this, spread over all.
COMPARED_SAMPLES, COMPARED_PIECE = 5_000, 1_250
# Fewer samples than these say too little for rotating blocks.
FEWEST_SAMPLES = 30
# A linear model whose held-out error is below this, in deviations, is the model.
EXACT = 1e-4
# Share of the time budget after which nothing new is tried.
TRIAL_SHARE = 0.7
# Members of the final model; of long records fewer, but so many.
MOST_MEMBERS, FEWEST_MEMBERS = 12, 3
# Members that are kept at most. One is left out if its free run is so many times as far
# from the record as the best one, or its evidence so much lower for each sample.
KEPT_MEMBERS, FAR, WEAK = 8, 2.0, 0.07
# Measured outputs that settle a start: a share of the samples, within these.
START_SHARE, START_ENDS = 0.05, (10, 50)
# Cycles in which the noise of a linear model finds its memory.
LINEAR_CYCLES = 6


def fit_simulator(
    records: list[Record], wanted: Wanted, report: ProgressCallback | None = None
) -> FittedSimulator:
    """Return the model that held-out blocks prefer."""
    check_compatible(records)
    return _Fit(records, wanted, report).run()


class Found(NamedTuple):
    """What was chosen: its name, delays, and held-out error in deviations."""

    name: str
    delays: tuple[int, ...]
    error: float


class _Fit:
    """A search, and what becomes of its winner."""

    def __init__(
        self, records: list[Record], wanted: Wanted, report: ProgressCallback | None
    ) -> None:
        self.records, self.wanted, self.report = records, wanted, report
        self.began = time.perf_counter()
        self.scaling = Scaling.of(records)
        self.stretches = stretches_of(records)
        measured = sum(int(np.isfinite(s.y).all(1).sum()) for s in self.stretches)
        if measured < FEWEST_SAMPLES:
            raise InputError(
                f"the records have {measured} samples with inputs and outputs but at "
                f"least {FEWEST_SAMPLES} are needed: give a longer record"
            )
        compared = excerpts(records, COMPARED_SAMPLES, COMPARED_PIECE)
        self.whole = self._signals(self.stretches)
        self.part = self.whole
        if compared is not records:
            self.part = self._signals(stretches_of(compared))
        self.search = Search(
            self.part, wanted.seed, wanted.workers, self._told, notes=[]
        )
        self.search.last_samples = self._last_members() * self.whole.samples
        self.stopped = False
        self.best_error = self.linear_error = np.inf
        self.linear_name = ""
        # What was taken, None for the linear model, and why if nothing was to be tried.
        self.chosen: Trial | None = None
        self.settled = ""

    def _signals(self, stretches: Sequence[Record]) -> Signals:
        return Signals.of(self.scaling, stretches)

    # -- the search ------------------------------------------------------------------

    def run(self) -> FittedSimulator:
        """Return the fitted model."""
        search, budget = self.search, self.wanted.budget
        linear = search.linear(self.wanted.states)
        self.linear_error, self.linear_name = linear.errors.rms, linear.name
        self.best_error = self.linear_error
        found = f"linear model of order {linear.order} found"
        self._say(Stage(found, 1, 1, found))
        best: Trial | None = None
        kind = self.wanted.structure
        exact = kind == "auto" and linear.errors.rms < EXACT
        if kind != "linear" and not exact and not self.stopped:
            if budget is not None:
                search.deadline = self.began + TRIAL_SHARE * budget
            best = search.best(linear, self.wanted)
        if budget is not None:
            search.deadline = self.began + budget
            # What the clock ended may go on; what the listener ended may not.
            search.stopped = self.stopped
        forced = kind not in ("auto", "linear")
        if (
            best is not None
            and not forced
            and not best.errors.clearly_below(linear.errors)
        ):
            search.notes.append(
                "the data do not support a nonlinear model: the linear one is taken"
            )
            best = None
        if kind == "linear":
            self.settled = "the linear model is what was asked for"
        elif exact:
            self.settled = "the linear model is taken: it has hardly any error"
        if best is None:
            return self._linear(linear)
        best = search.with_prior(best, self.wanted.prior)
        self.chosen = search.sparse(best)
        return self._ensemble(self.chosen, linear)

    def _told(self, stage: Stage) -> bool:
        finished = [t.rms for t in self.search.trials if np.isfinite(t.rms)]
        self.best_error = min([self.linear_error, *finished])
        return self._say(stage)

    def _say(self, stage: Stage) -> bool:
        """Tell the listener where the search is; return whether it is to end."""
        if self.report is not None:
            text = stage.place or stage.name
            if np.isfinite(self.linear_error):
                text += f" · held-out error {self.best_error:.3g}"
                text += f", linear model {self.linear_error:.3g}"
            progress = Progress(
                stage.name,
                stage.done,
                stage.total,
                self.best_error,
                np.full(self.part.outputs, self.best_error**2),
                1.0,
                time.perf_counter() - self.began,
                text=text,
                left=self._left(stage.left),
                candidates=tuple(self._tried()),
            )
            self.stopped = bool(self.report(progress)) or self.stopped
        return self.stopped

    def _tried(self) -> list[tuple[str, float]]:
        """Return what has been tried so far, with its held-out error."""
        tried = []
        if np.isfinite(self.linear_error):
            tried.append((self.linear_name, float(self.linear_error)))
        trials = [t for t in self.search.trials if np.isfinite(t.rms)]
        return tried + [(t.name, float(t.rms)) for t in trials]

    def _left(self, seconds: float | None) -> float | None:
        """Return the seconds to come, no more than the budget leaves."""
        budget = self.wanted.budget
        if budget is None or seconds is None:
            return seconds
        return min(seconds, max(self.began + budget - time.perf_counter(), 0.0))

    def _last_members(self) -> int:
        share = COMPARED_SAMPLES / max(self.whole.samples, 1)
        return int(np.clip(round(MOST_MEMBERS * share), FEWEST_MEMBERS, MOST_MEMBERS))

    # -- the end ---------------------------------------------------------------------

    def _linear(self, linear: LinearFound) -> FittedSimulator:
        """Return the linear model as the result."""
        runs = self.whole.runs(linear.delays)
        whole = linear.member.shown(runs)
        member, *folds = (
            self.search.listening("noise", self._coloured, m)
            for m in (whole, *linear.folds)
        )
        copies = [[m] for m in folds]
        found = Found(linear.name, linear.delays, linear.errors.rms)
        return self._result(found, [member], copies, linear)

    def _coloured(self, member: Member) -> Member:
        """Return a linear member whose noise has the memory that its residual shows."""
        member.whiten_by_squares()
        for _ in range(LINEAR_CYCLES):
            if self.search.over():
                break
            member.cycle(coloured=True)
        return member

    def _ensemble(self, best: Trial, linear: LinearFound) -> FittedSimulator:
        """Return the members of the winner, gone on with everything shown."""
        search, delays = self.search, best.candidate.delays
        chosen = search.best_members(best, self._last_members())
        try:
            members = search.last(chosen, self.whole.runs(delays))
        except StoppedError:
            members = [m.shown(self.whole.runs(delays)) for m in chosen]
        winner = Found(best.name, delays, best.rms)
        found = self._result(winner, members, best.members, linear)
        found.details["prior"] = {"kind": best.prior, "costs": search.prior_costs}
        return replace(found, weights_total=max(best.full, found.weights_total))

    def _result(
        self,
        chosen: Found,
        members: Sequence[Member],
        copies: Sequence[Sequence[Member]],
        linear: LinearFound,
    ) -> FittedSimulator:
        name, delays = chosen.name, chosen.delays
        good = _good(members)
        signals = self.part
        start_samples = int(np.clip(START_SHARE * self.whole.samples, *START_ENDS))
        frozen_members = tuple(frozen(m) for m in good)
        # One that was stopped before its first cycle has the cost where it is.
        costs = np.array(good[0].costs or [good[0].cost])
        first = FittedSimulator(
            Channels.of(self.records),
            self.scaling,
            name,
            delays,
            frozen_members,
            ResidualModel.none(signals.inputs, np.ones(signals.outputs)),
            min(start_samples, max(len(s) // 4 for s in self.stretches)),
            BandFactors.none(signals.outputs),
            middle_count([m.structure for m in good]),
            max(m.structure.parameters for m in good),
            self._outcome(good, chosen.error),
            {"cost": costs, "kept": np.ones(len(costs))},
            {},
        )
        folds = [
            replace(first, members=tuple(frozen(m) for m in fold)) if fold else None
            for fold in copies
        ]
        held_out = FoldRuns.of(signals, delays, folds, copies)
        residual = residual_model(
            held_out.residuals, held_out.errors, held_out.inputs, held_out.runs
        )
        factors = with_whole_runs(held_out.factors(residual), held_out)
        return replace(
            first,
            residual=residual,
            band_factors=factors,
            details=self._details(name, good, linear, held_out),
        )

    def _outcome(self, members: Sequence[Member], held_out: float) -> Outcome:
        late = time.perf_counter() > self.search.deadline
        if self.stopped or late or self.search.cut_short:
            return Outcome.STOPPED
        learnt = (self._errors(members) / self.scaling.y_std).max()
        poor = not max(held_out, learnt) < 1.0
        return Outcome.POOR if poor else Outcome.CONVERGED

    def _details(
        self,
        name: str,
        members: Sequence[Member],
        linear: LinearFound,
        held_out: FoldRuns,
    ) -> dict[str, Any]:
        trials = [{"name": n, "held_out_error": error} for n, error in self._tried()]
        notes = list(self.search.notes)
        if self.part is not self.whole:
            notes.append(
                f"candidates were compared on {self.part.samples} of "
                f"{self.whole.samples} samples"
            )
        ends = {
            key: [
                [float(np.nanmin(column)), float(np.nanmax(column))]
                for column in np.concatenate([getattr(r, side) for r in self.records]).T
            ]
            for key, side in (("inputs", "u"), ("outputs", "y"))
        }
        found = {
            "records": len(self.records),
            "samples": sum(len(r) for r in self.records),
            "range": ends,
            "free_run_rmse": self._errors(members).tolist(),
            "candidates": trials,
            "chosen_candidate": name,
            "chosen_because": reason(
                self.chosen, self.linear_error, self.search.trials, self.settled
            ),
            "bands": held_out.coverage(),
        }
        return found | ({"notes": notes} if notes else {})

    def _errors(self, members: Sequence[Member]) -> Values:
        """Return the free-run error over what was learnt from, output by output."""
        runs = [m.outputs() for m in members]
        squares = counts = 0.0
        for k, run in enumerate(members[0].runs):
            centre = np.median([r[k] for r in runs], axis=0)
            squares = squares + (run.seen * (run.y - centre) ** 2).sum(0)
            counts = counts + run.seen.sum(0)
        scale: Values = self.scaling.unscale_y_std(np.sqrt(squares / counts))
        return scale


def _good(members: Sequence[Member]) -> list[Member]:
    """Return members, best first, without those that the record speaks against.

    That are those with a free run far from it, and those whose evidence is as much
    lower as if their errors were so much larger, sample by sample.
    """
    errors = [_squares(m) for m in members]
    near = FAR**2 * min(errors)
    kept = [m for m, e in zip(members, errors, strict=True) if e <= near]
    kept.sort(key=lambda m: m.cost)
    seen = sum(float(run.seen.sum()) for run in kept[0].runs)
    most = kept[0].cost + 2.0 * WEAK * seen
    return [m for k, m in enumerate(kept) if m.cost <= most or k < FEWEST_MEMBERS][
        :KEPT_MEMBERS
    ]


def _squares(member: Member) -> float:
    pairs = zip(member.outputs(), member.runs, strict=True)
    total = sum(float((run.seen * (run.y - y) ** 2).sum()) for y, run in pairs)
    return total if np.isfinite(total) else np.inf


def frozen(member: Member) -> SimulatorMember:
    """Return what a result keeps of a member."""
    structure, prior = member.structure, member.prior
    p, n = structure.parameters, structure.sizes.states
    states = member.states()
    spread = np.cov(states.T).reshape(n, n)
    spread += 1e-6 * max(float(np.trace(spread)) / n, 1e-6) * np.eye(n)
    covariance = member.at.covariance(prior)[: p + n, : p + n]
    found = SimulatorMember(
        structure,
        member.theta.copy(),
        member.starts[0].copy(),
        states.mean(axis=0),
        np.asarray(np.linalg.cholesky(spread)),
        tuple(member.noise),
        covariance,
        np.sqrt(prior.variance[:p] + prior.mean[:p] ** 2),
        prior.variance[: p + n].copy(),
        -0.5 * float(member.cost),
        Seen.of(states, np.concatenate([run.u[:, :-1] for run in member.runs])),
    )
    member.rest()
    return found
