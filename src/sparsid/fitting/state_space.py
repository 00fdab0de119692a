"""From records and settings to an ensemble fitted to the free run."""

from __future__ import annotations

import time
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
from sparsid.bayes.variance_rules import SparseBayes
from sparsid.data.pieces import runs_of, stretches_of
from sparsid.data.record import Record, value_range
from sparsid.data.runs import Runs
from sparsid.data.scaling import Scaling
from sparsid.errors import InputError
from sparsid.fitting import batch_descent
from sparsid.fitting.member_groups import run_apart, split
from sparsid.fitting.outcome import Outcome
from sparsid.fitting.progress import Progress, Report
from sparsid.fitting.pruning import threshold
from sparsid.fitting.state_space_structure import (
    StateSettings,
    check_size,
    prepared,
    structure_of,
)
from sparsid.models.network import Params
from sparsid.models.state_space import StateNetwork
from sparsid.parallel.pool import Crew
from sparsid.results.ensemble import Ensemble, member_runs
from sparsid.results.forecast import BandFactors, Channels

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
    report: Report | None = None,
    crew: Crew | None = None,
) -> Ensemble:
    """Return the ensemble fitted to the free-run error over all records.

    Parameters
    ----------
    params
        The estimator's settings by name.
    crew
        Does it, the members in as many groups as it has hands; None: this process.
    """
    settings, stretches = prepared(params, records)
    check_size(settings, stretches)
    scaling = Scaling.of(stretches)
    with jax.enable_x64(True):
        data = runs_of(stretches, scaling)
        model, notes = structure_of(settings, stretches, scaling)
        everything = np.repeat(data.measured[None], settings.starts, axis=0)
        run = FreeRunFit(model, data._replace(measured=everything), settings, report)
        if crew is None:
            outcome, found = run.run(), run.found()
        else:
            groups = [run.part(g) for g in split(settings.starts, crew.size)]
            ((parts, outcome, found, failure),) = run_apart([groups], crew, report)
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


class FreeRunFit:
    """One fit of all starts together, or of those with some numbers.

    Can be pickled between two runs, to go on elsewhere.
    """

    def __init__(
        self,
        model: StateNetwork,
        data: Runs,
        settings: StateSettings,
        report: Report | None = None,
        *,
        phase: str = "free run",
        numbers: range | None = None,
    ) -> None:
        self.model, self.data, self.settings = model, data, settings
        self.phase = phase
        self.numbers = range(settings.starts) if numbers is None else numbers
        self.report, self.spent = report, 0.0
        self.problem = Problem(FreeRun(model), WHOLE)
        self.rule = SparseBayes()
        self.total = self._weights(self._prior())
        self.costs: list[NDArray[np.float64]] = []
        self.history: dict[str, list[float]] = {}
        self.descent: batch_descent.Descent | None = None

    def __getstate__(self) -> dict[str, Any]:
        kept = {**vars(self), "report": None, "data": jax.device_get(self.data)}
        if self.descent is not None:
            kept["descent"] = jax.device_get(_bare(self.descent))
        return kept

    @property
    def cycles(self) -> int:
        """Cycles so far."""
        return len(self.costs)

    def run(self, least: int = 0) -> Outcome:
        """Cycle until the cost of every member has settled.

        Parameters
        ----------
        least
            Cycles before which they do not count as settled.
        """
        self.began = time.perf_counter() - self.spent
        outcome = self._cycle(least)
        self.spent = time.perf_counter() - self.began
        return outcome

    def _cycle(self, least: int) -> Outcome:
        settings, problem, data = self.settings, self.problem, self.data
        self.descent = self._present()
        for cycle in range(self.cycles, settings.max_cycles):
            if cycle == WARM_UP:
                self.descent = batch_descent.count_volume(
                    problem, self.descent, data, 1.0
                )
            for _ in range(STEPS):
                self.descent = batch_descent.take_step(problem, self.descent, data)
            ways = batch_descent.DIRECTIONS if cycle % 2 else None
            if cycle >= SETTLING:
                self.descent = batch_descent.update(
                    problem, self.rule, self.descent, data, ways
                )
            elif ways is not None:
                self.descent = batch_descent.update_noise(
                    problem, self.descent, data, ways
                )
            if self._told():
                return Outcome.STOPPED
            if self.cycles >= least and self._settled():
                return Outcome.CONVERGED
        return Outcome.CYCLES

    def _present(self) -> batch_descent.Descent:
        """Return where the members are: at their start, or where they were left."""
        d = self.descent
        if d is None:
            return batch_descent.begin(self.problem, self._start(), self.data, 0.0)
        if d.at is None:
            return batch_descent.count_volume(self.problem, d, self.data, d.volume)
        return d

    def part(self, numbers: range) -> FreeRunFit:
        """Return the fit of some of the members, which has not begun."""
        measured = self.data.measured[numbers.start : numbers.stop]
        data = self.data._replace(measured=measured)
        return FreeRunFit(
            self.model, data, self.settings, phase=self.phase, numbers=numbers
        )

    def join(self, parts: list[FreeRunFit]) -> None:
        """Take over the course that the members of all parts have gone together."""
        begun = [part for part in parts if part.cycles]
        for cycle in range(min((part.cycles for part in begun), default=0)):
            self.costs.append(np.concatenate([part.costs[cycle] for part in begun]))
            at = [
                {name: values[cycle] for name, values in part.history.items()}
                for part in begun
            ]
            best = at[_lowest(np.array([figures["cost"] for figures in at]))]
            best["seconds"] = max(figures["seconds"] for figures in at)
            for name, value in best.items():
                self.history.setdefault(name, []).append(value)

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
        return self.model.start_prior(kinds)

    def _told(self) -> bool:
        """Keep the best member's history, tell the caller; return whether to stop."""
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
            "seconds": time.perf_counter() - self.began,
        }
        for name, value in figures.items():
            self.history.setdefault(name, []).append(value)
        if self.report is None:
            return False
        progress = Progress(
            self.phase,
            len(self.costs),
            self.settings.max_cycles,
            figures["cost"],
            np.asarray(noise.white + noise.coloured),
            figures["kept"],
            figures["seconds"],
        )
        return bool(self.report(progress))

    def _settled(self) -> bool:
        if len(self.costs) <= WARM_UP + WINDOW:
            return False
        # A member without a finite cost goes nowhere, and is dropped at the end.
        finite = np.isfinite(self.costs[-1])
        fall = (self.costs[-1 - WINDOW] - self.costs[-1])[finite]
        return bool((fall < WINDOW * self.settings.tolerance).all())

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
            {name: np.array(values) for name, values in self.history.items()},
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


def _bare(descent: batch_descent.Descent) -> batch_descent.Descent:
    """Return the members without the evaluation: it is large, and soon done again."""
    nothing: Any = None
    return descent._replace(at=nothing)


def _lowest(cost: NDArray[np.float64]) -> int:
    """Return which cost is the lowest; one that is not a number never is."""
    return int(np.argmin(np.nan_to_num(cost, nan=np.inf)))
