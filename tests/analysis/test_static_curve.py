"""Curves of states of rest, against single states and their differences."""

import numpy as np
import pytest
from made_models import mixed, narx, simulator

from sparsid.errors import InputError


def test_the_curve_goes_through_steady_states_and_its_slope_is_the_gain() -> None:
    # Members apart: the slope of a median is not the median of slopes.
    for model in (simulator(members=1), narx()):
        curve = model.static_gain("heat", over=(-4.0, 2.0), points=7)
        assert curve.values == pytest.approx(np.linspace(-4.0, 2.0, 7))
        for value, outputs, gain in zip(
            curve.values, curve.outputs, curve.gain, strict=True
        ):
            point = {"heat": float(value)}
            assert model.steady_state(point).outputs == pytest.approx(outputs)
            h = 1e-4
            apart = [
                model.steady_state({"heat": float(value + side)}, draws=0).outputs
                for side in (h, -h)
            ]
            slope = (apart[0] - apart[1]) / (2.0 * h)
            assert slope == pytest.approx(gain, rel=1e-4, abs=1e-7)
        assert (curve.outputs_low <= curve.outputs_high).all()
        assert (curve.gain_low <= curve.gain_high).all()


def test_the_gain_of_a_linear_model_is_everywhere_the_same() -> None:
    model = simulator(mixed(neurons=0), members=1)
    curve = model.static_gain("valve")
    gain = model.linearise().gain.value[:, 0]
    assert curve.gain == pytest.approx(np.tile(gain, (25, 1)))
    steps = np.diff(curve.outputs, axis=0) / np.diff(curve.values)[:, None]
    assert steps == pytest.approx(curve.gain[1:])


def test_the_table_names_outputs() -> None:
    table = simulator().static_gain("valve", points=3).to_frame()
    assert list(table.columns[:4]) == ["valve", "level", "level low", "level high"]
    assert "gain of flow" in table


def test_wrong_inputs_are_refused_in_words() -> None:
    model = simulator()
    with pytest.raises(InputError, match="one of valve, heat"):
        model.static_gain()
    with pytest.raises(InputError, match="lower end first"):
        model.static_gain("heat", over=(1.0, 1.0))
    with pytest.raises(InputError, match="points"):
        model.static_gain("heat", points=1)
