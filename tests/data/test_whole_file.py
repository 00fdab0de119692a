from pathlib import Path

import pytest

from sparsid.data.whole_file import whole_file


def test_nothing_half_written_is_left(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("old")

    def fail() -> None:
        with whole_file(path) as part:
            part.write_text("ne")
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        fail()
    assert [p.name for p in tmp_path.iterdir()] == ["table.csv"]
    assert path.read_text() == "old"
