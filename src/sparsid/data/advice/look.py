"""Everything that is looked at in a record, in the order of a first look."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sparsid.data.advice.excitation import excitation, spectrum
from sparsid.data.advice.findings import Advice, Finding, Values, counted, ordered
from sparsid.data.advice.relations import (
    coherence,
    cross_correlation,
    limit,
    regression,
)
from sparsid.data.advice.single import CLEAR_OUTLIER, Channel, channel_findings
from sparsid.data.cleaning import outliers_of

if TYPE_CHECKING:
    from sparsid.data.record import Record

# Gap-free samples that correlations need.
FEWEST = 60
# Samples from which a record is no longer called short.
SHORT = 300
# Lags of correlations and dead times, at most, and as a share of the samples.
MOST_LAGS, LAG_SHARE = 60, 20
# Orders of excitation below which little can be told apart.
POOR_EXCITATION = 4
# A sine alone takes up some lines of a spectrum.
FEW_FREQUENCIES = 7
# Held inputs with fewer moves than this say little.
FEW_MOVES = 15
# Inputs correlated by more than this can hardly be told apart.
ALIKE = 0.9
# Share of an output's power that inputs should explain linearly.
EXPLAINED = 0.5
# Correlation of an input with outputs before it that is no accident of whitening.
FEEDBACK = 0.1
# Samples in a time constant: more are too fast, fewer too slow.
TOO_MANY, WANTED, TOO_FEW = 100.0, 20.0, 1.0
# Time constants that a record should last for.
LASTS = 20.0


def advise(record: Record) -> Advice:
    """Return findings about a record; see `sparsid.Record.advice`."""
    names = record.input_names + record.output_names
    units = record.input_units + record.output_units
    values = np.concatenate([record.u, record.y], axis=1)
    findings: list[Finding] = []
    for k, name in enumerate(names):
        channel = Channel(
            name, units[k], values[:, k], record.time, k < record.n_inputs
        )
        findings += channel_findings(channel)
    look = _Look(record)
    findings += look.all()
    if not any(f.severity == "warning" for f in findings):
        findings.append(Finding("ok", "all", "", "nothing stands in the way of a fit"))
    return Advice(record, ordered(findings), look.figures, look.curves)


class _Look:
    """A look at the longest stretch without gaps."""

    def __init__(self, record: Record) -> None:
        self.record = record
        stretches = record.segments()
        self.stretch = _cleaned(max(stretches, key=len)) if stretches else None
        self.figures: dict[str, Any] = {
            "samples": len(record),
            "dt": record.dt,
            "longest_stretch": len(self.stretch) if self.stretch is not None else 0,
            "inputs": {},
            "outputs": {},
        }
        self.curves: dict[str, Any] = {"inputs": {}, "outputs": {}}

    def all(self) -> Iterator[Finding]:
        """Yield what is found, and keep figures and curves."""
        record, stretch = self.record, self.stretch
        if stretch is None or len(stretch) < FEWEST:
            longest = 0 if stretch is None else len(stretch)
            yield Finding(
                "warning",
                "length",
                "",
                f"the longest stretch without gaps has {longest} samples, too few to "
                "look at how channels are related",
                f"give at least {FEWEST}, better some hundred",
            )
            return
        if len(record) < SHORT:
            yield Finding(
                "note",
                "length",
                "",
                f"{len(record)} samples are few for a nonlinear model",
                "record longer, or expect a linear one",
            )
        moving_u = _moving(stretch.u)
        for k, name in enumerate(record.input_names):
            if moving_u[k]:
                yield from self._input(name, stretch.u[:, k])
        if sum(moving_u) > 1:
            yield from self._alike(stretch, moving_u)
        for k, name in enumerate(record.output_names):
            if _moving(stretch.y)[k]:
                yield from self._output(name, stretch, k, moving_u)

    # -- inputs ----------------------------------------------------------------------

    def _input(self, name: str, u: Values) -> Iterator[Finding]:
        found = excitation(u, self.record.dt)
        self.figures["inputs"][name] = found._asdict()
        self.curves["inputs"][name] = {"spectrum": spectrum(u, self.record.dt)}
        if found.order < POOR_EXCITATION or found.frequencies < FEW_FREQUENCIES:
            yield Finding(
                "warning",
                "excitation",
                name,
                f"has hardly more than one frequency ({found.frequencies} lines, order "
                f"{found.order})",
                "move it more, at several frequencies: sparsid.signals",
            )
        else:
            yield Finding(
                "ok",
                "excitation",
                name,
                f"exciting of order {found.order} or more, most of it below "
                f"{found.bandwidth:.3g} Hz",
            )
        if found.moves < FEW_MOVES:
            yield Finding(
                "warning",
                "excitation",
                name,
                f"moves {counted(found.moves, 'time')} in all",
                f"record {FEW_MOVES} or more moves, of different size",
            )
        elif found.levels == 2:
            yield Finding(
                "note",
                "excitation",
                name,
                "has two levels: what is nonlinear between them does not show",
                "use several levels: signals.steps or signals.multisine",
            )

    def _alike(self, stretch: Any, moving: NDArray[np.bool_]) -> Iterator[Finding]:
        at = np.flatnonzero(moving)
        table = np.corrcoef(stretch.u[:, at].T)
        for i in range(len(at)):
            for j in range(i):
                if abs(table[i, j]) > ALIKE:
                    first, second = (self.record.input_names[at[k]] for k in (j, i))
                    yield Finding(
                        "warning",
                        "excitation",
                        f"{first}, {second}",
                        f"move together (correlation {table[i, j]:.2f}): their effects "
                        "cannot be told apart",
                        "move them apart in time, or leave one out",
                    )

    # -- outputs ---------------------------------------------------------------------

    def _output(
        self, name: str, stretch: Any, k: int, moving: NDArray[np.bool_]
    ) -> Iterator[Finding]:
        dt, y = self.record.dt, stretch.y[:, k]
        curves: dict[str, Any] = {"spectrum": spectrum(y, dt)}
        figures: dict[str, Any] = {}
        self.curves["outputs"][name] = curves
        self.figures["outputs"][name] = figures
        at = np.flatnonzero(moving)
        u = stretch.u[:, at]
        names = [self.record.input_names[i] for i in at]
        most = int(min(MOST_LAGS, len(y) // LAG_SHARE))
        share = 0.0
        if names:
            led = coherence(u, y, dt)
            curves["coherence"] = (led.frequency, led.coherence)
            figures["explained_linearly"] = share = led.explained
            yield from _explained(name, share)
        fitted = regression(u, y, most)
        if fitted is not None:
            figures["order"] = fitted.order
            tau = _time_constant(fitted.poles)
            figures["time_constant"] = None if tau is None else tau * dt
            yield from self._sampling(name, tau, len(y))
        for i, who in enumerate(names):
            lags, found = cross_correlation(u[:, i], y, most)
            edge = limit(len(y))
            curves.setdefault("correlation", {})[who] = (lags, found, edge)
            beyond = lags[(np.abs(found) > edge) & (lags >= 0)]
            by_correlation = int(beyond[0]) if beyond.size else None
            by_criterion = None if fitted is None else fitted.delays[i]
            if fitted is not None:
                curves.setdefault("criterion", {})[who] = fitted.criteria[i]
            figures.setdefault("dead_time", {})[who] = {
                "by_correlation": by_correlation,
                "by_criterion": by_criterion,
            }
            delays = (by_correlation, by_criterion)
            alone = share if len(names) == 1 else 0.0
            yield from _dead_time(f"{who} -> {name}", delays, dt, alone)
            yield from _feedback(who, name, lags, found, edge)

    def _sampling(
        self, name: str, tau: float | None, samples: int
    ) -> Iterator[Finding]:
        dt = self.record.dt
        if tau is None or tau > samples:
            yield Finding(
                "note",
                "length",
                name,
                "remembers for longer than the record lasts: it integrates, drifts, or "
                "is hardly damped",
                "give a longer record; if it drifts, detrend()",
            )
            return
        if tau > TOO_MANY:
            longer = float(f"{dt * tau / WANTED:.1g}")
            yield Finding(
                "note",
                "sampling",
                name,
                f"is sampled fast: its longest time constant is {tau:.0f} samples",
                f"resample({longer:g}) makes fits faster and noise smaller",
            )
        elif tau < TOO_FEW:
            yield Finding(
                "warning",
                "sampling",
                name,
                f"is sampled slowly: its longest time constant is {tau:.1f} samples",
                f"sample faster than every {dt:g} s if the system is meant to be seen",
            )
        if samples < LASTS * tau:
            yield Finding(
                "warning",
                "length",
                name,
                f"the longest stretch lasts {samples / tau:.0f} of its longest time "
                "constants",
                f"record at least {LASTS:.0f}, {LASTS * tau * dt:.3g} s",
            )


def _cleaned(stretch: Record) -> Record:
    """Return a stretch with straight lines in place of outliers.

    One of them hides what else there is to be seen.
    """
    sides = {}
    for side in ("u", "y"):
        values = np.array(getattr(stretch, side))
        for column in values.T:
            out = outliers_of(column, CLEAR_OUTLIER)
            at = np.flatnonzero(~out)
            column[out] = np.interp(np.flatnonzero(out), at, column[at])
        sides[side] = values
    return stretch._with(**sides)


def _moving(values: Values) -> NDArray[np.bool_]:
    moving: NDArray[np.bool_] = np.ptp(values, axis=0) > 0.0
    return moving


def _time_constant(poles: NDArray[np.complex128]) -> float | None:
    """Return samples after which the slowest pole has decayed to 37 %, None: never."""
    size = float(np.abs(poles).max(initial=0.0))
    if size >= 0.9999:
        return None
    return 0.0 if size < 1e-3 else -1.0 / float(np.log(size))


def _explained(name: str, share: float) -> Iterator[Finding]:
    text = f"inputs explain {100 * share:.0f} % of it linearly"
    if share < EXPLAINED:
        yield Finding(
            "warning",
            "coherence",
            name,
            text,
            "noise, a strong nonlinearity, or an input that was not recorded",
        )
    else:
        yield Finding("ok", "coherence", name, text)


def _dead_time(
    who: str, delays: tuple[int | None, int | None], dt: float, explained: float
) -> Iterator[Finding]:
    by_correlation, by_criterion = delays
    told = [
        f"{counted(d, 'sample')} ({d * dt:g} s) by {way}"
        for d, way in ((by_correlation, "correlation"), (by_criterion, "BIC"))
        if d is not None
    ]
    if by_correlation is None and explained < EXPLAINED:
        yield Finding(
            "warning",
            "dead time",
            who,
            "no delayed effect stands out from the noise",
            "leave the input out if nobody knows of an effect",
        )
    elif by_correlation is None:
        told.append("the input is too smooth for a correlation to show it")
        yield Finding("note", "dead time", who, "; ".join(told))
    else:
        differ = by_criterion is not None and abs(by_criterion - by_correlation) > 2
        severity = "note" if differ else "ok"
        yield Finding(severity, "dead time", who, ", ".join(told))


def _feedback(
    who: str, name: str, lags: NDArray[np.int64], found: Values, edge: float
) -> Iterator[Finding]:
    before = (lags < 0) & (np.abs(found) > max(edge, FEEDBACK))
    if before.any():
        lag = int(-lags[before][np.abs(found[before]).argmax()])
        yield Finding(
            "warning",
            "feedback",
            f"{name} -> {who}",
            f"the input follows the output {counted(lag, 'sample')} later "
            f"(correlation {np.abs(found[before]).max():.2f})",
            "data from a closed loop: move the set point or add a test signal to the "
            "input; dead times and coherence mean little",
        )
