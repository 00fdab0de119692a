"""The files a command leaves behind, complete or not at all."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from sparsid.data.files import write_csv
from sparsid.data.record import Record
from sparsid.data.whole_file import whole_file
from sparsid.errors import InputError
from sparsid.plots import BAND, identification_picture
from sparsid.plots.style import plain_text
from sparsid.results.forecast import Forecast
from sparsid.results.summary import finite
from sparsid.validation.evaluation import Part

MODEL, PREDICTIONS = "model.sparsid", "predictions.csv"
RESULT, PICTURE = "result.json", "simulation.png"
REPORT, PICTURES = "report.html", "pictures"
FILES = (MODEL, PREDICTIONS, RESULT, PICTURE, REPORT)


class ResultFolder:
    """Collects files in a folder beside the wanted one, and moves them at the end.

    Making the folder first shows early that it can be written. Left without
    `publish`, nothing remains.

    Parameters
    ----------
    out
        The wanted folder; it may exist.
    overwrite
        Whether results that are in it may be replaced. Other files stay.
    """

    def __init__(self, out: Path, overwrite: bool) -> None:
        self.out = out
        if out.exists() and not out.is_dir():
            raise InputError(f"--out {out} is a file: give a folder.")
        present = [name for name in FILES if (out / name).exists()]
        if present and not overwrite:
            raise InputError(
                f"{out} already holds {', '.join(present)}: choose another folder with "
                "--out, or replace the results with --overwrite."
            )
        home = out.parent.absolute()
        while not home.is_dir():
            home = home.parent
        self.part = home / f".{out.name or 'sparsid'}.{os.getpid()}.part"

    def __enter__(self) -> ResultFolder:
        try:
            self.part.mkdir()
            if self.out.is_dir() and not os.access(self.out, os.W_OK):
                raise PermissionError(13, "Permission denied")
        except OSError as error:
            raise InputError(
                f"{self.out} cannot be written ({error.strerror}): choose another "
                "folder with --out."
            ) from error
        return self

    def __exit__(self, *reason: Any) -> None:
        shutil.rmtree(self.part, ignore_errors=True)

    def publish(self) -> list[Path]:
        """Move the files to their place and return their paths."""
        found = (path for path in self.part.rglob("*") if path.is_file())
        made = sorted(path.relative_to(self.part) for path in found)
        for name in made:
            (self.out / name).parent.mkdir(parents=True, exist_ok=True)
            (self.part / name).replace(self.out / name)
        # Pictures by their folder: the list is read by people.
        shown = dict.fromkeys(self.out / name.parts[0] for name in made)
        return list(shown)


def check_new_file(path: Path, overwrite: bool) -> None:
    """Refuse a file that cannot be written, or must not be replaced."""
    if path.is_dir():
        raise InputError(f"--out {path} is a folder: give the name of a file.")
    if path.exists() and not overwrite:
        raise InputError(
            f"{path} exists: choose another name with --out, or replace it with "
            "--overwrite."
        )
    if not path.parent.is_dir():
        raise InputError(f"The folder {path.parent} does not exist: make it first.")
    if not os.access(path.parent, os.W_OK):
        raise InputError(f"The folder {path.parent} cannot be written.")


def write_predictions(path: Path, parts: list[Part]) -> None:
    """Write measured outputs, one-step predictions and free runs, with 95 % bands."""
    tables = []
    units: dict[str, str] = {}
    for part in parts:
        for k, record in enumerate(part.records):
            columns, units = record_columns(record)
            own = {
                free_name("record", columns): np.full(len(record), part.numbers[k]),
                free_name("part", columns): np.full(len(record), part.name),
            }
            for forecast, label in (
                (part.one_step[k], "one step"),
                (part.free_run[k], "free run"),
            ):
                add_forecast(columns, units, forecast, label)
            tables.append(own | columns)
    whole = {
        name: np.concatenate([table[name] for table in tables]) for name in tables[0]
    }
    write_csv(path, whole, units)


def record_columns(record: Record) -> tuple[dict[str, Any], dict[str, str]]:
    """Return time and channels of a record as columns, and their units."""
    names = record.input_names + record.output_names
    units = record.input_units + record.output_units
    values = np.concatenate([record.u, record.y], axis=1).T
    columns = {"time": record.time, **dict(zip(names, values, strict=True))}
    return columns, {"time": "s", **dict(zip(names, units, strict=True))}


def add_forecast(
    columns: dict[str, Any], units: dict[str, str], forecast: Forecast, label: str
) -> None:
    """Add mean and 95 % band of a forecast to columns, output by output."""
    pairs = zip(forecast.output_names, forecast.output_units, strict=True)
    for k, (name, unit) in enumerate(pairs):
        mean, half = forecast.mean[:, k], BAND * forecast.std[:, k]
        for what, values in (
            ("", mean),
            (" lower", mean - half),
            (" upper", mean + half),
        ):
            column = free_name(f"{name} {label}{what}", columns)
            columns[column], units[column] = values, unit


def free_name(name: str, taken: dict[str, Any]) -> str:
    """Return a column name that no channel has."""
    while name in taken:
        name += "_"
    return name


def write_result(path: Path, result: dict[str, Any]) -> None:
    """Write a result as strict JSON."""
    with whole_file(path) as part:
        part.write_text(as_json(result) + "\n", encoding="utf-8")


def as_json(result: dict[str, Any]) -> str:
    """Return a result as strict JSON, null in place of values that are not finite."""
    return json.dumps(finite(result), indent=2, allow_nan=False, ensure_ascii=False)


def write_picture(path: Path, part: Part, title: str) -> None:
    """Write a picture of measured against simulated outputs."""
    figure = identification_picture(part.records, part.free_run, title)
    plain_text(figure)
    with whole_file(path) as temporary:
        figure.savefig(temporary)
