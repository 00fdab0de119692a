"""Tables (CSV, Markdown) and figures (PNG, SVG) from a store, finished or not.

Nothing but the store is read, so a report can be made again where the data are not.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from sparsid.data.whole_file import whole_file
from sparsid.studies import figures, prediction, published, simulation, verdicts
from sparsid.studies.comparators import COMPARATORS
from sparsid.studies.store import Store

# Different errors that a report lists.
MOST_FAILURES = 20


@dataclass(frozen=True)
class Report:
    """What was written, and what it says about the figures to reach.

    Attributes
    ----------
    verdicts
        One sentence for each.
    failed
        Number of trials that were answered with an error.
    """

    files: list[Path]
    verdicts: list[str]
    failed: int


def write_report(store: Store, out: Path) -> Report:
    """Write tables, figures and the export of a study into a folder."""
    out.mkdir(parents=True, exist_ok=True)
    rows = store.rows()
    page = _Page(store, out, rows)
    parts = {prediction.NAME: _prediction, simulation.NAME: _simulation}
    found = parts[store.study.name](page)
    if found:
        page.section("Against the figures to reach")
        page.text(*(f"- {line}" for line in found))
    failed = _failures(page, rows)
    name = store.study.name
    notes = out / f"{name}_notes.md"
    if notes.is_file():
        page.section("What was tried")
        page.text(notes.read_text().strip())
    page.files.append(store.export(out / f"{name}_trials.csv"))
    with whole_file(out / f"{name}.md") as part:
        part.write_text("\n".join(page.lines))
    return Report([*page.files, out / f"{name}.md"], found, failed)


@dataclass
class _Page:
    """A Markdown page under way, and the files that go with it."""

    store: Store
    out: Path
    rows: list[dict[str, Any]]
    lines: list[str] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)

    def text(self, *lines: str) -> None:
        self.lines += [*lines, ""]

    def section(self, title: str) -> None:
        self.text(f"## {title}")

    def table(self, frame: pd.DataFrame, name: str | None = None) -> None:
        """Show a table, and write it as CSV if it has a name."""
        self.text(markdown(frame))
        if name is not None:
            path = self.out / f"{self.store.study.name}_{name}.csv"
            with whole_file(path) as part:
                frame.to_csv(part, index=False, float_format="%.6g")
            self.files.append(path)

    def picture(self, figure: Any) -> None:
        name = self.store.study.name
        self.files += figures.save(figure, self.out / name)
        self.text(f"![{name}]({name}.png)")


# -- the two studies -----------------------------------------------------------------


def _prediction(page: _Page) -> list[str]:
    settings = page.store.study.settings
    fits = prediction.fits_frame(page.rows)
    _head(page, "Prediction study", prediction.FULL, f"{len(fits)} fits")
    if fits.empty:
        page.text("No fit has been answered yet.")
        return []
    errors = prediction.errors_table(fits)
    kept = prediction.kept_table(fits)
    paired = prediction.paired_table(fits)
    baselines = pd.DataFrame(
        [r for r in page.rows if r["kind"] == "baseline" and "error" not in r],
        columns=["ratio", "test_rmse_arx", "test_rmse_persistence"],
    )
    page.text(
        "Errors are one step ahead on the test record, in V, over the samples from "
        "the largest lag on; *over all samples* divides by their full number, as the "
        "paper does. *Paper's way* is the best repeat on the test record. *Fair* are "
        "mean and median over repeats, and the one repeat chosen inside the estimation "
        "record: by evidence for sparse Bayes, by the cost of the fit for the others."
    )
    page.picture(figures.prediction_figure(errors, baselines))
    page.section("Errors")
    page.table(errors, "errors")
    page.section("Simple predictors")
    page.table(baselines.sort_values("ratio"), "baselines")
    page.section("Share of weights kept, in per cent, mean over repeats")
    page.table(kept, "kept")
    page.section("Sparse Bayes against the others, paired by repeat")
    page.text(
        "Mean difference in V (positive: sparse Bayes has the smaller error) with a "
        "95 % bootstrap interval over repeats."
    )
    page.table(paired, "paired")
    page.section("Strengths, chosen on rotating blocks of the estimation record")
    page.table(prediction.strengths_table(page.rows, settings["strengths"]))
    page.section("What it took, in seconds")
    page.table(prediction.cost_table(page.rows), "cost")
    if not _comparable(settings, prediction.FULL):
        return []
    return verdicts.prediction_verdicts(errors, kept, paired)


def _simulation(page: _Page) -> list[str]:
    settings = page.store.study.settings
    runs = simulation.runs_frame(page.rows)
    _head(page, "Simulation study", simulation.FULL, f"{len(runs)} networks")
    page.text(
        "Free runs over the test record of networks trained on the one-step error; "
        "errors in V. Protocol A: no test output is used, all samples are scored. B: "
        "the first outputs start the run, the rest is scored; *over all samples* "
        "counts those first outputs as free of error, as the paper does. C: scored "
        "from sample 50 on. *Paper's way* is the best repeat on the test record. "
        "*Fair* are mean and median over repeats, the one chosen inside the estimation "
        "record (by evidence for sparse Bayes, by cost without regularisation), and "
        "the one with the best free run over the estimation record. Means are over the "
        "runs that did not diverge."
    )
    measured = [r for r in page.rows if r["kind"] == "measured" and "error" not in r]
    if measured and not runs.empty:
        truth = measured[0]
        page.picture(figures.simulation_figure(runs, truth["time"], truth["measured"]))
    page.section("Comparison (published figures: protocols as their authors chose)")
    page.table(simulation.comparison_table(page.rows), "comparison")
    compared = {r["name"] for r in page.rows if r["kind"] == "compare"}
    left_out = [name for name in COMPARATORS if name not in compared]
    if left_out:
        page.text(
            f"Not run: {', '.join(left_out)}. Those of other packages need "
            "`pip install sparsid[peers]`."
        )
    if runs.empty:
        page.text("No network has been answered yet.")
        return []
    table = simulation.runs_table(runs)
    page.section("All protocols")
    page.table(table, "runs")
    if not _comparable(settings, simulation.FULL):
        return []
    return verdicts.simulation_verdicts(table)


def _comparable(settings: dict[str, Any], full: dict[str, Any]) -> bool:
    """Return whether the paper's data and network were used."""
    same = all(settings[name] == full[name] for name in ("lags", "hidden"))
    return same and settings["dataset"] == published.DATASET


def _head(page: _Page, title: str, full: dict[str, Any], count: str) -> None:
    store, settings = page.store, page.store.study.settings
    facts, rows = store.facts(), page.rows
    titles = [str(r["title"]) for r in rows if "title" in r]
    inputs = 2 * settings["lags"] + 1
    widths = "-".join(map(str, [inputs, *settings["hidden"], 1]))
    days = sorted(str(r["finished"])[:10] for r in rows) or [""]
    span = days[0] if days[0] == days[-1] else f"{days[0]} to {days[-1]}"
    hours = sum(r["seconds"] for r in rows) / 3600.0
    page.text(f"# {title}")
    page.text(
        f"{(titles or [settings['dataset']])[0]}; network {widths} "
        f"({settings['activation']}), lag {settings['lags']}; {count}, seeds 0, 1, "
        f"...; {hours:.2f} hours of trials. `{facts['command']}`, sparsid "
        f"{facts['version']}, engine {store.study.engine}, study {store.study.key}, "
        f"{span}."
    )
    if not _comparable(settings, full):
        page.text(
            "**Not the paper's data or network (a quick run, or simulated tanks): its "
            "figures are shown for orientation only.**"
        )


def _failures(page: _Page, rows: list[dict[str, Any]]) -> int:
    """List what failed; return how many trials did."""
    what = ("kind", "method", "prior", "name", "ratio")
    counts = Counter(
        (", ".join(str(r[k]) for k in what if k in r), str(r["error"]))
        for r in rows
        if "error" in r
    )
    if counts:
        page.section("Trials that failed")
        shown = [
            {"trials": n, "which": which, "error": error}
            for (which, error), n in counts.most_common(MOST_FAILURES)
        ]
        page.table(pd.DataFrame(shown))
        if len(counts) > MOST_FAILURES:
            page.text(f"... and {len(counts) - MOST_FAILURES} other errors.")
    return sum(counts.values())


def markdown(table: pd.DataFrame) -> str:
    """Return a table in Markdown, numbers with four digits."""
    if table.empty:
        return "(nothing yet)"

    def cell(value: Any) -> str:
        if isinstance(value, float):
            return "" if math.isnan(value) else f"{value:.4g}"
        return str(value).replace("|", "\\|").replace("\n", " ")

    rows = [list(table.columns), *table.itertuples(index=False)]
    lines = ["| " + " | ".join(cell(v) for v in row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(table.columns), *lines[1:]])
