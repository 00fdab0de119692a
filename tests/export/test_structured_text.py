"""Structured Text: blark parses it. No PLC runs it here."""

import warnings

import pytest
from exported_models import simulator

from sparsid.export.package import design_of, write_export
from sparsid.export.structured_text import text_files
from sparsid.models.canonical import Sizes


@pytest.fixture(scope="module")
def parse():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import blark
    return blark.parse_source_code


def small(members=1):
    """A model short enough for a slow parser, with everything that is ever written."""
    model = simulator("cascade", members=members, delays=[1])
    assert isinstance(model.members[0].structure.sizes, Sizes)
    return model


def test_blocks_and_checks_can_be_parsed(parse):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for text in text_files(design_of(small(2), precision="float")).values():
            assert parse(text) is not None


def test_brackets_and_blocks_are_closed():
    for text in text_files(design_of(simulator("linear first", members=3))).values():
        assert "@" not in text
        assert text.count("[") == text.count("]")
        assert text.count("(") == text.count(")")
        for word in ("FOR", "IF", "WHILE", "VAR"):
            opened = text.split().count(word) + text.split().count(f"({word}")
            assert opened == text.replace(";", " ").split().count(f"END_{word}")


def test_it_says_that_it_is_experimental(tmp_path):
    folder = write_export(small(), "st", tmp_path / "out")
    assert "**Experimental**" in (folder / "README.md").read_text()
    assert "Experimental" in (folder / "model.st").read_text()
