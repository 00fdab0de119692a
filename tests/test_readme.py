"""The first screen of the README runs as it stands."""

import re
from pathlib import Path
from typing import Any

import pytest

import sparsid

TEXT = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def test_the_first_screen_says_how_to_install_and_begin() -> None:
    screen = "\n".join(TEXT.splitlines()[:25])
    assert re.search(r"^pip install ", screen, re.MULTILINE)
    assert re.search(r"^sparsid identify ", screen, re.MULTILINE)
    assert "python -m sparsid" in screen


def test_the_python_snippets_run_as_they_stand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def quick(*data: Any, verbose: bool) -> sparsid.Simulator:
        # The search alone takes long; what it returns is the same kind of object.
        assert verbose
        return sparsid.Simulator("linear", states=2).fit(*data)

    monkeypatch.setattr(sparsid, "identify", quick)
    snippets = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    assert snippets
    for snippet in snippets:
        exec(compile(snippet, "README.md", "exec"), {})
    assert {path.name for path in tmp_path.iterdir()} == {
        "controller",
        "report.html",
        "tanks.sparsid",
    }
