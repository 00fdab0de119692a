"""Pools: answers, order, reports, stops and deaths, in processes of this computer."""

import os
import subprocess
import sys
import time
from pathlib import Path

import calls
import pytest

from sparsid.errors import InputError
from sparsid.parallel import local
from sparsid.parallel.fingerprint import engine_fingerprint
from sparsid.parallel.local import Engine, FalseStartError
from sparsid.parallel.pool import MOST_TRIES, open_pool

TESTS = str(Path(__file__).parents[1])


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", TESTS, prepend=os.pathsep)


def test_every_task_is_answered_once_by_as_many_as_asked_for() -> None:
    with open_pool(size=2) as pool:
        assert pool.size == 2
        found = dict(pool.run(calls.double, [(k,) for k in range(7)]))
        assert found == {k: 2 * k for k in range(7)}
        first = {pid for _, (pid, _) in pool.run(calls.place, [()] * 4)}
        again = {pid for _, (pid, _) in pool.run(calls.place, [()] * 4)}
        assert len(first) == 2
        assert again == first
        assert list(pool.run(calls.double, [])) == []
        workers = pool.team.workers
    assert all(worker.process.poll() is not None for worker in workers)


def test_tasks_are_taken_when_somebody_is_free() -> None:
    taken = []

    def tasks():
        for k in range(3):
            taken.append(k)
            yield (k,)

    with open_pool(size=1) as pool:
        for k, _ in pool.run(calls.double, tasks()):
            assert taken == list(range(k + 1))


def test_a_report_stops_all() -> None:
    seen = []

    def progress(task, number):
        seen.append((task, number))
        return number == 2

    with open_pool(size=2) as pool:
        found = dict(pool.run(calls.count, [(100,), (100,)], progress=progress))
    assert {task for task, _ in seen} == {0, 1}
    assert all(number < 100 for number in found.values())


def test_a_death_is_made_up_for(tmp_path: Path) -> None:
    with open_pool(size=1) as pool:
        found = dict(pool.run(calls.die_once, [(str(tmp_path / "trace"),)]))
    assert found == {0: "alive"}


def test_one_that_always_dies_is_answered_with_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started = []

    class Counted(local.Worker):
        def __init__(self) -> None:
            started.append(self)
            super().__init__()

    monkeypatch.setattr(local, "Worker", Counted)
    with open_pool(size=1) as pool:
        ((_, answer),) = pool.run(calls.die, [()])
        assert isinstance(answer, ChildProcessError)
        assert "exit code -9" in str(answer)
        assert len(started) == MOST_TRIES
        assert list(pool.run(calls.double, [(4,)])) == [(0, 8)]


def test_errors_are_raised_where_the_answers_are_awaited() -> None:
    with (
        open_pool(size=1) as pool,
        pytest.raises(ValueError, match="expected 4"),
    ):
        list(pool.run(calls.refuse, [()]))


def test_processes_of_another_engine_get_no_work() -> None:
    with (
        open_pool(size=1, engine=Engine("other")) as pool,
        pytest.raises(InputError, match="code of sparsid changed"),
    ):
        list(pool.run(calls.double, [(1,)]))
    same = Engine(engine_fingerprint(), ("sparsid.errors",))
    with open_pool(size=1, engine=same) as pool:
        assert list(pool.run(calls.double, [(1,)])) == [(0, 2)]


def test_processes_that_cannot_start_end_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(local, "_SERVE", "sys.exit(3)")
    with (
        open_pool(size=1, engine=Engine("any")) as pool,
        pytest.raises(FalseStartError, match=r"before it was ready \(exit code 3\)"),
    ):
        list(pool.run(calls.double, [(1,)]))


def test_a_process_left_alone_ends(tmp_path: Path) -> None:
    """The processes of a caller that was killed once worked on for nobody."""
    trace = tmp_path / "trace"
    code = (
        "import calls; from sparsid.parallel.pool import open_pool\n"
        "with open_pool(size=1) as pool:\n"
        f"    list(pool.run(calls.wait_for_ever, [({str(trace)!r},)]))\n"
    )
    caller = subprocess.Popen([sys.executable, "-c", code])
    process = awaited_pid(trace)
    caller.kill()
    caller.wait()
    assert ended(process)


def awaited_pid(path: Path) -> int:
    stop = time.monotonic() + 300.0
    while not (path.exists() and path.read_text()) and time.monotonic() < stop:
        time.sleep(0.05)
    return int(path.read_text())


def ended(pid: int) -> bool:
    """Return whether a process ends within a while; a zombie has."""
    stop = time.monotonic() + 30.0
    while time.monotonic() < stop:
        try:
            status = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            return True
        if status.rpartition(")")[2].split()[0] == "Z":
            return True
        time.sleep(0.1)
    return False
