"""sparsid and its rivals side by side: one run, one table.

    python benchmarks/rivals/run.py --out docs/results/rivals.json

Every rival gets an environment of its own, built with venv and pip and kept in a folder
for the next run. One that cannot be installed or fails is reported as such. All read
the same CSV, run alone and one after the other, rivals and sparsid in turn, round after
round with another seed; times are wall and CPU seconds (user and system, children
included). A Markdown table is written next to the JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tables import markdown, number, summary

HERE = Path(__file__).parent
# For sparsid under development as well as installed.
SOURCE = HERE.parents[1] / "src"
TORCH = "torch==2.13.0"
# Of one core each, unless a job is there to show what more do.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "NPROC": "1"}

Row = dict[str, Any]


@dataclass(frozen=True)
class Environment:
    """What pip installs for a rival, and what it takes out again."""

    packages: tuple[str, ...]
    removed: tuple[str, ...] = ()


ENVIRONMENTS = {
    "torch": Environment((TORCH, "numpy")),
    # torchvision comes along for examples, in a build that need not match torch's.
    "laplace-torch": Environment((TORCH, "laplace-torch==0.3"), ("torchvision",)),
    "jax-sysid": Environment(("jax-sysid==1.1.0",)),
    "sysidentpy": Environment(("sysidentpy==0.9.0", "numpy<2.4", TORCH)),
}


@dataclass(frozen=True)
class Job:
    """A script with its arguments, and in how many rounds it takes part.

    ``environment`` None is sparsid's own, run twice with one folder for compiled
    programs: empty first, then filled.
    """

    name: str
    script: str
    arguments: tuple[str, ...]
    environment: str | None = None
    rounds: int = 99
    variables: dict[str, str] = field(default_factory=lambda: dict(ONE_THREAD))


SMALL = ("--lag", "19", "--hidden", "10", "10", "10")
WIDE = ("--lag", "5", "--hidden", "100", "100")


def jobs(quick: bool) -> list[Job]:
    """Return what is run in each round, rivals and sparsid in turn."""
    epochs = ("--epochs", "2") if quick else ()
    free_run = ("--cycles", "1", "--epochs", "2" if quick else "20")
    once = ("--fits", "1")
    laplace = ("laplace_evidence.py", "laplace-torch")

    def torch(name: str, *more: str, rounds: int = 99, threads: str = "1") -> Job:
        arguments = (*more, "--threads", threads)
        variables = ONE_THREAD if threads == "1" else {}
        return Job(
            name, "torch_procedure.py", arguments, "torch", rounds, dict(variables)
        )

    def evidence(structure: str, backend: str, rounds: int = 99) -> Job:
        arguments = ("--structure", structure, "--backend", backend, "--threads", "1")
        if structure == "full":
            # The covariance of all weights takes minutes more.
            arguments += ("--repetitions", "1", "--evidence-only")
        return Job(
            f"laplace-{structure}-{backend}",
            laplace[0],
            (*WIDE, *arguments),
            laplace[1],
            rounds,
        )

    def ours(name: str, *more: str, rounds: int = 99) -> Job:
        return Job(name, "sparsid_side.py", more, rounds=rounds)

    def sysidentpy(model: str, rounds: int = 99) -> Job:
        return Job(
            f"sysidentpy-{model}",
            "sysidentpy_models.py",
            ("--model", model),
            "sysidentpy",
            rounds,
        )

    return [
        torch("torch-wide", *WIDE, *epochs),
        ours("sparsid-wide", "--what", "narx", *WIDE, *once),
        torch("torch-small", *SMALL, *epochs),
        ours("sparsid-small", "--what", "narx", *SMALL, *once),
        # Ended early: what the rendering's error takes.
        ours("sparsid-short", "--what", "narx", *SMALL, *once, "--max-cycles", "30"),
        evidence("gp", "backpack"),
        ours("sparsid-evidence", "--what", "evidence", *WIDE),
        evidence("kron", "backpack"),
        Job(
            "jax-sysid",
            "jax_sysid_model.py",
            ("--starts", "1" if quick else "4"),
            "jax-sysid",
        ),
        ours("sparsid-states", "--what", "state-space", *once),
        # As many starts as jax-sysid has.
        ours("sparsid-few", "--what", "state-space", "--starts", "4", *once),
        sysidentpy("polynomial"),
        torch("torch-free-run", *SMALL, *free_run, "--objective", "free-run", rounds=1),
        evidence("full", "backpack", rounds=1),
        evidence("full", "curvlinops", rounds=1),
        sysidentpy("neural", rounds=1),
        torch("torch-small-two-threads", *SMALL, *epochs, rounds=1, threads="2"),
        torch("torch-wide-two-threads", *WIDE, *epochs, rounds=1, threads="2"),
    ]


# -- environments --------------------------------------------------------------------


def build(name: str, folder: Path) -> str | None:
    """Build an environment unless it is there; return what went wrong, if anything."""
    wanted, home = ENVIRONMENTS[name], folder / name
    mark = home / "installed.json"
    content = json.dumps([wanted.packages, wanted.removed, platform.python_version()])
    if mark.is_file() and mark.read_text() == content:
        return None
    shutil.rmtree(home, ignore_errors=True)
    home.parent.mkdir(parents=True, exist_ok=True)
    steps = [
        [sys.executable, "-m", "venv", str(home)],
        [str(python_of(name, folder)), "-m", "pip", "install", *wanted.packages],
    ]
    if wanted.removed:
        pip = [str(python_of(name, folder)), "-m", "pip"]
        steps.append([*pip, "uninstall", "--yes", *wanted.removed])
    for step in steps:
        done = subprocess.run(step, capture_output=True, text=True)
        if done.returncode:
            lines = (done.stderr or done.stdout).strip().splitlines()
            errors = [line for line in lines if line.startswith("ERROR")] or lines
            return f"not installed: {(errors or ['no message'])[-1]}"
    mark.write_text(content)
    return None


def python_of(name: str, folder: Path) -> Path:
    """Return the interpreter of an environment."""
    return folder / name / "bin" / "python"


# -- running -------------------------------------------------------------------------


def run(
    command: list[str], variables: dict[str, str], limit: float
) -> tuple[Row, dict[str, float]]:
    """Run a script; return its result, or how it failed, and what the process took."""
    began, children = time.perf_counter(), os.times()
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            env={**os.environ, **variables},
            timeout=limit,
        )
    except subprocess.TimeoutExpired:
        return {"failed": f"not finished after {limit:.0f} s"}, {}
    after = os.times()
    took = {
        "wall_seconds": time.perf_counter() - began,
        "cpu_seconds": after.children_user
        + after.children_system
        - children.children_user
        - children.children_system,
    }
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        said = done.stderr.strip().splitlines() or ["no message"]
        return {"failed": f"exit {done.returncode}: {said[-1][:200]}"}, took
    result: Row = json.loads(lines[-1])
    return result, took


def take_part(job: Job, round_: int, data: Path, folder: Path, limit: float) -> Row:
    """Run a job once; sparsid's twice, with an empty and a filled folder."""
    arguments = ["--data", str(data), "--seed", str(round_), *job.arguments]
    head = {"job": job.name, "round": round_}
    if job.environment:
        command = [str(python_of(job.environment, folder)), str(HERE / job.script)]
        result, took = run(command + arguments, job.variables, limit)
        return {**head, **result, "process": took}
    command = [sys.executable, str(HERE / job.script), *arguments]
    path = os.pathsep.join(p for p in (str(SOURCE), os.environ.get("PYTHONPATH")) if p)
    with tempfile.TemporaryDirectory() as cache:
        variables = {**job.variables, "SPARSID_CACHE": cache, "PYTHONPATH": path}
        cold, cold_took = run(command, variables, limit)
        if "failed" in cold:
            return {**head, **cold, "process": cold_took}
        again, again_took = run(command, variables, limit)
    return {
        **head,
        **again,
        "cold": {k: cold[k] for k in ("rows", *_FIRSTS) if k in cold},
        "process": again_took,
        "cold_process": cold_took,
    }


_FIRSTS = ("first_evidence", "first_posterior")

# -- the command ---------------------------------------------------------------------


def main() -> None:
    """Build, run, compare, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="JSON; the table goes next to it")
    parser.add_argument("--data", type=Path, help="CSV; default: the benchmark")
    parser.add_argument("--environments", type=Path, help="default: in the cache")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--only", nargs="+", help="names of jobs")
    parser.add_argument(
        "--taken", type=Path, nargs="+", default=[], help="JSON of runs that stopped"
    )
    parser.add_argument("--limit", type=float, default=1800.0, help="seconds for a job")
    parser.add_argument("--quick", action="store_true", help="to see that it runs")
    options = parser.parse_args()
    from sparsid.parallel.cache import cache_folder

    folder = options.environments or cache_folder() / "rivals"
    chosen = [
        j for j in jobs(options.quick) if not options.only or j.name in options.only
    ]
    broken = {}
    for name in sorted({job.environment for job in chosen if job.environment}):
        problem = build(name, folder)
        if problem:
            broken[name] = problem
        print(f"environment {name}: {problem or 'ready'}", flush=True)
    with tempfile.TemporaryDirectory() as place:
        data = options.data or _written(Path(place, "data.csv"))
        rows: list[Row] = [
            row
            for path in options.taken
            for row in json.loads(path.read_text())["rows"]
        ]
        done = {(row["job"], row["round"]) for row in rows}
        _write(options, rows)
        for round_ in range(options.rounds):
            for job in chosen:
                if round_ >= job.rounds or (job.name, round_) in done:
                    continue
                if job.environment in broken:
                    problem = broken[job.environment]
                    row = {"job": job.name, "round": round_, "failed": problem}
                else:
                    row = take_part(job, round_, data, folder, options.limit)
                rows.append(row)
                took = number((row.get("process") or {}).get("cpu_seconds"), 1)
                said = row.get("failed") or f"{took} CPU s"
                print(f"round {round_}, {job.name}: {said}", flush=True)
                _write(options, rows)
    print("\n" + markdown(summary(rows)))


def _written(path: Path) -> Path:
    """Write the benchmark's records to a CSV that every script reads."""
    from common import Data, write

    import sparsid

    tanks = sparsid.datasets.load("cascaded-tanks")
    record, test = tanks.estimation, tanks.reveal_test()
    write(path, Data(record.u[:, 0], record.y[:, 0], test.u[:, 0], test.y[:, 0]))
    return path


def _write(options: argparse.Namespace, rows: list[Row]) -> None:
    """Write what there is so far: a run of many minutes may be stopped."""
    if not options.out:
        return
    options.out.parent.mkdir(parents=True, exist_ok=True)
    found = summary(rows, [job.name for job in jobs(options.quick)])
    result = {
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "quick": options.quick,
        "load_average": os.getloadavg()[0],
        "summary": found,
        "rows": rows,
    }
    options.out.write_text(json.dumps(result, indent=2) + "\n")
    options.out.with_suffix(".md").write_text(markdown(found))


if __name__ == "__main__":
    main()
