"""Everything that a report says about a model on some records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparsid.data.record import Record
from sparsid.results.base import FittedModel, HasResult, result_of
from sparsid.results.forecast import Forecast
from sparsid.results.outcome import Outcome
from sparsid.validation.calibration import Calibration, calibration
from sparsid.validation.evaluation import forecasts_over
from sparsid.validation.residuals import Correlation, residual_tests
from sparsid.validation.scores import fit_percent, r2, rmse
from sparsid.validation.stability import Stability, stability
from sparsid.validation.valid_range import OperatingRange, operating_range

# Fewer residuals than this show no correlation.
FEWEST_RESIDUALS = 8


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """Everything that a report says about a model on some records.

    Attributes
    ----------
    scores
        RMSE, fit in per cent and R2 for each output, one step ahead and in free run.
    residuals
        Correlation tests of the one-step residuals; none if there are too few.
    calibration_one_step, calibration_free_run
        None where there is no band, as for a model that diverged.
    stability
        None if no stretch is long enough.
    """

    records: list[Record]
    one_step: list[Forecast]
    free_run: list[Forecast]
    scores: dict[str, dict[str, list[float]]]
    residuals: list[Correlation]
    ranges: list[OperatingRange]
    stability: Stability | None
    calibration_one_step: Calibration | None
    calibration_free_run: Calibration | None

    @property
    def verdicts(self) -> list[tuple[bool, str]]:
        """Whether it is well, and in words, topic by topic."""
        found = [(test.passed, test.verdict) for test in self.residuals]
        found += [
            (own.outside + own.input_outside < 0.01, own.verdict) for own in self.ranges
        ]
        for what, own in (
            ("one step ahead", self.calibration_one_step),
            ("in free run", self.calibration_free_run),
        ):
            if own is not None:
                for k, name in enumerate(own.output_names):
                    text = own.verdict(k)
                    found.append((text.endswith("right"), f"{name} {what}, {text}"))
        found += [(False, run.caveat) for run in self.free_run if run.caveat]
        if self.stability is not None:
            well = self.stability.bounded and self.stability.forgotten is not None
            found.append((well, self.stability.verdict))
        return found

    def facts(self) -> dict[str, Any]:
        """Return the figures as plain values."""
        both = (self.calibration_one_step, self.calibration_free_run)
        one_step, free_run = (None if c is None else c.facts() for c in both)
        return {
            "scores": self.scores,
            "calibration": {"one_step": one_step, "free_run": free_run},
            "verdicts": [{"good": good, "text": text} for good, text in self.verdicts],
        }


def diagnose(
    model: FittedModel | HasResult,
    records: Record | Sequence[Record],
    *,
    samples: int = 100,
    seed: int = 0,
    forecasts: tuple[list[Forecast], list[Forecast]] | None = None,
) -> Diagnosis:
    """Return what a model gets right and wrong on records.

    Parameters
    ----------
    records
        Test records if there are any: on the estimation records everything looks
        better than it is.
    samples
        Draws behind the bands of the free run.
    forecasts
        One step ahead and in free run, over each record, if they are there already;
        None: they are made.
    """
    records = [records] if isinstance(records, Record) else list(records)
    fitted = result_of(model)
    if forecasts is None:
        forecasts = forecasts_over(fitted, records, samples, seed)
    one_step, free_run = forecasts
    scores = {
        kind: _scores(records, forecasts)
        for kind, forecasts in (("one_step", one_step), ("free_run", free_run))
    }
    return Diagnosis(
        records,
        one_step,
        free_run,
        scores,
        _residual_tests(records, one_step),
        operating_range(fitted, records, free_run),
        _stability(fitted, records),
        _calibration(records, one_step),
        _calibration(records, free_run),
    )


def _scores(records: list[Record], forecasts: list[Forecast]) -> dict[str, list[float]]:
    """Return scores over all records together."""
    y = np.concatenate(
        [r.y[f.start :] for r, f in zip(records, forecasts, strict=True)]
    )
    mean = np.concatenate([f.mean[f.start :] for f in forecasts])
    if all(f.diverged_at is None for f in forecasts):
        y = np.where(np.isnan(mean), np.nan, y)
    scores = {"rmse": rmse, "fit_percent": fit_percent, "r2": r2}
    return {name: score(y, mean).tolist() for name, score in scores.items()}


def _residual_tests(
    records: list[Record], one_step: list[Forecast]
) -> list[Correlation]:
    """Return the tests, none if there are too few residuals."""
    errors = np.concatenate(
        [r.y - f.mean for r, f in zip(records, one_step, strict=True)]
    )
    if np.isfinite(errors).sum(0).min() < FEWEST_RESIDUALS:
        return []
    return residual_tests(records, one_step)


def _stability(fitted: FittedModel, records: list[Record]) -> Stability | None:
    longest = max((s for r in records for s in r.segments()), key=len, default=None)
    if longest is None or len(longest) <= fitted.start_samples:
        return None
    if fitted.outcome is Outcome.DIVERGED:
        return None
    return stability(fitted, longest)


def _calibration(
    records: list[Record], forecasts: list[Forecast]
) -> Calibration | None:
    known = [np.isfinite(f.std).any(0).all() for f in forecasts]
    return calibration(records, forecasts) if all(known) else None
