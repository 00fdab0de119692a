"""From records and settings to a fitted model."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from sparsid.arrays import Array
from sparsid.bayes.curvature import APPROXIMATE
from sparsid.bayes.noise import Noise
from sparsid.bayes.objective import OneStep, Regression
from sparsid.bayes.posterior import LARGEST_PIECE, Posterior, posterior_of_rows
from sparsid.bayes.prior import Prior
from sparsid.bayes.variance_rules import Flat, SparseBayes
from sparsid.checks import LARGEST_COUNT, number, whole
from sparsid.data.pieces import stretches_of
from sparsid.data.record import Record, check_compatible, value_range
from sparsid.data.scaling import Scaling
from sparsid.errors import InputError
from sparsid.fitting.descent import SMALLEST_NOISE
from sparsid.fitting.narx_free_run import Refined, refine
from sparsid.fitting.narx_one_step import Found
from sparsid.fitting.narx_windows import windows_of
from sparsid.fitting.random_starts import fit_starts
from sparsid.fitting.settings import (
    Settings,
    make_lags,
    make_network,
    make_settings,
    make_window,
)
from sparsid.models.narx import Lags, Recursion, regression_rows
from sparsid.models.network import Network
from sparsid.progress import Progress, ProgressCallback
from sparsid.results.channels import Channels
from sparsid.results.forecast import BandFactors, Forecast
from sparsid.results.narx import Fitted
from sparsid.results.narx_free_run import RunFitted

log = logging.getLogger(__name__)

# A noise far above the outputs themselves is a slip of units.
LARGEST_NOISE = 1e4
# Fewer rows than this tell nothing about a model.
FEWEST_ROWS = 10


class _Common(NamedTuple):
    """What all starts have in common: the network before pruning, and the data."""

    network: Network
    lags: Lags
    segments: list[Record]
    scaling: Scaling

    def fields(self, found: Found) -> dict[str, Any]:
        """Return the fields of a fitted model that do not depend on its objective."""
        return {
            "channels": Channels.of(self.segments),
            "scaling": self.scaling,
            "lags": self.lags,
            "regressors": tuple(self.lags.table[k] for k in found.columns),
            "network": found.network,
            "start_outputs": self.segments[0].y[0],
            "start_widths": self.network.widths,
            "band_factors": BandFactors.none(self.lags.n_outputs),
            "weights_kept": found.weights_kept,
            "weights_total": self.network.weights,
            "log_evidence": found.log_evidence,
            "outcome": found.outcome,
            "history": found.history,
            "details": {},
        }


def fit_records(
    params: dict[str, Any],
    records: list[Record],
    progress: ProgressCallback | None = None,
    scheduler: str | None = None,
) -> Fitted:
    """Return the model fitted to the one-step error, or then to the free run.

    Parameters
    ----------
    params
        The estimator's settings by name.
    scheduler
        Address of the Dask scheduler whose workers do the starts, if any.
    """
    check_compatible(records)
    lags = make_lags(params, records[0].n_inputs, records[0].n_outputs)
    objective, window = make_window(params, lags)
    network = make_network(params, lags)
    segments, notes = usable_segments(records, lags)
    scaling = Scaling.of(segments)
    rows = regression(segments, scaling, lags)
    noise = _fixed_noise(params["noise_std"], scaling)
    settings = make_settings(params, network, noise)
    starts = whole("starts", params["starts"], 1, LARGEST_COUNT)
    workers = params["workers"]
    if workers is not None:
        workers = whole("workers", workers, 1, LARGEST_COUNT)
    seed = whole("seed", params["seed"], 0, 2**32 - 1)
    common = _Common(network, lags, segments, scaling)
    with jax.enable_x64(True):
        found = fit_starts(
            network,
            rows,
            settings,
            seed=seed,
            starts=starts,
            workers=workers,
            scheduler=scheduler,
            progress=progress,
        )
        if objective == "one-step":
            best = choose_start(found, settings)
            fitted = _finish(found[best], rows, settings, common)
            errors = {"one_step_rmse": _row_errors(fitted, found[best], rows)}
        else:
            stretches = usable_stretches(records, lags)
            refined = [
                _refined(f, common, stretches, window, settings, k, progress)
                for k, f in enumerate(found)
            ]
            found = [r.found for r in refined]
            best = choose_start(found, settings)
            fitted = _finish_run(refined[best], window, common)
            errors = _run_errors(fitted, segments)
            fitted.details.update(objective=objective, window=window)
    fitted.details.update(
        **errors,
        samples=sum(len(r) for r in records),
        rows=len(rows.y),
        records=len(records),
        segments=len(segments),
        notes=_approximations(found[best], settings, objective) + notes,
        range=value_range(segments),
        chosen_start=best,
        starts=[_start_facts(f) for f in found],
    )
    return fitted


def _row_errors(fitted: Fitted, found: Found, rows: Regression) -> list[float]:
    """Return the one-step errors, without bands: they take long for a wide network."""
    made = _outputs(fitted.network, fitted.params, rows.z[:, found.columns])
    error = np.sqrt(((rows.y - made) ** 2).mean(0))
    errors: list[float] = fitted.scaling.unscale_y_std(error).tolist()
    return errors


def _run_errors(fitted: Fitted, segments: list[Record]) -> dict[str, list[float]]:
    """Return the errors one step ahead and in free run."""
    return {
        "free_run_rmse": _error(segments, partial(fitted.simulate, samples=0)),
        "one_step_rmse": _error(segments, fitted.predict),
    }


def usable_segments(
    records: list[Record], lags: Lags
) -> tuple[list[Record], list[str]]:
    """Return segments long enough for the lags, and what was left out."""
    segments, notes = [], []
    for number_, record in enumerate(records, 1):
        name = record.name or f"record {number_}"
        for first, stop in record.gaps:
            notes.append(f"{name}: gap at samples {first} to {stop - 1}")
        for segment in record.segments():
            if len(segment) > lags.max_lag:
                segments.append(segment)
            else:
                notes.append(
                    f"{name}: {len(segment)} samples from {segment.start} left out, "
                    f"not more than the largest lag of {lags.max_lag}"
                )
    for note in notes:
        log.info(note)
    rows = sum(len(s) - lags.max_lag for s in segments)
    if rows < FEWEST_ROWS:
        raise InputError(
            f"{rows} samples are left after the largest lag of {lags.max_lag} in "
            f"{sum(len(r) for r in records)} samples: at least {FEWEST_ROWS} are "
            "needed; use a longer record or smaller lags"
        )
    return segments, notes


def usable_stretches(records: list[Record], lags: Lags) -> list[Record]:
    """Return what a free run can go through: a gap in the outputs does not end it."""
    return [
        stretch
        for stretch in stretches_of(records)
        if len(stretch) > max(lags.max_lag, 1) and not np.isnan(stretch.y).all()
    ]


def regression(segments: list[Record], scaling: Scaling, lags: Lags) -> Regression:
    """Return the scaled regression rows of all segments; none crosses a border."""
    z, y = [], []
    for segment in segments:
        u_s, y_s = scaling.scale_u(segment.u), scaling.scale_y(segment.y)
        z.append(regression_rows(lags.table, lags.max_lag, u_s, y_s))
        y.append(y_s[lags.max_lag :])
    return Regression(np.concatenate(z), np.concatenate(y))


def choose_start(found: list[Found], settings: Settings) -> int:
    """Return the start with the best evidence, or the lowest cost where there is none.

    A start that diverged is chosen only if all did, and one of approximate curvature
    only if no other is left: its cost cannot be compared with theirs.
    """
    by_evidence = isinstance(settings.rule, SparseBayes)
    scores = np.array([f.log_evidence if by_evidence else -f.cost for f in found])
    scores = np.nan_to_num(scores, nan=-np.inf)
    exact = np.array([f.curvature not in APPROXIMATE for f in found])
    if (exact & np.isfinite(scores)).any():
        scores[~exact] = -np.inf
    return int(np.argmax(scores))


def _refined(
    found: Found,
    common: _Common,
    stretches: list[Record],
    window: int | None,
    settings: Settings,
    start: int,
    progress: ProgressCallback | None,
) -> Refined:
    """Return a start, fitted to its free run."""

    def told(step: Progress) -> bool | None:
        return None if progress is None else progress(replace(step, start=start))

    lags = common.lags
    recursion = Recursion.of([lags.table[k] for k in found.columns], lags.n_outputs)
    windows = windows_of(stretches, common.scaling, lags.max_lag, recursion, window)
    return refine(found, recursion, windows, settings, common.network.weights, told)


def _error(
    segments: list[Record], forecast: Callable[[Record], Forecast]
) -> list[float]:
    """Return the error over all segments, infinite if one diverged."""
    squares = []
    for segment in segments:
        made = forecast(segment)
        error = (made.mean - segment.y)[made.start :] ** 2
        squares.append(np.nan_to_num(error, nan=np.inf))
    errors: list[float] = np.sqrt(np.concatenate(squares).mean(0)).tolist()
    return errors


def _fixed_noise(noise_std: Any, scaling: Scaling) -> NDArray[np.float64] | None:
    if noise_std is None:
        return None
    given = np.atleast_1d(np.asarray(noise_std, dtype=object))
    values = [number("noise_std", v, 0.0) for v in given]
    if len(values) not in (1, len(scaling.y_std)) or min(values) <= 0.0:
        raise InputError(
            f"noise_std={noise_std!r}: give one positive number, or one for each of "
            f"the {len(scaling.y_std)} outputs"
        )
    variance = np.broadcast_to(
        (np.array(values) / scaling.y_std) ** 2, scaling.y_std.shape
    )
    if variance.min() < SMALLEST_NOISE or variance.max() > LARGEST_NOISE:
        raise InputError(
            f"noise_std={noise_std!r} is out of proportion to the outputs' standard "
            f"deviations, {', '.join(f'{s:g}' for s in scaling.y_std)}: check its unit"
        )
    return variance


def _finish(
    found: Found, rows: Regression, settings: Settings, common: _Common
) -> Fitted:
    params = jax.device_get(found.state.params)
    data = Regression(rows.z[:, found.columns], rows.y)
    noise = np.asarray(found.state.noise)
    prior = found.state.prior
    rule = settings.rule
    if not rule.learns_noise and settings.noise is None:
        # Ridge and lasso fix the ratio of noise to prior; the noise follows at the end.
        residual = rows.y - _outputs(found.network, params, data.z)
        scale = (residual**2).mean(0)
        noise = noise * scale
        prior = _scaled(prior, float(scale.mean()))
    return Fitted(
        **common.fields(found),
        params=params,
        noise=noise,
        posterior=_posterior(found.network, params, noise, prior, data, rule),
    )


def _finish_run(refined: Refined, window: int | None, common: _Common) -> RunFitted:
    state = refined.found.state
    parts = Noise(*(np.asarray(part) for part in state.noise))
    return RunFitted(
        **common.fields(refined.found),
        params=tuple(np.asarray(w) for w in state.params),
        noise=np.asarray(parts.white + parts.coloured),
        posterior=refined.posterior,
        window=window,
        parts=parts,
        starts=refined.starts,
        start_std=refined.start_std,
    )


def _approximations(found: Found, settings: Settings, objective: str) -> list[str]:
    """Return what to say about curvatures that were approximate for want of memory."""
    notes = []
    for name in found.approximated:
        note = (
            f"Gauss-Newton curvature did not fit in {settings.memory_limit / 1e9:g} GB "
            f"(memory_limit): {name!r} was taken in its place"
        )
        if name != found.curvature or objective != "one-step":
            note += " for part of the fit"
        elif settings.rule.volume > 0.0:
            note += ", the log evidence is approximate"
        log.warning(note)
        notes.append(note)
    return notes


def _start_facts(found: Found) -> dict[str, Any]:
    return {
        "log_evidence": found.log_evidence,
        "cost": found.cost,
        "weights_kept": found.weights_kept,
        "outcome": found.outcome.value,
        "seconds": found.seconds,
    }


def _posterior(
    network: Network, params: Any, noise: Any, prior: Prior, data: Any, rule: Any
) -> Posterior:
    """Return the Laplace posterior; without a prior there is none, and no spread."""
    if isinstance(rule, Flat):
        size = sum(p.size for p in params)
        return Posterior(np.zeros(size), None, np.full(size, np.inf))

    def linearised(rows: slice) -> Any:
        part = Regression(data.z[rows], data.y[rows])
        return OneStep(network).linearise(params, noise, part).derivative

    rows, outputs = data.y.shape
    return posterior_of_rows(linearised, rows, outputs, prior)


def _outputs(network: Network, params: Any, z: Array) -> NDArray[np.float64]:
    """Return the outputs for some rows at a time: hidden layers may be wide."""
    step = max(1, int(LARGEST_PIECE / max(network.widths)))
    pieces = [network.apply(params, z[k : k + step]) for k in range(0, len(z), step)]
    return np.concatenate([np.asarray(piece) for piece in pieces])


def _scaled(prior: Prior, factor: float) -> Prior:
    return tuple(p.scaled(factor) for p in jax.device_get(prior))
