"""The options that bring data into shape, the same for every command that reads data.

Nothing heavy is imported here: the options are known before a command runs.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any, NamedTuple

import typer

from sparsid.errors import InputError

PANEL = "Data into shape (done in this order)"
# The names of the options, for messages of the library that speak of arguments.
OPTIONS = {
    "resample": "--resample",
    "detrend": "--detrend",
    "filter": "--filter-low, --filter-high",
    "slice": "--slice",
    "shift": "--shift",
    "outliers": "--outliers",
}


def _option(text: str, *names: str) -> Any:
    return typer.Option(*names, help=text, rich_help_panel=PANEL)


Cut = Annotated[
    str | None,
    _option("From one time to another, in seconds, as in 10:200 or 10:.", "--slice"),
]
Outliers = Annotated[
    bool,
    _option("Mark as missing what stands out from its neighbours.", "--outliers"),
]
Shifts = Annotated[
    list[str] | None,
    _option(
        "Move a column by so many samples, as in valve=3: later (repeat for several).",
        "--shift",
    ),
]
Resample = Annotated[
    float | None,
    _option(
        "New sampling time in seconds, with a low-pass filter; also for files with "
        "uneven steps.",
        "--resample",
    ),
]
Detrend = Annotated[
    str | None,
    _option(
        "Take away the mean (constant) or the straight line (linear) of each column; "
        "a test part loses what was found in front of it.",
        "--detrend",
    ),
]
Low = Annotated[
    float | None, _option("Remove frequencies below this, in Hz.", "--filter-low")
]
High = Annotated[
    float | None, _option("Remove frequencies above this, in Hz.", "--filter-high")
]
AsFitted = Annotated[
    bool,
    _option(
        "Do to the data what was done to those that the model learnt from, cuts "
        "excepted.",
        "--as-fitted",
    ),
]
PARAMETERS = {
    "cut": (Cut, None),
    "outliers": (Outliers, False),
    "shifts": (Shifts, None),
    "resample": (Resample, None),
    "detrend": (Detrend, None),
    "filter_low": (Low, None),
    "filter_high": (High, None),
}

Steps = list[tuple[str, dict[str, Any]]]


class Shape(NamedTuple):
    """What is to be done to data before they are used."""

    cut: str | None = None
    outliers: bool = False
    shifts: list[str] | None = None
    resample: float | None = None
    detrend: str | None = None
    filter_low: float | None = None
    filter_high: float | None = None
    as_fitted: bool = False

    def before(self) -> Steps:
        """Return the steps that a whole record goes through."""
        steps: Steps = []
        if self.cut is not None:
            steps.append(("slice", _cut(self.cut)))
        if self.outliers:
            steps.append(("outliers", {}))
        steps += [("shift", _shift(text)) for text in self.shifts or ()]
        if self.resample is not None:
            steps.append(("resample", {"dt": self.resample}))
        return steps

    def after(self) -> Steps:
        """Return the steps after those and the trend, part by part."""
        if self.filter_low is None and self.filter_high is None:
            return []
        return [("filter", {"low": self.filter_low, "high": self.filter_high})]

    def steps(self) -> Steps:
        """Return all steps, in their order."""
        trend: Steps = [] if self.detrend is None else [("detrend", self.trend())]
        return [*self.before(), *trend, *self.after()]

    def trend(self) -> dict[str, Any]:
        """Return the arguments of the step that takes a trend away."""
        return {"kind": self.detrend}

    def __bool__(self) -> bool:
        return any(self)


def shaped(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command with these options; it gets them as one argument, ``shape``."""
    return _with_options(command, PARAMETERS)


def shaped_as_fitted(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command that uses a model with these options, and one that repeats."""
    return _with_options(command, {**PARAMETERS, "as_fitted": (AsFitted, False)})


def _with_options(
    command: Callable[..., None], options: dict[str, tuple[Any, Any]]
) -> Callable[..., None]:
    @wraps(command)
    def run(**given: Any) -> None:
        shape = Shape(**{name: given.pop(name) for name in options})
        if shape.as_fitted and any(shape._replace(as_fitted=False)):
            raise InputError(
                "--as-fitted and other options that shape data were given: leave one "
                "of them out"
            )
        command(**given, shape=shape)

    signature = inspect.signature(command, eval_str=True)
    own = [p for name, p in signature.parameters.items() if name != "shape"]
    added = [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind
        )
        for name, (kind, default) in options.items()
    ]
    plain = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own]
    parameters = [*plain, *added]
    # The command line reads the options from these two.
    vars(run)["__signature__"] = signature.replace(parameters=parameters)
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    return run


def _cut(text: str) -> dict[str, Any]:
    try:
        ends = [float(part) if part.strip() else None for part in text.split(":")]
        start, stop = ends
    except ValueError:
        raise InputError(
            f"--slice {text!r}: give two times in seconds with a colon, as in 10:200, "
            "10: or :200"
        ) from None
    return {"start": start, "stop": stop}


def _shift(text: str) -> dict[str, Any]:
    name, _, count = text.rpartition("=")
    try:
        samples = int(count)
    except ValueError:
        name, samples = "", 0
    if not name:
        raise InputError(
            f"--shift {text!r}: give a column and a whole number of samples, as in "
            "valve=3"
        )
    return {"channel": name, "samples": samples}
