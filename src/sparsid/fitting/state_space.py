"""From records and settings to an ensemble fitted to the free run."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from sparsid.arrays import Array
from sparsid.bayes.cost import Problem, State
from sparsid.bayes.curvature import WHOLE
from sparsid.bayes.noise import Noise
from sparsid.bayes.objective import FreeRun
from sparsid.bayes.posterior import of_system
from sparsid.bayes.prior import Prior, resolve_kinds
from sparsid.bayes.run_priors import state_space_prior
from sparsid.bayes.variance_rules import SparseBayes
from sparsid.data.pieces import runs_of, stretches_of
from sparsid.data.record import Record, value_range
from sparsid.data.runs import Runs
from sparsid.data.scaling import Scaling
from sparsid.errors import InputError
from sparsid.fitting import batch_descent
from sparsid.fitting.course import Course, Look, Stopped, Window
from sparsid.fitting.member_batches import run_apart, split
from sparsid.fitting.pruning import threshold
from sparsid.fitting.state_space_structure import (
    StateSettings,
    check_size,
    prepared,
    structure_of,
)
from sparsid.models.network import Params
from sparsid.models.state_space import StateNetwork
from sparsid.parallel.pool import Pool
from sparsid.progress import ProgressCallback
from sparsid.results.channels import Channels
from sparsid.results.ensemble import Ensemble
from sparsid.results.ensemble_runs import member_runs
from sparsid.results.forecast import BandFactors
from sparsid.results.outcome import Outcome

# Noise at the start: logarithms of scaled variances, and of the odds of phi.
START_NOISE = (-3.0, -4.5, 2.0)
# Cycles before the variances are first updated, and before the log-determinant counts:
# at the start it would hold the weights where they say little.
SETTLING, WARM_UP = 3, 10
# Steps of the weights between two updates.
STEPS = 2
# Cycles over which the fall of the cost is judged.
WINDOW = 6
# A member whose error over what it learnt from is so many times that of the best member
# came to a poor end, and is dropped, unless that is small in deviations of the outputs.
# The best two are kept in any case: how far members are apart tells how certain they
# are.
POOR, NEAR = 1.5, 0.02
# A group whose prior variance is below this has vanished.
VANISHED = 1e-8


def fit_free_run(
    params: dict[str, Any],
    records: list[Record],
    progress: ProgressCallback | None = None,
    pool: Pool | None = None,
) -> Ensemble:
    """Return the ensemble fitted to the free-run error over all records.

    Parameters
    ----------
    params
        The estimator's settings by name.
    pool
        Does it, the members in as many groups as it has hands; None: this process.
    """
    settings, stretches = prepared(params, records)
    check_size(settings, stretches)
    scaling = Scaling.of(stretches)
    with jax.enable_x64(True):
        data = runs_of(stretches, scaling)
        model, notes = structure_of(settings, stretches, scaling)
        everything = np.repeat(data.measured[None], settings.starts, axis=0)
        run = StateSpaceFit(
            model, data._replace(measured=everything), settings, progress
        )
        if pool is None:
            outcome, found = run.run(), run.found()
        else:
            groups = [run.part(g) for g in split(settings.starts, pool.size)]
            ((parts, outcome, found, failure),) = run_apart([groups], pool, progress)
            if failure is not None:
                raise failure
            run.join(parts)
        fitted = run.finish(found, outcome, Channels.of(records), scaling, notes)
    return described(fitted, records)


def described(fitted: Ensemble, records: list[Record]) -> Ensemble:
    """Return an ensemble with what is told of it and of the records it learnt from."""
    stretches, scaling = stretches_of(records), fitted.scaling
    with jax.enable_x64(True):
        data = runs_of(stretches, scaling)
        runs = np.asarray(member_runs(fitted.model, fitted.params, data.u))
    y, measured = np.asarray(data.y), np.asarray(data.measured)
    squares = (np.median(runs, axis=0) - y) ** 2 * measured
    mean = squares.sum((0, 1)) / measured.sum((0, 1))
    outcome = fitted.outcome
    if outcome is Outcome.CONVERGED and not np.sqrt(mean).max() < 1.0:
        outcome = Outcome.POOR
    details = {
        **fitted.details,
        "free_run_rmse": scaling.unscale_y_std(np.sqrt(mean)).tolist(),
        "samples": sum(len(r) for r in records),
        "records": len(records),
        "segments": len(stretches),
        "range": value_range(stretches),
    }
    return replace(fitted, details=details, outcome=outcome)


class _Member(NamedTuple):
    """What became of one start."""

    number: int
    params: Params
    noise: Noise
    covariance: NDArray[np.float64]
    prior_std: NDArray[np.float64]
    cost: float
    kept: int


class StateSpaceFit:
    """One fit of all starts together, or of those with some numbers.

    Can be pickled between two runs, to go on elsewhere.
    """

    def __init__(
        self,
        model: StateNetwork,
        data: Runs,
        settings: StateSettings,
        progress: ProgressCallback | None = None,
        *,
        phase: str = "free run",
        numbers: range | None = None,
    ) -> None:
        self.model, self.data, self.settings = model, data, settings
        self.phase = phase
        self.numbers = range(settings.starts) if numbers is None else numbers
        self.course = Course(settings.max_cycles, progress)
        self.window = Window(WINDOW)
        self.problem = Problem(FreeRun(model), WHOLE)
        self.rule = SparseBayes()
        self.total = self._weights(self._prior())
        self.costs: list[NDArray[np.float64]] = []
        self.descent: batch_descent.Members | None = None

    def __getstate__(self) -> dict[str, Any]:
        kept = {**vars(self), "data": jax.device_get(self.data)}
        if self.descent is not None:
            kept["descent"] = jax.device_get(_bare(self.descent))
        return kept

    @property
    def cycles(self) -> int:
        """Cycles so far."""
        return self.course.cycles

    @property
    def progress(self) -> ProgressCallback | None:
        """Called after every cycle; if it returns True the fit ends there."""
        return self.course.progress

    @progress.setter
    def progress(self, callback: ProgressCallback | None) -> None:
        self.course.progress = callback

    def run(self, least: int = 0) -> Outcome:
        """Cycle until the cost of every member has settled.

        Parameters
        ----------
        least
            Cycles before which they do not count as settled.
        """
        self.descent = self._present()
        # Costs before the log-determinant counts are another measure, and settle
        # nothing.
        least = max(least, WARM_UP + 1)
        try:
            return self.course.run(self._cycle, self._look, self.window, least=least)
        except Stopped:
            return Outcome.STOPPED

    def _cycle(self) -> None:
        """Take some steps, update variances and noise, record it."""
        assert self.descent is not None
        d, problem, data, cycle = self.descent, self.problem, self.data, self.cycles
        if cycle == WARM_UP:
            d = batch_descent.count_volume(problem, d, data, 1.0)
        for _ in range(STEPS):
            d = batch_descent.take_step(problem, d, data)
        ways = batch_descent.DIRECTIONS if cycle % 2 else None
        if cycle >= SETTLING:
            d = batch_descent.update(problem, self.rule, d, data, ways)
        elif ways is not None:
            d = batch_descent.update_noise(problem, d, data, ways)
        self.descent = d
        self._record()

    def _look(self) -> Look:
        """Return where the members are."""
        assert self.descent is not None
        counted = float(self.descent.volume)
        return Look(self.descent.cost, self.settings.tolerance, counted)

    def _present(self) -> batch_descent.Members:
        """Return where the members are: at their start, or where they were left."""
        d = self.descent
        if d is None:
            return batch_descent.begin(self.problem, self._start(), self.data, 0.0)
        if d.at is None:
            return batch_descent.count_volume(self.problem, d, self.data, d.volume)
        return d

    def part(self, numbers: range) -> StateSpaceFit:
        """Return the fit of some of the members, which has not begun."""
        measured = self.data.measured[numbers.start : numbers.stop]
        data = self.data._replace(measured=measured)
        return StateSpaceFit(
            self.model, data, self.settings, phase=self.phase, numbers=numbers
        )

    def join(self, parts: list[StateSpaceFit]) -> None:
        """Take over the course that the members of all parts have gone together."""
        begun = [part for part in parts if part.cycles]
        for cycle in range(min((part.cycles for part in begun), default=0)):
            self.costs.append(np.concatenate([part.costs[cycle] for part in begun]))
            at = [
                {name: values[cycle] for name, values in part.course.history.items()}
                for part in begun
            ]
            best = at[_lowest(np.array([figures["cost"] for figures in at]))]
            best["seconds"] = max(figures["seconds"] for figures in at)
            self.course.keep(best)

    def _start(self) -> State:
        """Return random weights, the prior and the noise of the starts."""
        model = self.model
        params = _random_weights(
            model, self.settings.seed, np.array(self.numbers), self.data.y[:, 0]
        )
        noise = Noise(*(np.full(model.outputs, value) for value in START_NOISE))
        same = jax.tree.map(
            lambda leaf: np.repeat(np.asarray(leaf)[None], len(self.numbers), axis=0),
            (self._prior(), noise),
        )
        state: State = jax.tree.map(jnp.asarray, State(params, *same))
        return state

    def _prior(self) -> Prior:
        kinds = resolve_kinds(self.settings.prior, self.model.network)
        return state_space_prior(self.model, kinds)

    def _record(self) -> None:
        """Keep the best member's history, tell the caller, stop if asked."""
        assert self.descent is not None
        cost, state = self.descent.cost, self.descent.state
        self.costs.append(cost)
        best = _lowest(cost)
        noise, prior = jax.tree.map(
            lambda leaf: np.asarray(leaf)[best], (state.noise, state.prior)
        )
        figures = {
            "cost": float(cost[best]),
            "kept": self._weights(prior) / self.total,
            "structure": float(len(self.costs) > WARM_UP),
            "seconds": self.course.seconds,
        }
        variance = np.asarray(noise.white + noise.coloured)
        self.course.record(self.phase, figures, variance)

    def found(self) -> list[_Member]:
        """Return the usable members."""
        d = self._present()
        if d.volume != 1.0:
            d = batch_descent.count_volume(self.problem, d, self.data, 1.0)
        usable = []
        for k in np.flatnonzero(np.isfinite(d.cost)):
            state: State = jax.tree.map(lambda leaf, k=k: np.asarray(leaf)[k], d.state)
            state = threshold(state, VANISHED, 0.0)
            std = np.concatenate([np.sqrt(p.variances()).ravel() for p in state.prior])
            posterior = of_system(np.asarray(d.at.system[k]), std)
            usable.append(
                _Member(
                    self.numbers[k],
                    state.params,
                    state.noise,
                    np.asarray(posterior.covariance),
                    posterior.prior_std,
                    float(d.cost[k]),
                    self._weights(state.prior),
                )
            )
        return usable

    def finish(
        self,
        found: list[_Member],
        outcome: Outcome,
        channels: Channels,
        scaling: Scaling,
        notes: list[str],
        asked: range | None = None,
    ) -> Ensemble:
        """Return the members as one model, all or those with the numbers asked for."""
        asked = self.numbers if asked is None else asked
        found = [member for member in found if member.number in asked]
        found = self._good(found)
        if not found:
            raise InputError(
                "no start led to a finite cost: check the record for outliers, or use "
                "fewer states or neurons"
            )
        _, params, noise, covariances, prior_stds, costs, kept = zip(
            *found, strict=True
        )
        return Ensemble(
            channels,
            scaling,
            self.model,
            tuple(np.stack(w) for w in zip(*params, strict=True)),
            Noise(*(np.stack(c) for c in zip(*noise, strict=True))),
            np.stack(covariances),
            np.stack(prior_stds),
            -0.5 * np.array(costs),
            self.settings.start_samples,
            len(asked) - len(found),
            BandFactors.none(self.model.outputs),
            float(np.mean(kept)),
            self.total,
            outcome,
            self.course.arrays(),
            {"notes": notes},
        )

    def _good(self, found: list[_Member]) -> list[_Member]:
        """Return the members without those that came to a poor end."""
        if len(found) < 2:
            return found
        params = tuple(
            np.stack(w) for w in zip(*(m.params for m in found), strict=True)
        )
        runs = np.asarray(member_runs(self.model, params, self.data.u))
        own = [member.number - self.numbers.start for member in found]
        measured = np.asarray(self.data.measured)[own]
        squares = (runs - np.asarray(self.data.y)) ** 2 * measured
        error = np.sqrt(squares.sum((1, 2, 3)) / measured.sum((1, 2, 3)))
        best, second = np.sort(error)[:2]
        good = error <= np.nanmax([POOR * best, second, NEAR])
        return [member for member, keep in zip(found, good, strict=True) if keep]

    def _weights(self, prior: Prior) -> int:
        """Return how many weights are left: leaks, start states, biases are none."""
        present = [p.variances() >= VANISHED for p in prior[:-2]]
        pairs = zip(present, prior[:-2], strict=True)
        return sum(int((m[:-1] if p.bias else m).sum()) for m, p in pairs)


# -- pieces --------------------------------------------------------------------------


@partial(jax.jit, static_argnames="model")
def _random_weights(model: StateNetwork, seed: int, numbers: Array, y: Array) -> Params:
    """Return the weights that starts with some numbers begin with."""
    first = jnp.nan_to_num(y)

    def one(number: Array) -> Params:
        key = jax.random.fold_in(jax.random.key(seed), number)
        return model.init(first, key=key)

    return jax.vmap(one)(numbers)


def _bare(descent: batch_descent.Members) -> batch_descent.Members:
    """Return the members without the evaluation: it is large, and soon done again."""
    nothing: Any = None
    return descent._replace(at=nothing)


def _lowest(cost: NDArray[np.float64]) -> int:
    """Return which cost is the lowest; one that is not a number never is."""
    return int(np.argmin(np.nan_to_num(cost, nan=np.inf)))
