"""The canonical form, everything chosen inside the records, as an estimator."""

from __future__ import annotations

from typing import Any

from sparsid.data.record import Record
from sparsid.data.tables import as_records, recorded
from sparsid.errors import InputError
from sparsid.estimators.base import Estimator, over_records
from sparsid.progress import ProgressCallback
from sparsid.results.forecast import Forecast
from sparsid.results.simulator import FittedSimulator
from sparsid.simulation.fit import fit_simulator
from sparsid.simulation.wanted import Wanted


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
    prior
        How weights share prior variances once the race is won: ``"column"``, what a
        neuron, a state or an input does; ``"row"``, what a state, an output or a neuron
        gets; ``"row+column"``, both; ``"shape"``, every weight its own; ``"auto"``: by
        evidence.
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
        prior: str = "auto",
    ) -> None:
        self.structure = structure
        self.states = states
        self.neurons = neurons
        self.budget = budget
        self.workers = workers
        self.seed = seed
        self.prior = prior

    def _fit(
        self,
        records: list[Record],
        progress: ProgressCallback | None,
        scheduler: str | None,
    ) -> FittedSimulator:
        if scheduler is not None:
            raise InputError(
                "scheduler: a simulator is fitted in threads of this computer; leave "
                "it out"
            )
        return fit_simulator(records, Wanted.checked(self.get_params()), progress)

    @over_records
    def predict(self, u: Any, y: Any = None, *, horizon: int = 1) -> Forecast:
        """Return predictions ``horizon`` samples ahead of the measured outputs.

        Parameters
        ----------
        u
            A record, or inputs with the measured outputs as ``y``. Of several records
            a list is returned. Inputs alone, as in a pipeline, get their free run.
        """
        if self._inputs_alone(u, y):
            return self._fitted.simulate(u)
        return self._fitted.predict(self._one_record(u, y), horizon)

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
            A record: the start state is fitted to its first outputs. Or inputs: the run
            starts from the state in which the first estimation record started.
        y_init
            Measured outputs that settle the start of a run over inputs.
        samples, seed, sampled
            ``samples=0``: no standard deviation. With ``sampled`` it is that of so many
            runs with drawn parameters; else of the linearised model, without drawing.
        """
        return self._fitted.simulate(
            recorded(u), y_init, samples=samples, seed=seed, sampled=sampled
        )

    def compact(self, records: Any = None) -> Simulator:
        """Return one small model in place of the ensemble.

        With the estimation records a member learns from the ensemble and loses weights
        as long as copies of it, in blocks that they did not learn from, err at most
        three per cent more than copies of the ensemble: 40 % of the weights are aimed
        at. ``fitted_.details["compact"]`` has weights, both errors and their ratio.
        Without records it is the member nearest to the ensemble, with nothing removed.

        Parameters
        ----------
        records
            A record or several ones: those that the model was estimated from.
        """
        if records is None or self._fitted.is_linear:
            return super().compact(records)
        from sparsid.simulation.compact import compacted

        fitted = self._fitted
        found = as_records(records, None, fitted.channels.dt)
        for record in found:
            fitted.channels.check(record)
        workers = Wanted.checked(self.get_params()).workers
        return self._with(compacted(fitted, found, workers))

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
