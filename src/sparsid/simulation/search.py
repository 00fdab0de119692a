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
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from sparsid.checks import LARGEST_COUNT, number, whole
from sparsid.errors import InputError
from sparsid.simulation.arx import dead_times
from sparsid.simulation.candidates import (
    Bases,
    Candidate,
    Cascade,
    EvenOutput,
    LinearFirst,
    Way,
    saturated,
)
from sparsid.simulation.even_output import looks_folded, signed
from sparsid.simulation.linear import LARGEST, LARGEST_MIMO, nearly_integrates
from sparsid.simulation.member import Member, Run
from sparsid.simulation.prior_kinds import CYCLES, KINDS, costs_of, preferred, under
from sparsid.simulation.pruning import pruned
from sparsid.simulation.signals import FOLDS, Errors, Signals
from sparsid.simulation.waiting import (
    PRUNING_CYCLES,
    PRUNING_SHARE,
    VARIANT_SIZE,
    Waiting,
    cycle_work,
    race_work,
)

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
# An evaluation with more multiplications than this is costly: about 10 ms.
COSTLY = 35e6
# Multiplications that a round may take: half a minute, about, on two cores. Candidates
# are left out, the least promising first, until it does; one is always tried.
EFFORT_FIRST, EFFORT = 400e9, 250e9
# Multiplications a second and thread that a time budget counts on.
SPEED = 2e9
# The winner goes on for twice as many cycles, so often at most, while its held-out
# error falls to this share.
MORE_ROUNDS, PAYS = 3, 0.93
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
    # Held-out error after each round, and members as they were after the best one.
    after: list[float] = field(default_factory=list)
    best_members: list[list[Member]] = field(default_factory=list)
    best_errors: Errors = field(default_factory=Errors.none)
    pruned: bool = False
    # Parameters of a member of which nothing was taken away.
    full: int = 0
    # How weights share prior variances.
    prior: str = "column"

    @property
    def rms(self) -> float:
        """Held-out error, in standard deviations of the outputs."""
        return self.errors.rms

    @property
    def everywhere(self) -> bool:
        """Whether every fold has members, and an error."""
        return all(self.members) and bool(np.isfinite(self.rms))

    def note(self) -> None:
        """Keep members as they are if they never did better in held-out blocks."""
        self.after.append(self.rms)
        if self.everywhere and self.rms <= min(self.after):
            self.best_members = [[m.copy() for m in own] for own in self.members]
            self.best_errors = self.errors

    def go_back(self) -> None:
        """Return to the members of the best round: later ones have learnt too much."""
        if self.best_errors.rms < self.rms or not self.everywhere:
            self.members, self.errors = self.best_members, self.best_errors

    @property
    def name(self) -> str:
        """That of the candidate, its prior if not columns, whether it was pruned."""
        prior = "" if self.prior == "column" else f", {self.prior} prior"
        return self.candidate.name + prior + ", pruned" * self.pruned


@dataclass(frozen=True)
class Wanted:
    """What the caller fixed; None is chosen by the records."""

    structure: str = "auto"
    states: int | None = None
    neurons: int | None = None
    seed: int = 0
    workers: int = 2
    budget: float | None = None
    prior: str = "auto"

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
        prior = given.get("prior", "auto")
        if prior not in ("auto", *KINDS):
            known = ", ".join(repr(kind) for kind in ("auto", *KINDS))
            raise InputError(f"prior={prior!r}: give one of {known}")
        return Wanted(
            given["structure"],
            given["states"],
            given["neurons"],
            seed,
            workers,
            budget,
            prior,
        )


@dataclass(frozen=True, eq=False)
class Stage:
    """What a listener hears: where the search is.

    ``place`` says it in words, ``left`` is how many seconds are still to come in all.
    """

    name: str
    done: int
    total: int
    place: str = ""
    left: float | None = None


Told = Callable[[Stage], bool]


class StoppedError(Exception):
    """The listener, or the clock, ended the search.

    Attributes
    ----------
    done
        What was finished by then, None for jobs that were not.
    """

    done: Sequence[Any] = ()


@dataclass(frozen=True, eq=False)
class LinearFound:
    """The linear model: one for each fold, and one with nothing hidden."""

    way: Way
    order: int
    member: Member
    folds: list[Member]
    errors: Errors
    # Held-out error by way and order.
    table: dict[Way, dict[int, Errors]]

    @property
    def delays(self) -> tuple[int, ...]:
        """Those of its way."""
        return self.way.delays

    @property
    def name(self) -> str:
        """What tells it from others."""
        parts = ["linear", f"{self.order} states", str(self.way)]
        return ", ".join(part for part in parts if part)


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
    last_samples
        Samples of all final members together, for the time it takes.
    """

    signals: Signals
    seed: int = 0
    workers: int = 2
    told: Told | None = None
    deadline: float = np.inf
    last_samples: float = 0.0
    notes: list[str] = field(default_factory=list)
    trials: list[Trial] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.bases = Bases(self.signals)
        # Whether to stop now; whether something was left out because of that.
        self.stopped = self.cut_short = False
        self.waiting = Waiting()
        # Cost of the winner's members under each kind of prior.
        self.prior_costs: dict[str, float] = {}

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
        ways = [Way(d) for d in sorted({nothing, dead_times(signals)})]
        table = self._linear_errors(ways, orders)
        adding = [
            way._replace(integrator=True)
            for way, row in table.items()
            if row and self._nearly_integrates(way, row)
        ]
        table |= self._linear_errors(adding, orders)
        best = min(e.rms for row in table.values() for e in row.values())
        n, _, way = min(
            (n, e.rms, way)
            for way, row in table.items()
            for n, e in row.items()
            if e.rms <= SIMPLER * best
        )
        whole, *folds = (
            member
            for f in [None, *range(FOLDS)]
            if (member := self.bases.get(way, n, f)) is not None
        )
        return LinearFound(way, n, whole, folds, table[way][n], table)

    def _linear_errors(
        self, ways: Sequence[Way], orders: Sequence[int]
    ) -> dict[Way, dict[int, Errors]]:
        """Return the held-out errors of linear models, by way and order."""
        signals = self.signals
        jobs = [(way, f) for way in ways for f in [None, *range(FOLDS)]]

        def one(job: tuple[Way, int | None]) -> dict[int, Member]:
            return self.bases.fitted(*job, orders)

        for (way, fold), found in zip(
            jobs, self._map("linear models", one, jobs), strict=True
        ):
            self.bases.add(way, fold, found)
        table: dict[Way, dict[int, Errors]] = {}
        for way in ways:
            table[way] = {}
            for n in orders:
                copies = [self.bases.get(way, n, f) for f in range(FOLDS)]
                whole = self.bases.get(way, n, None)
                if whole is None or any(c is None for c in copies):
                    continue
                errors = Errors.none()
                for fold, copy in enumerate(copies):
                    assert copy is not None
                    errors += signals.held_out(copy.outputs(), fold)
                table[way][n] = errors
        return table

    def _nearly_integrates(self, way: Way, row: dict[int, Errors]) -> bool:
        best = min(row, key=lambda n: row[n].rms)
        member = self.bases.get(way, best, None)
        return member is not None and nearly_integrates(member)

    # -- candidates ------------------------------------------------------------------

    def first_candidates(self, linear: LinearFound, wanted: Wanted) -> list[Candidate]:
        """Return what the linear model and the signals suggest, or the caller wants."""
        more: dict[str, Any] = {}
        if wanted.neurons is not None:
            more = {"neurons": wanted.neurons}
        kind = wanted.structure
        signals = self.signals
        found: list[Candidate] = []
        if kind == "cascade" or (kind == "auto" and self._like_a_cascade(linear)):
            ny = signals.outputs
            states = [ny + 1, ny + 2] if wanted.states is None else [wanted.states]
            found += [Cascade(signals, n, **more) for n in states]
        if kind == "even output" or (kind == "auto" and looks_folded(signals)):
            found += self._even(wanted.states, more)
        if kind in ("auto", "linear first"):
            found += [
                LinearFirst(self.bases, way, n, **more)
                for way, n in self._beginnings(linear)
            ]
        return found

    def _beginnings(self, linear: LinearFound) -> list[tuple[Way, int]]:
        """Return ways and orders of linear models to begin at, most promising first.

        The order for a nonlinear model may be larger than what linear models show.
        """
        queues = []
        for way, row in linear.table.items():
            errors = {n: e.rms for n, e in row.items()}
            if not errors:
                continue
            best = min(errors, key=lambda n: errors[n])
            near = min(n for n in errors if errors[n] <= SIMPLER * errors[best])
            orders = [near, best, near + 2]
            if self.signals.samples >= 2000:
                large = sorted((n for n in errors if n >= 6), key=lambda n: errors[n])
                orders += large[:2]
            known = [n for n in dict.fromkeys(orders) if n in errors]
            queues.append((errors[best], [(way, n) for n in known]))
        queues.sort(key=lambda queue: queue[0])
        rounds = zip_longest(*(own for _, own in queues))
        return [pair for row in rounds for pair in row if pair is not None]

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
                LinearFirst(c.bases, c.way, c.order, 6, polynomial=True),
                LinearFirst(c.bases, c.way, c.order, 12),
                LinearFirst(c.bases, c.way, c.order, c.neurons, slow=1),
                LinearFirst(c.bases, c.way, c.order, c.neurons, chain=True),
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
        if not self.cut_short:
            self._go_on(best)
        return best

    def _go_on(self, best: Trial) -> None:
        """Advance the best candidate as long as held-out errors still fall by it."""
        cycles = ROUNDS[-1].cycles
        for k in range(MORE_ROUNDS):
            before, cycles = best.rms, 2 * cycles
            plan = replace(ROUNDS[-1], starts=0, fewer=0, cycles=cycles)
            cost = best.candidate.work * FOLDS * plan.kept * cycles / 2.0
            if cost > EFFORT or not self._advance(f"more cycles {k + 1}", [best], plan):
                break
            best.go_back()
            if best.rms > PAYS * before:
                break

    # -- the race --------------------------------------------------------------------

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
            running = [t for t in running if t.rms <= limit][: plan.most]
        for trial in self.trials:
            trial.go_back()
        return sorted(running, key=lambda t: t.rms)

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
        return plan.fewer if self._costly(trial) else plan.starts

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

    def _to(self, member: Member, cycles: int) -> Member:
        """Advance a member to an age."""
        while member.age < cycles:
            if self.stopped or time.perf_counter() > self.deadline:
                raise StoppedError
            member.cycle(coloured=member.age >= COLOURED_FROM)
            samples = sum(len(run.u) for run in member.runs)
            structure = member.structure
            self.waiting.cycle(
                cycle_work(structure.sizes, structure.parameters, samples)
            )
            if member.age > COLOURED_FROM + 8 and member.settled():
                break
            if not np.isfinite(member.cost):
                break
        return member

    # -- the end ---------------------------------------------------------------------

    def with_prior(self, best: Trial, kind: str) -> Trial:
        """Return a candidate whose members go on under another kind of prior.

        Parameters
        ----------
        kind
            One of `prior_kinds.KINDS`; ``"auto"``: that of the least cost, and only if
            held-out blocks are not the worse for it.
        """
        chosen = kind
        try:
            if kind == "auto":
                first = [members[0] for members in best.members]
                self.prior_costs = costs_of(
                    first,
                    self._to_age,
                    lambda work, jobs: self._map("kinds of prior", work, jobs),
                )
                chosen = preferred(self.prior_costs)
            if chosen == "column":
                return best
            jobs = [(f, m) for f, ms in enumerate(best.members) for m in ms[:LAST_KEPT]]
            found = Trial(best.candidate, prior=chosen)

            def one(job: tuple[int, Member]) -> Member:
                return self._to_age(under(job[1], chosen), CYCLES).rest()

            for (fold, _), member in zip(
                jobs, self._map("prior", one, jobs), strict=True
            ):
                found.members[fold].append(member)
        except StoppedError:
            self.cut_short = True
            return best
        self._held_out(found)
        self.trials.append(found)
        fits = kind != "auto" or found.rms <= best.rms
        return found if fits and found.everywhere else best

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
        attempts = self._attempts(best)
        cycles = PRUNING_SHARE * attempts * PRUNING_CYCLES
        last = LAST_CYCLES * self.last_samples / self.signals.samples
        size = self._size(best)
        self.waiting.plan(len(jobs) * cycles * size, last * size)

        def one(job: tuple[int, Member]) -> Member:
            fold, full = job

            def error(m: Member) -> float:
                return self.signals.held_out(m.outputs(), fold).rms

            most = PRUNED_PRICE * error(full)

            def allowed(fresh: Member, m: Member) -> bool:
                return fresh.cost < m.cost and error(fresh) <= most

            return pruned(full, self._to_age, attempts, allowed).rest()

        found = Trial(best.candidate, pruned=True, full=best.full, prior=best.prior)
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
        self,
        name: str,
        work: Callable[[Job], Done],
        jobs: Sequence[Job],
        whose: Sequence[Trial] = (),
        trials: Sequence[Trial] = (),
    ) -> list[Done]:
        """Do jobs in threads, in order, telling how far they are.

        Parameters
        ----------
        whose, trials
            The candidate of each job, and all candidates of the round.
        """
        with threadpool_limits(1), ThreadPoolExecutor(self.workers) as pool:
            futures = [pool.submit(work, job) for job in jobs]
            left: set[Future[Done]] = set(futures)
            try:
                while left:
                    _, left = wait(left, LISTEN_EVERY, FIRST_COMPLETED)
                    count = len(jobs) - len(left)
                    place = _place(whose, trials, count)
                    stage = Stage(name, count, len(jobs), place, self.waiting.seconds())
                    if self.told is not None and self.told(stage):
                        raise StoppedError
                done = [future.result() for future in futures]
            except BaseException as error:
                self.stopped = True
                for future in futures:
                    future.cancel()
                if isinstance(error, StoppedError):
                    error.done = [_result(future) for future in futures]
                raise
        return done


def _result(future: Future[Done]) -> Done | None:
    """Return what a job gave before the search was stopped, if anything."""
    if not future.done() or future.cancelled() or future.exception() is not None:
        return None
    return future.result()


def _place(whose: Sequence[Trial], trials: Sequence[Trial], done: int) -> str:
    """Return which candidate is under way, in words."""
    if not whose:
        return ""
    trial = whose[min(done, len(whose) - 1)]
    return f"candidate {list(trials).index(trial) + 1} of {len(trials)}, {trial.name}"
