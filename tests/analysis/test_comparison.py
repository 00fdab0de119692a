"""Several models on the same samples, against errors computed by hand."""

import numpy as np
import pytest
from made_models import DT, mixed, narx, simulator

import sparsid
from sparsid.data.record import Record
from sparsid.errors import InputError


def record(samples: int = 120, seed: int = 0, gap: bool = False) -> Record:
    """A free run of one of the models, with noise."""
    rng = np.random.default_rng(seed)
    u = np.repeat(rng.normal(size=(samples // 5, 2)), 5, axis=0) * 0.5 + [1.0, -2.0]
    y = simulator().simulate(u, samples=0).mean + 0.05 * rng.normal(size=(samples, 2))
    if gap:
        y[40:60, 0] = np.nan
    return Record(
        u,
        y,
        DT,
        input_names=["valve", "heat"],
        output_names=["level", "flow"],
        output_units=["m", "l/s"],
        name="test",
    )


@pytest.fixture(scope="module")
def models() -> dict:
    return {
        "right": simulator(),
        "linear": simulator(mixed(neurons=0)),
        "lags": narx(),
    }


@pytest.mark.parametrize("gap", [False, True])
def test_errors_are_over_the_samples_that_all_models_forecast(models, gap) -> None:
    data = record(gap=gap)
    found = sparsid.compare(data, models, horizons=[5])
    runs = {
        name: [m.simulate(data, samples=0).mean, m.predict(data, horizon=5).mean]
        for name, m in models.items()
    }
    counts = np.isfinite(data.y)
    for own in runs.values():
        for mean in own:
            counts &= np.isfinite(mean)
    for m in found.models:
        for k in range(2):
            rows = counts[:, k]
            free, ahead = (mean[rows, k] - data.y[rows, k] for mean in runs[m.name])
            assert m.free_run_rmse[k] == pytest.approx(np.sqrt(np.mean(free**2)))
            assert m.ahead_rmse[5][k] == pytest.approx(np.sqrt(np.mean(ahead**2)))
            spread = data.y[rows, k].std()
            fit = 100.0 * (1.0 - m.free_run_rmse[k] / spread)
            assert m.free_run_fit[k] == pytest.approx(fit)
    assert found.samples == counts.any(1).sum()
    assert found.best == "right"


def test_the_table_has_size_evidence_and_tests(models) -> None:
    found = sparsid.compare(record(), models)
    table = found.to_frame()
    assert list(table.index) == ["right", "linear", "lags"]
    assert table.loc["right", "states"] == 3 + 4
    assert table.loc["lags", "states"] == 9 + 2
    assert table.loc["right", "members"] == 3
    assert table.loc["right", "log evidence"] == 0.0
    assert table.loc["linear", "weights"] == mixed(neurons=0).parameters
    assert "free run RMSE level [m]" in table
    assert "10 steps ahead RMSE flow [l/s]" in table
    assert table.loc["right", "residual tests passed"].endswith("of 6")
    text, page = str(found), found._repr_html_()
    for word in ("right", "level: free run", "1 step ahead", "smallest error: right"):
        assert word in text
        assert word in page
    assert "log evidences cannot be compared: the models are of different" in text


def test_evidences_of_the_same_kind_and_record_can_be_compared(models) -> None:
    two = {name: models[name] for name in ("right", "linear")}
    assert sparsid.compare(record(), two).notes == ()
    other = simulator()
    object.__setattr__(other.fitted_, "details", {"samples": 77})
    notes = sparsid.compare(record(), {**two, "other": other}).notes
    assert "learnt from different records" in notes[0]


def test_models_get_the_inputs_they_know_by_name(models) -> None:
    data = record()
    more = Record(
        np.column_stack([np.ones(len(data)), data.u[:, ::-1]]),
        data.y,
        DT,
        input_names=["fan", "heat", "valve"],
        output_names=data.output_names,
    )
    found = sparsid.compare(more, {"right": models["right"]})
    right = sparsid.compare(data, {"right": models["right"]})
    assert found.models[0].free_run_rmse == pytest.approx(right.models[0].free_run_rmse)


def test_a_model_that_runs_away_is_infinitely_wrong(models) -> None:
    wild = narx()
    params = tuple(20.0 * w for w in wild.fitted_.params)
    object.__setattr__(wild.fitted_, "params", params)
    found = sparsid.compare(record(), {"wild": wild, "right": models["right"]})
    assert np.isinf(found.models[0].free_run_rmse).all()
    assert np.isfinite(found.models[1].free_run_rmse).all()
    assert found.best == "right"
    assert "diverged" in str(found)
    found.plot().draw_without_rendering()


def test_the_picture_has_a_line_for_each_model(models) -> None:
    figure = sparsid.compare(record(), models).plot()
    upper, lower = figure.axes[:2]
    labels = [line.get_label() for line in upper.lines]
    assert labels[0] == "measured"
    assert [label.split(":")[0] for label in labels[1:]] == list(models)
    assert len(lower.lines) == 1 + len(models)
    assert lower.get_ylabel() == "error [m]"
    figure.draw_without_rendering()


def test_what_cannot_be_compared_is_refused_in_words(models) -> None:
    data = record()
    with pytest.raises(InputError, match="fitted models by name"):
        sparsid.compare(data, {})
    with pytest.raises(InputError, match="fitted models by name"):
        sparsid.compare(data, models["right"])
    with pytest.raises(InputError, match="a Record was expected"):
        sparsid.compare(data.y, models)
    with pytest.raises(InputError, match="a horizon"):
        sparsid.compare(data, models, horizons=[0])
    with pytest.raises(InputError, match="longer record"):
        sparsid.compare(data[:4], models)
    other = Record(data.u, data.y, DT, input_names=["a", "b"])
    with pytest.raises(InputError, match="input_names"):
        sparsid.compare(other, models)
