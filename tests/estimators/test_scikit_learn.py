"""What scikit-learn expects of an estimator, as far as a dynamic model can do it."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import r2_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from sparsid import Record, Simulator
from sparsid.errors import InputError

FEW = "the check has fewer than the 30 samples that a dynamic model needs"
WORDS = (
    "refused as it should be, in words that say what to do instead of scikit-learn's"
)
ORDER = "rows of a recording are in the order of time: the check shuffles or picks them"
# Checks that fail, and why that is right.
EXPECTED = {
    **dict.fromkeys(
        (
            "check_estimators_overwrite_params",
            "check_dont_overwrite_parameters",
            "check_estimators_fit_returns_self",
            "check_readonly_memmap_input",
            "check_n_features_in_after_fitting",
            "check_estimators_dtypes",
            "check_estimators_pickle",
            "check_f_contiguous_array_estimator",
            "check_dict_unchanged",
            "check_fit2d_predict1d",
            "check_fit2d_1feature",
        ),
        FEW,
    ),
    **dict.fromkeys(
        (
            "check_complex_data",
            "check_dtype_object",
            "check_estimators_empty_data_messages",
            "check_fit2d_1sample",
            "check_requires_y_none",
        ),
        WORDS,
    ),
    **dict.fromkeys(
        ("check_methods_sample_order_invariance", "check_methods_subset_invariance"),
        ORDER,
    ),
    # Only where SCIPY_ARRAY_API is set.
    "check_array_api_input": "records are arrays of NumPy",
}


@parametrize_with_checks(
    [Simulator("linear", states=1, workers=1)],
    expected_failed_checks=lambda _: EXPECTED,
)
def test_scikit_learns_own_checks(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.fixture(scope="module")
def tables() -> tuple[pd.DataFrame, pd.Series]:
    rng = np.random.default_rng(0)
    u, y = rng.normal(size=(150, 2)), np.zeros(150)
    for t in range(1, 150):
        y[t] = 0.8 * y[t - 1] + u[t - 1] @ [1.0, -0.5]
    y += 0.05 * rng.normal(size=150)
    return pd.DataFrame(u, columns=["valve", "speed"]), pd.Series(y, name="flow")


@pytest.fixture(scope="module")
def model(tables: tuple[pd.DataFrame, pd.Series]) -> Simulator:
    return Simulator("linear", states=1).fit(*tables)


def test_names_and_number_of_inputs(
    model: Simulator, tables: tuple[pd.DataFrame, pd.Series]
) -> None:
    assert model.n_features_in_ == 2
    assert list(model.feature_names_in_) == ["valve", "speed"]
    plain = Simulator("linear", states=1).fit(*(t.to_numpy() for t in tables))
    assert not hasattr(plain, "feature_names_in_")
    assert not hasattr(Simulator(), "n_features_in_")


def test_tags_say_that_outputs_are_needed_and_nan_is_a_gap() -> None:
    tags = Simulator().__sklearn_tags__()
    assert tags.target_tags.required
    assert tags.input_tags.allow_nan


def test_a_pipeline_predicts_the_free_run_and_scores(
    tables: tuple[pd.DataFrame, pd.Series],
) -> None:
    scaled = StandardScaler().set_output(transform="pandas")
    pipe = make_pipeline(scaled, Simulator("linear", states=1)).fit(*tables)
    run = pipe.predict(tables[0])
    # Scores of other packages take a forecast as it is.
    assert r2_score(tables[1], run) > 0.95
    assert pipe.score(*tables) > 0.8


def test_inputs_alone_have_their_free_run(
    model: Simulator, tables: tuple[pd.DataFrame, pd.Series]
) -> None:
    alone = model.predict(tables[0])
    np.testing.assert_array_equal(alone.mean, model.simulate(tables[0]).mean)
    assert alone.horizon is None
    with pytest.raises(InputError, match="no y was given"):
        model.predict([1.0, 2.0])


def test_records_have_names_of_their_own() -> None:
    rng = np.random.default_rng(0)
    u = rng.normal(size=100)
    record = Record(u, np.convolve(u, [0, 1, 0.5])[:100], input_names=["voltage"])
    found = Simulator("linear", states=2).fit(record)
    assert list(found.feature_names_in_) == ["voltage"]
