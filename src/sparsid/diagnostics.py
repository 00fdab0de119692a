"""When to believe a model: residual tests, operating range, stability, relevance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import chi2

from sparsid.calibration import Calibration, calibration
from sparsid.ensemble import Ensemble
from sparsid.errors import InputError
from sparsid.estimators import Model
from sparsid.fitted import Fitted
from sparsid.forecasts import Forecast, half_width, over_segments
from sparsid.models.network import Block
from sparsid.outcomes import Outcome
from sparsid.posterior import Posterior
from sparsid.records import Record, value_range
from sparsid.scores import fit_percent, r2, rmse

Values = NDArray[np.float64]
# Lags of the residual tests, and the confidence of their limits.
LAGS, CONFIDENCE = 25, 0.99
# Beyond so many limits a single lag is no chance: one in ten thousand.
FAR_OUTSIDE = 1.5
# Fewer residuals than this show no correlation.
FEWEST_RESIDUALS = 8
# Bins of the estimation range.
BINS = 5
# A perturbed run has forgotten its start when it is this close, in its perturbation.
FORGOTTEN = 0.05
# Samples of the long run: so many times the record, within these bounds.
REPEATS, LONGEST_RUN = 5, 20_000
# A long run is bounded if it stays so many estimation ranges around their middle.
FAR = 3.0


# -- residual tests ------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Correlation:
    """Correlation of residuals with themselves or with an input, lag by lag.

    Attributes
    ----------
    source
        The input, None for the residuals themselves.
    lags, values
        ``corr(e(t), source(t - lag))``; lag 0 of the residuals themselves is left out.
    limit
        99 % of independent residuals stay below it, at each lag.
    p_value
        Probability of correlations as large in all if there were none (Ljung and Box);
        for the residuals themselves.
    """

    output: str
    source: str | None
    lags: NDArray[np.int64]
    values: Values
    limit: float
    p_value: float | None

    @property
    def outside(self) -> int:
        """Number of lags beyond the limit."""
        return int((np.abs(self.values) > self.limit).sum())

    @property
    def passed(self) -> bool:
        """Whether no more lags are outside, and no further, than chance puts there."""
        allowed = max(1, round(2 * (1 - CONFIDENCE) * len(self.values)))
        far = np.abs(self.values).max() > FAR_OUTSIDE * self.limit
        return bool(self.outside <= allowed and not far)

    @property
    def verdict(self) -> str:
        """The result in plain words."""
        worst = int(np.argmax(np.abs(self.values)))
        most = f"largest {self.values[worst]:+.2f} at lag {self.lags[worst]}"
        what = (
            f"residuals of {self.output}"
            if self.source is None
            else f"residuals of {self.output} and {self.source}"
        )
        if self.passed:
            return f"{what}: no correlation beyond chance ({most})"
        counted = f"{self.outside} of {len(self.lags)} lags outside the limits, {most}"
        if self.source is None:
            return f"{what} are correlated: {counted}; dynamics or noise are left over"
        return f"{what} are correlated: {counted}; not all of its effect is modelled"


def residual_tests(
    records: Record | Sequence[Record],
    forecasts: Forecast | Sequence[Forecast],
    lags: int = LAGS,
) -> list[Correlation]:
    """Return the correlation tests of one-step residuals.

    Parameters
    ----------
    forecasts
        One-step predictions over the records.
    lags
        Largest lag.
    """
    records, forecasts = _listed(records, forecasts)
    first = records[0]
    errors = [r.y - f.mean for r, f in zip(records, forecasts, strict=True)]
    tests = []
    for k, output in enumerate(first.output_names):
        e = [error[:, k] for error in errors]
        count = sum(int(np.isfinite(v).sum()) for v in e)
        used = min(lags, count // 4)
        if used < 1:
            raise InputError(
                f"{count} residuals of {output} are too few for correlations: give a "
                "longer record"
            )
        own = _correlations(e, e, used)
        shares = own[1:] ** 2 / (count - np.arange(1, used + 1))
        p_value = float(chi2.sf(count * (count + 2) * shares.sum(), used))
        steps = np.arange(1, used + 1)
        limit = half_width(CONFIDENCE) / np.sqrt(count)
        tests.append(Correlation(output, None, steps, own[1:], limit, p_value))
        for i, source in enumerate(first.input_names):
            u = [r.u[:, i] for r in records]
            input_own = _correlations(u, u, used)
            # What two independent but coloured signals correlate by chance.
            spread = 1.0 + 2.0 * float((own[1:] * input_own[1:]).sum())
            wide = limit * np.sqrt(max(spread, 0.1))
            cross = _correlations(e, u, used)
            tests.append(
                Correlation(output, source, np.arange(used + 1), cross, wide, None)
            )
    return tests


def _correlations(a: list[Values], b: list[Values], lags: int) -> Values:
    """Return ``corr(a(t), b(t - k))`` for k up to ``lags``, without missing samples."""
    a = [v - np.nanmean(np.concatenate(a)) for v in a]
    b = [v - np.nanmean(np.concatenate(b)) for v in b]
    scale = np.sqrt(
        np.nanmean(np.concatenate(a) ** 2) * np.nanmean(np.concatenate(b) ** 2)
    )
    found = []
    for k in range(lags + 1):
        pairs = zip(a, b, strict=True)
        products = np.concatenate([x[k:] * y[: len(y) - k] for x, y in pairs])
        known = products[np.isfinite(products)]
        # Over all samples, not over the pairs: so that they form a covariance.
        total = sum(int(np.isfinite(v).sum()) for v in a)
        found.append(known.sum() / (total * scale) if scale > 0.0 else 0.0)
    return np.array(found)


# -- operating range -----------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class OperatingRange:
    """Errors of a forecast by the measured output, inside and outside what was learnt.

    Attributes
    ----------
    table
        One row for each range: ``low``, ``high``, ``inside`` the estimation range,
        ``samples``, ``rmse``, ``bias``.
    input_outside
        Share of samples with an input beyond its estimation range.
    """

    output: str
    unit: str
    table: pd.DataFrame
    input_outside: float

    @property
    def outside(self) -> float:
        """Share of samples with this output beyond its estimation range."""
        samples = self.table["samples"]
        return float(samples[~self.table["inside"]].sum() / max(samples.sum(), 1))

    @property
    def verdict(self) -> str:
        """The result in plain words."""
        parts = []
        for share, what in (
            (self.outside, self.output),
            (self.input_outside, "an input"),
        ):
            if share > 0.0:
                parts.append(
                    f"{100 * share:.1f} % of the samples have {what} outside the "
                    "range the model was estimated from"
                )
        text = "; ".join(parts) or "the record stays inside the estimation range"
        filled = self.table[self.table["samples"] > 0]
        if not len(filled):
            return f"{text}; there is no error to compare"
        worst = filled.sort_values("rmse").iloc[-1]
        where = f"{worst['low']:.3g} to {worst['high']:.3g} {self.unit}".rstrip()
        return f"{text}; largest error, {worst['rmse']:.3g} {self.unit}, at {where}"


def operating_range(
    fitted: Fitted | Ensemble,
    records: Record | Sequence[Record],
    forecasts: Forecast | Sequence[Forecast],
) -> list[OperatingRange]:
    """Return the errors of forecasts by the range of each output.

    Parameters
    ----------
    fitted
        The model; its file remembers the range of the estimation records.
    """
    records, forecasts = _listed(records, forecasts)
    known = fitted.details.get("range") or value_range(records)
    y = np.concatenate([r.y for r in records])
    u = np.concatenate([r.u for r in records])
    mean = np.concatenate([f.mean for f in forecasts])
    ends = np.array(known["inputs"], dtype=float).reshape(-1, 2)
    beyond = np.asarray(((u < ends[:, 0]) | (u > ends[:, 1])).any(1))
    used = np.isfinite(y + mean).any(1)
    share = float(beyond[used].mean()) if used.any() else 0.0
    found = []
    for k, name in enumerate(records[0].output_names):
        low, high = (float(v) for v in known["outputs"][k])
        error, value = y[:, k] - mean[:, k], y[:, k]
        there = np.isfinite(error)
        edges = np.linspace(low, high, BINS + 1)
        edges = np.concatenate([[-np.inf], edges, [np.inf]])
        # The largest value of the estimation record is inside.
        number = np.searchsorted(edges, value[there], side="right") - 1
        number = np.where(value[there] == high, BINS, number)
        rows = []
        for b in range(BINS + 2):
            own, values = error[there][number == b], value[there][number == b]
            inside = 1 <= b <= BINS
            if not inside and not own.size:
                continue
            rows.append(
                {
                    "low": edges[b] if b else values.min(),
                    "high": edges[b + 1] if b <= BINS else values.max(),
                    "inside": inside,
                    "samples": len(own),
                    "rmse": float(np.sqrt((own**2).mean())) if own.size else np.nan,
                    "bias": float(own.mean()) if own.size else np.nan,
                }
            )
        unit = records[0].output_units[k]
        found.append(OperatingRange(name, unit, pd.DataFrame(rows), share))
    return found


# -- stability -----------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Stability:
    """A long free run, and runs from other starts.

    Attributes
    ----------
    samples
        Length of the long run: the inputs of the record over and over.
    bounded
        Whether it stayed within reason.
    apart
        Distance of runs that start a standard deviation higher and lower, in standard
        deviations, sample by sample: the largest over outputs.
    forgotten
        Sample after which they stay within 5 % of it; None if they never do.
    """

    samples: int
    bounded: bool
    apart: Values
    forgotten: int | None
    dt: float

    @property
    def verdict(self) -> str:
        """The result in plain words."""
        long = (
            f"a run of {self.samples} samples stays bounded"
            if self.bounded
            else f"a run of {self.samples} samples leaves all bounds: do not simulate "
            "far beyond the record"
        )
        if self.forgotten is None:
            return f"{long}; a wrong start is not forgotten within the record"
        took = f"{self.forgotten} samples ({self.forgotten * self.dt:.3g} s)"
        return f"{long}; a wrong start is forgotten after {took}"


def stability(model: Model, record: Record) -> Stability:
    """Return how free runs behave over long times and from other starts.

    Parameters
    ----------
    record
        Its longest stretch without gaps gives the inputs.
    """
    lag = model.max_lag_
    usable = [s for s in record.segments() if len(s) > lag]
    if not usable:
        raise InputError(
            f"no stretch of the record is longer than {lag} samples, which start a run"
        )
    stretch = max(usable, key=len)
    fitted = model.fitted_
    ends = np.array(
        (fitted.details.get("range") or value_range([stretch]))["outputs"], dtype=float
    )
    times = max(1, min(REPEATS, LONGEST_RUN // len(stretch)))
    inputs = np.tile(stretch.u, (times, 1))
    first = stretch.y[:lag] if lag else None

    def run(u: Values, y_init: Any) -> Values:
        return model.simulate(u, y_init, samples=0).mean

    whole = run(inputs, first)[lag:]
    reach = FAR * np.maximum(ends[:, 1] - ends[:, 0], 1e-12)
    bounded = bool((np.abs(whole - ends.mean(1)) <= reach).all())
    std = fitted.scaling.y_std
    apart = np.zeros(len(stretch) - lag)
    if first is not None:
        high, low = (run(stretch.u, first + side * std) for side in (1.0, -1.0))
        distance = np.nan_to_num(np.abs(high - low)[lag:] / std, nan=np.inf)
        apart = distance.max(1)
    late = np.flatnonzero(apart > 2.0 * FORGOTTEN)
    forgotten: int | None = int(late[-1]) + 1 if late.size else 0
    if forgotten is not None and forgotten >= len(apart):
        forgotten = None
    return Stability(len(inputs), bounded, apart, forgotten, record.dt)


# -- weights and groups --------------------------------------------------------------


def weights_table(model: Model, member: int = 0) -> pd.DataFrame:
    """Return every weight kept: block, row, column, value, std, signal to noise.

    Parameters
    ----------
    member
        Which member of an ensemble; a single network has one.
    """
    params, posterior, structure = _weights(model.fitted_, member)
    std = posterior.std
    rows, at = [], 0
    for block, shape, values in zip(
        structure.blocks, structure.shapes, params, strict=True
    ):
        for i in range(shape[0]):
            for j in range(shape[1]):
                rows.append((block.name, i, j, float(values[i, j]), float(std[at])))
                at += 1
    names = ["block", "row", "column", "value", "std"]
    table = pd.DataFrame(rows, columns=names)
    with np.errstate(divide="ignore", invalid="ignore"):
        table["signal_to_noise"] = np.abs(table["value"]) / table["std"]
    return table


def relevance(model: Model) -> pd.DataFrame:
    """Return how strongly the evidence prefers each input, lag, state and neuron.

    Columns: ``kind``, ``name``, ``weights`` (how many carry it), ``signal_to_noise``
    (root of the mean squared standardised weight) and ``evidence``: by how much the log
    evidence would fall without it, the other weights of its layer making up for it as
    they can. Above 5 is strong. For ensembles the median over members.
    """
    fitted = model.fitted_
    members = range(len(fitted)) if isinstance(fitted, Ensemble) else range(1)
    found = []
    for k in members:
        params, posterior, structure = _weights(fitted, k)
        flat = np.concatenate([np.asarray(w).ravel() for w in params])
        for kind, name, group, moving in _groups(fitted, structure):
            evidence, signal = posterior.evidence_for(flat, group, moving)
            found.append(
                {
                    "kind": kind,
                    "name": name,
                    "weights": int((flat[group] != 0.0).sum()),
                    "signal_to_noise": signal,
                    "evidence": evidence,
                }
            )
    columns = ["kind", "name", "weights", "signal_to_noise", "evidence"]
    table = pd.DataFrame(found, columns=columns)
    order = table.drop_duplicates(["kind", "name"])[["kind", "name"]]
    medians = table.groupby(["kind", "name"], sort=False).median().reset_index()
    return order.merge(medians, on=["kind", "name"])


def _weights(fitted: Fitted | Ensemble, member: int) -> tuple[Any, Posterior, Any]:
    if isinstance(fitted, Ensemble):
        member = range(len(fitted))[member]
        params = tuple(np.asarray(w[member]) for w in fitted.params)
        return params, fitted.posterior(member), fitted.model
    return fitted.params, fitted.posterior, fitted.network


def _groups(
    fitted: Fitted | Ensemble, structure: Any
) -> Iterator[tuple[str, str, NDArray[np.int64], NDArray[np.int64]]]:
    """Yield kind and name of each group, its weights, and those beside it."""
    blocks: tuple[Block, ...] = structure.blocks
    sizes = [n * m for n, m in structure.shapes]
    firsts = np.cumsum([0, *sizes[:-1]])
    numbers = {
        block.name: first + np.arange(n * m).reshape(n, m)
        for block, first, (n, m) in zip(blocks, firsts, structure.shapes, strict=True)
    }
    names = ("layer1", "linear", "drive", "coupling")
    entered = [numbers[name] for name in names if name in numbers]
    beside = np.concatenate([block.ravel() for block in entered])
    if isinstance(fitted, Ensemble):
        channels, model = fitted.channels, fitted.model
        states = [*channels.output_names]
        states += [f"state {k + 1}" for k in range(len(states), model.states)]
        for i, name in enumerate(channels.input_names):
            rows = [numbers["layer1"][model.states + i], numbers["drive"][i]]
            yield "input", name, np.concatenate(rows), beside
        for i, name in enumerate(states):
            # What a state does to others: its own leak stays.
            acts = numbers["coupling"][i][:i]
            group = np.concatenate([numbers["layer1"][i], acts])
            yield "state", name, group, beside
        layers = model.network.layers
    else:
        for i, name in enumerate(fitted.regressor_names):
            rows = [block[i] for block in entered]
            yield "regressor", name, np.concatenate(rows), beside
        layers = fitted.network.layers
    for layer in range(1, layers):
        after = numbers[f"layer{layer + 1}"]
        for j, row in enumerate(after[:-1]):
            yield "neuron", f"layer {layer}, neuron {j + 1}", row, after.ravel()


def alternatives(model: Model) -> pd.DataFrame:
    """Return what the model was compared with: candidates, other starts, members."""
    details, rows = model.fitted_.details, []
    for trial in details.get("candidates", ()):
        rows.append(
            {
                "what": trial["name"],
                "held_out_error": trial["held_out_error"],
                "log_evidence": np.nan,
                "chosen": trial["name"] == details.get("chosen_candidate"),
            }
        )
    if isinstance(model.fitted_, Ensemble):
        for k, value in enumerate(model.fitted_.log_evidence, 1):
            rows.append(_alternative(f"member {k}", float(value), True))
    else:
        for k, start in enumerate(details.get("starts", ())):
            chosen = k == details.get("chosen_start")
            value = start["log_evidence"]
            value = np.nan if value is None else float(value)
            rows.append(_alternative(f"start {k + 1}", value, chosen))
    return pd.DataFrame(
        rows, columns=["what", "held_out_error", "log_evidence", "chosen"]
    )


def _alternative(what: str, value: float, chosen: bool) -> dict[str, Any]:
    return {
        "what": what,
        "held_out_error": np.nan,
        "log_evidence": value,
        "chosen": chosen,
    }


# -- all of it -----------------------------------------------------------------------


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
    model: Model,
    records: Record | Sequence[Record],
    *,
    samples: int = 100,
    seed: int = 0,
) -> Diagnosis:
    """Return what a model gets right and wrong on records.

    Parameters
    ----------
    records
        Test records if there are any: on the estimation records everything looks
        better than it is.
    samples
        Draws behind the bands of the free run.
    """
    records = [records] if isinstance(records, Record) else list(records)
    lag = model.max_lag_
    # The weights of a diverged model are not finite, and there is nothing to draw.
    samples = 0 if model.outcome_ is Outcome.DIVERGED else samples

    def run(segment: Record) -> Forecast:
        return model.simulate(segment, samples=samples, seed=seed)

    one_step = [over_segments(r, lag, model.predict) for r in records]
    free_run = [over_segments(r, lag, run) for r in records]
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
        operating_range(model.fitted_, records, free_run),
        _stability(model, records),
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


def _stability(model: Model, records: list[Record]) -> Stability | None:
    longest = max((s for r in records for s in r.segments()), key=len)
    if len(longest) <= model.max_lag_ or model.outcome_ is Outcome.DIVERGED:
        return None
    return stability(model, longest)


def _calibration(
    records: list[Record], forecasts: list[Forecast]
) -> Calibration | None:
    known = [np.isfinite(f.std).any(0).all() for f in forecasts]
    return calibration(records, forecasts) if all(known) else None


def _listed(
    records: Record | Sequence[Record], forecasts: Forecast | Sequence[Forecast]
) -> tuple[list[Record], list[Forecast]]:
    records = [records] if isinstance(records, Record) else list(records)
    forecasts = [forecasts] if isinstance(forecasts, Forecast) else list(forecasts)
    if len(records) != len(forecasts) or not records:
        raise InputError(
            f"{len(records)} records and {len(forecasts)} forecasts were given: give "
            "one forecast for each record"
        )
    return records, forecasts
