"""Why a candidate was chosen, in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def reason(chosen: Any, linear_error: float, tried: Sequence[Any], why: str) -> str:
    """Return in a sentence or two why a model was taken.

    Parameters
    ----------
    chosen
        The trial that was taken; None for the linear model.
    tried
        All trials, each with a ``name`` and a held-out error ``rms``.
    why
        Why nothing else was to be taken, if that was decided beforehand.
    """
    if why:
        return why
    others = sorted((t for t in tried if t.everywhere), key=lambda t: t.rms)
    if chosen is None:
        if not others:
            return "the linear model is taken: there was no time to try another"
        best = others[0]
        return (
            f"the linear model is taken: {best.name}, the best of {len(others)} "
            f"candidates with neurons, has {best.rms:.3f} against {linear_error:.3f} "
            "and is not clearly better"
        )
    text = f"the chosen candidate has {chosen.rms:.3f} against {linear_error:.3f} of"
    text += " the linear model"
    better = [t for t in others if t.rms < chosen.rms and t is not chosen]
    full = [t for t in better if t.name + ", pruned" == chosen.name]
    rest = [t for t in better if t not in full]
    if full:
        text += f"; it has fewer weights than before pruning and {full[0].rms:.3f}"
    if rest:
        listed = " and ".join(f"{t.rms:.3f}" for t in rest[:3])
        are = "is" if len(rest) == 1 else "are"
        text += f"; {listed} {are} not clearly better in all blocks, for more weights"
    elif not full:
        text += ", the smallest held-out error of all"
    return text
