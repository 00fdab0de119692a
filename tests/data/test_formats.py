"""Excel, Parquet, HDF5, MATLAB 7.3 TDMS, MDF: what went in comes out."""

from datetime import datetime, timedelta
from pathlib import Path

import asammdf
import h5py
import nptdms
import numpy as np
import openpyxl
import pandas as pd
import pytest
from scipy.io import savemat

from sparsid.data.files import read, read_mat
from sparsid.errors import FileFormatError, InputError

U, Y = np.arange(12.0), np.arange(12.0) ** 2


def test_excel_with_preamble_units_dates_and_bad_input(tmp_path: Path, caplog) -> None:
    book = openpyxl.Workbook()
    sheet = book.active
    for row in (["Plant 7"], ["time", "valve", "level"], ["s", "%", "m"]):
        sheet.append(row)
    begin = datetime(2024, 3, 31, 10)
    for k in range(12):
        level = "Bad Input" if k == 4 else Y[k]
        sheet.append([begin + timedelta(seconds=2 * k), U[k], level])
    book.save(tmp_path / "plant.xlsx")
    record = read(tmp_path / "plant.xlsx", "valve", "level")
    np.testing.assert_array_equal(record.u[:, 0], U)
    assert record.dt == 2.0
    assert record.output_units == ("m",)
    assert record.gaps == [(4, 5)]
    assert "1 cells of 'level' that say 'Bad Input' count as missing" in caplog.text


def test_parquet(tmp_path: Path) -> None:
    index = pd.date_range("2024", periods=12, freq="5s", name="time", tz="Europe/Oslo")
    frame = pd.DataFrame({"valve [%]": U, "level (m)": Y}, index=index)
    frame.to_parquet(tmp_path / "a.parquet")
    record = read(tmp_path / "a.parquet", "valve", "level (m)")
    np.testing.assert_array_equal(record.y[:, 0], Y)
    assert (record.dt, record.input_units, record.output_units) == (5.0, ("%",), ("m",))


def test_hdf5_groups_fields_and_units(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["run/valve"] = U
        file["run/level"] = Y
        file["run/level"].attrs["unit"] = "m"
        file["run/time"] = 0.5 * np.arange(12)
        table = np.zeros(3, dtype=[("a", float), ("b", int)])
        file["other/table"] = table
    record = read(tmp_path / "a.h5", "valve", "run.level")
    np.testing.assert_array_equal(record.y[:, 0], Y)
    assert (record.dt, record.output_units) == (0.5, ("m",))
    with pytest.raises(InputError, match="it is not clear"):
        read(tmp_path / "a.h5")


@pytest.mark.parametrize("compressed", [True, False])
def test_matlab_structures_are_walked(tmp_path: Path, compressed: bool) -> None:
    inner = {"u": U, "y": Y, "Ts": 0.25, "name": "pump", "none": np.zeros((0, 0))}
    savemat(tmp_path / "a.mat", {"z": inner}, do_compression=compressed)
    record = read_mat(tmp_path / "a.mat")
    np.testing.assert_array_equal(record.u[:, 0], U)
    assert record.dt == 0.25
    savemat(tmp_path / "b.mat", {"runs": {"first": inner, "second": inner}})
    again = read_mat(tmp_path / "b.mat", "runs.first.u", "runs.first.y", dt=1.0)
    np.testing.assert_array_equal(again.y[:, 0], Y)


def test_matlab_73(tmp_path: Path) -> None:
    path = tmp_path / "a.mat"
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, values in (("z/u", [U]), ("z/y", [Y]), ("z/Ts", [[0.25]])):
            file[name] = np.array(values)
            file[name].attrs["MATLAB_class"] = np.bytes_("double")
        file["z/name"] = np.array([[112]], dtype=np.uint16)
        file["z/name"].attrs["MATLAB_class"] = np.bytes_("char")
    content = bytearray(path.read_bytes())
    content[:128] = b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM"
    path.write_bytes(content)
    record = read_mat(path)
    np.testing.assert_array_equal(record.y[:, 0], Y)
    assert record.dt == 0.25


def test_tdms_with_two_clocks(tmp_path: Path) -> None:
    def channel(name: str, values: np.ndarray, step: float, unit: str):
        properties = {"wf_increment": step, "unit_string": unit}
        return nptdms.ChannelObject("rig", name, values, properties=properties)

    def pair(step: float):
        return [channel("valve", U, step, "%"), channel("level", Y, 0.5, "")]

    with nptdms.TdmsWriter(tmp_path / "a.tdms") as file:
        file.write_segment(pair(0.5))
    record = read(tmp_path / "a.tdms", "valve", "level")
    np.testing.assert_array_equal(record.y[:, 0], Y)
    assert (record.dt, record.input_units, record.history) == (0.5, ("%",), ())
    with nptdms.TdmsWriter(tmp_path / "b.tdms") as file:
        file.write_segment(pair(1.0))
    mixed = read(tmp_path / "b.tdms", "valve", "level", uneven=0.5)
    np.testing.assert_allclose(mixed.y[:, 0], Y, atol=1e-9)
    np.testing.assert_allclose(mixed.u[::2, 0], U[:6], atol=1e-9)
    assert "brought to one clock of 0.5 s" in mixed.notes[0]


def test_mdf(tmp_path: Path) -> None:
    with asammdf.MDF() as file:
        for name, values, step in (("valve", U, 0.2), ("level", Y, 0.1)):
            times = step * np.arange(12)
            file.append(asammdf.Signal(values, times, name=name, unit="V"))
        file.save(tmp_path / "a.mf4")
    record = read(tmp_path / "a.mf4", "valve", "level", uneven=0.1)
    np.testing.assert_allclose(record.y[:, 0], Y, atol=1e-9)
    assert record.output_units == ("V",)


@pytest.mark.parametrize("suffix", [".xlsx", ".parquet", ".h5", ".tdms", ".mf4"])
def test_damaged_files_are_refused(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    path.write_bytes(b"no such thing" * 20)
    with pytest.raises(FileFormatError, match="is no readable"):
        read(path)


def test_old_spreadsheets_say_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"save it as .xlsx"):
        read(tmp_path / "a.xls")


def test_a_missing_library_is_named(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "a.tdms").write_bytes(b"x")
    monkeypatch.setitem(__import__("sys").modules, "nptdms", None)
    with pytest.raises(InputError, match=r'pip install "sparsid\[files\]"'):
        read(tmp_path / "a.tdms")
