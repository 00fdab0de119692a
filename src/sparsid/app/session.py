"""A session: what was loaded, done and found, in a folder that outlives the server."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sparsid.app import operations
from sparsid.app.columns import ROLES, described, first_rows
from sparsid.app.places import Lock, read_json, write_json
from sparsid.app.recipe import (
    TEST_FRACTION,
    Kitchen,
    Recipe,
    checked_split,
    settled_split,
)
from sparsid.data.files import read_table
from sparsid.data.formats import READERS
from sparsid.data.readers import TEXT_SUFFIXES
from sparsid.data.record import Record
from sparsid.errors import InputError

SUFFIXES = (*TEXT_SUFFIXES, ".mat", ".npz", ".h5", ".hdf5", ".hdf", *READERS)
# Text from the page: names and units.
LONGEST_TEXT = 120
MOST_FILES, MOST_STEPS = 50, 100
VERSION = 1


class MissingError(InputError):
    """Something was asked for that the session does not have."""


class Session:
    """What was loaded, done and found.

    Parameters
    ----------
    folder
        Where all of it is kept; made if there is none. Every change is on disk before
        it is answered.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for part in ("uploads", "models"):
            (folder / part).mkdir(parents=True, exist_ok=True)
        self.lock = threading.RLock()
        self.kitchen = Kitchen(folder)
        self._server = Lock(folder / "server.lock")
        empty = {"version": VERSION, "files": [], "steps": [], "models": []}
        empty |= {"split": {"fraction": TEST_FRACTION}, "count": 0}
        self.state: dict[str, Any] = read_json(folder / "session.json", empty)
        if self.state.get("version") != VERSION:
            raise InputError(
                f"{folder} was written by another version of sparsid: choose another "
                "folder"
            )

    def open(self) -> None:
        """Take the session for this process, or say that another has it."""
        if not self._server.take():
            raise InputError(
                f"the session in {self.folder} is open in another window: use that "
                "one, close it, or give another folder with --session"
            )

    def close(self) -> None:
        """Let others open the session."""
        self._server.free()

    def save(self) -> None:
        """Write the session to its folder."""
        write_json(self.folder / "session.json", self.state)

    def recipe(self) -> Recipe:
        """Return a copy of how records are made at present."""
        keep = ("name", "stored", "dt")
        files = [
            {k: f[k] for k in keep}
            | {
                "columns": [
                    {k: c[k] for k in ("name", "unit", "role")} for c in f["columns"]
                ]
            }
            for f in self.state["files"]
        ]
        told = {k: self.state[k] for k in ("steps", "split")}
        copied: Recipe = json.loads(json.dumps({"files": files, **told}))
        return copied

    def records(self, prepared: bool = True) -> list[Record]:
        """Return the records, after all steps or as they are in the files."""
        recipe = self.recipe()
        with self.lock:
            if prepared:
                return self.kitchen.prepared(recipe)
            return self.kitchen.raw(recipe)

    # -- files -----------------------------------------------------------------------

    def new_file(self, name: str) -> tuple[str, Path]:
        """Return id and place for an upload; its name is text, never a path."""
        plain = _text(name, "the name of the file")
        suffix = Path(plain).suffix.lower()
        if suffix not in SUFFIXES:
            raise InputError(
                f"{plain!r} has the suffix {suffix!r}, but only {', '.join(SUFFIXES)} "
                "are known"
            )
        with self.lock:
            if len(self.state["files"]) >= MOST_FILES:
                raise InputError(f"a session has at most {MOST_FILES} files")
            identity = self._next("f")
        folder = self.folder / "uploads" / identity
        folder.mkdir()
        stem = plain.replace("\\", "/").rsplit("/", 1)[-1][: -len(suffix)]
        safe = re.sub(r"[^A-Za-z0-9_-]+", "_", stem)[:60].strip("_") or "data"
        return identity, folder / f"{safe}{suffix}"

    def add_file(self, identity: str, path: Path, name: str) -> dict[str, Any]:
        """Take a complete upload into the session; refuse what has no table."""
        try:
            table = read_table(path)
            columns = described(table)
            if not any(c["numeric"] for c in columns):
                raise InputError(f"{path.name} has no column of numbers")
            entry = {
                "id": identity,
                "name": name,
                "stored": f"{identity}/{path.name}",
                "dt": None,
                "columns": columns,
                "rows": first_rows(table, columns),
                "digest": _digest(path),
            }
        except BaseException:
            shutil.rmtree(path.parent, ignore_errors=True)
            raise
        with self.lock:
            self._take_roles(entry)
            self.state["files"].append(entry)
            self.save()
        return entry

    def has_file(self, path: Path) -> bool:
        """Return whether a file with the same content is in the session."""
        digest = _digest(path)
        return any(f["digest"] == digest for f in self.state["files"])

    def _take_roles(self, entry: dict[str, Any]) -> None:
        """Give a file the roles of one before it with the same columns."""
        names = [c["name"] for c in entry["columns"]]
        for other in reversed(self.state["files"]):
            if [c["name"] for c in other["columns"]] == names:
                for mine, its in zip(entry["columns"], other["columns"], strict=True):
                    mine["role"], mine["unit"] = its["role"], its["unit"]
                entry["dt"] = other["dt"]
                return

    def change_file(self, identity: str, change: Mapping[str, Any]) -> None:
        """Correct roles, units or the sampling time of a file, and of those alike."""
        with self.lock:
            entry = self._file(identity)
            names = {c["name"] for c in entry["columns"]}
            alike = [
                f
                for f in self.state["files"]
                if {c["name"] for c in f["columns"]} == names
            ]
            dt = entry["dt"]
            if "dt" in change:
                given = change["dt"] is not None
                dt = operations.positive(change, "dt") if given else None
            wanted = _columns(change.get("columns", []), names)
            for file in alike:
                file["dt"] = dt
                for column in file["columns"]:
                    column.update(wanted.get(column["name"], {}))
            self.save()

    def remove_file(self, identity: str) -> None:
        """Forget a file; models that were made from it keep it on disk."""
        with self.lock:
            entry = self._file(identity)
            self.state["files"].remove(entry)
            # Ranges count in records that are no longer there.
            self._forget_ranges()
            used = [m["recipe"]["files"] for m in self.state["models"]]
            if not any(f["stored"] == entry["stored"] for files in used for f in files):
                shutil.rmtree(self.folder / "uploads" / identity, ignore_errors=True)
            self.save()

    def _file(self, identity: str) -> dict[str, Any]:
        found = [f for f in self.state["files"] if f["id"] == identity]
        if not found:
            raise MissingError("there is no such file in the session")
        entry: dict[str, Any] = found[0]
        return entry

    # -- steps -----------------------------------------------------------------------

    def add_step(self, given: Any) -> None:
        """Do one more step; one that cannot be done changes nothing."""
        step = operations.checked(given)
        with self.lock:
            recipe = self.recipe()
            if len(recipe["steps"]) >= MOST_STEPS:
                raise InputError(f"a session has at most {MOST_STEPS} steps")
            step = operations.settled(step, self.kitchen.prepared(recipe))
            recipe["steps"].append(step)
            self.kitchen.prepared(recipe)
            self.state["steps"].append(step)
            self._forget_ranges()
            self.save()

    def remove_step(self, number: int) -> None:
        """Undo a step; those after it are done without it, or nothing is changed."""
        with self.lock:
            recipe = self.recipe()
            if not 0 <= number < len(recipe["steps"]):
                raise MissingError("there is no such step")
            del recipe["steps"][number]
            self.kitchen.prepared(recipe)
            del self.state["steps"][number]
            self._forget_ranges()
            self.save()

    def set_split(self, given: Any) -> None:
        """Choose what is held back for tests."""
        split = checked_split(given)
        with self.lock:
            recipe = self.recipe()
            split = settled_split(split, self.kitchen.prepared(recipe))
            self.kitchen.parts(recipe | {"split": split})
            self.state["split"] = split
            self.save()

    def _forget_ranges(self) -> None:
        """Hold the end back again where ranges count in records that have changed."""
        if "ranges" in self.state["split"]:
            self.state["split"] = {"fraction": TEST_FRACTION}

    # -- models ----------------------------------------------------------------------

    def add_model(self, settings: dict[str, Any], name: str) -> dict[str, Any]:
        """Note a model that is to be made from the records as they are now."""
        with self.lock:
            recipe = self.recipe()
            self.kitchen.parts(recipe)
            identity = self._next("m")
            name = _text(name, "the name of the model") if name else ""
            names = {m["name"] for m in self.state["models"]}
            numbered = (f"Model {k}" for k in range(1, len(names) + 2))
            name = name or next(n for n in numbered if n not in names)
            if name in names:
                name = f"{name} ({identity[1:]})"
            model = {"id": identity, "name": name, "settings": settings}
            model["recipe"] = recipe
            folder = self.folder / "models" / identity
            folder.mkdir()
            write_json(folder / "job.json", model)
            self.state["models"].append(model)
            self.save()
            return model

    def model(self, identity: str) -> dict[str, Any]:
        """Return a model of the session."""
        found = [m for m in self.state["models"] if m["id"] == identity]
        if not found:
            raise MissingError("there is no such model in the session")
        model: dict[str, Any] = found[0]
        return model

    def rename_model(self, identity: str, name: Any) -> None:
        """Give a model another name."""
        with self.lock:
            model = self.model(identity)
            name = _text(name, "the name of the model")
            if any(m["name"] == name and m is not model for m in self.state["models"]):
                raise InputError(f"there is a model named {name!r} already")
            model["name"] = name
            self.save()

    def remove_model(self, identity: str) -> None:
        """Forget a model, its file included."""
        with self.lock:
            self.state["models"].remove(self.model(identity))
            shutil.rmtree(self.folder / "models" / identity, ignore_errors=True)
            self.save()

    def _next(self, kind: str) -> str:
        self.state["count"] += 1
        self.save()
        return f"{kind}{self.state['count']}"


def _columns(given: Any, names: set[str]) -> dict[str, dict[str, str]]:
    """Return changes of columns by name, checked."""
    if not isinstance(given, list):
        raise InputError("columns must be a list")
    found: dict[str, dict[str, str]] = {}
    for column in given:
        name = column.get("name") if isinstance(column, Mapping) else None
        if name not in names:
            raise InputError(f"there is no column {name!r} in the file")
        change: dict[str, str] = {}
        if "role" in column:
            if column["role"] not in ROLES:
                raise InputError(f"a role must be one of {', '.join(ROLES)}")
            change["role"] = column["role"]
        if "unit" in column:
            change["unit"] = _text(column["unit"], "the unit", empty=True)
        found[name] = change
    times = [n for n, c in found.items() if c.get("role") == "time"]
    if len(times) > 1:
        raise InputError(f"{', '.join(times)} cannot all be the time: choose one")
    return found


def _text(value: Any, what: str, empty: bool = False) -> str:
    """Return a text from the page in one line, or say what is wrong with it."""
    good: Callable[[str], bool] = str.isprintable
    if not isinstance(value, str) or not good(value) or len(value) > LONGEST_TEXT:
        raise InputError(
            f"{what} must be a text in one line of at most {LONGEST_TEXT} characters"
        )
    if not value.strip() and not empty:
        raise InputError(f"{what} is empty")
    return value.strip()


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
