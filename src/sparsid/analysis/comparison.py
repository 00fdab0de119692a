"""Several models on the same samples: errors, size, evidence, residual tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sparsid.checks import LARGEST_LAG, whole
from sparsid.data.record import Record
from sparsid.errors import InputError
from sparsid.results.base import FittedModel
from sparsid.results.channels import Channels
from sparsid.results.forecast import Forecast
from sparsid.results.texts import with_unit
from sparsid.validation.residuals import Correlation, residual_tests
from sparsid.validation.scores import fit_percent, rmse

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from sparsid.estimators import Model

Values = NDArray[np.float64]

# Samples ahead, besides the free run.
HORIZONS = (1, 10)
# Fewer residuals than this show no correlation.
FEWEST_RESIDUALS = 8
# Numbers that tell the same record of estimation from another, relative.
SAME = 1e-9


@dataclass(frozen=True, eq=False)
class Compared:
    """One of several models on a record.

    Attributes
    ----------
    free_run_rmse, free_run_fit
        Of every output, in its unit and in per cent; infinite where the run diverged.
    ahead_rmse
        By samples ahead, of every output.
    weights, states, members
        Weights kept (mean over members), numbers that it remembers from sample to
        sample, and members.
    log_evidence
        NaN for methods without one.
    residuals
        Tests of the one-step residuals; none if there are too few.
    """

    name: str
    title: str
    free_run: Forecast
    free_run_rmse: list[float]
    free_run_fit: list[float]
    ahead_rmse: dict[int, list[float]]
    weights: float
    states: int
    members: int
    log_evidence: float
    residuals: list[Correlation]

    @property
    def tests_passed(self) -> str:
        """How many of the residual tests passed, such as "3 of 4"."""
        if not self.residuals:
            return "too few samples"
        passed = sum(test.passed for test in self.residuals)
        return f"{passed} of {len(self.residuals)}"


@dataclass(frozen=True, eq=False)
class Comparison:
    """Several models on the same samples of a record.

    Attributes
    ----------
    samples
        Samples that count for all models: those that any of them needs to start are
        left out.
    notes
        What to know before one reads the table.
    """

    record: Record
    models: tuple[Compared, ...]
    samples: int
    notes: tuple[str, ...]

    @property
    def best(self) -> str:
        """Name of the model with the smallest free-run error.

        Errors are in standard deviations of the outputs, the mean over these.
        """
        spread = np.nanstd(self.record.y, axis=0)
        spread = np.where(spread > 0.0, spread, 1.0)
        errors = [float(np.mean(m.free_run_rmse / spread)) for m in self.models]
        return self.models[int(np.argmin(errors))].name

    def to_frame(self) -> pd.DataFrame:
        """Return the table: one row for each model, errors in the outputs' units."""
        import pandas as pd

        rows = []
        for m in self.models:
            row: dict[str, Any] = {}
            for k, name in enumerate(self.record.output_names):
                unit = self.record.output_units[k]
                of = f"{name} [{unit}]" if unit else name
                row[f"free run RMSE {of}"] = m.free_run_rmse[k]
                row[f"free run fit {name} [%]"] = m.free_run_fit[k]
                for ahead, errors in m.ahead_rmse.items():
                    row[f"{_steps(ahead)} RMSE {of}"] = errors[k]
            row["weights"], row["states"] = m.weights, m.states
            row["members"], row["log evidence"] = m.members, m.log_evidence
            row["residual tests passed"] = m.tests_passed
            rows.append(row)
        return pd.DataFrame(rows, index=[m.name for m in self.models])

    def facts(self) -> dict[str, Any]:
        """Return the figures as plain values."""
        return {
            "record": self.record.name,
            "samples": self.samples,
            "outputs": list(self.record.output_names),
            "best": self.best,
            "notes": list(self.notes),
            "models": {
                m.name: {
                    "kind": m.title,
                    "free_run_rmse": m.free_run_rmse,
                    "free_run_fit_percent": m.free_run_fit,
                    "ahead_rmse": {str(k): v for k, v in m.ahead_rmse.items()},
                    "weights": m.weights,
                    "states": m.states,
                    "members": m.members,
                    "log_evidence": m.log_evidence,
                    "residual_tests": [
                        {"passed": t.passed, "text": t.verdict} for t in m.residuals
                    ],
                }
                for m in self.models
            },
        }

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Return head and rows of the table as texts; each model is a column."""
        rows: list[list[str]] = []
        for k, name in enumerate(self.record.output_names):
            unit = self.record.output_units[k]
            label = f"{name}: " if self.record.n_outputs > 1 else ""
            rows.append(
                [
                    f"{label}free run",
                    *(with_unit(m.free_run_rmse[k], unit) for m in self.models),
                ]
            )
            fits = (f"{m.free_run_fit[k]:.1f} %" for m in self.models)
            rows.append([f"{label}free-run fit", *fits])
            for ahead in self.models[0].ahead_rmse:
                errors = (m.ahead_rmse[ahead][k] for m in self.models)
                texts = [with_unit(e, unit) for e in errors]
                rows.append([f"{label}{_steps(ahead)}", *texts])
        rows += [
            ["weights", *(f"{round(m.weights, 1):g}" for m in self.models)],
            ["states", *(str(m.states) for m in self.models)],
            ["members", *(str(m.members) for m in self.models)],
            ["log evidence", *(_evidence(m.log_evidence) for m in self.models)],
            ["residual tests", *(m.tests_passed for m in self.models)],
        ]
        return ["", *(m.name for m in self.models)], rows

    def __str__(self) -> str:
        head, rows = self.table()
        lines = [head, *rows]
        widths = [max(len(line[k]) for line in lines) for k in range(len(head))]
        texts = []
        for line in lines:
            cells = [line[0].ljust(widths[0])]
            cells += [c.rjust(w) for c, w in zip(line[1:], widths[1:], strict=True)]
            texts.append("  ".join(cells).rstrip())
        last = [f"{self.samples} samples count; smallest error: {self.best}"]
        return "\n".join([*texts, *last, *(f"note: {note}" for note in self.notes)])

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        from html import escape

        head, rows = self.table()

        def line(cells: Sequence[str], tag: str) -> str:
            inner = "".join(f"<{tag}>{escape(c)}</{tag}>" for c in cells)
            return f"<tr>{inner}</tr>"

        body = "".join(line(row, "td") for row in rows)
        last = [f"{self.samples} samples count; smallest error: {self.best}"]
        below = "".join(f"<p>{escape(note)}</p>" for note in [*last, *self.notes])
        table = f"<thead>{line(head, 'th')}</thead><tbody>{body}</tbody>"
        return f"<table>{table}</table>{below}"

    def plot(self) -> Figure:
        """Return a figure: free runs of all models over what was measured."""
        from sparsid.plots.compared import comparison

        return comparison(self)


def compare(
    record: Record,
    models: Mapping[str, Model],
    *,
    horizons: Sequence[int] = HORIZONS,
) -> Comparison:
    """Return several models side by side on the same samples of a record.

    Parameters
    ----------
    record
        One that no model has learnt from. Each model gets the inputs that it knows, by
        name; outputs have to be the same.
    models
        Fitted models by name.
    horizons
        Samples ahead for predictions from measured outputs, besides the free run.
    """
    known = _checked(record, models)
    horizons = sorted({whole("a horizon", h, 1, LARGEST_LAG) for h in horizons})
    runs: dict[str, dict[int, Forecast]] = {}
    for name, model in known.items():
        own = for_model(record, model.fitted_.channels)
        # Zero stands for the free run.
        runs[name] = {0: model.simulate(own, samples=0)}
        for ahead in horizons:
            runs[name][ahead] = model.predict(own, horizon=ahead)
    counts = _common(record, [f for own in runs.values() for f in own.values()])
    if not counts.any(0).all():
        raise InputError(
            f"no sample of the record of {len(record)} is forecast by all models: "
            "give a longer record, or smaller horizons"
        )
    y = np.where(counts, record.y, np.nan)
    made = tuple(
        _compared(name, model, record, y, runs[name]) for name, model in known.items()
    )
    notes = _notes([model.fitted_ for model in known.values()])
    return Comparison(record, made, int(counts.any(1).sum()), tuple(notes))


def for_model(record: Record, channels: Channels) -> Record:
    """Return a record with the inputs that a model knows, by name, in its order."""
    names = list(record.input_names)
    missing = [name for name in channels.input_names if name not in names]
    if missing or tuple(names) == channels.input_names:
        # Channels without names of their own go by their place.
        channels.check(record)
        return record
    return Record(
        record.u[:, [names.index(name) for name in channels.input_names]],
        record.y,
        record.dt,
        input_names=channels.input_names,
        output_names=record.output_names,
        input_units=[record.input_units[names.index(n)] for n in channels.input_names],
        output_units=record.output_units,
        name=record.name,
        start=record.start,
    )


# -- pieces ----------------------------------------------------------------------------


def _checked(record: Record, models: Mapping[str, Model]) -> dict[str, Model]:
    from sklearn.utils.validation import check_is_fitted

    if not isinstance(record, Record):
        raise InputError(
            f"a Record was expected, not {type(record).__name__}: wrap the signals in "
            "sparsid.Record(u, y, dt)"
        )
    if not isinstance(models, Mapping) or not models:
        raise InputError("give fitted models by name, as in {'linear': m1, 'net': m2}")
    for model in models.values():
        check_is_fitted(model, "fitted_")
    return {str(name): model for name, model in models.items()}


def _common(record: Record, forecasts: list[Forecast]) -> NDArray[np.bool_]:
    """Return which measured outputs count: those that every model forecasts.

    Samples at which a run has diverged count: that is an error of the model.
    """
    counts = np.isfinite(record.y)
    for f in forecasts:
        there = np.isfinite(f.mean)
        if f.diverged_at is not None:
            there[f.diverged_at :] = True
        counts &= there
    return np.asarray(counts)


def _compared(
    name: str, model: Model, record: Record, y: Values, runs: dict[int, Forecast]
) -> Compared:
    fitted: FittedModel = model.fitted_
    means = {ahead: f.mean for ahead, f in runs.items()}
    one_step = runs.get(1) or model.predict(for_model(record, fitted.channels))
    return Compared(
        name,
        fitted.title,
        runs[0],
        rmse(y, means[0]).tolist(),
        fit_percent(y, means[0]).tolist(),
        {k: rmse(y, mean).tolist() for k, mean in means.items() if k},
        float(fitted.weights_kept),
        _states(fitted),
        len(fitted),
        float(fitted.best_log_evidence),
        _tests(record, one_step),
    )


def _states(fitted: FittedModel) -> int:
    from sparsid.analysis.steps import steps_of

    waiting = steps_of(fitted, 0, 0)
    return max(len(step.rest()) for step in waiting.members) + sum(waiting.delays)


def _tests(record: Record, one_step: Forecast) -> list[Correlation]:
    errors = record.y - one_step.mean
    if np.isfinite(errors).sum(0).min() < FEWEST_RESIDUALS:
        return []
    return residual_tests(record, one_step)


def _notes(fitted: list[FittedModel]) -> list[str]:
    """Return what to know: evidence is of data, and of these alone."""
    notes = []
    first = fitted[0]
    same = all(
        np.allclose(f.scaling.y_mean, first.scaling.y_mean, rtol=SAME)
        and np.allclose(f.scaling.y_std, first.scaling.y_std, rtol=SAME)
        and f.details.get("samples") == first.details.get("samples")
        for f in fitted
    )
    if len({f.title for f in fitted}) > 1 or not same:
        reason = (
            "the models are of different kinds, which count other rows and noise"
            if same
            else "the models have learnt from different records"
        )
        notes.append(f"log evidences cannot be compared: {reason}")
    return notes


def _steps(ahead: int) -> str:
    return "1 step ahead" if ahead == 1 else f"{ahead} steps ahead"


def _evidence(value: float) -> str:
    return f"{value:.1f}" if np.isfinite(value) else "none"
