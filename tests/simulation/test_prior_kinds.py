"""Kinds of prior: who shares a variance with whom, and what updates do."""

import numpy as np
import pytest
from small_simulators import made

from sparsid import InputError, Simulator
from sparsid.simulation import compact
from sparsid.simulation.evidence import Run
from sparsid.simulation.member import Member
from sparsid.simulation.prior_kinds import (
    KINDS,
    costs_of,
    preferred,
    regrouped,
    row_groups,
    under,
)


def begun(name: str) -> Member:
    """A member with columns, over a made-up record."""
    model = made(name)
    fitted, rng = model.fitted_, np.random.default_rng(0)
    u = rng.normal(size=(120, fitted.channels.n_inputs))
    full = np.append(u, np.ones((120, 1)), axis=1)
    y = fitted.members[0].run(np.zeros_like(fitted.members[0].start), full)
    run = Run.of(u, y + 0.1 * rng.normal(size=y.shape))
    return compact._member(fitted.members[0], [run])


@pytest.mark.parametrize("name", ["linear first", "cascade"])
def test_rows_are_targets(name) -> None:
    structure = made(name).fitted_.members[0].structure
    learnt = np.ones(structure.parameters, dtype=bool)
    groups = row_groups(structure, learnt)
    assert (groups[: structure.leading] == -1).all()
    for k, (m, i, _) in enumerate(structure.free):
        for n, (other, j, _) in enumerate(structure.free):
            same = groups[structure.leading + k] == groups[structure.leading + n]
            inside = m == other or {m, other} == {"F", "H"}
            assert same == (inside and i == j)


@pytest.mark.parametrize("kind", KINDS)
def test_variances_keep_their_form(kind) -> None:
    member = under(begun("linear first"), kind)
    structure, p = member.structure, member.structure.parameters
    before = member.prior.variance.copy()
    for _ in range(6):
        last = member.cost
        member.cycle(coloured=True)
        assert member.cost <= last or not np.isfinite(last)
    prior = member.prior
    ratio = np.log(prior.variance / before)[:p]
    assert np.abs(ratio).max() > 0.01
    rows = row_groups(structure, prior.groups[:p] >= 0)
    columns = begun("linear first").prior.groups[:p]
    if kind == "row+column":
        # Log variances are a sum of what rows and what columns add.
        used = columns >= 0
        X = np.concatenate(
            [
                np.eye(rows.max() + 1)[rows[used]],
                np.eye(columns.max() + 1)[columns[used]],
            ],
            axis=1,
        )
        left = ratio[used] - X @ np.linalg.lstsq(X, ratio[used], rcond=None)[0]
        np.testing.assert_allclose(left, 0.0, atol=1e-9)
    if kind in ("row", "column"):
        groups = rows if kind == "row" else columns
        for group in np.unique(groups[groups >= 0]):
            own = prior.variance[:p][groups == group]
            np.testing.assert_allclose(
                own / own[0],
                before[:p][groups == group] / before[:p][groups == group][0],
            )
    if kind == "shape":
        assert len(np.unique(prior.groups[prior.groups >= 0])) == (columns >= 0).sum()


def test_a_kind_is_taken_if_its_cost_is_clearly_less() -> None:
    costs = dict.fromkeys(KINDS, 10.0)
    assert preferred(costs) == "column"
    assert preferred(costs | {"row": 9.0}) == "column"
    assert preferred(costs | {"row": 5.0, "shape": 7.0}) == "row"


def test_costs_are_those_of_members_that_went_on() -> None:
    members = [begun("cascade")]

    def go_on(member: Member, cycles: int) -> Member:
        for _ in range(2):
            member.cycle(coloured=True)
        return member

    found = costs_of(members, go_on, lambda work, jobs: [work(job) for job in jobs])
    for kind in KINDS:
        assert found[kind] == go_on(under(members[0], kind), 2).cost


def test_priors_of_fewer_parameters_keep_both_groups() -> None:
    member = begun("linear first")
    prior = regrouped(member.structure, member.prior, "row+column")
    keep = np.arange(len(prior.mean)) % 2 == 0
    few = prior.take(keep)
    assert few.across is not None
    assert prior.across is not None
    np.testing.assert_array_equal(few.across, prior.across[keep])
    longer = prior.with_starts(member.structure.parameters, 10, 4.0)
    assert longer.across is not None
    assert (longer.across[-10:] == -1).all()


def test_kinds_that_do_not_exist_are_refused() -> None:
    with pytest.raises(InputError, match="prior='circle'"):
        Simulator(prior="circle").fit(np.zeros((50, 1)), np.zeros((50, 1)), dt=1.0)
