"""``sparsid export``: a model file for a controller, another language or tool."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sparsid.cli import options as o


def _option(text: str, *names: str) -> Any:
    return typer.Option(*names, help=text)


To = Annotated[
    str,
    _option(
        "numpy, c, fmu (FMI 2 and 3), casadi, onnx, or st (Structured Text, "
        "experimental).",
        "--to",
    ),
]
Out = Annotated[Path, _option("Folder for the files.", "--out")]
Combine = Annotated[
    str,
    _option(
        "What becomes of several members: median, mean, member:K (counted from 0), or "
        "compact.",
        "--combine",
    ),
]
Precision = Annotated[str, _option("double, or float.", "--precision")]
Name = Annotated[str, _option("What files and functions begin with.", "--name")]


def export(
    model: o.ModelFile,
    to: To,
    out: Out = Path("sparsid-export"),
    combine: Combine = "median",
    precision: Precision = "double",
    name: Name = "model",
    overwrite: o.Overwrite = False,
    quiet: o.Quiet = False,
    json: o.Json = False,
) -> None:
    """Write a model for a controller, another language or another tool.

    The folder holds the model as a step from state and inputs to next state and
    outputs, an observer that settles the state from measured outputs, a README, test
    vectors and a check. Bands stay in Python.

    [bold]Example[/]: sparsid export model.sparsid --to c --out controller
    """
    from sparsid.cli.results import as_json
    from sparsid.cli.terminal import results_console
    from sparsid.results.storage import load

    folder = load(model).export(
        to, out, combine=combine, precision=precision, name=name, overwrite=overwrite
    )
    files = sorted(str(folder / path.name) for path in folder.iterdir())
    if json:
        print(as_json({"to": to, "folder": str(folder), "files": files}))
    elif not quiet:
        printed = results_console()
        for path in files:
            printed.print(f"written: {path}", markup=False, soft_wrap=True)
