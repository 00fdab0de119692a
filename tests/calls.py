"""Calls for worker processes: small enough to be imported there in no time."""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from sparsid.results.outcome import Outcome
from sparsid.studies import runner


def double(number, *, report):
    return 2 * number


def place(*, report):
    """Return this process and its one core, after a while."""
    time.sleep(0.2)
    return os.getpid(), os.environ.get("NPROC")


def count(limit, *, report):
    """Report numbers until told to stop."""
    for number in range(limit):
        if report(number):
            return number
        time.sleep(0.05)
    return limit


def die(*, report):
    os.kill(os.getpid(), signal.SIGKILL)


def die_once(path, *, report):
    """Die the first time; answer the second."""
    if Path(path).exists():
        return "alive"
    Path(path).touch()
    return die(report=report)


def refuse(*, report):
    raise ValueError("given 3, expected 4: give 4")


def wait_for_ever(path, *, report):
    """Say which process this is, and stay busy."""
    Path(path).write_text(str(os.getpid()))
    report("busy")
    time.sleep(600.0)


def fateful_trial(spec, *, report):
    """Answer a trial; the first of all says who has it and never comes back."""
    with Path(os.environ["SPARSID_TRACE"]).open("a") as file:
        file.write(f"{spec['ratio']}\n")
    holder = Path(os.environ["SPARSID_TRACE"] + ".holder")
    if spec["ratio"] == 0.2 and not holder.exists():
        part = holder.with_suffix(".part")
        part.write_text(str(os.getppid()))
        part.rename(holder)
        time.sleep(600.0)
    return runner.answer_trial(spec, report=report)


def fragile_trial(spec, *, report):
    """Answer as usual, but know a kind of trial that ends the process."""
    if spec["kind"] == "die":
        os._exit(7)
    return runner.answer_trial(spec, report=report)


@dataclass
class Step:
    """What a plan reports: the part of a ``Progress`` that groups look at."""

    cycle: int
    start: int = 0
    starts: int = 1
    part: str = "start"


class Plan:
    """A fit that is settled after some known cycles."""

    def __init__(self, settled, last=20):
        self.settled, self.last, self.cycles = settled, last, 0
        self.report = None

    def run(self, least=0):
        while self.cycles < self.last:
            self.cycles += 1
            if self.report(Step(self.cycles)):
                return Outcome.STOPPED
            if self.cycles >= least and self.cycles in self.settled:
                return Outcome.CONVERGED
        return Outcome.CYCLES

    def found(self):
        return [self.cycles]

    def __getstate__(self):
        return {**vars(self), "report": None}
