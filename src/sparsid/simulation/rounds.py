"""The rounds of the race, and a candidate on its way through them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from sparsid.simulation.candidates import Candidate
from sparsid.simulation.member import Member
from sparsid.simulation.signals import FOLDS, Errors


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
# An evaluation with more multiplications than this is costly: about 10 ms. One with
# fewer than this is cheap, and twice as many members are begun.
COSTLY, CHEAP = 35e6, 8e6
# Multiplications that a round may take: half a minute, about, on two cores. Candidates
# are left out, the least promising first, until it does; one is always tried.
EFFORT_FIRST, EFFORT = 400e9, 250e9
# Multiplications a second and thread that a time budget counts on.
SPEED = 2e9
# The winner goes on for twice as many cycles, so often at most, while its held-out
# error falls to this share.
MORE_ROUNDS, PAYS = 3, 0.93


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
