"""Code that takes NumPy and JAX arrays alike."""

from __future__ import annotations

from typing import Any, TypeAlias

# A NumPy or a JAX array. The two share no base class and operators on their union
# confuse type checkers; shapes are given by jaxtyping where they matter.
Array: TypeAlias = Any


def namespace(array: Array) -> Any:
    """Return the module whose functions suit ``array``: numpy or jax.numpy."""
    return array.__array_namespace__()
