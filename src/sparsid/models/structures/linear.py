"""A linear model in modal form, with or without neurons beside it.

A consists of blocks whose poles stay inside the unit circle; B, C and D are free. With
neurons, E, F, H and G are free, too: at E = G = 0 the model is the linear one.
"""

from __future__ import annotations

from collections.abc import Sequence

from sparsid.models.canonical import Pole, Sizes, Structure
from sparsid.models.structures.draft import Draft


def linear(
    sizes: Sizes,
    poles: Sequence[Pole],
    kinds: Sequence[int] | None = None,
    direct: bool = True,
    output_neurons: bool = True,
) -> Structure:
    """Return the structure.

    Parameters
    ----------
    direct
        Inputs reach outputs without delay.
    output_neurons
        Neurons reach outputs without passing a state.
    """
    draft = Draft(sizes, kinds)
    draft.poles = list(poles)
    # A constant input of the states would do what one of the outputs does, except
    # where a state adds up what it gets.
    drifting = [pole.state for pole in poles if pole.kind == "one"]
    draft.free("B", columns=range(sizes.inputs)).free("B", drifting, [sizes.inputs])
    draft.free("C")
    if direct:
        draft.free("D")
    else:
        draft.free("D", columns=[sizes.inputs])
    if sizes.neurons:
        draft.free("E").free("F").free("H")
        if output_neurons:
            draft.free("G")
    return draft.finish("linear first" if sizes.neurons else "linear")
