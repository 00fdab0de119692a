"""The search: linear models first, then candidates that race on held-out blocks.

What is tried in which order. The members of the winner then go on with nothing hidden.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import zip_longest
from typing import Any

import numpy as np

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
from sparsid.simulation.evidence import Run
from sparsid.simulation.linear_search import SIMPLER, LinearFound, LinearSearch
from sparsid.simulation.member import Member
from sparsid.simulation.prior_kinds import CYCLES, costs_of, preferred, under
from sparsid.simulation.pruning import pruned
from sparsid.simulation.race import LAST_CYCLES, LAST_KEPT, Race
from sparsid.simulation.rounds import EFFORT, MORE_ROUNDS, PAYS, ROUNDS, Trial
from sparsid.simulation.signals import FOLDS
from sparsid.simulation.waiting import PRUNING_CYCLES, PRUNING_SHARE
from sparsid.simulation.wanted import Wanted
from sparsid.simulation.work import StoppedError

# A pruned model may be so much worse in held-out blocks.
PRUNED_PRICE = 1.02
# A member whose held-out error is so many times the best of its fold is left out.
WORSE = 1.3


class Search(LinearSearch, Race):
    """A search over one set of signals."""

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
        turned = signed(self.signals, delays, 3, self.over)
        if turned is None:
            return []
        bases = Bases(turned, self.over)
        orders = (2, 3, 4) if states is None else (states,)
        return [EvenOutput(self.signals, bases, delays, n, **more) for n in orders]

    def best(self, linear: LinearFound, wanted: Wanted) -> Trial | None:
        """Return the best candidate; None if there was no time for any."""
        found = self.listening(
            "candidates", lambda w: self.first_candidates(linear, w), wanted
        )
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

            few = pruned(full, self._to_age, attempts, allowed, check=self._check)
            return few.rest()

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
