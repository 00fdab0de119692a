"""The tables of the comparison with rivals, from rows as its scripts print them."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks" / "rivals"))

from tables import markdown, summary


def took(seconds: float) -> dict[str, float]:
    return {"wall_seconds": seconds, "cpu_seconds": seconds}


def rendering(job: str, seconds: float, **more: object) -> dict[str, object]:
    return {
        "job": job,
        "round": 0,
        "settings": {"widths": [11, 100, 100, 1]},
        "fit": took(seconds),
        "epochs": 10,
        "kept": 0.5,
        "one_step_rmse": 0.06,
        "free_run_B_rmse": 0.7,
        **more,
    }


def ours(job: str, seconds: float, starts: int = 1) -> dict[str, object]:
    fit = {
        "first": took(2 * seconds),
        "second": took(seconds),
        "one_step_rmse": 0.05,
        "free_run_A_rmse": 0.3,
        "free_run_B_rmse": 0.25,
        "kept": 0.01,
    }
    cold = {**fit, "first": took(10 * seconds)}
    return {
        "job": job,
        "round": 0,
        "starts": starts,
        "rows": [fit],
        "cold": {"rows": [cold]},
    }


ROWS = [
    rendering("torch-wide", 60.0),
    ours("sparsid-wide", 3.0),
    rendering("torch-free-run", 20.0),
    ours("sparsid-states", 30.0, starts=16),
    {"job": "torch-small", "round": 0, "failed": "not installed: no network"},
]


def test_ratios_are_of_cpu_seconds_warm_and_cold() -> None:
    wide = summary(ROWS)["one_step"][0]
    assert wide["warm_cpu_ratio"] == pytest.approx(20.0)
    assert wide["cached_cpu_ratio"] == pytest.approx(10.0)
    assert wide["cold_cpu_ratio"] == pytest.approx(2.0)


def test_a_network_that_ends_early_has_a_column_of_its_own() -> None:
    short = {**ours("sparsid-short", 2.0), "settings": {"max_cycles": 7}}
    small = [rendering("torch-small", 30.0), ours("sparsid-small", 6.0), short]
    networks = summary(small)["one_step"]
    assert [n["warm_cpu_ratio"] for n in networks] == pytest.approx([5.0, 15.0])
    assert networks[1]["network"] == "11-100-100-1, sparsid: 7 cycles"
    assert "7 cycles" in markdown(summary(small))


def test_starts_per_minute_are_projected_to_the_whole_budget() -> None:
    found = summary(ROWS)["free_run"]
    # Two seconds an epoch, ten thousand epochs; sixteen members in half a minute.
    projected = found["rival_free_run_projected_starts_per_cpu_minute"]
    assert projected == pytest.approx(60.0 / 20_000.0)
    assert found["sparsid_warm_starts_per_cpu_minute"] == pytest.approx(32.0)
    ratio = found["ratio_to_free_run_projected"]
    assert ratio == pytest.approx(32.0 / projected)


def test_a_rival_that_failed_is_in_the_table() -> None:
    text = markdown(summary(ROWS))
    assert "- torch-small, round 0: not installed: no network" in text


def test_a_run_that_diverged_leaves_no_mean() -> None:
    rows = [*ROWS, rendering("torch-wide", 60.0, free_run_B_rmse=None)]
    wide = summary(rows)["one_step"][0]
    assert wide["rival_free_run_B_rmse"] is None
    assert wide["rival_one_step_rmse"] == pytest.approx(0.06)


def test_nothing_run_gives_empty_tables() -> None:
    assert "| --- |" in markdown(summary([]))
