"""What was done to a record, as steps that can be told, kept and repeated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from sparsid.errors import InputError

R = TypeVar("R")

# Steps that `replay` repeats, each a method of a record, and those that tell how a
# record was made, which it passes by.
STEPS = ("resample", "detrend", "filter", "shift", "slice", "merge", "outliers")
MADE = ("from_channels",)


class Step(NamedTuple):
    """One thing that was done to a record: a method, its arguments, and in words."""

    name: str
    arguments: dict[str, Any]
    note: str = ""

    def __str__(self) -> str:
        told = ", ".join(f"{key}={value!r}" for key, value in self.arguments.items())
        return f"{self.name}({told})"

    def plain(self) -> dict[str, Any]:
        """Return it as values that JSON knows."""
        return {"name": self.name, "arguments": self.arguments, "note": self.note}


def replay(
    record: R, steps: Iterable[Any], others: Mapping[str, Any] | None = None
) -> R:
    """Return a record to which the steps of another were done.

    Parameters
    ----------
    record
        As it was measured.
    steps
        A record's ``history``, or the same as plain values: name with arguments, or
        ``{"name": ..., "arguments": ...}`` as a model's ``details["shaping"]`` has it.
    others
        Records by name, for steps that merged.
    """
    found: Any = record
    for given in steps:
        name, arguments = _step(given)
        if name in MADE:
            continue
        if name == "merge":
            missing = [n for n in arguments["others"] if n not in (others or {})]
            if missing:
                raise InputError(
                    f"The steps merge the record {missing[0]!r}: give it in others."
                )
            found = found.merge(*((others or {})[n] for n in arguments["others"]))
        else:
            found = getattr(found, name)(**arguments)
    shaped: R = found
    return shaped


def _step(given: Any) -> tuple[str, dict[str, Any]]:
    if isinstance(given, Mapping):
        name, arguments = given.get("name"), given.get("arguments", {})
    elif isinstance(given, Sequence) and not isinstance(given, str) and given:
        name, arguments = given[0], given[1] if len(given) > 1 else {}
    else:
        name, arguments = given, {}
    if name not in (*STEPS, *MADE) or not isinstance(arguments, Mapping):
        raise InputError(
            f"{given!r} is no step: give a name with its arguments, as in "
            f'("resample", {{"dt": 0.1}}); the names are {", ".join(STEPS)}.'
        )
    return str(name), dict(arguments)
