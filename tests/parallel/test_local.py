"""Calls in worker processes: answers, reports, errors, sudden ends."""

import os
import signal
from pathlib import Path

import pytest

from sparsid.errors import InputError
from sparsid.parallel.local import Worker, cores

NEVER = pytest.fail


def count_to(limit, *, progress):
    """Report every number until told to stop."""
    for number in range(limit):
        print("noise on the standard output")
        if progress(number):
            return ("stopped", number)
    return ("counted", limit)


def refuse(*, progress):
    raise InputError("given 3, expected 4: give 4")


def die(*, progress):
    os.kill(os.getpid(), signal.SIGKILL)


class UnportableError(Exception):
    def __reduce__(self):
        raise TypeError


def fail_unportably(*, progress):
    raise UnportableError("of no use elsewhere")


def settings_there(*, progress):
    return {name: os.environ.get(name) for name in ("NPROC", "OMP_NUM_THREADS")}


@pytest.fixture
def worker(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=os.pathsep)
    with Worker() as worker:
        yield worker


def test_a_worker_answers_and_reports(worker) -> None:
    seen = []

    def progress(number) -> bool:
        seen.append(number)
        return number == 3

    assert worker.call(count_to, 2, progress=progress) == ("counted", 2)
    assert worker.call(count_to, 9, progress=progress) == ("stopped", 3)
    assert seen == [0, 1, 0, 1, 2, 3]


def test_a_worker_keeps_to_one_core(worker) -> None:
    there = worker.call(settings_there, progress=NEVER)
    assert there == {"NPROC": "1", "OMP_NUM_THREADS": "1"}
    assert cores() >= 1


def test_errors_come_back_and_leave_the_worker_usable(worker) -> None:
    with pytest.raises(InputError, match="expected 4") as caught:
        worker.call(refuse, progress=NEVER)
    assert "in refuse" in "".join(caught.value.__notes__)
    assert worker.call(count_to, 0, progress=NEVER) == ("counted", 0)


def test_any_error_comes_back(worker) -> None:
    with pytest.raises(RuntimeError, match="UnportableError: of no use elsewhere"):
        worker.call(fail_unportably, progress=NEVER)


def test_an_error_of_the_caller_is_its_own(worker) -> None:
    def broken(number):
        raise BrokenPipeError("the caller's own")

    with pytest.raises(BrokenPipeError, match="the caller's own"):
        worker.call(count_to, 2, progress=broken)


def test_a_worker_that_dies_is_told_of(worker) -> None:
    with pytest.raises(ChildProcessError, match=r"exit code -9.*memory"):
        worker.call(die, progress=NEVER)


def test_a_worker_ends_with_the_block() -> None:
    with Worker() as worker:
        assert worker.process.poll() is None
    assert worker.process.poll() is not None
