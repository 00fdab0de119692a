"""The identification of one network: warm up, fold, prune, converge.

The paper's Algorithm 1 alternates a re-weighted fit, an update of the variances and
pruning by thresholds. On networks that over-fits and hardly prunes, so the default
(``algorithm="guarded"``) differs in three ways, described in ``docs/method.md``:
steps descend the *full* cost, log-determinant included; redundant neurons are folded
into each other after a short warm-up; removals are kept only if the evidence agrees.
``algorithm="paper"`` is the plain form.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from sparsid.arrays import PLAINLY, Array
from sparsid.bayes.cost import State, log_evidence
from sparsid.bayes.curvature import APPROXIMATE, Curvature, choose
from sparsid.bayes.objective import Regression
from sparsid.bayes.prior import start_prior
from sparsid.bayes.variance_rules import Norm, SparseBayes
from sparsid.fitting import pruning
from sparsid.fitting.descent import Descent
from sparsid.fitting.progress import History
from sparsid.fitting.settings import Settings
from sparsid.models.network import REGRESSORS, Network, Params
from sparsid.progress import Progress, ProgressCallback
from sparsid.results.outcome import Outcome

# Variance of the noise at the start, of standardised outputs. A cold start at the true
# noise stalls, at the output's variance it is slow.
START_NOISE = 0.01
# Rebuild the arrays when no more than this share of the weights' space is left: each
# rebuild may cost a compilation.
WORTH_SHRINKING = 0.8
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
# Beyond so many samples the tolerance grows with them: the same share of the noise.
MANY_SAMPLES = 10_000


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


class _Stop(Exception):  # noqa: N818
    """The caller asked for an end."""


def identify(
    network: Network,
    data: Regression,
    settings: Settings,
    *,
    key: Array,
    report: ProgressCallback | None = None,
) -> Found:
    """Return the network identified from one random start.

    Parameters
    ----------
    report
        Called after every cycle; if it returns True the fit ends there.
    """
    run = Identification(network, data, settings, key=key, report=report)
    return run.run()


class Identification:
    """One run, from random weights to a pruned network."""

    def __init__(
        self,
        network: Network,
        data: Regression,
        settings: Settings,
        *,
        key: Array,
        report: ProgressCallback | None = None,
    ) -> None:
        self.settings, self.report = settings, report
        self.total = network.weights
        self.columns = np.arange(network.axes[REGRESSORS])
        self.began = time.perf_counter()
        self.structures = 0
        self.folded = False
        self.asked = settings.curvature
        self.approximated: list[str] = []
        self.history = History()
        params = _random_weights(network, key)
        prior = start_prior(network, settings.kinds)
        prior = settings.rule.start(prior, params, len(data.y))
        noise = settings.noise
        if noise is None:
            level = START_NOISE if settings.rule.learns_noise else 1.0
            noise = np.full(data.y.shape[1], level)
        self.rows = data
        self.descent = self._descent(network, data, State(params, prior, noise))
        if not settings.prune:
            # All rows at full width: refuse at once what does not fit in memory.
            _ = self.descent.problem

    @property
    def cycles(self) -> int:
        """Cycles so far."""
        return len(self.history)

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
        except _Stop:
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

    @contextmanager
    def _part_of_rows(self, most: int) -> Iterator[None]:
        """Work on some of the rows, if there are many.

        The cost of a wide network grows with the square and cube of the rows.
        """
        self._use_rows(_spread(len(self.rows.y), most))
        try:
            yield
        finally:
            self._use_rows(np.arange(len(self.rows.y)))

    def _use_rows(self, chosen: NDArray[np.intp]) -> None:
        if len(chosen) == len(self.descent.data.y):
            return
        d = self.descent
        z, y = np.asarray(self.rows.z), np.asarray(self.rows.y)
        part = Regression(z[chosen][:, self.columns], y[chosen])
        self.descent = self._descent(d.network, part, d.state, damping=d.damping)

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
        costs, name = [self._judged_cost()], self._curvature_name
        limit = self.settings.max_cycles if until is None else until
        while self.cycles < limit:
            self._cycle(phase, steps)
            if self._curvature_name != name:
                # Costs of another curvature are no measure of this one's.
                costs, name = [], self._curvature_name
            costs.append(self._judged_cost())
            if not self._kept():
                return Outcome.PRUNED
            if len(costs) > WINDOW:
                fall = costs[-1 - WINDOW] - costs[-1]
                if fall < WINDOW * self._tolerance:
                    return Outcome.CONVERGED
        return Outcome.CYCLES

    @property
    def _tolerance(self) -> float:
        """The fall of the cost in a cycle that no longer counts."""
        samples = int(self.descent.data.y.size)
        return self.settings.tolerance * max(1.0, samples / MANY_SAMPLES)

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

    def _fold(self) -> None:
        """Fold redundant neurons into the others."""
        network, state = self._here()
        data = self._some_rows()
        tolerance = self.settings.fold_tolerance
        self._adopt(pruning.fold_redundant(network, state, data, tolerance))
        self._shrink()
        self.folded = True

    def _thresholded(self) -> State:
        network, state = self._here()
        settings = self.settings
        cut = pruning.threshold(state, settings.kappa_upsilon, settings.kappa_w)
        return pruning.sweep(network, cut)

    def _here(self) -> tuple[Network, State]:
        """Return network and state as the moves want them, in NumPy."""
        return self.descent.network, jax.device_get(self.descent.state)

    def _some_rows(self) -> Regression:
        """Return the data that changes of structure are worked out on.

        Of very many rows, some spread over all; the evidence is asked about all.
        """
        data = self.descent.data
        chosen = _spread(len(data.y), self.settings.settling_rows)
        if len(chosen) < len(data.y):
            data = Regression(data.z[chosen], data.y[chosen])
        found: Regression = jax.device_get(data)
        return found

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

    def _shrink(self) -> None:
        """Rebuild smaller arrays if that saves enough."""
        wide, state = self._here()
        network, state, chosen = pruning.shrink(wide, state)
        if _size(network) > WORTH_SHRINKING * _size(wide):
            return
        self.columns = self.columns[chosen[REGRESSORS]]
        data = self.descent.data
        data = Regression(data.z[:, chosen[REGRESSORS]], data.y)
        self.descent = self._descent(network, data, state, damping=self.descent.damping)

    def _adopt(self, state: State) -> bool:
        """Go on from a state with weights removed; return whether there are any."""
        d = self.descent
        before = pruning.live_weights(jax.device_get(d.state))
        after = pruning.live_weights(state)
        if all(np.array_equal(a, b) for a, b in zip(before, after, strict=True)):
            return False
        self.descent = self._descent(d.network, d.data, state, damping=d.damping)
        return True

    # -- bookkeeping ---------------------------------------------------------------

    def _descent(
        self, network: Network, data: Regression, state: State, **more: float
    ) -> Descent:
        s, asked = self.settings, self.asked
        self.structures += 1

        def curvature() -> Curvature:
            # Without a log-determinant a product bound of the variances serves too.
            product = "row+column" if s.rule.volume == 0.0 else "added"
            kinds = tuple(product if p.kind == "added" else p.kind for p in state.prior)
            rows = data.y.size
            chosen = choose(asked, s.form, network, kinds, rows, s.memory_limit)
            approximate = chosen.name in APPROXIMATE and s.curvature == "auto"
            if approximate and chosen.name not in self.approximated:
                self.approximated.append(chosen.name)
            return chosen

        return Descent(
            network,
            curvature,
            jax.tree.map(jnp.asarray, data),
            s.rule,
            jax.tree.map(jnp.asarray, state),
            evidence_steps=s.algorithm == "guarded",
            fixed_noise=s.noise is not None,
            **more,
        )

    @property
    def _curvature_name(self) -> str:
        return self.descent.problem.curvature.name

    def _kept(self) -> int:
        network, state = self._here()
        return sum(pruning.kept_weights(network, state))

    def _full_cost(self) -> float:
        """Return the cost with the log-determinant, whatever the steps count."""
        d = self.descent
        extra = (d.rule.volume - d.weights.volume) * float(d.at.log_det)
        return d.cost + extra

    def _judged_cost(self) -> float:
        """Return the cost in units of -2 log likelihood, noise learnt or not.

        With noise and penalty in a fixed ratio the best noise for both has the cost
        ``N log(||r||^2 + penalty)``.
        """
        d = self.descent
        if d.rule.learns_noise or d.fixed_noise:
            return self._full_cost()
        constant = len(d.data.y) * float(np.log(2 * np.pi * d.state.noise).sum())
        return float(d.data.y.size * np.log(max(d.cost - constant, 1e-300)))

    def _record(self, phase: str) -> None:
        """Keep the history, tell the caller, stop if asked."""
        d = self.descent
        network, state = self._here()
        kept = pruning.kept_weights(network, state)
        self.history.add(
            d,
            cost=self._full_cost(),
            kept={b.name: n for b, n in zip(network.blocks, kept, strict=True)},
            total=self.total,
            structure=self.structures,
            seconds=time.perf_counter() - self.began,
        )
        if self.report is None:
            return
        progress = Progress(
            phase,
            self.cycles,
            self.settings.max_cycles,
            self.history.last("cost"),
            state.noise,
            self.history.last("kept"),
            self.history.last("seconds"),
        )
        if self.report(progress):
            raise _Stop

    def _finish(self, outcome: Outcome) -> Found:
        d = self.descent
        if not np.isfinite(d.cost):
            outcome = Outcome.DIVERGED
        network, state = self._here()
        state = pruning.sweep(network, state)
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
            self.history.arrays(),
            kept,
            time.perf_counter() - self.began,
            self._curvature_name,
            tuple(self.approximated),
        )


@partial(jax.jit, static_argnames="network", compiler_options=PLAINLY)
def _random_weights(network: Network, key: Array) -> Params:
    """Return the weights that a run begins with."""
    return network.init(key=key)


def _spread(rows: int, most: int) -> NDArray[np.intp]:
    """Return all rows, or so many spread over them."""
    return np.linspace(0, rows - 1, min(most, rows)).round().astype(np.intp)


def _size(network: Network) -> int:
    return sum(n * m for n, m in network.shapes)
