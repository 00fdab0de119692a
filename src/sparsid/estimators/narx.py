"""The network of the paper, as an estimator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparsid.data.record import Record
from sparsid.data.tables import recorded
from sparsid.estimators.base import Estimator, over_records
from sparsid.fitting.narx import fit_records
from sparsid.progress import ProgressCallback
from sparsid.results.forecast import Forecast
from sparsid.results.narx import Fitted


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
        self,
        records: list[Record],
        progress: ProgressCallback | None,
        scheduler: str | None,
    ) -> Fitted:
        return fit_records(self.get_params(deep=False), records, progress, scheduler)

    @over_records
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
            A record, or inputs with the measured outputs as ``y``. Of several records
            a list is returned. Inputs alone, as in a pipeline, get their free run.
        samples, seed
            Draws behind the standard deviation more than one step ahead; 0: none.
        sampled
            Draw weights and send them through the network itself, one step ahead too;
            by default they go through its linearisation, exactly so one step ahead.
        """
        if self._inputs_alone(u, y):
            return self._fitted.simulate(u, samples=samples, seed=seed, sampled=sampled)
        record = self._one_record(u, y)
        return self._fitted.predict(
            record, horizon, samples=samples, seed=seed, sampled=sampled
        )

    @over_records
    def simulate(
        self,
        u: Any,
        y_init: Any = None,
        *,
        samples: int = 100,
        seed: int = 0,
        sampled: bool = False,
    ) -> Forecast:
        """Return the free run over a record, or over inputs alone; of several, a list.

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
            recorded(u), y_init, samples=samples, seed=seed, sampled=sampled
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
