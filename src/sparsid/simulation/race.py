"""The race: candidates on held-out blocks, round by round.

Every candidate is begun several times on every fold. After a few cycles those whose
held-out error is far from the best are dropped, the others go on with more starts, and
so on.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

import numpy as np

from sparsid.simulation.candidates import Candidate, Cascade, LinearFirst
from sparsid.simulation.member import Member
from sparsid.simulation.rounds import (
    CHEAP,
    COSTLY,
    EFFORT,
    EFFORT_FIRST,
    ROUNDS,
    SPEED,
    Round,
    Trial,
)
from sparsid.simulation.signals import FOLDS, Errors
from sparsid.simulation.waiting import (
    PRUNING_CYCLES,
    PRUNING_SHARE,
    VARIANT_SIZE,
    cycle_work,
    race_work,
)
from sparsid.simulation.work import StoppedError, Work

log = logging.getLogger(__name__)

# Cycles after which the residual may have a memory: sooner for structures begun at
# random, which no linear model holds back.
COLOURED_FROM, LATEST_COLOURED = {"cascade": 25}, 45
# Cycles with nothing hidden; members that go on, from each fold.
LAST_CYCLES, LAST_KEPT = 30, 3
# The best of a family stays in the race within so many times the best error of all.
FAMILY = 1.6


class Race(Work):
    """The part of a search that advances candidates and drops the poor ones."""

    def race(
        self, found: Sequence[Candidate], rival: Trial | None = None
    ) -> list[Trial]:
        """Return the candidates that were still there at the end, best first.

        Parameters
        ----------
        rival
            Who is so much worse than this one was after the same round is dropped.
        """
        running = [Trial(c) for c in found]
        for k, plan in enumerate(ROUNDS):
            running = self._affordable(running, plan, EFFORT if k else EFFORT_FIRST)
            if k == 0:
                self.trials += running
            if not running:
                break
            variants = 0 if rival else len(self.variants(running[0]))
            self._expect(k, running, variants)
            if not self._advance(f"round {k + 1}", running, plan):
                break
            running.sort(key=lambda t: t.rms)
            limit = plan.ratio * running[0].rms
            if rival is not None:
                before = rival.after[min(k, len(rival.after) - 1)]
                limit = min(limit, plan.ratio * before)
            if k + 1 < len(ROUNDS):
                running = _staying(running, limit, plan.most)
        for trial in self.trials:
            trial.go_back()
        return [simplest(running)] if running else []

    def _affordable(
        self, trials: Sequence[Trial], plan: Round, effort: float
    ) -> list[Trial]:
        """Return the first trials, as many as a round may take."""
        if self.deadline < np.inf:
            left = max(self.deadline - time.perf_counter(), 0.0)
            effort = min(effort, left * SPEED * self.workers)
        taken: list[Trial] = []
        for trial in trials:
            starts = self._starts(trial, plan)
            begun = max(starts - trial.begun, 0) * plan.first
            further = min(plan.kept, starts) * (plan.cycles - plan.first)
            effort -= trial.candidate.work * FOLDS * (begun + further)
            if taken and effort < 0.0:
                break
            taken.append(trial)
        names = ", ".join(t.name for t in trials[len(taken) :])
        if names:
            self.notes.append(f"left out to save time: {names}")
        return taken

    def _starts(self, trial: Trial, plan: Round) -> int:
        if self._costly(trial):
            return plan.fewer
        return 2 * plan.starts if trial.candidate.work < CHEAP else plan.starts

    def _expect(self, k: int, trials: Sequence[Trial], variants: int) -> None:
        """Plan the time of a round, and of all that follows if most candidates stay."""
        sizes = [self._size(t) for t in trials]
        costly = [self._costly(t) for t in trials]
        now, *later = race_work(ROUNDS, sizes, costly, k)
        # Who will win is not known: one of middle size.
        size, dear = float(np.median(sizes)), costly[0]
        more = [VARIANT_SIZE * size] * variants
        # Few of them get to the last round.
        first, *others = race_work(ROUNDS, more, [dear] * variants)
        later += [first, 0.5 * sum(others)]
        attempts = PRUNING_SHARE * self._attempts(trials[0]) * PRUNING_CYCLES
        later.append(size * LAST_KEPT * attempts)
        last = LAST_CYCLES * size * self.last_samples / self.signals.samples
        self.waiting.plan(FOLDS * now, FOLDS * sum(later) + last)

    def _size(self, trial: Trial) -> float:
        return trial.candidate.work

    def _attempts(self, trial: Trial) -> int:
        """Return how often removals are tried."""
        return 4 if self._costly(trial) else 12

    def _advance(self, name: str, trials: Sequence[Trial], plan: Round) -> bool:
        """Advance candidates by a round; return False if it was cut short."""
        jobs: list[tuple[Trial, int, int]] = []
        for trial in trials:
            starts = self._starts(trial, plan)
            jobs += [
                (trial, fold, fold + s)
                for fold in range(FOLDS)
                for s in range(trial.begun, starts)
            ]
            trial.begun = max(trial.begun, starts)

        def begin(job: tuple[Trial, int, int]) -> Member | None:
            trial, fold, start = job
            rng = np.random.default_rng(
                [self.seed, self.trials.index(trial), fold, start]
            )
            member = trial.candidate.begin(fold, start, rng)
            return member and self._to(member, plan.first).rest()

        def go_on(job: tuple[Trial, int, Member]) -> Member:
            return self._to(job[2], plan.cycles).rest()

        complete = True
        try:
            begun = self._map(name, begin, jobs, [job[0] for job in jobs], trials)
        except StoppedError as stop:
            begun, complete = list(stop.done), False
        for job, member in zip(jobs, begun, strict=False):
            if member is not None and np.isfinite(member.cost):
                job[0].members[job[1]].append(member)
        for trial in trials:
            for members in trial.members:
                members.sort(key=lambda m: m.cost)
                del members[plan.kept :]
        left = [
            (trial, fold, member)
            for trial in trials
            for fold, members in enumerate(trial.members)
            for member in members
        ]
        if complete:
            try:
                self._map(name, go_on, left, [job[0] for job in left], trials)
            except StoppedError:
                complete = False
        self.cut_short |= not complete
        for trial in trials:
            trial.members = [
                [m for m in members if np.isfinite(m.cost)] for members in trial.members
            ]
            self._held_out(trial)
            trial.note()
            log.debug("%s: %s: held-out error %.4f", name, trial.name, trial.rms)
        return complete

    def _costly(self, trial: Trial) -> bool:
        return trial.candidate.work > COSTLY

    def _held_out(self, trial: Trial) -> float:
        """Find the errors of the median over members where they have not learnt."""
        trial.errors = Errors.none()
        for fold, members in enumerate(trial.members):
            members.sort(key=lambda m: m.cost)
            if not members:
                continue
            runs = [m.outputs() for m in members]
            centre = [np.median(r, axis=0) for r in zip(*runs, strict=True)]
            trial.errors += self.signals.held_out(centre, fold)
        return trial.rms

    def _to_age(self, member: Member, more: int) -> Member:
        """Advance a member by so many cycles."""
        return self._to(member, member.age + more)

    def _check(self) -> None:
        if self.over():
            raise StoppedError

    def _to(self, member: Member, cycles: int) -> Member:
        """Advance a member to an age."""
        while member.age < cycles:
            self._check()
            coloured_from = COLOURED_FROM.get(member.structure.name, LATEST_COLOURED)
            member.cycle(coloured=member.age >= coloured_from)
            samples = sum(len(run.u) for run in member.runs)
            structure = member.structure
            self.waiting.cycle(
                cycle_work(structure.sizes, structure.parameters, samples)
            )
            if member.age > coloured_from + 8 and member.settled():
                break
            if not np.isfinite(member.cost):
                break
        return member

    def variants(self, best: Trial) -> list[Candidate]:
        """Return what may improve on the best candidate of the first rounds."""
        c = best.candidate
        if isinstance(c, LinearFirst):
            return [
                LinearFirst(c.bases, c.way, c.order, 6, polynomial=True),
                LinearFirst(c.bases, c.way, c.order, 12),
                LinearFirst(c.bases, c.way, c.order, c.neurons, slow=1),
                LinearFirst(c.bases, c.way, c.order, c.neurons, chain=True),
            ]
        if isinstance(c, Cascade):
            return [Cascade(c.signals, c.states, 12)]
        return []


def _staying(ranked: Sequence[Trial], limit: float, most: int) -> list[Trial]:
    """Return the best trials, and the best one of every family that is not far off.

    Families learn at different speeds: that neurons beside a linear model lead early
    says little about states begun at random.
    """
    staying = [t for t in ranked if t.rms <= limit][:most]
    families = {t.candidate.family for t in staying}
    for trial in ranked:
        family = trial.candidate.family
        if family not in families and trial.rms <= FAMILY * ranked[0].rms:
            families.add(family)
            staying.append(trial)
    return staying


def simplest(trials: Sequence[Trial]) -> Trial:
    """Return the trial with the least work of which no other is clearly better."""
    best, *others = sorted(trials, key=lambda t: t.candidate.work)
    for trial in others:
        if trial.errors.clearly_below(best.errors):
            best = trial
    return best
