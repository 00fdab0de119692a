"""One rule for the sampling time, wherever data are handed over."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import xarray

from sparsid.data.record import Record
from sparsid.data.tables import as_records
from sparsid.errors import InputError
from sparsid.results.channels import Channels

Y = np.arange(6.0)


def table(step: float) -> pd.DataFrame:
    return pd.DataFrame({"y": Y}, index=step * np.arange(6))


def test_a_time_index_told_fit_nine_seconds_and_a_record_one() -> None:
    frame = table(9.0)
    dates = pd.DataFrame({"y": Y}, index=pd.date_range("2024", periods=6, freq="9s"))
    for data in (frame, dates):
        assert Record(None, data).dt == as_records(None, data)[0].dt == 9.0


def test_the_time_coordinate_of_xarray_was_ignored() -> None:
    data = xarray.DataArray(Y, dims="time", coords={"time": 9.0 * np.arange(6)})
    assert Record(None, data).dt == 9.0
    assert as_records(data.rename("u"), data)[0].dt == 9.0
    jumps = xarray.DataArray(Y, dims="t", coords={"t": [0.0, 1, 2, 3, 9, 10]})
    with pytest.raises(InputError, match=r"jumps from 3.0 to 9.0"):
        Record(None, jumps)


def test_a_model_of_one_second_ran_over_a_table_of_nine_without_a_word() -> None:
    channels = Channels(("y",), ("z",), ("",), ("",), 1.0)
    with pytest.raises(InputError, match="dt is 1 s but the index has steps of 9 s"):
        channels.inputs(table(9.0))
    with pytest.raises(InputError, match="steps of 9 s but the sampling time is 1 s"):
        as_records(None, table(9.0), 1.0)


def test_an_assumed_second_warns(caplog) -> None:
    assert Record(Y, Y).dt == 1.0
    assert as_records(pd.Series(Y, name="u"), pd.Series(Y, name="y"))[0].dt == 1.0
    assert [r.levelname for r in caplog.records] == ["WARNING"] * 2
    caplog.clear()
    assert Record(*Record(Y, Y, 4.0).to_frames()).dt == 4.0
    assert not caplog.records


def test_data_of_nonlinear_benchmarks_are_records() -> None:
    data = SimpleNamespace(u=Y, y=Y[:, None], sampling_time=0.5, name="tanks")
    (record,) = as_records(data)
    assert (record.dt, record.name, len(record)) == (0.5, "tanks", 6)
    assert [r.dt for r in as_records([data, record])] == [0.5, 0.5]
    with pytest.raises(InputError, match="no y was given"):
        as_records(SimpleNamespace(u=Y))
