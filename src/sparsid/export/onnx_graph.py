"""A model as ONNX graphs: a step, the observer, the start, and a whole run.

Opset 17. Everything that float64 lacks in onnxruntime, such as Softplus, is composed of
what it has.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sparsid.errors import InputError
from sparsid.export.design import Design
from sparsid.export.program import (
    Activate,
    Affine,
    Clip,
    Median,
    Operation,
    Pick,
    Program,
    Scale,
)
from sparsid.export.text import rendered
from sparsid.kernel.activations import CORNER

OPSET, IR_VERSION = 17, 8


def onnx_files(design: Design) -> dict[str, str | bytes]:
    """Return the graphs and a program that checks them."""
    onnx = _onnx()
    files: dict[str, str | bytes] = {}
    for program in design.programs[:3]:
        writer = _Writer(onnx, design)
        graph = writer.graph(program)
        files[f"{design.name}_{program.name}.onnx"] = _model(onnx, graph)
    files[f"{design.name}_run.onnx"] = _model(onnx, _run(onnx, design))
    return {**files, "check.py": rendered("check_onnx.py", design)}


def _onnx() -> Any:
    try:
        import onnx
    except ImportError as error:
        raise InputError(
            'ONNX is not installed: pip install "sparsid[export]"'
        ) from error
    return onnx


def _model(onnx: Any, graph: Any) -> bytes:
    """Return a checked model as bytes."""
    opset = onnx.helper.make_opsetid("", OPSET)
    model = onnx.helper.make_model(
        graph, opset_imports=[opset], ir_version=IR_VERSION, producer_name="sparsid"
    )
    onnx.checker.check_model(model, full_check=True)
    return bytes(model.SerializeToString())


def _run(onnx: Any, design: Design) -> Any:
    """Return a graph over a whole run: the step, scanned over time."""
    helper = onnx.helper
    writer = _Writer(onnx, design)
    body, step = writer.graph(design.programs.step), design.programs.step
    if not design.inputs:
        # Scan needs something to go along: the inputs are there, with no columns.
        body.input[1].type.tensor_type.shape.dim[0].dim_value = 0
    scan = helper.make_node(
        "Scan", ["x", "u"], ["x_end", "y"], body=body, num_scan_inputs=1
    )
    real, nx = writer.real, step.inputs["x"]
    return helper.make_graph(
        [scan],
        f"{design.name}_run",
        [
            helper.make_tensor_value_info("x", real, [nx]),
            helper.make_tensor_value_info("u", real, ["time", design.inputs]),
        ],
        [
            helper.make_tensor_value_info("x_end", real, [nx]),
            helper.make_tensor_value_info("y", real, ["time", design.outputs]),
        ],
    )


class _Writer:
    """Writes programs as graphs; constants are shared within one."""

    def __init__(self, onnx: Any, design: Design) -> None:
        self.onnx, self.design = onnx, design
        self.type = np.float64 if design.precision == "double" else np.float32
        self.real = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(self.type))
        self.nodes: list[Any] = []
        self.constants: dict[tuple[Any, ...], Any] = {}

    def graph(self, program: Program) -> Any:
        """Return a program as a graph."""
        helper, sizes = self.onnx.helper, program.sizes
        for operation in program.operations:
            self.write(operation)
        for name, source in program.outputs.items():
            self.nodes.append(helper.make_node("Identity", [source], [name]))
        return helper.make_graph(
            self.nodes,
            f"{self.design.name}_{program.name}",
            [
                helper.make_tensor_value_info(name, self.real, [size])
                for name, size in program.inputs.items()
            ],
            [
                helper.make_tensor_value_info(name, self.real, [sizes[source]])
                for name, source in program.outputs.items()
            ],
            list(self.constants.values()),
        )

    def constant(self, values: Any, kind: Any = None) -> str:
        """Return the name of an array among the constants."""
        array = np.array(values, dtype=kind or self.type)
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self.constants:
            name = f"c{len(self.constants)}"
            made = self.onnx.numpy_helper.from_array(array, name)
            self.constants[key] = made
        return str(self.constants[key].name)

    def node(self, kind: str, *given: str, out: str = "", **attributes: Any) -> str:
        """Add a node and return the name of what it computes."""
        name = out or f"t{len(self.nodes)}"
        made = self.onnx.helper.make_node(kind, list(given), [name], **attributes)
        self.nodes.append(made)
        return name

    def write(self, operation: Operation) -> None:
        """Add what computes an operation."""
        out = operation.out
        match operation:
            case Affine(terms=terms, bias=bias):
                found = self.constant(bias)
                for M, source in terms:
                    product = self.node("MatMul", self.constant(M), source)
                    found = self.node("Add", found, product)
                self.node("Identity", found, out=out)
            case Activate(source=source, kind=kind, limits=limits):
                self._activate(out, source, kind, limits)
            case Clip(source=source, low=low, high=high):
                above = self.node("Max", source, self.constant(low))
                self.node("Min", above, self.constant(high), out=out)
            case Scale(source=source, before=before, factor=factor, after=after):
                moved = self.node("Sub", source, self.constant(before))
                scaled = self.node("Mul", moved, self.constant(factor))
                self.node("Add", scaled, self.constant(after), out=out)
            case Pick():
                self._pick(out, operation)
            case Median(sources=sources):
                self._median(out, sources)

    def _pick(self, out: str, operation: Pick) -> None:
        sources = list(dict.fromkeys(source for source, _ in operation.items))
        if len(sources) == 1:
            places = [k for _, k in operation.items]
            self.node("Gather", sources[0], self.constant(places, np.int64), out=out)
            return
        parts = []
        for source, first, count in operation.pieces:
            places = list(range(first, first + count))
            found = self.node("Gather", source, self.constant(places, np.int64))
            parts.append(found)
        self.node("Concat", *parts, axis=0, out=out)

    def _median(self, out: str, sources: tuple[str, ...]) -> None:
        count = len(sources)
        axis = self.constant([0], np.int64)
        rows = [self.node("Unsqueeze", source, axis) for source in sources]
        table = self.node("Concat", *rows, axis=0)
        ordered, places = f"{out}_sorted", f"{out}_places"
        half = self.constant([count // 2 + 1], np.int64)
        self.nodes.append(
            self.onnx.helper.make_node(
                "TopK", [table, half], [ordered, places], axis=0, largest=0, sorted=1
            )
        )
        middle = self.constant([(count - 1) // 2, count // 2], np.int64)
        both = self.node("Gather", ordered, middle, axis=0)
        self.node("ReduceMean", both, axes=[0], keepdims=0, out=out)

    def _activate(self, out: str, z: str, kind: str, limits: Any) -> None:
        node, constant = self.node, self.constant
        if kind in ("square", "cube"):
            above = node("Max", z, constant(-limits))
            held = node("Min", above, constant(limits))
            square = node("Mul", held, held, out=out if kind == "square" else "")
            if kind == "cube":
                node("Mul", square, held, out=out)
        elif kind == "tanh":
            node("Tanh", z, out=out)
        elif kind == "sigmoid":
            half = node("Tanh", node("Mul", z, constant([0.5])))
            node("Mul", node("Add", half, constant([1.0])), constant([0.5]), out=out)
        elif kind == "relu":
            node("Max", z, constant([0.0]), out=out)
        elif kind == "modulus":
            inside = node("Add", node("Mul", z, z), constant([CORNER**2]))
            node("Sub", node("Sqrt", inside), constant([CORNER]), out=out)
        else:
            # 1 + softplus z, which float64 does not have, in parts that it has.
            small = node("Exp", node("Neg", node("Abs", z)))
            logarithm = node("Log", node("Add", small, constant([1.0])))
            above = node("Max", z, constant([0.0]))
            inside = node("Add", node("Add", logarithm, above), constant([1.0]))
            node("Sub", node("Sqrt", inside), constant([1.0]), out=out)
