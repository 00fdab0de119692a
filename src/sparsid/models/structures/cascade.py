"""Leaky states in a row, each pushed by later ones, by inputs and by neurons.

    x+ = decay x + rate (C' x + B' u + W' n),   y = the first states

``decay = exp(-rate exp(leak) / 2)`` lies between zero and one, couplings lead from
later to earlier states only, and states that are outputs are held where the record
shows that they saturate. Tanks, ovens and other chains of stores are of this kind.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sparsid.kernel.activations import SOFTROOT
from sparsid.models.canonical import Pole, Sizes, Structure
from sparsid.models.structures.draft import Draft

# Time constants are looked for around ``1 / (rate * TYPICAL_LEAK)`` samples.
TYPICAL_LEAK = 0.5


def cascade(
    sizes: Sizes,
    rate: float,
    floor: Sequence[float],
    ceiling: Sequence[float],
    kind: int = SOFTROOT,
) -> Structure:
    """Return the structure.

    Parameters
    ----------
    rate
        Typical change from sample to sample, in standard deviations.
    floor, ceiling
        Where each scaled output saturates; infinite where it does not.
    """
    n, ny = sizes.states, sizes.outputs
    draft = Draft(sizes, [kind] * sizes.neurons)
    draft.poles = [Pole("leak", i, rate * TYPICAL_LEAK) for i in range(n)]
    for i in range(n):
        draft.free("A", [i], range(i + 1, n))
    draft.free("B").free("E").free("F").free("H")
    for o in range(ny):
        draft.fix("C", o, o, 1.0)
        for at in (o, n + o):
            draft.bounds[:, at] = floor[o], ceiling[o]
    factors = np.array([rate if m in "ABE" else 1.0 for m, _, _ in draft.free_entries])
    return draft.finish("cascade", factors)
