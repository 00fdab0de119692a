"""What a summary says of the dynamics of a model, or why it says nothing."""

from __future__ import annotations

import numpy as np

from sparsid.analysis.linearisation import Linearisation, linearise
from sparsid.errors import InputError
from sparsid.results.base import FittedModel
from sparsid.results.texts import Row


def mean_point(fitted: FittedModel) -> Linearisation | str:
    """Return a model near its mean operating point, or why it has none there."""
    try:
        found = linearise(fitted)
    except InputError as error:
        return str(error)
    except np.linalg.LinAlgError:
        # Weights that are not finite have no poles.
        return "the parameters of the model are not finite"
    if not all(np.isfinite(matrix).all() for matrix in found.systems):
        return "the parameters of the model are not finite"
    return found


def dynamics_rows(fitted: FittedModel) -> list[Row]:
    """Return lines about gain, poles and dead times near the mean operating point."""
    found = mean_point(fitted)
    return [("linear", found)] if isinstance(found, str) else found.rows()
