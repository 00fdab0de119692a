"""From the one-step fit of a network to its free run, by the same evidence.

The network that one-step training has pruned goes on to minimise the error of its own
run: over the whole record, or over windows that each have their own start outputs. A
network that predicts well may still run away, so the run is first pulled towards the
measured outputs, by less and less (:mod:`sparsid.models.narx_feedback`). Steps,
variances and noise are those of :mod:`sparsid.fitting.batch_descent`, with one member:
each is taken only if the cost falls. What comes out is never worse, by its own cost,
than what went in.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from sparsid.bayes.cost import Problem, State
from sparsid.bayes.curvature import WHOLE
from sparsid.bayes.curvature.pieces import scales, unflatten
from sparsid.bayes.noise import Noise
from sparsid.bayes.objective import FreeRun
from sparsid.bayes.posterior import Posterior, of_system
from sparsid.bayes.run_priors import start_outputs_prior
from sparsid.bayes.variance_rules import SparseBayes
from sparsid.data.runs import Runs
from sparsid.fitting import batch_descent, pruning, saliency
from sparsid.fitting.course import Course, Look, Stopped, Window
from sparsid.fitting.narx_one_step import Found, by_part
from sparsid.fitting.narx_windows import Windows, check_size
from sparsid.fitting.settings import Settings
from sparsid.models.narx import Recursion
from sparsid.models.narx_feedback import Feedback
from sparsid.models.network import REGRESSORS
from sparsid.progress import ProgressCallback
from sparsid.results.outcome import Outcome

# By how much a run is first pulled towards what was measured, the gain below which it
# may be let go, and the cycles at each gain.
FIRST_GAIN, SMALLEST_GAIN, EASING = 0.5, 0.005, 5
# From gain to gain: the factor to begin with, and the one that leads nowhere.
SHRINK, LARGEST_SHRINK = 0.4, 0.97
# Steps of the weights between two updates.
STEPS = 2
# The coloured part of the noise at the start: its innovations, in units of the one-step
# noise, and the logarithm of the odds of its correlation.
START_INNOVATION, START_PHI = 1e-4, 2.0
# Looks for the noise of the one-step network's own run.
NOISE_LOOKS = 20
# Cycles from one leap of the noise to the next.
LEAP_EVERY = 5
# Cycles over which the fall of the cost is judged.
WINDOW = 6
# A row is proposed for removal if that raises the fitted cost by less. The evidence
# gains a few units for every weight that goes.
LARGEST_RISE = 10.0
# A removal gets so many cycles to win the cost back.
REFIT_CYCLES = 4


class Refined(NamedTuple):
    """The result of one start; the noise of its state is AR(1) plus white.

    Attributes
    ----------
    posterior
        That of the weights.
    starts, start_std
        Start outputs of every window, (window, lag, output), the latest first, and
        their deviations, scaled.
    """

    found: Found
    posterior: Posterior
    starts: NDArray[np.float64]
    start_std: NDArray[np.float64]


def refine(
    found: Found,
    recursion: Recursion,
    windows: Windows,
    settings: Settings,
    total: int,
    progress: ProgressCallback | None = None,
) -> Refined:
    """Return the network of a one-step fit, fitted to its free run.

    Parameters
    ----------
    recursion
        Where the regressors that are left come from.
    total
        Weights before any pruning, biases not counted.
    progress
        Called after every cycle; if it returns True the fit ends there.
    """
    return _RunFit(found, recursion, windows, settings, total, progress).run()


class _RunFit:
    """The second stage of a start; the network's weights are the *head* of a state."""

    def __init__(
        self,
        found: Found,
        recursion: Recursion,
        windows: Windows,
        settings: Settings,
        total: int,
        progress: ProgressCallback | None,
    ) -> None:
        self.before, self.windows = found, windows
        self.settings, self.total = settings, total
        self.course = Course(settings.max_cycles, progress, found.seconds)
        self.model = Feedback(found.network, recursion, len(windows.starts))
        check_size(self.model, windows, settings.memory_limit)
        self.problem = Problem(FreeRun(self.model), WHOLE)
        self.rule = SparseBayes()
        self.descent: batch_descent.Members
        self.data: Runs
        self.ways = batch_descent.DIRECTIONS
        self.structures = int(found.history["structure"][-1])
        self.start = self._start()
        self._pull(0.0, self.start)
        for _ in range(NOISE_LOOKS if np.isfinite(self._cost()) else 0):
            self.descent = batch_descent.update_noise(
                self.problem, self.descent, self.data
            )
        self.first = self.descent

    @property
    def ceiling(self) -> float:
        """The cost that nothing may exceed: that of the one-step network's own run."""
        return float(np.nan_to_num(self.first.cost[0], nan=np.inf))

    def run(self) -> Refined:
        """Return what the phases lead to, or what there was when stopped."""
        outcome = self.before.outcome
        try:
            if outcome not in (Outcome.STOPPED, Outcome.DIVERGED):
                self._ease_in()
                outcome = self._converge()
                if self.settings.prune and outcome is Outcome.CONVERGED:
                    self._prune()
                    outcome = self._converge()
        except Stopped:
            outcome = Outcome.STOPPED
            self._let_go()
        return self._finish(outcome)

    # -- the course of a run -------------------------------------------------------

    def _start(self) -> State:
        """Return the one-step network, its noise with a coloured part."""
        white = jnp.asarray(self.before.state.noise)
        noise = Noise(
            jnp.log(white),
            jnp.log(START_INNOVATION * white),
            jnp.full(len(white), START_PHI, float),
        )
        head = self.before.state._replace(noise=noise)
        return self._with_starts(head, self.windows.starts)

    def _ease_in(self) -> None:
        """Go from the one-step prediction to the free run, gain by smaller gain.

        Each gain begins where the last one ended. Where the run would run away, the
        next gain is nearer.
        """
        self.ways = batch_descent.WHITE_ALONE
        gain, shrink = FIRST_GAIN, SHRINK
        self._pull(gain, self.start)
        while shrink < LARGEST_SHRINK and self.course.cycles < self.settings.max_cycles:
            for _ in range(EASING):
                self._cycle("ease in")
            here, data = self.descent, self.data
            smaller = shrink * gain if gain > SMALLEST_GAIN else 0.0
            self._pull(smaller, here.state)
            if np.isfinite(self._cost()):
                gain, shrink = smaller, max(SHRINK, shrink**2)
            else:
                self.descent, self.data, shrink = here, data, shrink**0.5
            if gain == 0.0:
                break
        self.ways = batch_descent.DIRECTIONS
        self._let_go()

    def _let_go(self) -> None:
        """Let the network run alone; from where it began if that is better."""
        self._pull(0.0, self.descent.state)
        if not self._cost() <= self.ceiling:
            self.descent = self.first

    def _pull(self, gain: float, state: State) -> None:
        """Go on from a state with the run pulled by a gain."""
        data = self.windows.runs(gain)
        self.data = data._replace(measured=data.measured[None])
        self.descent = self._begun(state)
        self.structures += 1

    def _converge(self) -> Outcome:
        """Cycle until the cost falls by less than the tolerance, window by window."""
        window = Window(WINDOW)

        def cycle() -> None:
            if not len(window.costs) % LEAP_EVERY:
                self._look_far()
            self._cycle("fit run")

        return self.course.run(cycle, self._look, window)

    def _look(self) -> Look:
        """Return where the fit is."""
        cost = self._cost()
        end = None if np.isfinite(cost) else Outcome.DIVERGED
        return Look(cost, self.settings.tolerance, end=end)

    def _cycle(self, phase: str) -> None:
        self._descend()
        head, starts = self._here()
        settings = self.settings
        cut = pruning.threshold(head, settings.kappa_upsilon, settings.kappa_w)
        cut = pruning.clear_dead(self.model.network, cut)
        if _live(cut) != _live(head):
            self._adopt(cut, starts)
        self._record(phase)

    def _descend(self) -> None:
        """Take some steps, update variances and noise."""
        problem, data = self.problem, self.data
        for _ in range(STEPS):
            self.descent = batch_descent.take_step(problem, self.descent, data)
        self.descent = batch_descent.update(
            problem, self.rule, self.descent, data, self.ways
        )

    def _look_far(self) -> None:
        """Look for the noise in leaps: one part may have vanished, and be missed."""
        ones = jnp.ones_like(self.descent.stride)
        found = batch_descent.update_noise(
            self.problem,
            self.descent._replace(stride=ones),
            self.data,
            batch_descent.LEAPS,
        )
        self.descent = found._replace(stride=self.descent.stride)

    # -- structure -----------------------------------------------------------------

    def _prune(self) -> None:
        """Remove rows and weights as long as the evidence agrees."""
        share = 1.0
        while self.course.cycles < self.settings.max_cycles:
            head, starts = self._here()
            C = self._posterior().covariance
            assert C is not None
            order = saliency.candidates(head, C)
            order = [c for c in order if c.chi2 <= LARGEST_RISE]
            chosen = order[: int(np.ceil(share * len(order)))]
            if not chosen:
                return
            network = self.model.network
            if self._refitted(*saliency.remove(network, head, starts, C, chosen)):
                share = 1.0
            elif len(chosen) == 1:
                return
            else:
                share = len(chosen) / len(order) / 2.0

    def _refitted(self, head: State, starts: NDArray[np.float64]) -> bool:
        """Adopt a pruned state if a short refit brings the cost back, else keep."""
        before = self.descent
        most = min(self._cost() + self.settings.largest_rise, self.ceiling)
        self._adopt(head, starts)
        for _ in range(REFIT_CYCLES):
            if self._cost() <= float(before.cost[0]):
                break
            self._descend()
        better = self._cost() <= most
        if not better:
            self.descent = before
            self.structures -= 1
        self._record("prune run")
        return better

    def _adopt(self, head: State, starts: NDArray[np.float64]) -> None:
        """Go on from a state with weights removed."""
        self.descent = self._begun(self._with_starts(head, starts))
        self.structures += 1

    # -- pieces --------------------------------------------------------------------

    def _with_starts(self, head: State, starts: NDArray[np.float64]) -> State:
        """Return the state of network and start outputs, as the only member."""
        state = State(
            (*head.params, starts),
            (*head.prior, start_outputs_prior(self.model)),
            head.noise,
        )
        # Of one type throughout: programs are compiled for types as well.
        member: State = jax.tree.map(
            lambda leaf: jnp.asarray(np.asarray(leaf, float))[None], state
        )
        return member

    def _begun(self, state: State) -> batch_descent.Members:
        return batch_descent.begin(self.problem, state, self.data, 1.0)

    def _here(self) -> tuple[State, NDArray[np.float64]]:
        """Return the network's state and the start outputs, in NumPy."""
        state: State = jax.tree.map(
            lambda leaf: np.asarray(leaf[0]), self.descent.state
        )
        head = state._replace(params=state.params[:-1], prior=state.prior[:-1])
        return head, state.params[-1]

    def _cost(self) -> float:
        return float(self.descent.cost[0])

    def _posterior(self) -> Posterior:
        """Return the posterior of weights and start outputs."""
        B, prior = jax.tree.map(
            lambda leaf: np.asarray(leaf[0]),
            (self.descent.at.system, self.descent.state.prior),
        )
        return of_system(B, np.concatenate([np.ravel(s) for s in scales(prior)]))

    # -- bookkeeping ---------------------------------------------------------------

    def _record(self, phase: str) -> None:
        """Keep the history, tell the caller, stop if asked."""
        head, _ = self._here()
        network, cost = self.model.network, self._cost()
        kept = pruning.kept_weights(network, head)
        noise = np.asarray(head.noise.white + head.noise.coloured)
        gamma = self.descent.at.gamma
        assert gamma is not None
        figures = {
            "cost": cost,
            "log_evidence": -0.5 * cost,
            "kept": sum(kept) / self.total,
            "effective_weights": float(sum(g.rows.sum() for g in gamma[:-1])),
            "damping": float(self.descent.damping[0]),
            "structure": float(self.structures),
            "rows": float(self.windows.samples),
            "seconds": self.course.seconds,
        }
        figures |= by_part(network, kept, noise)
        self.course.record(phase, figures, noise)

    def _finish(self, outcome: Outcome) -> Refined:
        if not np.isfinite(self._cost()):
            outcome = Outcome.DIVERGED
        head, starts = self._here()
        network, model = self.model.network, self.model
        head = pruning.clear_dead(network, head)
        smaller, shrunk, chosen = pruning.shrink(network, head, exact=True)
        joint = self._posterior()
        C, std = joint.covariance, joint.std
        assert C is not None
        # Where the weights that are left were among all.
        places = unflatten(np.arange(len(std) - starts.size), head.params)
        left = pruning.shrink(network, head._replace(params=places), exact=True)[
            1
        ].params
        at = np.concatenate([np.ravel(place) for place in left]).astype(int)
        kept = sum(pruning.kept_weights(smaller, shrunk))
        if kept == 0 and outcome is not Outcome.STOPPED:
            outcome = Outcome.PRUNED
        found = self.before._replace(
            network=smaller,
            state=shrunk,
            columns=self.before.columns[chosen[REGRESSORS]],
            log_evidence=-0.5 * self._cost(),
            cost=self._cost(),
            outcome=outcome,
            history={
                name: np.append(values, self.course.history.get(name, []))
                for name, values in self.before.history.items()
            },
            weights_kept=kept,
            seconds=self.course.seconds,
        )
        shape = (len(starts), model.recursion.output_lags, model.outputs)
        return Refined(
            found,
            Posterior(std[at], C[np.ix_(at, at)], joint.prior_std[at]),
            starts.reshape(shape),
            std[len(std) - starts.size :].reshape(shape),
        )


def _live(state: State) -> list[bytes]:
    """Return which weights are left, to compare."""
    return [live.tobytes() for live in pruning.live_weights(state)]
