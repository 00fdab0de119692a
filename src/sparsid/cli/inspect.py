"""``sparsid inspect``: a look at data before any fit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparsid.cli import options as o
from sparsid.cli.shaping import Shape, shaped

if TYPE_CHECKING:
    from sparsid.data.advice.findings import Advice
    from sparsid.data.record import Record

COLOURS = {"warning": "yellow", "note": "cyan", "ok": "green"}
DataFile = Annotated[Path, typer.Argument(help="A file with measured data.")]
Page = Annotated[
    Path,
    typer.Option("--out", help="The HTML page to write.", rich_help_panel=o.RESULTS),
]
NoPage = Annotated[
    bool,
    typer.Option(
        "--page/--no-page",
        help="Write the page with pictures.",
        rich_help_panel=o.RESULTS,
    ),
]


@shaped
def inspect(
    data: DataFile,
    input_: o.Inputs = None,
    no_input: o.NoInput = False,
    output: o.Outputs = None,
    dt: o.Dt = None,
    time_column: o.TimeColumn = None,
    separator: o.Separator = None,
    decimal: o.Decimal = None,
    out: Page = Path("inspection.html"),
    page: NoPage = True,
    overwrite: o.Overwrite = False,
    quiet: o.Quiet = False,
    json: o.Json = False,
    shape: Shape = Shape(),  # noqa: B008
) -> None:
    """Look at data before any fit: what is wrong, and what to do about it.

    Excitation, dead times, coherence, feedback, saturation, outliers, drift,
    quantisation, sampling and length, in seconds. Nothing is changed.

    [bold]Example[/]: sparsid inspect pump.csv --input voltage --output level
    """
    from sparsid.cli.data import shaped as after
    from sparsid.cli.data import tell_steps
    from sparsid.cli.results import as_json, check_new_file
    from sparsid.cli.terminal import notes, results_console, side_console
    from sparsid.data.files import read_records
    from sparsid.errors import InputError

    if no_input and input_:
        raise InputError("--no-input and --input were given: leave one of them out")
    if page:
        check_new_file(out, overwrite)
    with notes(side_console(quiet)):
        records = read_records(
            data,
            [] if no_input else input_ or None,
            output or None,
            time=time_column,
            dt=dt,
            separator="\t" if separator == "\\t" else separator,
            decimal=decimal,
            uneven=shape.resample,
        )
        if len(records) > 1:
            record = max(records, key=len)
            side_console(quiet).print(
                f"long gaps cut the file into {len(records)} records: the longest, "
                f"{len(record)} samples, is looked at",
                markup=False,
            )
        record = after(max(records, key=len), shape.steps())
        tell_steps([record])
    advice = record.advice()
    if page:
        advice.save(out)
    if json:
        files = [str(out)] if page else []
        print(as_json({"data": str(data), "files": files, **advice.plain()}))
    elif not quiet:
        _show(record, advice, out if page else None, results_console())


def _show(record: Record, advice: Advice, written: Path | None, console: Any) -> None:
    """Print what was found, the most serious first."""
    from rich.text import Text

    console.print(Text(repr(record)), soft_wrap=True)
    for finding in advice.findings:
        line = Text(str(finding))
        line.stylize(COLOURS[finding.severity], 0, len(finding.severity))
        console.print(line, soft_wrap=True)
    if written is not None:
        console.print(f"written: {written}", markup=False, soft_wrap=True)
