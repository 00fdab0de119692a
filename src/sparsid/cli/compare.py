"""``sparsid compare``: several model files on the same data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparsid.cli import options as o
from sparsid.cli.shaping import Shape, shaped_as_fitted
from sparsid.errors import InputError

if TYPE_CHECKING:
    from sparsid.data.record import Record
    from sparsid.estimators import Model

ModelFiles = Annotated[
    list[Path], typer.Argument(help="Files written by identify, one or more.")
]
Horizons = Annotated[
    list[int] | None,
    typer.Option(
        "--horizon",
        help="Samples ahead, besides the free run (repeat for several). By default 1 "
        "and 10.",
    ),
]
Picture = Annotated[
    Path, typer.Option("--out", help="Picture to write: PNG, SVG or PDF.")
]
TableFile = Annotated[
    Path | None, typer.Option("--table", help="CSV to write the table to.")
]
FORMATS = (".png", ".svg", ".pdf")


@shaped_as_fitted
def compare(
    data: o.DataFile,
    models: ModelFiles,
    horizon: Horizons = None,
    out: Picture = Path("comparison.png"),
    table: TableFile = None,
    dt: o.Dt = None,
    time_column: o.TimeColumn = None,
    separator: o.Separator = None,
    decimal: o.Decimal = None,
    overwrite: o.Overwrite = False,
    quiet: o.Quiet = False,
    json: o.Json = False,
    shape: Shape = Shape(),  # noqa: B008
) -> None:
    """Compare models on data that none of them has learnt from.

    One table and one picture: errors in free run and some samples ahead on the same
    samples, size, evidence, residual tests.

    [bold]Example[/]: sparsid compare other.csv linear.sparsid network.sparsid
    """
    from sparsid.analysis.comparison import HORIZONS
    from sparsid.analysis.comparison import compare as run
    from sparsid.cli.results import as_json, check_new_file
    from sparsid.cli.terminal import notes, results_console, side_console
    from sparsid.data.whole_file import whole_file
    from sparsid.results.storage import load

    if out.suffix.lower() not in FORMATS:
        raise InputError(f"--out {out}: give a name that ends in .png, .svg or .pdf")
    for path in [out] if table is None else [out, table]:
        check_new_file(path, overwrite)
    console = side_console(quiet)
    loaded = {name: load(path) for name, path in _named(models).items()}
    separator = "\t" if separator == "\\t" else separator
    options = {
        "time": time_column,
        "dt": dt,
        "separator": separator,
        "decimal": decimal,
        "shape": shape,
    }
    with notes(console):
        record = _read(data, list(loaded.values()), options)
        console.print("Running the models over the data ...")
        found = run(record, loaded, horizons=horizon or HORIZONS)
    with whole_file(out) as temporary:
        found.plot().savefig(temporary, format=out.suffix[1:].lower())
    if table is not None:
        with whole_file(table) as temporary:
            found.to_frame().to_csv(temporary, index_label="model")
    files = [str(path) for path in (out, table) if path is not None]
    if json:
        print(as_json({**found.facts(), "files": files}))
    elif not quiet:
        printed = results_console()
        printed.print(str(found), markup=False, soft_wrap=True)
        printed.print(f"written: {', '.join(files)}", markup=False, soft_wrap=True)


def _named(paths: list[Path]) -> dict[str, Path]:
    """Return models by the names of their files, with folders where they need them."""
    if len({path.resolve() for path in paths}) < len(paths):
        raise InputError("a model file was given twice: give each once")
    for depth in range(1, 1 + max(len(path.resolve().parts) for path in paths)):
        names = [
            str(Path(*path.resolve().with_suffix("").parts[-depth:])) for path in paths
        ]
        if len(set(names)) == len(paths):
            return dict(zip(names, paths, strict=True))
    return {str(path): path for path in paths}


def _read(path: Path, models: list[Model], options: dict[str, Any]) -> Record:
    """Read a file with the inputs of all models, and the outputs of the first."""
    from sparsid.cli.apply import fitted_steps, sampled

    if options["shape"].as_fitted:
        first, *others = [fitted_steps(model) for model in models]
        if any(other != first for other in others):
            raise InputError(
                "--as-fitted: the models learnt from data that were shaped in "
                "different ways: give the options that shape data"
            )
    channels = [model.fitted_.channels for model in models]
    inputs = list(dict.fromkeys(name for c in channels for name in c.input_names))
    outputs = list(channels[0].output_names)
    # What is told of data that were shaped is told by a model that learnt from such.
    teller = max(models, key=lambda model: bool(fitted_steps(model)))
    return sampled(path, options, teller, inputs, outputs)
