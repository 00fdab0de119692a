import contextlib
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.io import loadmat, savemat

from sparsid.data.files import read_mat
from sparsid.data.matlab import arrays_of_numbers
from sparsid.errors import FileFormatError, InputError

FORMS = [("5", False), ("5", True), ("4", False)]
VARIABLES = {
    "u": np.arange(40.0).reshape(20, 2) / 7,
    "y": np.arange(20.0) / 3,
    "Ts": 4,
    "single": np.float32([[1.5, 2.5]]),
    "whole": np.arange(5, dtype=np.int32),
    "complex": np.arange(3) * 1j,
    "note": "text",
}


def save(path: Path, form: str, packed: bool) -> bytes:
    savemat(path, VARIABLES, format=form, do_compression=packed)
    return path.read_bytes()


@pytest.mark.parametrize(("form", "packed"), FORMS)
def test_numbers_are_those_that_scipy_reads(tmp_path: Path, form, packed) -> None:
    path = tmp_path / "data.mat"
    save(path, form, packed)
    found = {name: load() for name, load in arrays_of_numbers(path).items()}
    expected = loadmat(path)
    assert list(found) == ["u", "y", "Ts", "single", "whole"]
    for name, values in found.items():
        np.testing.assert_array_equal(values, expected[name])


def test_structures_and_more_dimensions(tmp_path: Path) -> None:
    path, cube = tmp_path / "data.mat", np.arange(24.0).reshape(2, 3, 4)
    savemat(path, {"s": {"a": 1}, "cell": np.array([1, "x"], object), "cube": cube})
    found = arrays_of_numbers(path)
    assert list(found) == ["s.a", "cube"]
    np.testing.assert_array_equal(found["cube"](), cube)
    assert found["s.a"]() == 1


def test_the_other_byte_order(tmp_path: Path) -> None:
    path = tmp_path / "data.mat"

    def part(kind: int, content: bytes) -> bytes:
        padding = bytes(-len(content) % 8)
        return struct.pack(">2I", kind, len(content)) + content + padding

    def vector(name: str, values: list[float]) -> bytes:
        flags = part(6, struct.pack(">2I", 6, 0))
        shape = part(5, struct.pack(">2i", len(values), 1))
        numbers = part(9, np.array(values, ">f8").tobytes())
        return part(14, flags + shape + part(1, name.encode()) + numbers)

    header = b"MATLAB 5.0 MAT-file".ljust(124) + b"\x01\x00MI"
    path.write_bytes(header + vector("u", [1, 2, 3]) + vector("y", [4, 5, 6]))
    record = read_mat(path)
    np.testing.assert_array_equal(record.u[:, 0], [1, 2, 3])
    np.testing.assert_array_equal(record.y, loadmat(path)["y"])


def test_a_damaged_type_ended_the_process(tmp_path: Path) -> None:
    """SciPy looked the code up beyond the end of a table in C."""
    path = tmp_path / "data.mat"
    content = save(path, "5", False)
    numbers = struct.pack("<2I", 9, 8 * 40)
    assert content.count(numbers) == 1
    path.write_bytes(content.replace(numbers, struct.pack("<2I", 249, 8 * 40)))
    with pytest.raises(FileFormatError, match="'u' is no array of numbers"):
        read_mat(path)


@pytest.mark.parametrize(("form", "packed"), FORMS)
@settings(deadline=None, max_examples=200)
@given(data=st.data())
def test_damaged_files_are_read_or_refused(
    tmp_path_factory, form, packed, data
) -> None:
    path = tmp_path_factory.mktemp("damage") / "data.mat"
    content = bytearray(save(path, form, packed))
    places = st.integers(0, len(content) - 4)
    numbers = st.integers(0, 255) | st.sampled_from([2**16 + 8, 2**31 - 1, 2**32 - 1])
    for place, number in data.draw(st.lists(st.tuples(places, numbers), max_size=3)):
        content[place : place + 4] = struct.pack("<I", number)
    path.write_bytes(content[: data.draw(st.integers(0, len(content)))])
    with contextlib.suppress(InputError):
        read_mat(path, "u", "y")


def test_two_variables_of_one_name(tmp_path: Path) -> None:
    path = tmp_path / "data.mat"
    savemat(path, {"u": [1.0, 2.0]})
    content = path.read_bytes()
    path.write_bytes(content + content[128:])
    with pytest.raises(FileFormatError, match="two variables named 'u'"):
        read_mat(path)


def test_packed_numbers_beyond_what_is_told(tmp_path: Path) -> None:
    path = tmp_path / "data.mat"
    savemat(path, {"u": np.arange(5.0), "y": np.arange(5.0)})
    content = path.read_bytes()
    packed = zlib.compress(content[128:240] + bytes(10**6))
    path.write_bytes(content[:128] + struct.pack("<2I", 15, len(packed)) + packed)
    with pytest.raises(FileFormatError, match="'u' is not as long as it says"):
        read_mat(path, [], "u")
