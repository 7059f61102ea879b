"""`jit` and `value_and_grad`: structures, when a function is traced again, and what is said about wrong arguments."""

import math
import pickle
import re
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest

import scanjit as sj
from tests.at_once import at_once

HERE = __file__


class Pair(NamedTuple):
    a: object
    b: object


@dataclass
class Weights:
    w: object
    bias: object = 0.0


@pytest.fixture(params=["reference", "numba"])
def mode(request):
    return request.param


class Counted:
    """A function that knows how often it was traced."""

    def __init__(self, fn):
        self.fn, self.count = fn, 0
        self.__name__ = "counted"

    def __call__(self, *args, **named):
        self.count += 1
        return self.fn(*args, **named)


def test_as_a_decorator(mode):
    @sj.jit
    def double(x):
        "Twice x."
        return 2 * x

    @sj.jit(mode=mode)
    def add(x, y):
        return x + y

    assert double.__name__ == "double" and double.__doc__ == "Twice x."
    assert add([1.0, 2.0], [3.0, 4.0]).tolist() == [4.0, 6.0]
    assert "add: 1 compiled" in repr(add)


def test_nested_arguments_and_results(mode):
    @sj.jit(mode=mode)
    def f(pair, weights, rest):
        return {"pair": Pair(pair.b, pair.a), "weights": Weights(weights.w * 2.0, weights.bias), "rest": [rest[0]["x"]]}

    result = f(Pair(1, 2.0), Weights(np.array([1.0, 2.0]), 0.5), ({"x": np.arange(3)},))
    assert result["pair"] == Pair(2.0, 1)
    assert result["weights"].w.tolist() == [2.0, 4.0] and result["weights"].bias == 0.5
    assert result["rest"][0].tolist() == [0, 1, 2]


def test_new_sizes_are_not_traced_again(mode):
    counted = Counted(lambda x, w: (x @ w).sum())
    f = sj.jit(counted, mode=mode)
    for n in (2, 3, 0, 7):
        x, w = np.random.default_rng(n).normal(size=(n, n + 2)), np.ones((n + 2, 2))
        np.testing.assert_allclose(f(x, w), (x @ w).sum())
    assert counted.count == 1
    f(np.ones((2, 2), np.float32), np.ones((2, 2), np.float32))
    assert counted.count == 2, "other dtypes"


def test_sizes_of_one_broadcast_as_in_numpy(mode):
    counted = Counted(lambda x, y: x + y)
    f = sj.jit(counted, mode=mode)
    for a, b in (
        ((3, 4), (3, 4)),
        ((3, 1), (1, 4)),
        ((1, 4), (3, 4)),
        ((1, 1), (5, 6)),
        ((2, 1), (1, 9)),
        ((2, 2), (2, 2)),
    ):
        x, y = np.arange(np.prod(a), dtype=float).reshape(a), np.ones(b)
        assert np.array_equal(f(x, y), x + y)
    assert counted.count == 4, "one trace for each pattern of ones"
    with pytest.raises(sj.ShapeError):
        f(np.ones((2, 2)), np.ones((2, 3)))


def test_python_numbers_follow_the_floats_of_the_call():
    f = sj.jit(lambda x, rate, n: (x * rate, n), mode="reference")
    result, n = f(np.ones(2, np.float32), 0.5, 3)
    assert result.dtype == np.float32 and n.dtype == np.int64 and n == 3
    assert f(np.ones(2), 0.5, 3)[0].dtype == np.float64
    assert f(np.ones(2, np.int64), 0.5, True)[0].dtype == np.float64
    assert f(np.ones(2, np.float32), np.float64(0.5), 3)[0].dtype == np.float64, "NumPy's scalars have a dtype"
    assert f([1.0], 0.5, 3)[0].dtype == sj.config.floatX


def test_keywords_defaults_and_none(mode):
    counted = Counted(None)

    def fn(x, k=2.0, *, shift=None):
        counted.count += 1
        return x * k if shift is None else x * k + shift

    f = sj.jit(fn, mode=mode)
    assert f(3.0) == 6.0
    assert f(3.0, 4.0) == f(3.0, k=4.0) == f(k=4.0, x=3.0) == 12.0
    assert counted.count == 2, "by position or by name is the same kind of call"
    assert f(3.0, shift=1.0) == 7.0 and f(3.0, shift=None) == 6.0
    with pytest.raises(TypeError, match="unexpected keyword"):
        f(3.0, other=1)
    with pytest.raises(TypeError, match=r"fn\(\) got an unexpected keyword argument 'shft'. Did you mean 'shift'\?"):
        f(shft=3.0)  # it is named, and not the argument that is missing
    with pytest.raises(TypeError, match="missing a required argument: 'x'"):
        f(k=3.0)


def test_static_arguments(mode):
    counted = Counted(lambda x, kind, n=1: {"sum": x.sum, "prod": x.prod}[kind]() * n)

    def fn(x, kind, n=1):
        return counted(x, kind, n)

    f = sj.jit(fn, mode=mode, static_argnums=1)
    assert f([2.0, 3.0], "sum") == 5.0 and f([2.0, 3.0], kind="prod") == 6.0 and f([1.0, 1.0, 4.0], "sum") == 6.0
    assert counted.count == 2
    g = sj.jit(fn, mode=mode, static_argnums=(1, -1))
    assert g([2.0], "sum", 3) == 6.0 and g([2.0], "sum", 4) == 8.0
    with pytest.raises(sj.ArgumentError, match="must be hashable"):
        f([1.0], ["sum"])


@pytest.mark.parametrize("wrong", [2, (0, -3), "n", 1.0, True, None])
def test_wrong_static_arguments(wrong):
    with pytest.raises(sj.ArgumentError, match="static_argnums has"):
        sj.jit(lambda x, n: x * n, static_argnums=wrong)


def test_settings_by_name():
    def fn(x, scale=1.0, kind="sum", *, double=False):
        return {"sum": x.sum, "prod": x.prod}[kind]() * scale * (2 if double else 1)

    for options in ({"static_argnums": -1, "static_argnames": "double"}, {"static_argnames": ("kind", "double")}):
        f = sj.jit(fn, mode="reference", **options)
        assert f([2.0, 3.0]) == 5.0  # the last argument is a setting, and x is not, though it is the last that is given
        assert f([2.0, 3.0], kind="prod") == 6.0 and f([2.0, 3.0], 2.0, "prod") == 12.0
        assert f([2.0, 3.0], double=True) == 10.0 and f([2.0, 3.0], kind="prod", double=True) == 12.0
        assert sj.mixed(f, weights="bfloat16")([2.0, 3.0], kind="prod", double=True) == 12.0
    f = sj.jit(lambda x, **options: x * len(options["n"]), mode="reference", static_argnames="n")
    assert f(2.0, n="abc") == 6.0
    g = sj.jit(lambda x, n=1, k=2: sj.zeros(k) + x, mode="reference", static_argnums=2)
    assert g(1.0, k=3).shape == (3,) and g(1.0, k=3).dtype == np.float64  # as a number, k could not be a size


@pytest.mark.parametrize("wrong", ["m", ("n", "m"), 1, None, (0,)])
def test_wrong_names_of_settings(wrong):
    with pytest.raises(sj.ArgumentError, match="static_argnames has"):
        sj.jit(lambda x, n: x * n, static_argnames=wrong)


def test_static_arguments_among_any_number():
    f = sj.jit(lambda x, *others: x * sum(others), mode="reference", static_argnums=2)
    assert f(2.0, 3, 4) == 14.0


def test_static_numbers_of_different_types_are_different():
    f = sj.jit(lambda x, n: x * n, mode="reference", static_argnums=1)
    x = np.ones(1, np.int64)
    assert f(x, 1).dtype == np.int64 and f(x, 1.0).dtype == np.float64 and f(x, True).dtype == np.int64


def test_static_settings_that_python_takes_for_equal():
    x = np.ones(1, np.int64)
    f = sj.jit(lambda x, n: x * n[0], mode="reference", static_argnums=1)
    assert f(x, (2,)).dtype == np.int64 and f(x, (2.0,)).dtype == np.float64 and f(x, (True,)).dtype == np.int64
    g = sj.jit(lambda x, n: sj.copysign(x, n), mode="reference", static_argnums=1)
    assert g(x, 0.0) == 1.0 and g(x, -0.0) == -1.0
    counted = Counted(lambda x, n: x * n)
    h = sj.jit(lambda x, n: counted(x, n), mode="reference", static_argnums=1)
    assert np.isnan(h(x, math.nan)) and np.isnan(h(x, float("nan"))) and counted.count == 1


def test_a_dtype_that_there_is_not_says_what_to_do():
    with pytest.raises(sj.DtypeError, match=r"x\.astype\('int64'\)"):
        sj.jit(lambda x: x + 1, mode="reference")(np.ones(3, "uint32"))


def test_wrong_arguments_are_named():
    @sj.jit(mode="reference")
    def f(x, params, *more, option=0):
        return x

    for call, label in (
        (lambda: f("text", 1), "x, an argument of f,"),
        (lambda: f([[1.0], [2.0, 3.0]], 1), "x, an argument of f,"),
        (lambda: f([[1.0], [2.0, 3j]], 1), "x, an argument of f,"),
        (lambda: f(1.0, {"w": [1.0, object()]}), "params['w']"),
        (lambda: f(1.0, 2.0, 3.0, "text"), "more[1]"),
        (lambda: f(1.0, 2.0, option="text"), "option"),
        (lambda: f(1.0, np.datetime64("2020")), "params"),
    ):
        with pytest.raises(sj.ArgumentError) as error:
            call()
        assert label in str(error.value) and "static_argnums" in str(error.value) and HERE in str(error.value)
    for value, why in ((np.array([1, 2], object), "are object"), ([[1.0], [2.0, 3.0]], "inhomogeneous shape")):
        with pytest.raises(sj.ArgumentError, match=rf"is no array of numbers \(.*{why}.*\)"):
            f(value, 1)
    with pytest.raises(sj.ArgumentError, match="compiles a function"):
        sj.jit(3)
    with pytest.raises(sj.ArgumentError, match="the mode of a function is unknown"):
        sj.jit(lambda x: x, mode="fast")


def test_sizes_are_called_after_arguments_and_axes(tmp_path):
    f = sj.jit(lambda x, params: x @ params["w"], mode="reference").function(np.ones((2, 3)), {"w": np.ones((3, 4))})
    f.save(tmp_path / "f")
    restored = sj.load(tmp_path / "f"), pickle.loads(pickle.dumps(f))
    for each in (f, *restored):
        assert "x: float64(x.shape[0], x.shape[1])" in repr(each)
        with pytest.raises(sj.ShapeError, match=r"got: +3 \(x\.shape\[1\]\) and 5 \(params\['w'\]\.shape\[0\]\)"):
            each(np.ones((2, 3)), np.ones((5, 4)))
    a, b = sj.matrix("a"), sj.shared(np.ones((4, 5)), "b", shape=(None, 5))
    with pytest.raises(sj.ShapeError, match=r"3 \(a\.shape\[1\]\) and 4 \(b\.shape\[0\]\)"):
        sj.function([a], a @ b, mode="reference")(np.ones((2, 3)))
    compiled = sj.jit(lambda x, h: sj.scan(lambda row, h: row + h, x, h)).function(np.ones((3, 4)), np.ones(4))
    stages = [sj.dprint(compiled, "str", stage=stage) for stage in ("rewritten", "nests", "blocks")]
    shown = "".join([compiled.explain(), *stages])
    assert "x.shape[1]" in shown and not re.search(r"\bn_?\d*\b", shown)


def test_control_flow_on_values_says_what_to_do():
    with pytest.raises(sj.ArgumentError, match=r"sj\.where"):
        sj.jit(lambda x: x if x > 0 else -x, mode="reference")(1.0)


def test_jitted_functions_are_parts_of_others(mode):
    @sj.jit
    def cell(x, h):
        return np.tanh(x + h)

    x, h = sj.vector("x"), sj.scalar("h")
    assert isinstance(cell(x, h), type(x))
    run = sj.jit(lambda xs, h: sj.scan(cell, xs, h)[-1], mode=mode)
    given = np.array([0.5, -1.0])
    assert np.isclose(run(given, 0.0), np.tanh(np.tanh(0.5) - 1))


def test_shared_variables_inside(mode):
    w = sj.shared(2.0, "w")
    f = sj.jit(lambda x: x * w, mode=mode)
    assert f(3.0) == 6.0
    w.set_value(5.0)
    assert f(3.0) == 15.0
    assert isinstance(sj.jit(lambda x: x * 2.0)(w), type(sj.scalar()))


def test_methods():
    class Model:
        def __init__(self, k):
            self.k = k

        @sj.jit
        def scaled(self, x):
            return x * self.k

    Model.scaled.static, Model.scaled.mode = (0,), "reference"
    assert Model(2.0).scaled(3.0) == 6.0 and Model(4.0).scaled(3.0) == 12.0


def test_looking_inside():
    f = sj.jit(lambda x, p: x * p["w"], mode="reference")
    compiled = f.function(np.ones(3), {"w": 2.0})
    assert [node.name for node in compiled.graph.inputs] == ["x", "p['w']"]
    assert compiled is f.function(np.ones(9), {"w": 3.0})


def test_one_trace_whoever_comes_first():
    counted = Counted(lambda x: sj.scan(lambda v, a: a + v, x, sj.constant(0.0))[-1])
    f = sj.jit(counted, mode="reference")
    assert at_once(6, lambda i: float(f(np.arange(5.0)))) == [10.0] * 6 and counted.count == 1


@sj.jit(mode="reference")
def module_level(x):
    return x + 1


def test_pickling_is_by_name(monkeypatch):
    import sys
    import types

    module = types.ModuleType("jit_pickle_test")
    module.module_level = module_level
    monkeypatch.setitem(sys.modules, "jit_pickle_test", module)
    monkeypatch.setattr(module_level, "__module__", "jit_pickle_test")
    assert pickle.loads(pickle.dumps(module_level)) is module_level


# ---- value_and_grad --------------------------------------------------------------------------------------------------


def test_value_and_grad(mode):
    f = sj.value_and_grad(lambda x: (x**2).sum(), mode=mode)
    value, gradient = f([1.0, 2.0])
    assert value == 5.0 and gradient.tolist() == [2.0, 4.0]


def test_value_and_grad_of_structures_and_several(mode):
    def loss(params, x, scale):
        h = sj.scan(lambda row, h: np.tanh(row * params["w"] + h * params["u"]), x, sj.constant(0.0))
        return (h**2).sum() * scale

    x = np.array([0.5, -1.0, 2.0])
    params = {"w": 0.7, "u": 0.3}
    value, (by_params, by_scale) = sj.value_and_grad(loss, (0, 2), mode=mode)(params, x, 2.0)
    assert by_params.keys() == params.keys() and np.isclose(by_scale, value / 2)

    def numpy_loss(w, u):
        h, total = 0.0, 0.0
        for row in x:
            h = np.tanh(row * w + h * u)
            total += h**2
        return total * 2

    eps = 1e-6
    assert np.isclose(by_params["w"], (numpy_loss(0.7 + eps, 0.3) - numpy_loss(0.7 - eps, 0.3)) / (2 * eps))
    assert np.isclose(by_params["u"], (numpy_loss(0.7, 0.3 + eps) - numpy_loss(0.7, 0.3 - eps)) / (2 * eps))


def test_value_and_grad_by_the_last_argument():
    """Names of arguments change nothing, neither of arrays nor of symbols."""
    f = sj.value_and_grad(lambda a, b: (a * b * b).sum(), -1, mode="reference")
    for call in (lambda a, b: f(a, b), lambda a, b: f(a, b=b), lambda a, b: f(b=b, a=a)):
        assert call(2.0, 3.0) == sj.jit(call, mode="reference")(2.0, 3.0) == (18.0, 12.0)
    both = sj.value_and_grad(lambda a, b: (a * b * b).sum(), (0, -1), mode="reference")
    assert both(2.0, b=3.0) == (18.0, (9.0, 12.0))
    with pytest.raises(sj.errors.ArgumentError, match=r"without an argument\n.*-3\n.*at least -2 and less than 2"):
        sj.value_and_grad(lambda a, b: a * b, -3)
    with pytest.raises(sj.errors.ArgumentError, match=r"of an argument that this call leaves out\n.*-1"):
        sj.value_and_grad(lambda a, b=1.0: a * b, -1, mode="reference")(2.0)
    several = sj.value_and_grad(lambda *args: args[0] * args[-1], -1, mode="reference")
    assert several(2.0, 5.0, 3.0) == (6.0, 2.0)
    with pytest.raises(TypeError, match="unexpected keyword argument 'd'"):
        sj.jit(lambda a: f(a, d=a), mode="reference")(2.0)


def test_value_and_grad_composes():
    f = sj.value_and_grad(lambda x: x**3.0, mode="reference")
    second = sj.value_and_grad(lambda x: f(x)[1], mode="reference")
    value, gradient = second(2.0)
    assert (value, gradient) == (12.0, 12.0)

    @sj.jit(mode="reference")
    def descend(w, x):
        value, slope = sj.value_and_grad(lambda w: ((w - x) ** 2).sum())(w)
        return w - 0.1 * slope, value

    w, value = descend(np.zeros(2), np.ones(2))
    assert w.tolist() == [0.2, 0.2] and value == 2.0


def test_wrong_uses_of_value_and_grad():
    with pytest.raises(sj.ArgumentError, match="argnums"):
        sj.value_and_grad(lambda x: x, 1, mode="reference")(1.0)
    with pytest.raises(sj.ArgumentError, match="argnums has positions of arguments"):
        sj.value_and_grad(lambda x: x, "x", mode="reference")
    with pytest.raises(sj.ScanjitError, match="scalar"):
        sj.value_and_grad(lambda x: x, mode="reference")([1.0, 2.0])
    with pytest.raises(sj.GradientError, match=r"2 values \(tuple\)(.|\n)*return the cost alone"):
        sj.value_and_grad(lambda x: (x, x), mode="reference")(1.0)


def test_what_to_ask_instead_of_a_jitted_function():
    f = sj.jit(np.sum, mode="reference")
    for name in ("explain", "profile", "source", "save"):
        with pytest.raises(AttributeError, match=rf"f\.function\(\*args\)\.{name}"):
            getattr(f, name)
    with pytest.raises(AttributeError, match=r"'Jitted' object has no attribute 'explian'"):
        f.explian  # noqa: B018
    with pytest.raises(sj.ArgumentError, match=r"f\.function\(\*args\)"):
        sj.dprint(f)


# ---- sizes that a function cannot do without -------------------------------------------------------------------------


def test_unpacking_works_where_the_length_is_at_hand():
    calls = []

    @sj.jit(mode="reference")
    def f(theta, x):
        calls.append(theta)
        mu, *others = theta
        return mu + sum(others) * x.sum()

    assert f(np.array([1.0, 2.0, 3.0]), np.ones(4)) == 21.0
    traced = len(calls)
    assert f(np.array([2.0, 2.0, 3.0]), np.ones(5)) == 27.0, "another length that nobody asked for"
    assert len(calls) == traced
    assert f(np.array([1.0, 2.0]), np.ones(4)) == 9.0
    assert len(calls) > traced
    assert f([1.0, 2.0, 3.0], np.ones(4)) == 21.0


def test_sizes_that_one_branch_asks_for():
    @sj.jit(mode="reference")
    def f(x, y):
        return x.sum() * 2 if len(x) < 3 else x.sum() + len(y)

    assert f(np.ones(2), np.ones(4)) == 4.0
    assert f(np.ones(3), np.ones(4)) == 7.0
    assert f(np.ones(3), np.ones(5)) == 8.0
    assert f(np.ones(2), np.ones(5)) == 4.0


def test_gradients_of_unpacked_parameters():
    def loss(theta, x):
        mu, omega = theta
        return ((x - mu) ** 2).sum() * omega

    value, slope = sj.value_and_grad(loss, mode="reference")(np.array([1.0, 2.0]), np.array([2.0, 4.0]))
    assert value == 20.0 and slope.tolist() == [-16.0, 10.0]


def test_positions_and_axes_may_be_integers_of_numpy() -> None:
    one, x = np.int64(1), np.arange(6.0).reshape(2, 3)
    gradient = sj.value_and_grad(lambda x, y: (x * y).sum(), argnums=one, mode="reference")(x, x + 1)[1]
    assert np.array_equal(gradient, x)
    assert np.array_equal(sj.jit(lambda x, n: x**n, static_argnums=one, mode="reference")(x, 2), x**2)
    sums = sj.jit(lambda x: sj.vmap(lambda column: column.sum(), in_axes=one)(x), mode="reference")
    assert np.array_equal(sums(x), x.sum(axis=0))
    product = sj.jit(lambda x: sj.tensordot(x, x.T, axes=one), mode="reference")
    assert np.array_equal(product(x), x @ x.T)
