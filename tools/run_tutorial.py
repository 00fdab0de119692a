"""Runs the blocks of the tutorial as a reader would, and keeps its outputs true.

``python tools/run_tutorial.py`` runs the Python blocks in an empty folder and compares
what they print with the page: the labels, not the numbers. ``--commands`` runs the
``sparsid`` lines too, which takes minutes. ``--write`` puts what was printed and drawn
into the page instead of comparing.
"""

import argparse
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

PAGE = Path(__file__).parents[1] / "docs" / "tutorial.md"
FENCE = re.compile(r"^```(?P<language>\w+)\n(?P<body>.*?)^```$", re.M | re.S)
PICTURE = re.compile(r"\((pictures/tutorial_(\w+\.png))\)")


class Block(NamedTuple):
    """A fenced block of a page, and where its body is."""

    language: str
    body: str
    start: int
    end: int


def blocks_of(page: str) -> list[Block]:
    """Return the fenced blocks of a page, in order."""
    return [
        Block(found["language"], found["body"], *found.span("body"))
        for found in FENCE.finditer(page)
    ]


def command_lines(page: str) -> list[list[str]]:
    """Return the arguments of every ``sparsid`` line in the shell blocks of a page."""
    shell = (block.body for block in blocks_of(page) if block.language == "sh")
    lines = (line for body in shell for line in body.split("\n"))
    return [
        shlex.split(line, comments=True)[1:]
        for line in lines
        if line.startswith("sparsid ")
    ]


def printed(page: str) -> list[tuple[Block, str]]:
    """Run the Python blocks of a page; return its output blocks and what was printed.

    A ``text`` block shows what the Python block before it prints.
    """
    names: dict[str, Any] = {"__name__": "tutorial"}
    shown, output = [], ""
    for block in blocks_of(page):
        if block.language == "text":
            shown.append((block, output))
        elif block.language == "python":
            # As many lines before as on the page, so that errors name its lines.
            line = page[: block.start].count("\n")
            code = compile("\n" * line + block.body, str(PAGE), "exec")
            with redirect_stdout(io.StringIO()) as stream:
                exec(code, names)
            output = stream.getvalue()
    return shown


def run_commands(page: str) -> None:
    """Run the ``sparsid`` lines of a page, by the code that runs its blocks."""
    import sparsid

    source = str(Path(sparsid.__file__).parents[1])
    for words in command_lines(page):
        print("$", shlex.join(["sparsid", *words]), flush=True)
        subprocess.run(
            [sys.executable, "-m", "sparsid.cli", *words],
            env={**os.environ, "PYTHONPATH": source},
            check=True,
        )


def labels(text: str) -> list[str]:
    """Return the first word of every line, of those that begin at the left."""
    return [line.split()[0] for line in text.splitlines() if line[:1].strip()]


def differences(shown: list[tuple[Block, str]]) -> list[str]:
    """Return where the page shows something else than what is printed."""
    return [
        f"the page shows\n{block.body}\nbut what is printed is\n{output}"
        for block, output in shown
        if labels(block.body) != labels(output)
    ]


def rewritten(page: str, shown: list[tuple[Block, str]]) -> str:
    """Return the page with what was printed."""
    for block, output in reversed(shown):
        page = page[: block.start] + output.rstrip() + "\n" + page[block.end :]
    return page


def main() -> int:
    """Run the tutorial; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commands", action="store_true", help="run these too")
    parser.add_argument("--write", action="store_true", help="renew the page")
    options = parser.parse_args()
    os.environ["MPLBACKEND"] = "Agg"
    page = PAGE.read_text(encoding="utf-8")
    home = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            shown = printed(page)
            if options.commands:
                run_commands(page)
            if options.write:
                PAGE.write_text(rewritten(page, shown), encoding="utf-8")
                for target, name in PICTURE.findall(page):
                    shutil.copy(name, PAGE.parent / target)
                return 0
        finally:
            os.chdir(home)
    found = differences(shown)
    print("\n".join(found), file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
