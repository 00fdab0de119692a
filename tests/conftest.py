"""Runtime shape checks for the numeric modules, and 64-bit arithmetic on request."""

import os
from collections.abc import Iterator
from pathlib import Path

import jax
import pytest
from jaxtyping import install_import_hook

# Before anything imports them; off for users. Where rooms hold more than numbers only
# functions that declare shapes are checked. Those of `sparsid.kernel` are compiled by
# Numba, which checks the types of their arguments itself.
install_import_hook(
    [
        "sparsid.models",
        "sparsid.bayes.cost",
        "sparsid.bayes.curvature",
        "sparsid.bayes.objective",
        "sparsid.bayes.posterior",
        "sparsid.bayes.prior",
        "sparsid.bayes.variance_rules",
        "sparsid.data.runs",
        "sparsid.fitting.descent",
        "sparsid.fitting.pruning",
    ],
    "beartype.beartype",
)
install_import_hook(
    [
        "sparsid.bayes.noise",
        "sparsid.bayes.run_priors",
        "sparsid.bayes.sensitivities",
        "sparsid.data",
        "sparsid.fitting",
        "sparsid.results",
        "sparsid.simulation",
        "sparsid.validation",
    ],
    "shape_checks.checked",
)

# Compilation dominates the suite: workers and later runs share compiled programs.
_CACHE = Path(__file__).parents[1] / ".pytest_cache" / "jax"
os.environ["JAX_COMPILATION_CACHE_DIR"] = str(_CACHE)
# Small problems: time spent on faster programs does not come back. Commands started by
# tests do the same.
os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"
jax.config.update("jax_disable_most_optimizations", True)
jax.config.update("jax_compilation_cache_dir", str(_CACHE))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)


@pytest.fixture
def x64() -> Iterator[None]:
    """64-bit arithmetic for the engine's tests; the estimator switches it on itself."""
    with jax.enable_x64(True):
        yield


@pytest.fixture
def optimised() -> Iterator[None]:
    """Programs as users run them."""
    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", True)
