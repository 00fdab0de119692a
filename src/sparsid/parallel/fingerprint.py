"""Which engine this is: the code and the libraries that determine results."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Callable, Iterable
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import sparsid

# Rooms and files whose code may change a number that a fit or a trial answers with. A
# test holds this against what trials and fits import.
ENGINE = (
    "arrays.py",
    "automatic.py",
    "bayes",
    "checks.py",
    "data",
    "datasets",
    "errors.py",
    "estimators",
    "fitting",
    "kernel",
    "models",
    "parallel",
    "progress.py",
    "results",
    "simulation",
    "studies/comparators.py",
    "studies/peers.py",
    "studies/store.py",
    "studies/trials.py",
    "validation",
)
# Within them what only writes results down.
_WITHOUT = ("results/storage", "results/summary.py")
# Libraries whose versions count as part of the engine.
_LIBRARIES = ("jax", "jaxlib", "numba", "numpy", "scikit-learn", "scipy")


def engine_files() -> list[Path]:
    """Return the files whose code determines results."""
    root = Path(sparsid.__file__).parent
    return [
        path
        for path in sorted(root.rglob("*.py"))
        if any(path.is_relative_to(root / inside) for inside in ENGINE)
        and not any(path.is_relative_to(root / outside) for outside in _WITHOUT)
    ]


def engine_fingerprint() -> str:
    """Return a short hash of the code and the libraries that determine results.

    Comments, docstrings and layout do not count.
    """
    digest = hashlib.sha256(code_fingerprint(engine_files()))
    for name in _LIBRARIES:
        digest.update(f"{name} {version(name)}".encode())
    return digest.hexdigest()[:12]


def code_fingerprint(paths: Iterable[Path]) -> bytes:
    """Return a hash of what the Python files do."""
    digest = hashlib.sha256()
    for path in paths:
        tree = ast.parse(path.read_bytes())
        for node in ast.walk(tree):
            body = getattr(node, "body", None)
            if isinstance(body, list):
                body[:] = [s for s in body if not _is_text(s)]
        digest.update(path.name.encode())
        digest.update(ast.dump(tree).encode())
    return digest.digest()


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def loaded_engine(modules: tuple[str, ...], *, progress: Callable[[Any], bool]) -> str:
    """Return the fingerprint of this process, with what it needs imported before.

    Code that is read later might be other code. A call for a worker process, hence
    ``progress``.
    """
    for module in modules:
        import_module(module)
    return engine_fingerprint()
