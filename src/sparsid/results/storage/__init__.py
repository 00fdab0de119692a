"""Model files: one safetensors file with the arrays, and JSON for everything else.

Nothing in a file is ever executed. Layout of schema 1::

    header metadata   format     "sparsid-model"
                      schema     "1"
                      sparsid    version that wrote the file
                      model      JSON: kind, settings, channels, structure, ...
                      checksum   sha256 over the JSON and the arrays
    arrays, float64   params.<block>, scaling.<name>, history.<name>, and what else
                      the kind of model has: see the modules beside this one
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_bytes
from sklearn.utils.validation import check_is_fitted

import sparsid
from sparsid.errors import FileFormatError, InputError
from sparsid.estimators import NARX, Model, Simulator, StateSpace
from sparsid.results.storage import ensemble, narx, schema, simulator
from sparsid.results.storage.parts import Arrays, plain, restored, tupled, untimed

FORMAT = "sparsid-model"
SCHEMA = 1

# How each kind of model is written and read.
_KINDS: dict[str, tuple[type[Model], Any]] = {
    "NARX": (NARX, narx),
    "StateSpace": (StateSpace, ensemble),
    "Simulator": (Simulator, simulator),
}


def save(model: Model, path: str | Path, *, overwrite: bool = True) -> None:
    """Write a fitted model to one self-contained file.

    Parameters
    ----------
    path
        The file; it appears only when it is complete.
    overwrite
        Whether a file of that name may be replaced.
    """
    check_is_fitted(model, "fitted_")
    path = Path(path)
    if path.is_dir():
        raise InputError(f"{path} is a folder: give the path of a file in it.")
    if not path.parent.is_dir():
        raise InputError(f"The folder {path.parent} does not exist: make it first.")
    if path.exists() and not overwrite:
        raise InputError(f"{path} exists: give another name, or overwrite=True.")
    kind = type(model).__name__
    form = _KINDS[kind][1]
    arrays = form.to_arrays(model.fitted_)
    # The same fit gives the same bytes, whoever did the work.
    settings = {k: v for k, v in model.get_params(deep=False).items() if k != "workers"}
    facts = {"kind": kind, "settings": settings, **form.to_facts(model.fitted_)}
    text = json.dumps(untimed(plain(facts)), allow_nan=False)
    metadata = {
        "format": FORMAT,
        "schema": str(SCHEMA),
        "sparsid": sparsid.__version__,
        "model": text,
        "checksum": _checksum(text, arrays),
    }
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_bytes(_ordered(to_bytes(arrays, metadata)))
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def load(path: str | Path) -> Model:
    """Return the model in a file written by ``save``, ready to predict.

    Parameters
    ----------
    path
        The file. One that is damaged, of another kind, or from a newer version is
        refused with a ``FileFormatError`` that gives the reason.
    """
    path = Path(path)
    if path.is_dir():
        raise InputError(f"{path} is a folder: give the path of a model file in it.")
    if not path.is_file():
        raise InputError(f"{path} does not exist: check the name and the folder.")
    metadata, arrays = _read(path)
    text = metadata.get("model", "")
    if metadata.get("checksum") != _checksum(text, arrays):
        raise FileFormatError(
            f"{path} is damaged: its content does not match its checksum."
        )
    try:
        facts = json.loads(text, parse_constant=_no_number)
        schema.check(facts)
        settings = {k: tupled(restored(v)) for k, v in facts["settings"].items()}
        make, form = _KINDS[facts["kind"]]
        model = make(**settings)
        model.fitted_ = form.from_file(facts, arrays)
        own = {f"history.{key}" for key in facts["history"]}
        strangers = set(arrays) - own - set(form.to_arrays(model.fitted_))
        if strangers:
            raise ValueError(f"there is no place for the array {min(strangers)!r}")
    # Whatever is missing or of the wrong kind, the file is at fault.
    except (
        LookupError,
        TypeError,
        ValueError,
        ArithmeticError,
        AttributeError,
        RecursionError,
    ) as error:
        reason = str(error)[:300] or type(error).__name__
        raise FileFormatError(f"{path} is no valid model file: {reason}.") from error
    return model


# -- writing -------------------------------------------------------------------------


def _ordered(data: bytes) -> bytes:
    """Return a safetensors file whose header is in order: its writer shuffles it."""
    end = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:end])
    text = json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
    # Arrays begin at a multiple of eight bytes.
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + data[end:]


def _checksum(text: str, arrays: Mapping[str, NDArray[Any]]) -> str:
    digest = hashlib.sha256(text.encode())
    for key in sorted(arrays):
        digest.update(f"{key} {arrays[key].shape}".encode())
        digest.update(arrays[key].tobytes())
    return digest.hexdigest()


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is no JSON")


# -- reading -------------------------------------------------------------------------


def _read(path: Path) -> tuple[dict[str, str], Arrays]:
    """Return header metadata and arrays of a file that says it is a model."""
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            _check_kind(path, metadata)
            arrays = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    except OSError as error:
        raise InputError(
            f"{path} cannot be read: {error.strerror or error}."
        ) from error
    except SafetensorError as error:
        with path.open("rb") as raw:
            ours = FORMAT.encode() in raw.read(4096)
        what = "is damaged or cut short" if ours else "is no sparsid model file"
        raise FileFormatError(f"{path} {what}: {error}.") from error
    # The numpy side of safetensors has no name for some types other writers know.
    except (TypeError, KeyError, AttributeError) as error:
        raise FileFormatError(f"{path} holds arrays of an unknown type.") from error
    return metadata, arrays


def _check_kind(path: Path, metadata: Mapping[str, str]) -> None:
    if metadata.get("format") != FORMAT:
        raise FileFormatError(
            f"{path} is a safetensors file of another program, not a sparsid model."
        )
    schema = metadata.get("schema", "")
    if not schema.isdecimal() or int(schema) < 1:
        raise FileFormatError(f"{path} is damaged: its schema number is {schema!r}.")
    if int(schema) > SCHEMA:
        raise FileFormatError(
            f"{path} was written by sparsid {metadata.get('sparsid', '?')} with schema "
            f"{schema}, but this version reads schemas up to {SCHEMA}: upgrade sparsid."
        )
