"""Models of one node, and what ONNX Runtime computes with them."""

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")

import scanjit.onnx as sjo  # noqa: E402


def one_node(op, feeds, constants=(), outputs=1, opset=21, domain="", shapes=None, order=None, **attributes):
    """A model of one node: its inputs are those that are fed, then constants (None: left out), or in a given order."""
    constants = dict(constants)
    names = order or [*feeds, *constants]
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node(op, names, [f"y{i}" for i in range(outputs)], name="it", domain=domain, **attributes)],
        "one_node",
        [
            onnx.helper.make_tensor_value_info(
                name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), (shapes or {}).get(name, array.shape)
            )
            for name, array in feeds.items()
        ],
        [onnx.helper.make_empty_tensor_value_info(f"y{i}") for i in range(outputs)],
        [onnx.numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()],
    )
    domains = [onnx.helper.make_opsetid("", opset), onnx.helper.make_opsetid("com.microsoft", 1)]
    model = onnx.helper.make_model(graph, opset_imports=domains)
    model.ir_version = 8
    return model


def expected(model, feeds):
    """What ONNX Runtime computes on one thread."""
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


def computed(model, feeds, mode="reference", **given):
    """What the model computes that is read here."""
    found = sjo.load(model, **given).function(mode=mode)(**feeds)
    return found if isinstance(found, list) else [found]


def check(model, feeds, tolerance=0.0, modes=("reference",)):
    """Both compute the same, to the last bit if no tolerance is given."""
    wanted = expected(model, feeds)
    for mode in modes:
        for got, want in zip(computed(model, feeds, mode), wanted, strict=True):
            if tolerance:
                np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance, strict=True)
            else:
                np.testing.assert_array_equal(got, want, strict=True)
