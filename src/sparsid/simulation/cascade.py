"""Cascades of leaky states, begun at random."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sparsid.models.autoregression import Autoregression
from sparsid.models.canonical import Structure
from sparsid.simulation.evidence import Prior, Run
from sparsid.simulation.member import Member

Values = NDArray[np.float64]


def random_start(
    structure: Structure, runs: Sequence[Run], rng: np.random.Generator
) -> Member:
    """Return a member with random weights, runs beginning at their first outputs."""
    sizes = structure.sizes
    n, nu, nn = sizes.states, sizes.inputs, sizes.neurons
    theta = np.zeros(structure.parameters)
    theta[: structure.leading] = 0.5 * rng.normal(size=n)
    theta[structure.where("A")] = rng.normal(size=n * (n - 1) // 2) / np.sqrt(n)
    drive = rng.normal(size=(n, nu + 1)) / np.sqrt(max(nu, 1))
    drive[:, nu] = 0.0
    theta[structure.where("B")] = drive.ravel()
    theta[structure.where("E")] = rng.normal(size=n * nn) / np.sqrt(nn)
    theta[structure.where("F")] = rng.normal(size=n * nn) / np.sqrt(n + nu)
    H = rng.normal(size=(nn, nu + 1)) / np.sqrt(n + nu)
    H[:, nu] = rng.normal(size=nn)
    theta[structure.where("H")] = H.ravel()
    starts = np.zeros((len(runs), n))
    for x, run in zip(starts, runs, strict=True):
        x[: sizes.outputs] = run.y[0]
    prior = _prior(structure, len(runs))
    noise = [Autoregression.white(1.0)] * sizes.outputs
    return Member(structure, runs, theta, starts, prior, noise)


def _prior(structure: Structure, runs: int) -> Prior:
    """Return the prior: what each state, input and neuron does shares a variance."""
    sizes = structure.sizes
    n, nu, nn = sizes.states, sizes.inputs, sizes.neurons
    count = structure.parameters + runs * n
    variance, groups = np.ones(count), np.full(count, -1, dtype=np.int64)
    variance[structure.parameters :] = 4.0
    first = {"E": 0, "F": nn, "H": nn + n, "B": nn + n + nu, "A": nn + n + 2 * nu}
    size = {"E": nn, "F": n + nu, "H": n + nu, "B": max(nu, 1), "A": n}
    for k, (matrix, _, j) in enumerate(structure.free):
        p = structure.leading + k
        variance[p] = 1.0 / size[matrix]
        constant = matrix in "BH" and j == nu
        if constant:
            variance[p] = 1.0
        else:
            groups[p] = first[matrix] + j
    used = np.unique(groups[groups >= 0])
    groups[groups >= 0] = np.searchsorted(used, groups[groups >= 0])
    return Prior(np.zeros(count), variance, groups)
