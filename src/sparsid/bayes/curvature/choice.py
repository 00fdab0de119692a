"""Which curvature, in which form: chosen by name, cost and memory."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp

from sparsid.arrays import Array
from sparsid.bayes.curvature import diagonal, dual, hessian, kronecker, primal
from sparsid.bayes.curvature.pieces import Derivative, Factorised
from sparsid.bayes.prior import Prior, Sums
from sparsid.errors import InputError
from sparsid.models.network import Factors, Network, Params

log = logging.getLogger(__name__)

# Adding a form: one line here with its two functions in `forms`, or an entry below for
# rows that come some at a time.
_FORMS: dict[str, tuple[Callable[..., Factorised], Callable[..., Params]]] = {
    "primal": (primal.primal_factorise, primal.primal_solve),
    "dual": (dual.dual_factorise, dual.dual_solve),
    "gram": (dual.gram_factorise, dual.gram_solve),
    "hessian": (hessian.hessian_factorise, hessian.hessian_solve),
}


class _Accumulated(NamedTuple):
    """A form of rows that come some at a time, in four steps.

    ``finish`` makes what the steps work with from the products of all rows.
    """

    products: Callable[..., Any]
    evidence: Callable[..., tuple[Array, Any, tuple[Sums, ...]]]
    cotangent: Callable[..., Derivative]
    solve: Callable[..., Params]
    finish: Callable[[Any, int], Any] = lambda products, _: products


_ACCUMULATED = {
    "blockwise": _Accumulated(
        primal.products,
        primal.primal_evidence,
        primal.primal_cotangent,
        primal.blockwise_solve,
    ),
    "kronecker": _Accumulated(
        kronecker.kronecker_products,
        kronecker.kronecker_evidence,
        kronecker.kronecker_cotangent,
        kronecker.kronecker_solve,
        kronecker.Spectrum.of,
    ),
    "diagonal": _Accumulated(
        diagonal.diagonal_products,
        diagonal.diagonal_evidence,
        diagonal.diagonal_cotangent,
        diagonal.diagonal_solve,
    ),
}
FORMS = ("auto", "primal", "blockwise", "dual", "gram")
CURVATURES = {
    "auto": "Gauss-Newton; where that does not fit in memory, an approximation",
    "gauss-newton": "Gauss-Newton, joint over all layers",
    "layer-gauss-newton": "Gauss-Newton, each layer on its own",
    "layer-hessian": "the paper's exact layer Hessian, made positive",
    "kronecker": "Gauss-Newton, each layer a product of two averages; approximate",
    "diagonal": "Gauss-Newton, each weight on its own; approximate",
}
# What nothing of weights by weights or samples by samples is formed for, best first.
APPROXIMATE = ("kronecker", "diagonal")
SEPARABLE = ("row", "column", "row+column")
DEFAULT_MEMORY_LIMIT = 4e9
# Entries of the dense derivative that the blockwise form holds at once, 1.6 MB that
# stay in a cache; but at least so many rows, or adding up is dearer than multiplying.
BLOCK_ENTRIES, FEWEST_BLOCK_ROWS = 2e5, 512
# Roughly what it costs in terms of the primal form: it linearises twice, but with many
# blocks it does not wait for memory.
MANY_BLOCKS, FEW_BLOCKS_COST, MANY_BLOCKS_COST = 10, 1.2, 0.8


@dataclass(frozen=True)
class Curvature:
    """A curvature: groups of blocks treated jointly, and the form of each group."""

    name: str
    parts: tuple[tuple[int, ...], ...]
    forms: tuple[str, ...]

    @property
    def exact(self) -> bool:
        """Whether the model has to supply Hessians instead of derivatives."""
        return self.name == "layer-hessian"

    @property
    def blockwise(self) -> bool:
        """Whether rows go through some at a time, never all at once."""
        return self.forms[0] in _ACCUMULATED

    @property
    def _steps(self) -> _Accumulated:
        """The steps of all parts: they have one form, see `choose`."""
        return _ACCUMULATED[self.forms[0]]

    def products(self, derivative: Factors, prior: Prior) -> tuple[Any, ...]:
        """Return what some rows add to the blockwise systems."""
        return tuple(
            self._steps.products(_pick(derivative, part), _of(prior, part))
            for part in self.parts
        )

    def finish(self, products: tuple[Any, ...], rows: int) -> tuple[Any, ...]:
        """Return the blockwise systems from the products of all rows."""
        return tuple(self._steps.finish(of_part, rows) for of_part in products)

    def evidence_of(
        self, systems: tuple[Any, ...], prior: Prior
    ) -> tuple[Array, tuple[Any, ...], tuple[Sums, ...]]:
        """Return log-determinant, inverses and gamma of blockwise systems."""
        log_dets, inverses, gammas = zip(
            *(
                self._steps.evidence(system, _of(prior, part))
                for system, part in zip(systems, self.parts, strict=True)
            ),
            strict=True,
        )
        gamma = tuple(g for of_part in gammas for g in of_part)
        return sum(log_dets, start=jnp.zeros(())), inverses, gamma

    def cotangent(
        self, inverses: tuple[Any, ...], derivative: Factors, prior: Prior
    ) -> Factors:
        """Return the derivative of ``log_det / 2`` by that of some rows."""
        found = [
            self._steps.cotangent(_pick(derivative, part), _of(prior, part), inverse)
            for inverse, part in zip(inverses, self.parts, strict=True)
        ]
        return _joined(found)

    def factorise(self, derivative: Derivative, prior: Prior, full: bool) -> Factorised:
        """Return the system and, if full, log-determinant, cotangent and gamma."""
        if not self.parts:
            return primal.primal_factorise(derivative, prior, full)
        assert isinstance(derivative, Factors)
        done = [
            _FORMS[form][0](_pick(derivative, part), _of(prior, part), full)
            for part, form in zip(self.parts, self.forms, strict=True)
        ]
        log_det = sum((f.log_det for f in done), start=jnp.zeros(()))
        systems = tuple(f.system for f in done)
        if not full:
            return Factorised(log_det, systems, None, None)
        cotangent = _joined([f.cotangent for f in done])
        gamma = tuple(g for f in done if f.gamma for g in f.gamma)
        return Factorised(log_det, systems, cotangent, gamma)

    def solve(
        self, systems: Any, derivative: Any, prior: Prior, g: Params, t: Array
    ) -> Params:
        """Return the whitened step ``d`` with ``(B + t I) d = -g``."""
        if not self.parts:
            return primal.blockwise_solve(systems, g, t)
        if self.blockwise:
            # Nothing but the systems is left of the rows.
            parts = zip(self.parts, systems, strict=True)
            solved = [
                self._steps.solve(system, _of(g, part), t) for part, system in parts
            ]
            return tuple(block for part in solved for block in part)
        step: list[Array] = []
        for part, form, system in zip(self.parts, self.forms, systems, strict=True):
            step += _FORMS[form][1](
                system, _pick(derivative, part), _of(prior, part), _of(g, part), t
            )
        return tuple(step)


class _TooLargeError(InputError):
    """No form fits in memory."""


# Of a derivative without layers: one dense matrix, all blocks together.
WHOLE = Curvature("gauss-newton", (), ("primal",))


def choose(
    name: str,
    form: str,
    network: Network,
    kinds: tuple[str, ...],
    samples: int,
    memory_limit: float = DEFAULT_MEMORY_LIMIT,
) -> Curvature:
    """Return the curvature of that name in the cheapest form that fits in memory.

    ``"auto"`` is Gauss-Newton, or if that does not fit in any form, the best
    approximation for these variances.

    Parameters
    ----------
    kinds
        Prior kind of every block.
    samples
        Rows of the regression, times outputs.
    memory_limit
        Bytes that one evaluation may take.
    """
    if name not in CURVATURES:
        raise InputError(
            f"curvature={name!r} is not known: choose one of {', '.join(CURVATURES)}"
        )
    if form not in FORMS:
        raise InputError(
            f"form={form!r} is not known: choose one of {', '.join(FORMS)}"
        )
    if name == "auto":
        try:
            return _exact("gauss-newton", form, network, kinds, samples, memory_limit)
        except _TooLargeError:
            if form != "auto":
                raise
        size = estimate("kronecker", network.shapes, samples)[1]
        factored = size <= memory_limit and set(kinds) <= set(SEPARABLE)
        name = "kronecker" if factored else "diagonal"
    if name in APPROXIMATE:
        return _approximate(name, form, network, kinds, samples, memory_limit)
    return _exact(name, form, network, kinds, samples, memory_limit)


def _exact(
    name: str,
    form: str,
    network: Network,
    kinds: tuple[str, ...],
    samples: int,
    memory_limit: float,
) -> Curvature:
    """Return a curvature with all correlations that its name leaves."""
    blocks = range(len(network.blocks))
    parts = (tuple(blocks),) if name == "gauss-newton" else tuple((b,) for b in blocks)
    shapes = [[network.shapes[b] for b in part] for part in parts]
    accumulated = sum(estimate("blockwise", part, samples)[1] for part in shapes)
    chosen = tuple(
        _choose_form(name, form, part, network, kinds, samples, memory_limit)
        for part in parts
    )
    if "blockwise" in chosen:
        # Rows go through some at a time for all parts, or for none.
        if accumulated <= memory_limit:
            log.info("%d rows go through some at a time", samples)
            return Curvature(name, parts, ("blockwise",) * len(parts))
        without = ("blockwise",)
        chosen = tuple(
            _choose_form(
                name, form, part, network, kinds, samples, memory_limit, without
            )
            for part in parts
        )
    return Curvature(name, parts, chosen)


def _approximate(
    name: str,
    form: str,
    network: Network,
    kinds: tuple[str, ...],
    samples: int,
    memory_limit: float,
) -> Curvature:
    """Return a curvature of each block on its own."""
    if form != "auto":
        raise InputError(f"curvature={name!r} has one form: leave form out")
    if name == "kronecker":
        _check_separable("curvature='kronecker'", kinds, "curvature='diagonal'")
    needed = estimate(name, network.shapes, samples)[1]
    if needed > memory_limit:
        raise _TooLargeError(
            f"curvature={name!r} needs {needed / 1e9:.1f} GB for {samples} samples and "
            f"{network.weights} weights, more than the memory limit of "
            f"{memory_limit / 1e9:.1f} GB: use fewer samples, a narrower network, or "
            "raise memory_limit"
        )
    parts = tuple((b,) for b in range(len(network.blocks)))
    return Curvature(name, parts, (name,) * len(parts))


def _check_separable(what: str, kinds: Sequence[str], instead: str) -> None:
    if not all(kind in SEPARABLE for kind in kinds):
        raise InputError(
            f"{what} needs variances that are a product of row and column factors "
            f"(prior {', '.join(SEPARABLE)}), not {', '.join(kinds)}: use {instead}"
        )


def _choose_form(
    name: str,
    form: str,
    part: tuple[int, ...],
    network: Network,
    kinds: tuple[str, ...],
    samples: int,
    memory_limit: float,
    without: tuple[str, ...] = (),
) -> str:
    """Return the cheapest form that fits in memory."""
    shapes = [network.shapes[b] for b in part]
    separable = all(kinds[b] in SEPARABLE for b in part)
    if form == "gram":
        _check_separable("form='gram'", [kinds[b] for b in part], "form='auto'")
    if name == "layer-hessian":
        candidates = ["hessian"]
    elif form != "auto":
        candidates = [form]
    else:
        candidates = ["primal", "dual", "blockwise", *(["gram"] if separable else [])]
    costs = {c: estimate(c, shapes, samples) for c in candidates}
    fitting = {
        c: flops
        for c, (flops, size) in costs.items()
        if size <= memory_limit and c not in without
    }
    if not fitting:
        instead = (
            "curvature='auto', which takes an approximation"
            if form == "auto"
            else "form='auto'"
        )
        needs = ", ".join(f"{c} {size / 1e9:.1f} GB" for c, (_, size) in costs.items())
        raise _TooLargeError(
            f"curvature={name!r} needs more than the memory limit of "
            f"{memory_limit / 1e9:.1f} GB ({needs}) for {samples} samples and "
            f"{sum(a * b for a, b in shapes)} weights: use a narrower network, a "
            f"prior of rows or columns, fewer samples, {instead}, or raise memory_limit"
        )
    return min(fitting, key=fitting.__getitem__)


def estimate(
    form: str, shapes: Sequence[tuple[int, int]], samples: int
) -> tuple[float, float]:
    """Return floating-point operations and bytes of one full evaluation."""
    N, P = float(samples), float(sum(a * b for a, b in shapes))
    if form == "primal":
        return 4 * N * P**2 + 3 * P**3, 8 * (3 * N * P + 4 * P**2)
    # Of rows that come some at a time: all regressors and outputs, as they are and cut.
    table = 2 * N * (shapes[0][0] + shapes[-1][1])
    if form == "diagonal":
        return 6 * N * P, 8 * (8 * P + table)
    if form == "kronecker":
        squares = float(sum(a**2 + b**2 for a, b in shapes))
        cubes = float(sum(a**3 + b**3 for a, b in shapes))
        return 4 * N * squares + 20 * cubes, 8 * (8 * squares + 8 * P + table)
    if form == "blockwise":
        rows = min(N, block_rows(shapes))
        cost = MANY_BLOCKS_COST if MANY_BLOCKS * rows < N else FEW_BLOCKS_COST
        flops = cost * estimate("primal", shapes, samples)[0]
        return flops, 8 * (3 * rows * P + 4 * P**2 + table)
    if form == "dual":
        return 4 * N**2 * P + N**3 / 3, 8 * (3 * N * P + 4 * N**2)
    if form == "hessian":
        return 4 * N * P**2 + 20 * P**3, 8 * (N * P + 6 * P**2)
    sides = float(sum(a + b for a, b in shapes))
    return 4 * N**2 * sides + 3 * N**3, 8 * N**2 * (2 * len(shapes) + 4)


def block_rows(shapes: Sequence[tuple[int, int]]) -> int:
    """Return how many rows, one for each output, the blockwise form takes at once."""
    weights = sum(a * b for a, b in shapes)
    return max(FEWEST_BLOCK_ROWS, int(BLOCK_ENTRIES / weights))


def _joined(cotangents: Sequence[Derivative | None]) -> Factors:
    """Return the cotangents of all parts as one."""
    lefts: list[Array] = []
    rights: list[Array] = []
    for cotangent in cotangents:
        assert isinstance(cotangent, Factors)
        lefts += cotangent.left
        rights += cotangent.right
    return Factors(tuple(lefts), tuple(rights))


def _pick(derivative: Factors, part: tuple[int, ...]) -> Factors:
    return Factors(_of(derivative.left, part), _of(derivative.right, part))


def _of(blocks: tuple[Any, ...], part: tuple[int, ...]) -> tuple[Any, ...]:
    return tuple(blocks[b] for b in part)
