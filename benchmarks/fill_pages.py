"""Fill the tables of the documentation's pages from the results.

    python benchmarks/fill_pages.py

Each table stands between ``<!-- table: name -->`` and ``<!-- end -->``; that of the
public benchmarks, which several pages have, between ``<!-- public -->`` and the same.
"""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parent / "rivals"))

from candidates import chosen
from public import table as public_table
from speed import markdown as speed_table
from tables import (
    evidence_table,
    free_run_table,
    one_step_table,
    packages_table,
    table,
)

DOCS = Path(__file__).parents[1] / "docs"
PAGES = ("performance.md", "uncertainty.md", "free_run.md", "use.md")
# Pages with the table of the public benchmarks.
PUBLIC = (DOCS.parent / "README.md", DOCS / "linear_first.md", DOCS / "gallery.md")


def missing(found: dict[str, Any]) -> str:
    """Return what was not run, and what failed and why."""
    names = [f"- `{name}`: not run\n" for name in found["not_run"]]
    failures = [f"- `{f['job']}`: {f['failed']}\n" for f in found["failures"]]
    return "".join(names + failures) or "Nothing.\n"


def limit(found: list[dict[str, Any]]) -> str:
    """Return the table of times against their bounds."""
    body = []
    for row in found:
        at, cores = row["gram"], str(row["cores"])
        body.append(_limit("evidence in Gram form", cores, at))
        for sweep in row["sweep"]:
            name = f"sensitivity sweep, members: {sweep['members']}"
            body.append(_limit(name, cores, sweep))
    head = ["", "cores", "bound, CPU [ms]", "CPU [ms]", "ratio, CPU", "ratio, wall"]
    return table(head, body)


def _limit(name: str, cores: str, at: Any) -> list[str]:
    return [
        name,
        cores,
        f"{1e3 * at['bound_seconds']['cpu']:.3g}",
        f"{1e3 * at['measured']['cpu_seconds']:.3g}",
        f"{at['ratio']['cpu']:.1f}",
        f"{at['ratio']['wall']:.1f}",
    ]


def pieces(found: list[dict[str, Any]]) -> str:
    """Return where the time of the Gram form goes, on one core."""
    at = found[0]["gram"]
    bound, apart = at["bound_seconds_by_piece"]["cpu"], at["pieces"]
    both = bound["gram_products"] + bound["cotangents"]
    bounds = {**bound, "gram_products_and_cotangents": both}
    body = [
        [
            name.replace("_", " "),
            f"{1e3 * bounds[name]:.1f}",
            f"{1e3 * took['cpu_seconds']:.1f}",
        ]
        for name, took in apart.items()
    ]
    whole = f"{1e3 * at['measured']['cpu_seconds']:.1f}"
    body.append(["whole evaluation", f"{1e3 * at['bound_seconds']['cpu']:.1f}", whole])
    rates = at["rates"]["cpu"]
    passing = f"{1e3 * rates['elementwise_pass_seconds']:.1f}"
    body.append(["one elementwise product of two such matrices", "", passing])
    product, cholesky = (f"{rates[k] / 1e9:.1f}" for k in ("product", "cholesky"))
    body.append([f"rates: product {product}, Cholesky {cholesky} Gflop/s", "", ""])
    return table(["one core, CPU", "bound [ms]", "measured [ms]"], body)


def start_up(found: dict[str, Any]) -> str:
    """Return the table of start-up times."""
    body = [
        [
            f"`{row['what']}`",
            f"{row['wall_seconds']:.2f}",
            f"{row['cpu_seconds']:.2f}",
            "" if row["bar_seconds"] is None else f"{row['bar_seconds']:g}",
        ]
        for row in found["start_up"]
    ]
    return table(["", "wall [s]", "CPU [s]", "bar [s]"], body)


def compilations(found: dict[str, Any]) -> str:
    """Return the table of compilations."""
    body = [
        [
            row["model"],
            str(row["cycles"]),
            str(sum(row["compilations_by_cycle"])),
            str(row["compilations_after"]),
        ]
        for row in found["compilations"]
    ]
    after = found["compilations"][0]["settled_after_cycle"]
    return table(["", "cycles", "compilations", f"after cycle {after}"], body)


def growth(found: dict[str, Any]) -> str:
    """Return time and memory at every point, and how they grow at the end."""
    body = []
    for what, measured in found["growth"].items():
        slopes = measured["exponents"]
        for row in measured["rows"]:
            last = row is measured["rows"][-1]
            body.append(
                [
                    what,
                    f"{row['count']:,}".replace(",", " "),
                    row.get("form", ""),
                    f"{row['seconds']:.3g}",
                    f"{row['peak_gb']:.2f}",
                    f"{slopes['seconds']:.2f}" if last else "",
                ]
            )
    return table(["", "", "form", "seconds", "peak GB", "last slope"], body)


def calibration(found: dict[str, Any]) -> str:
    """Return what the bands hold, by model, forecast and kind of band."""
    body = []
    for entry in found["summary"]:
        inside = [f"{entry[f'inside_{level}']:.1f}" for level in (0.5, 0.8, 0.9, 0.95)]
        names = [entry[key] for key in ("model", "forecast", "bands")]
        figures = [f"{entry['width_0.9']:.3f}", f"{entry['factor']:.2f}"]
        scores = [f"{entry['crps']:.4f}", f"{entry['nll']:.2f}"]
        body.append([*names, *inside, *figures, *scores])
    head = ["", "forecast", "bands", "50 %", "80 %", "90 %", "95 %"]
    return table([*head, "width [V]", "factor", "CRPS [V]", "-log density"], body)


def systems(found: dict[str, Any]) -> str:
    """Return the automatic mode against the linear model, system by system."""
    body = [
        [
            row["system"],
            row["chosen"],
            f"{row['error']:.4f}",
            f"{row['linear']:.4f}",
            f"{row['ratio']:.3f}",
        ]
        for row in found["rows"]
    ]
    return table(["", "chosen", "automatic mode", "linear ARX", "ratio"], body)


def members(found: dict[str, Any]) -> str:
    """Return errors over held-out blocks by rule for poor members, seed by seed."""
    rows = found["rows"]
    seeds = sorted({row["seed"] for row in rows})
    body = []
    for rule in dict.fromkeys(row["rule"] for row in rows):
        own = [row for row in rows if row["rule"] == rule]
        kept, errors, means = (
            [row[key] for row in own] for key in ("kept", "held_out", "mean_of_members")
        )
        body.append(
            [
                "all members" if "none" in rule else f"{rule} member",
                f"{sum(kept) / len(kept):.0f}",
                *(f"{error:.3f}" for error in errors),
                f"{sum(errors) / len(errors):.3f}",
                f"{sum(means) / len(means):.3f}",
            ]
        )
    head = ["kept up to", "members", *(f"seed {seed} [V]" for seed in seeds)]
    return table([*head, "mean [V]", "mean of members [V]"], body)


def blocks(found: dict[str, Any]) -> str:
    """Return errors over held-out blocks and band factors, seed by seed."""
    rows, body = found["rows"], []
    for kind in dict.fromkeys((row["blocks"], row["starts"]) for row in rows):
        own = [row for row in rows if (row["blocks"], row["starts"]) == kind]
        for key, name in (
            ("held_out", "error [V]"),
            ("free_run_factor", "factor"),
            ("pooled_factor", "factor, pooled"),
        ):
            if key in own[0]:
                values = [f"{row[key]:.3f}" for row in own]
                body.append([*map(str, kind), name, *values])
    seeds = sorted({row["seed"] for row in rows})
    return table(["blocks", "starts", "", *(f"seed {seed}" for seed in seeds)], body)


def stacking(found: dict[str, Any]) -> str:
    """Return errors over held-out blocks of structures and of their mean, by seed."""
    rows = found["rows"]
    names = list(dict.fromkeys(row["structure"] for row in rows))
    seeds = sorted({row["seed"] for row in rows})
    body = []
    for name in names:
        errors = [row["held_out"] for row in rows if row["structure"] == name]
        mean = sum(errors) / len(errors)
        body.append([name, *(f"{error:.3f}" for error in errors), f"{mean:.3f}"])
    return table(["", *(f"seed {seed} [V]" for seed in seeds), "mean [V]"], body)


def candidates(found: dict[str, Any]) -> str:
    """Return errors of structures on held-out blocks and tests, medians over seeds."""
    rows = found["rows"]
    kinds = list(dict.fromkeys((r["states"], r["neurons"], r["prior"]) for r in rows))

    def cell(own: list[dict[str, Any]]) -> str:
        pair = (median(r[key] for r in own) for key in ("held_out", "test"))
        return " / ".join(f"{value:.3g}" for value in pair)

    body = []
    for record in dict.fromkeys(r["record"] for r in rows):
        here = [r for r in rows if r["record"] == record]
        cells = [
            cell([r for r in here if (r["states"], r["neurons"], r["prior"]) == kind])
            for kind in kinds
        ]
        seeds = dict.fromkeys(r["seed"] for r in here)
        by_seed = [[r for r in here if r["seed"] == seed] for seed in seeds]
        cells += [cell([chosen(own, pooled) for own in by_seed]) for pooled in (1, 0)]
        body.append([record, *cells])
    names = [f"{n}, {m}" + ", shape" * (p == "shape") for n, m, p in kinds]
    return table(["", *names, "by 5 % alone", "as chosen"], body)


def draws(found: dict[str, Any]) -> str:
    """Return the time of posterior free runs."""
    count = f"{found['draws']} runs of {found['samples']} samples [s]"
    body = [
        [
            name,
            f"{found[name]['seconds']:.2f}",
            f"{found[name]['seconds_without_draws']:.4f}",
        ]
        for name in ("narx", "state-space")
    ]
    return table(["", count, "one run, no draws [s]"], body)


def waiting(found: dict[str, Any]) -> str:
    """Return how long an identification takes, by the size of the record."""
    body = [
        [
            f"{row['samples']:,}".replace(",", " "),
            f"{row['inputs']} to {row['outputs']}",
            f"{row['linear_seconds']:.0f}",
            f"{row['seconds']:.0f}",
        ]
        for row in found["rows"]
    ]
    cores = f"{found['cores']} cores"
    head = ["samples", "inputs to outputs", f"linear model, {cores} [s]", "whole [s]"]
    return table(head, body)


# By result file: the tables of the pages, and what makes them.
TABLES: dict[str, dict[str, Callable[[Any], str]]] = {
    "calibration_tanks": {"tanks": calibration},
    "calibration_simulated_states": {"simulated, states": calibration},
    "calibration_simulated_narx": {"simulated, NARX": calibration},
    "draws": {"draws": draws},
    "free_run_members": {"members": members},
    "free_run_blocks": {"blocks": blocks},
    "free_run_blocks_shape": {"blocks, shape": blocks},
    "stacking": {"stacking": stacking},
    "candidates": {"candidates": candidates},
    "free_run_systems": {"systems": systems},
    "rivals": {
        "one step": lambda found: one_step_table(found["summary"]["one_step"]),
        "free run": lambda found: free_run_table(found["summary"]["free_run"]),
        "packages": lambda found: packages_table(found["summary"]["packages"]),
        "evidence": lambda found: evidence_table(found["summary"]["evidence"]),
        "not run": lambda found: missing(found["summary"]),
    },
    "speed": {"speed": lambda found: speed_table(found["rows"])},
    "limit": {"limit": limit, "pieces": pieces},
    "growth": {"growth": growth},
    "waiting": {"waiting": waiting},
    "start_up": {"start-up": start_up, "compilations": compilations},
}


def main() -> None:
    """Rewrite the pages."""
    made: dict[str, str] = {}
    for name, tables in TABLES.items():
        path = DOCS / "results" / f"{name}.json"
        found = json.loads(path.read_text()) if path.is_file() else None
        for title, build in tables.items():
            made[title] = "Not measured yet.\n" if found is None else build(found)
    pages = {page: page.read_text() for page in (DOCS / name for name in PAGES)}
    for name, content in made.items():
        pattern = rf"(<!-- table: {name} -->\n).*?(<!-- end -->)"
        count = 0
        for page, text in pages.items():
            pages[page], times = re.subn(
                pattern,
                lambda found, content=content: f"{found[1]}\n{content}\n{found[2]}",
                text,
                flags=re.DOTALL,
            )
            count += times
        if count != 1:
            raise SystemExit(f"{count} places for the table {name!r} in {PAGES}")
    for page, text in pages.items():
        page.write_text(text)
    fill_public()


def fill_public() -> None:
    """Write the table of the public benchmarks into all pages that have it."""
    path = DOCS / "results" / "public.json"
    if not path.is_file():
        return
    content = public_table(json.loads(path.read_text()))
    for page in PUBLIC:
        text, times = re.subn(
            r"(<!-- public -->\n).*?(<!-- end -->)",
            lambda found: f"{found[1]}\n{content}\n\n{found[2]}",
            page.read_text(),
            flags=re.DOTALL,
        )
        if times != 1:
            raise SystemExit(f"{times} places for the public benchmarks in {page}")
        page.write_text(text)


if __name__ == "__main__":
    main()
