"""What all estimators have in common: one interface, whatever is inside."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, Generic, Self, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from sparsid.data.record import Record
from sparsid.data.tables import as_records
from sparsid.errors import InputError
from sparsid.estimators.linear_tools import LinearTools
from sparsid.estimators.several import OverRecords, P, R
from sparsid.estimators.watching import watched
from sparsid.progress import ProgressCallback
from sparsid.results.base import FittedModel
from sparsid.results.channels import without_name
from sparsid.results.outcome import Outcome
from sparsid.validation.scores import fit_percent

if TYPE_CHECKING:
    from sparsid.export.stepper import Stepper

# What `score` gives a free run that diverged: finite, and below any run that did not.
DIVERGED_SCORE = -1000.0

F = TypeVar("F", bound=FittedModel)


def over_records(method: Callable[Concatenate[Any, Any, P], R]) -> OverRecords[P, R]:
    """Return a method that takes one record, or several and then gives a list."""

    @wraps(method)
    def each(self: Any, u: Any, *given: Any, **how: Any) -> Any:
        if not isinstance(u, list | tuple) or not u:
            return method(self, u, *given, **how)
        if not all(isinstance(r, Record) for r in u):
            return method(self, u, *given, **how)
        return [method(self, r, *given, **how) for r in u]

    return cast("OverRecords[P, R]", each)


if TYPE_CHECKING:
    from sparsid.estimators import Model

    class BaseEstimator:
        """What scikit-learn's class of that name offers, which has no types."""

        def get_params(self, deep: bool = True) -> dict[str, Any]:
            """Return the settings by name."""

        def set_params(self, **params: Any) -> Self:
            """Change settings."""

        def __sklearn_tags__(self) -> Any:
            """Return what scikit-learn asks."""

else:
    from sklearn.base import BaseEstimator


class Estimator(LinearTools, BaseEstimator, Generic[F]):
    """What all models have in common: one interface, whatever is inside."""

    fitted_: F

    def fit(
        self,
        u: Any,
        y: Any = None,
        *,
        dt: float | None = None,
        progress: ProgressCallback | None = None,
        scheduler: str | None = None,
        verbose: bool = False,
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
        verbose
            Show how far the fit is and how long it takes: a bar in a notebook, a line
            on a terminal.
        """
        records = as_records(u, y, dt)
        with watched(progress, verbose) as listener:
            self.fitted_ = self._fit(records, listener, scheduler)
        shaping = [[step.plain() for step in r.history] for r in records]
        if any(shaping):
            self.fitted_.details["shaping"] = shaping
        return self

    def score(self, u: Any, y: Any = None) -> float:
        """Return the free-run fit ``1 - ||y - y_sim|| / ||y - mean(y)||``.

        1 is perfect, 0 no better than the mean. The mean over outputs and records, each
        counting alike; a run that diverges counts -1000. The first samples only start
        the run; records not longer than the largest lag are left out.
        """
        scores = []
        for record in as_records(u, y, self._fitted.channels.dt):
            if len(record) > self.max_lag_ + 1:
                run = self._fitted.simulate(record, samples=0)
                fit = np.asarray(fit_percent(record, run)) / 100.0
                scores.append(np.maximum(fit, DIVERGED_SCORE))
        if not scores:
            raise InputError(
                f"no record is longer than the largest lag of {self.max_lag_}: give a "
                "longer record"
            )
        return float(np.mean(scores))

    def summary(self) -> str:
        """Return what was identified, as text."""
        from sparsid.analysis.dynamics import dynamics_rows
        from sparsid.results.summary import summary

        return summary(self._fitted, dynamics_rows(self._fitted))

    # -- one model, equations, files ------------------------------------------------

    def compact(self, records: Any = None) -> Self:
        """Return one model in place of an ensemble, to save, export and read.

        It is the member whose free run is nearest to that of all of them;
        ``fitted_.details["compact"]`` says how near.

        Parameters
        ----------
        records
            Records over whose inputs to compare; by default steps within the range of
            the estimation records.
        """
        from sparsid.results.nearest import nearest_member

        fitted = self._fitted
        inputs = None
        if records is not None:
            found = as_records(records, None, fitted.channels.dt)
            inputs = [part.u for r in found for part in r.segments()]
        return self._with(nearest_member(fitted, inputs))

    def _with(self, fitted: F) -> Self:
        """Return an estimator with the same settings and another result."""
        copy = type(self)(**self.get_params(deep=False))
        copy.fitted_ = fitted
        return copy

    def equations(
        self, kind: str = "text", *, digits: str | int | None = "auto", member: int = 0
    ) -> str:
        """Return what was identified as equations in the data's units.

        Parameters
        ----------
        kind
            ``"text"``, ``"latex"``, or ``"sympy"``: lines ``name = expression``.
        digits
            ``"auto"``: what the uncertainty of each number supports; or so many
            significant digits; None: all.
        member
            Which member of an ensemble, whose median is the model; `compact` gives one.
        """
        from sparsid.results.equations import equations

        return equations(self._fitted, kind, digits, member)

    def save(self, path: str | Path, *, overwrite: bool = True) -> None:
        """Write the model to one self-contained file."""
        from sparsid.results.storage import save

        save(cast("Model", self), path, overwrite=overwrite)

    def report(self, records: Any, path: str | Path, **options: Any) -> Any:
        """Write a self-contained HTML page about the model on records.

        Returns the `Diagnosis` that it shows; see `sparsid.report.write_report` for
        the options.
        """
        from sparsid.report import write_report

        check_is_fitted(self, "fitted_")
        return write_report(cast("Model", self), records, path, **options)

    def export(
        self,
        to: str,
        folder: str | Path,
        *,
        combine: str = "median",
        precision: str = "double",
        name: str = "model",
        overwrite: bool = False,
    ) -> Path:
        """Write the model for another place, and return the folder with it.

        Parameters
        ----------
        to
            ``"numpy"``, ``"c"``, ``"fmu"``, ``"casadi"``, ``"onnx"`` or ``"st"``
            (Structured Text, experimental).
        folder
            It appears only when it is complete.
        combine
            ``"median"`` or ``"mean"`` over members, ``"member:K"`` for one of them,
            counted from 0, or ``"compact"`` for one that stands for all.
        precision
            ``"double"``, or ``"float"`` for C, FMU, ONNX and Structured Text.
        name
            What files and functions begin with.
        overwrite
            Whether an export that is in the folder may be replaced.
        """
        fitted, how = self._combined(combine)
        return fitted.export(
            to,
            folder,
            combine=how,
            precision=precision,
            name=name,
            overwrite=overwrite,
        )

    def stepper(self, combine: str = "median") -> Stepper:
        """Return the model as an object that goes on sample by sample.

        Parameters
        ----------
        combine
            How members become one output, as in `export`.
        """
        fitted, how = self._combined(combine)
        return fitted.stepper(how)

    def _combined(self, combine: str) -> tuple[FittedModel, str]:
        """Return the result that is meant, and how its members become one output."""
        make: Any = getattr(self, "compact", None)
        if combine == "compact" and make is not None:
            return make().fitted_, "median"
        return self._fitted, combine

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        """Return what a notebook shows: the summary of a fitted model."""
        if not hasattr(self, "fitted_"):
            return {"text/plain": repr(self)}
        from html import escape

        text = self.summary()
        return {"text/plain": text, "text/html": f"<pre>{escape(text)}</pre>"}

    def __sklearn_tags__(self) -> Any:
        """Return what scikit-learn asks: outputs are needed, NaN marks gaps."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        tags.input_tags.allow_nan = True
        return tags

    # -- learnt attributes ---------------------------------------------------------

    @property
    def n_features_in_(self) -> int:
        """Number of inputs."""
        return self._fitted.channels.n_inputs

    @property
    def feature_names_in_(self) -> NDArray[np.object_]:
        """Names of the inputs, if the records or tables had names."""
        names = self._fitted.channels.input_names
        if not names or without_name(names):
            raise AttributeError("the inputs of the fit had no names")
        return np.array(names, dtype=object)

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
        self,
        records: list[Record],
        progress: ProgressCallback | None,
        scheduler: str | None,
    ) -> F:
        raise NotImplementedError

    def _inputs_alone(self, u: Any, y: Any) -> bool:
        """Return whether there is nothing measured to predict from."""
        return y is None and hasattr(u, "shape") and self._fitted.channels.n_inputs > 0

    def _one_record(self, u: Any, y: Any) -> Record:
        records = as_records(u, y, self._fitted.channels.dt)
        if len(records) > 1:
            raise InputError(
                f"{len(records)} records were given, or a table whose index jumps: "
                "predict them one by one"
            )
        return records[0]
