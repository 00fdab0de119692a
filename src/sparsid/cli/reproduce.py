"""``sparsid reproduce``: the paper's two experiments, trial by trial.

Nothing heavy is imported before a command runs.
"""

from __future__ import annotations

import math
import shlex
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparsid.cli.terminal import STOPPED, notes, results_console, side_console
from sparsid.errors import InputError
from sparsid.results.texts import clock as clock

if TYPE_CHECKING:
    from rich.console import Console

    from sparsid.studies.runner import Run, Standing
    from sparsid.studies.store import Store

CONTINUE = """
Every trial is kept as it ends: Ctrl-C loses those under way alone, and the same command
continues.

[bold]Examples[/]
"""
PREDICTION = f"""
One-step errors of four methods against the share of the record used.
{CONTINUE}
sparsid reproduce prediction --quick

sparsid reproduce prediction --repeats 20 --out results
"""
SIMULATION = f"""
Free runs of sparse and plain networks beside other models.
{CONTINUE}
sparsid reproduce simulation --quick

sparsid reproduce simulation --report
"""
# Seconds between lines where the output is no terminal.
LINE_EVERY = 10.0
EXIT_CODES = "[bold]Exit codes[/]: 0 done, 2 bad input, 130 stopped by Ctrl-C."

studies = typer.Typer(
    help="Run the paper's experiments.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)

Ratios = Annotated[
    str | None,
    typer.Option(
        help="Shares of the estimation record, with commas. By default 0.05, 0.1, 0.2, "
        "... 1; with --quick 0.1,0.5,1.",
        show_default=False,
    ),
]
Methods = Annotated[
    str | None,
    typer.Option(
        help="With commas: none, ridge, group-lasso, sparse-bayes. By default all.",
        show_default=False,
    ),
]
Variants = Annotated[
    str | None,
    typer.Option(
        "--methods",
        help="With commas: shape, row, column (the priors of sparse Bayes), none, "
        "free-run (a state-space model trained on the free run). By "
        "default all.",
        show_default=False,
    ),
]
Repeats = Annotated[
    int | None,
    typer.Option(
        help="Fits of each kind. By default 50 for prediction and 20 for simulation; "
        "with --quick 2.",
        min=1,
        show_default=False,
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        help="Trials at once, one core each. By default all cores, here or of the "
        "cluster.",
        min=1,
        show_default=False,
    ),
]
Scheduler = Annotated[
    str | None,
    typer.Option(
        help="Address of a Dask scheduler, as in tcp://host:8786: its workers do the "
        "trials. By default processes of this computer do.",
        show_default=False,
    ),
]
Quick = Annotated[
    bool, typer.Option("--quick", help="A small network, few repeats: minutes.")
]
Dataset = Annotated[
    str | None,
    typer.Option(
        help="cascaded-tanks or simulated-tanks. By default the first if it is to be "
        "had, else the second.",
        show_default=False,
    ),
]
Out = Annotated[Path, typer.Option(help="Folder for trials, tables and figures.")]
OnlyReport = Annotated[
    bool,
    typer.Option("--report", help="Write the report of what is in the folder already."),
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")]


@dataclass(frozen=True)
class Request:
    """What the user asked for of any study; see the options of the commands."""

    repeats: int
    workers: int | None
    scheduler: str | None
    quick: bool
    dataset: str | None
    out: Path
    report: bool
    quiet: bool


@studies.command(help=PREDICTION, epilog=EXIT_CODES)
def prediction(
    repeats: Repeats = None,
    ratios: Ratios = None,
    methods: Methods = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
    quick: Quick = False,
    dataset: Dataset = None,
    out: Out = Path("sparsid-reproduce"),
    report: OnlyReport = False,
    quiet: Quiet = False,
) -> None:
    """Run the prediction study."""
    from sparsid.studies import prediction as study
    from sparsid.studies import published

    count = repeats or (study.QUICK_REPEATS if quick else study.REPEATS)
    usual = study.QUICK_RATIOS if quick else published.RATIOS
    shares = _numbers(ratios) if ratios is not None else list(usual)
    names = _words(methods) if methods is not None else list(study.METHODS)
    study.check(names, shares)

    def work(store: Store, run: Run) -> None:
        study.work(store, run, names, shares, count)

    request = Request(count, workers, scheduler, quick, dataset, out, report, quiet)
    raise typer.Exit(reproduce(study, request, work))


@studies.command(help=SIMULATION, epilog=EXIT_CODES)
def simulation(
    repeats: Repeats = None,
    methods: Variants = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
    quick: Quick = False,
    dataset: Dataset = None,
    out: Out = Path("sparsid-reproduce"),
    report: OnlyReport = False,
    quiet: Quiet = False,
) -> None:
    """Run the simulation study."""
    from sparsid.studies import simulation as study

    count = repeats or (study.QUICK_REPEATS if quick else study.REPEATS)
    names = _words(methods) if methods is not None else list(study.VARIANTS)
    study.check(names)

    def work(store: Store, run: Run) -> None:
        study.work(store, run, names, count)

    request = Request(count, workers, scheduler, quick, dataset, out, report, quiet)
    raise typer.Exit(reproduce(study, request, work))


# -- running and reporting -----------------------------------------------------------

Work = Callable[["Store", "Run"], None]


def reproduce(study: Any, request: Request, work: Work) -> int:
    """Run what is missing of a study and write its report; return the exit code.

    Parameters
    ----------
    study
        The module of the study: its name and settings.
    work
        Calls its second argument with a name and specs, once for each part.
    """
    from sparsid.studies.store import FILE, Store, Study

    console, path = side_console(request.quiet), request.out / FILE
    with notes(console):
        if request.report:
            dataset = request.dataset or "cascaded-tanks"
            settings = study.settings(dataset, quick=request.quick)
            wanted = Study.present(study.NAME, settings)
            store = Store.existing(path, wanted)
            if store.study.key != wanted.key:
                console.print(
                    f"The folder has no {study.NAME} study of these settings by the "
                    f"present engine: this is the report of its latest one "
                    f"({store.study.key}).",
                    soft_wrap=True,
                )
        else:
            settings = study.settings(_dataset(request), quick=request.quick)
            store = Store.open(path, Study.present(study.NAME, settings))
            store.note_command(_command())
            if not _run(store, request, work, console):
                return STOPPED
    _report(store, request)
    return 0


def _dataset(request: Request) -> str:
    """Return the name of the dataset asked for, or else of one that is to be had."""
    from sparsid import datasets

    if request.dataset is None:
        return datasets.default().name
    return datasets.load(request.dataset).name


def _run(store: Store, request: Request, work: Work, console: Console) -> bool:
    """Run the study; return whether it came to its end."""
    from sparsid.studies.runner import pool_for_trials, run_trials

    dataset, path = store.study.settings["dataset"], store.path
    try:
        with (
            pool_for_trials(store, request.workers, request.scheduler) as pool,
            StudyProgress(console) as progress,
        ):
            cores = "1 core" if pool.size == 1 else f"{pool.size} cores"
            place = f" at {request.scheduler}" if request.scheduler else ""
            console.print(
                f"Study {store.study.key} on {dataset}, {request.repeats} repeats, "
                f"{cores}{place}; trials are kept in {path}",
                markup=False,
                soft_wrap=True,
            )

            def run(part: str, specs: list[Any], later: Any = None) -> None:
                progress.begin(part)
                run_trials(store, specs, pool, watch=progress, later=later)

            work(store, run)
    except KeyboardInterrupt:
        count = len(store.rows())
        print(
            f"stopped: {count} answered trials are kept in {path}; the same command "
            "continues, --report shows what there is",
            file=sys.stderr,
        )
        return False
    return True


def _report(store: Store, request: Request) -> None:
    from sparsid.studies.report import write_report

    written = write_report(store, request.out)
    if request.quiet:
        return
    console = results_console()
    for line in written.verdicts:
        console.print(line.replace("**", ""), markup=False, soft_wrap=True)
    if written.failed:
        failed = f"{written.failed} trials failed: see the report"
        console.print(failed, style="yellow")
    for path in written.files:
        console.print(f"written: {path}", markup=False, soft_wrap=True)


class StudyProgress:
    """Shows how far a study is: a bar on a terminal, lines elsewhere."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._part, self._began = "", time.monotonic()
        self._line_at = -math.inf
        self._latest: Standing | None = None
        self._live: Any = None

    def __enter__(self) -> StudyProgress:
        if self.console.is_terminal and not self.console.quiet:
            from rich.live import Live

            self._live = Live(
                console=self.console, get_renderable=self._line, transient=True
            )
            self._live.__enter__()
        return self

    def __exit__(self, *reason: Any) -> None:
        if self._live is not None:
            self._live.__exit__(*reason)

    def begin(self, part: str) -> None:
        """Begin another part of the study."""
        self._part, self._latest, self._line_at = part, None, -math.inf

    def __call__(self, standing: Standing) -> None:
        """Take in how far the part is."""
        self._latest = standing
        ended = standing.done == standing.total
        now = time.monotonic() - self._began
        if self._live is None and (ended or now - self._line_at > LINE_EVERY):
            self._line_at = now
            self.console.print(self.text(), soft_wrap=True)

    def _line(self) -> Any:
        from rich.spinner import Spinner

        if not hasattr(self, "_spinner"):
            self._spinner = Spinner("dots")
        self._spinner.update(text=self.text())
        return self._spinner

    def text(self) -> str:
        """Return the state of the study in one line."""
        elapsed = clock(time.monotonic() - self._began)
        if self._latest is None:
            return f"preparing, {elapsed}"
        p = self._latest
        parts = [f"{self._part}, {p.done} of {p.total} trials", elapsed]
        if p.failed:
            parts.append(f"{p.failed} failed")
        if p.seconds_left:
            parts.append(f"about {clock(p.seconds_left)} left")
        return " · ".join(parts)


# -- options -------------------------------------------------------------------------


def _words(text: str) -> list[str]:
    words = [part.strip() for part in text.split(",") if part.strip()]
    if not words:
        raise InputError("--methods is empty: give names with commas, or leave it out")
    return list(dict.fromkeys(words))


def _numbers(text: str) -> list[float]:
    try:
        found = sorted({float(part) for part in text.split(",") if part.strip()})
    except ValueError:
        found = []
    if not found:
        raise InputError(
            f"--ratios {text!r}: give numbers with commas, as in 0.05,0.5,1"
        )
    return found


def _command() -> str:
    """Return the command as it was typed."""
    return shlex.join(["sparsid", *sys.argv[1:]])
