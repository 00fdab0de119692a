"""CasADi functions: the free run, and derivatives."""

import sys

import numpy as np
import pytest
from exported_models import MODELS, free_run, inputs, relative, simulator

from sparsid.errors import InputError
from sparsid.export.casadi_function import casadi_functions
from sparsid.export.package import design_of, write_export


@pytest.mark.parametrize("kind", MODELS)
def test_a_thousand_steps_are_the_free_run(kind):
    model = MODELS[kind]()
    design = design_of(model)
    functions = casadi_functions(design)
    u = inputs(model)
    x = functions["start"](u[0], design.programs.own_start)
    whole = functions["step"].mapaccum(len(u))(x, u.T)[1].full().T
    assert relative(whole, free_run(model, u)) < 1e-9


def test_derivatives_are_those_of_differences():
    design = design_of(simulator("linear first", delays=[1]))
    step = casadi_functions(design)["step"]
    slopes = step.factory("slopes", ["x", "u"], ["jac:x_next:x", "jac:y:x"])
    rng = np.random.default_rng(0)
    x, u, h = rng.normal(size=design.programs.states), np.array([0.3]), 1e-6
    for k, slope in enumerate(slopes(x, u)):
        ends = [
            [step(x + sign * h * e, u)[k].full().ravel() for e in np.eye(len(x))]
            for sign in (1.0, -1.0)
        ]
        expected = (np.array(ends[0]) - ends[1]).T / (2.0 * h)
        np.testing.assert_allclose(slope.full(), expected, atol=1e-8)


def test_files_load_with_casadi_alone(tmp_path):
    import casadi

    model = MODELS["cascade that saturates"]()
    folder = write_export(model, "casadi", tmp_path / "out", name="plant")
    step = casadi.Function.load(str(folder / "plant_step.casadi"))
    assert step.name_in() == ["x", "u"]
    assert step.name_out() == ["x_next", "y"]
    code = (folder / "check.py").read_text()
    exec(
        compile(code, str(folder / "check.py"), "exec"), {"__file__": str(folder / "a")}
    )


def test_without_casadi_the_message_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "casadi", None)
    with pytest.raises(InputError, match=r"sparsid\[casadi\]"):
        casadi_functions(design_of(simulator("linear")))
