"""Files that are cut, changed or made up: errors of this package that name the node, and nothing else happens."""

import random

import numpy as np
import onnx
import pytest

import scanjit as sj
import scanjit.onnx as sjo
from scanjit.onnx import extra

helper = onnx.helper
FLOAT, INT64 = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64


def model_of(nodes, shape=("n", 3), initializers=(), outputs=("y",), opset=18, dtype=FLOAT):
    graph = helper.make_graph(
        nodes,
        "made_up",
        [helper.make_tensor_value_info("x", dtype, shape)],
        [helper.make_tensor_value_info(name, FLOAT, None) for name in outputs],
        list(initializers),
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def node(op, *inputs, output="y", **attributes):
    return helper.make_node(op, inputs, [output], name="culprit", **attributes)


def ints(name, *values):
    return onnx.numpy_helper.from_array(np.array(values, np.int64), name)


def a_model():
    x, w = sj.tensor(("T", 3), "float32", "x"), sj.shared(np.ones((3, 3), "float32"), "w")
    h = sj.scan(lambda row, before: sj.tanh(row + before @ w), x, sj.zeros(3, "float32"))
    return sjo.export(([x], [h, x[1:].reshape((-1,)), sj.ifelse(x[0, 0] > 0, x * 2, x)]))


@pytest.mark.parametrize(
    "made, error, message",
    [
        (node("Frobnicate", "x"), sj.NotSupportedError, "no op 'Frobnicate'"),
        (node("Relu", "z"), sj.FormatError, "no node before this one makes its input 'z'"),
        (node("Relu"), sj.FormatError, "lacks its input 0"),
        (node("Relu", "x", speed=3), sj.NotSupportedError, "attributes that are not supported"),
        (node("Softmax", "x", axis=7), sj.ShapeError, "axis 7 is out of bounds"),
        (node("Softmax", "x", axis="one"), sj.FormatError, "of another kind"),
        (node("Transpose", "x", perm=[0, 0]), sj.ShapeError, "once each"),
        (node("Conv", "x", "x"), sj.NotSupportedError, "other than one, two or three axes"),
        (node("Concat", "x", "x"), sj.FormatError, "lacks its attribute 'axis'"),
        (node("Cast", "x", to=8), sj.DtypeError, "got:      string"),
        (node("LSTM", "x", "x", "x", hidden_size=2), sj.ShapeError, "three axes"),
        (node("Scan", "x", num_scan_inputs=2**40), sj.FormatError, "lacks its graph"),
        (node("Split", "x", num_outputs=2**40), sj.FormatError, "as many parts as it has outputs"),
        (helper.make_node("Relu", ["x"], ["y"], name="culprit", domain="com.example"), sj.NotSupportedError, "domain"),
    ],
    ids=lambda value: value.op_type if hasattr(value, "op_type") else "",
)
def test_a_node_that_cannot_be_read_is_named(made, error, message):
    with pytest.raises(error, match=f"(?s){message}.*at: +the node 'culprit' \\({made.op_type}\\)"):
        sjo.load(model_of([made]))


def test_what_a_graph_as_a_whole_may_not_be():
    with pytest.raises(sj.FormatError, match="two things in this graph are called 'y'"):
        sjo.load(model_of([node("Relu", "x"), node("Relu", "x")]))
    with pytest.raises(sj.FormatError, match="no node of the graph makes its output 'z'"):
        sjo.load(model_of([node("Relu", "x")], outputs=("z",)))
    with pytest.raises(sj.DtypeError, match=r"(?s)the input 'x'.*complex64"):
        sjo.load(model_of([node("Relu", "x")], dtype=onnx.TensorProto.COMPLEX64))
    with pytest.raises(sj.NotSupportedError, match=r"(?s)op set.*version 6"):
        sjo.load(model_of([node("Relu", "x")], opset=6))
    with pytest.raises(sj.FormatError, match="not an ONNX model, or is truncated"):
        sjo.load(b"\x08\x01 no protocol buffer \xff\xff")
    with pytest.raises(sj.ArgumentError, match="a path, bytes, or an"):
        sjo.load(3)


def test_a_function_that_calls_itself():
    inner = helper.make_node("again", ["a"], ["b"], domain="mine")
    function = helper.make_function("mine", "again", ["a"], ["b"], [inner], [helper.make_opsetid("mine", 1)])
    model = model_of([helper.make_node("again", ["x"], ["y"], domain="mine")])
    model.functions.append(function)
    with pytest.raises(sj.FormatError, match="calls itself"):
        sjo.load(model)


def test_sizes_that_would_fill_the_memory_are_refused_or_left_to_the_call():
    huge = onnx.TensorProto(name="w", data_type=FLOAT, dims=[2**20, 2**20], raw_data=b"\0" * 8)
    with pytest.raises(sj.FormatError, match=r"(?s)'w' holds another number of bytes.*got: +8"):
        sjo.load(model_of([node("Add", "x", "w")], initializers=[huge]))
    huge = onnx.TensorProto(name="w", data_type=INT64, dims=[2**62, 4], int64_data=[1])
    with pytest.raises(sj.FormatError, match="another number of numbers"):
        sjo.load(model_of([node("Add", "x", "w")], initializers=[huge]))
    lazy = [node("ConstantOfShape", "shape", output="c"), node("Expand", "x", "shape")]
    model = sjo.load(model_of(lazy, shape=(1, 1), initializers=[ints("shape", 2**30, 2**30)]))
    assert model.outputs[0].type.shape == (2**30, 2**30)


def test_weights_that_are_not_numbers_are_kept():
    w = onnx.numpy_helper.from_array(np.array([np.nan, np.inf, 1.0], np.float32), "w")
    f = sjo.load(model_of([node("Mul", "x", "w")], initializers=[w])).function(mode="reference")
    np.testing.assert_array_equal(f(np.ones((1, 3), "float32")), [[np.nan, np.inf, 1.0]])


@pytest.mark.parametrize("location", ["../outside.bin", "/etc/hostname", "link.bin", "", "a\0b"])
def test_data_outside_the_folder_of_a_model_is_not_read(tmp_path, location):
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "outside.bin").write_bytes(b"\0" * 12)
    (folder / "link.bin").symlink_to(tmp_path / "outside.bin")
    (folder / "model.onnx").write_bytes(external(location).SerializeToString())
    with pytest.raises(sj.FormatError, match="not inside the model's folder"):
        sjo.load(folder / "model.onnx")


def external(location, **more):
    """A model with a weight that is kept in another file."""
    tensor = onnx.TensorProto(name="w", data_type=FLOAT, dims=[3], data_location=onnx.TensorProto.EXTERNAL)
    for key, value in {"location": location, **more}.items():
        tensor.external_data.add(key=key, value=value)
    return model_of([node("Add", "x", "w")], initializers=[tensor])


def test_data_beside_a_model(tmp_path):
    (tmp_path / "weights.bin").write_bytes(b"\0" * 4 + np.array([1, 2, 3], "<f4").tobytes())
    (tmp_path / "model.onnx").write_bytes(external("weights.bin", offset="4", length="12").SerializeToString())
    model = sjo.load(str(tmp_path / "model.onnx"))
    np.testing.assert_array_equal(model.initializers["w"].get_value(), [1, 2, 3])
    with pytest.raises(sj.FormatError, match="load the model by its path"):
        sjo.load(external("weights.bin"))
    (tmp_path / "folder").mkdir()
    for location in ("forgotten.bin", "folder"):
        (tmp_path / "model.onnx").write_bytes(external(location).SerializeToString())
        with pytest.raises(sj.FormatError, match=f"(?s)another file, which is missing.*'{location}'"):
            sjo.load(tmp_path / "model.onnx")
    for offset, length in (("8", "12"), ("4", "8"), ("-4", "12"), ("4", str(2**62)), ("four", "12")):
        (tmp_path / "model.onnx").write_bytes(external("weights.bin", offset=offset, length=length).SerializeToString())
        with pytest.raises(sj.FormatError, match=r"kept in (another file|a file that)"):
            sjo.load(tmp_path / "model.onnx")


def test_names_do_not_become_code():
    """Emulated, so that the generated code is run."""
    name = "x); import os\nraise SystemExit('"
    graph = helper.make_graph(
        [helper.make_node("Relu", [name], ["y"], name=name)],
        name,
        [helper.make_tensor_value_info(name, FLOAT, [name, 3])],
        [helper.make_tensor_value_info("y", FLOAT, None)],
    )
    model = sjo.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]))
    f = model.function(mode="emulate")
    np.testing.assert_array_equal(f(np.full((2, 3), -1, "float32")), np.zeros((2, 3)))
    assert "import os" not in "".join(line for line in f.source.splitlines() if not line.strip().startswith("#"))


def test_hundreds_of_changed_files_give_errors_of_this_package():
    whole, rnd, loaded = a_model().SerializeToString(), random.Random(0), 0
    for trial in range(400):
        data = bytearray(whole[: rnd.randrange(len(whole))] if trial % 4 == 0 else whole)
        for _ in range(trial % 4):
            data[rnd.randrange(len(data))] = rnd.randrange(256)
        try:
            sjo.load(bytes(data))
            loaded += 1
        except sj.InternalError:
            raise
        except sj.ScanjitError as error:
            assert str(error)
    assert loaded < 300


def test_without_the_package_the_error_names_the_extra(monkeypatch):
    def missing(name):
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(extra.importlib, "import_module", missing)
    with pytest.raises(sj.NotSupportedError, match=r"scanjit\[onnx\]"):
        sjo.load(b"")


def test_an_unknown_number_of_coordinates() -> None:
    helper, proto = onnx.helper, onnx.TensorProto
    inputs = [
        helper.make_tensor_value_info("x", proto.FLOAT, [3, 4]),
        helper.make_tensor_value_info("i", proto.INT64, ["n", "k"]),
    ]
    node = helper.make_node("GatherND", ["x", "i"], ["y"])
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("y", proto.FLOAT, None)])
    data = helper.make_model(graph).SerializeToString()
    with pytest.raises(sj.ShapeError, match="how many coordinates an index has is not known"):
        sj.onnx.load(data)
    found = sj.onnx.load(data, sizes={"k": 2}).function(mode="reference")
    x = np.arange(12, dtype="float32").reshape(3, 4)
    assert found(x, np.array([[0, 1], [-1, -1]])).tolist() == [1.0, 11.0]


@pytest.mark.parametrize("shape", [(2, 3), ("n", "m")])
@pytest.mark.parametrize(
    "made, given, message",
    [
        (helper.make_node("TopK", ["x", "k"], ["y", "places"]), {"k": [4]}, "TopK of 4 elements, of which there are 3"),
        (helper.make_node("TopK", ["x", "k"], ["y", "places"]), {"k": [-1]}, "TopK of a negative number: -1"),
        (helper.make_node("Split", ["x", "k"], ["y", "z"], axis=1), {"k": [-1, 4]}, "no negative size: -1"),
        (node("Pad", "x", "p"), {"p": [0, -2, 0, -2]}, "Pad takes 4 entries away from an axis of 3"),
        (node("Pad", "x", "p"), {"p": [0, 0, 0, -5]}, "Pad takes 5 entries away from an axis of 3"),
    ],
)
def test_more_than_there_is(made, given, shape, message):
    model = model_of([made], shape, [ints(name, *values) for name, values in given.items()])
    with pytest.raises(sj.ShapeError, match=message):
        sjo.load(model).function(mode="reference")(np.ones((2, 3), np.float32))


@pytest.mark.parametrize("pads, shape", [([-1, 0], None), ([4, 4], None), ([0, 0], [-2])])
def test_a_transposed_convolution_that_leaves_nothing(pads, shape):
    more = {"output_shape": shape} if shape else {"pads": pads}
    model = model_of([node("ConvTranspose", "x", "x", **more)], (2, 2, 3))
    with pytest.raises((sj.ShapeError, sj.FormatError), match="ConvTranspose"):
        sjo.load(model)


def test_sizes_of_a_branch_are_checked_when_it_runs():
    value = helper.make_tensor_value_info("y", FLOAT, None)
    largest = helper.make_node("TopK", ["x", "k"], ["largest", "places"], axis=0)
    sums = [[largest, node("ReduceSum", "largest")], [node("ReduceSum", "x")]]
    branches = [helper.make_graph(made, "b", [], [value]) for made in sums]
    chosen = helper.make_node("If", ["enough"], ["y"], then_branch=branches[0], else_branch=branches[1])
    sizes = [helper.make_node("Shape", ["x"], ["s"], end=1), helper.make_node("Less", ["limit", "s"], ["enough"])]
    model = model_of([*sizes, chosen], ("n",), [ints("k", 3), ints("limit", 3)])
    f = sjo.load(model).function(mode="reference")
    assert f(np.ones(2, np.float32)) == 2 and f(np.ones(5, np.float32)) == 3
    model.graph.initializer[1].CopyFrom(ints("limit", 0))
    with pytest.raises(sj.AssertError, match="TopK of 3 elements, of which there are n"):
        sjo.load(model).function(mode="reference")(np.ones(2, np.float32))
