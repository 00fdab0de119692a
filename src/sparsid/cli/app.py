"""The commands and their options. Nothing heavy is imported before a command runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sparsid.cli import options as o
from sparsid.cli.app_command import app_command
from sparsid.cli.compare import compare
from sparsid.cli.export import export
from sparsid.cli.inspect import inspect
from sparsid.cli.reproduce import studies
from sparsid.cli.shaping import Shape, shaped, shaped_as_fitted
from sparsid.cli.signals import listen
from sparsid.cli.terminal import STOPPED, Commands, check_files
from sparsid.errors import InputError
from sparsid.parallel.cache import keep_compiled_programs
from sparsid.parallel.local import keep_freed_memory

EXAMPLES = """
[bold]Examples[/]

sparsid identify

sparsid identify --benchmark silverbox

sparsid identify pump.csv --input voltage --output level --dt 4

sparsid simulate sparsid-results/model.sparsid other.csv --out simulated.csv

sparsid report sparsid-results/model.sparsid other.csv

sparsid info sparsid-results/model.sparsid

sparsid export sparsid-results/model.sparsid --to c --out controller
"""
IDENTIFY = """
Identify a model from recorded inputs and outputs.

Ctrl-C, or SIGTERM, stops the fit and keeps the best model so far; during scoring and
report it keeps the model and what is written by then.

[bold]Examples[/]

sparsid identify

sparsid identify pump.csv --input voltage --output level --dt 4 --out results

sparsid identify run1.csv run2.csv -i valve -i speed -o flow
"""
EXIT_CODES = (
    "[bold]Exit codes[/]: 0 done, 1 the fit diverged, 2 bad input, 130 stopped by "
    "Ctrl-C or SIGTERM."
)

app = typer.Typer(
    cls=Commands,
    help="Compact neural models of dynamic systems, by sparse Bayesian learning.",
    epilog=EXAMPLES,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
app.add_typer(studies, name="reproduce")
app.command("app")(app_command)
app.command()(export)
app.command()(compare)
app.command()(inspect)


def main() -> None:
    """Run the command line."""
    listen()
    keep_compiled_programs()
    keep_freed_memory()
    try:
        app()
    except KeyboardInterrupt:
        # Before a command began, or after it ended.
        raise SystemExit(STOPPED) from None


def _show_version(asked: bool) -> None:
    if asked:
        from sparsid import __version__

        print(f"sparsid {__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version."
        ),
    ] = False,
) -> None:
    """Compact neural models of dynamic systems, by sparse Bayesian learning."""


@app.command(help=IDENTIFY, epilog=EXIT_CODES)
@shaped
def identify(
    context: typer.Context,
    files: o.Files = None,
    benchmark: o.Benchmark = None,
    input_: o.Inputs = None,
    no_input: o.NoInput = False,
    output: o.Outputs = None,
    dt: o.Dt = None,
    time_column: o.TimeColumn = None,
    separator: o.Separator = None,
    decimal: o.Decimal = None,
    test_fraction: o.TestFraction = None,
    model: o.Kind = None,
    structure: o.Structure = "auto",
    states: o.States = None,
    neurons: o.Neurons = None,
    saturation: o.Saturation = "auto",
    start_samples: o.StartSamples = 20,
    lags: o.Lags = 5,
    input_lags: o.InputLags = None,
    output_lags: o.OutputLags = None,
    delay: o.Delay = 0,
    hidden: o.Hidden = "100,100",
    activation: o.Activation = "tanh",
    linear_path: o.LinearPath = False,
    objective: o.Objective = "one-step",
    window: o.Window = None,
    prior: o.Prior = "row+column",
    method: o.Method = "sparse-bayes",
    strength: o.Strength = None,
    algorithm: o.Algorithm = "guarded",
    curvature: o.Curvature = "auto",
    form: o.Form = "auto",
    noise_std: o.NoiseStd = None,
    prune: o.Prune = True,
    kappa_upsilon: o.KappaUpsilon = None,
    kappa_w: o.KappaW = None,
    max_cycles: o.MaxCycles = 500,
    tolerance: o.Tolerance = None,
    starts: o.Starts = 1,
    workers: o.Workers = None,
    scheduler: o.Scheduler = None,
    memory_limit: o.MemoryLimit = 4.0,
    budget: o.Budget = None,
    recalibrate: o.Recalibrate = False,
    compact: o.Compact = False,
    seed: o.Seed = 0,
    out: o.OutFolder = Path("sparsid-results"),
    report: o.Report = True,
    overwrite: o.Overwrite = False,
    quiet: o.Quiet = False,
    json: o.Json = False,
    shape: Shape = Shape(),  # noqa: B008
) -> None:
    """Identify a model from recorded inputs and outputs."""
    check_files(*(files or []))
    from sparsid.cli.identify import Request
    from sparsid.cli.identify import identify as run

    model, settings = _settings(context)
    if no_input and input_:
        raise InputError("--no-input and --input were given: leave one of them out")
    inputs = [] if no_input else input_ or None
    request = Request(
        files or [],
        inputs,
        output or None,
        _table(dt, time_column, separator, decimal) | {"shape": shape},
        test_fraction,
        out,
        overwrite,
        quiet,
        json,
        model,
        settings,
        recalibrate,
        report,
        scheduler,
        benchmark,
        compact,
    )
    raise typer.Exit(run(request))


@app.command()
@shaped_as_fitted
def predict(
    model: o.ModelFile,
    data: o.DataFile,
    out: o.OutFile = Path("predicted.csv"),
    horizon: o.Horizon = 1,
    dt: o.Dt = None,
    time_column: o.TimeColumn = None,
    separator: o.Separator = None,
    decimal: o.Decimal = None,
    overwrite: o.Overwrite = False,
    quiet: o.Quiet = False,
    json: o.Json = False,
    shape: Shape = Shape(),  # noqa: B008
) -> None:
    """Predict measured outputs some samples ahead.

    [bold]Example[/]: sparsid predict model.sparsid other.csv --horizon 10
    """
    check_files(model, data)
    from sparsid.cli import apply

    table = _table(dt, time_column, separator, decimal) | {"shape": shape}
    request = apply.Request(model, data, out, overwrite, table, quiet, json)
    apply.predict(request, horizon)


@app.command()
@shaped_as_fitted
def simulate(
    model: o.ModelFile,
    data: o.DataFile,
    out: o.OutFile = Path("simulated.csv"),
    inputs_only: o.InputsOnly = False,
    dt: o.Dt = None,
    time_column: o.TimeColumn = None,
    separator: o.Separator = None,
    decimal: o.Decimal = None,
    overwrite: o.Overwrite = False,
    quiet: o.Quiet = False,
    json: o.Json = False,
    shape: Shape = Shape(),  # noqa: B008
) -> None:
    """Run a model freely over recorded inputs.

    The run starts from the first measured outputs and then sees inputs alone.

    [bold]Example[/]: sparsid simulate model.sparsid other.csv --out simulated.csv
    """
    check_files(model, data)
    from sparsid.cli import apply

    table = _table(dt, time_column, separator, decimal) | {"shape": shape}
    request = apply.Request(model, data, out, overwrite, table, quiet, json)
    apply.simulate(request, inputs_only)


@app.command()
@shaped_as_fitted
def report(
    model: o.ModelFile,
    data: o.DataFiles,
    out: o.ReportFile = Path("report.html"),
    pictures: o.Pictures = None,
    dt: o.Dt = None,
    time_column: o.TimeColumn = None,
    separator: o.Separator = None,
    decimal: o.Decimal = None,
    overwrite: o.Overwrite = False,
    quiet: o.Quiet = False,
    json: o.Json = False,
    shape: Shape = Shape(),  # noqa: B008
) -> None:
    """Write a self-contained HTML page about a model on data.

    Free run and bands against what was measured, residual tests, where the model is
    valid, what was kept, whether the bands are right. Give data that the model did not
    learn from.

    [bold]Example[/]: sparsid report model.sparsid other.csv --out report.html
    """
    check_files(model, *data)
    from sparsid.cli import reporting

    table = _table(dt, time_column, separator, decimal) | {"shape": shape}
    request = reporting.Request(
        model, data, out, pictures, overwrite, table, quiet, json
    )
    reporting.report(request)


@app.command()
def info(
    model: o.ModelFile, json: o.Json = False, equations: o.Equations = None
) -> None:
    """Show what a model file holds."""
    check_files(model)
    from sparsid.cli.results import as_json
    from sparsid.results.storage import load
    from sparsid.results.summary import result_dict

    found = load(model)
    if equations is not None:
        print(found.equations(equations))
        return
    print(as_json(result_dict(found.fitted_)) if json else found.summary())


def _settings(context: typer.Context) -> tuple[str, dict[str, Any]]:
    """Return the kind of model and its settings; refuse those given for another."""
    from sparsid.checks import one_of
    from sparsid.cli.identify import SETTINGS

    options, model = context.params, context.params["model"]
    known = set().union(*SETTINGS.values())
    given = {
        name
        for name in known
        if str(context.get_parameter_source(name)).endswith("COMMANDLINE")
    }
    if model is None:
        # Most kinds of prior are for networks: alone it does not ask for a simulator.
        fitting = [
            kind
            for kind, own in SETTINGS.items()
            if given <= own and not (kind == "auto" and "prior" in given)
        ]
        model = fitting[0] if fitting else "narx"
    own = SETTINGS[one_of("--model", model, SETTINGS)]
    if given - own:
        stranger = min(given - own)
        kinds = " or ".join(k for k in SETTINGS if stranger in SETTINGS[k])
        raise InputError(
            f"--{stranger.replace('_', '-')} is for --model {kinds}, not for {model}"
        )
    prior, noise_std = options["prior"], options["noise_std"]
    read = {
        "hidden": _widths(options["hidden"]),
        "prior": tuple(prior.split(",")) if "," in prior else prior,
        "noise_std": tuple(noise_std) if noise_std else None,
        "budget": _seconds(options["budget"]),
    }
    # NARX has the defaults that the options show, the others their own.
    wanted = own if model == "narx" else own & given
    return model, {name: read.get(name, options[name]) for name in wanted}


def _seconds(text: str | None) -> float | None:
    """Return the seconds of a duration such as "90", "2m" or "1h"."""
    if text is None:
        return None
    scale = {"s": 1.0, "m": 60.0, "h": 3600.0}.get(text[-1:])
    try:
        value = float(text if scale is None else text[:-1]) * (scale or 1.0)
    except ValueError:
        value = 0.0
    if not 0.0 < value < float("inf"):
        raise InputError(f"--budget {text!r} is no time: give 90, 90s, 2m or 1h")
    return value


def _table(
    dt: float | None, time: str | None, separator: str | None, decimal: str | None
) -> dict[str, Any]:
    """Return how to read files, as `sparsid.read` calls it."""
    # Few shells make it easy to type a tab.
    separator = "\t" if separator == "\\t" else separator
    return {"time": time, "dt": dt, "separator": separator, "decimal": decimal}


def _widths(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise InputError(
            f"--hidden {text!r}: give whole numbers with commas, as in 100,100"
        ) from None
