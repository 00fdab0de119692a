"""Why a candidate was chosen stands in words."""

from types import SimpleNamespace

from sparsid.simulation.reasons import reason


def trial(name: str, rms: float, everywhere: bool = True) -> SimpleNamespace:
    return SimpleNamespace(name=name, rms=rms, everywhere=everywhere)


def test_the_linear_model_says_what_was_not_better() -> None:
    tried = [trial("b", 0.14), trial("a", 0.135), trial("never", 0.01, False)]
    text = reason(None, 0.14, tried, "")
    assert "the linear model is taken: a, the best of 2" in text
    assert "0.135 against 0.140" in text
    assert "no time" in reason(None, 0.14, tried[2:], "")
    assert reason(None, 0.14, tried, "asked for") == "asked for"


def test_a_smaller_error_beside_the_chosen_one_was_not_explained() -> None:
    chosen = trial("a", 0.143)
    text = reason(chosen, 0.3, [chosen, trial("c", 0.130), trial("d", 0.129)], "")
    assert "0.143 against 0.300 of the linear model" in text
    assert "0.129 and 0.130 are not clearly better in all blocks" in text
    assert "smallest" in reason(chosen, 0.3, [chosen, trial("e", 0.2)], "")


def test_pruning_may_cost_a_little() -> None:
    full, few = trial("a", 0.140), trial("a, pruned", 0.141)
    text = reason(few, 0.3, [full, few], "")
    assert "fewer weights than before pruning and 0.140" in text
    assert "smallest" not in text
