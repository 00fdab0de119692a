"""Ends in every column, against a loop; and the packing, read back."""

import json

import numpy as np
import pytest

from sparsid.app.signals import BAND, View, ends, packed
from sparsid.results import forecast


@pytest.mark.parametrize("length", [1, 7, 100, 1000, 1003])
@pytest.mark.parametrize("width", [1, 3, 10, 999])
def test_every_sample_is_in_one_column(length: int, width: int) -> None:
    rng = np.random.default_rng(length * width)
    values = rng.normal(size=length)
    view = View.of(length, 0, length, width)
    low, high = ends(values, view)
    if length <= 2 * width:
        assert (low == values).all()
        assert (high == values).all()
        return
    edges = [*view.starts().tolist(), length]
    for j in range(view.columns):
        part = values[edges[j] : edges[j + 1]]
        assert low[j] == part.min()
        assert high[j] == part.max()


@pytest.mark.parametrize("place", [0, 123_456, 999_999])
def test_a_spike_of_one_sample_in_a_million_is_seen(place: int) -> None:
    values = np.zeros(1_000_000)
    values[place] = 5.0
    _, high = ends(values, View.of(len(values), 0, len(values), 700))
    assert high.max() == 5.0
    assert (high == 5.0).sum() == 1


def test_missing_samples_hide_no_others() -> None:
    values = np.full(1000, np.nan)
    values[500:600] = 2.0
    low, high = ends(values, View.of(1000, 0, 1000, 10))
    assert np.isnan(low).sum() == 9
    assert low[5] == high[5] == 2.0


def test_views_lie_inside_the_signal() -> None:
    for first, stop in ((-5, 10), (90, 500), (200, 300), (50, 50), (60, 40)):
        view = View.of(100, first, stop, 10)
        assert 0 <= view.first < view.stop <= 100
    assert View.of(100, 0, 100, 0).columns == 1
    assert View.of(10_000_000, 0, 10_000_000, 10**9).columns == 8192


def test_what_is_packed_can_be_read_and_keeps_small_changes_of_large_values() -> None:
    values = 1e9 + np.arange(5.0) / 4.0
    gap = np.array([1.0, np.nan, 3.0, np.nan, 5.0])
    body = packed({"first": 3, "columns": 5}, {"a": (values, values), "b": (gap, gap)})
    length = int.from_bytes(body[:4], "little")
    head = json.loads(body[4 : 4 + length])
    assert head["first"] == 3
    assert head["series"] == ["a", "b"]
    assert (4 + length) % 4 == 0
    found = np.frombuffer(body[4 + length :], "<f4").reshape(4, 5).astype(float)
    assert (found[0] + head["bases"][0] == values).all()
    assert np.array_equal(found[2] + head["bases"][1], gap, equal_nan=True)


def test_bands_are_as_wide_as_everywhere() -> None:
    assert BAND == forecast.BAND
