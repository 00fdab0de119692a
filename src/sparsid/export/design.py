"""What every writer is given: programs, names, precision and test vectors."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sparsid.export.lowering import programs_of
from sparsid.export.program import Programs, execute
from sparsid.export.table import StepTable
from sparsid.results.forecast import DIVERGED

Values = NDArray[np.float64]

PRECISIONS = ("double", "float")
# How far a check may be off, in standard deviations of the outputs.
TOLERANCES = {"double": 1e-9, "float": 1e-3}
# Samples of the test vectors, and how long each input level lasts.
SAMPLES, HELD = 200, 5


@dataclass(frozen=True, eq=False)
class TestVectors:
    """A run from the model's own start, and one that the observer moves.

    Attributes
    ----------
    u, y
        Inputs, and the free run over them.
    measured, observed
        What the observer is given as measured, and the outputs at its states.
    """

    # Not a class of tests, whatever its name.
    __test__ = False

    u: Values
    y: Values
    measured: Values
    observed: Values

    @property
    def table(self) -> Values:
        """All columns side by side."""
        return np.concatenate([self.u, self.y, self.measured, self.observed], axis=1)


@dataclass(frozen=True, eq=False)
class Design:
    """A model to be written.

    Attributes
    ----------
    name
        What files, functions and types begin with.
    precision
        "double" or "float".
    combined
        What was asked for: "median", "mean", "member:K" or "compact".
    """

    table: StepTable
    name: str
    precision: str
    combined: str

    @cached_property
    def programs(self) -> Programs:
        """The programs of the model."""
        return programs_of(self.table)

    @property
    def inputs(self) -> int:
        """Number of inputs."""
        return self.table.channels.n_inputs

    @property
    def outputs(self) -> int:
        """Number of outputs."""
        return self.table.channels.n_outputs

    @property
    def tolerances(self) -> Values:
        """How far each output may be off in a check, in its unit."""
        return TOLERANCES[self.precision] * self.table.scaling.y_std

    def labelled(self, what: str) -> list[str]:
        """Return the names of inputs or outputs, with their units."""
        names = getattr(self.table.channels, f"{what}_names")
        units = getattr(self.table.channels, f"{what}_units")
        pairs = zip(names, units, strict=True)
        return [f"{name} [{unit}]" if unit else name for name, unit in pairs]

    @cached_property
    def vectors(self) -> TestVectors:
        """What a written model has to answer, by the reference."""
        scaling, programs = self.table.scaling, self.programs
        rng = np.random.default_rng(0)
        levels = rng.uniform(-1.5, 1.5, (SAMPLES // HELD, self.inputs)).repeat(HELD, 0)
        u = scaling.u_mean + scaling.u_std * levels
        noise = scaling.y_std * rng.normal(size=(len(u), self.outputs))
        x = seen = execute(programs.start, {"u": u[0], "s": programs.own_start})["x"]
        rows = []
        for now, off in zip(u, noise, strict=True):
            free = execute(programs.step, {"x": x, "u": now})
            shown = execute(programs.step, {"x": seen, "u": now})["y"]
            measured = free["y"] + 0.3 * off
            rows.append((free["y"], measured, shown))
            given = {"x": seen, "u": now, "y": measured}
            x, seen = free["x_next"], execute(programs.observe, given)["x_next"]
            far = np.abs(scaling.scale_y(np.stack(rows[-1])))
            if not (far < DIVERGED).all():
                # Beyond all bounds no two computers agree.
                rows.pop()
                break
        y, measured, observed = (
            np.array(rows).reshape(-1, 3, self.outputs).swapaxes(0, 1)
        )
        return TestVectors(u[: len(y)], y, measured, observed)
