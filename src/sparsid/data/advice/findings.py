"""What a look at a record finds, and what to do about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]

# From what has to be dealt with to what is as it should be.
SEVERITIES = ("warning", "note", "ok")


class Finding(NamedTuple):
    """Something found: how serious, about what, in words, and what to do.

    ``remedy`` is empty where nothing has to be done; ``channel`` where all are meant.
    """

    severity: str
    topic: str
    channel: str
    text: str
    remedy: str = ""

    def __str__(self) -> str:
        whom = f"{self.channel}: " if self.channel else ""
        what = f" -> {self.remedy}" if self.remedy else ""
        return f"{self.severity:<8} {self.topic:<12} {whom}{self.text}{what}"


@dataclass(frozen=True, eq=False)
class Advice:
    """Findings about a record, the most serious first, and the curves behind them.

    Attributes
    ----------
    findings
        What was found.
    figures
        Numbers by topic, plain values.
    curves
        Spectra, correlations, coherences and criteria, for pictures.
    """

    record: Any
    findings: tuple[Finding, ...]
    figures: dict[str, Any]
    curves: dict[str, Any]

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """Those findings that something should be done about."""
        return tuple(f for f in self.findings if f.severity == "warning")

    def __str__(self) -> str:
        return "\n".join(str(finding) for finding in self.findings)

    def plain(self) -> dict[str, Any]:
        """Return findings and figures as values that JSON knows."""
        return {
            "findings": [finding._asdict() for finding in self.findings],
            "figures": self.figures,
        }

    def save(self, path: str | Path) -> None:
        """Write a self-contained HTML page with pictures."""
        from sparsid.report.inspection import write_page

        write_page(self, Path(path))


def ordered(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return findings with the most serious first."""
    return tuple(sorted(findings, key=lambda f: SEVERITIES.index(f.severity)))


def counted(count: int, what: str) -> str:
    """Return a number with what it counts, as in "3 samples"."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
