"""The small tools."""

from typing import Any

import numpy as np
import pytest

import scanjit as sj
from lasagne_like import utils


def test_floatX(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.ones(3)
    assert utils.floatX(values) is values
    monkeypatch.setattr(sj.config, "floatX", "float32")
    assert utils.floatX([1, 2]).dtype == np.float32 and utils.shared_empty(3).dtype == np.float32
    assert utils.shared_empty(3).get_value().shape == (1, 1, 1)


def test_as_expression() -> None:
    x, w = sj.vector(), sj.shared(np.zeros(2))
    assert utils.as_expression(x) is x and utils.as_expression(w) is w
    assert utils.as_expression(np.ones((2, 3))).shape == (2, 3)
    assert utils.as_theano_expression is utils.as_expression
    with pytest.raises(TypeError, match="'text'"):
        utils.as_expression("text")


def test_shared_variables_of_expressions_are_found_in_order() -> None:
    a, b, c = (sj.shared(np.ones(2), name) for name in "abc")
    x = sj.vector()
    assert utils.collect_shared_vars(x) == []
    assert utils.collect_shared_vars(a)[0] is a
    found = utils.collect_shared_vars([c * x + a, b * a, c])
    assert [v.name for v in found] == ["c", "a", "b"]


def test_shared_variables_inside_of_scans_are_found() -> None:
    w, start = sj.shared(np.ones(2), "w"), sj.shared(np.zeros(2), "start")
    steps = sj.scan(lambda x, h: sj.tanh(x + h * w), sequences=sj.matrix(), outputs_info=start)
    assert {v.name for v in utils.collect_shared_vars(steps)} == {"w", "start"}


def test_one_hot() -> None:
    x = sj.ivector()
    f = sj.function([x], [utils.one_hot(x), utils.one_hot(x, 5)], mode="reference")
    first, second = f(np.array([2, 0], "int32"))
    assert first.tolist() == [[0, 0, 1], [1, 0, 0]] and second.shape == (2, 5)


def test_a_parameter_is_no_list_of_rows_of_different_lengths() -> None:
    with pytest.raises(ValueError, match=r"cannot initialize parameter W: the list is no array: .*inhomogeneous"):
        utils.create_param([[1.0], [2.0, 3.0]], (2, 2), "W")


def test_unique_and_as_tuple() -> None:
    x, y = sj.vector(), sj.vector()
    assert [id(v) for v in utils.unique([x, y, x])] == [id(x), id(y)]
    assert utils.as_tuple(3, 2, utils.int_types) == (3, 3)
    assert utils.as_tuple(np.array([1, 2]), 2, utils.int_types) == (1, 2)
    with pytest.raises(TypeError, match=r"one int, or 2 of them, got 1\.5"):
        utils.as_tuple(1.5, 2, utils.int_types)
    with pytest.raises(TypeError, match="one str"):
        utils.as_tuple([1, 2], 2, str)
    with pytest.raises(ValueError, match="got 3"):
        utils.as_tuple([1, 2, 3], 2)


def test_inspect_kwargs() -> None:
    def function(a: int, b: int = 1, *args: int, c: int, d: int = 2, **kwargs: int) -> None: ...

    assert utils.inspect_kwargs(function) == ["b", "d"]


@pytest.mark.parametrize(
    "shape, axes, over", [((4,), None, ()), ((4, 3), None, (0,)), ((4, 3, 2), None, (1, 2)), ((4, 3), (1,), (1,))]
)
def test_norms_of_arrays_and_expressions(shape: tuple[int, ...], axes: Any, over: tuple[int, ...]) -> None:
    values = np.random.default_rng(1).normal(size=shape)
    expected = np.sqrt((values**2).sum(over)) if over else abs(values)
    np.testing.assert_allclose(utils.compute_norms(values, axes), expected)
    symbolic = utils.compute_norms(sj.constant(values), axes)
    np.testing.assert_allclose(sj.function([], symbolic, mode="reference")(), expected)


def test_norms_that_are_not_defined() -> None:
    with pytest.raises(ValueError, match="6 dimensions"):
        utils.compute_norms(np.zeros((1,) * 6))
    with pytest.raises(RuntimeError, match="list"):
        utils.compute_norms([1.0])


@pytest.mark.parametrize("go_backwards", [False, True])
def test_unrolled_scans(go_backwards: bool) -> None:
    rows, k = sj.matrix("rows"), sj.shared(0.5, "k")
    step = lambda row, total, last, k: (total + k * row, row - last)
    found = utils.unroll_scan(step, rows, [sj.zeros(3), sj.ones(3)], [k], 4, go_backwards)
    x = np.random.default_rng(1).normal(size=(6, 3))
    total, last = sj.function([rows], found, mode="reference")(x)
    read = x[:4][::-1] if go_backwards else x[:4]
    np.testing.assert_allclose(total, 0.5 * np.cumsum(read, axis=0))
    lasts = [np.ones(3)]
    for row in read:
        lasts.append(row - lasts[-1])
    np.testing.assert_allclose(last, lasts[1:])
    assert isinstance(utils.unroll_scan(lambda row, s: s + row, [rows], [sj.zeros(3)], [], 2), list)


def test_parameters_from_lists_have_the_dtype_of_initializers(monkeypatch: pytest.MonkeyPatch) -> None:
    assert utils.create_param([0, 1], (2,)).dtype == "float64"
    monkeypatch.setattr(sj.config, "floatX", "float32")
    assert utils.create_param([0.5, 1.0], (2,)).dtype == "float32"
    assert utils.create_param(np.array([0.5, 1.0]), (2,)).dtype == "float64"


def test_axes_of_norms() -> None:
    for wrong in (0, (2,), ("a",)):
        with pytest.raises(ValueError, match="norm_axes must be a sequence of axes from -2 to 1, got"):
            utils.compute_norms(np.ones((2, 3)), wrong)  # type: ignore[arg-type]
