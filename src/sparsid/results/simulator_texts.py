"""What a summary says of the structure of members in the canonical form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sparsid.kernel.activations import NAMES
from sparsid.results.nearest import compact_text
from sparsid.results.texts import Row

if TYPE_CHECKING:
    from sparsid.results.simulator import FittedSimulator


def structure_rows_of(fitted: FittedSimulator) -> list[Row]:
    """Return the lines about structure, delays and neurons."""
    structures = [m.structure for m in fitted.members]
    # Pruned members may differ in what they still have.
    kinds = dict.fromkeys(k for s in structures for k in s.kinds.tolist())
    neurons = ", ".join(
        f"{ends_text([int((s.kinds == k).sum()) for s in structures])} {NAMES[k]}"
        for k in kinds
    )
    rows = [
        ("kind", fitted.name),
        ("states", ends_text([s.sizes.states for s in structures])),
        ("neurons", neurons or "none: a linear model"),
    ]
    if any(fitted.delays):
        late = zip(fitted.channels.input_names, fitted.delays, strict=True)
        texts = [f"{name} {d} samples" for name, d in late]
        rows.append(("dead time", ", ".join(texts)))
    rows.append(("kept", _counts_text(fitted)))
    price = compact_text(fitted)
    return [*rows, ("compact", price)] if price else rows


def ends_text(counts: Sequence[int]) -> str:
    """Return a number that members have, or the ends, such as "2 to 4"."""
    low, high = min(counts), max(counts)
    return f"{low}" if low == high else f"{low} to {high}"


def _counts_text(fitted: FittedSimulator) -> str:
    """Return how many weights members have, and how many all of them."""
    counts = fitted.weight_counts
    if len(counts) == 1:
        return fitted.kept_text()
    same = len({*counts}) == 1
    ends = f"{counts[0]} each" if same else f"{min(counts)} to {max(counts)}"
    return (
        f"{fitted.kept_text()} (median; members {ends}); "
        f"{fitted.weights_in_common} in common"
    )
