"""``python -m attack``: everything at once, one table.

The seed is the time of the day unless it is given: nobody has looked at it before.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from attack import inputs, kills, model_files
from attack.forks import Found, Tally, command, forked, lanes

KINDS = (
    "crash", "traceback", "hang", "exit code", "leftover", "lost", "mixture",
    "message", "not finite", "harness",
)  # fmt: skip


def main() -> int:
    """Attack, print the table; return 1 if anything was found."""
    wanted = _arguments()
    print(f"seed {wanted.seed}", flush=True)
    # Once, here: children are forked with everything loaded.
    for name in ("matplotlib.pyplot", "scipy.io", "sparsid.cli.identify"):
        importlib.import_module(name)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="attack-") as name:
        tallies = _attack(wanted, Path(name))
    for tally in tallies:
        for case, kind, why in tally.examples[:20]:
            print(f"{case}: {kind}: {why}")
    print(table(tallies))
    print(f"{(time.monotonic() - began) / 60:.0f} min, {os.cpu_count()} cores")
    return int(any(tally.wrong for tally in tallies))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="attack", description=__doc__)
    parser.add_argument("--seed", type=int, default=int(time.time()) % 1_000_000)
    parser.add_argument("--inputs", type=int, default=1000)
    parser.add_argument("--models", type=int, default=1000)
    parser.add_argument("--kinds", nargs="*", default=[])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--studies", type=int, default=2)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    return parser.parse_args()


def _attack(wanted: argparse.Namespace, folder: Path) -> list[Tally]:
    seed, workers = wanted.seed, wanted.workers
    tallies = []
    if wanted.inputs:
        found = lanes(lambda k: inputs.case(seed, k), wanted.inputs, workers)
        tallies.append(_counted("malformed inputs", found))
    if wanted.models:
        home = folder / "models"
        home.mkdir()
        made = forked(
            lambda: model_files.bases(home, wanted.kinds) and 0, folder, patience=900.0
        )
        if made.code:
            raise SystemExit(f"no models to attack: {made.err[-500:]}")
        files = [p.read_bytes() for p in sorted(home.iterdir())]
        found = lanes(
            lambda k: model_files.case(files, seed, k), wanted.models, workers
        )
        tallies.append(_counted("hostile model files", found))
    if wanted.kills:
        path = kills.data(folder)
        usual = {kind: _duration(path, kind, folder) for kind in kills.KINDS}
        print(", ".join(f"{k} {s:.0f} s" for k, s in usual.items()), flush=True)
        found = lanes(
            lambda k: kills.identify_case(path, usual, seed, k), wanted.kills, 1
        )
        tallies.append(_counted("kills of identify", found))
    if wanted.studies:
        trials = kills.undisturbed(folder / "undisturbed")
        cases = (
            kills.study_case(trials, folder, seed, k) for k in range(wanted.studies)
        )
        tallies.append(_counted("kills of reproduce", cases))
    return tallies


def _duration(path: Path, kind: str, folder: Path) -> float:
    room = folder / f"whole-{kind}"
    room.mkdir()
    ended = forked(
        command(kills.arguments(path, kind), room), room, memory=8 << 30, patience=900.0
    )
    if ended.code:
        raise SystemExit(f"{kind} fails by itself: {ended.err[-500:]}")
    return ended.seconds


def _counted(name: str, cases: Iterable[Found]) -> Tally:
    tally, began = Tally(name), time.monotonic()
    for found in cases:
        tally.add(found)
        if found.wrong:
            print(json.dumps([found.name, found.wrong]), flush=True)
    minutes = (time.monotonic() - began) / 60
    print(f"{name}: {tally.cases} cases in {minutes:.1f} min", file=sys.stderr)
    return tally


def table(tallies: list[Tally]) -> str:
    """Return what was found, as a table in Markdown."""
    head = ["attack", "cases", "ended", *KINDS, "slowest"]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for tally in tallies:
        ends = ", ".join(f"{count} {end}" for end, count in tally.ends.most_common())
        cells = [tally.name, tally.cases, ends, *(tally.wrong[kind] for kind in KINDS)]
        cells.append(f"{tally.slowest:.1f} s")
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
