"""Data into shape: every step gives a new record that remembers what was done."""

from __future__ import annotations

import numbers
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
from numpy.typing import NDArray

from sparsid.data import cleaning
from sparsid.data.resampling import grid, resampled
from sparsid.data.sampling_time import sampling_time
from sparsid.data.shape_checks import check_merged, finite_number, line_for, ways_of
from sparsid.data.shaping import Step
from sparsid.errors import InputError

if TYPE_CHECKING:
    from sparsid.data.record import Record

Values = NDArray[np.float64]

KINDS = ("constant", "linear")
# The highest order of a filter that is still computed accurately.
HIGHEST_ORDER = 12


class Shaping:
    """What can be done to a record before it is learnt from.

    Every method returns a new record. Its ``history`` lists the steps, with the
    arguments that repeat them (`replay`), and ``notes`` tells them in words.
    """

    u: Any
    y: Any
    dt: float
    start: int
    name: str
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
    input_units: tuple[str, ...]
    output_units: tuple[str, ...]
    history: tuple[Step, ...]

    def _with(self, **changes: Any) -> Self:
        raise NotImplementedError

    def __len__(self) -> int:
        return len(self.y)

    @property
    def time(self) -> Values:
        """Time of each sample in seconds, counted from the original recording."""
        raise NotImplementedError

    @property
    def notes(self) -> tuple[str, ...]:
        """What was done to the measured values, in words."""
        return tuple(step.note for step in self.history)

    # -- steps ---------------------------------------------------------------------

    def resample(self, dt: float, *, smooth: bool = True) -> Self:
        """Return the record with another sampling time.

        Longer steps: a windowed low-pass filter takes away what they could not show.
        Shorter ones: held signals stay held, others follow a monotone cubic. Gaps
        longer than a new step stay gaps. Times stay what they were; new samples are at
        multiples of ``dt``.

        Parameters
        ----------
        dt
            The new sampling time in seconds.
        smooth
            False leaves the filter out: what is faster than the new samples show then
            appears as something slow.
        """
        dt = sampling_time(dt)
        time = self.time
        start, new = grid(time[0], time[-1], dt)
        if len(new) < 2:
            raise InputError(
                f"dt is {dt:g} s but the record lasts {time[-1] - time[0]:g} s: choose "
                "a sampling time that leaves at least two samples."
            )
        sides, ways = [], []
        for values in (self.u, self.y):
            longest = max(1.5 * self.dt, dt)
            found = [resampled(time, v, new, longest, smooth) for v in values.T]
            sides.append(np.stack([f.values for f in found] or [new], 1))
            ways += [f.way for f in found]
        u = sides[0] if self.input_names else np.empty((len(new), 0))
        lost = [int(np.isnan(v).sum()) for v in (self.u, self.y, u, sides[1])]
        note = (
            f"resampled from {self.dt:g} s ({len(self)} samples) to {dt:g} s "
            f"({len(new)} samples): {ways_of(self._names, ways)}"
        )
        if any(lost):
            note += (
                f"; missing values {lost[0] + lost[1]} before, {sum(lost[2:])} after"
            )
        step = Step("resample", {"dt": dt, "smooth": smooth}, note)
        return self._done(step, u=u, y=sides[1], dt=dt, start=start)

    def detrend(
        self,
        kind: str = "constant",
        *,
        trend: Mapping[str, Sequence[float]] | None = None,
    ) -> Self:
        """Return the record without the mean, or the straight line, of each channel.

        Parameters
        ----------
        kind
            ``"constant"`` or ``"linear"``.
        trend
            What is taken away, by channel: the value at time 0 and the slope per
            second. None: found in this record. The step that the record remembers
            holds it, so that `replay` takes the same away from other records.
        """
        if kind not in KINDS:
            raise InputError(f'kind is {kind!r} but "constant" or "linear" is needed.')
        time, names = self.time, self._names
        if trend is None:
            linear = kind == "linear"
            lines = [cleaning.line_of(time, v, linear) for v in (*self.u.T, *self.y.T)]
        else:
            lines = [line_for(trend, name) for name in names]
        away = np.stack([offset + slope * time for offset, slope in lines], 1)
        cut = len(self.input_names)
        what = "mean" if kind == "constant" else "straight line"
        told = ", ".join(
            f"{name} {offset:.6g}" + (f" {slope:+.3g}/s" if slope else "")
            for name, (offset, slope) in zip(names, lines, strict=True)
        )
        found = {n: list(line) for n, line in zip(names, lines, strict=True)}
        step = Step(
            "detrend", {"kind": kind, "trend": found}, f"{what} taken away: {told}"
        )
        return self._done(step, u=self.u - away[:, :cut], y=self.y - away[:, cut:])

    def filter(
        self,
        low: float | None = None,
        high: float | None = None,
        order: int = 4,
        *,
        channels: str | Sequence[str] | None = None,
    ) -> Self:
        """Return the record with frequencies from ``low`` to ``high`` only.

        A Butterworth filter runs forward and backward, so that nothing is delayed; at
        its ends half of the amplitude is left. Inputs and outputs go through the same
        one: what leads from one to the other does not change. Every measured stretch
        is filtered on its own.

        Parameters
        ----------
        low, high
            In Hz. None: from zero, to the highest frequency.
        order
            Of the filter in one direction.
        channels
            Names; by default all. Filtering some alone changes what is identified.
        """
        from scipy.signal import butter

        nyquist = 0.5 / self.dt
        ends = {"low": low, "high": high}
        for key, value in ends.items():
            if value is not None and not 0.0 < finite_number(value, key) < nyquist:
                raise InputError(
                    f"{key} is {value!r} but must be a frequency above 0 and below "
                    f"{nyquist:g} Hz, half the sampling rate."
                )
        if low is None and high is None:
            raise InputError("low and high are None: give at least one, in Hz.")
        if low is not None and high is not None and not low < high:
            raise InputError(f"low is {low:g} Hz but must be below high, {high:g} Hz.")
        if not isinstance(order, numbers.Integral) or not 1 <= order <= HIGHEST_ORDER:
            raise InputError(
                f"order is {order!r} but must be from 1 to {HIGHEST_ORDER}."
            )
        shape = "low" if low is None else "high" if high is None else "band"
        kept = [v for v in (low, high) if v is not None]
        edge = kept if len(kept) == 2 else kept[0]
        sections = butter(order, edge, btype=shape, fs=1.0 / self.dt, output="sos")
        chosen = self._chosen(channels)
        gain = 1.0 if low is None else 0.0
        values = np.concatenate([self.u, self.y], axis=1)
        for k, name in enumerate(self._names):
            if name in chosen:
                values[:, k] = cleaning.filtered(values[:, k], sections, gain)
        passed = f"{low or 0:g} to {high or nyquist:g} Hz"
        whom = "" if channels is None else f" of {', '.join(chosen)}"
        arguments = {"low": low, "high": high, "order": int(order)}
        arguments |= {} if channels is None else {"channels": list(chosen)}
        step = Step(
            "filter", arguments, f"filtered{whom}: {passed} kept, order {order}"
        )
        return self._done(step, **self._sides(values))

    def shift(self, channel: str, samples: int) -> Self:
        """Return the record with a channel moved in time, cut to what is left of all.

        Parameters
        ----------
        channel
            Its name.
        samples
            Above zero: its values come later by so many samples; below: earlier.
        """
        (chosen,) = self._chosen([channel])
        if not isinstance(samples, numbers.Integral):
            raise InputError(f"samples is {samples!r} but must be a whole number.")
        count, size = int(samples), len(self)
        if abs(count) > size - 2:
            raise InputError(
                f"samples is {count} but the record has {size}: at least two have to "
                "be left."
            )
        first, stop = max(count, 0), size + min(count, 0)
        values = np.concatenate([self.u, self.y], axis=1)
        moved = values[first:stop].copy()
        k = self._names.index(chosen)
        moved[:, k] = values[first - count : stop - count, k]
        way = "later" if count > 0 else "earlier"
        step = Step(
            "shift",
            {"channel": chosen, "samples": count},
            f"{chosen} moved {abs(count)} samples ({abs(count) * self.dt:g} s) {way}",
        )
        return self._done(step, **self._sides(moved), start=self.start + first)

    def slice(self, start: float | None = None, stop: float | None = None) -> Self:
        """Return the samples from one time to another.

        Parameters
        ----------
        start, stop
            In seconds, as in `time`; ``stop`` is the first one that is left out.
        """
        time = self.time
        ends = []
        for key, value, default in (("start", start, 0), ("stop", stop, len(self))):
            if value is None:
                ends.append(default)
            else:
                near = finite_number(value, key) - 1e-6 * self.dt
                ends.append(int(np.searchsorted(time, near)))
        first, end = ends
        if end <= first:
            raise InputError(
                f"From {start} to {stop} s the record has no samples: it reaches from "
                f"{time[0]:g} to {time[-1]:g} s."
            )
        step = Step(
            "slice",
            {"start": start, "stop": stop},
            f"samples from {time[first]:g} to {time[end - 1]:g} s taken, {end - first} "
            f"of {len(self)}",
        )
        cut = slice(first, end)
        return self._done(step, u=self.u[cut], y=self.y[cut], start=self.start + first)

    def merge(self, *others: Record) -> Self:
        """Return one record with the channels of several, where their times overlap.

        Inputs stay inputs, outputs outputs. All need the same sampling time; for
        others see `resample` and `sparsid.Record.from_channels`.

        Parameters
        ----------
        *others
            Records with other channels.
        """
        parts = [self, *(cast("Self", other) for other in others)]
        check_merged(parts)
        names = [name for part in parts for name in part._names]
        start = max(part.start for part in parts)
        stop = min(part.start + len(part) for part in parts)
        if stop <= start:
            raise InputError(
                "The records have no time in common: "
                + ", ".join(f"{p.time[0]:g} to {p.time[-1]:g} s" for p in parts)
                + "."
            )
        joined: dict[str, Any] = {}
        for side in ("u", "y"):
            cuts = [getattr(p, side)[start - p.start : stop - p.start] for p in parts]
            joined[side] = np.concatenate(cuts, axis=1)
        for key in ("input_names", "output_names", "input_units", "output_units"):
            joined[key] = sum((getattr(p, key) for p in parts), ())
        titles = [p.name for p in parts[1:]]
        added = ", ".join(names[len(self._names) :])
        step = Step(
            "merge",
            {"others": titles},
            f"{added or 'nothing'} added, {stop - start} samples in common",
        )
        history = sum((p.history for p in parts[1:]), self.history)
        return self._with(**joined, start=start, history=(*history, step))

    def outliers(
        self,
        threshold: float = 5.0,
        *,
        channels: str | Sequence[str] | None = None,
    ) -> Self:
        """Return the record with NaN in place of what stands out from its neighbours.

        That is what differs from the running median of seven samples by more than
        ``threshold`` deviations of what the median leaves over (never taken as less
        than a fifth of the channel's own): peaks of at most three samples. Look at
        `notes` for how many; short pulses that are real would go as well.

        Parameters
        ----------
        threshold
            In standard deviations.
        channels
            Names; by default all.
        """
        if not finite_number(threshold, "threshold") > 0.0:
            raise InputError(f"threshold is {threshold!r} but must be above zero.")
        chosen = self._chosen(channels)
        values = np.concatenate([self.u, self.y], axis=1)
        counts = {}
        for k, name in enumerate(self._names):
            if name in chosen:
                out = cleaning.outliers_of(values[:, k], float(threshold))
                values[out, k] = np.nan
                counts[name] = int(out.sum())
        told = ", ".join(f"{name} {count}" for name, count in counts.items() if count)
        arguments: dict[str, Any] = {"threshold": float(threshold)}
        arguments |= {} if channels is None else {"channels": list(chosen)}
        step = Step(
            "outliers",
            arguments,
            f"outliers beyond {threshold:g} deviations marked missing: "
            f"{told or 'none found'}",
        )
        return self._done(step, **self._sides(values))

    # -- pieces --------------------------------------------------------------------

    @property
    def _names(self) -> tuple[str, ...]:
        return self.input_names + self.output_names

    def _done(self, step: Step, **changes: Any) -> Self:
        return self._with(**changes, history=(*self.history, step))

    def _sides(self, values: Values) -> dict[str, Values]:
        cut = len(self.input_names)
        return {"u": values[:, :cut], "y": values[:, cut:]}

    def _chosen(self, channels: str | Sequence[str] | None) -> tuple[str, ...]:
        """Return names of channels, or refuse those that are none."""
        if channels is None:
            return self._names
        wanted = (channels,) if isinstance(channels, str) else tuple(channels)
        for name in wanted:
            if name not in self._names:
                raise InputError(
                    f"{name!r} is no channel of the record: it has "
                    f"{', '.join(self._names)}."
                )
        return wanted
