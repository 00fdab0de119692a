"""Structure changes, all NumPy: what they leave unchanged and what they take away."""

import numpy as np
import pytest

from sparsid.bayes.cost import State
from sparsid.bayes.objective import Regression
from sparsid.bayes.prior import BlockPrior
from sparsid.fitting import pruning
from sparsid.models.network import ACTIVATIONS, Network

SAMPLES = 40
NETWORK = Network((3, 5, 2))
activations = pytest.mark.parametrize("activation", ACTIVATIONS)


def random_state(network, kind="row+column", seed=0, scale=0.7):
    rng = np.random.default_rng(seed)
    params, prior = [], []
    for block, shape in zip(network.blocks, network.shapes, strict=True):
        params.append(scale * rng.normal(size=shape))
        prior.append(
            BlockPrior(
                rng.uniform(0.5, 1.0, shape[0]),
                rng.uniform(0.5, 1.0, shape[1]),
                rng.uniform(0.5, 1.0, shape) if kind == "shape" else None,
                kind,
                block.bias,
            )
        )
    noise = np.linspace(0.01, 0.04, network.widths[-1])
    return State(tuple(params), tuple(prior), noise)


def random_data(network, seed=1):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(SAMPLES, network.widths[0]))
    return Regression(z, rng.normal(size=(SAMPLES, network.widths[-1])))


def with_params(state, block, change):
    params = [np.array(w) for w in state.params]
    change(params[block])
    return state._replace(params=tuple(params))


def outputs(network, state, data):
    return network.apply(state.params, data.z)


# -- folding -----------------------------------------------------------------------


@activations
@pytest.mark.parametrize("linear", [False, True])
def test_folding_a_duplicated_neuron_changes_nothing(activation, linear) -> None:
    network = Network((3, 5, 4, 2), activation, linear)
    data = random_data(network)
    state = random_state(network)

    def duplicate(W):
        W[:, 4] = W[:, 1]

    state = with_params(state, 0, duplicate)
    keep = np.array([True, True, True, True, False])
    folded = pruning.fold(network, state, data, 1, keep)
    np.testing.assert_allclose(
        outputs(network, folded, data), outputs(network, state, data), atol=1e-8
    )
    assert (folded.params[1][4] == 0).all()
    assert (folded.prior[1].variances()[4] == 0).all()
    # The other twin does the work of both.
    W = state.params[1]
    np.testing.assert_allclose(folded.params[1][1], W[1] + W[4], atol=1e-6)


def test_folding_a_linear_combination_changes_nothing() -> None:
    """ReLU neurons that never switch off are affine in the regressors."""
    network = Network((2, 4, 2), "relu")
    data = random_data(network)
    state = random_state(network)

    def lift(W):
        W[-1] = 20.0

    state = with_params(state, 0, lift)
    keep = np.array([True, True, False, False])
    folded = pruning.fold(network, state, data, 1, keep)
    np.testing.assert_allclose(
        outputs(network, folded, data), outputs(network, state, data), atol=1e-6
    )


def test_folding_a_redundant_regressor_changes_nothing() -> None:
    network = Network((3, 5, 2), linear_path=True)
    z = random_data(network).z
    z[:, 2] = 0.5 * z[:, 0] - z[:, 1] + 2.0
    data = Regression(z, np.zeros((SAMPLES, 2)))
    state = random_state(network)
    keep = np.array([True, True, False])
    for block in (0, 2):
        folded = pruning.fold(network, state, data, block, keep)
        np.testing.assert_allclose(
            outputs(network, folded, data), outputs(network, state, data), atol=1e-8
        )


@activations
def test_redundant_neurons_are_found(activation) -> None:
    network = Network((3, 8, 2), activation)
    data = random_data(network)
    state = random_state(network)

    def twins(W):
        W[:, 4:] = W[:, :4]

    state = with_params(state, 0, twins)
    folded = pruning.fold_redundant(network, state, data, tolerance=1e-3)
    assert pruning.alive(network, folded)["hidden1"].sum() <= 4
    np.testing.assert_allclose(
        outputs(network, folded, data), outputs(network, state, data), atol=1e-3
    )


def test_fold_tolerance_is_kept() -> None:
    network = Network((3, 12, 2))
    data, state = random_data(network), random_state(network, scale=0.3)
    counts = []
    for tolerance in (1e-6, 0.1, 1.0, 10.0):
        folded = pruning.fold_redundant(network, state, data, tolerance)
        change = outputs(network, folded, data) - outputs(network, state, data)
        assert np.sqrt((change**2 / state.noise).mean()) <= tolerance
        counts.append(int(pruning.alive(network, folded)["hidden1"].sum()))
    assert counts == sorted(counts, reverse=True)
    assert counts[0] == 12 > counts[-1]


# -- clearing ----------------------------------------------------------------------


@activations
def test_constant_of_a_dead_neuron_goes_into_the_next_bias(activation) -> None:
    network = Network((3, 4, 3, 2), activation)
    data = random_data(network)
    state = random_state(network, "shape")
    keep = np.ones((3, 4), bool)
    keep[:, [0, 2]] = False
    state = pruning.drop_weights(state, 0, keep)
    cleared = pruning.clear_dead(network, state)
    np.testing.assert_allclose(
        outputs(network, cleared, data), outputs(network, state, data), atol=1e-12
    )
    assert pruning.alive(network, cleared)["hidden1"].tolist() == [
        False,
        True,
        False,
        True,
    ]
    assert (cleared.params[1][[0, 2]] == 0).all()
    assert (cleared.prior[1].variances()[[0, 2]] == 0).all()


def test_clearing_goes_both_ways_through_the_layers() -> None:
    """A layer without weights leaves a constant: nothing before it is needed."""
    network = Network((3, 4, 3, 2))
    data, state = random_data(network), random_state(network, "shape")
    state = pruning.drop_weights(state, 1, np.zeros((4, 3), bool))
    cleared = pruning.clear_dead(network, state)
    np.testing.assert_allclose(
        outputs(network, cleared, data), outputs(network, state, data), atol=1e-12
    )
    assert sum(pruning.kept_weights(network, cleared)) == 0
    assert not pruning.alive(network, cleared)["regressors"].any()


def test_linear_path_keeps_regressors_alive() -> None:
    network = Network((3, 4, 2), linear_path=True)
    state = random_state(network, "shape")
    state = pruning.drop_weights(state, 0, np.zeros((3, 4), bool))
    cleared = pruning.clear_dead(network, state)
    assert pruning.kept_weights(network, cleared) == [0, 0, 6]
    assert pruning.alive(network, cleared)["regressors"].all()


# -- physical size -----------------------------------------------------------------


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("kind", ["shape", "row+column", "added"])
def test_shrinking_changes_neither_outputs_nor_variances(kind, exact) -> None:
    network = Network((6, 14, 10, 2), linear_path=True)
    data = random_data(network)
    state = random_state(network, kind)
    rng = np.random.default_rng(0)
    for block, count in ((0, 2), (1, 7), (2, 3), (3, 2)):
        keep = np.ones(len(state.params[block]) - (block < 3), bool)
        if block == 3:
            keep[:2] = False
        elif block == 0:
            keep[:count] = False
        else:
            keep[rng.choice(len(keep), count, replace=False)] = False
        state = pruning.fold(network, state, data, block, keep)
    state = pruning.clear_dead(network, state)
    smaller, less, chosen = pruning.shrink(network, state, exact=exact)
    live = {axis: int(m.sum()) for axis, m in pruning.alive(network, state).items()}
    assert live == {"regressors": 4, "hidden1": 7, "hidden2": 7, "outputs": 2}
    if exact:
        assert smaller.axes == live
    else:
        assert all(n >= live[axis] for axis, n in smaller.axes.items())
        assert all(
            n in (*pruning.LADDER, network.axes[a]) for a, n in smaller.axes.items()
        )
        assert smaller.axes["hidden1"] < 14
    part = Regression(data.z[:, chosen["regressors"]], data.y)
    np.testing.assert_allclose(
        outputs(smaller, less, part), outputs(network, state, data), atol=1e-10
    )
    assert pruning.kept_weights(smaller, less) == pruning.kept_weights(network, state)
    for block, p, q in zip(network.blocks, state.prior, less.prior, strict=True):
        rows = chosen[block.rows]
        rows = np.append(rows, len(p.rows) - 1) if block.bias else rows
        expected = p.variances()[rows][:, chosen[block.columns]]
        np.testing.assert_array_equal(q.variances(), expected)


def test_everything_pruned_leaves_a_constant_of_smallest_size() -> None:
    data = random_data(NETWORK)
    state = random_state(NETWORK, "shape")
    state = pruning.drop_weights(state, 0, np.zeros((3, 5), bool))
    cleared = pruning.clear_dead(NETWORK, state)
    assert pruning.kept_weights(NETWORK, cleared) == [0, 0]
    smaller, less, chosen = pruning.shrink(NETWORK, cleared, exact=True)
    assert smaller.widths == (0, 0, 2)
    part = Regression(data.z[:, chosen["regressors"]], data.y)
    constant = outputs(smaller, less, part)
    np.testing.assert_allclose(constant, outputs(NETWORK, state, data), atol=1e-12)
    assert np.ptp(constant, axis=0).max() < 1e-12


def test_folding_does_not_revive_single_weights() -> None:
    """A weight moved onto a removed one made the next threshold change the outputs."""
    data = random_data(NETWORK)
    state = random_state(NETWORK, "shape")
    keep = np.ones((5, 2), bool)
    keep[1, 0] = False
    state = pruning.drop_weights(state, 1, keep)
    folded = pruning.fold(NETWORK, state, data, 1, np.arange(5) != 0)
    for w, p in zip(folded.params, folded.prior, strict=True):
        assert (w[p.variances() == 0] == 0).all()


# -- candidates --------------------------------------------------------------------


def brute_chi2(network, state, data, removed):
    change = outputs(network, removed, data) - outputs(network, state, data)
    return float((change**2 / state.noise).sum())


def test_last_layer_candidates_equal_brute_force_removal() -> None:
    """The outputs are linear in the last layer: the first order is all there is."""
    data, state = random_data(NETWORK), random_state(NETWORK)
    found = [c for c in pruning.candidates(NETWORK, state, data) if c.block == 1]
    assert sorted(c.row for c in found) == list(range(5))
    for c in found:
        removed = pruning.fold(NETWORK, state, data, 1, np.arange(5) != c.row)
        brute = brute_chi2(NETWORK, state, data, removed)
        assert c.chi2 == pytest.approx(brute, rel=1e-5)


@pytest.mark.parametrize("row", range(3))
def test_first_layer_candidates_equal_brute_force_to_first_order(row) -> None:
    network = Network((3, 5, 2), linear_path=True)
    data = random_data(network)

    def weaken(W):
        W[row] *= 1e-5

    state = with_params(random_state(network), 0, weaken)
    (c,) = (c for c in pruning.candidates(network, state, data) if c[1:3] == (0, row))
    removed = pruning.fold(network, state, data, 0, np.arange(3) != row)
    brute = brute_chi2(network, state, data, removed)
    assert c.chi2 == pytest.approx(brute, rel=1e-3)


def test_single_weights_equal_brute_force_removal() -> None:
    data, state = random_data(NETWORK), random_state(NETWORK, "shape")
    order = pruning.candidates(NETWORK, state, data)
    assert [c.chi2 for c in order] == sorted(c.chi2 for c in order)
    cells = [c for c in order if c.block == 1 and c.column is not None]
    assert len(cells) == 10
    for c in cells:
        keep = np.ones((5, 2), bool)
        keep[c.row, c.column] = False
        removed = pruning.drop_weights(state, 1, keep)
        brute = brute_chi2(NETWORK, state, data, removed)
        assert c.chi2 == pytest.approx(brute, rel=1e-9)


def test_removal_takes_the_chosen_and_no_others() -> None:
    data, state = random_data(NETWORK), random_state(NETWORK, "shape")
    chosen = [pruning.Candidate(0.0, 1, 2, None), pruning.Candidate(0.0, 0, 1, 3)]
    removed = pruning.remove(NETWORK, state, data, chosen)
    first, second = pruning.live_weights(removed)
    assert not second[2].any()
    assert second[[0, 1, 3, 4]].all()
    expected = np.ones((3, 5), bool)
    expected[1, 3] = False
    expected[:, 2] = False
    np.testing.assert_array_equal(first, expected)


def test_candidates_with_equal_scores_can_be_ordered() -> None:
    """A ReLU neuron that is off everywhere: its row and its weights all score zero."""
    network = Network((3, 4, 1), "relu")
    data, state = random_data(network), random_state(network, "shape")

    def switch_off(W):
        W[:, 0] = 0.0
        W[-1, 0] = -5.0

    state = with_params(state, 0, switch_off)
    order = pruning.candidates(network, state, data)
    assert order[0].chi2 == 0.0


# -- thresholds --------------------------------------------------------------------


def test_either_threshold_removes_single_weights() -> None:
    state = random_state(NETWORK, "shape")
    state.prior[0].elements[0, 1] = 1e-7
    state.params[0][2, 3] = 1e-7
    state.prior[0].elements[-1, 0] = 1e-7
    cut = pruning.threshold(state, kappa_upsilon=1e-6, kappa_w=1e-6)
    gone = np.zeros((3, 5), bool)
    gone[0, 1] = gone[2, 3] = True
    np.testing.assert_array_equal(pruning.live_weights(cut)[0], ~gone)
    assert cut.params[0][0, 1] == cut.params[0][2, 3] == 0
    # Biases are never pruned alone.
    assert cut.prior[0].elements[-1, 0] == 1e-7
    np.testing.assert_array_equal(cut.params[0][-1], state.params[0][-1])


@pytest.mark.parametrize("kind", ["row", "row+column", "added"])
def test_thresholds_remove_whole_rows_and_columns(kind) -> None:
    state = random_state(NETWORK, kind)
    state.params[0][1] = 1e-7
    state.params[0][2, 3] = 1e-7
    cut = pruning.threshold(state, kappa_upsilon=0.0, kappa_w=1e-6)
    live = pruning.live_weights(cut)[0]
    assert not live[1].any()
    assert live[[0, 2]].all()


def test_a_vanishing_row_variance_removes_the_row() -> None:
    state = random_state(NETWORK)
    state.prior[0].rows[0] = 1e-12
    cut = pruning.threshold(state, kappa_upsilon=1e-10, kappa_w=0.0)
    live = pruning.live_weights(cut)[0]
    assert not live[0].any()
    assert live[1:].all()


def test_zero_thresholds_remove_nothing() -> None:
    state = random_state(NETWORK)
    cut = pruning.threshold(state, 0.0, 0.0)
    assert all(live.all() for live in pruning.live_weights(cut))


def test_a_signal_that_is_constant_but_for_rounding_overflowed() -> None:
    """A step at the first sample leaves such a regressor."""
    rng = np.random.default_rng(0)
    moving = rng.normal(size=(197, 2))
    signals = np.hstack([moving, np.full((197, 1), 0.1)])
    assert (signals - signals.mean(0))[:, 2].any()
    alone = pruning._unexplained(signals)
    np.testing.assert_allclose(alone[:, :2], pruning._unexplained(moving))
    assert np.abs(alone[:, 2]).max() < 1e-12
