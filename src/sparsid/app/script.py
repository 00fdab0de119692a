"""Everything that was done on the page, as a script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pprint import pformat
from typing import Any

from sparsid.app import operations
from sparsid.app.recipe import Recipe, file_arguments, held_back

HEAD = '''"""What was done in sparsid's app, step by step.

Run it in the folder of the session, or give that folder: python script.py FOLDER
"""

import sys
from pathlib import Path

import sparsid
from sparsid.data.files import read_records

FOLDER = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
'''


def script(models: Sequence[Mapping[str, Any]], recipe: Recipe) -> str:
    """Return the script of a session.

    Parameters
    ----------
    models
        Finished models: ``id``, ``name``, ``settings``, ``recipe``, and ``stopped`` if
        the clock or a person ended the fit.
    recipe
        The data as they are now, for a session without models.
    """
    lines = [HEAD]
    recipes: list[Recipe] = []
    for model in models:
        if model["recipe"] not in recipes:
            recipes.append(model["recipe"])
    for number, used in enumerate(recipes or [recipe], 1):
        lines += _data(used, "" if len(recipes) < 2 else f"_{number}")
    if models:
        lines += ["", "# -- models", "", "models, tests = {}, {}"]
    for model in models:
        number = recipes.index(model["recipe"]) + 1
        lines += _model(model, "" if len(recipes) < 2 else f"_{number}")
    if models:
        lines += [
            "",
            "# -- errors over the test part, in the unit of each output",
            "for name, model in models.items():",
            "    found = sparsid.diagnose(model, tests[name]).scores",
            '    print(name, "simulation", found["free_run"]["rmse"])',
            '    print(name, "prediction", found["one_step"]["rmse"])',
        ]
    return "\n".join(lines) + "\n"


def _data(recipe: Recipe, suffix: str) -> list[str]:
    lines = ["", f"# -- data{suffix.replace('_', ' ')}", "", "records = []"]
    for entry in recipe["files"]:
        arguments = file_arguments(entry)
        lines.append("records += read_records(")
        lines.append(f'    FOLDER / "uploads" / {entry["stored"]!r},')
        for name, value in arguments.items():
            shown = pformat(value, width=70, compact=True).replace("\n", "\n    ")
            lines.append(f"    {name}={shown},")
        lines.append(")")
    lines += [operations.line(step) for step in recipe["steps"]]
    return [*lines, *_split(recipe["split"], suffix)]


def _split(split: Mapping[str, Any], suffix: str) -> list[str]:
    estimation, test = f"estimation{suffix}", f"test{suffix}"
    if "fraction" in split:
        if not split["fraction"]:
            return [f"{estimation}, {test} = records, records"]
        return [
            f"parts = [record.split({split['fraction']!r}) for record in records]",
            f"{estimation} = [first for first, _ in parts]",
            f"{test} = [last for _, last in parts]",
        ]
    lines = [f"{estimation}, {test} = [], []"]
    numbers = {r for r, _, _ in split["ranges"]}
    held = {k: held_back(split, k, 2**62) for k in sorted(numbers)}
    lines += [
        f"held_back = {held!r}",
        "for k, record in enumerate(records):",
        "    at = 0",
        "    for first, stop in held_back.get(k, []):",
        "        stop = min(stop, len(record))",
        "        if first > at:",
        f"            {estimation}.append(record[at:first])",
        f"        {test}.append(record[first:stop])",
        "        at = stop",
        "    if at < len(record):",
        f"        {estimation}.append(record[at:])",
    ]
    return lines


def _model(model: Mapping[str, Any], suffix: str) -> list[str]:
    name = model["name"]
    lines = ["", f"name = {name!r}"]
    call = f"sparsid.{fit_call(model['settings'], f'estimation{suffix}')}"
    if model["stopped"]:
        lines += [
            "# This fit was ended early: repeating it may get further, or less far.",
            "# The model as it was found is in its file; made by:",
            f"# {call}",
            f'models[name] = sparsid.load(FOLDER / "models" / {model["id"]!r} / '
            '"model.sparsid")',
        ]
    else:
        lines.append(f"models[name] = {call}")
    return [*lines, f"tests[name] = test{suffix}"]


def fit_call(settings: Mapping[str, Any], records: str) -> str:
    """Return the call that fits a model, without the name of the library."""
    given = {k: v for k, v in settings.items() if v is not None}
    if set(given) <= {"structure", "budget", "seed"} and given["structure"] == "auto":
        rest = "".join(f", {k}={given[k]!r}" for k in ("budget", "seed") if k in given)
        return f"identify({records}{rest})"
    texts = ", ".join(f"{k}={v!r}" for k, v in given.items())
    return f"Simulator({texts}).fit({records})"
