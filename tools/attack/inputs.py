"""Malformed inputs: every file is read, or refused in a few lines that say why.

A file that is fine is spoilt in its bytes, its cells, its header, its times or its
values, in three formats, and now and then the options are odd as well.
"""

from __future__ import annotations

import io
import json
import random
import shutil
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from attack.forks import Found, command, forked, judged

DONE, DIVERGED, REFUSED = 0, 1, 2
# A message is read by somebody: no longer than this.
LONGEST_MESSAGE, MOST_LINES = 4000, 10
# Share of the files that get a report, too.
REPORTED = 0.05

CELLS = (
    "", " ", "NaN", "nan", "inf", "-inf", "1e400", "1e200", "1e-400", "-", "--", "+",
    "=1+1", "@x", "1,5", "1.5.2", "#N/A", "#DIV/0!", "Bad Input", "0x10", "1_000",
    "1 000", "٣", "½", "١٢", "1e5e5", "true", "None", "null", "12:30:00", "03.04.2024",
    "2024-04-03", "2024-04-03T10:00:00Z", "31/12/2024 10:00", "é", "\x00", "\x1b[31m",
    '"', '"1', "'1'", "1;2", "1\t2", "x" * 140_000, "9" * 400, "1e99", "-1e101",
)  # fmt: skip
NAMES = (
    "$\\foo$", "<b>u</b>", "<script>alert(1)</script>", "=cmd|'/C calc'!A0", "+u", "-u",
    "@u", "", " ", "u", "y", "time", "t", "u,y", '"', "\x07", "a" * 5000, "uu\nyy", "é",
    "🙂", "{}", "%s", "../../x", "[red]u[/red]", "u [V]", "y [°C]", "u [", "1", "nan",
    "record", "part", "y free run", "\\", "\u202eu", "None",
)  # fmt: skip
OPTIONS: list[list[str]] = [
    ["--dt", "0"], ["--dt", "-1"], ["--dt", "nan"], ["--dt", "1e308"], ["--dt", "0.5"],
    ["--test-fraction", "0"], ["--test-fraction", "0.99"], ["--test-fraction", "1"],
    ["--test-fraction", "nan"], ["--separator", ";"], ["--separator", ""],
    ["--separator", "ab"], ["--decimal", ","], ["--time-column", "time"],
    ["--time-column", "u"], ["--time-column", "nothing"], ["--input", "u"],
    ["--input", "y"], ["--output", "time"], ["--no-input"], ["--states", "0"],
    ["--states", "101"], ["--states", "5"], ["--seed", "-1"], ["--budget", "0"],
    ["--budget", "1e-9"], ["--budget", "x"], ["--lags", "5"], ["--workers", "0"],
    ["--quiet"], ["--json"], ["--structure", "none"], ["--structure", "cascade"],
]  # fmt: skip


def case(seed: int, number: int) -> Found:
    """Try the input of a number."""
    rng = random.Random(f"input {seed} {number}")
    found = Found(f"input {seed}/{number}")
    room = Path(tempfile.mkdtemp(prefix="attack-"))
    folder = room / "here"
    folder.mkdir()
    try:
        name, data = spoilt(rng)
        (folder / name).write_bytes(data)
        arguments = _arguments(name, rng)
        ended = forked(command(arguments, folder), room)
        judged(found, ended, (DONE, DIVERGED, REFUSED))
        if ended.code == DIVERGED and "diverged" not in ended.out:
            found.blame("exit code", "1, but nothing diverged")
        _judge_message(found, ended)
        _judge_files(found, ended.code, folder, name)
        names = {DONE: "identified", DIVERGED: "diverged", REFUSED: "refused"}
        found.ended = names.get(ended.code, "failed")
    finally:
        shutil.rmtree(room, ignore_errors=True)
    return found


def _arguments(name: str, rng: random.Random) -> list[str]:
    found = ["identify", name, "--out", "out"]
    if rng.random() < 0.7:
        found += ["--input", "u", "--output", "y"]
    if rng.random() < 0.25:
        found += rng.choice(OPTIONS)
    if "--structure" not in found and "--lags" not in found:
        found += ["--structure", "linear"]
        found += ["--states", "2"] if "--states" not in found else []
    if "--budget" not in found and "--lags" not in found:
        found += ["--budget", "20s"]
    elif "--lags" in found:
        found += ["--hidden", "2", "--max-cycles", "2"]
    return found if rng.random() < REPORTED else [*found, "--no-report"]


def _judge_message(found: Found, ended: Any) -> None:
    lines = [li for li in ended.err.splitlines() if li.startswith("sparsid: ")]
    if ended.code == REFUSED and not lines and "Usage" not in ended.err:
        found.blame("message", f"none: {ended.err[-200:]!r}")
    if len(ended.err) > LONGEST_MESSAGE or ended.err.count("\n") > 5 * MOST_LINES:
        found.blame("message", f"{len(ended.err)} letters: {ended.err[:200]!r}")
    if any(len(line) > 80 * MOST_LINES for line in lines):
        found.blame("message", f"{max(map(len, lines))} letters: {lines[0][:200]!r}")
    if "\x1b" in "".join(lines) or "\x07" in "".join(lines):
        found.blame("message", f"control characters: {lines[0][:200]!r}")


def _judge_files(found: Found, code: int | None, folder: Path, name: str) -> None:
    here = sorted(p.name for p in folder.iterdir())
    if code in (DONE, DIVERGED):
        out = folder / "out"
        made = sorted(p.name for p in out.iterdir()) if out.exists() else []
        if {"model.sparsid", "predictions.csv", "result.json"} - set(made):
            found.blame("leftover", f"incomplete: {made}")
        elif code == DONE:
            _judge_scores(found, json.loads((out / "result.json").read_text()))
    elif here != [name]:
        found.blame("leftover", ", ".join(h for h in here if h != name))


def _judge_scores(found: Found, result: dict[str, Any]) -> None:
    """Blame a bad free run of which nothing is said."""
    for part, scores in result["scores"].items():
        errors = scores.get("model", {}).get("free_run", [])
        if any(e is None for e in errors) and not result["warnings"]:
            found.blame("not finite", f"{part}: an endless error without a word")


# -- files ---------------------------------------------------------------------------


def spoilt(rng: random.Random) -> tuple[str, bytes]:
    """Return name and content of a file with something wrong in it."""
    kind = rng.choice(("csv", "csv", "csv", "csv", "npz", "mat"))
    signals = _signals(rng)
    if rng.random() < 0.35:
        signals = _wrong_values(signals, rng)
    make = _table if kind == "csv" else partial(_archive, kind=kind)
    data = make(signals, rng=rng)
    if rng.random() < (0.1 if kind == "csv" else 0.3):
        data = _wrong_bytes(data, rng)
    ending = kind if rng.random() < 0.97 else rng.choice(("txt", "dat", "mat", "npz"))
    return f"data.{ending}", data


def _signals(rng: random.Random) -> dict[str, Any]:
    own = np.random.default_rng(rng.randrange(2**32))
    n = rng.choice((60, 160, 200, 240))
    u, y = own.normal(size=n), np.zeros(n)
    for t in range(1, n):
        y[t] = 0.8 * y[t - 1] + 0.5 * np.tanh(u[t - 1])
    return {"time": 0.5 * np.arange(n), "u": u, "y": y + 0.01 * own.normal(size=n)}


def _wrong_values(signals: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """Return signals that are no good for a fit, or hardly."""
    found = {k: v.copy() for k, v in signals.items()}
    key, n = rng.choice(("u", "y", "y", "time")), len(found["u"])
    v, at = found[key], rng.randrange(n)
    way = rng.randrange(14)
    if way == 0:
        v[:] = rng.choice((0.0, 1.0, np.nan, np.inf, 1e99, -1e-300))
    elif way == 1:
        v *= 10.0 ** rng.choice((-300, -100, 50, 99, 150, 300))
    elif way == 2:
        v[at] = rng.choice((np.nan, np.inf, -np.inf, 1e200, 1e99, 1e9))
    elif way == 3:
        v[rng.randrange(n) :] = np.nan
    elif way == 4:
        v[::2] = np.nan
    elif way == 5:
        v[:] = np.round(v)
    elif way == 6:
        v[:] = (np.arange(n) >= at).astype(float)
    elif way == 7:
        v[:] = np.exp(rng.choice((0.05, 0.5, 1.0)) * np.arange(n))
    elif way == 8:
        found["y"] = found["u"].copy()
    elif way == 9:
        v[:] = np.clip(v, -0.1, 0.1)
    elif way == 10:
        v[at:] += rng.choice((1e3, 4e6, 1e12))
    elif way == 11:
        v[:] = v[::-1]
    elif way == 12:
        found = {k: s[: rng.choice((0, 1, 2, 5, 29, 31))] for k, s in found.items()}
    else:
        v += rng.choice((1e6, 1e12, 1e15))
    return found


def _table(signals: dict[str, Any], rng: random.Random) -> bytes:
    """Return a table of text with wrong cells, names or forms."""
    separator = rng.choice((*",,,,;;\t\t", " ", "|"))
    header = list(signals)
    rows = [
        [repr(float(v)) for v in row] for row in zip(*signals.values(), strict=False)
    ]
    for _ in range(rng.choice((0, 1, 1, 2))):
        way = rng.randrange(9)
        if way <= 1 and rows:
            row = rng.choice(rows)
            row[rng.randrange(len(row))] = rng.choice(CELLS)
        elif way == 2 and rows:
            k, cell = rng.randrange(len(header)), rng.choice(CELLS)
            rows = [[*r[:k], cell, *r[k + 1 :]] for r in rows]
        elif way == 3:
            header[rng.randrange(len(header))] = rng.choice(NAMES)
        elif way == 4 and rows:
            row = rng.choice(rows)
            row[:] = rng.choice((row[:-1], [*row, "1"], [], [*row] * 50))
        elif way == 5:
            rows.insert(rng.randrange(len(rows) + 1), rng.choice((["[s]", "V", "K"],
                        ["# a note"], header, ["sep=;"], [""] * 3)))  # fmt: skip
        elif way == 6:
            header = rng.choice(([], header * 2, [*header, "more"], header[::-1]))
        elif way == 7:
            wide = rng.choice((30, 3000))
            header += [f"c{k}" for k in range(wide)]
            rows = [[*r, *["0"] * wide] for r in rows[: 20 if wide > 30 else None]]
        else:
            rows = [[_stamp(k, rng.randrange(5)), *r[1:]] for k, r in enumerate(rows)]
    lines = [separator.join(r) for r in ([header] if header else []) + rows]
    if rng.random() < 0.05:
        lines[:0] = ["Recorder 7, 3 April 2024", "Operator: =HYPERLINK()", ""]
    ending = rng.choice(("\n", "\n", "\r\n", "\r"))
    text = ending.join(lines) + ending * rng.choice((0, 1, 1, 5))
    code = rng.choice((*("utf-8",) * 8, "utf-8-sig", "utf-16", "latin-1"))
    return text.encode(code, errors="replace")


def _stamp(k: int, how: int) -> str:
    hour, minute, second = k // 3600, k // 60 % 60, k % 60
    return (
        f"{hour:02d}:{minute:02d}:{second:02d}",
        f"03/04/2024 {hour:02d}:{minute:02d}:{second:02d}",
        f"2024-04-03T{hour:02d}:{minute:02d}:{second:02d}+02:00",
        f"{k}",
        f"1.7e9{k}",
    )[how]


def _archive(signals: dict[str, Any], *, kind: str, rng: random.Random) -> bytes:
    """Return an archive with members of the wrong type, shape or name."""
    import scipy.io

    found: dict[str, Any] = dict(signals)
    key = rng.choice(list(found))
    v = found[key]
    way = rng.randrange(14)
    wrong = {
        0: lambda: v.astype("f4"),
        1: lambda: v.astype(complex) + 1j,
        2: lambda: np.array([str(x) for x in v]),
        3: lambda: v.reshape(1, -1),
        4: lambda: np.stack([v, v, v]),
        5: lambda: v[:-3],
        6: lambda: np.array(1.0),
        7: lambda: np.nan_to_num(v, posinf=0, neginf=0).clip(-1e9, 1e9).astype("i8"),
        8: lambda: np.zeros((2, 3, 4)),
        9: lambda: v.astype("M8[s]") if kind == "npz" else {"a": v},
        10: lambda: np.array([v, "x", v], dtype=object),
        11: lambda: np.zeros(0),
    }
    with np.errstate(all="ignore"):
        if way in wrong:
            found[key] = wrong[way]()
        elif way == 12:
            found[rng.choice(("x", "A" * 30, "arr_0"))] = found.pop(key)
    file = io.BytesIO()
    if kind == "npz":
        np.savez(file, **found)
    else:
        scipy.io.savemat(file, found, do_compression=rng.random() < 0.5)
    return file.getvalue()


def _wrong_bytes(data: bytes, rng: random.Random) -> bytes:
    body = bytearray(data)
    for _ in range(rng.choice((1, 1, 3, 20))):
        at, size = rng.randrange(len(body) + 1), rng.choice((1, 2, 8, 100))
        if rng.random() < 0.3:
            at = min(at, rng.randrange(200))
        way = rng.randrange(6)
        if way == 0 and at < len(body):
            body[at] = rng.randrange(256)
        elif way == 1:
            del body[at : at + size]
        elif way == 2:
            body[at:at] = rng.randbytes(size)
        elif way == 3:
            body[at:at] = body[at : at + size]
        elif way == 4:
            body[at : at + size] = b"\x00" * size
        elif rng.random() < 0.3:
            del body[at:]
    return bytes(body)
