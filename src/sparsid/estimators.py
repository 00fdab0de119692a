"""The estimator a user meets: constructor, fit, predict, simulate, summary, save."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from sparsid.data.record import Record
from sparsid.data.tables import as_records
from sparsid.errors import InputError
from sparsid.fitting.narx import fit_records
from sparsid.fitting.outcome import Outcome
from sparsid.fitting.progress import Report
from sparsid.fitting.state_space import fit_free_run
from sparsid.parallel.pool import hire
from sparsid.results.ensemble import Ensemble
from sparsid.results.forecast import Forecast
from sparsid.results.narx import Fitted
from sparsid.results.simulator import FittedSimulator
from sparsid.simulation.fit import fit_simulator
from sparsid.simulation.search import Wanted
from sparsid.validation.scores import fit_percent

# What `score` gives a free run that diverged: finite, and below any run that did not.
DIVERGED_SCORE = -1000.0

F = TypeVar("F", Fitted, Ensemble, FittedSimulator)


class Estimator(BaseEstimator, Generic[F]):  # type: ignore[misc]
    """What all models have in common: one interface, whatever is inside."""

    fitted_: F

    def fit(
        self,
        u: Any,
        y: Any = None,
        *,
        dt: float | None = None,
        progress: Report | None = None,
        scheduler: str | None = None,
    ) -> Self:
        """Fit the model and return it.

        Parameters
        ----------
        u
            A record, several records, or inputs as array, Series or DataFrame.
        y
            Outputs, if ``u`` is inputs. DataFrames whose index has jumps count as
            separate records: no regressor crosses a jump.
        dt
            Sampling time of arrays; records carry theirs.
        progress
            Called after every cycle with a ``Progress``; returning True ends the fit
            with the best model so far.
        scheduler
            Address of a Dask scheduler whose workers do the starts, as in
            ``"tcp://host:8786"``. An argument of the fit and not of the model: where
            the work was done changes nothing about the model or its file.
        """
        records = as_records(u, y, dt)
        self.fitted_ = self._fit(records, progress, scheduler)
        return self

    def score(self, u: Any, y: Any = None) -> float:
        """Return the free-run fit ``1 - ||y - y_sim|| / ||y - mean(y)||``.

        1 is perfect, 0 no better than the mean. The mean over outputs and gap-free
        stretches, each counting alike; a run that diverges counts -1000. The first
        samples only start the run; stretches not longer than the largest lag are left
        out.
        """
        scores = []
        for record in as_records(u, y, self._fitted.channels.dt):
            for segment in record.segments():
                if len(segment) > self.max_lag_ + 1:
                    run = self._fitted.simulate(segment, samples=0)
                    fit = np.asarray(fit_percent(segment, run)) / 100.0
                    scores.append(np.maximum(fit, DIVERGED_SCORE))
        if not scores:
            raise InputError(
                f"no stretch is longer than the largest lag of {self.max_lag_}: give a "
                "longer record"
            )
        return float(np.mean(scores))

    def summary(self) -> str:
        """Return what was identified, as text."""
        from sparsid.results.summary import summary

        return summary(self._fitted)

    def save(self, path: str | Path, *, overwrite: bool = True) -> None:
        """Write the model to one self-contained file."""
        from sparsid.results.storage import save

        save(self, path, overwrite=overwrite)

    def report(self, records: Any, path: str | Path, **options: Any) -> Any:
        """Write a self-contained HTML page about the model on records.

        Returns the `Diagnosis` that it shows; see `sparsid.report.write_report` for
        the options.
        """
        from sparsid.report import write_report

        check_is_fitted(self, "fitted_")
        return write_report(self, records, path, **options)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        """Return what a notebook shows: the summary of a fitted model."""
        if not hasattr(self, "fitted_"):
            return {"text/plain": repr(self)}
        from html import escape

        text = self.summary()
        return {"text/plain": text, "text/html": f"<pre>{escape(text)}</pre>"}

    # -- learnt attributes ---------------------------------------------------------

    @property
    def _fitted(self) -> F:
        check_is_fitted(self, "fitted_")
        return self.fitted_

    @property
    def kept_(self) -> float:
        """Share of the weights kept, biases not counted."""
        return self._fitted.weights_kept / self._fitted.weights_total

    @property
    def noise_std_(self) -> NDArray[np.float64]:
        """Estimated noise standard deviation per output, in its unit."""
        return self._fitted.noise_std

    @property
    def outcome_(self) -> Outcome:
        """How the fit ended."""
        return self._fitted.outcome

    @property
    def history_(self) -> dict[str, NDArray[np.float64]]:
        """Cost, noise, kept share and evidence, cycle by cycle."""
        return self._fitted.history

    @property
    def max_lag_(self) -> int:
        """Number of measured outputs that start a run."""
        raise NotImplementedError

    # -- what models differ in -----------------------------------------------------

    def _fit(
        self, records: list[Record], progress: Report | None, scheduler: str | None
    ) -> F:
        raise NotImplementedError

    def _one_record(self, u: Any, y: Any) -> Record:
        records = as_records(u, y, self._fitted.channels.dt)
        if len(records) > 1:
            raise InputError(
                f"{len(records)} records were given, or a table whose index jumps: "
                "predict them one by one"
            )
        return records[0]


class NARX(Estimator[Fitted]):
    """Nonlinear model ``y(t) = f(u(t), ..., y(t-1), ...)``, pruned by the evidence.

    The network sees ``u(t - delay), ..., u(t - delay - input_lags)`` and ``y(t-1), ...,
    y(t - output_lags)`` of every channel. Its weights are fitted to the one-step error,
    or then to the error of a free run, under a Gaussian prior whose variances are
    learnt by maximising the evidence.

    Parameters
    ----------
    lags
        Largest lag of inputs and outputs.
    hidden
        Widths of the hidden layers before pruning; ``()`` is a linear model.
    input_lags, output_lags
        Separate lags; default ``lags``. ``output_lags=0`` is a nonlinear FIR model.
    delay
        Samples before an input can act; 0 includes ``u(t)``.
    activation
        ``"tanh"``, ``"sigmoid"``, ``"softroot"`` or ``"relu"``. The evidence does not
        see where the kinks of ReLU lie: do not compare activations by evidence alone.
    linear_path
        Add a linear path from regressors to outputs.
    prior
        ``"shape"``, ``"row"``, ``"column"``, ``"row+column"`` or ``"added"``; or one
        for each layer. See `sparsid.bayes.prior`, also for the biases. Group lasso
        takes its groups from it; ridge and lasso have their own.
    method
        ``"sparse-bayes"``, or one of those it is compared with: ``"none"``,
        ``"ridge"``, ``"lasso"``, ``"group-lasso"``.
    strength
        The paper's ``lambda``. Sparse Bayes: a multiplier, 1 is the evidence. Ridge,
        lasso: the weight of the penalty against half the mean squared error of
        standardised outputs.
    algorithm
        ``"guarded"``: steps that lower the full evidence cost, folding, checked
        removals. ``"paper"``: the plain Algorithm 1 with its two thresholds.
    curvature
        ``"gauss-newton"``, ``"layer-gauss-newton"``, ``"layer-hessian"`` (exact), or
        approximations that need little memory: ``"kronecker"``, ``"diagonal"``.
        ``"auto"`` is Gauss-Newton, or where that does not fit in memory one of these.
    form
        ``"auto"``, ``"primal"``, ``"blockwise"`` (primal, some rows at a time),
        ``"dual"`` or ``"gram"``.
    noise_std
        Fix the noise standard deviation, in the outputs' units; None estimates it.
    prune
        Fold and remove neurons and regressors (sparse Bayes, guarded). Without it only
        vanishing groups go.
    kappa_upsilon, kappa_w
        Thresholds on prior variance and weight, in scaled units; None: 1e-4 both for
        the paper's algorithm, practically zero otherwise.
    max_cycles, tolerance
        End of the fit: so many cycles, or a cost (-2 log evidence, or -2 log
        likelihood with the penalty) that falls by less per cycle; None: 1 for sparse
        Bayes, 0.05 for the other methods, for each ten thousand samples if there are
        more. A fit to the free run counts its own cycles.
    starts
        Random starts; the one with the best evidence is kept.
    workers
        Starts at once; None uses every core.
    memory_limit
        Gigabytes that the curvature may take.
    objective
        ``"one-step"``; ``"simulation"``: the network that is left is then fitted to its
        own free run over each record, with AR(1) plus white noise at the output;
        ``"windows"``: to runs over parts of it that each have fitted start outputs.
    window
        Most samples of a window; None: ten times the largest lag.
    seed
        Makes results repeatable.
    """

    def __init__(
        self,
        lags: int = 5,
        hidden: Sequence[int] = (100, 100),
        *,
        input_lags: int | None = None,
        output_lags: int | None = None,
        delay: int = 0,
        activation: str = "tanh",
        linear_path: bool = False,
        prior: str | Sequence[str] = "row+column",
        method: str = "sparse-bayes",
        strength: float | None = None,
        algorithm: str = "guarded",
        curvature: str = "auto",
        form: str = "auto",
        noise_std: float | Sequence[float] | None = None,
        prune: bool = True,
        kappa_upsilon: float | None = None,
        kappa_w: float | None = None,
        max_cycles: int = 500,
        tolerance: float | None = None,
        starts: int = 1,
        workers: int | None = None,
        memory_limit: float = 4.0,
        objective: str = "one-step",
        window: int | None = None,
        seed: int = 0,
    ) -> None:
        self.lags = lags
        self.hidden = hidden
        self.input_lags = input_lags
        self.output_lags = output_lags
        self.delay = delay
        self.activation = activation
        self.linear_path = linear_path
        self.prior = prior
        self.method = method
        self.strength = strength
        self.algorithm = algorithm
        self.curvature = curvature
        self.form = form
        self.noise_std = noise_std
        self.prune = prune
        self.kappa_upsilon = kappa_upsilon
        self.kappa_w = kappa_w
        self.max_cycles = max_cycles
        self.tolerance = tolerance
        self.starts = starts
        self.workers = workers
        self.memory_limit = memory_limit
        self.objective = objective
        self.window = window
        self.seed = seed

    def _fit(
        self, records: list[Record], progress: Report | None, scheduler: str | None
    ) -> Fitted:
        return fit_records(self.get_params(deep=False), records, progress, scheduler)

    def predict(
        self,
        u: Any,
        y: Any = None,
        *,
        horizon: int = 1,
        samples: int = 100,
        seed: int = 0,
        sampled: bool = False,
    ) -> Forecast:
        """Return predictions ``horizon`` samples ahead of the measured outputs.

        Parameters
        ----------
        u
            A record, or inputs with the measured outputs as ``y``.
        samples, seed
            Draws behind the standard deviation more than one step ahead; 0: none.
        sampled
            Draw weights and send them through the network itself, one step ahead too;
            by default they go through its linearisation, exactly so one step ahead.
        """
        record = self._one_record(u, y)
        return self._fitted.predict(
            record, horizon, samples=samples, seed=seed, sampled=sampled
        )

    def simulate(
        self,
        u: Any,
        y_init: Any = None,
        *,
        samples: int = 100,
        seed: int = 0,
        sampled: bool = False,
    ) -> Forecast:
        """Return the free run over a record, or over inputs alone.

        Parameters
        ----------
        u
            A record: the run starts from its first measured outputs. Or inputs.
        y_init
            Measured outputs that start a run over inputs; without them it starts as
            the estimation record started.
        samples, seed
            Draws of weights and noise behind the standard deviation.
        """
        return self._fitted.simulate(
            u, y_init, samples=samples, seed=seed, sampled=sampled
        )

    @property
    def log_evidence_(self) -> float:
        """Log evidence of the standardised outputs; NaN for methods without one."""
        return self._fitted.log_evidence

    @property
    def regressors_(self) -> tuple[str, ...]:
        """Names of the regressors kept."""
        return self._fitted.regressor_names

    @property
    def max_lag_(self) -> int:
        """Number of samples before the first that can be predicted."""
        return self._fitted.lags.max_lag


class StateSpace(Estimator[Ensemble]):
    """Latent-state model fitted to the free-run error, an ensemble of many starts.

    ``x+ = decay x + rate (C' x + B' u + net([x; u]))``, the first states are the
    outputs. Bounded input, bounded run, whatever the weights. Residuals are taken as
    AR(1) plus white noise, so that a slow disturbance does not count as a thousand
    facts. All starts are members; the model's run is their median.

    Parameters
    ----------
    states
        Number of states, at least that of the outputs; None: one more.
    hidden
        Widths of the hidden layers of the network.
    activation
        ``"softroot"``, nothing on one side and a root on the other; ``"tanh"`` or
        ``"sigmoid"``: those that grow less than in proportion.
    prior
        Prior of the network's layers, as for ``NARX``.
    saturation
        ``"auto"`` models an output that stays at exactly its extreme value as
        saturated there; ``"none"`` does not.
    start_samples
        Measured outputs from which the start of a run over a record is settled.
    max_cycles, tolerance
        End of the fit: so many cycles, or a cost (-2 log evidence) that falls by less
        per cycle for every member.
    starts
        Members.
    seed
        Makes results repeatable.
    """

    def __init__(
        self,
        states: int | None = None,
        hidden: Sequence[int] = (6,),
        *,
        activation: str = "softroot",
        prior: str | Sequence[str] = "row+column",
        saturation: str = "auto",
        start_samples: int = 20,
        max_cycles: int = 100,
        tolerance: float = 0.5,
        starts: int = 16,
        seed: int = 0,
    ) -> None:
        self.states = states
        self.hidden = hidden
        self.activation = activation
        self.prior = prior
        self.saturation = saturation
        self.start_samples = start_samples
        self.max_cycles = max_cycles
        self.tolerance = tolerance
        self.starts = starts
        self.seed = seed

    def _fit(
        self, records: list[Record], progress: Report | None, scheduler: str | None
    ) -> Ensemble:
        params = self.get_params(deep=False)
        if scheduler is None:
            return fit_free_run(params, records, progress)
        with hire(scheduler) as crew:
            return fit_free_run(params, records, progress, crew)

    def predict(self, u: Any, y: Any = None, *, horizon: int = 1) -> Forecast:
        """Return predictions ``horizon`` samples ahead of the measured outputs.

        Parameters
        ----------
        u
            A record, or inputs with the measured outputs as ``y``.
        """
        return self._fitted.predict(self._one_record(u, y), horizon)

    def simulate(
        self,
        u: Any,
        y_init: Any = None,
        *,
        samples: int = 100,
        seed: int = 0,
        sampled: bool = False,
    ) -> Forecast:
        """Return the free run over a record, or over inputs alone.

        Parameters
        ----------
        u
            A record: the start state is fitted to its first outputs. Or inputs: the run
            starts from the state in which the first estimation record started.
        y_init
            Measured outputs that settle the start of a run over inputs.
        samples, seed
            Draws of weights, start states and noise behind the standard deviation; 0:
            none.
        """
        return self._fitted.simulate(
            u, y_init, samples=samples, seed=seed, sampled=sampled
        )

    @property
    def log_evidence_(self) -> float:
        """Log evidence of the best member, of the standardised outputs."""
        return float(np.max(self._fitted.log_evidence))

    @property
    def members_(self) -> Ensemble:
        """The members; ``members_.member(k)`` is one of them."""
        return self._fitted

    @property
    def max_lag_(self) -> int:
        """Number of measured outputs that start a run."""
        return int(self._fitted.known)


class Simulator(Estimator[FittedSimulator]):
    """Model fitted to its free run, linear first, kind and size by held-out blocks.

    ``x+ = A x + B u + E n, y = C x + D u + G n`` with neurons ``n = phi(F x + H u)``,
    every input with its own dead time, poles of A inside the unit circle. The linear
    model comes first and stays if nothing is clearly better in blocks of the records
    that were not learnt from.

    Parameters
    ----------
    structure
        ``"auto"``; ``"linear"``; ``"linear first"``, neurons beside a linear model;
        ``"cascade"``, leaky states in a row that may saturate; ``"even output"``, a
        filtered modulus.
    states, neurons
        Fix their number; None: chosen.
    budget
        Seconds that the fit may take, about; None: as long as it takes.
    workers
        Threads; None: one for every core.
    seed
        Makes results repeatable.
    """

    def __init__(
        self,
        structure: str = "auto",
        states: int | None = None,
        neurons: int | None = None,
        *,
        budget: float | None = None,
        workers: int | None = None,
        seed: int = 0,
    ) -> None:
        self.structure = structure
        self.states = states
        self.neurons = neurons
        self.budget = budget
        self.workers = workers
        self.seed = seed

    def _fit(
        self, records: list[Record], progress: Report | None, scheduler: str | None
    ) -> FittedSimulator:
        if scheduler is not None:
            raise InputError(
                "scheduler: a simulator is fitted in threads of this computer; leave "
                "it out"
            )
        return fit_simulator(records, Wanted.checked(self.get_params()), progress)

    def predict(self, u: Any, y: Any = None, *, horizon: int = 1) -> Forecast:
        """Return predictions ``horizon`` samples ahead of the measured outputs.

        Parameters
        ----------
        u
            A record, or inputs with the measured outputs as ``y``.
        """
        return self._fitted.predict(self._one_record(u, y), horizon)

    def simulate(
        self,
        u: Any,
        y_init: Any = None,
        *,
        samples: int = 100,
        seed: int = 0,
        sampled: bool = False,
    ) -> Forecast:
        """Return the free run over a record, or over inputs alone.

        Parameters
        ----------
        u
            A record: the start state is fitted to its first outputs. Or inputs: the run
            starts from the state in which the first estimation record started.
        y_init
            Measured outputs that settle the start of a run over inputs.
        samples, seed, sampled
            ``samples=0``: no standard deviation. With ``sampled`` it is that of so many
            runs with drawn parameters; else of the linearised model, without drawing.
        """
        return self._fitted.simulate(
            u, y_init, samples=samples, seed=seed, sampled=sampled
        )

    @property
    def log_evidence_(self) -> float:
        """Log evidence of the best member, of the standardised outputs."""
        return self._fitted.best_log_evidence

    @property
    def members_(self) -> FittedSimulator:
        """The members; ``members_.member(k)`` is one of them."""
        return self._fitted

    @property
    def max_lag_(self) -> int:
        """Number of measured outputs that start a run."""
        return self._fitted.start_samples


Model = NARX | StateSpace | Simulator
