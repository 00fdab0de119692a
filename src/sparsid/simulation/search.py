"""The search: linear models first, then candidates that race on held-out blocks.

Every candidate is begun several times on every fold. After a few cycles those whose
held-out error is far from the best are dropped, the others go on with more starts, and
so on. The members of the winner then go on with nothing hidden.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from sparsid.errors import InputError
from sparsid.fitting.settings import LARGEST_COUNT, number, whole
from sparsid.simulation.arx import dead_times
from sparsid.simulation.candidates import (
    Bases,
    Candidate,
    Cascade,
    EvenOutput,
    LinearFirst,
    saturated,
)
from sparsid.simulation.even_output import looks_folded, signed
from sparsid.simulation.linear import LARGEST, LARGEST_MIMO, candidates
from sparsid.simulation.member import Member, Run
from sparsid.simulation.pruning import pruned
from sparsid.simulation.signals import FOLDS, Errors, Signals

log = logging.getLogger(__name__)

Values = NDArray[np.float64]
Job = TypeVar("Job")
Done = TypeVar("Done")

STRUCTURES = ("auto", "linear", "linear first", "cascade", "even output")
# A linear model may be so much worse than the best and be taken for its lower order.
SIMPLER = 1.02


@dataclass(frozen=True)
class Round:
    """A round of the race.

    Members are begun on each fold until there were ``starts``, or ``fewer`` where a
    cycle is costly, all advanced to ``first`` cycles; the best ``kept`` of a fold go on
    to ``cycles``. Candidates within ``ratio`` of the best, ``most`` at most, stay for
    the next round.
    """

    starts: int
    fewer: int
    first: int
    kept: int
    cycles: int
    ratio: float
    most: int


ROUNDS = (
    Round(3, 2, 20, 3, 20, 1.5, 3),
    Round(6, 3, 20, 3, 40, 1.15, 2),
    Round(6, 3, 40, 3, 80, 1.0, 1),
)
# A cycle with more parameters squared times samples than this is costly: about 10 ms.
COSTLY = 25e6
# Seconds between two looks at whether to stop.
LISTEN_EVERY = 0.5
# Cycles after which the residual may have a memory.
COLOURED_FROM = 45
# Cycles with nothing hidden; members that go on, from each fold.
LAST_CYCLES, LAST_KEPT = 30, 2
# A pruned model may be so much worse in held-out blocks.
PRUNED_PRICE = 1.02
# A member whose held-out error is so many times the best of its fold is left out.
WORSE = 1.3


@dataclass(eq=False)
class Trial:
    """A candidate on its way: members by fold, and its held-out errors."""

    candidate: Candidate
    members: list[list[Member]] = field(
        default_factory=lambda: [[] for _ in range(FOLDS)]
    )
    begun: int = 0
    errors: Errors = field(default_factory=Errors.none)
    # Held-out error after each round.
    after: list[float] = field(default_factory=list)
    pruned: bool = False
    # Parameters of a member of which nothing was taken away.
    full: int = 0

    @property
    def rms(self) -> float:
        """Held-out error, in standard deviations of the outputs."""
        return self.errors.rms

    @property
    def everywhere(self) -> bool:
        """Whether every fold has members, and an error."""
        return all(self.members) and bool(np.isfinite(self.rms))

    @property
    def name(self) -> str:
        """That of the candidate, and whether it was pruned."""
        return self.candidate.name + ", pruned" * self.pruned


@dataclass(frozen=True)
class Wanted:
    """What the caller fixed; None is chosen by the records."""

    structure: str = "auto"
    states: int | None = None
    neurons: int | None = None
    seed: int = 0
    workers: int = 2
    budget: float | None = None

    @staticmethod
    def checked(given: dict[str, Any]) -> Wanted:
        """Return settings that make sense, or say which do not."""
        if given["structure"] not in STRUCTURES:
            known = ", ".join(repr(s) for s in STRUCTURES)
            raise InputError(f"structure={given['structure']!r}: give one of {known}")
        for name in ("states", "neurons"):
            if given[name] is not None:
                whole(name, given[name], 1, 100)
        budget = given["budget"]
        if budget is not None and number("budget", budget, 0.0) == 0.0:
            raise InputError("budget=0: give the seconds that may be spent, or None")
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2
        workers = given["workers"] or cores
        workers = whole("workers", workers, 1, LARGEST_COUNT)
        seed = whole("seed", given["seed"], 0, 2**32 - 1)
        return Wanted(
            given["structure"], given["states"], given["neurons"], seed, workers, budget
        )


@dataclass(frozen=True, eq=False)
class Stage:
    """What a listener hears: where the search is."""

    name: str
    done: int
    total: int


Told = Callable[[Stage], bool]


class StoppedError(Exception):
    """The listener, or the clock, ended the search."""


@dataclass(frozen=True, eq=False)
class LinearFound:
    """The linear model: one for each fold, and one with nothing hidden."""

    delays: tuple[int, ...]
    order: int
    member: Member
    folds: list[Member]
    errors: Errors
    # Held-out error by delays and order.
    table: dict[tuple[int, ...], dict[int, Errors]]


@dataclass(eq=False)
class Search:
    """A search over one set of signals.

    Parameters
    ----------
    signals
        What candidates are compared on.
    told
        Hears of progress and may end the search by returning True.
    deadline
        Time of `time.perf_counter` at which no more is tried.
    """

    signals: Signals
    seed: int = 0
    workers: int = 2
    told: Told | None = None
    deadline: float = np.inf
    notes: list[str] = field(default_factory=list)
    trials: list[Trial] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.bases = Bases(self.signals)
        # Whether to stop now; whether something was left out because of that.
        self.stopped = self.cut_short = False

    # -- the linear model ------------------------------------------------------------

    def linear(self, order: int | None = None) -> LinearFound:
        """Return the linear model of the order that held-out blocks prefer.

        Parameters
        ----------
        order
            Take this one.
        """
        signals = self.signals
        most = LARGEST if signals.outputs == 1 else LARGEST_MIMO
        width = signals.inputs + signals.outputs
        most = int(min(most, max(signals.samples // (10 * width), 2)))
        orders = list(range(1, most + 1)) if order is None else [order]
        nothing = (0,) * signals.inputs
        tried = sorted({nothing, dead_times(signals)})
        jobs = [(d, f) for d in tried for f in [None, *range(FOLDS)]]

        def one(job: tuple[tuple[int, ...], int | None]) -> dict[int, Member]:
            return candidates(signals, job[0], job[1], orders)

        for (delays, fold), found in zip(
            jobs, self._map("linear models", one, jobs), strict=True
        ):
            self.bases.add(delays, fold, found)
        table: dict[tuple[int, ...], dict[int, Errors]] = {}
        for delays in tried:
            table[delays] = {}
            for n in orders:
                copies = [self.bases.get(delays, n, f) for f in range(FOLDS)]
                whole = self.bases.get(delays, n, None)
                if whole is None or any(c is None for c in copies):
                    continue
                errors = Errors.none()
                for fold, copy in enumerate(copies):
                    assert copy is not None
                    errors += signals.held_out(copy.outputs(), fold)
                table[delays][n] = errors
        best = min(e.rms for row in table.values() for e in row.values())
        n, _, delays = min(
            (n, e.rms, d)
            for d, row in table.items()
            for n, e in row.items()
            if e.rms <= SIMPLER * best
        )
        whole, *folds = (
            member
            for f in [None, *range(FOLDS)]
            if (member := self.bases.get(delays, n, f)) is not None
        )
        return LinearFound(delays, n, whole, folds, table[delays][n], table)

    # -- candidates ------------------------------------------------------------------

    def first_candidates(self, linear: LinearFound, wanted: Wanted) -> list[Candidate]:
        """Return what the linear model and the signals suggest, or the caller wants."""
        more: dict[str, Any] = {}
        if wanted.neurons is not None:
            more = {"neurons": wanted.neurons}
        kind = wanted.structure
        signals = self.signals
        found: list[Candidate] = []
        for delays, row in linear.table.items():
            errors = {n: e.rms for n, e in row.items()}
            if not errors:
                continue
            best = min(errors, key=lambda n: errors[n])
            near = min(n for n in errors if errors[n] <= SIMPLER * errors[best])
            orders = {near, near + 2, best}
            if signals.samples >= 2000:
                large = sorted((n for n in errors if n >= 6), key=lambda n: errors[n])
                orders |= set(large[:2])
            orders = {n for n in orders if n in errors}
            if kind in ("auto", "linear first"):
                found += [
                    LinearFirst(self.bases, delays, n, **more) for n in sorted(orders)
                ]
        if kind == "cascade" or (kind == "auto" and self._like_a_cascade(linear)):
            ny = signals.outputs
            states = [ny + 1, ny + 2] if wanted.states is None else [wanted.states]
            found += [Cascade(signals, n, **more) for n in states]
        if kind == "even output" or (kind == "auto" and looks_folded(signals)):
            found += self._even(wanted.states, more)
        return found

    def _like_a_cascade(self, linear: LinearFound) -> bool:
        """Return whether outputs saturate, or all poles are real and slow."""
        floor, ceiling = saturated(self.signals)
        if np.isfinite([*floor, *ceiling]).any():
            return True
        A = linear.member.structure.named(linear.member.theta)["A"]
        poles = np.linalg.eigvals(A)
        slow = poles[np.abs(poles) > 0.5]
        return bool(
            len(slow) and (slow.real > 0).all() and (np.abs(slow.imag) < 0.05).all()
        )

    def _even(self, states: int | None, more: dict[str, Any]) -> list[Candidate]:
        delays = (0,) * self.signals.inputs
        turned = signed(self.signals, delays, 3)
        if turned is None:
            return []
        bases = Bases(turned)
        orders = (2, 3, 4) if states is None else (states,)
        return [EvenOutput(self.signals, bases, delays, n, **more) for n in orders]

    def variants(self, best: Trial) -> list[Candidate]:
        """Return what may improve on the best candidate of the first rounds."""
        c = best.candidate
        if isinstance(c, LinearFirst):
            return [
                LinearFirst(c.bases, c.delays, c.order, 6, polynomial=True),
                LinearFirst(c.bases, c.delays, c.order, 12),
            ]
        if isinstance(c, Cascade):
            return [Cascade(c.signals, c.states, 12)]
        return []

    def best(self, linear: LinearFound, wanted: Wanted) -> Trial | None:
        """Return the best candidate; None if there was no time for any."""
        found = self.first_candidates(linear, wanted)
        left = self.race(found)
        if left and not self.cut_short and wanted.neurons is None:
            left += self.race(self.variants(left[0]), left[0])
        tried = [t for t in left or self.trials if t.everywhere]
        if not tried:
            self.notes.append("there was no time to try a nonlinear model")
            return None
        # A variant has to be clearly better than what it varies.
        best = tried[0]
        for trial in tried[1:]:
            if trial.errors.clearly_below(best.errors):
                best = trial
        return best

    # -- the race --------------------------------------------------------------------

    def race(
        self, found: Sequence[Candidate], rival: Trial | None = None
    ) -> list[Trial]:
        """Return the candidates that were still there at the end, best first.

        Parameters
        ----------
        rival
            Who is worse than this one was after the same round is dropped, too.
        """
        running = [Trial(c) for c in found]
        self.trials += running
        for k, plan in enumerate(ROUNDS):
            if not running or not self._advance(f"round {k + 1}", running, plan):
                break
            running.sort(key=lambda t: t.rms)
            limit = plan.ratio * running[0].rms
            if rival is not None:
                limit = min(limit, rival.after[min(k, len(rival.after) - 1)])
            running = [t for t in running if t.rms <= limit][: plan.most]
        return running

    def _advance(self, name: str, trials: Sequence[Trial], plan: Round) -> bool:
        """Advance candidates by a round; return False if it was cut short."""
        jobs: list[tuple[Trial, int, int]] = []
        for trial in trials:
            starts = plan.fewer if self._costly(trial) else plan.starts
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

        try:
            for job, member in zip(jobs, self._map(name, begin, jobs), strict=True):
                if member is not None and np.isfinite(member.cost):
                    job[0].members[job[1]].append(member)
            left = [
                (trial, fold, member)
                for trial in trials
                for fold, members in enumerate(trial.members)
                for member in sorted(members, key=lambda m: m.cost)[: plan.kept]
            ]
            self._map(name, go_on, left)
        except StoppedError:
            self.cut_short = True
            return False
        for trial in trials:
            trial.members = [
                [
                    m
                    for t, f, m in left
                    if t is trial and f == fold and np.isfinite(m.cost)
                ]
                for fold in range(FOLDS)
            ]
            trial.after.append(self._held_out(trial))
            log.debug("%s: %s: held-out error %.4f", name, trial.name, trial.rms)
        return True

    def _costly(self, trial: Trial) -> bool:
        return trial.candidate.parameters**2 * self.signals.samples > COSTLY

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

    def _to(self, member: Member, cycles: int) -> Member:
        """Advance a member to an age."""
        while member.age < cycles:
            if self.stopped or time.perf_counter() > self.deadline:
                raise StoppedError
            member.cycle(coloured=member.age >= COLOURED_FROM)
            if member.age > COLOURED_FROM + 8 and member.settled():
                break
            if not np.isfinite(member.cost):
                break
        return member

    # -- the end ---------------------------------------------------------------------

    def sparse(self, best: Trial) -> Trial:
        """Return a candidate without what the evidence of its members does not support.

        Nothing is taken away that makes a member worse in held-out blocks.
        """
        jobs = [
            (fold, member)
            for fold, members in enumerate(best.members)
            for member in members[:LAST_KEPT]
        ]
        best.full = max(m.structure.parameters for _, m in jobs)
        attempts = 4 if self._costly(best) else 12

        def one(job: tuple[int, Member]) -> Member:
            fold, full = job

            def error(m: Member) -> float:
                return self.signals.held_out(m.outputs(), fold).rms

            most = PRUNED_PRICE * error(full)

            def allowed(fresh: Member, m: Member) -> bool:
                return fresh.cost < m.cost and error(fresh) <= most

            return pruned(full, self._to_age, attempts, allowed).rest()

        found = Trial(best.candidate, pruned=True, full=best.full)
        try:
            for (fold, _), member in zip(
                jobs, self._map("pruning", one, jobs), strict=True
            ):
                found.members[fold].append(member)
        except StoppedError:
            self.cut_short = True
            return best
        self._held_out(found)
        self.trials.append(found)
        return found if found.rms <= PRUNED_PRICE * best.rms else best

    def best_members(self, best: Trial, count: int) -> list[Member]:
        """Return members of all folds that did well where they had not learnt."""
        chosen: list[list[Member]] = []
        for fold, members in enumerate(best.members):
            errors = [self.signals.held_out(m.outputs(), fold).rms for m in members]
            near = WORSE * min(errors, default=0.0)
            pairs = zip(members, errors, strict=True)
            chosen.append([m for m, e in pairs if e <= near][:LAST_KEPT])
        # The best of every fold first.
        rounds = zip_longest(*chosen)
        return [m for row in rounds for m in row if m is not None][:count]

    def last(self, members: Sequence[Member], runs: Sequence[Run]) -> list[Member]:
        """Return members, gone on with runs of which nothing is hidden.

        One that the clock or the listener stops is as good as it got.
        """

        def one(member: Member) -> Member:
            fresh = member.shown(runs)
            with suppress(StoppedError):
                self._to(fresh, fresh.age + LAST_CYCLES)
            return fresh

        return self._map("final members", one, members)

    def _map(
        self, name: str, work: Callable[[Job], Done], jobs: Sequence[Job]
    ) -> list[Done]:
        """Do jobs in threads, in order, telling how far they are."""
        with threadpool_limits(1), ThreadPoolExecutor(self.workers) as pool:
            futures = [pool.submit(work, job) for job in jobs]
            left: set[Future[Done]] = set(futures)
            try:
                while left:
                    _, left = wait(left, LISTEN_EVERY, FIRST_COMPLETED)
                    if self.told is not None and self.told(
                        Stage(name, len(jobs) - len(left), len(jobs))
                    ):
                        raise StoppedError
                done = [future.result() for future in futures]
            except BaseException:
                self.stopped = True
                for future in futures:
                    future.cancel()
                raise
        return done
