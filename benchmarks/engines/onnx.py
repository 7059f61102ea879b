"""ONNX Runtime and OpenVINO: one model for both, with its weights as constants, forward only."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.case import Arrays, Program, Task

Open = Callable[[bytes, Task], Callable[[np.ndarray], np.ndarray]]
"""Makes of a model what is called with its `x` and returns its `y`."""


def programs(
    nodes: Callable[[Any, Task], list[Any]],
    weights: Callable[[Arrays], Arrays],
    read: Callable[[np.ndarray], np.ndarray],
    precision: str = "f32",
) -> dict[str, Callable[[Task], Program]]:
    """For each engine a program of a model from `x` to `y`: its nodes (made with `onnx.helper`), its constants, and
    what turns its result into that of the case. `precision` is what OpenVINO computes products in."""

    def program(opened: Open) -> Callable[[Task], Program]:
        def make(task: Task) -> Program:
            if task.gradient:
                raise NotImplementedError("forward only")
            if task.dtype != "float32":
                raise NotImplementedError("its recurrent layers are float32 only")
            arguments = task.arguments()
            x = arguments["x"]
            call = opened(_model(task, nodes, weights(arguments), x), task)
            return Program(lambda: call(x), lambda result: [read(result)])

        return make

    return {"onnxruntime": program(_onnxruntime), "openvino": program(partial(_openvino, precision=precision))}


def _onnxruntime(model: bytes, task: Task) -> Callable[[np.ndarray], np.ndarray]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = task.threads, 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return lambda x: session.run(["y"], {"x": x})[0]


def _openvino(model: bytes, task: Task, precision: str) -> Callable[[np.ndarray], np.ndarray]:
    """If it is not told a precision, it computes in bfloat16 where the processor can."""
    import openvino

    settings = {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": task.threads,
        "INFERENCE_PRECISION_HINT": precision,
    }
    core = openvino.Core()
    request = core.compile_model(core.read_model(model, b""), "CPU", settings).create_infer_request()
    return lambda x: request.infer({"x": x}, share_inputs=True, share_outputs=True)["y"]


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
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 14), helper.make_opsetid("com.microsoft", 1)], ir_version=8
    )
    return model.SerializeToString()
