import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparsid.data.record import Record, check_compatible
from sparsid.data.scaling import Scaling
from sparsid.data.tables import records_from_frames
from sparsid.errors import InputError


@pytest.fixture
def record() -> Record:
    return Record(np.arange(20.0), np.arange(40.0).reshape(20, 2) ** 2, 0.5, name="r")


def gappy() -> Record:
    y = np.arange(10.0)
    y[[0, 4, 5]] = np.nan
    return Record(np.ones(10), y, start=100)


def test_arrays_become_two_dimensional_and_read_only(record: Record) -> None:
    assert record.u.shape == (20, 1)
    assert record.y.shape == (20, 2)
    assert record.u.dtype == record.y.dtype == np.float64
    assert (record.n_inputs, record.n_outputs, len(record)) == (1, 2, 20)
    assert (record.input_names, record.output_names) == (("u",), ("y1", "y2"))
    for values in (record.u, record.y, record[3:].y):
        with pytest.raises(ValueError, match="read-only"):
            values[0] = 1.0


def test_record_does_not_change_with_the_array_it_was_made_from() -> None:
    u = np.arange(5.0)
    record = Record(u, u)
    u[0] = 7
    assert record.u[0, 0] == 0
    with pytest.raises(AttributeError):
        record.dt = 2.0  # type: ignore[misc]


def test_series_without_inputs() -> None:
    for u in (None, np.empty((3, 0))):
        record = Record(u, [1, 2, 3])
        assert record.u.shape == (3, 0)
        assert record.input_names == ()
    assert list(record.to_frame().columns) == ["time", "y"]


def test_tables_give_their_column_names() -> None:
    frame = pd.DataFrame({"a": [1, 2], "b": [True, False]})
    record = Record(frame, pd.Series([1.0, None], name="c"), output_units="V")
    assert record.input_names == ("a", "b")
    assert record.output_names == ("c",)
    assert record.output_units == ("V",)
    assert np.isnan(record.y[1, 0])
    assert Record(frame, [1, 2], input_names=["p", "q"]).input_names == ("p", "q")
    assert Record(pd.DataFrame(np.ones((2, 2))), [1, 2]).input_names == ("u1", "u2")


@pytest.mark.parametrize("missing", [np.nan, None, pd.NA])
def test_every_way_to_say_missing_is_nan(missing: object) -> None:
    column = pd.Series([1, missing, 3], dtype="Int64")
    assert Record(None, column).gaps == [(1, 2)]
    assert Record(None, np.ma.array([1, 2, 3], mask=[0, 1, 0])).gaps == [(1, 2)]
    assert Record(None, [1, None, 3]).gaps == [(1, 2)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"u": [1, 2], "y": [1, 2, 3]}, "y has 3 samples but u has 2: both need"),
        ({"y": [1, np.inf]}, "'y' is infinite at sample 1"),
        ({"u": [[1, 2], [3, -np.inf]]}, "'u2' is infinite at sample 1"),
        ({"y": ["a", "b"]}, r"y holds .*'a'.* at sample 0"),
        ({"y": [1.0, "b"]}, r"y holds .*'1.0'.* at sample 0|at sample 1"),
        ({"y": pd.Series([1.0, "b"])}, "y holds 'b' at sample 1"),
        ({"y": [1j, 2]}, "only real numbers"),
        ({"y": np.array(["2020", "2021"], "M8[Y]")}, "only real numbers"),
        ({"y": None}, "y holds|dimensions"),
        ({"y": []}, "y is empty: a record needs samples"),
        ({"u": []}, r"u is empty.*None stands for no inputs"),
        ({"y": np.empty((2, 0))}, "y has no channels"),
        ({"y": np.ones((2, 1, 1))}, r"y has 3 dimensions, shape \(2, 1, 1\)"),
        ({"y": 3.0}, "y has 0 dimensions"),
        ({"u": [[1, 2], [3]]}, "u has rows of different lengths"),
        ({"dt": 0.0}, "dt is 0.0 but must be a positive number of seconds"),
        ({"dt": np.inf}, "dt is inf but"),
        ({"dt": np.nan}, "dt is nan but"),
        ({"dt": "4"}, "dt is '4' but"),
        ({"start": 1.5}, "start is 1.5 but must be a whole number"),
        ({"input_names": ["a", "b"]}, r"input_names is \['a', 'b'\] but 1 text"),
        ({"output_names": [3]}, r"output_names is \[3\] but 1 text"),
        ({"output_units": ["V", "m"]}, r"output_units is \['V', 'm'\] but 1"),
        ({"input_names": "y"}, "channel name 'y' is taken"),
        ({"input_names": "time"}, "channel name 'time' is taken"),
        ({"y": [np.nan, np.nan]}, "'y' is NaN throughout"),
    ],
)
def test_bad_input_is_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Record(**{"u": [1, 2], "y": [1, 2], **arguments})  # type: ignore[arg-type]


def test_slices_keep_names_and_place(record: Record) -> None:
    part = record[5:15][2:]
    assert (len(part), part.start, part.name, part.dt) == (8, 7, "r", 0.5)
    assert part.output_names == record.output_names
    np.testing.assert_array_equal(part.y, record.y[7:15])
    np.testing.assert_array_equal(part.time, record.time[7:15])
    assert record[-3:].start == 17
    assert "20 samples" in repr(record)


@pytest.mark.parametrize("key", [3, [1, 2], slice(None, None, 2), slice(5, 0, -1)])
def test_only_contiguous_slices(record: Record, key: object) -> None:
    with pytest.raises(InputError, match="only contiguous slices"):
        record[key]  # type: ignore[index]


def test_empty_slice_is_refused(record: Record) -> None:
    with pytest.raises(InputError, match=r"\[5:5\] of a record with 20 samples is"):
        record[5:5]


@given(st.integers(1, 50), st.data())
def test_blocks_cover_the_record(length: int, data: st.DataObject) -> None:
    n = data.draw(st.integers(1, length))
    record = Record(None, np.arange(length))
    blocks = record.blocks(n)
    assert len(blocks) == n
    np.testing.assert_array_equal(np.concatenate([b.y for b in blocks]), record.y)
    assert max(map(len, blocks)) - min(map(len, blocks)) <= 1
    assert [b.start for b in blocks] == [int(b.y[0, 0]) for b in blocks]


@pytest.mark.parametrize("n", [0, -1, 21])
def test_impossible_blocks(record: Record, n: int) -> None:
    with pytest.raises(InputError, match=f"20 samples cannot be cut into {n} blocks"):
        record.blocks(n)


def test_split_gives_the_fraction_to_the_last_part(record: Record) -> None:
    first, last = record.split(0.25)
    assert (len(first), len(last), last.start) == (15, 5, 15)


@pytest.mark.parametrize("fraction", [0.0, 1.0, -0.1, 1.5, 0.01, float("nan")])
def test_split_refuses_empty_parts(record: Record, fraction: float) -> None:
    with pytest.raises(InputError, match="leaves one part empty"):
        record.split(fraction)


def test_gaps_split_into_segments() -> None:
    record = gappy()
    assert record.gaps == [(0, 1), (4, 6)]
    assert [(len(s), s.start) for s in record.segments()] == [(3, 101), (4, 106)]
    assert all(not s.gaps for s in record.segments())
    assert record[4:6].segments() == []


@given(st.lists(st.booleans(), min_size=1, max_size=30).filter(any))
def test_segments_hold_every_complete_sample(measured: list[bool]) -> None:
    y = np.where(measured, np.arange(len(measured)), np.nan)
    parts = Record(None, y).segments()
    kept = np.concatenate([part.y[:, 0] for part in parts])
    np.testing.assert_array_equal(kept, np.flatnonzero(measured))


def test_tables_come_back_as_records() -> None:
    record = Record([1, 2, 3], [4, 5, 6], 0.1, input_units="A", start=7)
    u, y = record.to_frames()
    assert list(u.index) == list(y.index) == [7, 8, 9]
    (back,) = records_from_frames(u, y, 0.1)
    np.testing.assert_array_equal(back.y, record.y)
    assert (back.start, back.dt, back.input_names) == (7, 0.1, ("u",))
    frame = record.to_frame()
    assert list(frame.columns) == ["time", "u", "y"]
    assert frame.attrs["units"] == {"time": "s", "u": "A", "y": ""}
    np.testing.assert_allclose(frame["time"], [0.7, 0.8, 0.9])


def test_jumps_in_the_index_separate_records() -> None:
    u, y = Record(np.arange(10.0), np.arange(10.0) ** 2).to_frames()
    rows = [0, 1, 2, 6, 7, 9]
    parts = records_from_frames(u.iloc[rows], y.iloc[rows], 2.0)
    assert [(p.start, len(p), p.dt) for p in parts] == [(0, 3, 2), (6, 2, 2), (9, 1, 2)]
    (thin,) = records_from_frames(u.iloc[::2], y.iloc[::2])
    assert len(thin) == 5


@pytest.mark.parametrize("clock", ["date", "duration", "seconds"])
def test_jumps_in_a_time_index_separate_records(clock: str) -> None:
    seconds = np.array([0.0, 0.5, 1.0, 1.5, 4.0, 4.5, 5.25, 5.75])
    index: pd.Index = {
        "date": pd.Timestamp("2024-01-01") + pd.to_timedelta(seconds, unit="s"),
        "duration": pd.to_timedelta(seconds, unit="s"),
        "seconds": pd.Index(seconds),
    }[clock]
    parts = records_from_frames(None, pd.Series(np.arange(8.0), index=index))
    assert [(len(p), p.start, p.dt) for p in parts] == [
        (4, 0, 0.5),
        (2, 8, 0.5),
        (2, 11, 0.5),
    ]


def test_bad_indices_are_refused() -> None:
    y = pd.Series([1.0, 2.0, 3.0])
    with pytest.raises(InputError, match="does not increase at row 2"):
        records_from_frames(None, y.set_axis([0, 5, 5]))
    with pytest.raises(InputError, match="sample numbers, seconds or dates"):
        records_from_frames(None, y.set_axis(["a", "b", "c"]))
    with pytest.raises(InputError, match="u and y have different indices"):
        records_from_frames(y, y.set_axis([1, 2, 3]))
    with pytest.raises(InputError, match="y is a list but a DataFrame"):
        records_from_frames(None, [1.0, 2.0])
    with pytest.raises(InputError, match="less than the sampling time of 1 s"):
        records_from_frames(None, y.set_axis([0.0, 0.5, 1.5]), 1.0)


def test_scaling_over_several_records() -> None:
    rng = np.random.default_rng(0)
    u, y = rng.normal(3, 2, (30, 2)), rng.normal(-1, 5, 30)
    parts = Record(u, y).blocks(3)
    scaling = Scaling.of(parts)
    np.testing.assert_allclose(scaling.u_mean, u.mean(axis=0))
    np.testing.assert_allclose(scaling.y_std, [y.std()])
    scaled = scaling.scale_y(y[:, None])
    np.testing.assert_allclose(scaling.unscale_y(scaled), y[:, None])
    np.testing.assert_allclose(scaling.scale_u(u).std(axis=0), 1)
    np.testing.assert_allclose(scaling.unscale_y_std(np.ones(1)), scaling.y_std)
    assert Scaling.of(Record(None, y)).u_mean.shape == (0,)


def test_scaling_passes_over_gaps() -> None:
    scaling = Scaling.of(Record([1, 2, 3], [1, np.nan, 3]))
    assert (scaling.y_mean[0], scaling.y_std[0]) == (2, 1)


def test_scaling_refuses_channels_that_do_not_move() -> None:
    with pytest.raises(InputError, match=r"'u' is constant \(2.1\)"):
        Scaling.of(Record([2.1, 2.1, 2.1], [1, 2, 3]))
    with pytest.raises(InputError, match="'level' is constant"):
        Scaling.of(Record([1, 2], [0, 0], output_names="level"))
    with pytest.raises(InputError, match="'y' has no measured sample"):
        Scaling.of(Record(None, [1, np.nan, np.nan])[1:])
    with pytest.raises(InputError, match="deviations must be positive"):
        Scaling(np.zeros(1), np.zeros(1), np.zeros(1), np.ones(1))
    with pytest.raises(InputError, match="No record was given"):
        Scaling.of([])


def test_records_of_one_fit_must_agree() -> None:
    first = Record([1, 2], [1, 2])
    check_compatible([first, Record([3, 4], [5, 6], 1 + 1e-9)])
    with pytest.raises(InputError, match=r"Record 2 has input_names \['v'\] but"):
        check_compatible([first, Record([1, 2], [1, 2], input_names="v")])
    with pytest.raises(InputError, match=r"output_names \['y1', 'y2'\]"):
        check_compatible([first, Record([1, 2], np.ones((2, 2)))])
    with pytest.raises(InputError, match="Record 3 has dt 2 s but record 1 has 1 s"):
        check_compatible([first, first, Record([1, 2], [1, 2], 2.0)])


def test_records_in_different_units_are_refused() -> None:
    metres = Record([1.0, 2.0], [1.0, 3.0], output_units="m")
    centimetres = Record([1.0, 2.0], [100.0, 300.0], output_units="cm")
    unknown = Record([1.0, 2.0], [1.0, 3.0])
    with pytest.raises(InputError, match="'y' in cm but record 1 in m"):
        check_compatible([metres, centimetres])
    check_compatible([metres, unknown])


def test_tables_that_are_not_aligned_made_a_record() -> None:
    y = pd.Series([1.0, 2.0, 3.0])
    for u in (y.set_axis([1, 2, 3]), y.to_frame().iloc[::-1]):
        with pytest.raises(InputError, match="u and y have different indices: align"):
            Record(u, y)
    Record(y.set_axis(["a", "b", "c"]), y.set_axis(["a", "b", "c"]).to_frame("z"))


@pytest.mark.parametrize(
    "index",
    [
        [0, 1, 5],
        [0, 2, 5],
        [0.0, 0.5, 2.0],
        pd.to_datetime(["2024-01-01", "2024-01-02", "2024-01-09"]),
        pd.to_timedelta([0, 1, 5], unit="s"),
    ],
)
def test_tables_with_jumps_made_one_record(index: object) -> None:
    y = pd.Series([1.0, 2.0, 3.0], index=index)
    for u in (None, y.rename("u").to_frame(), [1, 2, 3]):
        with pytest.raises(InputError, match=r"at row 2, .* fit\(u, y\) or to sparsid"):
            Record(u, y)
    assert len(records_from_frames(None, y)) == 2
    assert len(Record(None, y.reset_index(drop=True))) == 3


@pytest.mark.parametrize("dtype", ["int64", "uint8", "float64"])
def test_tables_in_reverse_made_a_record(dtype: str) -> None:
    y = pd.Series([1.0, 2.0, 3.0])
    for reverse in (y.iloc[::-1], y.set_axis(np.array([3, 2, 1], dtype))):
        with pytest.raises(InputError, match=r"not increase at row 1 .*reset_index"):
            Record(None, reverse)
    for even in (y.iloc[1:], y.iloc[::2], y.set_axis(np.array([3, 6, 9], dtype))):
        assert len(Record(None, even)) == len(even)


def test_tables_lost_sampling_time_and_units_on_the_way_back() -> None:
    record = Record(
        np.ones((9, 2)), np.ones(9), 0.5, input_units=["A", ""], output_units="V"
    )
    u, y = record.to_frames()
    for rows, dt in (([0, 1, 2, 5, 6], 0.5), ([0, 2, 4], 1.0)):
        part = records_from_frames(u.iloc[rows], y.iloc[rows])[0]
        assert (part.dt, part.input_units, part.output_units) == (
            dt,
            ("A", ""),
            ("V",),
        )
    (chosen,) = records_from_frames(u["u2"], y["y"], 3.0, output_units="mV")
    assert (chosen.dt, chosen.input_units, chosen.output_units) == (3, ("",), ("mV",))
    y.attrs.clear()
    assert records_from_frames(u, y)[0].dt == 0.5
    u.attrs.clear()
    assert records_from_frames(u, y)[0].dt == 1
    clocked = record.to_frames()[1].set_axis(np.arange(9) * 2.0)
    assert records_from_frames(None, clocked)[0].dt == 2
    other = Record([1] * 9, [1] * 9, 0.25).to_frames()[1]
    with pytest.raises(InputError, match=r"dt 0.25 s and 0.5 s"):
        records_from_frames(record.to_frames()[0], other)


def test_units_are_compared_with_the_first_record_that_has_one() -> None:
    u, y = np.arange(5.0), np.arange(5.0)
    records = [Record(u, y, output_units=[unit]) for unit in ("", "V", "mV")]
    check_compatible(records[:2])
    with pytest.raises(InputError, match="Record 3 has 'y' in mV but record 2 in V"):
        check_compatible(records)


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ([0.0, 1.0, np.inf], "inf at row 2: that is no time"),
        ([-np.inf, 0.0, 1.0], "-inf at row 0: that is no time"),
        ([0.0, 1.0, 1e19], r"from 0.0 to 1e\+19, too far for samples every 1 s"),
        ([0.0, 5e-324, 1.0], "too far for samples"),
    ],
)
def test_an_endless_index_ended_in_a_traceback(index: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        records_from_frames(None, pd.Series([1.0, 2.0, 3.0], index=index))
    empty = pd.Series([], index=pd.Index([], dtype=float), dtype=float)
    with pytest.raises(InputError, match="no rows"):
        records_from_frames(None, empty)


@pytest.mark.parametrize("value", [1e200, -1e200, 1.1e100])
def test_values_whose_squares_overflow_made_a_record(value: float) -> None:
    for u, y, name in (([1, value], [1, 2], "u"), ([1, 2], [1, value], "y")):
        with pytest.raises(InputError, match=rf"'{name}' is .* at sample 1, but only"):
            Record(u, y)
    scaling = Scaling.of(Record([1e100, -1e100], [1.0, 2.0]))
    assert np.isfinite(scaling.u_std).all()


def test_a_step_was_called_constant_without_saying_where() -> None:
    record = Record(np.repeat([0.0, 1.0], 50), np.arange(100.0))
    assert Scaling.of(record).u_std[0] == 0.5
    with pytest.raises(InputError, match=r"'u' is constant \(1\) in samples 50 to 99"):
        Scaling.of(record[50:])
    parts = [record[50:60], record[80:]]
    with pytest.raises(InputError, match=r"\(1\) in the 30 samples of 2 stretches"):
        Scaling.of(parts)
