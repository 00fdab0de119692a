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

# Code that does not change a number: it may change without making another study.
_OUTSIDE = (
    "__init__.py",
    "calibration.py",
    "cli",
    "data/block_split.py",
    "data/files.py",
    "data/sampling_time.py",
    "data/text.py",
    "diagnostics.py",
    "parallel/dask.py",
    "parallel/fingerprint.py",
    "parallel/pool.py",
    "plots",
    "results/storage",
    "results/summary.py",
    "studies",
    "validation/baselines.py",
    "validation/evaluation.py",
)
# Libraries whose versions count as part of the engine.
_LIBRARIES = ("jax", "jaxlib", "numpy", "scipy")


def engine_fingerprint() -> str:
    """Return a short hash of the code and the libraries that determine results.

    Comments, docstrings and layout do not count.
    """
    root = Path(sparsid.__file__).parent
    paths = [
        path
        for path in sorted(root.rglob("*.py"))
        if not any(path.is_relative_to(root / outside) for outside in _OUTSIDE)
    ]
    digest = hashlib.sha256(code_fingerprint([*paths, root / "studies" / "trials.py"]))
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
                node.body = [s for s in body if not _is_text(s)]  # type: ignore[attr-defined]
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
