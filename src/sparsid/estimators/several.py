"""Types of methods that take one record, or several and then give a list."""

from __future__ import annotations

from typing import Any, ParamSpec, Protocol, TypeVar, overload

from sparsid.data.record import Record

P = ParamSpec("P")
R = TypeVar("R")


class OfRecords(Protocol[P, R]):
    """What such a method gives: one thing, or a list of them."""

    @overload
    def __call__(
        self,
        u: list[Record] | tuple[Record, ...],
        *given: P.args,
        **how: P.kwargs,
    ) -> list[R]: ...

    @overload
    def __call__(self, u: Any, *given: P.args, **how: P.kwargs) -> R: ...

    def __call__(self, u: Any, *given: P.args, **how: P.kwargs) -> Any:
        """Return it for one record or inputs, or for each of several records."""


class OverRecords(Protocol[P, R]):
    """Such a method where it is defined, in a class."""

    def __get__(self, owner: Any, kind: Any = None) -> OfRecords[P, R]:
        """Return the method of one model."""
