"""Filters around a static network, without feedback: Wiener, Hammerstein, and both.

Front states filter the inputs, neurons see front states and inputs only, and back
states filter what neurons give:

    f+ = A f + B u,   n = phi(F f + H u),   b+ = A' b + E n
    y = C f + C' b + D u + G n

Nothing leads back from behind the neurons, so that no weight can make it unstable.
"""

from __future__ import annotations

from collections.abc import Sequence

from sparsid.models.canonical import Pole, Sizes, Structure
from sparsid.models.structures.draft import Draft


def chain(
    sizes: Sizes,
    poles: Sequence[Pole],
    front: int,
    kinds: Sequence[int] | None = None,
) -> Structure:
    """Return the structure.

    Parameters
    ----------
    sizes
        ``states`` counts front and back ones.
    poles
        Those of the front states, then those of the back states.
    front
        How many states are before the neurons.
    """
    draft = Draft(sizes, kinds)
    draft.poles = list(poles)
    before, behind = range(front), range(front, sizes.states)
    adding = [pole.state for pole in poles if pole.kind == "one" and pole.state < front]
    draft.free("B", before, range(sizes.inputs)).free("B", adding, [sizes.inputs])
    draft.free("C").free("D")
    draft.free("E", rows=behind).free("F", columns=before).free("H").free("G")
    return draft.finish("chain")
