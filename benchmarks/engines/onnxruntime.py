"""ONNX Runtime: a model with its weights as constants, forward only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.case import Arrays, Program, Task


def program(
    nodes: Callable[[Any, Task], list[Any]],
    weights: Callable[[Arrays], Arrays],
    read: Callable[[np.ndarray], np.ndarray],
) -> Callable[[Task], Program]:
    """A program of a model from `x` to `y`: its nodes (made with `onnx.helper`), its constants, and what turns its
    result into that of the case."""

    def make(task: Task) -> Program:
        import onnxruntime

        if task.gradient:
            raise NotImplementedError("forward only")
        if task.dtype != "float32":
            raise NotImplementedError("its recurrent layers are float32 only")
        arguments = task.arguments()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = task.threads, 1
        session = onnxruntime.InferenceSession(
            _model(task, nodes, weights(arguments), arguments["x"]), options, providers=["CPUExecutionProvider"]
        )
        feed = {"x": arguments["x"]}
        return Program(lambda: session.run(["y"], feed), lambda results: [read(results[0])])

    return make


def _model(task: Task, nodes: Callable[[Any, Task], list[Any]], constants: Arrays, x: np.ndarray) -> bytes:
    from onnx import TensorProto, helper, numpy_helper

    kind = TensorProto.FLOAT if task.dtype == "float32" else TensorProto.DOUBLE
    graph = helper.make_graph(
        nodes(helper, task),
        "model",
        [helper.make_tensor_value_info("x", kind, x.shape)],
        [helper.make_tensor_value_info("y", kind, None)],
        [numpy_helper.from_array(np.ascontiguousarray(value), name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
    return model.SerializeToString()
