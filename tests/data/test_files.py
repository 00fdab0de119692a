import io
import logging
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.lib import format as npy
from scipy.io import savemat

from sparsid.data.files import (
    read,
    read_csv,
    read_mat,
    read_npz,
    read_records,
    write_csv,
)
from sparsid.errors import FileFormatError, InputError


@pytest.fixture
def write(tmp_path: Path):
    def write(text: str | bytes, name: str = "data.csv") -> Path:
        path = tmp_path / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    return write


@pytest.mark.parametrize(
    "text",
    [
        "u,y\n1,0.5\n2,-1.5\n",
        "u,y\r\n1,0.5\r\n2,-1.5\r\n",
        "\ufeffu,y\n1,0.5\n2,-1.5",
        "u;y\n1;0.5\n2;-1.5\n",
        "u;y\n1,0;0,5\n2;-1,5\n",
        "u\ty\n1\t0.5\n2\t-1.5\n",
        "u\ty\n1,0\t0,5\n2\t-1,5\n",
        "u  y\n1  0.5\n2 -1.5\n",
        "  u  y\n  1  0.5\n  2 -1.5\n",
        '"u","y",\n1,0.5,\n2,-1.5,\n',
        "u,y\n1,0.5,\n2,-1.5,\n",
        "u, y\n1, 0.5\n2, -1.5\n\n , \n",
        "# made today\n% by me\nu,y\n1,0.5\n\n2,-1.5\n",
        "y,u\n0.5,1\n-1.5,2\n",
        "U,Y,other\n1,0.5,a\n2,-1.5,b\n",
        "other,y\n1,0.5\n2,-1.5\n",
        "pump,level\n1,0.5\n2,-1.5\n",
        ",input,output\n0,1,0.5\n1,2,-1.5\n",
        "1,0.5\n2,-1.5\n",
        "1,0.5,\n2,-1.5,\n",
        "time,pump,level\n0,1,0.5\n1,2,-1.5\n",
        "2024-01-01 00:00:00,1,0.5\n2024-01-01 00:00:01,2,-1.5\n",
    ],
)
def test_dialects(write, text: str) -> None:
    time = "column1" if text.startswith("2024") else None
    record = read_csv(write(text), time=time)
    np.testing.assert_array_equal(record.u, [[1], [2]])
    np.testing.assert_array_equal(record.y, [[0.5], [-1.5]])
    assert (record.dt, record.name) == (1.0, "data")


def test_empty_cells_are_gaps(write) -> None:
    record = read_csv(write("u,y\n1,2\n,3\n4,NaN\n5,n/a\n6\n7,8\n"))
    assert record.gaps == [(1, 5)]


def test_names_without_header(write) -> None:
    record = read_csv(write("1 2\n3 4\n"))
    assert record.input_names + record.output_names == ("column1", "column2")


def test_given_separator_and_decimal_win(write) -> None:
    record = read_csv(write("u|y\n1,5|2\n2|3\n"), separator="|", decimal=",")
    np.testing.assert_array_equal(record.u, [[1.5], [2]])
    with pytest.raises(InputError, match="'--' but must be one character"):
        read_csv(write("u,y\n1,2\n"), separator="--")


@pytest.mark.parametrize("separator", [",", ";", "\t", "  "])
def test_units_in_the_header(write, separator: str) -> None:
    path = write("pump [V],level (m),Ts [ms]\n1,2,50\n2,3,50\n".replace(",", separator))
    record = read_csv(path)
    assert record.input_names + record.output_names == ("pump", "level")
    assert record.input_units + record.output_units == ("V", "m")
    assert record.dt == 0.05
    for spelling in ("level", "level (m)", "LEVEL"):
        assert read_csv(path, "pump", spelling).output_names == ("level",)
    assert read_csv(path, units={"level": "cm"}).output_units == ("cm",)


def test_one_name_in_two_units_stays_apart(write) -> None:
    record = read_csv(write("x [V],x [m]\n1,2\n2,3\n"))
    assert record.input_names + record.output_names == ("x [V]", "x [m]")
    assert record.output_units == ("m",)


def test_choice_of_columns(write) -> None:
    path = write("a,b,c\n1,2,3\n4,5,7\n")
    record = read_csv(path, ["c", "a"], "b")
    assert record.input_names == ("c", "a")
    np.testing.assert_array_equal(record.u, [[3, 1], [7, 4]])
    assert read_csv(path, ["a", "b"]).output_names == ("c",)
    assert read_csv(path, outputs=["a", "b"]).input_names == ("c",)
    assert read_csv(path, [], "b").n_inputs == 0
    path = write("u1,u2,y1,x\n1,2,3,4\n4,5,7,8\n")
    assert read_csv(path).input_names == ("u1", "u2")
    assert read_csv(path, outputs="x").input_names == ("u1", "u2")
    path = write("a,A\n1,2\n3,4\n")
    assert read_csv(path, "A", "a").input_names == ("A",)


def test_unclear_choice_lists_the_columns(write) -> None:
    path = write("pump,level,flow\n1,2,3\n4,5,7\n")
    with pytest.raises(InputError, match="'pump', 'level', 'flow', and it is not cle"):
        read_csv(path)
    with pytest.raises(InputError, match="not clear which"):
        read_csv(path, "pump")
    with pytest.raises(InputError, match="choose with inputs and outputs"):
        read_csv(path, "pump", [])
    with pytest.raises(InputError, match=r"no column 'levle', only .*mean 'level'\?"):
        read_csv(path, "pump", "levle")
    with pytest.raises(InputError, match=r"no column 'zzz', only .*'flow'\.$"):
        read_csv(path, "pump", "level", time="zzz")
    with pytest.raises(InputError, match="name 'pump' is taken"):
        read_csv(path, "pump", "pump")
    with pytest.raises(InputError, match="not clear which"):
        read_csv(write("y\n1\n2\n"))


@pytest.mark.parametrize(
    ("header", "times", "dt"),
    [
        ("t", ("0.0", "0.1", "0.2", "0.3"), 0.1),
        ("time [ms]", ("5", "10", "15", "20"), 0.005),
        ("Time (min)", ("0", "1", "2", "3"), 60.0),
        ("timestamp", ("2024-01-01T00:00:58", "2024-01-01T00:01:02", "", ""), 4.0),
        ("t", ("1", "1.501", "2", "2.5"), 0.5),
    ],
)
def test_sampling_time_from_time(write, header, times, dt) -> None:
    rows = [f"{t},{k},{k * k}" for k, t in enumerate(times) if t]
    record = read_csv(write("\n".join([f"{header},a,b", *rows])))
    assert record.dt == pytest.approx(dt, rel=1e-11)
    assert len(record) == len(rows)
    assert read_csv(write("\n".join(["t,a,b", *rows])), dt=7.0).dt == 7


def test_a_jump_in_time_is_a_gap(write) -> None:
    text = "t,a,b\n0,1,1\n2,2,2\n4,3,3\n10,4,4\n12,5,5\n"
    record = read_csv(write(text))
    assert (record.dt, record.gaps) == (2, [(3, 5)])
    assert [(s.start, len(s)) for s in record.segments()] == [(0, 3), (5, 2)]
    autonomous = read_csv(write(text), [], "b")
    assert (autonomous.gaps, autonomous.n_inputs) == ([(3, 5)], 0)


def test_sampling_time_from_its_own_column(write, caplog) -> None:
    assert read_csv(write("u,y,Ts,\n1,2,4,\n2,3,,\n")).dt == 4
    with caplog.at_level(logging.INFO, "sparsid"):
        assert read_csv(write("u,y\n1,2\n2,3\n")).dt == 1
    assert "1 s is assumed" in caplog.text


def test_default_sampling_time_is_for_files_that_tell_none(write, caplog) -> None:
    silent = write("u,y\n1,2\n2,3\n")
    with caplog.at_level(logging.INFO, "sparsid"):
        assert read_csv(silent, default_dt=0.5).dt == 0.5
    assert not caplog.records
    assert read_csv(silent, dt=3.0, default_dt=0.5).dt == 3
    assert read_csv(write("u,y,Ts\n1,2,4\n2,3,4\n"), default_dt=0.5).dt == 4
    assert read_csv(write("t,u,y\n0,1,2\n2,2,3\n"), default_dt=0.5).dt == 2
    with pytest.raises(InputError, match=r"dt is -1\.0"):
        read_csv(write("u,y\n1,2\n2,3\n"), default_dt=-1.0)
    with pytest.raises(InputError, match="'Ts' has 2 different values"):
        read_csv(write("u,y,Ts\n1,2,4\n2,3,5\n"), default_dt=0.5)


def test_default_sampling_time_of_a_single_row(write) -> None:
    record = read_csv(write("t,u,y\n7,1,2\n"), default_dt=0.5)
    assert (record.dt, len(record)) == (0.5, 1)
    assert read_csv(write("t,u,y,Ts\n7,1,2,4\n"), default_dt=0.5).dt == 4


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("t,u,y\n0,1,2\n1,2,3\n1,3,4\n", r"'t', line 4: time does not increase"),
        ("t,u,y\n0,1,2\n1,2,3\n2.5,3,4\n", "range from 1 to 1.5 s.*line 4.*resample"),
        ("t,u,y\n0,1,2\n1,2,3\n,3,4\n", "'t', line 4: '' is no time"),
        ("t,u,y\n0,1,2\n1,2,3\nx,3,4\n", "'t', line 4: 'x' is not a number"),
        ("t,u,y\n2024-01-01,1,2\nlater,2,3\n", "line 3: 'later' is no time"),
        ("t [days],u,y\n0,1,2\n1,2,3\n", "the unit 'days', but only s, sec"),
        ("t,u,y\n0,1,2\n", "one row, which does not tell the sampling time: give dt"),
        ("t,u,y\n0,1,2\n1,1,2\n2,2,1\n9e8,2,1", "gap of 9e"),
        ("u,y,Ts\n1,2,4\n2,3,5\n", "'Ts' has 2 different values but one is"),
        ("u,y,dt\n1,2,\n2,3,\n", "'dt' has 0 different values"),
        ("u,y\n1,2\n\n2,bad\n", r"column 'y', line 4: 'bad' is not a number"),
        ("u;y\n1,5;2,5\n2,5;x\n", r"column 'y', line 3: 'x' is not a number"),
        ("u,y\n1,2\n2,inf\n", "'y' is infinite at sample 1"),
        ("u,u,y\n1,2,3\n", "two columns named 'u': rename one"),
        ("", "is empty: a header and rows"),
        ("\n \n", "is empty: a header and rows"),
        ("u,y\n", "has a header but no rows"),
        ("u,y\n1,2\n1,2,3,4\n", "line 3 has 4 cells but there are 2 columns"),
        ("u\0y", "is no text file"),
    ],
)
def test_bad_tables_are_refused(write, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_csv(write(text))


def test_old_spreadsheets_are_read(write) -> None:
    record = read_csv(write("u [°C],y\n1,2\n2,3\n".encode("latin-1")))
    assert record.input_units == ("°C",)


def test_missing_files(write, tmp_path: Path) -> None:
    for reader in (read_csv, read_mat, read_npz):
        with pytest.raises(InputError, match=r"nothing.csv does not exist"):
            reader(tmp_path / "nothing.csv")
        with pytest.raises(InputError, match="is a folder"):
            reader(tmp_path)
    with pytest.raises(InputError, match=r"'.xls' but only .csv, .txt, .tsv, .dat"):
        read(tmp_path / "data.xls")


def test_suffix_chooses_the_reader(write, tmp_path: Path) -> None:
    savemat(tmp_path / "m.MAT", {"u": [1, 2], "y": [1, 2]})
    np.savez(tmp_path / "n.npz", u=[1, 2], y=[1, 2])
    paths = [write("u y\n1 1\n2 2\n", "c.TXT"), tmp_path / "m.MAT", tmp_path / "n.npz"]
    for path in paths:
        np.testing.assert_array_equal(read(path).y, [[1], [2]])
        assert (read(path).dt, read(path, default_dt=0.5).dt) == (1, 0.5)


@pytest.mark.parametrize("form", ["mat", "npz"])
def test_variables(tmp_path: Path, form: str) -> None:
    path = tmp_path / f"data.{form}"

    def save(**variables: object) -> Path:
        savemat(path, variables) if form == "mat" else np.savez(path, **variables)
        return path

    u, y = np.arange(10.0).reshape(5, 2), np.arange(5.0)
    record = read(save(uEst=u, yEst=y[None], uVal=u[:3], yVal=y[:3], Ts=4, note="x"))
    assert record.input_names == ("uEst1", "uEst2")
    assert record.output_names == ("yEst",)
    assert (record.dt, record.y.shape) == (4, (5, 1))
    assert read(path, "uVal", "yVal", units={"yVal": "V"}).output_units == ("V",)
    record = read(save(t=y * 0.5, v=u[:, :1], w=y))
    assert (record.dt, record.input_names) == (0.5, ("v",))
    with pytest.raises(InputError, match=r"lengths \{'v': 5, 'z': 3\}"):
        read(save(v=y, z=y[:3], w=y), ["v", "z"], "w")
    with pytest.raises(InputError, match=r"time has 3 samples but the chosen .* 5"):
        read(save(t=y[:3], v=y, w=y))
    with pytest.raises(InputError, match=r"'u' has shape \(5, 1, 2\)"):
        read(save(u=u[:, None, :], y=y))
    with pytest.raises(InputError, match="y has 3 samples but u has 5"):
        read(save(u=u, y=y[:3]))
    with pytest.raises(InputError, match=r"'t' has shape \(5, 2\) but one column"):
        read(save(t=u, u=y, y=y))
    with pytest.raises(InputError, match="row 3: time does not increase"):
        read(save(t=[0, 1, 1, 2, 3], u=y, y=y))
    with pytest.raises(FileFormatError, match="holds no arrays of numbers"):
        read(save(note="x"))
    path.write_bytes(b"no such format")
    with pytest.raises(FileFormatError, match=f"no readable {form.upper()} file"):
        read(path)


def test_dates_in_an_archive(tmp_path: Path) -> None:
    path = tmp_path / "data.npz"
    dates = np.datetime64("2024-01-01") + np.arange(3) * np.timedelta64(90, "s")
    np.savez(path, time=dates, u=[1, 2, 3], y=[1, 2, 3])
    assert read(path).dt == 90


def test_pickles_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", u=np.array([{}], dtype=object))
    with pytest.raises(FileFormatError, match="allow_pickle"):
        read_npz(tmp_path / "data.npz")


def test_a_damaged_matlab_73_file_is_named(tmp_path: Path) -> None:
    header = b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM"
    (tmp_path / "data.mat").write_bytes(header + bytes(400))
    with pytest.raises(FileFormatError, match="no readable MATLAB"):
        read_mat(tmp_path / "data.mat")


finite = st.floats(-1e100, 1e100)


@settings(deadline=None)
@given(values=st.lists(st.tuples(finite, finite), min_size=1, max_size=8))
def test_written_tables_come_back_exactly(tmp_path_factory, values) -> None:
    path = tmp_path_factory.mktemp("round") / "table.csv"
    u, y = np.array(values).T
    write_csv(path, {"pump, left": u, "level": y}, {"level": "V"})
    record = read_csv(path, "pump, left", "level")
    np.testing.assert_array_equal(record.u[:, 0], u)
    np.testing.assert_array_equal(record.y[:, 0], y)
    assert record.output_units == ("V",)
    assert [p.name for p in path.parent.iterdir()] == ["table.csv"]


# Brackets mark units, and blanks around a name are lost; all else comes back.
labels = st.text(
    st.characters(categories=("L", "N", "P", "S"), exclude_characters="[]()")
    | st.just(" "),
    min_size=1,
    max_size=8,
).filter(lambda text: text == text.strip() and text != "time")


@settings(deadline=None)
@given(
    names=st.lists(labels, min_size=2, max_size=4, unique=True),
    units=st.lists(st.just("") | labels, min_size=4, max_size=4),
    steps=st.lists(st.integers(1, 3), min_size=1, max_size=6).filter(lambda s: 1 in s),
    dt=st.floats(1e-3, 1e3).map(lambda dt: float(f"{dt:.6g}")),
    data=st.data(),
)
def test_written_names_units_gaps_and_times_come_back(
    tmp_path_factory, names, units, steps, dt, data
) -> None:
    path = tmp_path_factory.mktemp("round") / "table.csv"
    # More single steps than gaps: the usual step is the sampling time.
    rows = np.cumsum([0, *[1] * len(steps), *steps])
    cells = st.lists(finite | st.just(np.nan), min_size=len(rows), max_size=len(rows))
    columns = {name: [0.0, *data.draw(cells)[1:]] for name in names}
    units = dict(zip(names, units, strict=False))
    write_csv(path, {"time": rows * dt, **columns}, {"time": "s", **units})
    record = read_csv(path, names[:1], names[1:])
    values = np.column_stack([record.u, record.y])
    np.testing.assert_array_equal(values[rows], np.column_stack(list(columns.values())))
    assert np.isnan(np.delete(values, rows, axis=0)).all()
    assert len(record) == rows[-1] + 1
    assert record.dt == pytest.approx(dt, rel=1e-11)
    assert record.input_names + record.output_names == tuple(names)
    assert record.input_units + record.output_units == tuple(units.values())


def test_writing(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    write_csv(path, {"a": [1, 2], "b": [0.5, np.nan], "c": ["x", "y"]}, {"b": "V"})
    assert path.read_text() == "a,b [V],c\n1,0.5,x\n2,,y\n"


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "table.csv"
    write_csv(path, {"a": [1]})

    def fail(self: Path, target: Path) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write_csv(path, {"a": [2]})
    assert path.read_text() == "a\n1\n"
    assert list(tmp_path.iterdir()) == [path]


def test_bad_writes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"'a': \(1,\), 'b': \(2,\).*of one length"):
        write_csv(tmp_path / "t.csv", {"a": [1], "b": [1, 2]})
    with pytest.raises(InputError, match="1-D columns"):
        write_csv(tmp_path / "t.csv", {"a": [[1]]})
    with pytest.raises(InputError, match="1-D columns"):
        write_csv(tmp_path / "t.csv", {})
    with pytest.raises(InputError, match=r"The folder .*none does not exist"):
        write_csv(tmp_path / "none" / "t.csv", {"a": [1]})


def test_a_given_dt_does_not_hide_a_gap_in_the_time_column(tmp_path) -> None:
    """With dt given, rows on both sides of a hole were once glued together."""
    path = tmp_path / "hole.csv"
    times = [0, 1, 2, 6, 7]
    rows = "\n".join(f"{t},{t + 0.5},{2 * t}" for t in times)
    path.write_text(f"time,u,y\n{rows}\n")
    record = read_csv(path, dt=4.0)
    assert record.dt == 4.0
    assert record.gaps == [(3, 6)]
    assert [len(s) for s in record.segments()] == [3, 2]


def test_a_faulty_clock_is_ignored_only_if_dt_is_given(tmp_path, caplog) -> None:
    path = tmp_path / "clock.csv"
    path.write_text("time,u,y\n0,1,2\n5,2,3\n1,3,5\n")
    assert len(read_csv(path, dt=1.0)) == 3
    assert "time is ignored, as dt was given" in caplog.text
    with pytest.raises(InputError, match="does not increase"):
        read_csv(path, dt=1.0, time="time")


def test_a_given_dt_that_contradicts_the_time_column(write, caplog) -> None:
    path = write("t,u,y\n0,1,2\n2,2,3\n4,3,4\n8,4,5\n")
    assert read_csv(path, dt=2.0001, time="t").dt == 2.0001
    with pytest.raises(InputError, match="given as 5 s but 't' has steps of 2 s"):
        read_csv(path, dt=5.0, time="t")
    assert "dt counts" not in caplog.text
    record = read_csv(path, dt=5.0)
    assert (record.dt, len(record)) == (5.0, 5)
    assert "has steps of 2: dt counts" in caplog.text


@pytest.mark.parametrize(
    "text",
    ["u,y\n1,2\n{},3\n", "{},y\n1,2\n", 'u,y\n1,2\n3,"{}"\n'],
)
def test_a_cell_beyond_the_limit_of_the_csv_module_ended_in_a_traceback(
    write, text: str
) -> None:
    with pytest.raises(FileFormatError, match=r"line \d cannot be .* at most 131072"):
        read_csv(write(text.format("a" * 131073)))
    with pytest.raises(InputError) as refused:
        read_csv(write(text.format("a" * 131000)), "u", "y")
    assert len(str(refused.value)) < 1000


@pytest.mark.parametrize("cell", ["inf", "-inf", "1e400", "1e308"])
@pytest.mark.parametrize("row", [0, 1, 2])
def test_an_endless_time_ended_in_a_traceback(write, cell: str, row: int) -> None:
    times = ["0", "1", "2"]
    times[row] = cell
    rows = "".join(f"{t},{k},{k * k}\n" for k, t in enumerate(times))
    with pytest.raises(InputError, match=f"line {row + 2}: '.*' is no time"):
        read_csv(write("time,u,y\n" + rows))


def test_steps_too_small_to_compare_ended_in_a_traceback(write) -> None:
    with pytest.raises(InputError, match="the first uneven one at line 5"):
        read_csv(write("t,u,y\n0,1,1\n5e-324,2,2\n1e-323,3,3\n1,4,4\n"))


def test_dates_in_place_of_numbers_ended_in_a_traceback(tmp_path: Path) -> None:
    path, y = tmp_path / "data.npz", np.arange(3.0)
    dates = np.datetime64("2024-01-01") + np.arange(3) * np.timedelta64(90, "s")
    for name, values in (("u", dates), ("y", dates), ("u", dates - dates[0])):
        np.savez(path, **{"u": y, "y": y} | {name: values})
        with pytest.raises(InputError, match=f"'{name}' holds dates or durations"):
            read(path)
    np.savez(path, u=y, y=y, Ts=dates)
    with pytest.raises(InputError, match="'Ts' holds dates"):
        read(path)
    np.savez(path, u=y, y=y, time=np.array(["NaT"] * 3, "M8"))
    with pytest.raises(InputError, match="'NaT' is no time; understood are"):
        read(path)
    np.savez(path, u=y[:0], y=y[:0], time=dates[:0])
    with pytest.raises(InputError, match="the time 'time' is empty"):
        read(path)


def test_durations_in_an_archive_were_ignored(tmp_path: Path) -> None:
    path, y = tmp_path / "data.npz", np.arange(3.0)
    np.savez(path, time=np.arange(3) * np.timedelta64(90, "s"), u=y, y=y)
    assert read(path).dt == 90


@pytest.mark.parametrize("choice", [1, 1.5, True, [1], ["u", None], b"u", {"u"}])
def test_a_choice_that_is_no_name_ended_in_a_traceback(write, choice) -> None:
    path = write("u,y\n1,2\n2,3\n")
    for side in ("inputs", "outputs"):
        with pytest.raises(InputError, match=f"{side} is .* but names of columns"):
            read_csv(path, **{side: choice})
    for setting in ({"time": 1}, {"units": {1: "V"}}):
        with pytest.raises(InputError, match=r"1 is no name of a column: .*'u', 'y'"):
            read_csv(path, **setting)
    for setting in ({"units": "V"}, {"separator": 1}, {"decimal": [","]}):
        with pytest.raises(InputError, match=r" is .* but "):
            read_csv(path, **setting)


def test_a_gap_of_eight_million_samples_was_filled(write) -> None:
    times = [*range(100), *range(8_000_000, 8_000_100)]
    path = write("time,u,y\n" + "".join(f"{t},{t % 7},{t % 5}\n" for t in times))
    tracemalloc.start()
    first, second = read_records(path)
    with pytest.raises(InputError, match=r"gap of 7.9999e\+06 samples after line 101"):
        read(path)
    # A given dt does not hide the gap.
    with pytest.raises(InputError, match="files of their own"):
        read(path, dt=2.0)
    assert tracemalloc.get_traced_memory()[1] < 10_000_000
    tracemalloc.stop()
    assert [(r.start, len(r), r.gaps) for r in (first, second)] == [
        (0, 100, []),
        (8_000_000, 100, []),
    ]
    np.testing.assert_array_equal(second.time, times[100:])
    np.testing.assert_array_equal(second.u[:, 0], np.array(times[100:]) % 7)


def test_short_gaps_stay_inside_the_pieces_of_a_file(write) -> None:
    times = [0, 1, 2, 5, 6, 9, 10, 3000, 3001, 3002, 3004, 5000, 5001, 5002]
    rows = [f"{t},{t},{'' if t > 4000 else 2 * t}" for t in times]
    pieces = read_records(write("\n".join(["time,u,y", *rows])))
    assert [(r.start, len(r)) for r in pieces] == [(0, 11), (3000, 5), (5000, 3)]
    assert [r.gaps for r in pieces] == [[(3, 5), (7, 9)], [(3, 4)], [(0, 3)]]
    # A channel may be missing throughout a piece, not throughout the file.
    with pytest.raises(InputError, match="NaN throughout"):
        read_records(write("time,u,y\n0,1,\n1,2,\n9000,3,\n9001,4,\n"))
    whole = read(write("\n".join(["time,u,y", *rows])))
    assert (len(whole), len(whole.gaps)) == (5003, 5)


def test_a_long_clock_of_many_gaps_is_cut_everywhere(write) -> None:
    """Each gap alone would be short enough to fill."""
    steps = np.tile([1, 1, 900], 60)
    times = np.cumsum([0, *steps])
    pieces = read_records(write("t,u,y\n" + "".join(f"{t},1,{t}\n" for t in times)))
    assert len(pieces) == 61
    assert sum(map(len, pieces)) == len(times)


def test_members_of_an_archive_that_nobody_asked_for_were_loaded(
    tmp_path: Path,
) -> None:
    path, y = tmp_path / "data.npz", np.arange(5.0)
    other = np.arange(1000.0)
    np.savez(path, u=y, y=y, other=other, objects=np.array([{}], object), note="x")
    content = path.read_bytes()
    place = content.index(other.tobytes()) + 4000
    path.write_bytes(content[:place] + b"damaged" + content[place + 7 :])
    np.testing.assert_array_equal(read(path, "u", "y").y[:, 0], y)
    with pytest.raises(FileFormatError, match="no readable NPZ file: Bad CRC-32"):
        read(path, "other", "y")
    with pytest.raises(InputError, match="no column 'objects', only 'u', 'y', 'other'"):
        read(path, "objects", "y")


def test_an_archive_that_announces_more_than_it_holds(tmp_path: Path) -> None:
    path, header = tmp_path / "data.npz", io.BytesIO()
    npy.write_array_header_1_0(
        header, {"descr": "<f8", "fortran_order": False, "shape": (10**12,)}
    )
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("u.npy", header.getvalue() + bytes(80))
    with pytest.raises(FileFormatError, match=r"u\.npy is shorter than it says"):
        read(path)


def test_one_column_given_twice_counted_once(write) -> None:
    path = write("u [V],v,y\n1,2,3\n2,3,5\n")
    for twice in (["u", "u"], ["u", "v", "U"], ["u [V]", "u"]):
        with pytest.raises(InputError, match="inputs has 'u' more than once"):
            read_csv(path, twice, "y")
        with pytest.raises(InputError, match="outputs has 'u' more than once"):
            read_csv(path, "v", twice)


@pytest.mark.parametrize("name", ["=1+1", "+a", "-a", "@sum(a)", "'=1", "''", "-5"])
def test_names_became_formulas_in_spreadsheets(tmp_path: Path, name: str) -> None:
    path = tmp_path / "table.csv"
    write_csv(path, {name: [1.0, 2.0], "y": [1.0, 3.0]}, {name: "V"})
    assert path.read_text().startswith(f"'{name} [V],y")
    record = read_csv(path, name, "y")
    assert (record.input_names, record.input_units) == ((name,), ("V",))
