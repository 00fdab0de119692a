"""The linear model: which inputs come late, how many states it takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sparsid.simulation.arx import dead_times
from sparsid.simulation.candidates import Way
from sparsid.simulation.linear import LARGEST, LARGEST_MIMO, nearly_integrates
from sparsid.simulation.member import Member
from sparsid.simulation.signals import FOLDS, Errors
from sparsid.simulation.work import Work

# A linear model may be so much worse than the best and be taken for its lower order.
SIMPLER = 1.02


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


class LinearSearch(Work):
    """The part of a search that finds the linear model."""

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
        late = self.listening("dead times", lambda s: dead_times(s, self.over), signals)
        ways = [Way(d) for d in sorted({nothing, late})]
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
            jobs, self._map("linear models", one, jobs, ends=False), strict=True
        ):
            self.bases.add(way, fold, found)
        self.cut_short |= self.over()
        table: dict[Way, dict[int, Errors]] = {}
        for way in ways:
            table[way] = {}
            for n in orders:
                known = all(self.bases.known(way, n, f) for _, f in jobs)
                if not known and any(table.values()) and self.over():
                    continue
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
