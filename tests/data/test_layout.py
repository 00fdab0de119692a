"""Text files as people have them: preambles, units, encodings, dates, bad cells."""

from pathlib import Path

import numpy as np
import pytest

from sparsid.data.files import read_csv
from sparsid.data.times import AmbiguousError, elapsed
from sparsid.errors import InputError


@pytest.fixture
def write(tmp_path: Path):
    def to_file(text: str, encoding: str = "utf-8") -> Path:
        path = tmp_path / "data.csv"
        path.write_text(text, encoding=encoding)
        return path

    return to_file


def test_a_unit_row_was_refused(write) -> None:
    record = read_csv(write("time,u,y\ns,%,m/s\n0,1,2\n2,3,4\n4,5,6\n"))
    assert (record.input_units, record.output_units) == (("%",), ("m/s",))
    assert record.dt == 2.0
    record = read_csv(write("t;u;y\n[ms];[V];[°C]\n0;1;2,5\n5;3;4,5\n10;5;6,5\n"))
    assert (record.dt, record.output_units) == (0.005, ("°C",))


def test_a_preamble_was_refused(write, caplog) -> None:
    caplog.set_level("INFO")
    text = "Bench 7\nOperator;Miller\n\ntime;u;y\ns;V;m\n0;1;2\n1;3;4\n2;5;6\n"
    record = read_csv(write(text))
    np.testing.assert_array_equal(record.y[:, 0], [2, 4, 6])
    assert record.output_units == ("m",)
    assert "the first 2 lines are taken as a preamble" in caplog.text


def test_a_preamble_above_columns_apart_by_blanks_was_the_header(write) -> None:
    table = "t  u    y\ns  V    m\n0  1  2.5\n1  3  4.5\n2  5  6.5\n"
    for above in ("", "Recorder 7, serial 12\n", "Recorder 7\non 3 May 2024\n\n"):
        record = read_csv(write(above + table))
        assert (record.input_names, record.output_names) == (("u",), ("y",))
        assert record.output_units == ("m",)
        np.testing.assert_array_equal(record.y[:, 0], [2.5, 4.5, 6.5])


@pytest.mark.parametrize(
    "text",
    [
        "t|u|y\n0|1|2,5\n1|3|4,5\n2|5|6,5\n",
        "Bench 7\nt | u | y\n0 | 1 | 2.5\n1 | 3 | 4.5\n2 | 5 | 6.5\n|||\n",
        "|t|u|y|\n|0|1|2.5|\n|1|3|4.5|\n|2|5|6.5|\n",
    ],
)
def test_pipes_between_cells_were_not_recognised(write, text: str) -> None:
    record = read_csv(write(text))
    assert (record.input_names, record.output_names) == (("u",), ("y",))
    np.testing.assert_array_equal(record.u[:, 0], [1, 3, 5])
    np.testing.assert_array_equal(record.y[:, 0], [2.5, 4.5, 6.5])


def test_hours_of_the_day_under_an_unknown_name_were_no_numbers(write) -> None:
    rows = [f"3.5.2024;00:00:{4 * k:02d};{k};{k * k}" for k in range(4)]
    for names in ("Datum;Uhrzeit;u;y", "day;clock;flow;level"):
        path = write("\n".join([names, *rows]) + "\n")
        record = read_csv(path, inputs=names.split(";")[2])
        assert (record.dt, record.n_outputs) == (4.0, 1)
    rows = [row[9:] for row in rows]
    record = read_csv(write("\n".join(["when;flow;level", *rows]) + "\n"))
    assert (record.dt, record.input_names) == (4.0, ("flow",))
    # Nothing but a clock and an output: the clock is no input.
    rows = [row.rsplit(";", 1)[0] for row in rows]
    record = read_csv(write("\n".join(["when;level", *rows]) + "\n"), inputs=[])
    assert (record.dt, record.output_names) == (4.0, ("level",))


def test_lines_in_messages_count_from_the_top_of_the_file(write) -> None:
    text = "Bench 7\n\ntime;u;y\ns;V;m\n0;1;2\n1;3;4\n2;5;6\n3;oops;8\n"
    with pytest.raises(InputError, match="column 'u', line 8: 'oops' is not a number"):
        read_csv(write(text))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig", "latin-1"])
def test_encodings(write, encoding: str) -> None:
    record = read_csv(write("u,y [°C]\n1,2\n3,4\n", encoding), dt=1.0)
    assert record.output_units == ("°C",)


def test_cells_of_historians_count_as_missing_with_a_warning(write, caplog) -> None:
    text = "u,y\n1,2\n2,Bad Input\n3,#VALUE!\n4,5\n"
    record = read_csv(write(text), dt=1.0)
    assert record.gaps == [(1, 3)]
    assert "2 cells of 'y' that say 'Bad Input' or '#VALUE!' count as" in caplog.text


@pytest.mark.parametrize(
    ("times", "steps"),
    [
        (["31.03.2024 10:00:00", "31.03.2024 10:00:30", "31.03.2024 10:01:00"], 30),
        (["31/03/2024 23:59", "01/04/2024 00:00", "01/04/2024 00:01"], 60),
        (["03/31/2024 23:59", "04/01/2024 00:00", "04/01/2024 00:01"], 60),
        (["3/4/24 11:59:30 AM", "3/4/24 12:00:00 PM", "3/4/24 12:00:30 PM"], 30),
        (["01/02/2024", "01/03/2024", "01/04/2024"], 86400),
        (["05.01.2024", "06.01.2024", "07.01.2024"], 86400),
        (["2024/03/31 10:00:00", "2024/03/31 10:00:01", "2024/03/31 10:00:02"], 1),
        (["2024-03-31T10:00:00Z", "2024-03-31T10:00:01Z", "2024-03-31T10:00:02Z"], 1),
        (["31.03.2024 10:00:00", "31.03.2024 10:00:00.5", "31.03.2024 10:00:01"], 0.5),
        (["23:59:59", "24:00:00", "24:00:01"], 1),
        (["23:59:59", "00:00:00", "00:00:01"], 1),
        (["10:00:00,5", "10:00:01,0", "10:00:01,5"], 0.5),
    ],
)
def test_times_as_people_write_them(times: list[str], steps: float) -> None:
    found = elapsed(np.array(times, dtype=object))
    np.testing.assert_allclose(np.diff(found), steps)


def test_dates_with_two_readings_are_refused(write) -> None:
    times = ["01/02/2024", "02/03/2024", "05/07/2024"]
    with pytest.raises(AmbiguousError):
        elapsed(np.array(times, dtype=object))
    rows = "".join(f"{t},1,2\n" for t in times)
    with pytest.raises(InputError, match=r"two readings.* write dates as 2024-03-31"):
        read_csv(write("time,u,y\n" + rows))


def test_a_cell_that_is_no_time_is_named_with_what_is_understood(write) -> None:
    text = "time,u,y\n10:00:00,1,2\n10:00:01,1,3\nlate,2,4\n"
    with pytest.raises(InputError, match="line 4: 'late' is no time; understood are"):
        read_csv(write(text))


def test_an_assumed_sampling_time_warns(write, caplog) -> None:
    assert read_csv(write("u,y\n1,2\n3,4\n")).dt == 1.0
    assert [r.levelname for r in caplog.records] == ["WARNING"]


def test_a_hundred_thousand_columns_gave_a_message_of_989_kilobytes(write) -> None:
    header = ",".join(f"c{k}" for k in range(3000))
    text = f"{header}\n{','.join(['1'] * 3000)}\n{','.join(['2'] * 3000)}\n"
    with pytest.raises(InputError, match="and 2980 more") as refused:
        read_csv(write(text))
    assert len(str(refused.value)) < 800


def test_uneven_steps_are_brought_to_even_ones_on_request(write) -> None:
    t = np.array([0.0, 0.9, 2.1, 3.0, 4.05, 5.0, 6.0, 7.2, 8.0])
    rows = "".join(f"{a},{2 * a},{3 * a}\n" for a in t)
    path = write("time,u,y\n" + rows)
    with pytest.raises(InputError, match="uneven="):
        read_csv(path)
    from sparsid.data.files import read

    record = read(path, uneven=0.5)
    np.testing.assert_allclose(record.y[:, 0], 3 * record.time, atol=1e-9)
