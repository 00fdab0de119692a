"""Programs against the models that they came from."""

import numpy as np
import pytest
from exported_models import MODELS, free_run, inputs, relative

from sparsid.export.lowering import programs_of
from sparsid.export.program import execute
from sparsid.export.table import table_of


def run(programs, u):
    x = execute(programs.start, {"u": u[0], "s": programs.own_start})["x"]
    outputs = []
    for now in u:
        found = execute(programs.step, {"x": x, "u": now})
        x = found["x_next"]
        outputs.append(found["y"])
    return np.array(outputs)


@pytest.mark.parametrize("kind", MODELS)
def test_a_thousand_steps_are_the_free_run(kind: str) -> None:
    model = MODELS[kind]()
    u = inputs(model)
    expected = free_run(model, u)
    assert np.isfinite(expected).all()
    assert expected.std(axis=0).min() > 1e-3
    found = run(programs_of(table_of(model)), u)
    assert relative(found, expected) < 1e-12
