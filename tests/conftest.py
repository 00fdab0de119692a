"""Runtime shape checks for the numeric modules, and 64-bit arithmetic on request."""

from collections.abc import Iterator

import jax
import pytest
from jaxtyping import install_import_hook

NUMERIC_MODULES = [
    "sparsid.models",
    "sparsid.curvature",
    "sparsid.objectives",
    "sparsid.evidence",
    "sparsid.priors",
    "sparsid.descent",
    "sparsid.moves",
    "sparsid.posterior",
]

# Before anything imports sparsid; off for users.
install_import_hook(NUMERIC_MODULES, "beartype.beartype")


@pytest.fixture
def x64() -> Iterator[None]:
    """64-bit arithmetic for tests of the engine; the estimator switches it on itself."""
    with jax.enable_x64(True):
        yield
