"""Code that takes NumPy and JAX arrays alike."""

from __future__ import annotations

from typing import Any, TypeAlias

# A NumPy or a JAX array. The two share no base class and operators on their union
# confuse type checkers; shapes are given by jaxtyping where they matter.
Array: TypeAlias = Any

# Options for programs whose work is small next to their compilation; not for those
# that are called from others.
PLAINLY = {"xla_backend_optimization_level": 0}


def namespace(array: Array) -> Any:
    """Return the module whose functions suit ``array``: numpy or jax.numpy."""
    return array.__array_namespace__()
