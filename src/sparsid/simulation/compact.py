"""One small model in place of an ensemble, and what that costs in error.

A member learns the free run of the ensemble, wherever it has no measured output to
learn from: in held-out blocks, and over the inputs run backwards. Then groups are taken
away as long as it stays near the ensemble. If two models err independently of how far
they are apart, a distance of a quarter of the ensemble's error makes it three per cent
larger; what it is in truth is found by copies of both, in blocks that neither learnt
from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from sparsid.data.pieces import excerpts, stretches_of
from sparsid.data.record import Record
from sparsid.results.simulator import FittedSimulator, SimulatorMember
from sparsid.results.structure_counts import groups_left
from sparsid.simulation.bands import FoldRuns
from sparsid.simulation.evidence import Prior, Run
from sparsid.simulation.fit import COMPARED_PIECE, COMPARED_SAMPLES, frozen
from sparsid.simulation.linear_first import column_groups
from sparsid.simulation.member import Member
from sparsid.simulation.prediction import residual_model
from sparsid.simulation.pruning import pruned
from sparsid.simulation.signals import FOLDS, Errors, Signals
from sparsid.simulation.whole_run import with_whole_runs

Values = NDArray[np.float64]

# Wanted: this share of the weights of a full member, for so much more held-out error.
SHARE, PRICE = 0.4, 1.03
# Nothing more is taken away beyond this one.
MOST_PRICE = 1.1
# Distances from the ensemble that are allowed one after the other, in held-out errors
# of the ensemble.
DISTANCES = (0.25, 0.4, 0.55, 0.7)
# By how much -2 log evidence may seem to grow by a removal that is tried.
SLACK = (0.0, 30.0, 300.0, 3000.0)
# Attempts at each distance; members of the ensemble that teach.
ATTEMPTS, TEACHERS = 12, 8
# Members that are made smaller; the best becomes the model.
STUDENTS = 4
# Cycles of a copy that forgets a block; of a member that learns from the ensemble.
FORGETTING, LEARNING = 20, 30


@dataclass(frozen=True, eq=False)
class _Fold:
    """Copies of the members that have not seen some blocks, and what they say."""

    members: list[Member]
    runs: list[Run]


def compacted(
    fitted: FittedSimulator, records: list[Record], workers: int = 1
) -> FittedSimulator:
    """Return one member, as small as its held-out error allows, with its own bands.

    Parameters
    ----------
    records
        What the model was estimated from.
    workers
        Threads.
    """
    return _Compaction(fitted, records, workers).run()


# A member, copies of it that have not seen some blocks, and their errors there.
_Step = tuple[Member, list[Member], Errors]


class _Compaction:
    def __init__(
        self, fitted: FittedSimulator, records: list[Record], workers: int
    ) -> None:
        compared = excerpts(records, COMPARED_SAMPLES, COMPARED_PIECE)
        self.fitted, self.workers = fitted, workers
        self.signals = Signals.of(fitted.scaling, stretches_of(compared))
        self.runs = self.signals.runs(fitted.delays)

    def run(self) -> FittedSimulator:
        """Return the smallest member that is hardly worse than the ensemble."""
        with threadpool_limits(1):
            teachers = [_member(m, self.runs) for m in self.fitted.members[:TEACHERS]]
            folds = self._each(range(FOLDS), lambda f: self._fold(teachers, f))
            before = self._errors([f.members for f in folds])
            # Those with little in them are nearer to the end.
            students = sorted(teachers, key=lambda m: (m.structure.parameters, m.cost))
            ways = self._each(
                students[:STUDENTS], lambda m: self._way(m, teachers, folds, before.rms)
            )
            found = [step for way in ways for step in way]
            near = [one for one in found if one[2].rms <= PRICE * before.rms]
            if near:
                taken = min(near, key=lambda one: one[0].structure.parameters)
            else:
                taken = min(found, key=lambda one: one[2].rms)
            return self._result(taken, before)

    def _way(
        self,
        first: Member,
        teachers: Sequence[Member],
        folds: list[_Fold],
        error: float,
    ) -> list[_Step]:
        """Return ever smaller members that learn from all, with their copies."""
        student = _advanced(_taught(first, teachers, self.runs), LEARNING)
        found = [(student, *self._copies(student, folds))]
        for distance in DISTANCES:
            small = self._smaller(student, teachers, distance * error)
            if small.structure.parameters < student.structure.parameters:
                found.append((small, *self._copies(small, folds)))
            student = small
            price = found[-1][2].rms / error
            few = student.structure.parameters <= SHARE * self.fitted.weights_total
            if price > MOST_PRICE or (few and price <= PRICE):
                break
        return found

    def _each(self, items: Iterable[Any], work: Callable[[Any], Any]) -> list[Any]:
        with ThreadPoolExecutor(self.workers) as pool:
            return list(pool.map(work, items))

    def _fold(self, teachers: Sequence[Member], fold: int) -> _Fold:
        """Return copies of the ensemble that forget the blocks of a fold."""
        runs = self.signals.runs(self.fitted.delays, fold)
        copies = [_advanced(teacher.shown(runs), FORGETTING) for teacher in teachers]
        good = [m.rest() for m in copies if np.isfinite(m.cost)]
        return _Fold(good, runs)

    def _errors(self, folds: Sequence[Sequence[Member]]) -> Errors:
        """Return the errors of medians over members where they have not learnt."""
        errors = Errors.none()
        for fold, members in enumerate(folds):
            runs = zip(*(m.outputs() for m in members), strict=True)
            centre = [np.median(run, axis=0) for run in runs]
            errors += self.signals.held_out(centre[: len(self.runs)], fold)
        return errors

    def _copies(
        self, student: Member, folds: Sequence[_Fold]
    ) -> tuple[list[Member], Errors]:
        """Return copies that learn from each fold's ensemble, and their errors."""

        def one(fold: _Fold) -> Member:
            return _advanced(_taught(student, fold.members, fold.runs), LEARNING)

        copies = self._each(folds, one)
        return copies, self._errors([[copy] for copy in copies])

    def _smaller(
        self, student: Member, teachers: Sequence[Member], most: float
    ) -> Member:
        """Return a member with less in it that stays so near to the ensemble."""
        said = _said(teachers, student.runs)
        limit = max(most, _distance(student, said))

        def allowed(fresh: Member, _: Member) -> bool:
            return _distance(fresh, said) <= limit

        return pruned(student, _advanced, ATTEMPTS, allowed, SLACK)

    def _result(self, taken: _Step, before: Errors) -> FittedSimulator:
        """Return the member with bands from the errors of its copies."""
        student, copies, after = taken
        count, old = len(self.runs), self.fitted
        member = _recorded(student, self.runs)
        single = replace(
            old, members=(frozen(member),), weights_kept=member.structure.parameters
        )
        own = [[_recorded(c, c.runs[:count])] for c in copies]
        models = [replace(single, members=(frozen(c[0]),)) for c in own]
        held_out = FoldRuns.of(self.signals, old.delays, models, own)
        residual = residual_model(
            held_out.residuals, held_out.errors, held_out.inputs, held_out.runs
        )
        facts = {
            "weights": member.structure.parameters,
            "weights_full": old.weights_total,
            "ensemble_members": len(old),
            "held_out_error_ensemble": before.rms,
            "held_out_error": after.rms,
            "ratio": after.rms / before.rms,
            "groups": groups_left(member.structure),
        }
        details = {**old.details, "compact": facts, "bands": held_out.coverage()}
        return replace(
            single,
            residual=residual,
            band_factors=with_whole_runs(held_out.factors(residual), held_out),
            details=details,
        )


# -- pieces ----------------------------------------------------------------------------


def _advanced(member: Member, cycles: int) -> Member:
    for _ in range(cycles):
        member.cycle(coloured=True)
    return member


def _member(found: SimulatorMember, runs: Sequence[Run]) -> Member:
    """Return a fit that goes on from a stored member."""
    structure, p = found.structure, found.structure.parameters
    starts = np.array([_start(found, run) for run in runs])
    square = np.maximum(found.prior_std**2 - found.prior_variance[:p], 0.0)
    # What was expected is known but for its sign: that of what was found.
    mean = np.sqrt(square) * np.sign(found.theta)
    prior = Prior(mean, found.prior_variance[:p], column_groups(structure))
    prior = prior.with_starts(p, starts.size, float(found.prior_variance[-1]))
    member = Member(structure, runs, found.theta, starts, prior, found.noise)
    # Old enough for all that a member learns.
    member.age = 100
    assert member.at is not None
    return member


def _start(found: SimulatorMember, run: Run) -> Values:
    """Return the start state that fits the first outputs of a run."""
    samples = min(len(run.u), 50)
    y = np.where(run.seen[:samples] > 0, run.y[:samples], np.nan)
    return found.started(run.u[:samples], y)[0]


def _median(members: Sequence[Member], starts: Sequence[Values], u: Values) -> Values:
    pairs = zip(members, starts, strict=True)
    return np.asarray(
        np.median([m.structure.run(m.theta, x, u)[0] for m, x in pairs], axis=0)
    )


def _taught(member: Member, teachers: Sequence[Member], runs: Sequence[Run]) -> Member:
    """Return a member that learns from records, and from an ensemble beside them."""
    learnt = []
    for r, run in enumerate(runs):
        said = _median(teachers, [t.starts[r] for t in teachers], run.u)
        y = np.where(run.seen > 0, run.y, said)
        learnt.append(Run(run.u, y, np.ones_like(y)))
    middle = [t.states().mean(axis=0) for t in teachers]
    for run in runs:
        u = np.ascontiguousarray(run.u[::-1])
        y = _median(teachers, middle, u)
        learnt.append(Run(u, np.ascontiguousarray(y), np.ones_like(y)))
    p, n = member.structure.parameters, len(runs)
    begin = member.states().mean(axis=0)
    starts = np.array([*member.starts[:n], *[begin] * n])
    prior = member.prior.with_starts(p, starts.size, float(member.prior.variance[-1]))
    fresh = Member(member.structure, learnt, member.theta, starts, prior, member.noise)
    fresh.age = member.age
    return fresh


def _said(teachers: Sequence[Member], runs: Sequence[Run]) -> list[Values]:
    """Return the median of an ensemble over recorded runs and those behind them."""
    count = len(teachers[0].runs)
    middle = [t.states().mean(axis=0) for t in teachers]
    return [
        _median(teachers, [t.starts[r] for t in teachers] if r < count else middle, v.u)
        for r, v in enumerate(runs)
    ]


def _distance(member: Member, said: Sequence[Values]) -> float:
    """Return the root mean squared distance of free runs."""
    pairs = zip(member.outputs(), said, strict=True)
    squares = np.concatenate([((a - b) ** 2).ravel() for a, b in pairs])
    found = float(np.sqrt(squares.mean()))
    return found if np.isfinite(found) else np.inf


def _recorded(member: Member, runs: Sequence[Run]) -> Member:
    """Return a member as it is, over records alone."""
    p, count = member.structure.parameters, len(runs)
    starts = member.starts[:count]
    prior = member.prior.with_starts(p, starts.size, float(member.prior.variance[-1]))
    fresh = Member(member.structure, runs, member.theta, starts, prior, member.noise)
    fresh.age = member.age
    fresh.update_noise()
    return fresh
