"""What a latent-state model is before it learns: settings, structure, size."""

from __future__ import annotations

import logging
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from sparsid.bayes.posterior import LARGEST_COVARIANCE
from sparsid.checks import LARGEST_COUNT, number, one_of, whole
from sparsid.data.pieces import saturation, stretches_of
from sparsid.data.record import Record, check_compatible
from sparsid.data.scaling import Scaling
from sparsid.errors import InputError
from sparsid.fitting.settings import widths_of
from sparsid.models.network import SUBLINEAR
from sparsid.models.state_space import StateNetwork

log = logging.getLogger(__name__)

SATURATION = ("auto", "none")
# Typical change per sample, in the steps from sample to sample of the outputs; out of
# a few values, as programs are compiled for each.
RATE_FACTOR = 2.0
RATES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
FEWEST_SAMPLES = 30
# Bytes that a fit may take, and copies of all sensitivities that an evaluation holds.
MEMORY_LIMIT, SENSITIVITY_COPIES = 10e9, 3.0


class StateSettings(NamedTuple):
    """What the user can set, checked."""

    states: int
    hidden: tuple[int, ...]
    activation: str
    prior: Any
    saturation: str
    start_samples: int
    max_cycles: int
    tolerance: float
    starts: int
    seed: int

    @staticmethod
    def of(params: dict[str, Any], outputs: int) -> StateSettings:
        """Return the settings, or say what is wrong with them."""
        hidden = tuple(widths_of(params["hidden"]))
        if not hidden:
            raise InputError(
                "hidden=(): a state-space model needs a hidden layer, as in (6,)"
            )
        states = params["states"]
        states = outputs + 1 if states is None else whole("states", states, 1, 1000)
        if states < outputs:
            raise InputError(
                f"states={states}: every output is a state, so at least {outputs} are "
                "needed"
            )
        return StateSettings(
            states,
            hidden,
            one_of("activation", params["activation"], SUBLINEAR),
            params["prior"],
            one_of("saturation", params["saturation"], SATURATION),
            whole("start_samples", params["start_samples"], 1, LARGEST_COUNT),
            whole("max_cycles", params["max_cycles"], 1, LARGEST_COUNT),
            number("tolerance", params["tolerance"], 0.0),
            whole("starts", params["starts"], 1, LARGEST_COUNT),
            whole("seed", params["seed"], 0, 2**32 - 1),
        )


def prepared(
    params: dict[str, Any], records: list[Record]
) -> tuple[StateSettings, list[Record]]:
    """Return checked settings and the stretches to learn from."""
    check_compatible(records)
    settings = StateSettings.of(params, records[0].n_outputs)
    stretches = stretches_of(records)
    samples = sum(int((~np.isnan(s.y)).any(1).sum()) for s in stretches)
    if samples < FEWEST_SAMPLES:
        raise InputError(
            f"{samples} samples were given: at least {FEWEST_SAMPLES} with inputs and "
            "an output are needed for a model of free runs"
        )
    return settings, stretches


def structure_of(
    settings: StateSettings, stretches: list[Record], scaling: Scaling
) -> tuple[StateNetwork, list[str]]:
    """Return the model without data, and what was found in the data."""
    y = [scaling.scale_y(s.y) for s in stretches]
    names, notes = stretches[0].output_names, []
    floor, ceiling = [-np.inf] * len(names), [np.inf] * len(names)
    if settings.saturation == "auto":
        for k, name in enumerate(names):
            for side, bounds in ((-1, floor), (1, ceiling)):
                at = saturation([side * v[:, k] for v in y])
                if at is not None:
                    bounds[k] = side * at
                    value = scaling.y_mean[k] + side * at * scaling.y_std[k]
                    notes.append(f"{name} saturates at {value:.6g}")
    for note in notes:
        log.info(note)
    columns = [v[~np.isnan(v[:, k]), k] for v in y for k in range(len(names))]
    steps = np.concatenate([np.diff(c) for c in columns])
    rate = RATE_FACTOR * float(np.sqrt(np.mean(steps**2)))
    model = StateNetwork(
        stretches[0].n_inputs,
        len(names),
        settings.states,
        settings.hidden,
        len(stretches),
        min(RATES, key=lambda r: abs(np.log(r / max(rate, RATES[0])))),
        tuple(floor),
        tuple(ceiling),
        settings.activation,
    )
    return model, notes


def most_starts(params: dict[str, Any], records: list[Record]) -> int:
    """Return how many starts of a model fit in memory; 0 if not even one does."""
    settings, stretches = prepared(params, records)
    weights, needed = _size_of_start(settings, stretches)
    return 0 if weights > LARGEST_COVARIANCE else int(MEMORY_LIMIT // needed)


def check_size(settings: StateSettings, stretches: list[Record]) -> None:
    """Refuse what would not fit in memory, before anything is allocated."""
    weights, needed = _size_of_start(settings, stretches)
    needed *= settings.starts
    if weights > LARGEST_COVARIANCE or needed > MEMORY_LIMIT:
        raise InputError(
            f"a state-space model of {weights} weights and {settings.starts} starts on "
            f"{len(stretches)} stretches of up to {max(map(len, stretches))} samples "
            f"needs about {needed / 1e9:.1f} GB, and may have {LARGEST_COVARIANCE} "
            f"weights and {MEMORY_LIMIT / 1e9:g} GB: use fewer starts, neurons or "
            "states, or shorter records"
        )


def _size_of_start(
    settings: StateSettings, stretches: list[Record]
) -> tuple[int, float]:
    """Return the weights of a model, and the bytes that one start of it takes."""
    n, m = settings.states, stretches[0].n_inputs
    widths = [n + m, *settings.hidden, n]
    weights = sum((a + 1) * b for a, b in pairwise(widths)) + n * (m + n + 1)
    weights += n * len(stretches)
    samples = len(stretches) * max(len(s) for s in stretches)
    entries = samples * weights * (2 * n + 2 * stretches[0].n_outputs)
    return weights, 8.0 * SENSITIVITY_COPIES * entries
