"""How long a search takes, from what is planned and what was done."""

from collections import Counter

import pytest

from sparsid.simulation import waiting
from sparsid.simulation.rounds import ROUNDS, Round
from sparsid.simulation.waiting import Waiting, race_work


def test_work_of_a_race_is_that_of_its_cycles_one_by_one() -> None:
    sizes, costly = [3.0, 1.0, 2.0, 5.0], [False, False, True, False]
    candidates = sorted(zip(sizes, costly, strict=True))
    expected, begun, ages = [], Counter[int](), {}
    for plan in ROUNDS:
        work = 0.0
        for k, (size, dear) in enumerate(candidates):
            starts = plan.fewer if dear else plan.starts
            for _ in range(starts - begun[k]):
                work += size * plan.first
            begun[k] = max(begun[k], starts)
            age = ages.get(k, plan.first)
            work += plan.kept * size * (plan.cycles - age)
            ages[k] = plan.cycles
        expected.append(work)
        # Those of middle size stay.
        spare = max(len(candidates) - plan.most, 0) // 2
        stay = range(spare, min(spare + plan.most, len(candidates)))
        begun = Counter({new: begun[old] for new, old in enumerate(stay)})
        ages = {new: ages[old] for new, old in enumerate(stay)}
        candidates = [candidates[k] for k in stay]
    assert race_work(ROUNDS, sizes, costly) == expected
    last = race_work(ROUNDS, [2.0], [True], 2)
    assert last == [2.0 * 3 * 40]
    assert race_work(ROUNDS, [], []) == [0.0, 0.0, 0.0]


def test_the_pace_so_far_tells_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(waiting.time, "perf_counter", lambda: now[0])
    clock = Waiting()
    assert clock.seconds() is None
    clock.plan(10.0, 30.0)
    assert clock.seconds() is None
    now[0] += 5.0
    for _ in range(5):
        clock.cycle(1.0)
    # A second each: five of this stage are left and thirty of what follows.
    assert clock.seconds() == pytest.approx(waiting.RESERVE * 35.0)
    clock.plan(8.0, 0.0)
    assert clock.seconds() == pytest.approx(waiting.RESERVE * 8.0)
    for _ in range(20):
        clock.cycle(1.0)
    assert clock.seconds() == 0.0


def test_rounds_have_what_the_plan_reads() -> None:
    assert race_work((Round(2, 1, 10, 2, 15, 1.0, 1),), [1.0], [False]) == [30.0]
