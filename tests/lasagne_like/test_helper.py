"""What is asked of networks: order of layers, outputs with substitutions, shapes, parameters and their values."""

import pickle
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lasagne_like as lasagne
import scanjit as sj
from lasagne_like.layers import (
    ConcatLayer,
    DenseLayer,
    ElemwiseSumLayer,
    ExpressionLayer,
    InputLayer,
    Layer,
    count_params,
    get_all_layers,
    get_all_param_values,
    get_all_params,
    get_output,
    get_output_shape,
    get_updates,
    set_all_param_values,
)


def add(layer: Any, number: float, name: str | None = None) -> Layer:
    return ExpressionLayer(layer, lambda x: x + number, name=name)


def test_layers_come_after_what_feeds_them() -> None:
    a = InputLayer((None, 2))
    b, c = add(a, 1), add(a, 2)
    d = ElemwiseSumLayer([c, b])
    assert get_all_layers(d) == [a, c, b, d]
    assert get_all_layers([b, d]) == [a, b, c, d]
    assert get_all_layers([d, b, d]) == [a, c, b, d]
    assert get_all_layers(d, treat_as_input=[c]) == [c, a, b, d]
    assert get_all_layers(d, treat_as_input=[b, c]) == [c, b, d]
    assert get_all_layers(a) == [a]
    assert get_all_layers([]) == []
    floating = add((None, 2), 1)
    assert get_all_layers(floating) == [floating]


def test_a_layer_used_early_and_late_comes_once_and_first() -> None:
    a = InputLayer((None, 2))
    b = add(a, 1)
    c = add(b, 1)
    d = ElemwiseSumLayer([a, c, b])
    assert get_all_layers(d) == [a, b, c, d]
    assert get_all_layers([d, a]) == [a, b, c, d]


def test_deep_networks_need_no_recursion() -> None:
    layer: Layer = InputLayer((None, 2))
    for _ in range(3000):
        layer = add(layer, 1)
    assert len(get_all_layers(layer)) == 3001
    assert get_output(layer).ndim == 2


def test_output_with_and_without_substitution(run: Callable[..., Any]) -> None:
    a = InputLayer((None, 2), name="a")
    b, c = add(a, 1), add(a, 10)
    d = ElemwiseSumLayer([b, c])
    ones = np.ones((1, 2))
    assert run(get_output(d), {a.input_var: ones}).tolist() == [[13, 13]]
    x = sj.matrix("x")
    assert run(get_output(d, 2 * x), {x: ones}).tolist() == [[15, 15]]
    assert run(get_output(d, ones)).tolist() == [[13, 13]]
    assert run(get_output(d, {a: x}), {x: ones}).tolist() == [[13, 13]]
    assert run(get_output(d, {b: x, c: 5 * ones}), {x: ones}).tolist() == [[6, 6]]
    assert run(get_output(d, {b: x}), {x: ones, a.input_var: ones}).tolist() == [[12, 12]]
    assert run(get_output(d, {a: x, b: 0 * ones}), {x: ones}).tolist() == [[11, 11]]
    assert [v.tolist() for v in run(get_output([d, b, a], ones))] == [[[13, 13]], [[2, 2]], [[1, 1]]]
    assert get_output(a) is a.input_var
    y = sj.tensor((None, 2))
    assert get_output(d, {d: y}) is y


def test_substituted_layers_above_the_output_do_no_harm() -> None:
    a = InputLayer((None, 2))
    b = add(a, 1)
    assert get_output(a, {b: sj.matrix()}) is a.input_var


def test_the_input_of_a_layer_that_was_made_for_a_shape(run: Callable[..., Any]) -> None:
    layer = DenseLayer((None, 3), 2, W=lasagne.init.Constant(1))
    np.testing.assert_array_equal(run(get_output(layer, {None: np.ones((1, 3))}), {}), [[3.0, 3.0]])
    assert get_output_shape(layer, {None: (7, 3)}) == (7, 2)
    with pytest.raises(ValueError, match="was made for a shape, so its input is not known"):
        get_output(layer)


def test_a_shared_variable_as_input(run: Callable[..., Any]) -> None:
    a = InputLayer((None, 2))
    data = sj.shared(np.ones((3, 2)))
    assert run(get_output(add(a, 1), data)).tolist() == [[2, 2]] * 3


def test_errors_of_inputs() -> None:
    a, b = InputLayer((None, 2), name="a"), InputLayer((None, 2), name="b")
    both = ConcatLayer([a, b])
    with pytest.raises(ValueError, match=r"2 input layers.*'a'.*'b'"):
        get_output(both, sj.matrix())
    with pytest.raises(TypeError, match="int"):
        get_output(both, {1: sj.matrix()})
    with pytest.raises(TypeError, match="constant"):
        get_output(add(a, 1), "data")
    floating = add((None, 2), 1, name="floating")
    with pytest.raises(ValueError, match="'floating'"):
        get_output(add(floating, 1))
    with pytest.raises(ValueError, match="2 input layers"):
        get_output_shape(both, (3, 2))
    assert get_output(add(floating, 1), {floating: sj.matrix()}).ndim == 2
    for nothing in (None, "layer", [a, None], sj.matrix()):
        with pytest.raises(TypeError, match="expected a layer or a list of layers, got"):
            get_output(nothing)


def test_keyword_arguments_reach_every_layer() -> None:
    seen: list[dict[str, Any]] = []

    class Spy(Layer):
        def get_output_for(self, input: Any, factor: float = 1, **kwargs: Any) -> Any:
            seen.append({"factor": factor, **kwargs})
            return input * factor

    layer = Spy(Spy(InputLayer((None, 2))))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        get_output(layer, deterministic=True, factor=3)
    assert seen == [{"factor": 3, "deterministic": True}] * 2


def test_unknown_keyword_arguments_are_warned_of() -> None:
    layer = add(InputLayer((None, 2)), 1)
    with pytest.warns(UserWarning, match=r"unused kwargs:\n\tdetermnistic \(perhaps you meant deterministic\)"):
        get_output(layer, determnistic=True)
    with pytest.warns(UserWarning, match="entirely_different$"):
        get_output(layer, entirely_different=True)
    layer.get_output_kwargs.append("entirely_different")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        get_output(layer, entirely_different=True)


def test_warnings_name_the_line_of_the_caller() -> None:
    with pytest.warns(UserWarning) as record:
        get_output(add(InputLayer((None, 2)), 1), unknown=True)
    assert record[0].filename == __file__


def test_output_shapes() -> None:
    a = InputLayer((None, 20))
    b = DenseLayer(a, 5)
    c = ConcatLayer([b, a])
    assert get_output_shape(c) == (None, 25)
    assert get_output_shape([c, b]) == [(None, 25), (None, 5)]
    assert get_output_shape(c, (7, 20)) == (7, 25)
    assert get_output_shape([c, a], {a: (7, 20)}) == [(7, 25), (7, 20)]
    assert get_output_shape(c, {b: (7, 6)}) == (7, 26)
    assert get_output_shape(c, {}) == (None, 25)


def network() -> DenseLayer:
    hidden = DenseLayer(InputLayer((None, 3)), 4, name="hidden")
    return DenseLayer(hidden, 2, b=None, name="out")


def test_parameters_of_networks() -> None:
    net = network()
    assert [p.name for p in get_all_params(net)] == ["hidden.W", "hidden.b", "out.W"]
    assert [p.name for p in get_all_params([net, net.input_layer])] == ["hidden.W", "hidden.b", "out.W"]
    assert [p.name for p in get_all_params(net, regularizable=False)] == ["hidden.b"]
    assert count_params(net) == 3 * 4 + 4 + 8
    assert count_params(net, regularizable=True) == 20


def test_values_of_parameters() -> None:
    net = network()
    values = get_all_param_values(net)
    set_all_param_values(net, [v + 1 for v in values])
    for before, after in zip(values, get_all_param_values(net), strict=True):
        np.testing.assert_array_equal(before + 1, after)
    set_all_param_values(net, [np.zeros(4)], regularizable=False)
    assert not net.input_layer.b.get_value().any()  # type: ignore[union-attr]
    restored = pickle.loads(pickle.dumps(get_all_param_values(net)))
    set_all_param_values(net, restored)


def test_errors_of_values_show_both_shapes_and_change_nothing() -> None:
    net = network()
    values = get_all_param_values(net)
    with pytest.raises(ValueError, match=r"2 values to set 3 parameters.*hidden.W \(3, 4\).*shapes \(3, 4\), \(4,\)"):
        set_all_param_values(net, values[:2])
    with pytest.raises(ValueError, match=r"parameter 2 \(out.W\) has shape \(4, 2\).*shape \(2, 4\)"):
        set_all_param_values(net, [values[0] + 1, values[1], values[2].T])
    np.testing.assert_array_equal(get_all_param_values(net)[0], values[0])


def test_updates_are_those_of_the_last_output_that_had_any() -> None:
    first = lasagne.layers.BatchNormLayer(InputLayer((None, 2)), name="first")
    second = lasagne.layers.BatchNormLayer(first, name="second")
    assert get_updates(second) == {}
    get_output(second)
    assert [v.name for v in get_updates(second)] == ["first.mean", "first.inv_std", "second.mean", "second.inv_std"]
    assert len(get_updates(first)) == 2
    before = dict(get_updates(second))
    get_output(second, deterministic=True)
    assert all(get_updates(second)[key] is value for key, value in before.items())
    get_output(second, sj.matrix())
    assert not any(get_updates(second)[key] is value for key, value in before.items())


def test_values_of_another_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    values = get_all_param_values(network())
    monkeypatch.setattr(sj.config, "floatX", "float32")
    net = network()
    set_all_param_values(net, values)
    for before, after in zip(values, get_all_param_values(net), strict=True):
        assert after.dtype == np.float32
        np.testing.assert_array_equal(before.astype("float32"), after)
    before = get_all_param_values(net)[0]
    for dtype in ("complex128", "U32"):
        with pytest.raises(TypeError, match=r"parameter 2 \(out.W\) has dtype float32 but the value to set"):
            set_all_param_values(net, [values[0], values[1], values[2].astype(dtype)])
    np.testing.assert_array_equal(get_all_param_values(net)[0], before)


def test_what_is_no_list_of_values(tmp_path: Path) -> None:
    net = DenseLayer((None, 2), 3)
    values = get_all_param_values(net)
    np.savez(tmp_path / "w.npz", *values)
    with np.load(tmp_path / "w.npz") as file:
        with pytest.raises(TypeError, match=r"got a NpzFile: give list\(values.values\(\)\)"):
            set_all_param_values(net, file)
        set_all_param_values(net, [value + 1 for value in file.values()])
    set_all_param_values(net, (value + 1 for value in values))  # type: ignore[arg-type]
    assert np.array_equal(net.W.get_value(), values[0] + 1)
    with pytest.raises(TypeError, match="values must be a list of arrays, got a NoneType"):
        set_all_param_values(net, None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"parameter 0 \(W\) has shape \(2, 3\) but the value to set has shape None"):
        set_all_param_values(net, [[[1, 2], [3]], values[1]])
    with pytest.raises(sj.ArgumentError, match="value 0 has masked entries"):
        set_all_param_values(net, [np.ma.masked_less(values[0], 0.0), values[1]])
    assert np.array_equal(net.W.get_value(), values[0] + 1)


def test_deterministic_is_a_flag() -> None:
    net = lasagne.layers.DropoutLayer(InputLayer((None, 2)))
    for wrong in ("no", np.ones(2), sj.lscalar("d"), None, 2):
        with pytest.raises(ValueError, match="deterministic must be True or False, got"):
            get_output(net, deterministic=wrong)
    assert get_output(net, deterministic=np.True_) is net.input_layer.input_var


def test_values_of_outputs_must_have_their_shapes() -> None:
    l_in = InputLayer((None, 3), name="x")
    layer = add(l_in, 1, "sum")
    for value in (np.ones((2, 4)), np.ones(3), {layer: np.ones((2, 4))}):
        with pytest.raises(sj.ShapeError, match=r"the value for <.* '(x|sum)'> has another shape"):
            get_output(layer, value)
    x = sj.matrix("x")
    f = sj.function([x], get_output(layer, x), mode="reference")
    assert f(np.ones((2, 3))).tolist() == [[2.0] * 3] * 2
    with pytest.raises(sj.ShapeError, match="the value for <InputLayer 'x'> has another shape"):
        f(np.ones((2, 4)))
