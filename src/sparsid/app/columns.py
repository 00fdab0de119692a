"""What the columns of a file may be: guessed roles, figures, first rows, warnings."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np

from sparsid.data.sampling_time import STEP_NAMES, TIME_NAMES
from sparsid.data.text import Table
from sparsid.errors import InputError

ROLES = ("input", "output", "time", "ignore")
INPUT_WORDS = re.compile(
    r"(u\d*|in|inputs?\d*|.*(volt|valve|pump|heat(er|ing)|command|cmd|force|torque|duty"
    r"|drive|excit|setpoint|reference|current|power|actuat|throttle|fuel|uest).*)",
    re.IGNORECASE,
)
OUTPUT_WORDS = re.compile(
    r"(y\d*|out|outputs?\d*|.*(level|temp|speed|position|angle|response|measur|sensor"
    r"|pressure|velocity|acceler|displac|flow|yest|rpm).*)",
    re.IGNORECASE,
)
# Rows of the preview.
PREVIEW = 8
# A value at an end of the range that is held for so many samples in a row, and in so
# large a share of all, was cut off.
CLIPPED_RUN, CLIPPED_SHARE = 5, 0.02
# A signal that moves at fewer samples than this share is one of steps.
MOVING = 0.5


def described(table: Table) -> list[dict[str, Any]]:
    """Return the columns of a table: name, unit, guessed role, figures, warnings."""
    columns = []
    for name in table.columns:
        values = table.columns[name]
        if values.ndim != 1:
            continue
        columns.append({"name": name, "unit": table.units.get(name, ""), "role": ""})
        columns[-1] |= _figures(table, name)
    _guess(columns)
    return columns


def first_rows(table: Table, columns: list[dict[str, Any]]) -> list[list[str]]:
    """Return the first rows as text, a cell for each column."""
    rows = min([PREVIEW, *(len(table.columns[c["name"]]) for c in columns)])
    return [[_cell(table.columns[c["name"]][k]) for c in columns] for k in range(rows)]


def _cell(value: Any) -> str:
    if isinstance(value, float | np.floating):
        return f"{value:.6g}" if math.isfinite(value) else ""
    return str(value)[:40]


def _figures(table: Table, name: str) -> dict[str, Any]:
    values = table.columns[name]
    told: dict[str, Any] = {"samples": len(values), "warnings": []}
    try:
        numbers = table.numbers(name)
    except InputError:
        return told | {"numeric": False}
    known = numbers[np.isfinite(numbers)]
    told |= {"numeric": True, "missing": int(len(numbers) - len(known))}
    if not known.size:
        return told | {"numeric": False}
    low, high = float(known.min()), float(known.max())
    told |= {"low": low, "high": high, "mean": float(known.mean())}
    told["rising"] = bool(len(known) > 1 and (np.diff(known) > 0).all())
    told["constant"] = low == high
    warnings = told["warnings"]
    if told["constant"]:
        warnings.append("constant: it says nothing about the system")
    elif told["missing"]:
        warnings.append(f"{told['missing']} samples are missing")
    if not told["constant"] and not told["rising"]:
        for end, where in ((low, "lower"), (high, "upper")):
            if _clipped(numbers, end):
                warnings.append(
                    f"stays at its {where} end, {end:.4g}: cut off, or a saturation?"
                )
    return told


def _clipped(values: Any, end: float) -> bool:
    """Return whether a signal of many values rests at an end of its range."""
    at = values == end
    # A signal of steps, such as a switch, is not cut off.
    inside = ~at[1:] | ~at[:-1]
    moving = (np.diff(values) != 0)[inside]
    if not moving.size or moving.mean() < MOVING or at.mean() < CLIPPED_SHARE:
        return False
    edges = np.flatnonzero(np.diff(np.concatenate([[0], at.astype(np.int8), [0]])))
    return bool((edges[1::2] - edges[::2]).max() >= CLIPPED_RUN)


def _guess(columns: list[dict[str, Any]]) -> None:
    """Give every column a role; a person corrects it."""
    clock = next((n for n in TIME_NAMES for c in columns if c["name"] == n), None)
    if clock is None and columns and columns[0].get("rising"):
        named = re.match(
            r"(time|t|zeit|temps|sec)\b", columns[0]["name"], re.IGNORECASE
        )
        clock = columns[0]["name"] if named else None
    left = []
    for column in columns:
        if column["name"] == clock:
            column["role"] = "time"
        elif (
            column["name"] in STEP_NAMES
            or not column["numeric"]
            or column.get("constant")
        ):
            column["role"] = "ignore"
        elif OUTPUT_WORDS.fullmatch(column["name"]):
            column["role"] = "output"
        elif INPUT_WORDS.fullmatch(column["name"]):
            column["role"] = "input"
        else:
            left.append(column)
    roles = [c["role"] for c in columns]
    # What no word tells: the last one is an output if there is none, the rest inputs.
    if left and "output" not in roles:
        left.pop()["role"] = "output"
    for column in left:
        column["role"] = "input"
    if "output" not in [c["role"] for c in columns]:
        inputs = [c for c in columns if c["role"] == "input"]
        if inputs:
            inputs[-1]["role"] = "output"
