"""The steps of preparation: what each does to records, and as a line of Python.

A session keeps steps as plain values; the page, the fits and the script read them here,
so that they cannot differ.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from sparsid.data.record import Record
from sparsid.errors import InputError

Step = dict[str, Any]
# Kinds of trend that can be taken away.
TRENDS = {"constant": "mean", "linear": "straight line"}
LARGEST_ORDER = 10


class Operation(NamedTuple):
    """A kind of step.

    Attributes
    ----------
    check
        Returns the step with checked values, or raises an InputError.
    apply
        Returns the records after the step.
    line
        Returns the step as Python, with records in ``records``.
    label
        Returns the step in a few words.
    """

    check: Callable[[Mapping[str, Any]], Step]
    apply: Callable[[list[Record], Step], list[Record]]
    line: Callable[[Step], str]
    label: Callable[[Step], str]


def checked(step: Any) -> Step:
    """Return a step from the page with only what it needs, or refuse it."""
    if not isinstance(step, Mapping) or step.get("op") not in OPERATIONS:
        known = ", ".join(OPERATIONS)
        raise InputError(f"a step needs an 'op', one of {known}; {step!r} was given")
    name = str(step["op"])
    return {"op": name, **OPERATIONS[name].check(step)}


def apply(records: list[Record], step: Step) -> list[Record]:
    """Return records after a step."""
    return OPERATIONS[step["op"]].apply(records, step)


def settled(step: Step, records: list[Record]) -> Step:
    """Return a step with its range inside the records that it is for."""
    if step["op"] not in ("keep", "drop"):
        return step
    k, first, stop = chosen(records, step)
    return {**step, "first": first, "stop": stop, "length": len(records[k])}


def line(step: Step) -> str:
    """Return a step as a line of Python."""
    return OPERATIONS[step["op"]].line(step)


def label(step: Step) -> str:
    """Return a step in a few words, for its chip."""
    return OPERATIONS[step["op"]].label(step)


# -- values from the page --------------------------------------------------------------


def real(step: Mapping[str, Any], name: str) -> float:
    """Return a number of a step, or say what is wrong with it."""
    value = step.get(name)
    plain = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not plain or not math.isfinite(value):  # type: ignore[arg-type]
        raise InputError(f"{name} is {value!r} but a number is needed")
    return float(value)  # type: ignore[arg-type]


def positive(step: Mapping[str, Any], name: str) -> float:
    """Return a positive number of a step, or say what is wrong with it."""
    value = real(step, name)
    if value <= 0.0:
        raise InputError(f"{name} is {value:g} but must be positive")
    return value


def whole(step: Mapping[str, Any], name: str) -> int:
    """Return a whole number of a step, or say what is wrong with it."""
    value = real(step, name)
    if value != int(value):
        raise InputError(f"{name} is {value:g} but a whole number is needed")
    return int(value)


def _maybe(step: Mapping[str, Any], name: str) -> float | None:
    return None if step.get(name) is None else positive(step, name)


# -- the kinds of steps ----------------------------------------------------------------


def _check_detrend(step: Mapping[str, Any]) -> Step:
    if step.get("kind") not in TRENDS:
        given = step.get("kind")
        raise InputError(f"kind is {given!r} but must be one of {', '.join(TRENDS)}")
    return {"kind": step["kind"]}


def _check_filter(step: Mapping[str, Any]) -> Step:
    low, high = _maybe(step, "low"), _maybe(step, "high")
    if low is None and high is None:
        raise InputError("a filter needs a lower or an upper end in Hz, or both")
    if low is not None and high is not None and low >= high:
        raise InputError(f"the lower end {low:g} Hz must be below {high:g} Hz")
    order = whole(step, "order")
    if not 1 <= order <= LARGEST_ORDER:
        raise InputError(f"order is {order} but must be from 1 to {LARGEST_ORDER}")
    return {"low": low, "high": high, "order": order}


def _check_shift(step: Mapping[str, Any]) -> Step:
    channel = step.get("channel")
    if not isinstance(channel, str):
        raise InputError(f"channel is {channel!r} but the name of one is needed")
    return {"channel": channel, "samples": whole(step, "samples")}


def _check_range(step: Mapping[str, Any]) -> Step:
    return {name: whole(step, name) for name in ("record", "first", "stop")}


def _filter_arguments(step: Step) -> str:
    ends = [f"{k}={step[k]!r}" for k in ("low", "high") if step[k] is not None]
    return ", ".join([*ends, f"order={step['order']}"])


def _filtered(records: list[Record], step: Step) -> list[Record]:
    return [r.filter(step["low"], step["high"], step["order"]) for r in records]


def _filter_label(step: Step) -> str:
    low, high = step["low"], step["high"]
    if low is None:
        return f"low pass {high:g} Hz"
    return f"high pass {low:g} Hz" if high is None else f"band {low:g} to {high:g} Hz"


def chosen(records: list[Record], step: Mapping[str, Any]) -> tuple[int, int, int]:
    """Return number, first and stop of a range, inside one of the records."""
    k, first, stop = step["record"], step["first"], step["stop"]
    if not 0 <= k < len(records):
        raise InputError(
            f"record {k + 1} was chosen but there are {len(records)}: choose again"
        )
    first, stop = max(first, 0), min(stop, len(records[k]))
    if stop <= first:
        raise InputError("the range is empty: drag over a part of the record")
    return k, first, stop


def _kept(records: list[Record], step: Step) -> list[Record]:
    k, first, stop = chosen(records, step)
    return [*records[:k], records[k][first:stop], *records[k + 1 :]]


def _remaining(step: Step) -> list[tuple[int, int]]:
    """Return the ranges on both sides of what is left out."""
    sides = ((0, step["first"]), (step["stop"], step["length"]))
    return [(a, b) for a, b in sides if b > a]


def _dropped(records: list[Record], step: Step) -> list[Record]:
    k, parts = step["record"], _remaining(step)
    if not parts and len(records) == 1:
        raise InputError("nothing would be left: choose a smaller range")
    return [*records[:k], *(records[k][a:b] for a, b in parts), *records[k + 1 :]]


def _kept_line(step: Step) -> str:
    k, first, stop = step["record"], step["first"], step["stop"]
    return f"records[{k}] = records[{k}][{first}:{stop}]"


def _dropped_line(step: Step) -> str:
    k = step["record"]
    parts = ", ".join(f"records[{k}][{a}:{b}]" for a, b in _remaining(step))
    return f"records[{k} : {k + 1}] = [{parts}]"


OPERATIONS: dict[str, Operation] = {
    "detrend": Operation(
        _check_detrend,
        lambda records, step: [r.detrend(step["kind"]) for r in records],
        lambda step: f"records = [r.detrend({step['kind']!r}) for r in records]",
        lambda step: f"without its {TRENDS[step['kind']]}",
    ),
    "filter": Operation(
        _check_filter,
        _filtered,
        lambda step: (
            f"records = [r.filter({_filter_arguments(step)}) for r in records]"
        ),
        _filter_label,
    ),
    "resample": Operation(
        lambda step: {"dt": positive(step, "dt")},
        lambda records, step: [r.resample(step["dt"]) for r in records],
        lambda step: f"records = [r.resample({step['dt']!r}) for r in records]",
        lambda step: f"every {step['dt']:g} s",
    ),
    "shift": Operation(
        _check_shift,
        lambda records, step: [
            r.shift(step["channel"], step["samples"]) for r in records
        ],
        lambda step: (
            f"records = [r.shift({step['channel']!r}, {step['samples']}) "
            "for r in records]"
        ),
        lambda step: f"{step['channel']} shifted by {step['samples']}",
    ),
    "keep": Operation(
        _check_range,
        _kept,
        _kept_line,
        lambda step: f"samples {step['first']} to {step['stop']} kept",
    ),
    "drop": Operation(
        _check_range,
        _dropped,
        _dropped_line,
        lambda step: f"samples {step['first']} to {step['stop']} left out",
    ),
}
