"""A folder with an exported model, its README, test vectors and a check."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from tempfile import mkdtemp
from typing import NamedTuple

import sparsid
from sparsid.checks import one_of
from sparsid.errors import InputError
from sparsid.export.design import PRECISIONS, Design
from sparsid.export.table import table_of
from sparsid.export.text import checked_name, rendered
from sparsid.results.base import FittedModel

# What says that a folder is one of ours, and may be replaced.
FACTS = "export.json"
Files = Mapping[str, str | bytes]


class Target(NamedTuple):
    """Where a writer is, what it is called, and whether it knows single precision."""

    module: str
    function: str
    title: str
    float_too: bool


TARGETS = {
    "numpy": Target("numpy_module", "numpy_files", "NumPy module", False),
    "c": Target("c99", "c99_files", "C99 source", True),
    "fmu": Target("fmu", "fmu_files", "FMU", True),
    "casadi": Target("casadi_function", "casadi_files", "CasADi functions", False),
    "onnx": Target("onnx_graph", "onnx_files", "ONNX graphs", True),
    "st": Target("structured_text", "text_files", "Structured Text", True),
}


def design_of(
    fitted: FittedModel,
    *,
    combine: str = "median",
    precision: str = "double",
    name: str = "model",
) -> Design:
    """Return what writers are given; see `write_export` for the parameters."""
    one_of("precision", precision, PRECISIONS)
    return Design(table_of(fitted, combine), checked_name(name), precision, combine)


def write_export(
    fitted: FittedModel,
    to: str,
    folder: str | Path,
    *,
    combine: str = "median",
    precision: str = "double",
    name: str = "model",
    overwrite: bool = False,
) -> Path:
    """Write a model for another place, and return the folder with it.

    Parameters
    ----------
    to
        ``"numpy"``, ``"c"``, ``"fmu"``, ``"casadi"``, ``"onnx"`` or ``"st"``
        (Structured Text, experimental).
    folder
        It appears only when it is complete.
    combine
        ``"median"`` or ``"mean"`` over members, ``"member:K"`` for one of them, counted
        from 0, or ``"compact"`` for one that stands for all.
    precision
        ``"double"``, or ``"float"`` for C, FMU, ONNX and Structured Text.
    name
        What files and functions begin with.
    overwrite
        Whether an export that is in the folder may be replaced.
    """
    target = TARGETS[one_of("to", to, TARGETS)]
    if precision == "float" and not target.float_too:
        raise InputError(
            f"precision='float' is for c, fmu, onnx and st: {target.title} have doubles"
        )
    design = design_of(fitted, combine=combine, precision=precision, name=name)
    place = Path(folder)
    check_place(place, overwrite)
    module = import_module(f"sparsid.export.{target.module}")
    write: Callable[[Design], Files] = getattr(module, target.function)
    files = {**write(design), **_beside(design, to)}
    _publish(files, place)
    return place


def check_place(folder: Path, overwrite: bool) -> None:
    """Refuse a folder that cannot be written, or holds what is not ours."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file: give the path of a folder")
    if not folder.parent.is_dir():
        raise InputError(f"the folder {folder.parent} does not exist: make it first")
    if not folder.is_dir() or not any(folder.iterdir()):
        return
    if not (folder / FACTS).is_file():
        raise InputError(
            f"{folder} holds other files than an export: give a new or empty folder"
        )
    if not overwrite:
        raise InputError(
            f"{folder} holds an export already: give another folder, or overwrite=True "
            "(--overwrite)"
        )


def _beside(design: Design, to: str) -> dict[str, str]:
    """Return the files that every export has."""
    labels = {key: design.labelled(key) for key in ("input", "output")}
    header = [*(f"u {x}" for x in labels["input"])]
    for what in ("y", "measured", "observed"):
        header += [f"{what} {x}" for x in labels["output"]]
    rows = [",".join(repr(v) for v in row) for row in design.vectors.table.tolist()]
    title = ",".join(text.replace(",", ";").replace("\n", " ") for text in header)
    facts = {
        "to": to,
        "name": design.name,
        "combine": design.combined,
        "precision": design.precision,
        "inputs": labels["input"],
        "outputs": labels["output"],
        "dt": design.table.channels.dt,
        "states": design.programs.states,
        "sparsid": sparsid.__version__,
    }
    return {
        "README.md": rendered("README.md", design, to=to, title=TARGETS[to].title),
        "test_vectors.csv": "\n".join([title, *rows]) + "\n",
        FACTS: json.dumps(facts, indent=2, ensure_ascii=False) + "\n",
    }


def _publish(files: Files, folder: Path) -> None:
    """Put files into a folder that is there completely, or as it was before."""
    try:
        room = Path(mkdtemp(prefix=".sparsid-", suffix=".part", dir=folder.parent))
    except OSError as error:
        raise InputError(
            f"{folder} cannot be written ({error.strerror}): choose another folder"
        ) from error
    try:
        new, old = room / "new", room / "old"
        for path, content in files.items():
            target = new / path
            target.parent.mkdir(parents=True, exist_ok=True)
            data = content if isinstance(content, bytes) else content.encode()
            target.write_bytes(data)
        if folder.exists():
            folder.rename(old)
        try:
            new.rename(folder)
        except OSError:
            if old.exists():
                old.rename(folder)
            raise
    finally:
        shutil.rmtree(room, ignore_errors=True)
