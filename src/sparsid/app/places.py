"""Files that tell other processes something: whole or not at all; and locks."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from sparsid.data.whole_file import whole_file


def write_json(path: Path, value: Any) -> None:
    """Write plain values to a file that appears only when it is complete."""
    with whole_file(path) as part:
        part.write_text(json.dumps(plain(value), allow_nan=False), encoding="utf-8")


def read_json(path: Path, default: Any = None) -> Any:
    """Return the plain values in a file, a default if there is none."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return default


def plain(value: Any) -> Any:
    """Return values as JSON knows them; NaN and infinities become null."""
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, complex):
        return {"real": plain(value.real), "imag": plain(value.imag)}
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


class Lock:
    """A lock that ends with the process that holds it, however that ends.

    Parameters
    ----------
    path
        A file for it alone.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: IO[bytes] | None = None

    def take(self) -> bool:
        """Return whether the lock is ours now."""
        if self._file is None:
            file = self.path.open("a+b")
            if not _locked(file):
                file.close()
                return False
            self._file = file
        return True

    def free(self) -> None:
        """Let others have it."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def held_elsewhere(self) -> bool:
        """Return whether another process, or another lock here, holds it."""
        if self._file is not None or not self.path.exists():
            return False
        free = self.take()
        self.free()
        return not free


def _locked(file: IO[bytes]) -> bool:
    try:
        if sys.platform == "win32":
            import msvcrt

            file.seek(0)
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def private_text(path: Path, text: str) -> None:
    """Write a text that only this user can read."""
    path.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    with os.fdopen(os.open(path, flags, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
