"""How the loops of this package are compiled: once, kept, without the lock."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., Any])


def compiled(signature: str | None = None) -> Callable[[F], F]:
    """Return a decorator that compiles a loop.

    Fused multiply-adds are allowed; nothing else that changes the order of sums.
    """
    options: dict[str, Any] = {
        "nogil": True,
        "fastmath": {"contract"},
        "error_model": "numpy",
        "cache": not os.environ.get("SPARSID_NO_KERNEL_CACHE"),
    }
    args = () if signature is None else (signature,)
    return cast("Callable[[F], F]", numba.njit(*args, **options))
