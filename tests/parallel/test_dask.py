"""A real Dask cluster of two worker processes: the same answers, whatever dies."""

import os
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import calls
import numpy as np
import pandas as pd
import pytest
from distributed import LocalCluster
from inline import Inline
from sklearn.base import clone
from small_systems import SMALL_NETWORK as NETWORK
from small_systems import SMALL_STATES as SMALL
from small_systems import sparse_system, tank
from test_pool import awaited_pid, ended
from typer.testing import CliRunner

from sparsid import NARX, InputError, StateSpace
from sparsid.cli.app import app
from sparsid.fitting import member_batches
from sparsid.fitting.cross_validation import (
    held_out_errors,
    held_out_fits,
    held_out_fits_apart,
)
from sparsid.parallel.dask import Cluster
from sparsid.parallel.local import Engine
from sparsid.parallel.pool import open_pool
from sparsid.results.outcome import Outcome
from sparsid.studies import prediction, runner, trials
from sparsid.studies.runner import Standing, pool_for_trials, run_trials
from sparsid.studies.store import FILE, Store, Study

TESTS = Path(__file__).parents[1]
# Known to the conftest: compiled programs of earlier runs.
CACHE = TESTS.parent / ".pytest_cache" / "jax"
ANY = Engine()


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cluster") / "trace"


@pytest.fixture(scope="module")
def cluster(trace: Path) -> Iterator[LocalCluster]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(TESTS), prepend=os.pathsep)
        patch.setenv("JAX_COMPILATION_CACHE_DIR", str(CACHE))
        patch.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
        patch.setenv("SPARSID_TRACE", str(trace))
        with LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address=":0",
            silence_logs="CRITICAL",
        ) as cluster:
            yield cluster


@pytest.fixture
def address(cluster: LocalCluster) -> str:
    return str(cluster.scheduler_address)


# -- a study -------------------------------------------------------------------------


def test_a_worker_that_dies_loses_and_doubles_no_trial(
    address: str, trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = Study.present("prediction", {"dataset": "simulated-tanks"})
    store = Store.open(tmp_path / FILE, study)
    common = {"kind": "baseline", "dataset": "simulated-tanks", "lags": 1}
    specs = [{**common, "ratio": round(0.2 + 0.01 * k, 2)} for k in range(10)]
    monkeypatch.setattr(runner, "answer_trial", calls.fateful_trial)
    seen: list[Standing] = []

    def kill() -> None:
        # The Dask worker goes without a word; its nanny starts another.
        os.kill(awaited_pid(Path(f"{trace}.holder")), signal.SIGKILL)

    with (
        ThreadPoolExecutor(1) as threads,
        pool_for_trials(store, None, address) as pool,
    ):
        assert pool.size == 2
        killed = threads.submit(kill)
        end = run_trials(store, specs, pool, watch=seen.append)
        killed.result()
    assert (end.done, end.total, end.failed) == (10, 10, 0)
    assert [standing.done for standing in seen] == list(range(11))
    # The trial that the worker had was begun twice, and answered once like the others.
    begun = trace.read_text().split()
    assert sorted(begun) == sorted(["0.2", *(str(spec["ratio"]) for spec in specs)])
    rows = {row["ratio"]: row for row in store.rows()}
    assert len(store.rows()) == len(rows) == 10
    for spec in specs:
        assert trials.run(spec).items() <= rows[spec["ratio"]].items()
    assert store.missing(specs) == []


def test_the_command_sends_its_trials_there(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny = {"lags": 1, "hidden": [2], "max_cycles": 3, "blocks": 2}
    tiny["strengths"] = {"ridge": [1e-3]}
    monkeypatch.setattr(prediction, "QUICK", {**prediction.QUICK, **tiny})
    chosen = ["--ratios", "0.2", "--methods", "ridge", "--repeats", "1"]
    small = ["--quick", "--dataset", "simulated-tanks", *chosen]
    command = ["reproduce", "prediction", *small, "--out", str(tmp_path)]
    result = CliRunner().invoke(app, [*command, "--scheduler", address])
    assert result.exit_code == 0, result.output
    assert f"2 cores at {address}" in result.stderr
    assert "fitting, 1 of 1 trials" in result.stderr
    table = pd.read_csv(tmp_path / "prediction_trials.csv")
    assert "error" not in table
    assert len(table) == 4


# -- fits ----------------------------------------------------------------------------


def test_starts_are_the_same_there(address: str) -> None:
    record, seen = sparse_system(0), set()

    def progress(progress: Any) -> None:
        seen.add((progress.start, progress.starts))

    # Programs that another test has compiled.
    model = NARX(**NETWORK, starts=2, workers=1)
    here = clone(model).fit(record)
    there = clone(model).fit(record, progress=progress, scheduler=address)
    assert seen == {(0, 2), (1, 2)}
    assert there.get_params() == here.get_params()
    evidences = [
        [start["log_evidence"] for start in model.fitted_.details["starts"]]
        for model in (here, there)
    ]
    assert evidences[0] == evidences[1]
    np.testing.assert_array_equal(here.predict(record).mean, there.predict(record).mean)


@pytest.fixture
def inline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "sparsid.estimators.state_space.open_pool", lambda scheduler: Inline()
    )


@pytest.mark.usefixtures("inline")
def test_members_in_groups_are_those_of_one_batch() -> None:
    record = tank()
    settings = {**SMALL, "max_cycles": 18}
    here = StateSpace(**settings).fit(record)
    there = StateSpace(**settings).fit(record, scheduler="tcp://there:1")
    assert there.outcome_ is here.outcome_
    for name in ("cost", "kept", "structure"):
        np.testing.assert_allclose(
            there.history_[name], here.history_[name], rtol=1e-6, err_msg=name
        )
    one, two = here.members_, there.members_
    np.testing.assert_allclose(two.log_evidence, one.log_evidence, rtol=1e-6)
    for a, b in zip(one.params, two.params, strict=True):
        np.testing.assert_allclose(b, a, atol=1e-5)
    np.testing.assert_allclose(two.covariance, one.covariance, atol=1e-5)


def test_copies_of_several_models_in_groups() -> None:
    small = StateSpace(**{**SMALL, "starts": 1, "max_cycles": 12}).get_params()
    candidates = {"one": small, "other": small | {"seed": 1}}
    pool: Any = Inline()
    phases = set()

    def told(progress: Any) -> bool:
        assert progress.starts == 4
        phases.add((progress.start, progress.phase))
        return False

    sent, left_out = held_out_fits_apart(candidates, [tank()], 2, pool, told, members=2)
    assert not left_out
    for name, params in candidates.items():
        here = held_out_fits(params, [tank()], 2)
        assert here is not None
        error = held_out_errors(here, [tank()]).rms
        assert held_out_errors(sent[name], [tank()]).rms == pytest.approx(
            error, rel=1e-5
        )
    # The first parts of both come first.
    one, other = "trying one", "trying other"
    assert phases == {(0, one), (1, other), (2, one), (3, other)}

    def stop(progress: Any) -> bool:
        return progress.phase == other

    found, left_out = held_out_fits_apart(
        candidates, [tank()], 2, pool, stop, members=2
    )
    assert not found
    assert set(left_out.values()) == {"there was no time to finish it"}


@pytest.mark.parametrize(
    ("settled", "end"),
    [
        ([{3}, {3}], 3),
        ([{3, 7}, {5, 7}, {4, 5, 7}], 7),
        # One that is settled early moves on and settles again with the others.
        ([{2, 9}, {4, 9}], 9),
        ([{2}, {4}], 20),
    ],
)
def test_groups_end_where_all_have_settled(settled: list[set[int]], end: int) -> None:
    pool: Any = Inline()
    plans = [calls.Plan(group) for group in settled]
    other = [calls.Plan({1})]
    several, alone = member_batches.run_apart([plans, other], pool, None)
    assert several.found == [end] * len(settled)
    assert alone.found == [1]
    assert several.outcome is (Outcome.CYCLES if end == 20 else Outcome.CONVERGED)


def test_a_fit_that_was_done_before_a_stop_stays() -> None:
    begun = []

    def stop(progress: Any) -> bool:
        begun.append(progress.start)
        return progress.start == 1 and progress.cycle == 5

    pool: Any = Inline()
    done, slow = [calls.Plan({2})], [calls.Plan({9}), calls.Plan({9})]
    one, other = member_batches.run_apart([done, slow], pool, stop)
    assert (one.outcome, one.found) == (Outcome.CONVERGED, [2])
    assert (other.outcome, other.found) == (Outcome.STOPPED, [5])
    # What had not begun did not begin.
    assert set(begun) == {0, 1}


def test_a_part_that_cannot_be_computed_fails_its_fit_alone() -> None:
    class Frail(Inline):
        def run(self, function: Any, tasks: Any, progress: Any = None) -> Any:
            for k, answer in super().run(function, tasks, progress):
                yield k, ChildProcessError("it died") if k == 2 else answer

    pool: Any = Frail()
    plans = [[calls.Plan({2}), calls.Plan({2})], [calls.Plan({3}), calls.Plan({3})]]
    one, other = member_batches.run_apart(plans, pool, None)
    assert str(one.failure) == "it died"
    assert other.failure is None
    assert other.found == [3, 3]


def test_groups_agree_over_the_cluster(address: str) -> None:
    plans = [calls.Plan(group) for group in ({3, 7}, {5, 7}, {4, 5, 7})]
    with Cluster(address, engine=ANY) as pool:
        (end,) = member_batches.run_apart([plans], pool, None)
    assert end.found == [7, 7, 7]
    assert end.outcome is Outcome.CONVERGED


def test_members_are_split_evenly() -> None:
    for count, parts in ((16, 3), (2, 5), (1, 1), (7, 0)):
        found = member_batches.split(count, parts)
        assert [k for group in found for k in group] == list(range(count))
        assert len(found) == max(1, min(count, parts))
        assert max(map(len, found)) - min(map(len, found)) <= 1


# -- calls ---------------------------------------------------------------------------


def test_calls_run_on_one_core_each_beside_the_workers(address: str) -> None:
    with Cluster(address, engine=ANY) as pool:
        found = [answer for _, answer in pool.run(calls.place, [()] * 4)]
    assert {core for _, core in found} == {"1"}
    assert os.getpid() not in {pid for pid, _ in found}


def test_a_report_stops_all_there(address: str) -> None:
    seen = []

    def progress(task: int, number: int) -> bool:
        seen.append(task)
        return True

    with Cluster(address, engine=ANY) as pool:
        found = dict(pool.run(calls.count, [(1000,)] * 2, progress=progress))
    assert set(found) == {0, 1}
    assert all(number < 1000 for number in found.values())


def test_a_process_that_dies_there_is_replaced(address: str, tmp_path: Path) -> None:
    with Cluster(address, most=1, engine=ANY) as pool:
        assert pool.size == 1
        found = dict(pool.run(calls.die_once, [(str(tmp_path / "once"),)]))
        assert found == {0: "alive"}
        ((_, answer),) = pool.run(calls.die, [()])
        assert isinstance(answer, ChildProcessError)
        with pytest.raises(ValueError, match="expected 4"):
            list(pool.run(calls.refuse, [()]))


def test_an_interrupt_frees_the_workers(address: str, tmp_path: Path) -> None:
    def interrupt(task: int, value: Any) -> bool:
        raise KeyboardInterrupt

    paths = [tmp_path / name for name in "ab"]
    tasks = [(str(path),) for path in paths]
    with Cluster(address, engine=ANY) as pool, pytest.raises(KeyboardInterrupt):
        list(pool.run(calls.wait_for_ever, tasks, progress=interrupt))
    assert any(path.exists() for path in paths)
    assert all(ended(awaited_pid(path)) for path in paths if path.exists())
    with Cluster(address, engine=ANY) as pool:
        assert dict(pool.run(calls.double, [(1,), (2,)])) == {0: 2, 1: 4}


def test_another_version_there_is_refused(address: str) -> None:
    with (
        Cluster(address, engine=Engine("000000000000")) as pool,
        pytest.raises(InputError, match=r"Dask worker tcp://.* has another engine"),
    ):
        list(pool.run(calls.double, [(1,)]))


# -- what is not there ---------------------------------------------------------------


def test_a_scheduler_that_does_not_answer_is_told_of() -> None:
    with (
        pytest.raises(InputError, match="no Dask scheduler answers at tcp"),
        open_pool("tcp://127.0.0.1:9"),
    ):
        pytest.fail("there is none")


def test_without_dask_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with (
        pytest.raises(InputError, match=r"pip install 'sparsid\[dask\]'"),
        open_pool("tcp://127.0.0.1:9"),
    ):
        pytest.fail("it is not installed")


@pytest.mark.parametrize("kind", ["narx", "state-space"])
def test_what_is_no_address_is_refused(kind: str, tmp_path: Path) -> None:
    table = tmp_path / "tank.csv"
    record = tank()
    columns = {"pump": record.u[:, 0], "level": record.y[:, 0]}
    pd.DataFrame(columns).to_csv(table, index=False)
    command = ["identify", str(table), "--input", "pump", "--dt", "2", "--model", kind]
    out = tmp_path / "out"
    result = CliRunner().invoke(
        app, [*command, "--scheduler", "localhost", "--out", str(out)]
    )
    assert result.exit_code == 2
    last = result.stderr.splitlines()[-1]
    assert "scheduler='localhost' is no address" in last
    assert not out.exists()


def test_a_cluster_without_workers_is_waited_for(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with (
        LocalCluster(n_workers=0, dashboard_address=":0", silence_logs=50) as empty,
        Cluster(str(empty.scheduler_address), engine=ANY) as pool,
    ):
        assert pool.size == pool.size == 0
    assert caplog.text.count("no worker is at tcp://") == 1
