"""The page in a real browser: `make test-browser`, with Chromium on this computer."""

import io
import json
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from app_server import Running, running

pytestmark = pytest.mark.browser

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
SHOWN = ".chart[data-ready]"
# Milliseconds that a fit may take on a busy computer.
PATIENCE = 300_000


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    found = shutil.which("chromium") or shutil.which("google-chrome")
    assert found, "install Chromium: apt-get install chromium"
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=found, args=ARGUMENTS)
        yield started
        started.close()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Running]:
    with running(tmp_path / "pump.session", largest_file=100_000_000) as found:
        yield found


class Watched:
    """A page, and what it must not do: complain, or ask other places."""

    def __init__(self, browser: Any, server: Running, **settings: Any) -> None:
        self.context = browser.new_context(accept_downloads=True, **settings)
        self.page = self.context.new_page()
        self.page.set_default_timeout(60_000)
        self.faults: list[str] = []
        self.page.on("console", lambda m: self._heard(m.type, m.text))
        self.page.on("pageerror", lambda e: self.faults.append(str(e)))
        self.page.on("request", lambda r: self._asked(r.url, server.port))
        self.page.goto(f"http://127.0.0.1:{server.port}/#{server.token}")

    def _heard(self, kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            self.faults.append(text)

    def _asked(self, url: str, port: int) -> None:
        inside = (f"http://127.0.0.1:{port}/", "blob:", "data:")
        if not url.startswith(inside):
            self.faults.append(f"asked {url}")

    def saved(self, button: str) -> bytes:
        """Return the file that a button saves."""
        with self.page.expect_download(timeout=PATIENCE) as found:
            self.page.click(button)
        return Path(found.value.path()).read_bytes()

    def close(self) -> None:
        self.context.close()
        assert self.faults == []


@pytest.fixture
def watched(browser: Any, server: Running) -> Iterator[Watched]:
    found = Watched(browser, server, viewport={"width": 1280, "height": 900})
    yield found
    found.close()


def table(
    path: Path, samples: int = 400, names: str = "voltage [V],level [cm]"
) -> Path:
    rng = np.random.default_rng(2)
    u = np.repeat(rng.uniform(1, 5, samples // 8 + 1), 8)[:samples]
    y = np.full(samples, 3.0)
    for t in range(1, samples):
        y[t] = 0.9 * y[t - 1] + 0.25 * np.sqrt(u[t - 1]) + 0.005 * rng.normal()
    rows = [f"{2 * t},{u[t]:.4f},{y[t]:.5f},{t % 3}" for t in range(samples)]
    path.write_text(f"time [s],{names},extra\n" + "\n".join(rows))
    return path


def test_from_a_file_to_a_script_with_the_same_numbers(
    watched: Watched, server: Running, tmp_path: Path
) -> None:
    page = watched.page
    assert page.url.endswith("/"), "the token is taken out of the address"
    page.set_input_files("#file", table(tmp_path / "pump.csv"))
    page.wait_for_selector(SHOWN)
    # A column that is no input is corrected.
    extra = page.get_by_label("role of extra")
    assert extra.input_value() == "input"
    extra.select_option("ignore")
    page.wait_for_selector(".fact >> text=voltage")
    assert page.locator(".fact b").first.inner_text() == "voltage"

    # A range is dragged and cut, a trend taken away and brought back.
    page.click("#to-prepare")
    page.wait_for_selector(SHOWN)
    page.click("text=Drag chooses")
    box = page.locator(".chart canvas").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.2, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.8, box["y"] + 70, steps=6)
    page.mouse.up()
    assert 100 < float(page.input_value("#from")) < float(page.input_value("#to")) < 700
    page.click("#keep")
    page.wait_for_selector(".chip >> text=kept")
    page.click("text=Remove mean or trend")
    page.click("#do-detrend")
    page.click('button[aria-label="undo: without its mean"]')
    page.locator(".chip").nth(2).wait_for(state="detached")

    # Two models: one to its end, one stopped.
    page.click("#to-identify")
    page.click("#advanced")
    page.select_option("#structure", "linear")
    page.click("#find")
    page.locator(".model.done").wait_for(timeout=PATIENCE)
    page.select_option("#structure", "auto")
    page.select_option("#budget", "600")
    page.click("#find")
    page.wait_for_selector(".model.running .candidate", timeout=PATIENCE)
    page.click("text=Stop, keep the best")
    page.locator(".model.done").nth(1).wait_for(timeout=PATIENCE)
    assert "stopped" in page.locator(".model.done").first.inner_text()

    page.click("#step-compare")
    page.wait_for_selector(SHOWN, timeout=PATIENCE)
    assert page.locator("table.models tbody tr").count() == 2
    for kind in ("#kind-one_step", "#kind-free_run"):
        page.click(kind)
        page.wait_for_selector(SHOWN)

    page.click("#step-use")
    page.click("#preset-step")
    page.click("#simulate")
    page.wait_for_selector(SHOWN, timeout=PATIENCE)
    page.click("#linearise")
    page.wait_for_selector(".plot .pole", timeout=PATIENCE)
    archive = zipfile.ZipFile(io.BytesIO(watched.saved("#export")))
    assert "model.c" in archive.namelist()

    script = tmp_path / "script.py"
    script.write_bytes(watched.saved("#script"))
    command = [sys.executable, str(script), str(server.folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for model in server.get("/api/state")["models"]:
        told = server.get(f"/api/models/{model['id']}/evaluation")["scores"]
        found = re.search(rf"{model['name']} simulation \[(.+)\]", done.stdout)
        assert found
        expected = told["free_run"]["rmse"][0]
        assert float(found[1]) == pytest.approx(expected, rel=1e-9)


def test_names_with_markup_are_shown_as_they_are(
    watched: Watched, tmp_path: Path
) -> None:
    names = '"<img src=x onerror=alert(1)>","</script><b>y</b>"'
    watched.page.set_input_files("#file", table(tmp_path / "a.csv", names=names))
    watched.page.wait_for_selector(SHOWN)
    assert watched.page.locator("main img, main script").count() == 0
    assert "<img src=x" in watched.page.inner_text("table.columns")


def test_a_long_record_is_thinned_before_it_is_sent(
    watched: Watched, tmp_path: Path
) -> None:
    path = table(tmp_path / "long.csv", samples=100_000)
    watched.page.set_input_files("#file", path)
    watched.page.wait_for_selector(SHOWN)
    asked = watched.page.evaluate(
        """performance.getEntriesByType('resource')
        .filter((r) => r.name.includes('/api/signals')).map((r) => r.transferSize)"""
    )
    sizes = [size for size in asked if size]
    assert sizes
    assert max(sizes) < 200_000


def test_everything_works_by_keyboard(watched: Watched, tmp_path: Path) -> None:
    page = watched.page
    page.set_input_files("#file", table(tmp_path / "a.csv"))
    page.wait_for_selector(SHOWN)
    page.focus("#step-prepare")
    page.keyboard.press("Enter")
    page.wait_for_selector(SHOWN)
    page.focus(".chart canvas")
    page.keyboard.press("+")
    page.keyboard.press("ArrowRight")
    assert re.search(r"\d+ to \d+ s", page.inner_text(".tip"))
    page.keyboard.press("0")
    page.fill("#from", "100")
    page.fill("#to", "500")
    page.focus("#keep")
    page.keyboard.press("Space")
    page.wait_for_selector(".chip >> text=kept")
    # Every control says what it is.
    unnamed = page.evaluate(
        """[...document.querySelectorAll('button, input, select, textarea, canvas')]
        .filter((n) => !(n.labels?.length || n.getAttribute('aria-label')
            || n.textContent.trim())).map((n) => n.outerHTML)"""
    )
    assert unnamed == []
    assert page.get_attribute("#step-prepare", "aria-current") == "step"


def test_four_hundred_pixels_are_enough(
    browser: Any, server: Running, tmp_path: Path
) -> None:
    size = {"width": 400, "height": 800}
    narrow = Watched(browser, server, viewport=size, color_scheme="dark")
    narrow.page.set_input_files("#file", table(tmp_path / "a.csv"))
    narrow.page.wait_for_selector(SHOWN)
    for step in ("data", "prepare", "identify"):
        narrow.page.click(f"#step-{step}")
        narrow.page.wait_for_timeout(200)
        width = narrow.page.evaluate("document.documentElement.scrollWidth")
        assert width <= 400, step
    narrow.close()


def test_a_link_without_its_token_says_so(browser: Any, server: Running) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"http://127.0.0.1:{server.port}/")
    page.wait_for_selector("#alert:not([hidden])")
    assert "no longer valid" in page.inner_text("#alert")
    assert json.loads(page.evaluate("JSON.stringify({...sessionStorage})")) == {}
    context.close()
