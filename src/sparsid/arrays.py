"""Code that takes NumPy and JAX arrays alike."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

Array = jax.Array | NDArray[np.float64]


def namespace(array: Array) -> Any:
    """Return the module whose functions suit ``array``: numpy or jax.numpy."""
    return array.__array_namespace__()
