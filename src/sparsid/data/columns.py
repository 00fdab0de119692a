"""Which columns of a table are a record's channels, and when its rows were measured."""

import logging
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Any, NamedTuple

import numpy as np

from sparsid.data.cells import shown
from sparsid.data.clocks import record_of_channels
from sparsid.data.record import Record
from sparsid.data.sampling_time import (
    STEP_NAMES,
    TIME_NAMES,
    UnevenError,
    check_gaps,
    sample_rows,
    sampling_time,
    seconds_of,
    step_of,
)
from sparsid.data.text import Table
from sparsid.data.times import is_time
from sparsid.errors import InputError

INPUT_PATTERN = re.compile(r"(u\d*|inputs?\d*|uEst)", re.IGNORECASE)
OUTPUT_PATTERN = re.compile(r"(y\d*|outputs?\d*|yEst)", re.IGNORECASE)

# A given sampling time may differ from the clock's by this share: rounding.
CLOCK_TOLERANCE = 1e-3

Choice = str | Sequence[str] | None
logger = logging.getLogger(__name__)


class Wanted(NamedTuple):
    """What is asked of a file; see `sparsid.read`."""

    inputs: Choice
    outputs: Choice
    time: str | None
    dt: float | None
    default_dt: float | None
    units: Mapping[str, str] | None
    uneven: float | None = None


def records_of(
    table: Table,
    wanted: Wanted,
    pieces_of: Callable[[Any], list[tuple[int, int]]] | None,
) -> list[Record]:
    """Return the chosen columns in pieces, with gaps where time jumps.

    ``pieces_of`` gives (first, stop) of the rows of each piece, from the sample number
    of every row. None stands for one piece, if its gaps are short enough.
    """
    units = _units(table, wanted)
    clock = _clock(table) if wanted.time is None else table.find(wanted.time)
    u_names, y_names = _choose(table, wanted.inputs, wanted.outputs, clock)
    if table.clocks is not None and wanted.time is None:
        own = [table.clocks[name] for name in (*u_names, *y_names)]
        if all(times is not None for times in own):
            return [_from_clocks(table, wanted, (u_names, y_names), own, units)]
    sides = []
    for chosen in (u_names, y_names):
        parts = {name: table.numbers(name) for name in chosen}
        sides.append(_side(table, parts, units))
    u, y = sides[0][0], sides[1][0]
    try:
        rows, dt = _rows_and_step(table, wanted, clock, (u, y), units)
    except UnevenError:
        if wanted.uneven is None or clock is None:
            raise
        seconds = seconds_of(table, clock, units.get(clock, ""))
        return [_brought_to_steps(table, wanted.uneven, seconds, sides)]
    # Checked as a whole: a channel may be missing throughout a piece.
    whole = Record(
        u if u_names else None,
        y,
        dt,
        input_names=sides[0][1],
        output_names=sides[1][1],
        input_units=sides[0][2],
        output_units=sides[1][2],
        name=table.path.stem,
    )
    if pieces_of is None:
        check_gaps(table, clock, rows)
        return [whole._placed(rows)]
    return [whole._cut(a, b)._placed(rows[a:b]) for a, b in pieces_of(rows)]


def _clock(table: Table) -> str | None:
    """Return the column of times: by its name, or else by what is in it."""
    named = next((name for name in TIME_NAMES if name in table.columns), None)
    if named is not None or table.clocks is not None:
        return named
    # The date alone is the same in all rows.
    moving = (n for n in _times(table) if len(set(table.columns[n][:2])) > 1)
    return next(moving, None)


def _times(table: Table) -> list[str]:
    """Return the columns of texts that begin with a time: they are no channels.

    Arrays that are read when they are used hold no texts.
    """
    if not isinstance(table.columns, dict):
        return []
    return [
        name
        for name, values in table.columns.items()
        if values.ndim == 1 and len(values) and values.dtype.kind == "O"
        if isinstance(values[0], str) and is_time(values[0])
    ]


def _units(table: Table, wanted: Wanted) -> dict[str, str]:
    units = wanted.units
    if not isinstance(units, Mapping | None):
        raise InputError(
            f'units is {units!r} but a dictionary such as {{"level": "V"}} is needed.'
        )
    return table.units | {table.find(k): v for k, v in (units or {}).items()}


def _rows_and_step(
    table: Table,
    wanted: Wanted,
    clock: str | None,
    sides: tuple[Any, Any],
    units: Mapping[str, str],
) -> tuple[Any, float]:
    """Return the sample number of each row, and the sampling time.

    That is the one given, else that of the clock, of a column "Ts" or "dt", the
    default, or 1 s with a warning.
    """
    dt, rows = wanted.dt, np.arange(len(sides[1]))
    if clock is not None:
        try:
            seconds = seconds_of(table, clock, units.get(clock, ""))
            numbers, told = sample_rows(table, clock, seconds, wanted.default_dt)
            _check_lengths(table, len(numbers), *sides)
            dt = told if dt is None else _agreed(table, dt, told, clock, wanted.time)
            rows = numbers
        except InputError as error:
            # A clock that nobody asked for may be at fault if dt is given.
            if dt is None or wanted.time is not None:
                raise
            logger.warning("%s is ignored, as dt was given: %s", clock, error)
    if dt is None:
        dt = step_of(table)
    if dt is None:
        dt = wanted.default_dt
    if dt is None:
        logger.warning(
            "%s does not tell its sampling time: 1 s is assumed; give dt (--dt).",
            table.path,
        )
        dt = 1.0
    return rows, dt


def _from_clocks(
    table: Table,
    wanted: Wanted,
    names: tuple[list[str], list[str]],
    clocks: list[Any],
    units: Mapping[str, str],
) -> Record:
    """Return the record of channels that bring their times along."""
    first = clocks[0]
    same = all(len(c) == len(first) and np.array_equal(c, first) for c in clocks)
    inputs, outputs = (
        {name: (table.clocks[name], table.numbers(name)) for name in side}
        for side in names
        if table.clocks is not None
    )
    dt = wanted.dt if wanted.uneven is None else wanted.uneven
    if same and wanted.uneven is None:
        single = Table(table.path, table.columns, table.units, table.spellings)
        try:
            rows, told = sample_rows(single, "time", first, wanted.default_dt)
        except UnevenError:
            pass
        else:
            check_gaps(single, "time", rows)
            whole = Record(
                np.stack([v for _, v in inputs.values()], 1) if inputs else None,
                np.stack([v for _, v in outputs.values()], 1),
                told if dt is None else _agreed(table, dt, told, "time", None),
                input_names=list(inputs),
                output_names=list(outputs),
                input_units=[units.get(n, "") for n in inputs],
                output_units=[units.get(n, "") for n in outputs],
                name=table.path.stem,
            )
            return whole._placed(rows)
    record = record_of_channels(inputs, outputs, dt, units=units, name=table.path.stem)
    if dt is None:
        logger.warning("%s: %s", table.path, record.notes[0])
    return record


def _brought_to_steps(
    table: Table, dt: float, seconds: Any, sides: Sequence[Any]
) -> Record:
    """Return the record of columns whose common clock has uneven steps."""
    channels: list[dict[str, Any]] = []
    units: dict[str, str] = {}
    for values, labels, label_units in sides:
        channels.append(
            {n: (seconds, v) for n, v in zip(labels, values.T, strict=True)}
        )
        units |= dict(zip(labels, label_units, strict=True))
    inputs, outputs = channels
    return record_of_channels(inputs, outputs, dt, units=units, name=table.path.stem)


def _check_lengths(table: Table, samples: int, *sides: Any) -> None:
    """Refuse channels that do not have one value for each time."""
    for side in sides:
        if side.shape[1] and len(side) != samples:
            raise InputError(
                f"{table.path}: the time has {samples} samples but the chosen "
                f"variables have {len(side)}: both need the same number."
            )


def _agreed(
    table: Table, dt: float, told: float, clock: str, time: str | None
) -> float:
    """Return the given sampling time; refuse one that a clock asked for contradicts.

    A clock that nobody asked for may count samples or milliseconds: it shows the gaps.
    """
    dt = sampling_time(dt)
    if math.isclose(dt, told, rel_tol=CLOCK_TOLERANCE):
        return dt
    found = f"{table.path}: dt is given as {dt:g} s but {clock!r} has steps of {told:g}"
    if time is not None:
        raise InputError(
            f"{found} s: leave dt out, or leave the time column out if it does not "
            "count seconds."
        )
    logger.warning("%s: dt counts.", found)
    return dt


def _side(
    table: Table, parts: dict[str, Any], units: Mapping[str, str]
) -> tuple[Any, list[str], list[str]]:
    """Return channels side by side, with names and units."""
    lengths = {name: len(values) for name, values in parts.items()}
    if len(set(lengths.values())) > 1:
        raise InputError(
            f"{table.path}: the chosen variables have lengths {lengths}: they need "
            "the same number of samples."
        )
    labels, label_units = [], []
    for name, values in parts.items():
        if values.ndim > 2:
            raise InputError(
                f"{table.path}: {name!r} has shape {values.shape} but (time, channel) "
                "is needed."
            )
        count = 1 if values.ndim == 1 else values.shape[1]
        labels += [name] if count == 1 else [f"{name}{k + 1}" for k in range(count)]
        label_units += [units.get(name, "")] * count
    stacked = np.column_stack(list(parts.values())) if parts else np.empty((0, 0))
    return stacked, labels, label_units


def _choose(
    table: Table, inputs: Choice, outputs: Choice, clock: str | None
) -> tuple[list[str], list[str]]:
    """Return the columns of inputs and outputs, chosen or recognised by name."""
    u, y = _found(table, inputs, "inputs"), _found(table, outputs, "outputs")
    taken = {clock, *STEP_NAMES, *_times(table), *(u or []), *(y or [])}
    free = [name for name in table.columns if name not in taken]
    like_u = [name for name in free if INPUT_PATTERN.fullmatch(name)]
    like_y = [name for name in free if OUTPUT_PATTERN.fullmatch(name)]
    if u is None and y is None:
        if like_u and like_y:
            u, y = like_u, like_y
        elif len(free) == 2:
            swapped = like_y == free[:1] or like_u == free[1:]
            u, y = (free[1:], free[:1]) if swapped else (free[:1], free[1:])
    elif u is None:
        u = like_u or (free if len(free) == 1 else None)
    elif y is None:
        y = like_y or (free if len(free) == 1 else None)
    if u is None or not y:
        raise InputError(
            f"{table.path} has the columns {table.listing()}, and it is not clear "
            "which are inputs and outputs: choose with inputs and outputs (for a "
            "series without inputs an empty list of inputs, or --no-input)."
        )
    return u, y


def _found(table: Table, choice: Choice, what: str) -> list[str] | None:
    if choice is None:
        return None
    # The order of a set is left to chance.
    several = isinstance(choice, Iterable) and not isinstance(choice, str | Set)
    names: list[Any] = list(choice) if several else [choice]
    if not all(isinstance(name, str) for name in names):
        raise InputError(
            f"{what} is {choice!r} but names of columns are needed, as text or a list "
            f"of texts: {table.path} has {table.listing()}."
        )
    found = [table.find(name) for name in names]
    for name in found:
        if found.count(name) > 1:
            raise InputError(f"{what} has {shown(name)} more than once: give it once.")
    return found
