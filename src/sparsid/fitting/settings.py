"""From a user's settings to structure and algorithm, each checked at the door."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsid.bayes.curvature import APPROXIMATE, CURVATURES, FORMS
from sparsid.bayes.curvature.choice import DEFAULT_MEMORY_LIMIT
from sparsid.bayes.prior import resolve_kinds
from sparsid.bayes.variance_rules import Constant, Flat, Norm, Rule, SparseBayes
from sparsid.checks import (
    LARGEST_COUNT,
    LARGEST_LAG,
    number,
    one_of,
    whole,
    yes_or_no,
)
from sparsid.errors import InputError
from sparsid.models.narx import Lags
from sparsid.models.network import ACTIVATIONS, Network

ALGORITHMS = ("guarded", "paper")
OBJECTIVES = ("one-step", "simulation", "windows")
# Length of a window if none is given, in largest lags.
WINDOW_LAGS = 10
METHODS = ("sparse-bayes", "none", "ridge", "lasso", "group-lasso")
# A wider layer is a slip of the keyboard, not a model.
LARGEST_WIDTH = 100_000
# Weights, gradient, step and their copies, in double precision.
BYTES_PER_WEIGHT = 64

_DEFAULT_STRENGTH = {
    "sparse-bayes": 1.0,
    "ridge": 1e-4,
    "lasso": 1e-4,
    "group-lasso": 1e-3,
}
# kappa_upsilon and kappa_w. The paper's own for its algorithm; the quadratic bound of a
# norm approaches zero but never reaches it; the guarded algorithm has checked removals.
_THRESHOLDS = {"paper": (1e-4, 1e-4), "norm": (0.0, 1e-5), "guarded": (1e-10, 0.0)}


@dataclass(frozen=True)
class Settings:
    """How one network is identified; see ``NARX`` for what a user can set.

    Parameters
    ----------
    noise
        Fixed noise variance per scaled output, or None.
    warm_up, warm_up_rows, settling_rows
        Cycles at full width, and again after folding; most rows used for each. Changes
        of structure are worked out on as many as the latter.
    steps
        Steps of the weights between two updates of the variances.
    fold_tolerance
        Largest change of the outputs by folding, in noise standard deviations.
    largest_rise, largest_chi2
        A removal must not raise the cost by more, nor change the outputs by more.
    """

    rule: Rule
    kinds: tuple[str, ...]
    algorithm: str = "guarded"
    curvature: str = "auto"
    form: str = "auto"
    memory_limit: float = DEFAULT_MEMORY_LIMIT
    noise: NDArray[np.float64] | None = None
    warm_up: int = 20
    warm_up_rows: int = 400
    settling_rows: int = 20_000
    steps: int = 3
    max_cycles: int = 500
    tolerance: float = 1.0
    fold_tolerance: float = 1.0
    prune: bool = True
    largest_rise: float = 2.0
    largest_chi2: float = 1.0
    kappa_upsilon: float = 1e-10
    kappa_w: float = 0.0


def make_lags(params: dict[str, Any], inputs: int, outputs: int) -> Lags:
    """Return the regressors that the settings ask for."""
    largest = whole("lags", params["lags"], 0, LARGEST_LAG)
    chosen = {}
    for name in ("input_lags", "output_lags"):
        value = params[name]
        chosen[name] = largest if value is None else whole(name, value, 0, LARGEST_LAG)
    delay = whole("delay", params["delay"], 0, LARGEST_LAG)
    lags = Lags(inputs, outputs, chosen["input_lags"], chosen["output_lags"], delay)
    if not lags.table:
        raise InputError(
            "the model has no regressor: a record without inputs needs output_lags of "
            "1 or more"
        )
    return lags


def widths_of(hidden: Any) -> list[int]:
    """Return the widths of the hidden layers, or say what is wrong with them."""
    if isinstance(hidden, numbers.Integral):
        hidden = (hidden,)
    if not isinstance(hidden, Sequence | np.ndarray) or isinstance(hidden, str):
        raise InputError(
            f"hidden={hidden!r}: give the widths of the hidden layers, as in (100, 100)"
        )
    return [whole("hidden", n, 1, LARGEST_WIDTH) for n in hidden]


def make_network(params: dict[str, Any], lags: Lags) -> Network:
    """Return the network that the settings ask for."""
    widths = widths_of(params["hidden"])
    one_of("activation", params["activation"], ACTIVATIONS)
    # Without hidden layers the network is the linear path already.
    linear_path = yes_or_no("linear_path", params["linear_path"]) and bool(widths)
    widths = [len(lags.table), *widths, lags.n_outputs]
    return Network(tuple(widths), params["activation"], linear_path)


def make_settings(
    params: dict[str, Any],
    network: Network,
    noise: NDArray[np.float64] | None,
) -> Settings:
    """Return the algorithm that the settings ask for.

    Parameters
    ----------
    noise
        Fixed noise variance in scaled units, or None.
    """
    method = one_of("method", params["method"], METHODS)
    algorithm = one_of("algorithm", params["algorithm"], ALGORITHMS)
    if algorithm == "paper" and method != "sparse-bayes":
        raise InputError(
            f"algorithm='paper' is the paper's sparse Bayes; method={method!r} runs "
            "with algorithm='guarded'"
        )
    if algorithm == "paper" and not params["prune"]:
        raise InputError(
            "algorithm='paper' prunes by its thresholds: set kappa_upsilon and kappa_w "
            "to 0 for none, and leave prune out"
        )
    one_form = ("layer-hessian", *APPROXIMATE)
    if params["curvature"] in one_form and params["form"] != "auto":
        raise InputError(
            f"curvature={params['curvature']!r} has one form: leave form out"
        )
    memory = 1e9 * number("memory_limit", params["memory_limit"], 0.0)
    if BYTES_PER_WEIGHT * network.weights > memory:
        raise InputError(
            f"hidden={params['hidden']!r} has {network.weights} weights, which alone "
            f"take more than the memory limit of {memory / 1e9:g} GB: use narrower "
            "layers or raise memory_limit"
        )
    kinds = resolve_kinds(params["prior"], network)
    if method == "lasso":
        kinds = ("shape",) * len(kinds)
    if method == "group-lasso" and "shape" in kinds:
        raise InputError(
            "method='group-lasso' needs groups: choose prior='row', 'column' or "
            "'row+column', or method='lasso'"
        )
    style = "norm" if "lasso" in method else algorithm
    kappa_upsilon, kappa_w = _THRESHOLDS[style]
    if params["kappa_upsilon"] is not None:
        kappa_upsilon = number("kappa_upsilon", params["kappa_upsilon"], 0.0)
    if params["kappa_w"] is not None:
        kappa_w = number("kappa_w", params["kappa_w"], 0.0)
    return Settings(
        rule=_rule(method, params["strength"]),
        kinds=kinds,
        algorithm=algorithm,
        curvature=one_of("curvature", params["curvature"], CURVATURES),
        form=one_of("form", params["form"], FORMS),
        memory_limit=memory,
        noise=noise,
        max_cycles=whole("max_cycles", params["max_cycles"], 1, LARGEST_COUNT),
        tolerance=_tolerance(params["tolerance"], method),
        prune=yes_or_no("prune", params["prune"]),
        kappa_upsilon=kappa_upsilon,
        kappa_w=kappa_w,
    )


def make_window(params: dict[str, Any], lags: Lags) -> tuple[str, int | None]:
    """Return the objective, and the most samples of its runs if that is limited."""
    objective = one_of("objective", params["objective"], OBJECTIVES)
    window = params["window"]
    if objective != "windows" and window is not None:
        raise InputError(
            f"window={window!r} is for objective='windows', not for {objective!r}: "
            "leave it out"
        )
    if objective == "one-step":
        return objective, None
    needed: dict[str, tuple[str | None, ...]] = {
        "method": ("sparse-bayes",),
        "algorithm": ("guarded",),
        "curvature": ("auto", "gauss-newton"),
        "strength": (None,),
        "noise_std": (None,),
    }
    for name, (value, *others) in needed.items():
        if params[name] not in (value, *others):
            what = f"needs {name}={value!r}" if value else "learns it from the records"
            raise InputError(
                f"{name}={params[name]!r} is for objective='one-step': "
                f"objective={objective!r} {what}"
            )
    if objective == "simulation":
        return objective, None
    # Cut into equal parts a window may be half as long, and still has to run freely.
    shortest = 2 * (lags.max_lag + 1)
    if window is None:
        return objective, max(WINDOW_LAGS * lags.max_lag, shortest)
    return objective, whole("window", window, shortest, LARGEST_COUNT)


def _tolerance(tolerance: float | None, method: str) -> float:
    """Return the given tolerance, or the method's own.

    The methods without evidence creep at the end: the quadratic bound of a norm takes
    hundreds of cycles, and stopping early makes them look worse than they are.
    """
    if tolerance is not None:
        return number("tolerance", tolerance, 0.0)
    return 1.0 if method == "sparse-bayes" else 0.05


def _rule(method: str, strength: float | None) -> Rule:
    if method == "none":
        if strength is not None:
            raise InputError("method='none' has no penalty: leave strength out")
        return Flat()
    value = _DEFAULT_STRENGTH[method]
    if strength is not None:
        value = number("strength", strength, 0.0)
        if value == 0.0:
            raise InputError("strength=0: use method='none' for a fit without penalty")
    if method == "sparse-bayes":
        return SparseBayes(value)
    return Constant(value) if method == "ridge" else Norm(value)
