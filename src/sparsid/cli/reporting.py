"""``sparsid report``: a page about a model file on data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparsid.cli.apply import check_length, read_record
from sparsid.cli.results import as_json, check_new_file
from sparsid.cli.terminal import notes, results_console, side_console
from sparsid.errors import InputError
from sparsid.report import write_report
from sparsid.results.storage import load


@dataclass(frozen=True)
class Request:
    """What the user asked for; see the options of the command."""

    model: Path
    data: list[Path]
    out: Path
    pictures: Path | None
    overwrite: bool
    table: dict[str, Any]
    quiet: bool
    json: bool


def report(request: Request) -> None:
    """Write the page, and the pictures if a folder was given for them."""
    check_new_file(request.out, request.overwrite)
    if request.pictures is not None and request.pictures.is_file():
        raise InputError(f"--pictures {request.pictures} is a file: give a folder.")
    model = load(request.model)
    console = side_console(request.quiet)
    with notes(console):
        channels = model.fitted_.channels
        records = [read_record(path, request.table, model) for path in request.data]
    for record in records:
        check_length(record, model.max_lag_)
    console.print("Running the model over the data ...")
    diagnosis = write_report(
        model,
        records,
        request.out,
        title=f"{', '.join(channels.output_names)}: {request.model.name}",
        pictures=request.pictures,
    )
    if request.json:
        print(as_json({"file": str(request.out), **diagnosis.facts()}))
    elif not request.quiet:
        printed = results_console()
        for good, text in diagnosis.verdicts:
            mark = "  " if good else "! "
            printed.print(mark + text, markup=False, soft_wrap=True)
        printed.print(f"written: {request.out}", markup=False, soft_wrap=True)
