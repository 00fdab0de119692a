"""What a model file has to be: types, lengths, bounds of everything in its JSON.

One table for all kinds. It is looked at before anything is made of a file, so that what
is made can rely on it; the shapes of arrays follow from it and are checked against it
as they are read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from sparsid.checks import LARGEST_LAG
from sparsid.fitting.settings import LARGEST_WIDTH
from sparsid.kernel.activations import NAMES
from sparsid.kernel.runs import MATRICES
from sparsid.models.network import ACTIVATIONS, SUBLINEAR
from sparsid.results.outcome import Outcome
from sparsid.results.storage.parts import FLOAT_TAG

# A check gets a value and its place, and raises a ValueError that names both.
Check = Callable[[Any, str], None]

# Numbers beyond this come from no fit, and their products overflow.
LARGEST = 1e100
# Samples, weights, records.
LARGEST_COUNT = 2**53
# States, neurons and members of a simulator; poles in particular have loops in Python.
LARGEST_SIZE = 10_000
DEEPEST = 8


def whole(low: int, high: int = LARGEST_COUNT) -> Check:
    """Return a check for whole numbers within bounds."""

    def check(value: Any, place: str) -> None:
        if isinstance(value, bool) or not isinstance(value, int):
            raise _wrong(value, place, "a whole number")
        if not low <= value <= high:
            raise _wrong(value, place, f"between {low} and {high}")

    return check


def real(low: float = -LARGEST, high: float = LARGEST) -> Check:
    """Return a check for numbers within bounds."""

    def check(value: Any, place: str) -> None:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise _wrong(value, place, "a number")
        if not low <= value <= high:
            raise _wrong(value, place, f"between {low:g} and {high:g}")

    return check


def above_zero(value: Any, place: str) -> None:
    """Check for numbers above zero."""
    real(0.0)(value, place)
    if not value > 0.0:
        raise _wrong(value, place, "above zero")


def text(value: Any, place: str) -> None:
    """Check for texts."""
    if not isinstance(value, str):
        raise _wrong(value, place, "a text")


def name(value: Any, place: str) -> None:
    """Check for texts that are not empty."""
    text(value, place)
    if not value.strip():
        raise _wrong(value, place, "a name")


def yes_or_no(value: Any, place: str) -> None:
    """Check for true and false."""
    if not isinstance(value, bool):
        raise _wrong(value, place, "true or false")


def one_of(*known: str) -> Check:
    """Return a check for certain texts."""

    def check(value: Any, place: str) -> None:
        if not isinstance(value, str) or value not in known:
            raise _wrong(value, place, f"one of {', '.join(known)}")

    return check


def many(item: Check, least: int = 0, most: int = LARGEST_COUNT) -> Check:
    """Return a check for lists, item by item."""

    def check(value: Any, place: str) -> None:
        if not isinstance(value, list):
            raise _wrong(value, place, "a list")
        if not least <= len(value) <= most:
            raise _wrong(len(value), f"the length of {place}", f"{least} to {most}")
        for k, own in enumerate(value):
            item(own, f"{place}[{k}]")

    return check


def row(*items: Check) -> Check:
    """Return a check for lists of so many items, each with its own check."""

    def check(value: Any, place: str) -> None:
        many(anything, len(items), len(items))(value, place)
        for own, item in zip(value, items, strict=True):
            item(own, place)

    return check


def fields(known: Mapping[str, Check], optional: Mapping[str, Check] = {}) -> Check:
    """Return a check for objects: every known field is there, and no other."""

    def check(value: Any, place: str) -> None:
        if not isinstance(value, dict):
            raise _wrong(value, place, "an object")
        missing, more = set(known) - set(value), set(value) - {*known, *optional}
        if missing or more:
            which = ", ".join(sorted(map(_short, missing or more)))
            verb = "lacks" if missing else "has also"
            raise ValueError(f"{place or 'the model'} {verb} {which}")
        for key, own in value.items():
            {**optional, **known}[key](own, f"{place}.{key}" if place else key)

    return check


def some(known: Mapping[str, Check], needed: tuple[str, ...] = ()) -> Check:
    """Return a check for objects that may have known fields, and others."""

    def check(value: Any, place: str) -> None:
        if not isinstance(value, dict):
            raise _wrong(value, place, "an object")
        anything(value, place)
        for key in needed:
            if key not in value:
                raise ValueError(f"{place} lacks {key}")
        for key in known.keys() & value.keys():
            known[key](value[key], f"{place}.{key}")

    return check


def or_none(item: Check) -> Check:
    """Return a check for null, and what passes another check."""

    def check(value: Any, place: str) -> None:
        if value is not None:
            item(value, place)

    return check


def figure(value: Any, place: str) -> None:
    """Check for numbers that need not be finite."""
    if isinstance(value, dict):
        fields({FLOAT_TAG: one_of("nan", "inf", "-inf")})(value, place)
    else:
        real(-math.inf, math.inf)(value, place)


def anything(value: Any, place: str, depth: int = 0) -> None:
    """Check for what ``plain`` writes: no tag that is none, and no endless depth."""
    if depth > DEEPEST:
        raise ValueError(f"{place} is nested more than {DEEPEST} deep")
    if isinstance(value, dict):
        if set(value) == {FLOAT_TAG}:
            figure(value, place)
        else:
            for own in value.values():
                anything(own, place, depth + 1)
    elif isinstance(value, list):
        for own in value:
            anything(own, place, depth + 1)
    elif isinstance(value, float) and not math.isfinite(value):
        raise _wrong(value, place, "a finite number")


def _wrong(value: Any, place: str, expected: str) -> ValueError:
    return ValueError(f"{place} is {_short(value)}, expected {expected}")


def _short(value: Any) -> str:
    found = ascii(value)
    return found if len(found) <= 60 else found[:57] + "..."


# -- the table -----------------------------------------------------------------------

_names = many(name, 0, 10_000)
_units = many(text, 0, 10_000)
_figures = many(figure)
_DETAILS = some(
    {
        "records": whole(1),
        "samples": whole(1),
        "segments": whole(0),
        "notes": many(text),
        "free_run_rmse": _figures,
        "one_step_rmse": _figures,
        "candidates": many(
            some(
                {"name": text, "held_out_error": figure},
                needed=("name", "held_out_error"),
            )
        ),
        "chosen_candidate": text,
        "starts": many(
            some({"log_evidence": figure, "cost": figure}, needed=("log_evidence",))
        ),
        "chosen_start": whole(0),
        "range": fields(
            {
                "inputs": many(row(figure, figure)),
                "outputs": many(row(figure, figure)),
            }
        ),
    }
)


def _scalar(value: Any, place: str) -> None:
    if not isinstance(value, bool | int | float | str):
        raise _wrong(value, place, "a number, a text, true or false")
    anything(value, place)


def _setting(value: Any, place: str) -> None:
    if isinstance(value, list):
        many(or_none(_scalar))(value, place)
    elif isinstance(value, dict):
        figure(value, place)
    else:
        or_none(_scalar)(value, place)


def _settings(value: Any, place: str) -> None:
    if not isinstance(value, dict):
        raise _wrong(value, place, "an object")
    for key, own in value.items():
        _setting(own, f"{place}.{_short(key)}")


_COMMON: dict[str, Check] = {
    "kind": text,
    "settings": _settings,
    "channels": fields(
        {
            "input_names": _names,
            "output_names": many(name, 1, 10_000),
            "input_units": _units,
            "output_units": _units,
            "dt": above_zero,
        }
    ),
    "weights_kept": real(0.0),
    "weights_total": whole(1),
    "outcome": one_of(*Outcome.__members__),
    "history": many(text),
    "details": _DETAILS,
}
# Files of earlier versions have none.
_LATER: dict[str, Check] = {
    "band_factors": fields(
        {"one_step": many(above_zero, 1), "free_run": many(above_zero, 1)},
        {"run_scale": many(real(0.0)), "run_rate": many(real(0.0))},
    ),
}
_lag = whole(0, LARGEST_LAG)
_count = whole(0, LARGEST_SIZE)
_widths = many(whole(0, LARGEST_WIDTH), 2)

_NARX: dict[str, Check] = {
    "lags": fields(
        {
            "n_inputs": _count,
            "n_outputs": whole(1, LARGEST_SIZE),
            "input_lags": _lag,
            "output_lags": _lag,
            "delay": _lag,
        }
    ),
    "regressors": many(row(one_of("u", "y"), _count, whole(0, 2 * LARGEST_LAG))),
    "network": fields(
        {
            "widths": _widths,
            "activation": one_of(*ACTIVATIONS),
            "linear_path": yes_or_no,
        }
    ),
    "start_widths": _widths,
}
_STATES: dict[str, Check] = {
    "model": fields(
        {
            "inputs": _count,
            "outputs": whole(1, LARGEST_SIZE),
            "states": whole(1, LARGEST_SIZE),
            "hidden": many(whole(1, LARGEST_WIDTH)),
            "records": whole(1),
            "rate": above_zero,
            "floor": many(figure),
            "ceiling": many(figure),
            "activation": one_of(*SUBLINEAR),
        }
    ),
    "known": whole(1, 10 * LARGEST_LAG),
    "dropped": whole(0),
}
_MEMBER: dict[str, Check] = {
    "structure": text,
    "sizes": fields(
        {
            "states": whole(1, LARGEST_SIZE),
            "inputs": _count,
            "neurons": _count,
            "outputs": whole(1, LARGEST_SIZE),
        }
    ),
    "poles": many(
        fields(
            {
                "kind": one_of("pair", "real", "leak", "one"),
                "state": _count,
                "scale": above_zero,
                "most": real(0.0, 1.0),
            }
        )
    ),
    "free": many(row(one_of(*MATRICES), _count, _count)),
    "kinds": many(whole(0, len(NAMES) - 1)),
    "log_evidence": figure,
}
_SIMULATOR: dict[str, Check] = {
    "name": text,
    "delays": many(whole(0, 10 * LARGEST_LAG)),
    "members": many(fields(_MEMBER), 1, LARGEST_SIZE),
    "start_samples": whole(1, 10 * LARGEST_LAG),
}
_WINDOW = {"window": or_none(whole(1))}
_KINDS: dict[str, tuple[dict[str, Check], dict[str, Check]]] = {
    "NARX": (_NARX, _WINDOW),
    "StateSpace": (_STATES, {}),
    "Simulator": (_SIMULATOR, {}),
}


def check(facts: Any) -> None:
    """Raise a ValueError that says what in the JSON of a model file is not right."""
    if not isinstance(facts, dict):
        raise _wrong(facts, "the model", "an object")
    one_of(*_KINDS)(facts.get("kind"), "kind")
    own, optional = _KINDS[facts["kind"]]
    fields(_COMMON | own, _LATER | optional)(facts, "")
    channels = facts["channels"]
    for side in ("input", "output"):
        names, units = channels[f"{side}_names"], channels[f"{side}_units"]
        if len(names) != len(units):
            raise ValueError(f"there are {len(names)} {side}s but {len(units)} units")
    every = channels["input_names"] + channels["output_names"]
    if len(set(every)) < len(every):
        raise ValueError("two channels have one name")
    _check_range(facts["details"].get("range"), channels)
    for key in ("free_run_rmse", "one_step_rmse"):
        errors = facts["details"].get(key)
        if errors is not None and len(errors) != len(channels["output_names"]):
            raise ValueError(f"details.{key} does not fit the outputs")
    starts = facts["details"].get("starts", [])
    if len(starts) > 1 and facts["details"].get("chosen_start", -1) not in range(
        len(starts)
    ):
        raise ValueError("details.chosen_start is none of the starts")


def _check_range(known: Any, channels: Mapping[str, Any]) -> None:
    for side in ("input", "output"):
        if known is not None and len(known[f"{side}s"]) != len(
            channels[f"{side}_names"]
        ):
            raise ValueError(f"details.range does not fit the {side}s")
