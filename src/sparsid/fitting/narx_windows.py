"""Windows of records: runs of a NARX network, each with its own start outputs."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from sparsid.bayes.posterior import LARGEST_COVARIANCE
from sparsid.data.record import Record
from sparsid.data.runs import Runs
from sparsid.data.scaling import Scaling
from sparsid.errors import InputError
from sparsid.models.narx import Recursion, output_history, regression_rows
from sparsid.models.narx_feedback import Feedback, Rows

# Copies of all sensitivities that an evaluation holds.
SENSITIVITY_COPIES = 3.0


class Windows(NamedTuple):
    """Runs side by side, the shorter ones filled up, in scaled units.

    Attributes
    ----------
    rows
        What the runs are given; its gain is one where a run could be corrected.
    measured
        One where an output was measured and zero where not; ``rows.measured`` has
        something in between there.
    filler
        True where a run is over and only filled up.
    starts
        Measured outputs at the start of every run, latest first.
    """

    rows: Rows
    measured: Float[np.ndarray, "windows time outputs"]
    filler: NDArray[np.bool_]
    starts: Float[np.ndarray, "windows past"]

    @property
    def samples(self) -> int:
        """Number of measured outputs."""
        return int(self.measured.sum())

    def runs(self, gain: float) -> Runs:
        """Return the runs, pulled towards the measured outputs by a gain."""
        # A run that is over is held where it is, so that it cannot run away.
        pulled = np.where(self.filler[..., None], 1.0, gain * self.rows.gain)
        table = self.rows._replace(gain=pulled).table
        y = self.rows.measured
        return Runs(*(jnp.asarray(a, float) for a in (table, y, self.measured)))


def windows_of(
    stretches: list[Record],
    scaling: Scaling,
    max_lag: int,
    recursion: Recursion,
    longest: int | None,
) -> Windows:
    """Return stretches cut into windows of about equal length.

    Windows do not overlap and leave nothing out. The first of a stretch begins where
    its first free sample has all its regressors.

    Parameters
    ----------
    stretches
        Records without a gap in the inputs, each longer than ``max_lag``.
    longest
        Most samples in a window; None: each stretch is one.
    """
    found = [
        _cut(stretch, scaling, max_lag, recursion, longest) for stretch in stretches
    ]
    pieces = [piece for pieces, _ in found for piece in pieces]
    length = max(len(z) for z, *_ in pieces)

    def side_by_side(k: int, **fill: Any) -> NDArray[np.float64]:
        padded = [
            np.pad(p[k], ((0, length - len(p[k])), (0, 0)), **fill) for p in pieces
        ]
        return np.stack(padded)

    z, y = (side_by_side(k, mode="edge") for k in (0, 1))
    settling, gain, measured = (side_by_side(k) for k in (2, 3, 4))
    ends = np.array([len(p[0]) for p in pieces])
    return Windows(
        Rows(z, settling, gain, y),
        measured,
        np.arange(length) >= ends[:, None],
        np.concatenate([starts for _, starts in found]),
    )


def _cut(
    stretch: Record,
    scaling: Scaling,
    max_lag: int,
    recursion: Recursion,
    longest: int | None,
) -> tuple[list[tuple[NDArray[np.float64], ...]], NDArray[np.float64]]:
    """Return the windows of a stretch, column group by group, and their starts."""
    depth, length = recursion.output_lags, len(stretch)
    first = max(max_lag - depth, 0)
    count = 1 if longest is None else math.ceil((length - first) / longest)
    edges = np.linspace(first, length, count + 1).round().astype(int)
    u, y = scaling.scale_u(stretch.u), scaling.scale_y(stretch.y)
    measured = ~np.isnan(y)
    y = np.stack([_between(column) for column in y.T], axis=1)
    z = regression_rows(recursion.input_table, max_lag, u, y)
    # Samples without all their regressors only settle a run.
    z = np.pad(z, ((max_lag, 0), (0, 0)), mode="edge")
    settling = np.zeros((length, 1))
    for edge in edges[:-1]:
        settling[edge : edge + depth] = 1.0
    columns = (z, y, settling, measured * (1.0 - settling), measured.astype(float))
    pieces = [tuple(c[low:high] for c in columns) for low, high in pairwise(edges)]
    return pieces, output_history(y, edges[:-1] + depth, depth)


def _between(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a signal with missing samples on straight lines between the others."""
    seen = np.flatnonzero(~np.isnan(values))
    if not seen.size:
        return np.zeros_like(values)
    return np.interp(np.arange(len(values)), seen, values[seen])


def check_size(model: Feedback, windows: Windows, memory_limit: float) -> None:
    """Refuse what would not fit in memory, before anything is allocated."""
    weights = sum(n * m for n, m in model.network.shapes)
    starts, samples = windows.starts.size, windows.filler.size
    entries = samples * (weights + model.states) * 2 * (model.states + model.outputs)
    entries += samples * model.outputs * (weights + starts)
    needed = 8.0 * SENSITIVITY_COPIES * entries
    if weights + starts > LARGEST_COVARIANCE or needed > memory_limit:
        raise InputError(
            f"the free run of {weights} weights over {len(windows.starts)} windows "
            f"with {starts} start outputs needs about {needed / 1e9:.1f} GB, and may "
            f"have {LARGEST_COVARIANCE} weights and start outputs together and "
            f"{memory_limit / 1e9:g} GB: use longer windows or fewer output lags, or "
            "raise memory_limit"
        )
