"""Pictures: what is drawn, where, and that nothing global is touched."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from sparsid import plots
from sparsid.cli.results import write_picture
from sparsid.data.record import Record
from sparsid.datasets import simulated_tanks
from sparsid.errors import InputError
from sparsid.estimators import NARX
from sparsid.plots.style import plain_text
from sparsid.results.forecast import Forecast
from sparsid.validation.evaluation import Part


def measured(outputs: int = 1, samples: int = 50, start: int = 0) -> Record:
    rng = np.random.default_rng(outputs)
    return Record(
        rng.normal(size=samples),
        rng.normal(size=(samples, outputs)).cumsum(0),
        4.0,
        output_names=["level", "flow", "heat"][:outputs],
        output_units=["V", "l/s", ""][:outputs],
        name="run",
        start=start,
    )


def forecast(
    record: Record, horizon: int | None = None, diverged_at: int | None = None
) -> Forecast:
    mean = record.y + 0.5
    mean[:3] = np.nan
    if diverged_at is not None:
        mean[diverged_at:] = np.nan
    return Forecast(
        mean,
        np.full_like(mean, 0.25),
        np.full_like(mean, 0.1),
        3,
        horizon,
        diverged_at,
        record.output_names,
        record.output_units,
    )


def test_simulation_shows_both_signals_in_seconds_with_units_and_error() -> None:
    record = measured(start=10)
    ax = plots.simulation(record, forecast(record))
    lines = {line.get_label(): line for line in ax.lines}
    assert np.array_equal(lines["measured"].get_xdata(), record.time)
    assert np.array_equal(lines["measured"].get_ydata(), record.y[:, 0])
    assert np.array_equal(
        lines["free run"].get_ydata(), forecast(record).mean[:, 0], equal_nan=True
    )
    assert ax.get_xlabel() == "time [s]"
    assert ax.get_ylabel() == "level [V]"
    assert "RMSE 0.5000 V" in ax.get_title(loc="left")
    # The whole band, and the part of it that is not noise.
    assert len(ax.collections) == 2


def test_given_axes_are_used_and_the_band_is_a_choice() -> None:
    record = measured(2)
    ax = Figure().subplots()
    assert plots.simulation(record, forecast(record, 5), ax, 1, band=False) is ax
    assert not ax.collections
    assert ax.get_title(loc="left").startswith("5 steps ahead")
    assert ax.get_ylabel() == "flow [l/s]"


def test_a_very_wide_band_does_not_flatten_the_signal() -> None:
    record = measured()
    wide = replace(forecast(record), std=np.full_like(record.y, 1e6))
    low, high = plots.simulation(record, wide).get_ylim()
    assert high - low < 4 * np.ptp(record.y)


def test_divergence_is_told_where_it_happened() -> None:
    record = measured()
    ax = plots.simulation(record, forecast(record, diverged_at=20))
    assert "diverged at 80 s" in ax.get_title(loc="left")


def test_forecast_of_another_record_is_refused() -> None:
    with pytest.raises(InputError, match="same samples"):
        plots.simulation(measured(), forecast(measured(2)))
    with pytest.raises(InputError, match="channel is 1"):
        plots.residual(measured(), forecast(measured()), channel=1)


@pytest.mark.parametrize(("records", "outputs"), [(1, 1), (1, 3), (2, 1), (5, 2)])
def test_identification_picture(tmp_path: Path, records: int, outputs: int) -> None:
    runs = [measured(outputs, start=60 * k) for k in range(records)]
    figure = plots.identification_picture(runs, [forecast(r) for r in runs], "title")
    assert len(figure.axes) == 2 * outputs * min(records, 3)
    figure.savefig(tmp_path / "p.png")
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
    headline = figure.get_suptitle()
    assert ("first 3 of 5" in headline) == (records == 5)


def test_picture_of_a_record_with_gaps_and_of_a_diverged_run(tmp_path: Path) -> None:
    record = measured()
    y = record.y.copy()
    y[20:25] = np.nan
    gappy = Record(record.u, y, 4.0, name="gaps")
    nothing = replace(forecast(record, diverged_at=3), std=np.full_like(y, np.nan))
    figure = plots.identification_picture([gappy, record], [forecast(gappy), nothing])
    figure.savefig(tmp_path / "p.png")
    with pytest.raises(InputError, match="nothing to draw"):
        plots.identification_picture([], [])


def test_history_shows_cost_and_kept_share(tmp_path: Path) -> None:
    record = simulated_tanks.simulate(samples=200).benchmark.estimation
    model = NARX(lags=2, hidden=(6,), max_cycles=45).fit(record)
    ax = plots.history(model)
    (cost,) = ax.lines
    assert np.array_equal(cost.get_ydata(), model.history_["cost"])
    right = next(other for other in ax.figure.axes if other is not ax)
    assert np.allclose(right.lines[0].get_ydata(), 100 * model.history_["kept"])
    ax.figure.savefig(tmp_path / "h.png")


def test_no_global_state_of_matplotlib_is_touched() -> None:
    code = (
        "import sys, numpy as np, sparsid\n"
        "from sparsid import plots\n"
        "assert 'matplotlib' not in sys.modules\n"
        "r = sparsid.Record(np.arange(9.), np.arange(9.))\n"
        "f = sparsid.Forecast(r.y, r.y, r.y, 0, 1, None, ('y',), ('',))\n"
        "plots.simulation(r, f).figure.savefig(sys.argv[1])\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code, "/dev/null"], check=True)


FORMULA = r"$\foo$"


def test_a_name_with_dollars_was_taken_for_a_formula(tmp_path: Path) -> None:
    """Matplotlib could not read it, and drew nothing."""
    record = measured()
    strange = Record(
        record.u,
        record.y,
        input_names=r"$\bar$",
        output_names=FORMULA,
        output_units="$V$",
        name=FORMULA,
    )
    for draw in (plots.simulation, plots.residual):
        draw(strange, forecast(strange)).figure.savefig(tmp_path / "p.png")
    pair = [strange, strange], [forecast(strange), forecast(strange)]
    figure = plots.identification_picture(*pair)
    figure.savefig(tmp_path / "p.svg")
    part = Part("test", pair[0], [1, 2], pair[1], pair[1])
    write_picture(tmp_path / "simulation.png", part, f"{FORMULA}: free run")
    assert (tmp_path / "simulation.png").exists()


def test_plain_text_leaves_powers_of_ten_alone(tmp_path: Path) -> None:
    ax = Figure().subplots()
    ax.semilogy([1.0, 1e-5])
    ax.set_xticks([0, 1], [FORMULA, "b"])
    ax.plot([0, 1], [1.0, 1e-5], label=FORMULA)
    ax.legend(title=FORMULA)
    ax.annotate(FORMULA, (0, 1))
    ax.set_title(FORMULA)
    plain_text(ax)
    ax.figure.savefig(tmp_path / "p.png")
    assert any("10^" in label.get_text() for label in ax.get_yticklabels())
    assert all(label.get_parse_math() for label in ax.get_yticklabels())
    assert [label.get_text() for label in ax.get_xticklabels()] == [FORMULA, "b"]
