"""Checks of declared shapes while tests run, for rooms that hold more than numbers."""

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any

from beartype import beartype

# How a shape is declared, as in ``Float[Array, "time outputs"]``.
DECLARED = ("Float[", "Int[", "Bool[", "Shaped[")


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function, checked when called if it declares the shape of anything."""
    if inspect.isclass(function) or dataclasses.is_dataclass(function):
        return function
    annotations = getattr(function, "__annotations__", {})
    texts = [getattr(a, "__name__", "") + str(a) for a in annotations.values()]
    shaped = any(word in text for text in texts for word in DECLARED)
    return beartype(function) if shaped else function
