"""Calls for worker processes: small enough to be imported there in no time."""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from sparsid.results.outcome import Outcome
from sparsid.studies import runner


def double(number, *, progress):
    return 2 * number


def place(*, progress):
    """Return this process and its one core, after a while."""
    time.sleep(0.2)
    return os.getpid(), os.environ.get("NPROC")


def count(limit, *, progress):
    """Report numbers until told to stop."""
    for number in range(limit):
        if progress(number):
            return number
        time.sleep(0.05)
    return limit


def die(*, progress):
    os.kill(os.getpid(), signal.SIGKILL)


def die_once(path, *, progress):
    """Die the first time; answer the second."""
    if Path(path).exists():
        return "alive"
    Path(path).touch()
    return die(progress=progress)


def refuse(*, progress):
    raise ValueError("given 3, expected 4: give 4")


def wait_for_ever(path, *, progress):
    """Say which process this is, and stay busy."""
    Path(path).write_text(str(os.getpid()))
    progress("busy")
    time.sleep(600.0)


def fateful_trial(spec, *, progress):
    """Answer a trial; the first of all says who has it and never comes back."""
    with Path(os.environ["SPARSID_TRACE"]).open("a") as file:
        file.write(f"{spec['ratio']}\n")
    holder = Path(os.environ["SPARSID_TRACE"] + ".holder")
    if spec["ratio"] == 0.2 and not holder.exists():
        part = holder.with_suffix(".part")
        part.write_text(str(os.getppid()))
        part.rename(holder)
        time.sleep(600.0)
    return runner.answer_trial(spec, progress=progress)


def fragile_trial(spec, *, progress):
    """Answer as usual, but know a kind of trial that ends the process."""
    if spec["kind"] == "die":
        os._exit(7)
    return runner.answer_trial(spec, progress=progress)


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
        self.progress = None

    def run(self, least=0):
        while self.cycles < self.last:
            self.cycles += 1
            if self.progress(Step(self.cycles)):
                return Outcome.STOPPED
            if self.cycles >= least and self.cycles in self.settled:
                return Outcome.CONVERGED
        return Outcome.CYCLES

    def found(self):
        return [self.cycles]

    def __getstate__(self):
        return {**vars(self), "progress": None}
