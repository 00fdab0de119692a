"""A fit that is waited for says what it does and how long it takes."""

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import sparsid
from sparsid.estimators import Simulator
from sparsid.estimators.watching import FitProgress
from sparsid.progress import Progress


def now(text: str, left: float | None) -> Progress:
    noise = np.array([0.01])
    return Progress("round 1", 2, 12, 0.1, noise, 1.0, 3.0, text=text, left=left)


def test_the_time_of_the_whole_was_not_told() -> None:
    console = Console(width=200, record=True)
    with FitProgress(console) as shown:
        assert not shown(now("candidate 2 of 5, cascade", None))
        assert "in all" not in shown.text()
        assert shown.share() is None
        shown(now("candidate 2 of 5, cascade", 240.0))
        assert shown.text() == "candidate 2 of 5, cascade · 1 s of about 4 min in all"
        before = shown.share()
        shown(now("candidate 3 of 5, cascade", 10_000.0))
        # A bar does not go back.
        assert shown.share() == before
    assert "candidate 2 of 5" in console.export_text()


@pytest.fixture(scope="module")
def signals() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    u, y = rng.normal(size=120), np.zeros(120)
    for t in range(1, 120):
        y[t] = 0.8 * y[t - 1] + u[t - 1]
    return u, y + 0.05 * rng.normal(size=120)


def test_python_was_silent_for_minutes(
    signals: tuple[Any, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    heard = []
    Simulator("linear").fit(
        *signals, verbose=True, progress=lambda p: heard.append(p.phase)
    )
    told = capsys.readouterr()
    assert told.out == ""
    assert "linear models" in told.err
    assert "linear models" in heard
    Simulator("linear").fit(*signals)
    assert capsys.readouterr() == ("", "")


def test_a_listener_still_ends_a_fit_that_is_shown(signals: tuple[Any, Any]) -> None:
    model = Simulator("linear first", states=1, neurons=1).fit(
        *signals, verbose=True, progress=lambda p: "round" in p.phase
    )
    assert model.outcome_ is sparsid.Outcome.STOPPED


def test_a_notebook_shows_a_bar_and_takes_it_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown: list[str] = []

    def display(item: Any, display_id: bool) -> Any:
        assert display_id
        shown.append(item._repr_html_())
        return SimpleNamespace(update=lambda new: shown.append(new._repr_html_()))

    page = SimpleNamespace(display=display)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(display=page))
    monkeypatch.setitem(sys.modules, "IPython.display", page)
    console = Console(force_jupyter=True)
    with FitProgress(console) as progress:
        progress(now("candidate <2>", 30.0))
    assert "<progress" in shown[0]
    assert 'value="' in shown[1]
    assert "candidate &lt;2&gt;" in shown[1]
    assert shown[-1] == ""
