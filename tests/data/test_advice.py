"""A first look at a record: what is wrong is found, what is right is not told off."""

import json

import numpy as np
import pytest

from sparsid.data.advice import Advice
from sparsid.data.advice.relations import coherence, cross_correlation, regression
from sparsid.data.record import Record


def plant(samples: int = 1200, noise: float = 0.02, delay: int = 4) -> Record:
    rng = np.random.default_rng(0)
    u, y = np.repeat(rng.normal(size=samples // 4), 4), np.zeros(samples)
    for t in range(delay, samples):
        y[t] = 0.9 * y[t - 1] + 0.1 * u[t - delay]
    y += noise * rng.normal(size=samples)
    return Record(u, y, 0.5, input_names="valve", output_names="level")


def topics(advice: Advice, *severities: str) -> set[str]:
    return {f.topic for f in advice.findings if f.severity in severities}


def test_a_good_record_gets_no_warning_and_its_dead_time() -> None:
    advice = plant().advice()
    assert advice.warnings == ()
    found = advice.figures["outputs"]["level"]["dead_time"]["valve"]
    assert found["by_correlation"] == 4
    assert abs(found["by_criterion"] - 4) <= 1
    tau = advice.figures["outputs"]["level"]["time_constant"]
    assert tau == pytest.approx(-0.5 / np.log(0.9), rel=0.2)
    json.dumps(advice.plain())


def test_what_is_wrong_with_channels_is_found() -> None:
    record = plant()
    y = np.array(record.y[:, 0])
    y[500] = 40.0
    clipped = np.clip(record.y[:, 0], -0.25, 0.25)
    coarse = np.rint(record.y[:, 0] / 0.1) * 0.1
    drifting = record.y[:, 0] + 0.01 * np.arange(1200)
    still = np.where(np.arange(1200) < 400, 0.0, record.y[:, 0])
    found = Record(
        record.u,
        np.stack([y, clipped, coarse, drifting, still], 1),
        0.5,
        output_names=["spiked", "clipped", "coarse", "drifting", "still"],
    ).advice()
    by_channel = {(f.channel, f.topic) for f in found.findings}
    for expected in (
        ("spiked", "outliers"),
        ("clipped", "saturation"),
        ("coarse", "quantisation"),
        ("drifting", "drift"),
        ("still", "rest"),
    ):
        assert expected in by_channel
    assert ("spiked", "coherence") not in {(f.channel, f.topic) for f in found.warnings}


def test_feedback_is_found_in_a_closed_loop_alone() -> None:
    rng = np.random.default_rng(1)
    u, y = np.zeros(1500), np.zeros(1500)
    for t in range(1, 1500):
        y[t] = 0.9 * y[t - 1] + 0.1 * u[t - 1] + 0.1 * rng.normal()
        u[t] = -2 * y[t - 1] + 0.3 * rng.normal()
    assert "feedback" in topics(Record(u, y).advice(), "warning")
    assert "feedback" not in topics(plant().advice(), "warning", "note")


def test_poor_excitation_is_found() -> None:
    t = np.arange(600.0)
    sine = Record(np.sin(t / 20), np.sin(t / 20 - 0.5)).advice()
    assert "excitation" in topics(sine, "warning")
    u = (t > 300).astype(float)
    assert "excitation" in topics(Record(u, np.cumsum(u)).advice(), "warning")
    pair = plant()
    twice = Record(np.hstack([pair.u, 2 * pair.u + 1e-3 * pair.y]), pair.y).advice()
    assert any("cannot be told apart" in f.text for f in twice.warnings)


def test_an_input_without_effect_is_named() -> None:
    rng = np.random.default_rng(3)
    advice = Record(rng.normal(size=800), rng.normal(size=800)).advice()
    assert {"dead time", "coherence"} <= topics(advice, "warning")


def test_fast_and_short_records_are_named() -> None:
    rng = np.random.default_rng(4)
    u, y = np.repeat(rng.normal(size=20), 100), np.zeros(2000)
    for t in range(1, 2000):
        y[t] = 0.997 * y[t - 1] + 0.003 * u[t - 1]
    y += 1e-4 * rng.normal(size=2000)
    advice = Record(u, y).advice()
    assert "sampling" in topics(advice, "note")
    assert "length" in topics(advice, "warning")


def test_records_that_cannot_be_looked_at_end_in_findings() -> None:
    y = np.random.default_rng(0).normal(size=50)
    assert "length" in topics(Record(None, y).advice(), "warning")
    assert "constant" in topics(Record(np.ones(100), np.ones(100)).advice(), "warning")
    y = np.array([1.0, np.nan] * 50)
    assert {"gaps", "length"} <= topics(Record(None, y).advice(), "warning")


def test_cross_correlation_is_the_mean_product_of_whitened_signals() -> None:
    rng = np.random.default_rng(5)
    u = rng.normal(size=4000)
    lags, found = cross_correlation(u, np.roll(u, 3), 10)
    assert lags[found.argmax()] == 3
    assert found.max() > 0.95
    assert np.abs(np.delete(found, found.argmax())).max() < 0.1


def test_regression_is_least_squares() -> None:
    record = plant(400)
    found = regression(record.u, record.y[:, 0], 10)
    assert found is not None
    n, d, first = found.order, found.delays[0], 16
    y, u = record.y[:, 0], record.u[:, 0]
    columns = [y[first - k : len(y) - k] for k in range(1, n + 1)]
    columns += [u[first - d - k : len(u) - d - k] for k in range(n + 1)]
    table = np.stack([*columns, np.ones(len(y) - first)], 1)
    theta, *_ = np.linalg.lstsq(table, y[first:], rcond=None)
    left = y[first:] - table @ theta
    share = 1 - (left**2).mean() / y[first:].var()
    assert found.explained == pytest.approx(share, abs=1e-6)


def test_coherence_of_two_inputs_is_one_without_noise_and_half_with_as_much() -> None:
    rng = np.random.default_rng(6)
    u = rng.normal(size=(20_000, 2))
    y = u[:, 0] - u[:, 1]
    assert coherence(u, y, 1.0).explained == pytest.approx(1.0, abs=1e-6)
    noisy = y + np.sqrt(2) * rng.normal(size=20_000)
    assert coherence(u, noisy, 1.0).explained == pytest.approx(0.5, abs=0.05)


def test_the_page_stands_alone_and_names_are_text(tmp_path) -> None:
    record = plant(300)
    named = Record(
        record.u, record.y, input_names="<b>$\\foo$", output_names="level", name="x<y"
    )
    named.advice().save(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "<b>" not in page
    assert "x&lt;y" in page
    assert page.count("data:image/png;base64,") == 3
    assert "http" not in page
