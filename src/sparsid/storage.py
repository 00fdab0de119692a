"""Model files: one safetensors file with the arrays, and JSON for everything else.

Nothing in a file is ever executed. Layout of schema 1::

    header metadata   format     "sparsid-model"
                      schema     "1"
                      sparsid    version that wrote the file
                      model      JSON: settings, channels, lags, network, ...
                      checksum   sha256 over the JSON and the arrays
    arrays, float64   params.<block>, noise, log_evidence, start_outputs,
                      posterior.std, posterior.covariance (if kept),
                      scaling.u_mean, .u_std, .y_mean, .y_std, history.<name>
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_bytes
from sklearn.utils.validation import check_is_fitted

import sparsid
from sparsid.errors import FileFormatError, InputError
from sparsid.estimators import NARX
from sparsid.fitted import Fitted
from sparsid.forecasts import Channels
from sparsid.models.narx import Lags, Regressor
from sparsid.models.network import Network
from sparsid.outcomes import Outcome
from sparsid.posterior import Posterior
from sparsid.scaling import Scaling

FORMAT = "sparsid-model"
SCHEMA = 1
SCALES = ("u_mean", "u_std", "y_mean", "y_std")
# A float that JSON cannot write is stored as {"float": "nan"}.
FLOAT_TAG = "float"

Arrays = dict[str, NDArray[np.float64]]


def save(model: NARX, path: str | Path, *, overwrite: bool = True) -> None:
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
    arrays = _arrays(model.fitted_)
    text = json.dumps(_facts(model), allow_nan=False)
    metadata = {
        "format": FORMAT,
        "schema": str(SCHEMA),
        "sparsid": sparsid.__version__,
        "model": text,
        "checksum": _checksum(text, arrays),
    }
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_bytes(to_bytes(arrays, metadata))
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def load(path: str | Path) -> NARX:
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
        facts = json.loads(text)
        settings = {k: _tupled(_restored(v)) for k, v in facts["settings"].items()}
        model = NARX(**settings)
        model.fitted_ = _fitted(facts, arrays)
    # Whatever is missing or of the wrong kind, the file is at fault.
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise FileFormatError(f"{path} is no valid model file: {reason}.") from error
    return model


# -- writing -------------------------------------------------------------------------


def _arrays(fitted: Fitted) -> Arrays:
    blocks = zip(fitted.network.blocks, fitted.params, strict=True)
    arrays: dict[str, Any] = {
        **{f"params.{block.name}": values for block, values in blocks},
        **{f"scaling.{key}": getattr(fitted.scaling, key) for key in SCALES},
        **{f"history.{key}": values for key, values in fitted.history.items()},
        "noise": fitted.noise,
        "log_evidence": fitted.log_evidence,
        "start_outputs": fitted.start_outputs,
        "posterior.std": fitted.posterior.std,
    }
    if fitted.posterior.covariance is not None:
        arrays["posterior.covariance"] = fitted.posterior.covariance
    return {
        key: np.array(values, dtype="<f8", order="C") for key, values in arrays.items()
    }


def _facts(model: NARX) -> dict[str, Any]:
    fitted = model.fitted_
    network = fitted.network
    facts: dict[str, Any] = _plain(
        {
            "settings": model.get_params(deep=False),
            "channels": vars(fitted.channels),
            "lags": vars(fitted.lags),
            "regressors": fitted.regressors,
            "network": {
                "widths": network.widths,
                "activation": network.activation,
                "linear_path": network.linear_path,
            },
            "start_widths": fitted.start_widths,
            "weights_kept": fitted.weights_kept,
            "weights_total": fitted.weights_total,
            "outcome": fitted.outcome.name,
            "history": list(fitted.history),
            "details": fitted.details,
        }
    )
    return facts


def _plain(value: Any) -> Any:
    """Return a value as JSON knows it: arrays and tuples as lists."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return {FLOAT_TAG: str(value)}
    return value


def _checksum(text: str, arrays: Mapping[str, NDArray[Any]]) -> str:
    digest = hashlib.sha256(text.encode())
    for key in sorted(arrays):
        digest.update(f"{key} {arrays[key].shape}".encode())
        digest.update(arrays[key].tobytes())
    return digest.hexdigest()


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


def _fitted(facts: Mapping[str, Any], arrays: Arrays) -> Fitted:
    channels = Channels(**_tupled(facts["channels"]))
    lags = Lags(**facts["lags"])
    network = Network(
        tuple(int(n) for n in facts["network"]["widths"]),
        facts["network"]["activation"],
        bool(facts["network"]["linear_path"]),
    )
    regressors = tuple(Regressor(*row) for row in facts["regressors"])
    _check_structure(channels, lags, regressors, network)
    inputs, outputs = lags.n_inputs, lags.n_outputs
    shapes = dict(zip((b.name for b in network.blocks), network.shapes, strict=True))
    weights = sum(n * m for n, m in network.shapes)
    covariance = None
    if "posterior.covariance" in arrays:
        covariance = _array(arrays, "posterior.covariance", (weights, weights))
    sizes = (inputs, inputs, outputs, outputs)
    scales = zip(SCALES, sizes, strict=True)
    history = {key: arrays[f"history.{key}"] for key in facts["history"]}
    return Fitted(
        channels=channels,
        scaling=Scaling(*(_array(arrays, f"scaling.{k}", (n,)) for k, n in scales)),
        lags=lags,
        regressors=regressors,
        network=network,
        params=tuple(_array(arrays, f"params.{k}", s) for k, s in shapes.items()),
        noise=_array(arrays, "noise", (outputs,)),
        posterior=Posterior(_array(arrays, "posterior.std", (weights,)), covariance),
        start_outputs=_array(arrays, "start_outputs", (outputs,)),
        start_widths=tuple(int(n) for n in facts["start_widths"]),
        weights_kept=int(facts["weights_kept"]),
        weights_total=int(facts["weights_total"]),
        log_evidence=float(_array(arrays, "log_evidence", ())),
        outcome=Outcome[facts["outcome"]],
        history=history,
        details=_restored(facts["details"]),
    )


def _check_structure(
    channels: Channels, lags: Lags, regressors: tuple[Regressor, ...], network: Network
) -> None:
    """Refuse parts that do not fit each other."""
    counts = (len(channels.input_names), len(channels.output_names))
    if counts != (lags.n_inputs, lags.n_outputs):
        raise ValueError(f"the channels number {counts}, the lags are for others")
    if (network.widths[0], network.widths[-1]) != (len(regressors), lags.n_outputs):
        raise ValueError(f"the network has widths {network.widths}, which do not fit")
    strangers = set(regressors) - set(lags.table)
    if strangers:
        raise ValueError(f"there is no regressor {strangers.pop()}")


def _array(arrays: Arrays, key: str, shape: tuple[int, ...]) -> NDArray[np.float64]:
    if key not in arrays:
        raise ValueError(f"the array {key!r} is missing")
    values = arrays[key]
    if values.shape != shape or values.dtype != np.float64:
        raise ValueError(
            f"the array {key!r} has shape {values.shape} and type {values.dtype}, "
            f"expected {shape} and float64"
        )
    return values


def _restored(value: Any) -> Any:
    """Return what ``_plain`` was given, up to tuples and arrays."""
    if isinstance(value, dict):
        if set(value) == {FLOAT_TAG}:
            return float(value[FLOAT_TAG])
        return {key: _restored(item) for key, item in value.items()}
    return [_restored(item) for item in value] if isinstance(value, list) else value


def _tupled(value: Any) -> Any:
    """Return lists as tuples, one level deep: settings and names are never changed."""
    if isinstance(value, dict):
        return {key: _tupled(item) for key, item in value.items()}
    return tuple(value) if isinstance(value, list) else value
