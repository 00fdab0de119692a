from pathlib import Path

import numpy as np
import pytest

from sparsid.data.text import parse_text


@pytest.mark.parametrize(
    ("text", "fast"),
    [
        ("u,y\n1,0.1\n2,1e300\n,-1.7976931348623157e308\n", True),
        ("u;y\n1,25;0,1\n2;n/a\n", True),
        ('u,y\n"1","0.5"\n"2","nan"\n', True),
        ("u y\n1 0.1\n2 0.30000000000000004\n", True),
        ("u, y ,\n1 , 0.5 ,\n 2, NA ,\n", True),
        ("time,u,y\n2024-01-01 00:00:00,1,2\n2024-01-01 00:00:02,3,4\n", True),
        ("u;y\n1,5;0.5\n2;1_0\n", True),
        ("u,y\nTrue,1\nFalse,2\n", False),
        ("u,y\n1,2,3\n4,5\n", False),
        ('u,y\n"1,2\n3",4\n', False),
    ],
)
def test_pandas_reads_what_the_exact_parser_reads(text: str, fast: bool) -> None:
    found, exact = parse_text(Path("data.csv"), text, None, None)
    assert (found is not None) == fast
    if found is None:
        return
    slow = exact()
    assert list(found.columns) == list(slow.columns)
    assert (found.units, found.lines) == (slow.units, slow.lines)
    for name in found.columns:
        if name == "time":
            assert found.columns[name].tolist() == slow.columns[name].tolist()
        else:
            np.testing.assert_array_equal(found.numbers(name), slow.numbers(name))
