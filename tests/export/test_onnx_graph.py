"""ONNX graphs: the free run in onnxruntime, in double precision throughout."""

import sys

import numpy as np
import onnx
import onnxruntime
import pytest
from exported_models import MODELS, free_run, inputs, relative, simulator

from sparsid.errors import InputError
from sparsid.export.onnx_graph import onnx_files
from sparsid.export.package import design_of, write_export


def session(content):
    options = onnxruntime.SessionOptions()
    level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.graph_optimization_level = level
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(content, options)


def start(files, design, u, kind):
    graph = session(files["model_start.onnx"])
    given = {"u": u[0], "s": design.programs.own_start}
    known = {i.name for i in graph.get_inputs()}
    return graph.run(None, {k: v.astype(kind) for k, v in given.items() if k in known})


@pytest.mark.parametrize("kind", MODELS)
def test_a_run_of_a_thousand_samples_is_the_free_run(kind):
    model = MODELS[kind]()
    design = design_of(model)
    files, u = onnx_files(design), inputs(model)
    (x,) = start(files, design, u, np.float64)
    y = session(files["model_run.onnx"]).run(["y"], {"x": x, "u": u})[0]
    assert relative(y, free_run(model, u)) < 1e-9


def test_single_precision():
    model = MODELS["cascade that saturates"]()
    design = design_of(model, precision="float")
    files, u = onnx_files(design), inputs(model).astype(np.float32)
    (x,) = start(files, design, u, np.float32)
    y = session(files["model_run.onnx"]).run(["y"], {"x": x, "u": u})[0]
    assert y.dtype == np.float32
    assert relative(y, free_run(model, u.astype(float))) < 1e-3


def test_graphs_have_opset_17_and_the_check_passes(tmp_path):
    model = MODELS["several channels and delays"]()
    folder = write_export(model, "onnx", tmp_path / "out")
    for path in folder.glob("*.onnx"):
        assert onnx.load(path).opset_import[0].version == 17
    code = (folder / "check.py").read_text()
    exec(
        compile(code, str(folder / "check.py"), "exec"), {"__file__": str(folder / "a")}
    )


def test_without_onnx_the_message_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(InputError, match=r"sparsid\[export\]"):
        onnx_files(design_of(simulator("linear")))
