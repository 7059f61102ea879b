"""The contract of layers: shapes, parameters with tags, names, errors."""

from typing import Any

import numpy as np
import pytest

import lasagne_like as lasagne
import scanjit as sj
from lasagne_like.foreign import METHODS
from lasagne_like.layers import DenseLayer, InputLayer, Layer, MergeLayer


class Three(Layer):
    """A layer with parameters of several tags."""

    def __init__(self, incoming: Any, **kwargs: Any) -> None:
        super().__init__(incoming, **kwargs)
        self.a = self.add_param(lasagne.init.Constant(1), (2,), "a")
        self.b = self.add_param(np.zeros(3), (3,), "b", regularizable=False)
        self.c = self.add_param(np.zeros(4), (4,), "c", trainable=False, special=True)


def names(params: list[Any]) -> list[str]:
    return [p.name for p in params]


def test_parameters_are_filtered_by_tags() -> None:
    layer = Three((None, 5))
    assert names(layer.get_params()) == ["a", "b", "c"]
    assert names(layer.get_params(trainable=True)) == ["a", "b"]
    assert names(layer.get_params(regularizable=True)) == ["a", "c"]
    assert names(layer.get_params(trainable=True, regularizable=True)) == ["a"]
    assert names(layer.get_params(trainable=False)) == ["c"]
    assert names(layer.get_params(special=True)) == ["c"]
    assert names(layer.get_params(special=False, regularizable=False)) == ["b"]
    assert layer.params[layer.c] == {"regularizable", "special"}


def test_names_of_parameters_start_with_that_of_the_layer() -> None:
    assert names(Three((1,), name="x").get_params()) == ["x.a", "x.b", "x.c"]
    own = sj.shared(np.zeros(2), "own")
    layer = Three((1,), name="x")
    assert layer.add_param(own, (2,), "d") is own and own.name == "own"
    unnamed = sj.shared(np.zeros(2))
    layer.add_param(unnamed, (2,), "e")
    assert unnamed.name == "x.e"
    assert layer.add_param(lasagne.init.Constant(0), (2,)).name is None


def test_shared_parameters_and_expressions() -> None:
    w1, w2 = sj.shared(np.ones((3, 2)), "w1"), sj.shared(np.ones((3, 2)), "w2")
    expression = sj.exp(w1) - w2
    layer = DenseLayer((None, 3), 2, W=expression, b=None)
    assert layer.W is expression
    assert layer.get_params()[0] is w1 and layer.get_params()[1] is w2 and len(layer.get_params()) == 2
    assert layer.get_params(unwrap_shared=False)[0] is expression
    assert layer.get_params(trainable=False) == []
    other = DenseLayer((None, 3), 2, W=w1, b=None)
    twin = DenseLayer((None, 3), 2, W=other.W, b=None)
    assert twin.W is w1
    merged = lasagne.layers.ElemwiseSumLayer([layer, other, twin])
    assert names(lasagne.layers.get_all_params(merged)) == ["w1", "w2"]


@pytest.mark.parametrize(
    "spec, error, text",
    [
        (np.zeros((2, 3)), ValueError, r"W.*\(2, 3\).*\(3, 2\)"),
        (0.5, ValueError, r"W.*\(\).*\(3, 2\).*init.Constant"),
        (sj.shared(np.zeros((2, 3))), ValueError, r"shared variable has shape \(2, 3\), should be \(3, 2\)"),
        (sj.shared(np.zeros(3)), ValueError, r"\(3,\).*\(3, 2\)"),
        (sj.tensor((None, 4)), ValueError, r"expression has shape \(None, 4\), should be \(3, 2\)"),
        (lambda shape: np.zeros(5), ValueError, r"callable returned.*\(5,\).*\(3, 2\)"),
        (lambda shape: "weights", TypeError, "callable returned is a str"),
        ("weights", TypeError, "W.*str.*should be an array"),
        (None, TypeError, "NoneType"),
        (np.array(["a"]), TypeError, "ndarray"),
    ],
)
def test_errors_of_parameters_show_both_shapes(spec: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        DenseLayer((None, 3), 2, W=spec)


def test_kinds_of_specifications(monkeypatch: pytest.MonkeyPatch) -> None:
    create = lasagne.utils.create_param
    assert create(2.5, ()).get_value() == 2.5
    assert create(np.float32(2.5), ()).dtype == np.float32
    assert create([1.0, 2.0], (2,)).get_value().tolist() == [1.0, 2.0]
    assert create(lambda shape: np.full(shape, 3.0), (2,)).get_value().tolist() == [3.0, 3.0]
    shared = sj.shared(np.zeros(2))
    assert create(lambda shape: shared, (2,)) is shared
    open_ended = sj.tensor((None, 2))
    assert create(open_ended, (3, 2)) is open_ended
    assert create(np.zeros(2, "float32"), (2,)).dtype == np.float32
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    assert create(np.zeros(2, bfloat16), (2,)).dtype == bfloat16
    with pytest.raises(TypeError, match="cannot initialize parameter bad: the value is a ndarray"):
        create(np.zeros(2, [("a", "float32")]), (2,), "bad")
    with pytest.raises(ValueError, match=r"bad.*\(3, 0\)"):
        create(np.zeros((3, 0)), (3, 0), "bad")
    monkeypatch.setattr(sj.config, "floatX", "float32")
    assert create(1, ()).dtype == np.float32


def test_a_parameter_starts_from_a_copy() -> None:
    values = np.ones((3, 2))
    layer = DenseLayer((None, 3), 2, W=values)
    values[:] = 0
    assert (layer.W.get_value() == 1).all()


def test_shapes_of_inputs_are_checked() -> None:
    for shape in ((0, 3), (-1, 3)):
        with pytest.raises(ValueError, match=str(shape).replace("(", r"\(").replace(")", r"\)")):
            Three(shape)
        with pytest.raises(ValueError, match="not positive"):
            InputLayer(shape)
        with pytest.raises(ValueError, match=r"input_shapes\[1\]"):
            MergeLayer([(1, 2), shape])
    with pytest.raises(TypeError, match=r"incoming .* got a int"):
        Three(5)
    several = lasagne.layers.LSTMLayer((None, None, 2), 4, return_state=True)
    for make in (Three, lambda layer: MergeLayer([(1, 2), layer])):
        with pytest.raises(ValueError, match=r"takes one tensor.*\(\(None, None, 4\), LSTMState.*SelectLayer"):
            make(several)


def test_what_a_subclass_must_define() -> None:
    with pytest.raises(NotImplementedError, match="Three"):
        Three((None, 2)).get_output_for(sj.matrix())
    with pytest.raises(NotImplementedError, match="MergeLayer"):
        _ = MergeLayer([(1,)]).output_shape
    with pytest.raises(NotImplementedError, match="MergeLayer"):
        MergeLayer([(1,)]).get_output_for([sj.vector()])
    assert Three((None, 2)).output_shape == (None, 2)


def test_a_symbolic_output_shape_is_an_error() -> None:
    class Bad(Layer):
        def get_output_shape_for(self, input_shape: Any) -> Any:
            return (sj.vector().shape[0],)

    with pytest.raises(ValueError, match="Bad"):
        _ = Bad((1,)).output_shape


def test_input_layer() -> None:
    layer = InputLayer((None, 3), name="in")
    assert layer.output_shape == layer.shape == (None, 3)
    assert layer.input_var.name == "in" and layer.input_var.ndim == 2 and layer.input_var.shape[1] == 3
    assert layer.get_params() == []
    x = sj.imatrix()
    assert InputLayer([None, 3], x).input_var is x
    assert InputLayer((None, 3), x).shape == (None, 3)
    with pytest.raises(
        ValueError, match=r"\(None, 3\) of <InputLayer.*> has 2 dimensions, but its input_var has 1: \(None,\)"
    ):
        InputLayer((None, 3), sj.vector())
    with pytest.raises(ValueError, match=r"\(None, 3\).*\(None, 4\)"):
        InputLayer((None, 3), sj.tensor((None, 4)))


def test_two_unnamed_inputs_can_be_inputs_of_one_function() -> None:
    first, second = InputLayer((None, 2)), InputLayer((None, 2))
    total = lasagne.layers.get_output(lasagne.layers.ElemwiseSumLayer([first, second]))
    f = sj.function([first.input_var, second.input_var], total, mode="reference")
    np.testing.assert_array_equal(f(np.ones((3, 2)), np.ones((3, 2))), 2 * np.ones((3, 2)))
    with pytest.raises(sj.ScanjitError):
        f(np.ones((3, 2)), np.ones((4, 2)))


def test_a_layer_shows_its_name() -> None:
    named = DenseLayer((None, 3), 2, name="out")
    assert str(named) == "<DenseLayer 'out'>" and str(DenseLayer((None, 3), 2)) == "<DenseLayer>"
    assert repr(named) == "<DenseLayer 'out': (None, 3) -> (None, 2), 8 parameters>"
    sums = lasagne.layers.ElemwiseSumLayer([named, named])
    assert repr(sums) == "<ElemwiseSumLayer: (None, 2), (None, 2) -> (None, 2), 0 parameters>"
    assert repr(Layer.__new__(Layer)) == "<Layer>"


@pytest.mark.parametrize("name", sorted(METHODS))
def test_the_methods_of_keras_say_what_to_write(name: str) -> None:
    with pytest.raises(AttributeError, match=rf"'InputLayer' object has no attribute '{name}': write "):
        getattr(InputLayer((None, 3)), name)


def test_other_attributes_that_are_missing() -> None:
    class Broken(Layer):
        @property
        def rate(self) -> float:
            return self.nothing_of_this_name  # type: ignore[no-any-return, attr-defined]

        weights = "its own"

    layer = Broken(InputLayer((None, 3)))
    assert layer.weights == "its own"
    with pytest.raises(AttributeError, match=r"no attribute 'nothing_of_this_name'$"):
        _ = layer.rate
    with pytest.raises(AttributeError, match=r"layers' has no attribute 'Dense': write DenseLayer$"):
        _ = lasagne.layers.Dense  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=r"has no attribute 'DenseLayre': write DenseLayer$"):
        _ = lasagne.layers.DenseLayre  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=r"has no attribute 'qqqqq'$"):
        _ = lasagne.layers.qqqqq  # type: ignore[attr-defined]
