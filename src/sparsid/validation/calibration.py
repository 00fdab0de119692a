"""Are the bands honest? Coverage and scores of forecasts with their uncertainty.

A forecast says of every sample: Gaussian, with this mean and standard deviation. If
that is right, ``(y - mean) / std`` is standard normal. If it is not, the bands of a
model can be compared with its errors on blocks of the estimation record that a copy of
it did not learn from, and widened or narrowed by one factor for each output.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from sparsid.data.pieces import held_out, stretches_of
from sparsid.data.record import Record
from sparsid.errors import InputError
from sparsid.results.base import FittedModel
from sparsid.results.forecast import (
    BandFactors,
    Forecast,
    half_width,
    over_record,
    paired,
)

LEVELS = (0.5, 0.8, 0.9, 0.95)
# The band that a factor makes as wide as the errors ask for.
MATCHED_LEVEL = 0.9
# Fewer errors than this say nothing about the tails.
FEWEST_ERRORS = 20

Values = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Calibration:
    """How forecasts with bands compare with what was measured, for each output.

    Attributes
    ----------
    levels, coverage
        Nominal shares, and the shares of samples that were inside, (level, output).
    widths
        Mean width of each band in the unit of the output, (level, output).
    crps
        Continuous ranked probability score in the unit of the output; smaller is
        better, and for a forecast without spread it is the mean absolute error.
    nll
        Mean negative log density of a sample.
    pit
        Probability integral transform of every sample; uniform if the bands are right.
    factor
        By what the standard deviations would have to be multiplied for the 90 % band
        to hold 90 % of these samples.
    """

    levels: tuple[float, ...]
    coverage: Values
    widths: Values
    crps: Values
    nll: Values
    pit: tuple[Values, ...]
    factor: Values
    output_names: tuple[str, ...]
    output_units: tuple[str, ...]

    def facts(self) -> dict[str, Any]:
        """Return the figures as plain values."""
        names = [f"{level:g}" for level in self.levels]
        return {
            "coverage": dict(zip(names, self.coverage.tolist(), strict=True)),
            "widths": dict(zip(names, self.widths.tolist(), strict=True)),
            "crps": self.crps.tolist(),
            "nll": self.nll.tolist(),
            "factor": self.factor.tolist(),
            "samples": [len(p) for p in self.pit],
        }

    def verdict(self, output: int = 0) -> str:
        """Return in words whether the 90 % band is right."""
        share = 100.0 * self.coverage[self.levels.index(MATCHED_LEVEL), output]
        text = f"the 90 % band holds {share:.0f} % of the samples"
        factor = self.factor[output]
        if abs(share - 90.0) <= 5.0:
            return f"{text}: right"
        if share > 90.0:
            return f"{text}: too wide, {factor:.2f} times as wide would do"
        return f"{text}: too narrow, it would have to be {factor:.2f} times as wide"


def calibration(
    measured: Record | Sequence[Record],
    forecast: Forecast | Sequence[Forecast],
    levels: Sequence[float] = LEVELS,
) -> Calibration:
    """Return how the bands of forecasts compare with what was measured.

    Parameters
    ----------
    measured, forecast
        A record and the forecast over it, or several of both. Samples without a
        measured output or without a forecast are left out.
    """
    records, forecasts = paired(measured, forecast)
    first = forecasts[0]
    levels = tuple(float(level) for level in levels)
    return _calibration(
        np.concatenate([r.y - f.mean for r, f in zip(records, forecasts, strict=True)]),
        np.concatenate([f.std for f in forecasts]),
        tuple(sorted({*levels, MATCHED_LEVEL})),
        first.output_names,
        first.output_units,
    )


def _calibration(
    errors: Values,
    std: Values,
    levels: tuple[float, ...],
    names: tuple[str, ...],
    units: tuple[str, ...],
) -> Calibration:
    columns = []
    for name, error, s in zip(names, errors.T, std.T, strict=True):
        known = np.isfinite(error) & np.isfinite(s) & (s > 0.0)
        if not known.any():
            raise InputError(
                f"no sample of {name} has both a measurement and a band: simulate "
                "with samples=100, over a record with outputs"
            )
        columns.append((error[known], s[known]))
    halves = np.array([half_width(level) for level in levels])
    standard = [e / s for e, s in columns]
    inside = [(np.abs(z) <= halves[:, None]).mean(1) for z in standard]
    return Calibration(
        levels,
        np.stack(inside, axis=1),
        2.0 * halves[:, None] * np.array([s.mean() for _, s in columns]),
        np.array([_crps(e, s) for e, s in columns]),
        np.array([-norm.logpdf(e, scale=s).mean() for e, s in columns]),
        tuple(norm.cdf(z) for z in standard),
        np.array([_factor(z) for z in standard]),
        names,
        units,
    )


def _crps(error: Values, std: Values) -> float:
    """Return the mean score of Gaussian forecasts."""
    z = error / std
    own = z * (2.0 * norm.cdf(z) - 1.0) + 2.0 * norm.pdf(z) - 1.0 / np.sqrt(np.pi)
    return float((std * own).mean())


def _factor(z: Values) -> float:
    found = float(np.quantile(np.abs(z), MATCHED_LEVEL)) / half_width(MATCHED_LEVEL)
    return max(found, 1e-6)


# -- what errors on held-out blocks ask of bands --------------------------------------


def factors_of(
    copies: Sequence[FittedModel],
    records: list[Record],
    known: int,
    members: int = 1,
) -> BandFactors:
    """Return factors from copies of a model, each fitted without one block.

    Parameters
    ----------
    copies
        One for each block of `pieces.held_out`.
    known
        Samples at the start of a stretch that are in no block.
    members
        Of the model, which may have more than its copies.
    """
    outputs = range(records[0].n_outputs)

    def factors(kind: str) -> tuple[float, ...]:
        blocks = held_out_bands(kind, copies, records, known, members)
        return tuple(band_factor([block[..., k] for block in blocks]) for k in outputs)

    return BandFactors(factors("predict"), factors("simulate"))


def held_out_bands(
    kind: str,
    copies: Sequence[FittedModel],
    records: list[Record],
    known: int,
    members: int,
) -> list[Values]:
    """Return, block by block, what `_compared` finds where a copy has not learnt."""
    stretches = stretches_of(records)
    masks = held_out(stretches, len(copies), known)
    return [
        np.concatenate(
            [
                _compared(kind, copy, stretch, known, members)[:, mask]
                for stretch, mask in zip(stretches, hidden, strict=True)
                if mask.any()
            ],
            axis=1,
        )
        for copy, hidden in zip(copies, masks, strict=True)
        if any(mask.any() for mask in hidden)
    ]


def _compared(
    kind: str, copy: FittedModel, stretch: Record, known: int, members: int
) -> Values:
    """Return errors of a copy and its deviations, and what other members change.

    The error of ``m`` members has a part that they share, and one of the variance
    ``apart^2 / m``. By as much the variance between members, which is in their band, is
    too small. So with ``M`` members the square of the error is smaller, and that of the
    deviation larger, by ``apart^2 (1/m - 1/M)``; ``apart^2 / M`` is left of it. With
    fewer members it is the other way round.
    """

    def run(model: Any, **more: Any) -> Forecast:
        return over_record(stretch, known, partial(getattr(model, kind), **more))

    found = run(copy.with_bands(BandFactors.none(stretch.n_outputs)))
    gain = left = np.zeros_like(found.mean)
    if min(len(copy), members) > 1:
        centre = {"samples": 0} if kind == "simulate" else {}
        each = [run(copy.member(k), **centre).mean for k in range(len(copy))]
        spread = np.var(each, axis=0, ddof=1)
        gain, left = spread * (1.0 / len(copy) - 1.0 / members), spread / members
    return np.stack([stretch.y - found.mean, found.std, gain, left])


def band_factor(blocks: Sequence[Values]) -> float:
    """Return the factor for an output of an ensemble, from what smaller ones get wrong.

    Parameters
    ----------
    blocks
        Of each block errors, deviations, and what other members change, as rows.
    """
    z = np.concatenate([np.zeros(0), *(_standard_errors(*b) for b in blocks)])
    if len(z) < FEWEST_ERRORS:
        # Too few to tell, or runs that diverged: the bands stay as they are.
        return 1.0
    return _factor(z)


def _standard_errors(error: Values, std: Values, gain: Values, left: Values) -> Values:
    """Return errors over deviations as the model would have them in a block.

    Block by block: members that are far apart in one tell nothing about the others.
    """
    known = np.isfinite(error) & np.isfinite(std) & np.isfinite(gain) & (std > 0.0)
    error, std, gain, left = error[known], std[known], gain[known], left[known]
    if not gain.any() or not error.any():
        return np.asarray(error / std)
    squares = float(np.mean(error**2))
    # What members do not share is there even if these errors happen to be smaller.
    least = min(float(left.mean()), squares)
    smaller = max(squares - float(gain.mean()), least) / squares
    larger = float(np.mean(std**2 + gain) / np.mean(std**2))
    return np.asarray(error / std * np.sqrt(smaller / larger))
