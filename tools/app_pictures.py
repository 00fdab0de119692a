"""The pictures of docs/app.md: `python tools/app_pictures.py`, with Chromium.

Drives the app over the simulated tanks. Needs `pip install "sparsid[app,browser]"`.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from playwright.sync_api import sync_playwright

from sparsid import datasets
from sparsid.data.files import write_csv

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
SIZE = {"width": 1120, "height": 720}
SHOWN = ".chart[data-ready]"
PATIENCE = 300_000


def recording(folder: Path) -> Path:
    """Return a file with simulated tanks, training and test part in one."""
    record = datasets.load("simulated-tanks").estimation
    path = folder / "tanks.csv"
    columns = {"time": record.time, "voltage": record.u[:, 0], "level": record.y[:, 0]}
    write_csv(path, columns, {"time": "s", "voltage": "V", "level": "V"})
    return path


def take(page: Any, path: Path) -> None:
    """Go through all screens and take a picture of each."""

    def picture(name: str, whole: bool = False) -> None:
        page.wait_for_timeout(500)
        page.mouse.move(5, 5)
        place = str(PICTURES / f"app_{name}.png")
        page.screenshot(path=place, full_page=whole)

    page.set_default_timeout(PATIENCE)
    page.set_input_files("#file", str(path))
    page.wait_for_selector(SHOWN)
    picture("data")
    page.click("#to-prepare")
    page.wait_for_selector(SHOWN)
    page.click("#inspect")
    page.wait_for_selector(".verdicts .good, .verdicts .look")
    page.click("text=Drag chooses")
    box = page.locator(".chart canvas").bounding_box()
    page.mouse.move(box["x"] + 160, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + 330, box["y"] + 80, steps=5)
    page.mouse.up()
    picture("prepare")
    page.click("#to-identify")
    page.select_option("#budget", "30")
    page.click("#find")
    page.locator(".candidate").nth(3).wait_for()
    picture("identify")
    page.locator(".model.done").wait_for()
    page.click("#advanced")
    page.fill("#name", "Linear")
    page.select_option("#structure", "linear")
    page.click("#find")
    page.locator(".model.done").nth(1).wait_for()
    page.click("#step-compare")
    page.wait_for_selector(SHOWN)
    page.set_viewport_size({"width": SIZE["width"], "height": 900})
    picture("compare")
    page.click("#step-use")
    page.select_option("#use-model", index=0)
    page.click("text=Stairs")
    page.click("#simulate")
    page.wait_for_selector(SHOWN)
    page.click("#linearise")
    page.wait_for_selector(".plot .pole")
    page.evaluate("document.querySelector('header').style.position = 'static'")
    page.set_viewport_size({"width": SIZE["width"], "height": 1500})
    page.evaluate("window.scrollTo(0, 0)")
    picture("use")


def main() -> None:
    """Write the pictures."""
    found = shutil.which("chromium") or shutil.which("google-chrome")
    if not found:
        sys.exit("install Chromium: apt-get install chromium")
    with TemporaryDirectory() as folder:
        path = recording(Path(folder))
        command = [sys.executable, "-m", "sparsid", "app", "--no-browser"]
        session = ["--session", str(Path(folder) / "tanks.session")]
        with subprocess.Popen(
            [*command, *session], stdout=subprocess.PIPE, text=True
        ) as app:
            assert app.stdout is not None
            address = re.search(r"http://\S+", app.stdout.readline())
            assert address
            try:
                with sync_playwright() as playwright:
                    browser = playwright.chromium.launch(
                        executable_path=found, args=["--no-sandbox", "--disable-gpu"]
                    )
                    page = browser.new_page(viewport=SIZE)
                    page.goto(address[0])
                    take(page, path)
                    browser.close()
            finally:
                app.terminate()


if __name__ == "__main__":
    main()
