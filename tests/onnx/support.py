"""Models of one node, and what ONNX Runtime computes with them."""

import numpy as np
import onnx
import pytest

import scanjit as sj
import scanjit.onnx as sjo

onnxruntime = pytest.importorskip("onnxruntime")


def value(name, dtype="float32", shape=None):
    """What a model says of an input or output. None: nothing about its shape."""
    return onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)


def model_of(nodes, inputs, outputs=("y",), constants=(), opset=17, ir_version=8):
    """A model of some nodes. Of an output it says nothing if it is given by name."""
    made = [onnx.helper.make_empty_tensor_value_info(y) if isinstance(y, str) else y for y in outputs]
    arrays = [onnx.numpy_helper.from_array(np.asarray(array), name) for name, array in dict(constants).items()]
    graph = onnx.helper.make_graph(nodes, "made_up", inputs, made, arrays)
    sets = [onnx.helper.make_opsetid("", opset), onnx.helper.make_opsetid("com.microsoft", 1)]
    return onnx.helper.make_model(graph, opset_imports=sets, ir_version=ir_version)


def one_node(op, feeds, constants=(), outputs=1, opset=21, domain="", shapes=None, order=None, **attributes):
    """A model of one node: its inputs are those that are fed, then constants (None: left out), or in a given order."""
    names, ys = order or [*feeds, *dict(constants)], [f"y{i}" for i in range(outputs)]
    node = onnx.helper.make_node(op, names, ys, name="it", domain=domain, **attributes)
    inputs = [value(name, array.dtype, (shapes or {}).get(name, array.shape)) for name, array in feeds.items()]
    return model_of([node], inputs, ys, constants, opset)


def session_of(model, optimized=True):
    """A session of ONNX Runtime on one thread, for a model or for the file of one."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    if not optimized:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    source = model.SerializeToString() if isinstance(model, onnx.ModelProto) else str(model)
    return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def expected(model, feeds):
    """What ONNX Runtime computes of each node as it stands."""
    return session_of(model, optimized=False).run(None, feeds)


def by_runtime(model, *arrays):
    """What ONNX Runtime computes."""
    session = session_of(model)
    return session.run(None, {x.name: np.asarray(a) for x, a in zip(session.get_inputs(), arrays, strict=True)})


def computed(model, feeds, mode="reference", **given):
    """What the model computes that is read here."""
    return listed(sjo.load(model, **given).function(mode=mode)(**feeds))


def check(model, feeds, tolerance=0.0, modes=("reference",)):
    """Both compute the same, to the last bit if no tolerance is given."""
    wanted = expected(model, feeds)
    for mode in modes:
        for got, want in zip(computed(model, feeds, mode), wanted, strict=True):
            if tolerance:
                np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance, strict=True)
            else:
                np.testing.assert_array_equal(got, want, strict=True)


def listed(found):
    return found if isinstance(found, list) else [found]


def check_export(inputs, outputs, arrays, opset=18, back=None, tolerances=(1e-5, 1e-6), cells=True):
    """The same from the reference interpreter, ONNX Runtime, and the model that was read again: the last one within
    other tolerances, if there are some `back`. Returns the model, which passes the ONNX project's own checks."""
    model = sjo.export((inputs, outputs), opset, cells=cells)
    onnx.checker.check_model(model, full_check=True)
    with np.errstate(all="ignore"):
        wanted = listed(sj.function(inputs, outputs, mode="reference")(*arrays))
        again = listed(sjo.load(model).function(mode="reference")(*arrays))
    for found, allowed in ((by_runtime(model, *arrays), tolerances), (again, back or tolerances)):
        for got, want in zip(found, wanted, strict=True):
            np.testing.assert_allclose(got, want, *allowed, strict=True)
    return model
