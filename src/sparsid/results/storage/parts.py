"""Pieces of model files: plain values and checked arrays."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsid.data.scaling import Scaling
from sparsid.results.forecast import BandFactors

SCALES = ("u_mean", "u_std", "y_mean", "y_std")
# A float that JSON cannot write is stored as {"float": "nan"}.
FLOAT_TAG = "float"

Arrays = dict[str, NDArray[np.float64]]


def as_arrays(values: Mapping[str, Any]) -> Arrays:
    """Return all values in the one type that files hold."""
    return {key: np.array(v, dtype="<f8", order="C") for key, v in values.items()}


def scaling_arrays(scaling: Scaling) -> dict[str, Any]:
    """Return the arrays of a scaling."""
    return {f"scaling.{key}": getattr(scaling, key) for key in SCALES}


def read_scaling(arrays: Arrays, inputs: int, outputs: int) -> Scaling:
    """Return the scaling in a file."""
    sizes = (inputs, inputs, outputs, outputs)
    pairs = zip(SCALES, sizes, strict=True)
    return Scaling(*(array(arrays, f"scaling.{k}", (n,)) for k, n in pairs))


def read_factors(facts: Mapping[str, Any], outputs: int) -> BandFactors:
    """Return the factors of the bands in a file."""
    if "band_factors" not in facts:
        # Files of earlier versions have none.
        return BandFactors.none(outputs)
    factors = BandFactors(**tupled(facts["band_factors"]))
    # Those of whole runs may be missing.
    given = [*factors[:2], *filter(None, factors[2:])]
    if len(given) == 3 or not all(len(f) == outputs and min(f) > 0 for f in given):
        raise ValueError(f"the factors of the bands do not fit {outputs} outputs")
    return factors


def plain(value: Any) -> Any:
    """Return a value as JSON knows it: arrays and tuples as lists."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return {FLOAT_TAG: str(value)}
    return value


def read_prior_std(
    arrays: Arrays, key: str, shape: tuple[int, ...]
) -> NDArray[np.float64]:
    """Return prior standard deviations, NaN in files of earlier versions."""
    return array(arrays, key, shape) if key in arrays else np.full(shape, np.nan)


def array(arrays: Arrays, key: str, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Return an array of the expected shape, or say what is wrong with it."""
    if key not in arrays:
        raise ValueError(f"the array {key!r} is missing")
    values = arrays[key]
    if values.shape != shape or values.dtype != np.float64:
        raise ValueError(
            f"the array {key!r} has shape {values.shape} and type {values.dtype}, "
            f"expected {shape} and float64"
        )
    return values


def restored(value: Any) -> Any:
    """Return what ``plain`` was given, up to tuples and arrays."""
    if isinstance(value, dict):
        if set(value) == {FLOAT_TAG}:
            return float(value[FLOAT_TAG])
        return {key: restored(item) for key, item in value.items()}
    return [restored(item) for item in value] if isinstance(value, list) else value


def tupled(value: Any) -> Any:
    """Return lists as tuples, one level deep: settings and names are never changed."""
    if isinstance(value, dict):
        return {key: tupled(item) for key, item in value.items()}
    return tuple(value) if isinstance(value, list) else value
