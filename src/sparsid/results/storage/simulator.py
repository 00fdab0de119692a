"""Simulators in files: structures and noise as JSON, values as arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sparsid.models.autoregression import Autoregression
from sparsid.models.canonical import Pole, Sizes, Structure
from sparsid.models.residual_model import ResidualModel
from sparsid.results.channels import Channels
from sparsid.results.outcome import Outcome
from sparsid.results.simulator import FittedSimulator
from sparsid.results.simulator_member import SimulatorMember
from sparsid.results.storage.parts import (
    Arrays,
    array,
    as_arrays,
    bounded,
    covariances,
    history_arrays,
    history_names,
    read_factors,
    read_history,
    read_scaling,
    restored,
    scaling_arrays,
    tupled,
)
from sparsid.results.surprise import Seen

# Arrays of a member, and of the structure in it.
OWN = ("theta", "start", "state_mean", "state_root", "covariance")
PRIOR = ("prior_std", "prior_variance")
# Signals that hardly moved are divided by how little they did.
LARGEST_WHITENING = 1e30
DRAWN = ("fixed", "factors", "limits", "bounds")
NOISE = ("predictors", "variances", "ahead")
RESIDUAL = ("past", "inputs", "runs", "constant", "covariance")


def to_arrays(fitted: FittedSimulator) -> Arrays:
    """Return what a file holds as arrays."""
    values: dict[str, Any] = scaling_arrays(fitted.scaling)
    values |= history_arrays(fitted.history)
    values |= {f"residual.{key}": getattr(fitted.residual, key) for key in RESIDUAL}
    for k, member in enumerate(fitted.members):
        head = f"member{k}"
        values |= {f"{head}.{key}": getattr(member, key) for key in (*OWN, *PRIOR)}
        values |= {f"{head}.{key}": getattr(member.structure, key) for key in DRAWN}
        if member.seen is not None:
            values |= {f"{head}.seen.{key}": v for key, v in vars(member.seen).items()}
        for o, law in enumerate(member.noise):
            values |= {f"{head}.noise{o}.{key}": getattr(law, key) for key in NOISE}
    return as_arrays(values)


def to_facts(fitted: FittedSimulator) -> dict[str, Any]:
    """Return what a file holds as JSON."""
    return {
        "channels": vars(fitted.channels),
        "name": fitted.name,
        "delays": list(fitted.delays),
        "members": [
            {
                "structure": member.structure.name,
                "sizes": vars_of(member.structure.sizes),
                "poles": [vars_of(pole) for pole in member.structure.poles],
                "free": [list(entry) for entry in member.structure.free],
                "kinds": member.structure.kinds.tolist(),
                "log_evidence": member.log_evidence,
            }
            for member in fitted.members
        ],
        "start_samples": fitted.start_samples,
        "band_factors": fitted.band_factors._asdict(),
        "weights_kept": fitted.weights_kept,
        "weights_total": fitted.weights_total,
        "outcome": fitted.outcome.name,
        "history": history_names(fitted.history),
        "details": fitted.details,
    }


def vars_of(value: Any) -> dict[str, Any]:
    """Return the fields of a small dataclass."""
    return {name: getattr(value, name) for name in value.__match_args__}


def from_file(facts: Mapping[str, Any], arrays: Arrays) -> FittedSimulator:
    """Return the model in a file."""
    channels = Channels(**tupled(facts["channels"]))
    nu, ny = channels.n_inputs, channels.n_outputs
    delays = tuple(int(d) for d in facts["delays"])
    if len(delays) != nu or not all(0 <= d <= 100_000 for d in delays):
        raise ValueError(f"the dead times {delays} do not fit {nu} inputs")
    members = tuple(
        _member(restored(own), arrays, f"member{k}", nu, ny)
        for k, own in enumerate(facts["members"])
    )
    # Pruning may leave members with different numbers of states.
    if len({m.structure.name for m in members}) > 1:
        raise ValueError("the members are not of one kind")
    return FittedSimulator(
        channels,
        read_scaling(arrays, nu, ny),
        str(facts["name"]),
        delays,
        members,
        _residual(arrays, nu, ny),
        facts["start_samples"],
        read_factors(facts, ny),
        # Earlier versions wrote the mean over members.
        round(facts["weights_kept"]),
        int(facts["weights_total"]),
        Outcome[facts["outcome"]],
        read_history(facts, arrays),
        restored(facts["details"]),
    )


def _member(
    facts: Mapping[str, Any], arrays: Arrays, head: str, inputs: int, outputs: int
) -> SimulatorMember:
    """Return one member; every array is checked against the sizes."""
    sizes = Sizes(**{key: int(value) for key, value in facts["sizes"].items()})
    if (sizes.inputs, sizes.outputs) != (inputs, outputs) or sizes.states < 1:
        raise ValueError(f"the sizes of {head} do not fit the channels")
    n, nn = sizes.states, sizes.neurons
    free = tuple((str(m), int(i), int(j)) for m, i, j in facts["free"])
    for matrix, i, j in free:
        rows, columns = sizes.shapes[matrix]
        if not (0 <= i < rows and 0 <= j < columns):
            raise ValueError(f"{matrix} has no entry {i}, {j}")
    poles = tuple(Pole(**pole) for pole in facts["poles"])
    taken = [p.state + k for p in poles for k in range(1 + (p.kind == "pair"))]
    if len(set(taken)) < len(taken) or max(taken, default=0) >= n:
        raise ValueError(f"the poles of {head} do not fit {n} states")
    kinds = np.array(facts["kinds"], dtype=np.int64).reshape(-1)
    if len(kinds) != nn or not ((kinds >= 0) & (kinds < 6)).all():
        raise ValueError(f"the activations of {head} do not fit {nn} neurons")
    shapes = ((sizes.offsets[""],), (len(free),), (nn,), (2, n + outputs))
    drawn = [
        array(arrays, f"{head}.{key}", shape)
        for key, shape in zip(DRAWN, shapes, strict=True)
    ]
    for key, shape in zip(DRAWN[:2], shapes[:2], strict=True):
        bounded(arrays, f"{head}.{key}", shape)
    if not (drawn[2] >= 0.0).all() or not (drawn[3][0] < drawn[3][1]).all():
        raise ValueError(f"the limits of {head} leave no room")
    structure = Structure(
        str(facts["structure"]),
        sizes,
        poles,
        drawn[0],
        free,
        drawn[1],
        kinds,
        *drawn[2:],
    )
    p = structure.parameters
    both = (p + n,)
    own_shapes = ((p,), (n,), (n,), (n, n), (p + n, p + n), (p,), both)
    own = {
        key: bounded(arrays, f"{head}.{key}", shape)
        for key, shape in zip((*OWN, *PRIOR), own_shapes, strict=True)
    }
    covariances(arrays, f"{head}.covariance", (p + n, p + n))
    if not ((own["prior_std"] >= 0.0).all() and (own["prior_variance"] > 0.0).all()):
        raise ValueError(f"a prior deviation of {head} is not positive")
    _check_runs(structure, own, head)
    noise = tuple(_noise(arrays, f"{head}.noise{o}") for o in range(outputs))
    evidence = float(facts["log_evidence"])
    return SimulatorMember(
        structure,
        **own,
        noise=noise,
        log_evidence=evidence,
        seen=_seen(arrays, f"{head}.seen", n + inputs),
    )


def _seen(arrays: Arrays, head: str, size: int) -> Seen | None:
    """Return where states and inputs were; None in files of earlier versions."""
    if f"{head}.mean" not in arrays:
        return None
    shapes = {"mean": (size,), "whitening": (size, size), "largest": ()}
    mean, whitening, largest = (
        bounded(arrays, f"{head}.{key}", shape, most=LARGEST_WHITENING)
        for key, shape in shapes.items()
    )
    return Seen(mean, whitening, float(largest))


def _noise(arrays: Arrays, head: str) -> Autoregression:
    order = len(arrays[f"{head}.variances"]) - 1
    ahead = len(arrays[f"{head}.ahead"])
    if ahead < max(order, 1):
        raise ValueError("the noise is not known far enough ahead")
    shapes = ((order + 1, max(order, 1)), (order + 1,), (ahead,))
    pairs = zip(NOISE, shapes, strict=True)
    found = Autoregression(
        *(bounded(arrays, f"{head}.{key}", shape) for key, shape in pairs)
    )
    if not ((found.variances > 0.0).all() and (found.ahead > 0.0).all()):
        raise ValueError("a variance of the noise is not positive")
    return found


def _residual(arrays: Arrays, inputs: int, outputs: int) -> ResidualModel:
    lags = [len(arrays[f"residual.{key}"]) for key in RESIDUAL[:3]]
    ny = outputs
    shapes = ((lags[0], ny, ny), (lags[1], ny, inputs), (lags[2], ny, ny))
    pairs = zip(RESIDUAL, (*shapes, (ny,), (ny, ny)), strict=True)
    found = ResidualModel(
        *(bounded(arrays, f"residual.{key}", shape) for key, shape in pairs)
    )
    covariances(arrays, "residual.covariance", (ny, ny))
    return found


def _check_runs(structure: Structure, own: Mapping[str, Any], head: str) -> None:
    """Refuse a member whose start states cannot be looked for.

    The root of the covariance of its states has to have an inverse: it is lower
    triangular with a positive diagonal.
    """
    root = own["state_root"]
    if not (np.diagonal(root) > 0.0).all() or np.triu(root, 1).any():
        raise ValueError(f"{head}.state_root is no root of a covariance")
    if not np.isfinite(structure.matrices(own["theta"])).all():
        raise ValueError(f"the matrices of {head} are not finite")
