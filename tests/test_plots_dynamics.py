"""Pictures of linear models: what is drawn, with units and bands."""

import numpy as np
import pytest
from made_models import DT, narx, simulator

from sparsid import plots
from sparsid.errors import InputError


@pytest.fixture(scope="module")
def linear():
    return simulator().linearise()


def test_bode_shows_gain_and_phase_with_bands(linear) -> None:
    upper, lower = plots.bode(linear, input_name="heat", output_name="flow")
    found = linear.frequency_response()
    assert np.array_equal(upper.lines[0].get_ydata(), found.magnitude[:, 1, 1])
    assert np.array_equal(lower.lines[0].get_ydata(), found.phase[:, 1, 1])
    assert upper.get_xscale() == upper.get_yscale() == "log"
    assert upper.get_ylabel() == "gain [l/s/kW]"
    assert lower.get_xlabel() == "frequency [rad/s]"
    assert len(upper.collections) == len(lower.collections) == 1
    upper.figure.draw_without_rendering()


def test_the_step_shows_the_response_and_where_it_ends(linear) -> None:
    ax = plots.step_response(linear, samples=30)
    assert np.array_equal(ax.lines[0].get_xdata(), DT * np.arange(30))
    gain = linear.gain.value[0, 0]
    assert any(np.allclose(line.get_ydata(), gain) for line in ax.lines[1:])
    assert ax.get_ylabel() == "change of level [m]"
    assert ax.get_title("left") == "level after valve rises by 1 V"


def test_several_operating_points_share_axes_and_are_named(linear) -> None:
    other = simulator().linearise(at={"heat": 1.0})
    both = {"low": linear, "high": other}
    upper, _ = plots.bode(both)
    for ax in (upper, plots.step_response(both), plots.poles(both)):
        names = [text.get_text() for text in ax.get_legend().get_texts()]
        assert names == ["low", "high"]
        ax.figure.draw_without_rendering()


def test_poles_of_members_and_draws_lie_around_those_of_the_model(linear) -> None:
    ax = plots.poles(linear)
    crosses = [line for line in ax.lines if line.get_marker() == "x"]
    assert len(crosses) == 1
    drawn = crosses[0].get_xdata() + 1j * crosses[0].get_ydata()
    assert drawn == pytest.approx(linear.poles.value)
    low, high = ax.get_xlim()
    assert (low < drawn.real).all()
    assert (drawn.real < high).all()
    lags = plots.poles(narx().linearise())
    lags.figure.draw_without_rendering()


def test_an_input_that_nothing_follows_from_could_not_be_drawn() -> None:
    """Its gain is zero, which a logarithmic axis does not have."""
    model = narx(linear_path=False)
    nothing = tuple(0.0 * w for w in model.fitted_.params)
    object.__setattr__(model.fitted_, "params", nothing)
    linear = model.linearise(draws=0)
    for ax in (*plots.bode(linear), plots.step_response(linear), plots.poles(linear)):
        ax.figure.draw_without_rendering()


def test_the_static_curve_has_units(linear) -> None:
    curve = simulator().static_gain("heat", points=4)
    ax = plots.static_gain(curve, output_name="flow")
    assert np.array_equal(ax.lines[0].get_ydata(), curve.outputs[:, 1])
    assert ax.get_xlabel() == "heat [kW]"
    assert ax.get_ylabel() == "flow [l/s]"


def test_unknown_names_are_refused_in_words(linear) -> None:
    with pytest.raises(InputError, match="one of valve, heat"):
        plots.bode(linear, input_name="fan")
    with pytest.raises(InputError, match="what linearise returns"):
        plots.poles(simulator())
