"""The documentation: the site builds, opens offline, and shows what really runs."""

import importlib.util
import inspect
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
import typer

import sparsid
from sparsid import datasets, plots
from sparsid.cli.app import app

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
LINK = re.compile(r"\]\(([^)\s]+)\)")


def tool(name: str) -> Any:
    """Return a module of the folder tools."""
    path = ROOT / "tools" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(*command: str, **environment: str) -> None:
    done = subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


class Page(HTMLParser):
    """The names, links and loaded files of an HTML page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: set[str] = set()
        self.loaded: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(
        self, tag: str, attributes: list[tuple[str, str | None]]
    ) -> None:
        given = {name: value or "" for name, value in attributes}
        self.ids |= {given["id"]} if "id" in given else set()
        if tag == "a":
            self.links |= {given["href"]} if "href" in given else set()
        else:
            self.loaded |= {given[k] for k in ("src", "href") if k in given}


def test_the_site_builds_and_opens_offline(tmp_path: Path) -> None:
    # Not --quiet: warnings that are not shown do not count as such.
    build = ("-m", "mkdocs", "build", "--strict")
    run(*build, "--site-dir", str(tmp_path), NO_MKDOCS_2_WARNING="1")
    built = {path: Page(path) for path in tmp_path.rglob("*.html")}
    for source in PAGES:
        page = source.relative_to(ROOT / "docs").with_suffix(".html")
        assert tmp_path / page in built
    for path, page in built.items():
        for address in page.loaded:
            assert urlsplit(address)[:2] == ("", ""), f"{path} loads {address}"
        for address in page.links | page.loaded:
            parts = urlsplit(address)
            # The page of a server for wrong addresses has links from its root.
            if parts.scheme or not parts.path or path.name == "404.html":
                continue
            assert (path.parent / unquote(parts.path)).exists(), f"{path}: {address}"
    for sheet in tmp_path.rglob("*.css"):
        text = sheet.read_text(encoding="utf-8")
        assert not re.search(r"(url\(|@import)\s*['\"]?\s*(https?:)?//", text), sheet
    named = set().union(*(page.ids for page in built.values()))
    missing = sorted(set(public_names()) - named)
    assert not missing, f"add ::: and these names to a page of docs/api: {missing}"
    formulas = (tmp_path / "method.html").read_text(encoding="utf-8")
    assert "<math" in formulas
    assert "\\lVert" not in formulas


def public_names() -> Iterator[str]:
    """Yield all names that users may rely on."""
    modules = {"plots": plots, "datasets": datasets}
    yield from (f"sparsid.{name}" for name in sparsid._HOMES if name not in modules)
    for module in modules.values():
        for name, value in vars(module).items():
            ours = getattr(value, "__module__", "").startswith(module.__name__)
            public = inspect.isfunction(value) or inspect.isclass(value)
            if public and ours and not name.startswith("_"):
                yield f"{module.__name__}.{name}"


@pytest.mark.slow
def test_the_tutorial_runs_and_prints_what_it_shows() -> None:
    run(
        *("-W", "error", str(ROOT / "tools" / "run_tutorial.py")),
        PYTHONPATH=str(ROOT / "src"),
        JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS="0.1",
    )


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", *PAGES], ids=lambda p: str(p.relative_to(ROOT))
)
def test_commands_on_a_page_are_known(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for words in tool("run_tutorial").command_lines(text):
        command, context = typer.main.get_command(app), None
        while True:
            # Reads the options and refuses unknown ones, without running anything.
            context = command.make_context(command.name, list(words), parent=context)
            if not hasattr(command, "resolve_command"):
                break
            rest = [*context._protected_args, *context.args]
            _, command, words = command.resolve_command(context, rest)


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_of_pages_outside_the_site_lead_somewhere(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for address in LINK.findall(text):
        if not urlsplit(address).scheme:
            assert (ROOT / urlsplit(address).path).exists(), address


def test_every_parameter_has_its_own_type_in_the_reference() -> None:
    text = """Return something.

    Parameters
    ----------
    first, second
        Both of
        these.
    third
        Another.

    Notes
    -----
    one, two
        stay.
    """
    text = inspect.cleandoc(text)
    own = "first\n    Both of\n    these.\nsecond\n    Both of\n    these.\n"
    shared = "first, second\n    Both of\n    these.\n"
    assert tool("split_parameters").split(text) == text.replace(shared, own)


def test_an_outdated_output_of_the_tutorial_is_noticed() -> None:
    tutorial = tool("run_tutorial")
    page = "```python\nprint('error', 1 + 1)\n```\n\n```text\nerror 3\n```\n"
    shown = tutorial.printed(page)
    assert not tutorial.differences(shown)
    assert tutorial.rewritten(page, shown) == page.replace("3", "2")
    assert tutorial.differences(tutorial.printed(page.replace("error 3", "mean 3")))
