"""A model whose output is the filtered modulus of a signal: a speed without its sign.

The last neurons, one for each output, are moduli of what the linear output would be.
They reach the output, at once and through a filter of first order each, whose state
acts on nothing else; the other neurons push the states before.
"""

from __future__ import annotations

from collections.abc import Sequence

from sparsid.kernel.activations import MODULUS, TANH
from sparsid.models.canonical import Pole, Sizes, Structure
from sparsid.models.structures.draft import Draft


def even_output(sizes: Sizes, poles: Sequence[Pole]) -> Structure:
    """Return the structure.

    Parameters
    ----------
    sizes
        ``states`` counts the filters, which come last, and ``neurons`` the moduli.
    poles
        Those of the states before the filters.
    """
    ny, inner = sizes.outputs, sizes.neurons - sizes.outputs
    before = sizes.states - ny
    draft = Draft(sizes, [TANH] * inner + [MODULUS] * ny)
    draft.poles = [*poles, *(Pole("real", before + o) for o in range(ny))]
    draft.free("B", range(before), range(sizes.inputs))
    draft.free("D", columns=[sizes.inputs])
    draft.free("E", range(before), range(inner))
    draft.free("F", columns=range(before)).free("H")
    for o in range(ny):
        draft.fix("E", before + o, inner + o, 1.0)
        draft.free("C", [o], [before + o]).free("G", [o], [inner + o])
    return draft.finish("even output")
