"""One table of the speed: against rivals, against the machine, and how it grows.

    python benchmarks/speed.py --out docs/results/speed.json

Nothing is measured here: it gathers what `rivals/run.py`, `limit.py`, `growth.py` and
`start_up.py` have left in `docs/results`, each figure beside its aim. A Markdown file
of the same name is written beside the JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent / "rivals"))

from tables import table

RESULTS = Path(__file__).parents[1] / "docs" / "results"
Row = dict[str, Any]


def row(what: str, value: float, unit: str, aim: str, reached: bool, note: str) -> Row:
    """Return a line of the table."""
    return {
        "what": what,
        "value": value,
        "unit": unit,
        "aim": aim,
        "reached": reached,
        "note": note,
    }


def one_step(found: list[Row]) -> list[Row]:
    """Return times of one start of the rendering over sparsid's."""
    rows = []
    for at in found:
        errors = at["sparsid_one_step_rmse"], at["rival_one_step_rmse"]
        ratio = at["warm_cpu_ratio"]
        rows.append(
            row(
                f"PyTorch, a start of {at['network']}: CPU time over sparsid's",
                ratio,
                "x",
                "at least 10, error no worse",
                ratio >= 10 and errors[0] <= errors[1],
                f"one step {errors[0]:.4f} against {errors[1]:.4f} V",
            )
        )
    return rows


def free_run(found: Row) -> list[Row]:
    """Return rates of starts trained on the free run over those of the rendering."""
    own, rows = found["sparsid_free_run_B_rmse"], []
    for name, what, error in (
        ("free_run_projected", "trained on its free run", "B_rmse_at_measured_epochs"),
        ("one_step_small", "39-10-10-10-1 trained one step ahead", None),
        ("one_step_wide", "11-100-100-1 trained one step ahead", None),
    ):
        ratio = found[f"ratio_to_{name}"]
        theirs = found[
            f"rival_free_run_{error}" if error else f"rival_{name}_free_run_B_rmse"
        ]
        rows.append(
            row(
                f"starts of StateSpace per CPU minute over PyTorch, {what}",
                ratio,
                "x",
                "at least 50, less than half the error",
                ratio >= 50 and own < theirs / 2,
                f"free run {own:.3f} against {theirs:.3f} V",
            )
        )
    return rows


def packages(found: list[Row]) -> list[Row]:
    """Return times of other packages over those of a few starts of sparsid."""
    (ours,) = (r for r in found if r["model"] == "sparsid.StateSpace(starts=4), warm")
    rows = []
    for theirs in found:
        name = theirs["model"]
        if name.startswith("sparsid") or "one start" in name:
            continue
        errors = ours["free_run_B_rmse"], theirs["free_run_B_rmse"]
        ratio = theirs["cpu_seconds"] / ours["cpu_seconds"]
        rows.append(
            row(
                f"{name}: CPU time over that of StateSpace(starts=4)",
                ratio,
                "x",
                "more than 1, at a lower error",
                ratio > 1 and errors[0] < errors[1],
                f"free run {errors[0]:.3f} against {errors[1]:.3f} V",
            )
        )
    return rows


def evidence(found: list[Row]) -> list[Row]:
    """Return times of laplace-torch over that of the Gram form."""
    return [
        row(
            f"{at['package']}: CPU time of the evidence over sparsid's",
            at["ratio"],
            "x",
            "at least 10" if at["exact"] else "",
            at["ratio"] >= 10,
            "exact, gives the same evidence" if at["exact"] else "approximate",
        )
        for at in found
        if at["ratio"] is not None and "laplace" in at["package"]
    ]


def limits(found: list[Row]) -> list[Row]:
    """Return times over their bounds, the Gram form and the sweep of many members."""
    rows = []
    for at in found:
        cores = f"{at['cores']} core{'s' * (at['cores'] > 1)}"
        ratio = at["gram"]["ratio"]
        rows.append(
            row(
                f"evidence in Gram form over its bound, {cores}",
                ratio["cpu"],
                "x",
                "at most 2",
                max(ratio.values()) <= 2,
                f"CPU; wall {ratio['wall']:.1f}",
            )
        )
        sweep = at["sweep"][-1]
        what = (
            f"sensitivity sweep of {sweep['members']} members over its bound, {cores}"
        )
        rows.append(row(what, sweep["ratio"]["cpu"], "x", "", False, "CPU"))
    return rows


def growths(found: Row) -> list[Row]:
    """Return what a million samples take, and how time grows."""
    million = found["samples"]["rows"][-1]
    rows = [
        row(
            f"identification from {million['count']:,} samples".replace(",", " "),
            million["seconds"],
            "s",
            "at most 300 s and 2 GB",
            million["seconds"] <= 300 and million["peak_gb"] <= 2,
            f"{million['peak_gb']:.2f} GB, compilation included",
        )
    ]
    for what, growth in found.items():
        linear = what == "rows"
        slope = growth["exponents"]["seconds"]
        form = growth["rows"][-1].get("form")
        rows.append(
            row(
                f"time grows with {what} to the power of",
                slope,
                "",
                "1" if linear else "",
                linear and slope < 1.1,
                "between the last two points" + (f", {form} form" if form else ""),
            )
        )
    return rows


def start_ups(found: list[Row]) -> list[Row]:
    """Return the times that have a bar."""
    return [
        row(
            f"`{at['what']}`",
            at["wall_seconds"],
            "s",
            f"under {at['bar_seconds']:g} s",
            at["wall_seconds"] < at["bar_seconds"],
            "wall, warm disk",
        )
        for at in found
        if at["bar_seconds"] is not None
    ]


def markdown(rows: list[Row]) -> str:
    """Return the table; what has no aim is neither reached nor missed."""
    body = [
        [
            r["what"],
            f"{r['value']:.3g} {r['unit']}".strip(),
            r["aim"],
            ("yes" if r["reached"] else "**no**") if r["aim"] else "",
            r["note"],
        ]
        for r in rows
    ]
    return table(["", "measured", "aim", "reached", ""], body)


def main() -> None:
    """Gather, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()

    def read(name: str) -> Any:
        return json.loads((RESULTS / f"{name}.json").read_text())

    rivals = read("rivals")["summary"]
    rows = [
        *one_step(rivals["one_step"]),
        *free_run(rivals["free_run"]),
        *packages(rivals["packages"]),
        *evidence(rivals["evidence"]),
        *limits(read("limit")),
        *growths(read("growth")["growth"]),
        *start_ups(read("start_up")["start_up"]),
    ]
    print(markdown(rows))
    if options.out:
        options.out.write_text(json.dumps({"rows": rows}, indent=2) + "\n")
        options.out.with_suffix(".md").write_text("# Speed\n\n" + markdown(rows))


if __name__ == "__main__":
    main()
