"""Scaling: the affine maps between units of measurement and mean 0, deviation 1."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from sparsid.data.record import Record, check_compatible, listed
from sparsid.errors import InputError

# Below this spread, relative to its size, a channel is constant up to rounding.
CONSTANT_TOLERANCE = 1e-12


@dataclass(frozen=True, eq=False)
class Scaling:
    """The affine maps between units of measurement and mean 0, deviation 1."""

    u_mean: Float[np.ndarray, " inputs"]
    u_std: Float[np.ndarray, " inputs"]
    y_mean: Float[np.ndarray, " outputs"]
    y_std: Float[np.ndarray, " outputs"]

    def __post_init__(self) -> None:
        for key in ("u_mean", "u_std", "y_mean", "y_std"):
            values = np.array(getattr(self, key), dtype=np.float64).reshape(-1)
            if key.endswith("std") and not np.all(values > 0):
                raise InputError(f"{key} is {values} but deviations must be positive.")
            values.flags.writeable = False
            object.__setattr__(self, key, values)

    @classmethod
    def of(cls, records: Record | Iterable[Record]) -> "Scaling":
        """Return mean and deviation over all measured samples of all records."""
        records = listed(records)
        check_compatible(records)
        where = _extent(records)
        u_mean, u_std = _moments([r.u for r in records], records[0].input_names, where)
        y_mean, y_std = _moments([r.y for r in records], records[0].output_names, where)
        return cls(u_mean, u_std, y_mean, y_std)

    def scale_u(self, u: Any) -> Any:
        """Return inputs without unit."""
        return (u - self.u_mean) / self.u_std

    def scale_y(self, y: Any) -> Any:
        """Return outputs without unit."""
        return (y - self.y_mean) / self.y_std

    def unscale_y(self, y: Any) -> Any:
        """Return outputs in units of measurement."""
        return y * self.y_std + self.y_mean

    def unscale_y_std(self, s: Any) -> Any:
        """Return deviations of outputs in units of measurement."""
        return s * self.y_std


def _extent(records: list[Record]) -> str:
    """Return which samples are meant, for messages: they may be part of a record."""
    first, last = records[0], records[-1]
    if len(records) > 1:
        return f"the {sum(map(len, records))} samples of {len(records)} stretches"
    return f"samples {first.start} to {last.start + len(last) - 1}"


def _moments(parts: list[Any], names: tuple[str, ...], where: str) -> tuple[Any, Any]:
    values = np.concatenate(parts)
    empty = np.flatnonzero(np.isnan(values).all(axis=0))
    if empty.size:
        raise InputError(f"Channel {names[empty[0]]!r} has no measured sample.")
    mean, std = np.nanmean(values, axis=0), np.nanstd(values, axis=0)
    size = np.nanmax(np.abs(values), axis=0)
    constant = np.flatnonzero(std <= CONSTANT_TOLERANCE * size)
    if constant.size:
        k = constant[0]
        raise InputError(
            f"Channel {names[k]!r} is constant ({mean[k]:g}) in {where}, which are to "
            "be learnt from: leave it out, or use a record in which it moves there; "
            "parts that are held back do not count."
        )
    return mean, std
