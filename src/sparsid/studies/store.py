"""The store of a study: one row for each finished trial, in SQLite.

Every row belongs to a study, which is a name, its settings and the engine that ran it:
change one of them and it is another study, never a mixture. Rows are written as trials
finish, with a write-ahead log, so an interruption loses only the trials under way and
two runs into the same file do no harm.
"""

from __future__ import annotations

import csv
import hashlib
import json
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import sparsid
from sparsid.errors import FileFormatError

Spec = dict[str, Any]
Result = dict[str, Any]

# Seconds to wait while another run writes.
PATIENCE = 60.0
# What does not change a number: these may change without making another study.
_OUTSIDE = ("cli", "studies", "plots.py", "summary.py", "__init__.py")

_SCHEMA = """
CREATE TABLE IF NOT EXISTS studies (
    study TEXT PRIMARY KEY, name TEXT, settings TEXT, engine TEXT, version TEXT
);
CREATE TABLE IF NOT EXISTS trials (
    study TEXT, key TEXT, spec TEXT, result TEXT, seconds REAL, finished TEXT,
    PRIMARY KEY (study, key)
);
"""


def engine_fingerprint() -> str:
    """Return a short hash of the code that determines results."""
    root = Path(sparsid.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        relative = path.relative_to(root)
        if relative.parts[0] not in _OUTSIDE:
            digest.update(str(relative).encode())
            digest.update(path.read_bytes())
    trials = root / "studies" / "trials.py"
    digest.update(trials.read_bytes())
    return digest.hexdigest()[:12]


def spec_key(spec: Mapping[str, Any]) -> str:
    """Return the key of a spec: its canonical JSON."""
    return json.dumps(spec, sort_keys=True, separators=(",", ":"))


class Store:
    """All trials of one study in one file."""

    def __init__(self, path: Path, name: str, settings: Mapping[str, Any]) -> None:
        self.path = path
        engine = engine_fingerprint()
        identity = spec_key({"name": name, "settings": settings, "engine": engine})
        self.study = hashlib.sha256(identity.encode()).hexdigest()[:12]
        self.engine = engine
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with closing(self._connect()) as db, db:
                db.execute("PRAGMA journal_mode=WAL")
                db.executescript(_SCHEMA)
                db.execute(
                    "INSERT OR IGNORE INTO studies VALUES (?, ?, ?, ?, ?)",
                    (self.study, name, spec_key(settings), engine, sparsid.__version__),
                )
        except sqlite3.DatabaseError as error:
            raise FileFormatError(
                f"{path} is not a store of trials ({error}): choose another folder or "
                "remove the file"
            ) from error

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path, timeout=PATIENCE)

    def add(self, spec: Spec, result: Result, seconds: float) -> None:
        """Keep a finished trial; the first answer to a spec stays."""
        row = (
            self.study,
            spec_key(spec),
            json.dumps(spec, sort_keys=True),
            json.dumps(result),
            seconds,
            datetime.now(UTC).isoformat(timespec="seconds"),
        )
        with closing(self._connect()) as db, db:
            db.execute("INSERT OR IGNORE INTO trials VALUES (?, ?, ?, ?, ?, ?)", row)

    def done(self) -> set[str]:
        """Return the keys of the finished trials."""
        with closing(self._connect()) as db:
            query = "SELECT key FROM trials WHERE study = ?"
            return {row[0] for row in db.execute(query, (self.study,))}

    def missing(self, specs: Iterable[Spec]) -> list[Spec]:
        """Return the specs that have no answer yet."""
        done = self.done()
        return [s for s in specs if spec_key(s) not in done]

    def rows(self) -> list[dict[str, Any]]:
        """Return spec, result and duration of every finished trial, flattened."""
        query = "SELECT spec, result, seconds, finished FROM trials WHERE study = ?"
        with closing(self._connect()) as db:
            found = db.execute(query + " ORDER BY key", (self.study,)).fetchall()
        return [
            {**json.loads(spec), **json.loads(result), "seconds": s, "finished": f}
            for spec, result, s, f in found
        ]

    def export(self, path: Path) -> None:
        """Write all trials of the study as CSV; long series are left out."""
        rows = [
            {k: v for k, v in row.items() if not isinstance(v, list)}
            for row in self.rows()
        ]
        names = sorted({name for row in rows for name in row})
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, names)
            writer.writeheader()
            writer.writerows(rows)
