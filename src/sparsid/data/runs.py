"""Records laid side by side for free runs."""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Float

from sparsid.arrays import Array


class Runs(NamedTuple):
    """Records of equal length in scaled units, the shorter ones filled up.

    ``measured`` is one where an output was measured and zero where not; members may
    differ in it, along a first axis.
    """

    u: Float[Array, "records time inputs"]
    y: Float[Array, "records time outputs"]
    measured: Float[Array, "*members records time outputs"]
