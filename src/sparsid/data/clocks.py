"""Channels with clocks of their own, as one record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sparsid.data.resampling import GAP, grid, resampled, usual_step
from sparsid.data.sampling_time import sampling_time
from sparsid.data.shaping import Step
from sparsid.errors import InputError

if TYPE_CHECKING:
    from sparsid.data.record import Record

Values = NDArray[np.float64]

# Percentile of the steps of a clock that counts as a long one that is no gap.
LONG = 95
# More samples than this are no record but a mistake in a clock.
MOST_SAMPLES = 50_000_000


def record_of_channels(
    inputs: Mapping[str, Any],
    outputs: Mapping[str, Any],
    dt: float | None,
    *,
    units: Mapping[str, str],
    name: str = "",
    smooth: bool = True,
) -> Record:
    """Return one record; see `sparsid.Record.from_channels`."""
    from sparsid.data.record import Record

    for what, side in (("inputs", inputs), ("outputs", outputs)):
        if not isinstance(side, Mapping):
            raise InputError(
                f"{what} is a {type(side).__name__} but channels by name are needed, "
                'as in {"level": (times, values)}.'
            )
    if not outputs:
        raise InputError("outputs is empty: a record needs at least one output.")
    signals = _signals({**inputs, **outputs})
    steps = {n: usual_step(t) if len(t) > 1 else 0.0 for n, (t, _) in signals.items()}
    long = {
        n: float(np.percentile(np.diff(t), LONG)) if len(t) > 1 else 0.0
        for n, (t, _) in signals.items()
    }
    given = dt is not None
    dt = sampling_time(dt if dt is not None else max(steps.values()))
    begin = max(t[0] for t, _ in signals.values())
    end = min(t[-1] for t, _ in signals.values())
    if (end - begin) / dt > MOST_SAMPLES:
        raise InputError(
            f"The channels reach from {begin:g} to {end:g} s, more than {MOST_SAMPLES} "
            f"samples every {dt:g} s: correct a clock, or give another dt."
        )
    start, new = grid(begin, end, dt)
    if len(new) < 2:
        spans = [f"{n} {t[0]:g} to {t[-1]:g} s" for n, (t, _) in signals.items()]
        raise InputError(
            f"The channels have fewer than two samples every {dt:g} s in common: "
            f"{', '.join(spans)}."
        )
    columns, told = {}, []
    for channel, (times, values) in signals.items():
        longest = max(GAP * long[channel], dt)
        found = resampled(times, values, new, longest, smooth)
        columns[channel] = found.values
        told.append(f"{channel} {found.way} from about {steps[channel]:g} s")
    record = Record(
        np.stack([columns[n] for n in inputs], 1) if inputs else None,
        np.stack([columns[n] for n in outputs], 1),
        dt,
        input_names=list(inputs),
        output_names=list(outputs),
        input_units=[units.get(n, "") for n in inputs],
        output_units=[units.get(n, "") for n in outputs],
        name=name,
        start=start,
    )
    chosen = "" if given else ", the longest usual step"
    note = f"brought to one clock of {dt:g} s{chosen}: {'; '.join(told)}"
    step = Step("from_channels", {"dt": dt, "smooth": smooth}, note)
    return record._with(history=(step,))


def _signals(channels: Mapping[str, Any]) -> dict[str, tuple[Values, Values]]:
    """Return times in seconds and values of each channel, measured samples only."""
    found = {}
    raw = {name: _times_and_values(name, given) for name, given in channels.items()}
    dates = {name for name, (times, _) in raw.items() if times.dtype.kind == "M"}
    if dates and len(dates) < len(raw):
        raise InputError(
            f"{', '.join(sorted(dates))} have dates as times but "
            f"{', '.join(n for n in raw if n not in dates)} have numbers: give one "
            "kind."
        )
    zero = min((times.min() for times, _ in raw.values() if len(times)), default=0)
    for name, (times, values) in raw.items():
        if times.dtype.kind in "mM":
            origin = zero if times.dtype.kind == "M" else np.timedelta64(0, "s")
            times = (times - origin) / np.timedelta64(1, "s")
        times = times.astype(np.float64)
        good = np.isfinite(times) & np.isfinite(values)
        times, values = times[good], values[good]
        if not len(times):
            raise InputError(f"Channel {name!r} has no measured sample.")
        order = np.argsort(times, kind="stable")
        times, values = times[order], values[order]
        again = np.flatnonzero(np.diff(times) == 0.0)
        if again.size:
            raise InputError(
                f"Channel {name!r} has two values at the time {times[again[0]]:g} s: "
                "remove one of them."
            )
        found[name] = (times, values)
    return found


def _times_and_values(name: str, given: Any) -> tuple[NDArray[Any], Values]:
    if hasattr(given, "iloc") and hasattr(given, "index"):
        index = given.index
        if getattr(index, "tz", None) is not None:
            index = index.tz_convert("UTC").tz_localize(None)
        given = (index.to_numpy(), given.to_numpy(dtype=np.float64))
    try:
        times, values = (np.asarray(part) for part in given)
        values = values.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"Channel {name!r} is a {type(given).__name__}: give times and values, as "
            f"in (times, values), or a Series ({error})."
        ) from error
    if (
        times.ndim != 1
        or times.shape != values.shape
        or times.dtype.kind not in "iufmM"
    ):
        raise InputError(
            f"Channel {name!r} has times of shape {times.shape} and values of shape "
            f"{values.shape}: both need to be 1-D, of one length, times as numbers or "
            "dates."
        )
    return times, values
