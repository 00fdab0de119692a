"""The HTML page: complete, self-contained, well-formed, and drawn by a browser."""

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import sparsid
from sparsid.data.record import Record
from sparsid.diagnostics import Diagnosis
from sparsid.errors import InputError
from sparsid.report.contents import _chart, _sentence
from sparsid.report.page import SECTIONS
from sparsid.results.forecast import Forecast

VOID = {"meta", "link", "br", "img", "hr", "input"}
BROWSER = shutil.which("chromium") or shutil.which("google-chrome")


def made(samples: int, seed: int) -> Record:
    rng = np.random.default_rng(seed)
    u = rng.uniform(-1, 1, samples).cumsum() / 5
    y = np.zeros((samples, 2))
    for t in range(1, samples):
        y[t, 0] = 0.8 * y[t - 1, 0] + np.tanh(u[t - 1]) + 0.02 * rng.normal()
        y[t, 1] = 0.5 * y[t - 1, 1] + 0.3 * y[t - 1, 0] + 0.02 * rng.normal()
    # A name that would end a script or begin a tag.
    names = ["</script><b>level", "heat & flow"]
    return Record(
        np.sin(u), y, 2.0, output_names=names, output_units=["V", ""], name="<run>"
    )


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Diagnosis]:
    folder = tmp_path_factory.mktemp("report")
    model = sparsid.NARX(1, (4,), max_cycles=20).fit(made(200, 0))
    comparison = {"linear ARX": {"one_step": [0.1, 0.2], "free_run": [0.3, np.inf]}}
    diagnosis = model.report(
        made(120, 1),
        folder / "report.html",
        part="test record",
        comparison=comparison,
        pictures=folder / "pictures",
    )
    return folder / "report.html", diagnosis


class Reader(HTMLParser):
    """Checks that tags close, and collects what the page refers to."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.tags.append(tag)
        if "id" in found:
            self.ids.append(str(found["id"]))
        for key in ("href", "src", "xlink:href"):
            if found.get(key):
                self.links.append(str(found[key]))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def read(path: Path) -> Reader:
    reader = Reader()
    reader.feed(path.read_text(encoding="utf-8"))
    assert reader.open == []
    return reader


def test_page_is_whole_and_needs_nothing_else(
    written: tuple[Path, Diagnosis],
) -> None:
    path, _ = written
    reader = read(path)
    assert set(SECTIONS) <= set(reader.ids)
    for link in reader.links:
        assert link.startswith(("#", "data:")), link
        if link.startswith("#"):
            assert link[1:] in reader.ids
    text = path.read_text(encoding="utf-8")
    assert "url(http" not in text
    assert len(text) < 3_000_000


def test_page_says_what_the_diagnosis_says(written: tuple[Path, Diagnosis]) -> None:
    path, diagnosis = written
    text = path.read_text(encoding="utf-8")
    assert "<b>level" not in text.replace("\\u003c", "<").split("<section")[0]
    error = diagnosis.scores["free_run"]["rmse"][1]
    assert f"{error:#.4g}" in text
    assert "linear ARX" in text
    assert "diverged" in text
    assert text.count('class="good"') + text.count('class="look"') == 1 + len(
        diagnosis.verdicts
    )


def test_inputs_were_not_drawn_and_a_stopped_fit_looked_well(
    written: tuple[Path, Diagnosis],
) -> None:
    text = written[0].read_text(encoding="utf-8")
    data = json.loads(text.split('<script type="application/json">')[1].split("</")[0])
    assert [given["name"] for given in data["inputs"]] == ["u"]
    assert len(data["inputs"][0]["values"]) == len(data["measured"]) == 120
    # Twenty cycles are too few: said in orange, at the top.
    tiles = text.split('class="cards"')[1].split("<table")[0]
    assert '<div class="card look"><b>cycle limit reached</b>' in tiles


def test_a_name_was_capitalised() -> None:
    names = ("level", "flow")
    assert _sentence("level in free run, right", names) == "level in free run, right."
    assert _sentence("a run stays bounded", names) == "A run stays bounded."


def test_a_spike_vanished_from_the_chart_of_a_long_record() -> None:
    y = np.zeros((20_000, 1))
    y[12_345] = 7.0
    record = Record(np.zeros(20_000), y, 0.1)
    nothing = np.zeros((20_000, 1))
    run = Forecast(nothing, nothing, nothing, 0, None, None, ("y",), ("",), 0.1)
    chart = _chart(record, run, run, 0, 1)
    assert len(chart.data["measured"]) <= 6000
    at = chart.data["measured"].index(7.0)
    assert chart.data["samples"][at] == 12_345
    assert "of 20000 samples" in chart.label
    whole = _chart(record[:100], run_of(100), run_of(100), 0, 1)
    assert "samples" not in whole.data


def run_of(samples: int) -> Forecast:
    values = np.zeros((samples, 1))
    return Forecast(values, values, values, 0, None, None, ("y",), ("",))


def test_page_has_the_linear_model_at_the_mean_operating_point(
    written: tuple[Path, Diagnosis],
) -> None:
    text = written[0].read_text(encoding="utf-8")
    section = text.split('<section id="dynamics">')[1].split("</section>")[0]
    assert "time constant" in section
    assert "90 % of 1 member and 100 draws" in section
    # One input, two outputs: a step and a Bode diagram each, and poles.
    assert section.count("<figure>") == 5


def test_pictures_are_files_of_both_kinds(written: tuple[Path, Diagnosis]) -> None:
    folder = written[0].parent / "pictures"
    stems = {p.stem for p in folder.iterdir()}
    assert {"relevance", "network", "history", "stability"} <= stems
    for stem in stems:
        assert (folder / f"{stem}.png").read_bytes().startswith(b"\x89PNG")
        assert "<svg" in (folder / f"{stem}.svg").read_text(encoding="utf-8")


def test_an_existing_page_or_a_missing_folder_is_refused(
    written: tuple[Path, Diagnosis], tmp_path: Path
) -> None:
    model = sparsid.NARX(1, (4,))
    with pytest.raises(Exception, match="not fitted"):
        model.report(made(50, 1), tmp_path / "r.html")
    model.fitted_ = object()
    with pytest.raises(InputError, match="exists"):
        model.report(made(50, 1), written[0], overwrite=False)
    with pytest.raises(InputError, match="does not exist"):
        model.report(made(50, 1), tmp_path / "no" / "r.html")


def test_a_model_of_pure_noise_has_a_page(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    record = Record(rng.normal(size=150), rng.normal(size=150))
    model = sparsid.NARX(2, (4,)).fit(record)
    assert model.fitted_.network.widths[0] == 0
    model.report(record, tmp_path / "report.html")
    assert "nothing is left" in (tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.mark.skipif(BROWSER is None, reason="no Chromium to open the page with")
def test_a_browser_draws_the_charts_without_a_complaint(
    written: tuple[Path, Diagnosis], tmp_path: Path
) -> None:
    result = subprocess.run(
        [
            str(BROWSER),
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--enable-logging=stderr",
            f"--user-data-dir={tmp_path}",
            "--virtual-time-budget=3000",
            "--dump-dom",
            written[0].as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    complaints = [line for line in result.stderr.splitlines() if "CONSOLE" in line]
    assert complaints == []
    drawn = re.findall(
        r'class="forecast" d="([^"]*)"|d="([^"]*)" class="forecast"', result.stdout
    )
    assert len(drawn) == 2
    assert all(len(a + b) > 500 for a, b in drawn)
    assert "NaN" not in "".join(a + b for a, b in drawn)
