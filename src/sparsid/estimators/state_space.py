"""Leaky states fitted to the free run, as an estimator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sparsid.data.record import Record
from sparsid.data.tables import recorded
from sparsid.estimators.base import Estimator, over_records
from sparsid.fitting.state_space import fit_free_run
from sparsid.parallel.pool import open_pool
from sparsid.progress import ProgressCallback
from sparsid.results.ensemble import Ensemble
from sparsid.results.forecast import Forecast


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
        self,
        records: list[Record],
        progress: ProgressCallback | None,
        scheduler: str | None,
    ) -> Ensemble:
        params = self.get_params(deep=False)
        if scheduler is None:
            return fit_free_run(params, records, progress)
        with open_pool(scheduler) as pool:
            return fit_free_run(params, records, progress, pool)

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
        samples, seed
            Draws of weights, start states and noise behind the standard deviation; 0:
            none.
        """
        return self._fitted.simulate(
            recorded(u), y_init, samples=samples, seed=seed, sampled=sampled
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
