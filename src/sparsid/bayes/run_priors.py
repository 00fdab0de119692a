"""Priors of what runs on its own begin with: weights, leaks, start states."""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np

from sparsid.bayes.prior import BlockPrior, Prior, start_block
from sparsid.models.narx_feedback import Feedback
from sparsid.models.state_space import LEAK_VARIANCE, START_VARIANCE, StateNetwork


def state_space_prior(model: StateNetwork, kinds: Sequence[str]) -> Prior:
    """Return the prior that a fit of a state network begins with.

    Parameters
    ----------
    kinds
        How the weights of each layer share variances.
    """
    own = ("shape", "shape", "fixed", "fixed")
    variances = {
        "coupling": model.couplings / model.states,
        "leak": np.full((1, model.states), LEAK_VARIANCE),
        "start": np.full((model.records, model.states), START_VARIANCE),
    }
    made = []
    for block, shape, kind in zip(
        model.blocks, model.shapes, (*kinds, *own), strict=True
    ):
        if block.name not in variances:
            made.append(start_block(block, shape, kind))
            continue
        ones = jnp.ones(shape[0]), jnp.ones(shape[1])
        elements = jnp.asarray(variances[block.name])
        made.append(BlockPrior(*ones, elements, kind, block.bias))
    return tuple(made)


def start_outputs_prior(model: Feedback) -> BlockPrior:
    """Return the prior of the outputs that start windows, which is not learnt."""
    rows, columns = jnp.ones(model.windows), jnp.ones(model.states)
    variances = jnp.full((model.windows, model.states), START_VARIANCE, float)
    return BlockPrior(rows, columns, variances, "fixed", False)
