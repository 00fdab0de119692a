"""Roles, steps and splits: what they do, what is refused, and that it is kept."""

import zipfile
from pathlib import Path

import numpy as np
import pytest

import sparsid
from sparsid.app import operations
from sparsid.app.archive import session_archive, unpack
from sparsid.app.columns import described, first_rows
from sparsid.app.recipe import divided
from sparsid.app.server import load
from sparsid.app.session import MissingError, Session
from sparsid.data.files import read_table
from sparsid.data.record import Record
from sparsid.errors import InputError


def write(folder: Path, name: str = "pump.csv", samples: int = 120) -> Path:
    rng = np.random.default_rng(0)
    u = np.repeat(rng.uniform(1, 5, samples // 10 + 1), 10)[:samples]
    y = np.convolve(u, 0.2 * 0.8 ** np.arange(40))[:samples]
    lines = ["time [s],voltage [V],level [cm],note,fixed"]
    lines += [f"{4 * t},{u[t]:.3f},{y[t]:.3f},ok,7" for t in range(samples)]
    path = folder / name
    path.write_text("\n".join(lines))
    return path


@pytest.fixture
def session(tmp_path: Path) -> Session:
    found = Session(tmp_path / "session")
    load(found, write(tmp_path))
    return found


def roles(session: Session) -> dict[str, str]:
    return {c["name"]: c["role"] for c in session.state["files"][0]["columns"]}


def test_roles_are_guessed_from_names_and_values(session: Session) -> None:
    assert roles(session) == {
        "time": "time",
        "voltage": "input",
        "level": "output",
        "note": "ignore",
        "fixed": "ignore",
    }
    (record,) = session.records()
    assert record.dt == 4.0
    assert record.input_units == ("V",)


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("u,y", "input output"),
        ("a,b", "input output"),
        ("valve,pump,a,b", "input input input output"),
        ("y1,y2,u", "output output input"),
        ("temperature,heater", "output input"),
        ("t,x1,x2", "time input output"),
        ("voltage,current", "input output"),
    ],
)
def test_guesses_leave_an_output(tmp_path: Path, header: str, expected: str) -> None:
    rng = np.random.default_rng(1)
    count = header.count(",") + 1
    lines = [header]
    for t in range(20):
        row = rng.normal(size=count)
        row[0] = t if header.startswith("t,") else row[0]
        lines.append(",".join(f"{v:.4f}" for v in row))
    path = tmp_path / "a.csv"
    path.write_text("\n".join(lines))
    found = described(read_table(path))
    assert " ".join(c["role"] for c in found) == expected


def test_constant_missing_and_clipped_columns_are_told(tmp_path: Path) -> None:
    t = np.arange(400)
    wave = np.minimum(np.sin(t / 15.0), 0.8)
    steps = np.repeat([1.0, 2.0, 3.0, 1.0], 100)
    lines = ["u,y,steps,c,g"]
    lines += [
        f"{wave[k]:.5f},{np.sin(k / 9):.5f},{steps[k]},3,{'' if k == 5 else k % 9}"
        for k in t
    ]
    path = tmp_path / "a.csv"
    path.write_text("\n".join(lines))
    told = {c["name"]: " ".join(c["warnings"]) for c in described(read_table(path))}
    assert "upper end, 0.8" in told["u"]
    assert told["y"] == ""
    assert told["steps"] == ""
    assert "constant" in told["c"]
    assert "1 samples are missing" in told["g"]


def test_first_rows_are_shown_as_in_the_file(session: Session) -> None:
    rows = session.state["files"][0]["rows"]
    assert len(rows) == 8
    assert rows[1][0] == "4"
    assert rows[0][3] == "ok"


def test_a_role_is_corrected_for_all_files_alike(tmp_path: Path) -> None:
    session = Session(tmp_path / "session")
    load(session, write(tmp_path))
    load(session, write(tmp_path, "second.csv", 90))
    change = [{"name": "voltage", "role": "output"}, {"name": "level", "role": "input"}]
    session.change_file("f2", {"columns": change, "dt": None})
    assert [r.input_names for r in session.records()] == [("level",), ("level",)]


def test_the_same_file_is_not_loaded_twice(session: Session, tmp_path: Path) -> None:
    load(session, tmp_path / "pump.csv")
    assert len(session.state["files"]) == 1


def test_everything_is_there_when_it_is_opened_again(session: Session) -> None:
    session.add_step({"op": "keep", "record": 0, "first": 10, "stop": 110})
    session.set_split({"ranges": [[0, 40, 60]]})
    again = Session(session.folder)
    assert again.state == session.state
    assert len(again.records()[0]) == 100


def test_a_session_is_open_once(session: Session) -> None:
    session.open()
    other = Session(session.folder)
    with pytest.raises(InputError, match="open in another window"):
        other.open()
    session.close()
    other.open()
    other.close()


STEPS = [
    {"op": "detrend", "kind": "constant"},
    {"op": "detrend", "kind": "linear"},
    {"op": "filter", "low": None, "high": 0.05, "order": 2},
    {"op": "filter", "low": 0.001, "high": 0.05, "order": 2},
    {"op": "resample", "dt": 8.0},
    {"op": "shift", "channel": "voltage", "samples": 3},
    {"op": "keep", "record": 0, "first": 20, "stop": 100},
    {"op": "drop", "record": 0, "first": 20, "stop": 40},
    {"op": "drop", "record": 0, "first": 0, "stop": 40},
    {"op": "drop", "record": 0, "first": 60, "stop": 5000},
]


@pytest.mark.parametrize("step", STEPS, ids=lambda s: "-".join(map(str, s.values())))
def test_a_step_and_its_line_of_python_do_the_same(
    session: Session, step: dict
) -> None:
    before = session.records()
    session.add_step(step)
    after = session.records()
    scope = {"records": list(before), "sparsid": sparsid}
    exec(operations.line(session.state["steps"][0]), scope)
    expected = scope["records"]
    assert isinstance(expected, list)
    assert len(after) == len(expected)
    for a, b in zip(after, expected, strict=True):
        assert np.array_equal(a.u, b.u, equal_nan=True)
        assert np.array_equal(a.y, b.y, equal_nan=True)
        assert (a.dt, a.start) == (b.dt, b.start)
    assert operations.label(session.state["steps"][0])


def test_a_range_left_out_cuts_a_record_in_two(session: Session) -> None:
    whole = session.records()[0]
    session.add_step({"op": "drop", "record": 0, "first": 20, "stop": 40})
    first, last = session.records()
    assert np.array_equal(first.y, whole.y[:20])
    assert np.array_equal(last.y, whole.y[40:])
    assert last.start == 40


def test_undoing_a_step_does_the_others_without_it(session: Session) -> None:
    session.add_step({"op": "detrend", "kind": "constant"})
    session.add_step({"op": "keep", "record": 0, "first": 0, "stop": 50})
    session.remove_step(0)
    (record,) = session.records()
    assert len(record) == 50
    assert np.array_equal(record.y, session.records(prepared=False)[0].y[:50])


@pytest.mark.parametrize(
    "step",
    [
        {"op": "keep", "record": 5, "first": 0, "stop": 50},
        {"op": "keep", "record": 0, "first": 50, "stop": 50},
        {"op": "drop", "record": 0, "first": 0, "stop": 10_000},
        {"op": "resample", "dt": -1},
        {"op": "resample", "dt": True},
        {"op": "filter", "low": None, "high": None, "order": 4},
        {"op": "filter", "low": None, "high": 50.0, "order": 4},
        {"op": "shift", "channel": "nobody", "samples": 1},
        {"op": "shift", "channel": "level", "samples": 1.5},
        {"op": "detrend", "kind": "__class__"},
        {"op": "missing"},
        [],
        None,
    ],
)
def test_a_refused_step_changes_nothing(session: Session, step: object) -> None:
    before = session.recipe()
    with pytest.raises(InputError):
        session.add_step(step)
    assert session.recipe() == before
    assert len(session.records()[0]) == 120


def test_splits_hold_back_what_they_say() -> None:
    record = Record(np.arange(100.0), np.arange(100.0) ** 2, 1.0)
    estimation, test = divided([record], {"fraction": 0.25})
    assert [len(r) for r in (*estimation, *test)] == [75, 25]
    ranges = [[0, 10, 20], [0, 15, 30], [0, 90, 500]]
    estimation, test = divided([record], {"ranges": ranges})
    assert [(r.start, len(r)) for r in test] == [(10, 20), (90, 10)]
    assert [(r.start, len(r)) for r in estimation] == [(0, 10), (30, 60)]
    estimation, test = divided([record], {"fraction": 0.0})
    assert (len(estimation), len(test)) == (1, 0)


@pytest.mark.parametrize(
    "split",
    [
        {},
        {"fraction": 2},
        {"fraction": "a"},
        {"ranges": 3},
        {"ranges": [[0, 1]]},
        {"ranges": [[0, 0, 1000]]},
        {"fraction": 0.2, "ranges": []},
    ],
)
def test_a_refused_split_changes_nothing(session: Session, split: object) -> None:
    with pytest.raises(InputError):
        session.set_split(split)
    assert session.state["split"] == {"fraction": 0.25}


def test_what_is_not_there_is_said_to_be_missing(session: Session) -> None:
    for ask in (session.remove_file, session.model, session.remove_model):
        with pytest.raises(MissingError):
            ask("m99")
    with pytest.raises(MissingError):
        session.remove_step(0)


@pytest.mark.parametrize("name", ["a.exe", "", "a\nb.csv", "x" * 200 + ".csv", "csv"])
def test_names_of_files_that_make_no_sense_are_refused(
    session: Session, name: str
) -> None:
    with pytest.raises(InputError):
        session.new_file(name)


def test_a_file_without_numbers_leaves_nothing_behind(
    session: Session, tmp_path: Path
) -> None:
    path = tmp_path / "words.csv"
    path.write_text("a,b\nx,y\nz,w\n")
    with pytest.raises(InputError):
        load(session, path)
    assert [p.name for p in (session.folder / "uploads").iterdir()] == ["f1"]


def test_previews_of_an_empty_table_do_not_fail(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("u,y\n1,2\n")
    table = read_table(path)
    assert first_rows(table, described(table)) == [["1", "2"]]


def test_a_session_comes_back_from_its_one_file(
    session: Session, tmp_path: Path
) -> None:
    session.add_step({"op": "keep", "record": 0, "first": 10, "stop": 110})
    (session.folder / "server.lock").touch()
    archive = tmp_path / "one.zip"
    archive.write_bytes(session_archive(session.folder, "print(1)"))
    unpack(archive, tmp_path / "back.session")
    again = Session(tmp_path / "back.session")
    assert again.state == session.state
    assert np.array_equal(again.records()[0].y, session.records()[0].y)
    with pytest.raises(InputError, match="there already"):
        unpack(archive, tmp_path / "back.session")


@pytest.mark.parametrize(
    "name",
    [
        "../evil.csv",
        "/etc/evil",
        "uploads/../../evil.csv",
        "uploads/f1/.hidden",
        "uploads/f1/a/b.csv",
        "models/m1/evil.py",
        "evil.py",
        "uploads/f1/C:evil.csv",
    ],
)
def test_archives_that_reach_elsewhere_are_refused(tmp_path: Path, name: str) -> None:
    archive = tmp_path / "evil.zip"
    with zipfile.ZipFile(archive, "w") as out:
        out.writestr("session.json", "{}")
        out.writestr(name, "evil")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InputError, match="no session"):
        unpack(archive, tmp_path / "a.session")
    assert sorted(tmp_path.rglob("*")) == before


def test_what_is_no_archive_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_text("hello")
    with pytest.raises(InputError, match="no archive"):
        unpack(tmp_path / "a.zip", tmp_path / "a.session")
