"""The files a command leaves behind, complete or not at all."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from tempfile import gettempdir, mkdtemp
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
PICTURE_SUFFIXES = (".png", ".svg")


class ResultFolder:
    """Collects files out of sight, and puts them in their place all at once.

    What cannot be written is refused before there is anything to write. Left without
    `publish`, nothing remains; if `publish` fails, the files are kept elsewhere.

    Parameters
    ----------
    out
        The wanted folder; it may exist.
    overwrite
        Whether results that are in it may be replaced, all of them: none is left
        beside those of another model. Other files stay.

    Attributes
    ----------
    part
        The folder to write to.
    """

    def __init__(self, out: Path, overwrite: bool) -> None:
        self.out, self.overwrite = out, overwrite
        self._home = _nearest_folder(out)
        self._left = False
        _check_places(out)
        present = [name for name in (*FILES, PICTURES) if os.path.lexists(out / name)]
        if present and not overwrite:
            raise InputError(
                f"{out} already holds {', '.join(present)}: choose another folder with "
                "--out, or replace the results with --overwrite."
            )

    def __enter__(self) -> ResultFolder:
        try:
            # Where it is, a rename suffices to publish.
            room = mkdtemp(prefix=".sparsid-", suffix=".part", dir=self._home)
            self._room = Path(room)
            self.part = self._room / "new"
            self.part.mkdir()
        except OSError as error:
            raise InputError(
                f"{self.out} cannot be written ({error.strerror}): choose another "
                "folder with --out."
            ) from error
        return self

    def __exit__(self, *reason: Any) -> None:
        if not self._left:
            shutil.rmtree(self._room, ignore_errors=True)

    def publish(self) -> list[Path]:
        """Put the files in their place and return their paths.

        Pictures count by their folder: the list is read by people.
        """
        names = sorted(path.name for path in self.part.iterdir())
        try:
            if self._home == self.out:
                self._exchange(names)
            else:
                self.out.parent.mkdir(parents=True, exist_ok=True)
                self.part.rename(self.out)
        except OSError as error:
            raise OSError(
                f"the results could not be put into {self.out} "
                f"({error.strerror or error}): they are kept in {self._keep()}"
            ) from error
        return [self.out / name for name in names]

    def _exchange(self, names: list[str]) -> None:
        """Replace the results in a folder; after an error it is as it was."""
        old = self._room / "old"
        old.mkdir()
        # Pictures come with a report; without one the folder is somebody else's.
        reported = os.path.lexists(self.out / REPORT)
        ours = dict.fromkeys((*FILES, *names))
        leaving = [name for name in ours if os.path.lexists(self.out / name)]
        if reported and (self.out / PICTURES).is_dir() and PICTURES not in leaving:
            leaving.append(PICTURES)
        if leaving and not self.overwrite:
            raise OSError(f"it got {', '.join(leaving)} from somebody else meanwhile")
        moves = [(self.out / name, old / name) for name in leaving]
        moves += [(self.part / name, self.out / name) for name in names]
        if PICTURES in leaving:
            moves += _strangers(self.out, old, self.part, reported)
        done: list[tuple[Path, Path]] = []
        try:
            for source, target in moves:
                target.parent.mkdir(exist_ok=True)
                source.rename(target)
                done.append((source, target))
        except BaseException:
            for source, target in reversed(done):
                target.rename(source)
            raise

    def _keep(self) -> Path:
        """Return a folder that has the files, beside the wanted one if possible."""
        name = self.out.absolute().name or "sparsid-results"
        for home in (self.out.absolute().parent, Path(gettempdir())):
            try:
                kept = Path(mkdtemp(prefix=f"{name}-kept-", dir=home))
            except OSError:
                continue
            try:
                shutil.move(self.part, kept / name)
            except OSError:
                shutil.rmtree(kept, ignore_errors=True)
                continue
            return kept / name
        # Where they are, then: out of sight, but not lost.
        self._left = True
        return self.part


def _nearest_folder(out: Path) -> Path:
    """Return the folder that is meant, or the one above that exists."""
    for place in (out, *out.absolute().parents):
        if place.is_dir():
            return place
        if place.is_symlink() and not place.exists():
            raise InputError(
                f"--out {out}: {place} is a link that leads nowhere: remove it, or "
                "give another folder."
            )
        if place.exists():
            below = "is a file" if place == out else f"is below the file {place}"
            raise InputError(f"--out {out} {below}: give a folder.")
    raise InputError(f"--out {out} does not exist, and cannot be made.")


def _check_places(out: Path) -> None:
    """Refuse a folder in which the place of a file is taken by a folder, or so."""
    for name in FILES:
        if (out / name).is_dir():
            raise InputError(
                f"{out / name} is a folder, where a file would be written: remove it, "
                "or choose another folder with --out."
            )
    if os.path.lexists(out / PICTURES) and not (out / PICTURES).is_dir():
        raise InputError(
            f"{out / PICTURES} is a file, where a folder would be written: remove it, "
            "or choose another folder with --out."
        )


def _strangers(
    out: Path, old: Path, part: Path, reported: bool
) -> list[tuple[Path, Path]]:
    """Return how the files that are no pictures of ours go back to their folder."""
    return [
        (old / PICTURES / path.name, path)
        for path in (out / PICTURES).iterdir()
        if not (reported and path.suffix in PICTURE_SUFFIXES)
        and not (part / PICTURES / path.name).exists()
    ]


def check_new_file(path: Path, overwrite: bool) -> None:
    """Refuse a file that cannot be written, or must not be replaced."""
    if path.is_dir():
        raise InputError(f"--out {path} is a folder: give the name of a file.")
    if os.path.lexists(path) and not overwrite:
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
    # A part without forecasts does not tell how surprising they are.
    names = dict.fromkeys(name for table in tables for name in table)
    whole = {
        name: np.concatenate(
            [table.get(name, np.full(len(table["time"]), np.nan)) for table in tables]
        )
        for name in names
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
    """Add mean and 95 % band of a forecast to columns, output by output.

    Beside them stands how far the model was from what it had seen, if it knows.
    """
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
    if forecast.surprise is not None:
        columns[free_name(f"{label} surprise", columns)] = forecast.surprise


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
