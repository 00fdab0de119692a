from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import r2_score

from sparsid.data.record import Record
from sparsid.errors import InputError
from sparsid.validation.scores import fit_percent, r2, rmse


def test_scores_against_formulas() -> None:
    rng = np.random.default_rng(0)
    y, mean = rng.normal(size=(2, 50, 2))
    np.testing.assert_allclose(rmse(y, mean), np.sqrt(np.mean((y - mean) ** 2, 0)))
    np.testing.assert_allclose(r2(y, mean), r2_score(y, mean, multioutput="raw_values"))
    expected = 100 * (
        1
        - np.linalg.norm(y - mean, axis=0) / np.linalg.norm(y - y.mean(axis=0), axis=0)
    )
    np.testing.assert_allclose(fit_percent(y, mean), expected)


def test_forecasts_count_from_their_start() -> None:
    record = Record(None, [1, 2, 3, 4])
    forecast = SimpleNamespace(mean=np.array([[np.nan], [99.0], [3.0], [6.0]]), start=2)
    np.testing.assert_allclose(rmse(record, forecast), [np.sqrt(2)])
    assert rmse(pd.Series([1.0, 2.0]), pd.Series([1.0, 2.0]))[0] == 0


def test_missing_measurements_are_left_out() -> None:
    y = [[1, 1], [np.nan, 2], [3, 3]]
    mean = [[1, 2], [np.nan, 2], [3, 3]]
    assert list(rmse(y, mean)) == [0, np.sqrt(1 / 3)]
    np.testing.assert_allclose(r2(y, mean), [1, 0.5])


def test_a_diverged_run_scores_infinity() -> None:
    y = [1.0, 2.0, 3.0]
    for bad in (np.nan, np.inf, 1e200):
        assert rmse(y, [1.0, 2.0, bad])[0] == np.inf
        assert r2(y, [1.0, 2.0, bad])[0] == -np.inf
        assert fit_percent(y, [1.0, 2.0, bad])[0] == -np.inf


def test_constant_output() -> None:
    assert fit_percent([2.0, 2.0], [2.0, 2.0])[0] == 100
    assert r2([2.0, 2.0], [2.0, 2.5])[0] == -np.inf


def test_bad_shapes_are_refused() -> None:
    with pytest.raises(InputError, match=r"shape \(2, 1\) but the forecast has \(3,"):
        rmse([1, 2], [1, 2, 3])
    with pytest.raises(InputError, match=r"\(2, 1\) but the forecast has \(2, 2\)"):
        rmse([1, 2], np.ones((2, 2)))
    with pytest.raises(InputError, match=r"measured outputs have shape \(1, 1, 1\)"):
        rmse(np.ones((1, 1, 1)), [1])
    with pytest.raises(InputError, match="forecast outputs are a str that is no array"):
        rmse([1], "text")
    with pytest.raises(InputError, match="channel 1 has no measured sample from"):
        rmse([1.0, np.nan], SimpleNamespace(mean=np.ones(2), start=1))
    with pytest.raises(InputError, match="there is nothing to score"):
        rmse([1.0, 2.0], SimpleNamespace(mean=np.ones(2), start=2))
