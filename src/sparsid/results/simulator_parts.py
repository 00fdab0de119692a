"""A member in the canonical form as a network, and its parameters in groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from sparsid.kernel.activations import NAMES
from sparsid.models.canonical import Structure
from sparsid.models.network import Network
from sparsid.results.base import Drawing, Group, Places
from sparsid.results.simulator_member import SimulatorMember


def drawing_of(
    own: SimulatorMember, inputs: Sequence[str], outputs: Sequence[str]
) -> Drawing:
    """Return a member as a network from states and inputs to what follows."""
    sizes, M = own.structure.sizes, own.structure.named(own.theta)
    states = [f"state {k + 1}" for k in range(sizes.states)]
    sources = [*states, *inputs]
    targets = [*(f"{s} next" for s in states), *outputs]
    linear = np.block([[M["A"], M["B"]], [M["C"], M["D"]]]).T
    if not sizes.neurons:
        network = Network((len(sources), len(targets)), "tanh", False)
        return Drawing(network, (linear,), sources, targets)
    kinds = own.structure.kinds
    name = NAMES[int(np.bincount(kinds).argmax())]
    drawn = name if name in ("tanh", "softroot", "sigmoid") else "tanh"
    network = Network((len(sources), sizes.neurons, len(targets)), drawn, True)
    enter = np.concatenate([M["F"], M["H"]], axis=1).T
    leave = np.concatenate([M["E"], M["G"]]).T
    leave = np.concatenate([leave, linear[-1:]])
    return Drawing(network, (enter, leave, linear[:-1]), sources, targets)


def layers_of(
    structure: Structure, inputs: Sequence[str]
) -> Iterator[tuple[Places, list[Group]]]:
    """Yield what inputs and states do, and what neurons do."""
    sizes = structure.sizes

    def column(matrices: str, j: int) -> Places:
        found = [
            structure.leading + k
            for k, (matrix, _, c) in enumerate(structure.free)
            if matrix in matrices and c == j
        ]
        return np.array(found, dtype=np.int64)

    groups = [Group("input", name, column("BDH", j)) for j, name in enumerate(inputs)]
    groups += [
        Group("state", f"state {j + 1}", column("ACF", j)) for j in range(sizes.states)
    ]
    groups = [g for g in groups if len(g.weights)]
    # Of a model that says only the mean, nothing is left that belongs to a group.
    if groups:
        yield np.unique(np.concatenate([g.weights for g in groups])), groups
    neurons = [
        Group("neuron", f"neuron {j + 1}", column("EG", j))
        for j in range(sizes.neurons)
    ]
    neurons = [g for g in neurons if len(g.weights)]
    if neurons:
        yield np.concatenate([g.weights for g in neurons]), neurons
