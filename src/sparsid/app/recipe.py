"""From files to estimation and test records, as plain values that can be replayed.

A recipe is what a model was made from: files with the roles of their columns, steps,
and what is held back for tests. A session has one; every model keeps its own copy.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sparsid.app import operations
from sparsid.data.files import read_records
from sparsid.data.record import Record, check_compatible
from sparsid.errors import InputError

Recipe = dict[str, Any]
Records = list[Record]
# Stages of preparation that are kept in memory.
KEPT_STAGES = 12
# Share of each record held back at first.
TEST_FRACTION = 0.25


def file_arguments(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return what `read_records` is called with for a file of a recipe."""
    columns = entry["columns"]

    def of(role: str) -> list[str]:
        return [c["name"] for c in columns if c["role"] == role]

    outputs, times = of("output"), of("time")
    if not outputs:
        raise InputError(f"{entry['name']} has no output: choose at least one column")
    units = {
        c["name"]: c["unit"] for c in columns if c["unit"] and c["role"] != "ignore"
    }
    arguments: dict[str, Any] = {"inputs": of("input"), "outputs": outputs}
    if times:
        arguments["time"] = times[0]
    if entry.get("dt") is not None:
        arguments["dt"] = entry["dt"]
    if units:
        arguments["units"] = units
    return arguments


class Kitchen:
    """Follows recipes, and keeps what it made last.

    Parameters
    ----------
    folder
        The folder of the session.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._kept: OrderedDict[str, Records] = OrderedDict()

    def raw(self, recipe: Recipe) -> Records:
        """Return the records as they are in the files."""
        return self.stage(recipe, 0)

    def prepared(self, recipe: Recipe) -> Records:
        """Return the records after all steps."""
        return self.stage(recipe, len(recipe["steps"]))

    def stage(self, recipe: Recipe, steps: int) -> Records:
        """Return the records after so many steps."""
        done = recipe["steps"][:steps]
        key = json.dumps([recipe["files"], done], sort_keys=True)
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        if done:
            before = self.stage(recipe, steps - 1)
            found = operations.apply(before, done[-1])
        else:
            found = self._read(recipe)
        self._kept[key] = found
        while len(self._kept) > KEPT_STAGES:
            self._kept.popitem(last=False)
        return found

    def parts(self, recipe: Recipe) -> tuple[Records, Records]:
        """Return the records to learn from, and those held back."""
        return divided(self.prepared(recipe), recipe["split"])

    def _read(self, recipe: Recipe) -> Records:
        if not recipe["files"]:
            raise InputError("there are no data yet: drop a file on the first screen")
        records: Records = []
        for entry in recipe["files"]:
            path = self.folder / "uploads" / entry["stored"]
            records += read_records(path, **file_arguments(entry))
        check_compatible(records)
        return records


def divided(records: Records, split: Mapping[str, Any]) -> tuple[Records, Records]:
    """Return estimation and test records.

    Parameters
    ----------
    split
        ``{"fraction": share}`` holds the end of each record back, or
        ``{"ranges": [[record, first, stop], ...]}`` these ranges.
    """
    if "fraction" in split:
        if not split["fraction"]:
            return records, []
        parts = [record.split(split["fraction"]) for record in records]
        return [a for a, _ in parts], [b for _, b in parts]
    estimation: Records = []
    test: Records = []
    for k, record in enumerate(records):
        at = 0
        for first, stop in held_back(split, k, len(record)):
            if first > at:
                estimation.append(record[at:first])
            test.append(record[first:stop])
            at = stop
        if at < len(record):
            estimation.append(record[at:])
    if not estimation:
        raise InputError(
            "all samples are held back for tests: leave some to learn from"
        )
    return estimation, test


def held_back(split: Mapping[str, Any], k: int, length: int) -> list[tuple[int, int]]:
    """Return the ranges of record ``k`` that are held back, in order."""
    if "fraction" in split:
        last = round(split["fraction"] * length)
        return [(length - last, length)] if last else []
    inside = [
        (max(a, 0), min(b, length)) for r, a, b in sorted(split["ranges"]) if r == k
    ]
    merged: list[tuple[int, int]] = []
    for a, b in inside:
        if merged and a <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(b, merged[-1][1]))
        elif b > a:
            merged.append((a, b))
    return merged


def settled_split(split: dict[str, Any], records: Records) -> dict[str, Any]:
    """Return a split whose ranges lie inside the records that they are for."""
    if "fraction" in split:
        return split
    ranges = [
        [k, first, stop]
        for k, record in enumerate(records)
        for first, stop in held_back(split, k, len(record))
    ]
    return {"ranges": ranges}


def checked_split(split: Any) -> dict[str, Any]:
    """Return a split from the page with only what it needs, or refuse it."""
    if not isinstance(split, Mapping) or ("fraction" in split) == ("ranges" in split):
        raise InputError("a split needs either 'fraction' or 'ranges'")
    if "fraction" in split:
        fraction = operations.real(split, "fraction")
        if not 0.0 <= fraction <= 0.9:
            raise InputError(f"fraction is {fraction:g} but must be from 0 to 0.9")
        return {"fraction": fraction}
    ranges = split["ranges"]
    if not isinstance(ranges, list):
        raise InputError(f"ranges is {ranges!r} but a list is needed")
    names = ("record", "first", "stop")
    found = []
    for given in ranges:
        if not isinstance(given, list) or len(given) != len(names):
            raise InputError(f"{given!r} is no range: give record, first and stop")
        values = dict(zip(names, given, strict=True))
        found.append([operations.whole(values, name) for name in names])
    return {"ranges": sorted(found)}
