"""How much wider a band has to be that holds a whole run, from held-out blocks.

If a run of n samples has the freedom of r n independent ones, a band that holds all of
them with probability p is, for errors of unit variance,

    q(p, n) = Phi^-1(1/2 + p^(1 / (r n)) / 2)

wide on either side. The rate r is that of the memory of held-out errors. The largest of
the errors of B blocks is exceeded in a block to come with probability 1 / (B + 1): what
q is multiplied with makes the band just hold all blocks at p = B / (B + 1).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sparsid.results.forecast import BandFactors, whole_run_width
from sparsid.simulation.bands import FoldRuns

Values = NDArray[np.float64]
Whole = NDArray[np.int64]

# Fewer blocks say nothing of the largest error; more lags than this are not looked at.
FEWEST_BLOCKS, LONGEST_MEMORY = 3, 500


def with_whole_runs(factors: BandFactors, held_out: FoldRuns) -> BandFactors:
    """Return the factors of bands with those of bands for whole runs."""
    if not held_out.residuals:
        return factors
    errors, deviations = (
        np.concatenate(v) for v in (held_out.residuals, held_out.deviations)
    )
    block = np.concatenate(held_out.blocks)
    z = errors / (deviations * np.array(factors.free_run))
    found = [whole_run_factor(column, block) for column in z.T]
    scale, rate = zip(*found, strict=True)
    return factors._replace(run_scale=scale, run_rate=rate)


def whole_run_factor(z: Values, block: Whole) -> tuple[float, float]:
    """Return scale and rate of independent samples.

    Parameters
    ----------
    z
        Errors in deviations; NaN where there is none.
    block
        Number of the block of each.
    """
    known = np.isfinite(z) & (block >= 0)
    parts = [z[known & (block == k)] for k in np.unique(block[known])]
    if len(parts) < FEWEST_BLOCKS:
        return 1.0, 1.0
    rate = 1.0 / _memory(parts)
    level = len(parts) / (len(parts) + 1.0)
    widths = [whole_run_width(level, rate * len(part)) for part in parts]
    pairs = zip(parts, widths, strict=True)
    return max(float(np.abs(part).max()) / width for part, width in pairs), rate


def _memory(parts: list[Values]) -> float:
    """Return how many samples are worth one that is independent of all others."""
    lags = min(min(len(p) for p in parts) // 2, LONGEST_MEMORY)
    power = sum(float((p**2).sum()) for p in parts)
    total = 1.0
    for k in range(1, lags):
        pairs = sum(float((p[k:] * p[:-k]).sum()) for p in parts)
        if pairs <= 0.0:
            break
        total += 2.0 * pairs / max(power, 1e-300)
    return total
