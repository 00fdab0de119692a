"""Where a model is valid: its error by the range of the output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from sparsid.data.record import Record, value_range
from sparsid.results.base import FittedModel
from sparsid.results.forecast import Forecast, paired

# Bins of the estimation range.
BINS = 5


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
    fitted: FittedModel,
    records: Record | Sequence[Record],
    forecasts: Forecast | Sequence[Forecast],
) -> list[OperatingRange]:
    """Return the errors of forecasts by the range of each output.

    Parameters
    ----------
    fitted
        The model; its file remembers the range of the estimation records.
    """
    records, forecasts = paired(records, forecasts)
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
