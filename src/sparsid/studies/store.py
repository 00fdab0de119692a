"""The store of a study: one row for each answered trial, in SQLite.

Every row belongs to a study, which is a name, its settings and the engine that ran it:
change one of them and it is another study, never a mixture. A row is committed as soon
as its trial ends, so an interruption loses the trials under way alone, and several runs
may write into the same file.
"""

from __future__ import annotations

import csv
import hashlib
import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import sparsid
from sparsid.data.whole_file import whole_file
from sparsid.errors import FileFormatError, InputError
from sparsid.parallel.fingerprint import engine_fingerprint

Spec = dict[str, Any]
Result = dict[str, Any]

FILE = "trials.sqlite"
# Written into the file's head, so that no other database is taken for a store: "spid".
APPLICATION = 0x73706964
SCHEMA = 1
# Seconds to wait while another run writes.
PATIENCE = 60.0
_TABLES = (
    "CREATE TABLE studies (study TEXT PRIMARY KEY, name TEXT, settings TEXT, "
    "engine TEXT, version TEXT, command TEXT)",
    "CREATE TABLE trials (study TEXT, key TEXT, spec TEXT, result TEXT, final INTEGER, "
    "seconds REAL, finished TEXT, PRIMARY KEY (study, key))",
)


def canonical(values: Mapping[str, Any]) -> str:
    """Return JSON in which equal values are equal texts."""
    return json.dumps(values, sort_keys=True, separators=(",", ":"), allow_nan=False)


@dataclass(frozen=True)
class Study:
    """What all trials of a study share.

    Attributes
    ----------
    settings
        Plain values, as JSON knows them.
    engine
        Fingerprint of the code that runs the trials.
    """

    name: str
    settings: dict[str, Any]
    engine: str

    @staticmethod
    def present(name: str, settings: dict[str, Any]) -> Study:
        """Return the study as the present engine would run it."""
        return Study(name, settings, engine_fingerprint())

    @property
    def key(self) -> str:
        """Short hash of name, settings and engine."""
        return hashlib.sha256(canonical(vars(self)).encode()).hexdigest()[:12]


class Store:
    """All trials of one study in one file, which may hold other studies too."""

    def __init__(self, path: Path, study: Study) -> None:
        self.path, self.study = path, study

    @staticmethod
    def open(path: Path, study: Study) -> Store:
        """Return the store of a study, new or with the trials it has already."""
        path.parent.mkdir(parents=True, exist_ok=True)
        row = (study.key, study.name, canonical(study.settings), study.engine)
        with _connect(path, write=True) as db:
            _prepare(db, path)
            db.execute(
                "INSERT OR IGNORE INTO studies VALUES (?, ?, ?, ?, ?, '')",
                (*row, sparsid.__version__),
            )
        return Store(path, study)

    @staticmethod
    def existing(path: Path, wanted: Study) -> Store:
        """Return the store of this study, or else of the latest one of its name."""
        if not path.is_file():
            raise InputError(
                f"there is no store {path}: run the study before its report"
            )
        with _connect(path) as db:
            _check(db, path)
            found = db.execute(
                "SELECT s.name, s.settings, s.engine FROM studies s JOIN trials t "
                "USING (study) WHERE s.name = ? GROUP BY s.study "
                "ORDER BY s.study = ? DESC, max(t.finished) DESC LIMIT 1",
                (wanted.name, wanted.key),
            ).fetchone()
        if found is None:
            raise InputError(
                f"{path} has no trial of a {wanted.name} study: run it before its "
                "report"
            )
        return Store(path, Study(found[0], json.loads(found[1]), found[2]))

    # -- writing -------------------------------------------------------------------

    def add(self, spec: Spec, result: Result, seconds: float) -> None:
        """Keep the answer to a trial; the first one stays.

        An answer with ``died`` says that the process ended, not the trial: another run
        tries again, and its answer takes the place.
        """
        row = (
            self.study.key,
            canonical(spec),
            json.dumps(spec),
            json.dumps(result, allow_nan=False),
            not result.get("died", False),
            seconds,
            datetime.now(UTC).isoformat(timespec="seconds"),
        )
        with _connect(self.path, write=True) as db:
            db.execute(
                "INSERT INTO trials VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE "
                "SET result = excluded.result, final = excluded.final, "
                "seconds = excluded.seconds, finished = excluded.finished "
                "WHERE NOT trials.final",
                row,
            )

    def note_command(self, command: str) -> None:
        """Keep the command that ran the study last."""
        with _connect(self.path, write=True) as db:
            db.execute(
                "UPDATE studies SET command = ? WHERE study = ?",
                (command, self.study.key),
            )

    # -- reading -------------------------------------------------------------------

    def facts(self) -> dict[str, str]:
        """Return the version that made the study and the command that ran it last."""
        query = "SELECT version, command FROM studies WHERE study = ?"
        with _connect(self.path) as db:
            found = db.execute(query, (self.study.key,)).fetchone()
        return dict(zip(("version", "command"), found, strict=True))

    def missing(self, specs: Iterable[Spec]) -> list[Spec]:
        """Return the specs that have no lasting answer yet."""
        query = "SELECT key FROM trials WHERE study = ? AND final"
        with _connect(self.path) as db:
            done = {row[0] for row in db.execute(query, (self.study.key,))}
        return [s for s in specs if canonical(s) not in done]

    def rows(self) -> list[dict[str, Any]]:
        """Return spec, result and duration of every answered trial, flattened."""
        query = "SELECT spec, result, seconds, finished FROM trials WHERE study = ?"
        with _connect(self.path) as db:
            found = db.execute(query + " ORDER BY key", (self.study.key,)).fetchall()
        return [
            {**json.loads(spec), **json.loads(result), "seconds": s, "finished": f}
            for spec, result, s, f in found
        ]

    def export(self, path: Path) -> Path:
        """Write all trials of the study as CSV, long series left out; return the path.

        Every row tells the study, its engine and the version.
        """
        origin = {
            "study": self.study.key,
            "engine": self.study.engine,
            "version": self.facts()["version"],
        }
        rows = [
            {k: _cell(v) for k, v in row.items() if not _is_series(v)}
            for row in self.rows()
        ]
        names = sorted({name for row in rows for name in row})
        with whole_file(path) as part, part.open("w", newline="") as file:
            writer = csv.DictWriter(file, [*origin, *names])
            writer.writeheader()
            writer.writerows({**origin, **row} for row in rows)
        return path


# -- pieces --------------------------------------------------------------------------


@contextmanager
def _connect(path: Path, *, write: bool = False) -> Iterator[sqlite3.Connection]:
    """Yield a connection whose changes are committed together, or not at all."""
    db = sqlite3.connect(path, timeout=PATIENCE, isolation_level=None)
    try:
        db.execute("BEGIN IMMEDIATE" if write else "BEGIN")
        yield db
        db.execute("COMMIT")
    except sqlite3.OperationalError as error:
        raise OSError(f"the store {path} cannot be used now: {error}") from error
    except sqlite3.DatabaseError as error:
        raise _foreign(path) from error
    finally:
        db.close()


def _prepare(db: sqlite3.Connection, path: Path) -> None:
    """Make the tables of a new store; refuse what is no store."""
    (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if not tables:
        db.execute(f"PRAGMA application_id = {APPLICATION}")
        db.execute(f"PRAGMA user_version = {SCHEMA}")
        for table in _TABLES:
            db.execute(table)
    _check(db, path)


def _check(db: sqlite3.Connection, path: Path) -> None:
    """Refuse what is no store."""
    (application,) = db.execute("PRAGMA application_id").fetchone()
    (schema,) = db.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION:
        raise _foreign(path)
    if schema != SCHEMA:
        raise FileFormatError(
            f"{path} is a store of format {schema}, this version reads {SCHEMA}: "
            "choose another folder"
        )


def _foreign(path: Path) -> FileFormatError:
    return FileFormatError(
        f"{path} is no store of trials: choose another folder, or move the file away"
    )


def _is_series(value: Any) -> bool:
    return isinstance(value, list) and len(value) > 100


def _cell(value: Any) -> Any:
    """Return a short list as one text."""
    return " ".join(map(str, value)) if isinstance(value, list) else value
