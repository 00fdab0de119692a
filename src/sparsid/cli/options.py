"""The options of the commands, with their help texts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer


def _option(panel: str, text: str, *names: str, known: Sequence[str] = ()) -> Any:
    """Return an option; a shell completes the values that are known."""
    complete = (lambda: list(known)) if known else None
    return typer.Option(
        *names, help=text, rich_help_panel=panel, autocompletion=complete
    )


DATA, MODEL, FIT, RESULTS = "Data", "Model", "Fit", "Results"
# What a shell completes; tests compare them with what the library knows.
BENCHMARKS = (
    "cascaded-tanks",
    "simulated-tanks",
    "silverbox",
    "wiener-hammerstein",
    "coupled-drives-1",
    "coupled-drives-2",
    "heat-exchanger",
    "robot-arm",
)
KINDS = ("auto", "narx", "state-space")
STRUCTURES = ("auto", "linear", "linear first", "cascade", "even output")

Files = Annotated[
    list[Path] | None,
    typer.Argument(
        help="CSV, MAT or NPZ files, one record each. Without any: the Cascaded Tanks "
        "benchmark if it is to be had, else simulated tanks.",
    ),
]
Benchmark = Annotated[
    str | None,
    typer.Option(
        "--benchmark",
        help=f"Identify a named data set instead of files: "
        f"{', '.join(BENCHMARKS[:-1])} or {BENCHMARKS[-1]}. All but the simulated one "
        "come from a local copy in the folder SPARSID_DATA.",
        autocompletion=lambda: list(BENCHMARKS),
    ),
]
ModelFile = Annotated[Path, typer.Argument(help="A file written by identify.")]
DataFile = Annotated[
    Path, typer.Argument(help="CSV, MAT or NPZ with the model's channel names.")
]

Inputs = Annotated[
    list[str] | None,
    _option(DATA, "Input column (repeat for several).", "--input", "-i"),
]
Outputs = Annotated[
    list[str] | None,
    _option(DATA, "Output column (repeat for several).", "--output", "-o"),
]
NoInput = Annotated[
    bool, _option(DATA, "A series without inputs: outputs alone.", "--no-input")
]
Dt = Annotated[
    float | None,
    _option(DATA, "Sampling time in seconds; a time column still tells the gaps."),
]
TimeColumn = Annotated[
    str | None,
    _option(
        DATA,
        "Column with the time. By default time, t or timestamp.",
        "--time",
        "--time-column",
    ),
]
Separator = Annotated[
    str | None,
    _option(DATA, "Between the columns of a text file, as in ';' or '\\t'."),
]
Decimal = Annotated[
    str | None, _option(DATA, "Decimal sign of a text file, a point or a comma.")
]
TestFraction = Annotated[
    float | None,
    _option(
        DATA,
        "Last part of each record that is kept out of the fit and scored after it; 0 "
        "for none. By default 0.25.",
    ),
]

Kind = Annotated[
    str | None,
    _option(
        MODEL,
        "auto: linear, or linear first and then neurons, kind and size chosen by "
        "held-out blocks of the records. state-space: leaky states of one size, an "
        "ensemble of random starts. "
        "narx: a network of lagged samples, fitted one step ahead or (--objective) to "
        "the free run. By default auto, or the one that the other options are for.",
        "--model",
        known=KINDS,
    ),
]
States = Annotated[
    int | None,
    _option(MODEL, "States (auto, state-space). By default chosen by the records."),
]
Structure = Annotated[
    str,
    _option(
        MODEL,
        "Structure of auto: auto, linear, 'linear first' (neurons beside a linear "
        "model), cascade (leaky states in a row) or 'even output' (a modulus).",
        known=STRUCTURES,
    ),
]
Neurons = Annotated[
    int | None, _option(MODEL, "Neurons of auto. By default chosen by held-out blocks.")
]
Saturation = Annotated[
    str,
    _option(MODEL, "Outputs that stay at an extreme: auto (model that) or none."),
]
StartSamples = Annotated[
    int, _option(MODEL, "Outputs that settle the start of a state-space run.")
]
Lags = Annotated[int, _option(MODEL, "Largest lag of inputs and outputs.")]
InputLags = Annotated[int | None, _option(MODEL, "Largest lag of the inputs.")]
OutputLags = Annotated[int | None, _option(MODEL, "Largest lag of the outputs.")]
Delay = Annotated[int, _option(MODEL, "Samples before an input acts.")]
Hidden = Annotated[
    str,
    _option(
        MODEL,
        "Widths of the hidden layers before pruning; '' for none. state-space: by "
        "default 6.",
    ),
]
Activation = Annotated[
    str,
    _option(
        MODEL,
        "tanh, sigmoid, softroot or relu (narx only). state-space: by default "
        "softroot.",
    ),
]
LinearPath = Annotated[
    bool, _option(MODEL, "Add a linear path past the network.", "--linear-path")
]

Objective = Annotated[
    str,
    _option(
        FIT,
        "one-step; simulation: then fitted to the free run; windows: to free runs over "
        "parts of the record (narx).",
    ),
]
Window = Annotated[
    int | None,
    _option(FIT, "Most samples of a window. By default ten times the largest lag."),
]
Prior = Annotated[
    str,
    _option(
        FIT,
        "Groups of weights that share a variance: shape, row, column, row+column or "
        "added; or one for each layer, with commas.",
    ),
]
Method = Annotated[str, _option(FIT, "sparse-bayes, none, ridge, lasso, group-lasso.")]
Strength = Annotated[
    float | None,
    _option(FIT, "The paper's lambda; for sparse-bayes 1 is the evidence."),
]
Algorithm = Annotated[str, _option(FIT, "guarded or paper.")]
Curvature = Annotated[
    str,
    _option(
        FIT,
        "auto, gauss-newton, layer-gauss-newton, layer-hessian, kronecker or diagonal; "
        "auto approximates where gauss-newton does not fit in memory.",
    ),
]
Form = Annotated[
    str, _option(FIT, "Form of the curvature: auto, primal, blockwise, dual or gram.")
]
NoiseStd = Annotated[
    list[float] | None,
    _option(FIT, "Fix the noise, in the outputs' units (repeat for each output)."),
]
Prune = Annotated[
    bool, _option(FIT, "Remove neurons and regressors.", "--prune/--no-prune")
]
KappaUpsilon = Annotated[
    float | None, _option(FIT, "Prior variance below which a group goes.")
]
KappaW = Annotated[float | None, _option(FIT, "Weight below which a group goes.")]
MaxCycles = Annotated[int, _option(FIT, "Most cycles of a fit.")]
Tolerance = Annotated[
    float | None, _option(FIT, "Fall of the cost per cycle that ends the fit.")
]
Starts = Annotated[
    int,
    _option(
        FIT,
        "Random starts; the best evidence wins. state-space: members, by default 16.",
    ),
]
Workers = Annotated[
    int | None,
    _option(
        FIT,
        "Starts at once (narx: processes, auto: threads). By default one "
        "for every core.",
    ),
]
Scheduler = Annotated[
    str | None,
    _option(
        FIT,
        "Address of a Dask scheduler, as in tcp://host:8786: its workers do the "
        "starts and members (narx, state-space).",
    ),
]
MemoryLimit = Annotated[float, _option(FIT, "Gigabytes that the curvature may take.")]
Budget = Annotated[
    str | None,
    _option(FIT, "Time that auto may take, about: 90, 90s, 2m or 1h."),
]
Seed = Annotated[int, _option(FIT, "Makes results repeatable.")]

OutFolder = Annotated[
    Path,
    _option(
        RESULTS,
        "Folder for model.sparsid, predictions.csv, result.json and simulation.png.",
    ),
]
OutFile = Annotated[Path, _option(RESULTS, "CSV to write.")]
Overwrite = Annotated[bool, _option(RESULTS, "Replace what exists.", "--overwrite")]
Quiet = Annotated[bool, _option(RESULTS, "Print nothing but errors.", "--quiet")]
Json = Annotated[bool, _option(RESULTS, "Print the result as JSON.", "--json")]

Horizon = Annotated[int, typer.Option(help="Samples ahead.")]
InputsOnly = Annotated[
    bool,
    typer.Option(
        "--inputs-only",
        help="Start as the estimation record did; outputs are not needed.",
    ),
]
DataFiles = Annotated[
    list[Path],
    typer.Argument(help="CSV, MAT or NPZ with the model's channel names."),
]
ReportFile = Annotated[Path, _option(RESULTS, "The HTML page to write.", "--out")]
Pictures = Annotated[
    Path | None,
    _option(RESULTS, "Folder for all pictures as PNG and SVG.", "--pictures"),
]
Report = Annotated[
    bool,
    _option(RESULTS, "Write report.html and its pictures.", "--report/--no-report"),
]
Compact = Annotated[
    bool,
    _option(
        FIT,
        "Put one small model in place of the ensemble, and say what that costs in "
        "error.",
        "--compact",
    ),
]
Equations = Annotated[
    str | None,
    typer.Option(
        "--equations",
        help="Print the equations instead: text, latex or sympy.",
        show_default=False,
    ),
]
Recalibrate = Annotated[
    bool,
    _option(
        FIT,
        "Compare the bands with errors on held-out blocks and set their width by "
        "that. The automatic mode always does; here it costs eight more fits.",
        "--recalibrate",
    ),
]
