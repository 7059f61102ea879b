"""Branches that do not fit each other, and inputs and sizes that are given when a model is loaded."""

import numpy as np
import onnx
import pytest

import scanjit as sj
import scanjit.onnx as sjo
from tests.onnx import support

helper, node = onnx.helper, onnx.helper.make_node
FLOAT = "float32"


def model_of(nodes, inputs, output=None, initializers=(), opset=17):
    """A model with the output `y`, of a declared shape or of none."""
    infos = [support.value(name, *of) for name, of in inputs.items()]
    return support.model_of(nodes, infos, [support.value("y", shape=output)], initializers, opset)


def branch(op, *inputs, **attributes):
    """A graph of one node."""
    return helper.make_graph([node(op, list(inputs), ["inner"], **attributes)], op, [], [support.value("inner")])


def squeezed(x, axis, y, negated=False):
    """What exporters write for a squeeze of a size that they do not know."""
    then, other = branch("Squeeze", x, f"axis{axis}"), branch("Identity", x)
    nodes = [
        node("Shape", [x], [f"{y}_shape"]),
        node("Gather", [f"{y}_shape", f"axis{axis}"], [f"{y}_size"]),
        node("Equal", [f"{y}_size", "one"], [f"{y}_is"]),
    ]
    if negated:
        return [
            *nodes,
            node("Not", [f"{y}_is"], [f"{y}_not"]),
            node("If", [f"{y}_not"], [y], then_branch=other, else_branch=then),
        ]
    return [*nodes, node("If", [f"{y}_is"], [y], name=f"if_{y}", then_branch=then, else_branch=other)]


NUMBERS = [("one", np.int64([1])), *((f"axis{k}", np.int64([k])) for k in range(3))]


def run(model, **feeds):
    return support.session_of(model).run(None, feeds)[0]


@pytest.mark.parametrize("negated", [False, True])
def test_an_unknown_size_is_seldom_the_one_that_a_condition_names(negated):
    model = model_of(squeezed("x", 1, "y", negated), {"x": (FLOAT, ("n", "k"))}, initializers=NUMBERS)
    x = np.arange(6, dtype="float32").reshape(2, 3)
    loaded = sjo.load(model)
    assert loaded.outputs[0].ndim == 2
    for mode in ("reference", "emulate"):
        f = loaded.function(mode=mode)
        np.testing.assert_array_equal(f(x), run(model, x=x), strict=True)
        with pytest.raises(sj.AssertError, match=r"(?s)take the other one.*sizes=\{"):
            f(x[:, :1])
    f = sjo.load(model, sizes={"k": 1}).function(mode="reference")
    np.testing.assert_array_equal(f(x[:, :1]), run(model, x=x[:, :1]), strict=True)


def test_what_follows_says_which_branch_is_meant():
    """A product of matrices takes two axes; so does an output that is declared with two."""
    weights = np.float32(np.random.default_rng(0).normal(size=(3, 4)))
    product = model_of(
        [*squeezed("x", 2, "h"), node("Gemm", ["h", "w"], ["y"])],
        {"x": (FLOAT, ("n", 3, "k"))},
        initializers=[*NUMBERS, ("w", weights)],
    )
    declared = model_of(squeezed("x", 2, "y"), {"x": (FLOAT, ("n", 3, "k"))}, ("n", 3), NUMBERS)
    x = np.float32(np.random.default_rng(1).normal(size=(5, 3, 1)))
    for model in (product, declared):
        f = sjo.load(model).function(mode="reference")
        np.testing.assert_allclose(f(x), run(model, x=x), rtol=1e-6, strict=True)
        with pytest.raises(sj.ScanjitError):
            f(np.ones((5, 3, 2), "float32"))


def test_choices_are_revised_last_first():
    """The third one is wrong: what comes before it stays."""
    nodes = [
        *squeezed("x", 0, "a"),
        *squeezed("a", 1, "b"),
        *squeezed("b", 2, "c"),
        node("Gemm", ["c", "w"], ["d"]),
        node("ReduceSum", ["d"], ["y"], keepdims=0),
    ]
    model = model_of(nodes, {"x": (FLOAT, ("n", "m", "k"))}, (), [*NUMBERS, ("w", np.ones((4, 2), np.float32))])
    x = np.ones((3, 4, 1), "float32")
    assert sjo.load(model).function(mode="reference")(x) == run(model, x=x) == 24


def test_a_model_that_fits_no_choice_is_an_error_after_a_number_of_tries():
    """The error is that of the choices that most sizes take."""
    nodes = [n for i in range(20) for n in squeezed(f"x{i}" if i else "x", 1, f"x{i + 1}")]
    model = model_of([*nodes, node("Frobnicate", ["x20"], ["y"])], {"x": (FLOAT, ("n", "k"))}, None, NUMBERS)
    with pytest.raises(sj.NotSupportedError, match="no op 'Frobnicate'"):
        sjo.load(model)


def test_a_branch_that_does_not_fit_its_own_operands_is_not_taken():
    """Axis 1 has three entries, so only one branch can be meant, whatever n is."""
    nodes = squeezed("x", 0, "y")
    del nodes[-1].attribute[:]
    nodes[-1].attribute.extend(
        helper.make_attribute(name, graph)
        for name, graph in (("then_branch", branch("Squeeze", "x", "axis1")), ("else_branch", branch("Relu", "x")))
    )
    f = sjo.load(model_of(nodes, {"x": (FLOAT, ("n", 3))}, None, NUMBERS)).function(mode="reference")
    np.testing.assert_array_equal(f(-np.ones((2, 3), "float32")), np.zeros((2, 3)))
    with pytest.raises(sj.AssertError):
        f(np.ones((1, 3), "float32"))


def test_the_size_that_a_branch_drops_is_that_of_the_branch_that_runs():
    """Two branches with another stride each: one length fits one, one the other."""

    def pooled(step):
        nodes = [node("MaxPool", ["x"], ["p"], kernel_shape=[2], strides=[step]), *squeezed("p", 2, "r")]
        return helper.make_graph(nodes, f"by{step}", [], [support.value("r")])

    tail = [node("Gemm", ["h", "w"], ["y"])]
    model = model_of(
        [node("If", ["wide"], ["h"], then_branch=pooled(4), else_branch=pooled(2)), *tail],
        {"x": (FLOAT, ("n", 3, "length")), "wide": ("bool", ())},
        initializers=[*NUMBERS, ("w", np.ones((3, 2), np.float32))],
    )
    f = sjo.load(model).function(mode="emulate")
    for wide, length in ((True, 4), (False, 2)):
        x = np.float32(np.random.default_rng(length).normal(size=(2, 3, length)))
        np.testing.assert_allclose(f(x, wide), run(model, x=x, wide=np.array(wide)), rtol=1e-6)
    with pytest.raises(sj.AssertError):
        f(np.ones((2, 3, 8), "float32"), True)


# ---- inputs and sizes that are given ---------------------------------------------------------------------------------


def flagged():
    """A model whose branches differ, of which one has an op that there is not."""
    nodes = [
        node("Equal", ["rate", "wanted"], ["c"]),
        node(
            "If", ["c"], ["y"], then_branch=branch("Frobnicate", "x"), else_branch=branch("ReduceSum", "x", keepdims=0)
        ),
    ]
    inputs = {"x": (FLOAT, ("batch", "n")), "rate": ("int64", ())}
    return model_of(nodes, inputs, initializers=[("wanted", np.int64(16000))])


def test_a_branch_that_a_given_input_excludes_is_not_read():
    with pytest.raises(sj.NotSupportedError, match=r"(?s)'Frobnicate'.*inputs=\{'rate': \.\.\.\}"):
        sjo.load(flagged())
    model = sjo.load(flagged(), inputs={"rate": 8000}, sizes={"batch": 2})
    assert [str(x.type) for x in model.inputs] == ["float32(2, n)"]
    assert model.function(mode="reference")(np.ones((2, 3), "float32")) == 6
    assert sj.function([], model(np.ones((2, 5), "float32")), mode="reference")() == 10


def test_a_given_input_says_the_sizes_of_the_others():
    inputs = {"x": (FLOAT, ("n", "k")), "z": (FLOAT, ("n", "k"))}
    model = model_of([node("Add", ["x", "z"], ["y"])], inputs)
    (x,) = sjo.load(model, inputs={"z": np.ones((2, 3), "float32")}).inputs
    assert x.type.shape == (2, 3)
    x, z = sjo.load(model, sizes={"x": (4, None)}).inputs
    assert x.type.shape[0] == z.type.shape[0] == 4 and x.type.shape[1] == z.type.shape[1]


def test_sizes_that_have_no_name():
    """-1 and ? are sizes that are not known, each of its own."""
    model = model_of([node("Relu", ["x"], ["y"])], {"x": (FLOAT, [-1, "?", "?", 3])}, [-1, "?", "?", 3])
    (x,) = sjo.load(model).inputs
    assert len(set(x.type.shape)) == 4 and x.type.shape[3] == 3
    (x,) = sjo.load(model, sizes={"x": (1, None, 7, None)}).inputs
    assert x.type.shape[0] == 1 and x.type.shape[2:] == (7, 3)
    with pytest.raises(sj.FormatError, match="negative size"):
        sjo.load(model_of([node("Relu", ["x"], ["y"])], {"x": (FLOAT, [-7, 3])}))


@pytest.mark.parametrize(
    "given, error, message",
    [
        ({"inputs": {"sr": 1}}, sj.ArgumentError, r"(?s)inputs of load has a name.*'sr'.*'x', 'rate'"),
        ({"sizes": {"m": 1}}, sj.ArgumentError, r"(?s)sizes of load has a name.*'m'.*'batch', 'n', 'x', 'rate'"),
        ({"sizes": {"n": -1}}, sj.ArgumentError, "the size 'n' given to load is no size"),
        ({"sizes": {"n": True}}, sj.ArgumentError, "the size 'n' given to load is no size"),
        ({"sizes": {"x": 3}}, sj.ArgumentError, "the shape of the input 'x' given to load is no shape"),
        ({"sizes": {"x": (1, 2, 3)}}, sj.ShapeError, r"(?s)'x' is given another shape.*\(1, 2, 3\).*\(batch, n\)"),
        ({"sizes": {"n": 3, "x": (1, 2)}}, sj.ShapeError, "'x' is given another shape"),
        ({"inputs": {"rate": 1.5}}, sj.DtypeError, r"(?s)'rate'.*another dtype.*1\.5.*int64"),
        ({"inputs": {"rate": [1, 2]}}, sj.ShapeError, "'rate' is given another shape"),
        ({"inputs": {"x": "text"}}, sj.DtypeError, "'x' given to load has another dtype"),
        ({"inputs": {"rate": 2**70}}, sj.DtypeError, "'rate' given to load has another dtype"),
    ],
)
def test_what_cannot_be_given(given, error, message):
    with pytest.raises(error, match=message):
        sjo.load(flagged(), **given)
