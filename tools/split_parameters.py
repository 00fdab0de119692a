"""Griffe extension: parameters that share a description each get their own type.

The docstrings group what belongs together, as in ``max_cycles, tolerance``. Griffe
would give all of them type and default of the first.
"""

import re
from typing import Any

import griffe

SECTION = re.compile(
    r"^(?:Parameters|Attributes)\n-+\n.*?(?=^\w[\w ]*\n-+$|\Z)", re.M | re.S
)
# A line of several names, and the indented lines that describe them.
SHARED = re.compile(
    r"^(?P<names>\w+(?:, \w+)+)\n(?P<text>(?: +.*(?:\n|$)|\n(?= ))+)", re.M
)


class SplitParameters(griffe.Extension):
    """Takes shared descriptions apart, before anything reads them."""

    def on_package(self, *, pkg: griffe.Module, **kwargs: Any) -> None:
        """Go through a package that was loaded."""
        _visit(pkg)


def _visit(thing: Any) -> None:
    if thing.docstring is not None:
        thing.docstring.value = split(thing.docstring.value)
    for member in thing.members.values():
        if not member.is_alias:
            _visit(member)


def split(text: str) -> str:
    """Return a docstring in which every name has its own description."""
    return SECTION.sub(lambda found: SHARED.sub(_apart, found[0]), text)


def _apart(found: re.Match[str]) -> str:
    body = found["text"].rstrip("\n")
    return "".join(f"{name}\n{body}\n" for name in found["names"].split(", "))
