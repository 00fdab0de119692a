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

# Numbers beyond these come from no fit, and their products overflow: in the data's
# units, and scaled.
LARGEST, LARGEST_SCALED = 1e100, 1e30
# Of numbers whose exponential is taken.
LARGEST_EXPONENT = 200.0

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
    found = Scaling(
        *(bounded(arrays, f"scaling.{k}", (n,), most=LARGEST) for k, n in pairs)
    )
    if not ((found.u_std > 0.0).all() and (found.y_std > 0.0).all()):
        raise ValueError("a standard deviation of the scaling is not above zero")
    return found


def untimed(value: Any) -> Any:
    """Return plain values without how long anything took: it is no property."""
    if isinstance(value, dict):
        return {k: untimed(own) for k, own in value.items() if k != "seconds"}
    return [untimed(own) for own in value] if isinstance(value, list) else value


def history_names(history: Mapping[str, Any]) -> list[str]:
    """Return the figures of a fit that are kept."""
    return [key for key in history if key != "seconds"]


def history_arrays(history: Mapping[str, Any]) -> dict[str, Any]:
    """Return the figures of a fit, cycle by cycle, as arrays."""
    return {f"history.{key}": history[key] for key in history_names(history)}


def read_history(facts: Mapping[str, Any], arrays: Arrays) -> Arrays:
    """Return the figures of a fit, cycle by cycle."""
    found = {key: arrays.get(f"history.{key}") for key in facts["history"]}
    cycles = found.get("cost", np.zeros(0))
    known: Arrays = {}
    for key, values in found.items():
        if values is None or values.ndim != 1 or values.dtype != np.float64:
            raise ValueError(f"the history of {key!r} is missing or no row of numbers")
        if cycles is None or len(values) != len(cycles):
            raise ValueError("figures of the history differ in length")
        known[key] = values
    if known and not {"cost", "kept"} <= set(known):
        raise ValueError("the history lacks the cost, or what was kept")
    return known


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
    if key not in arrays:
        return np.full(shape, np.nan)
    values = array(arrays, key, shape)
    if (values < 0.0).any():
        raise ValueError(f"the array {key!r} holds a negative deviation")
    return values


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


def bounded(
    arrays: Arrays,
    key: str,
    shape: tuple[int, ...],
    *,
    most: float = LARGEST_SCALED,
    least: float | None = None,
    loose: bool = False,
) -> NDArray[np.float64]:
    """Return an array of the expected shape whose numbers can be calculated with.

    Parameters
    ----------
    least, most
        Bounds; those below are ``-most`` if not given.
    loose
        Let values that are not finite pass: those of a fit that diverged.
    """
    values = array(arrays, key, shape)
    least = -most if least is None else least
    good = (values >= least) & (values <= most)
    if not (good | ~np.isfinite(values) if loose else good).all():
        raise ValueError(f"the array {key!r} holds values beyond {least:g} to {most:g}")
    return values


def covariances(
    arrays: Arrays, key: str, shape: tuple[int, ...], *, loose: bool = False
) -> NDArray[np.float64]:
    """Return a covariance, or a stack of them: finite, symmetric, variances not < 0."""
    values = bounded(arrays, key, shape, loose=loose)
    if not loose:
        size = np.abs(values).max(initial=0.0)
        turned = np.swapaxes(values, -1, -2)
        if np.abs(values - turned).max(initial=0.0) > 1e-6 * size:
            raise ValueError(f"the array {key!r} is not symmetric")
        if np.diagonal(values, axis1=-2, axis2=-1).min(initial=0.0) < -1e-9 * size:
            raise ValueError(f"the array {key!r} holds a negative variance")
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
