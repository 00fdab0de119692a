"""The identification of one network: warm up, fold, prune, converge.

The paper's Algorithm 1 alternates a re-weighted fit, an update of the variances and
pruning by thresholds. On networks that over-fits and hardly prunes, so the default
(``algorithm="guarded"``) differs in three ways, described in ``docs/method.md``:
steps descend the *full* cost, log-determinant included; redundant neurons are folded
into each other after a short warm-up; removals are kept only if the evidence agrees.
``algorithm="paper"`` is the plain form.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparsid.arrays import Array
from sparsid.bayes.cost import State, log_evidence
from sparsid.bayes.curvature import APPROXIMATE
from sparsid.bayes.objective import Regression
from sparsid.bayes.variance_rules import Norm, SparseBayes
from sparsid.fitting import pruning
from sparsid.fitting.course import Course, Look, Stopped, Window
from sparsid.fitting.settings import Settings
from sparsid.fitting.working_network import WorkingNetwork
from sparsid.models.network import REGRESSORS, Network
from sparsid.progress import ProgressCallback
from sparsid.results.outcome import Outcome

# At most this share of the rows is proposed for removal at once.
LARGEST_SHARE = 0.5
SHARE_GROWTH = 1.3
# A removal gets so many cycles, of so many steps, to win the cost back.
REFIT_CYCLES, REFIT_STEPS = 6, 2
# The paper's algorithm: most steps of one re-weighted fit, and where it counts as done,
# in terms of the tolerance of the whole.
FIT_STEPS = 50
FIT_TOLERANCE = 0.1
# Cycles over which the fall of the cost is judged.
WINDOW = 5


class Found(NamedTuple):
    """The result of one start, in scaled units.

    ``curvature`` is that of the cost and of the evidence; ``approximated`` are those
    that had to do on the way for want of memory.
    """

    network: Network
    state: State
    columns: NDArray[np.intp]
    log_evidence: float
    cost: float
    outcome: Outcome
    history: dict[str, NDArray[np.float64]]
    weights_kept: int
    seconds: float
    curvature: str
    approximated: tuple[str, ...]


def fit_one_step(
    network: Network,
    data: Regression,
    settings: Settings,
    *,
    key: Array,
    progress: ProgressCallback | None = None,
) -> Found:
    """Return the network identified from one random start.

    Parameters
    ----------
    progress
        Called after every cycle; if it returns True the fit ends there.
    """
    run = OneStepFit(network, data, settings, key=key, progress=progress)
    return run.run()


class OneStepFit(WorkingNetwork):
    """One fit, from random weights to a pruned network."""

    def __init__(
        self,
        network: Network,
        data: Regression,
        settings: Settings,
        *,
        key: Array,
        progress: ProgressCallback | None = None,
    ) -> None:
        self.course = Course(settings.max_cycles, progress)
        super().__init__(network, data, settings, key=key)
        if not settings.prune:
            # All rows at full width: refuse at once what does not fit in memory.
            _ = self.descent.problem

    @property
    def cycles(self) -> int:
        """Cycles so far."""
        return self.course.cycles

    # -- the course of a run -------------------------------------------------------

    def run(self) -> Found:
        """Return what the phases lead to, or what there was when stopped."""
        try:
            if self.settings.algorithm == "paper":
                outcome = self._algorithm_1()
            elif isinstance(self.settings.rule, SparseBayes):
                outcome = self._guarded()
            else:
                outcome = self._conventional()
        except Stopped:
            outcome = Outcome.STOPPED
            unfinished = not self.descent.evaluated and not self.folded
            if unfinished and self.settings.prune:
                # Stopped at full width on part of the rows: all rows need it folded.
                self._fold()
        return self._finish(outcome)

    def _guarded(self) -> Outcome:
        """Warm up, fold, settle, prune, converge."""
        settings = self.settings
        self._warm_up()
        if settings.prune:
            self._fold()
        with self._part_of_rows(settings.settling_rows):
            self._cycles("settle", settings.warm_up, steps=2)
            if len(self.descent.data.y) < len(self.rows.y):
                # What part of the rows can tell need not be learnt from all.
                self._converge("settle")
        if not settings.prune:
            return self._converge("converge")
        self._prune()
        return self._converge("converge")

    def _warm_up(self) -> None:
        """Learn the rough shape at full width; folding needs no more than that."""
        with self._part_of_rows(self.settings.warm_up_rows):
            self._cycles("warm up", self.settings.warm_up, steps=1)

    def _conventional(self) -> Outcome:
        """Fit at fixed penalty; norms first on part of the rows, where groups die."""
        if isinstance(self.settings.rule, Norm):
            with self._part_of_rows(self.settings.warm_up_rows):
                self._converge("fit part", until=self.settings.max_cycles // 2)
        return self._converge("fit")

    def _algorithm_1(self) -> Outcome:
        """Fit to convergence, update, prune by thresholds, up to ``max_cycles``."""
        settings = self.settings
        previous = np.inf
        for _ in range(settings.max_cycles):
            for _ in range(FIT_STEPS):
                if self.descent.step() < FIT_TOLERANCE * self._tolerance:
                    break
            self.descent.update()
            self._adopt(self._thresholded())
            self._record("algorithm 1")
            if not self._kept():
                return Outcome.PRUNED
            cost = self._full_cost()
            if abs(previous - cost) < self._tolerance:
                return Outcome.CONVERGED
            previous = cost
        return Outcome.CYCLES

    def _converge(self, phase: str, until: int | None = None) -> Outcome:
        """Cycle until the cost falls by less than the tolerance, window by window."""
        steps = 1 if isinstance(self.settings.rule, Norm) else self.settings.steps

        def cycle() -> None:
            self._cycle(phase, steps)

        return self.course.run(cycle, self._look, Window(WINDOW), limit=until)

    def _look(self) -> Look:
        """Return where the fit is; costs of two curvatures are not comparable."""
        end = None if self._kept() else Outcome.PRUNED
        measure = self._curvature_name
        return Look(self._judged_cost(), self._tolerance, measure, end)

    def _cycles(self, phase: str, count: int, steps: int) -> None:
        """Run some cycles, within the limit."""
        for _ in range(min(count, self.settings.max_cycles - self.cycles)):
            self._cycle(phase, steps)

    def _cycle(self, phase: str, steps: int) -> None:
        """Take some steps, update variances and noise, apply thresholds."""
        for _ in range(steps):
            self.descent.step()
        self.descent.update()
        if self._adopt(self._thresholded()):
            self._shrink()
        self._record(phase)

    # -- structure -----------------------------------------------------------------

    def _prune(self) -> None:
        """Remove shares of rows and neurons as long as the evidence agrees."""
        share = LARGEST_SHARE
        while self.cycles < self.settings.max_cycles:
            network, state = self._here()
            data = self._some_rows()
            share_of_rows = len(data.y) / len(self.descent.data.y)
            order = pruning.candidates(network, state, data)
            few = order[: max(1, int(share * len(order)))]
            largest = self.settings.largest_chi2 * share_of_rows
            chosen = [c for c in few if c.chi2 <= largest]
            if not chosen:
                return
            state = pruning.remove(network, state, data, chosen)
            if self._refitted(state):
                share = min(LARGEST_SHARE, SHARE_GROWTH * share)
            elif len(chosen) == 1:
                return
            else:
                share = len(chosen) / len(order) / 2.0

    def _refitted(self, state: State) -> bool:
        """Adopt a pruned state if a short refit brings the cost back, else keep."""
        d = self.descent
        before = d, self.columns, self.structures
        # Costs are compared by one and the same curvature.
        self.asked = self._curvature_name
        self.descent = self._descent(d.network, d.data, state, damping=d.damping)
        self._shrink()
        trial = self.descent
        for _ in range(REFIT_CYCLES):
            if trial.cost < d.cost:
                break
            for _ in range(REFIT_STEPS):
                trial.step()
            trial.update()
        agreed = trial.cost <= d.cost + self.settings.largest_rise
        self.asked = self.settings.curvature
        if not agreed:
            self.descent, self.columns, self.structures = before
        elif trial.problem.curvature.name in APPROXIMATE:
            # What is left may fit in an exact form.
            self.descent = self._descent(
                trial.network, trial.data, trial.state, damping=trial.damping
            )
        self._record("prune")
        return agreed

    # -- bookkeeping ---------------------------------------------------------------

    def _record(self, phase: str) -> None:
        """Keep the history, tell the caller, stop if asked."""
        d, (network, state) = self.descent, self._here()
        kept = pruning.kept_weights(network, state)
        at, rows = d.at, len(d.data.y)
        effective = 0.0 if at.gamma_outputs is None else float(at.gamma_outputs.sum())
        figures = {
            "cost": self._full_cost(),
            "log_evidence": log_evidence(d.rule, at, np.asarray(state.noise), rows),
            "kept": sum(kept) / self.total,
            "effective_weights": effective,
            "damping": d.damping,
            "structure": float(self.structures),
            "rows": float(rows),
            "seconds": self.course.seconds,
        }
        figures |= by_part(network, kept, state.noise)
        self.course.record(phase, figures, state.noise)

    def _finish(self, outcome: Outcome) -> Found:
        d = self.descent
        if not np.isfinite(d.cost):
            outcome = Outcome.DIVERGED
        network, state = self._here()
        state = pruning.clear_dead(network, state)
        network, state, chosen = pruning.shrink(network, state, exact=True)
        kept = sum(pruning.kept_weights(network, state))
        if kept == 0 and outcome is not Outcome.STOPPED:
            outcome = Outcome.PRUNED
        return Found(
            network,
            state,
            self.columns[chosen[REGRESSORS]],
            log_evidence(d.rule, d.at, d.state.noise, len(d.data.y)),
            self._full_cost(),
            outcome,
            self.course.arrays(),
            kept,
            self.course.seconds,
            self._curvature_name,
            tuple(self.approximated),
        )


def by_part(
    network: Network, kept: Sequence[int], noise: ArrayLike
) -> dict[str, float]:
    """Return figures of every output and weight block, by name."""
    figures = {f"noise{k}": float(v) for k, v in enumerate(np.asarray(noise), 1)}
    pairs = zip(network.blocks, kept, strict=True)
    return figures | {f"kept_{block.name}": float(count) for block, count in pairs}
