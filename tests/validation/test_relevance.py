"""How uncertain relevance is."""

import numpy as np
import pytest
from small_simulators import made

from sparsid.validation.relevance import _evidence_variance, relevance


def test_the_variance_of_the_evidence_is_that_of_drawn_weights() -> None:
    rng, k = np.random.default_rng(0), 5
    root = rng.normal(size=(k, k))
    C, m = root @ root.T, rng.normal(size=k)
    signal = np.sqrt(m @ np.linalg.solve(C, m) / k)
    w = m + rng.normal(size=(200_000, k)) @ root.T
    drawn = 0.5 * (w * np.linalg.solve(C, w.T).T).sum(axis=1)
    assert _evidence_variance(signal, k) == pytest.approx(drawn.var(), rel=0.03)


def test_members_apart_make_relevance_uncertain() -> None:
    one, many = (relevance(made("linear first", members=n)) for n in (1, 6))
    assert (one["members"] == 1).all()
    assert (many["members"] == 6).all()
    assert (many["evidence_std"] > 0.0).all()
    assert {"input", "state", "neuron"} == set(many["kind"])
