"""Update rules against published values, against loops in NumPy, and in both dtypes."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from lasagne_like import updates as u
from lasagne_like.layers import DenseLayer, InputLayer
from tests.pairs import pairwise

COEFFICIENTS = np.array([0.1, 0.2, 0.3])

# Minimizing (0.1 x**2 + 0.2 y**2 + 0.3 z**2) from ones, 10 steps: what torch.optim (its Lua version) gave.
PUBLISHED = {
    "sgd": ({"learning_rate": 0.1}, [0.81707280688755, 0.6648326359915, 0.5386151140949]),
    "momentum": (
        {"learning_rate": 0.1, "momentum": 0.5}, [0.6848486952183, 0.44803321781003, 0.27431190123502]
    ),
    "nesterov_momentum": (
        {"learning_rate": 0.1, "momentum": 0.5}, [0.67466543592725, 0.44108468114241, 0.2769002108997]
    ),
    "adagrad": ({"learning_rate": 0.1}, [0.55373120047759, 0.55373120041518, 0.55373120039438]),
    "rmsprop": ({"learning_rate": 0.01}, [0.83205403985348, 0.83205322744821, 0.83205295664444]),
    "adadelta": ({}, [0.95453237704725, 0.9545237471374, 0.95452214847397]),
    "adam": ({"learning_rate": 0.01}, [0.90034972009036, 0.90034967993061, 0.90034966654402]),
    "adamax": ({"learning_rate": 0.01}, [0.90211749000754, 0.90211748762402, 0.90211748682951]),
    "amsgrad": ({"learning_rate": 0.01}, [0.90034979581833, 0.90034979581833, 0.90034979581833]),
}  # fmt: skip


def cost(x: Any) -> sj.Node:
    return sj.sum(sj.cast(COEFFICIENTS, x.dtype) * x**2)


def minimized(rule: Callable[..., Any], dtype: str = "float64", steps: int = 10, **kwargs: Any) -> np.ndarray:
    x = sj.shared(np.ones(3, dtype), "x")
    step = sj.function([], updates=rule(cost(x), [x], **kwargs), mode="reference")
    for _ in range(steps):
        step()
    assert x.get_value().dtype == dtype
    return x.get_value()


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_values(name: str) -> None:
    kwargs, expected = PUBLISHED[name]
    np.testing.assert_allclose(minimized(getattr(u, name), **kwargs), expected, rtol=1e-5)


# ---- the formulas, written once more as plain loops -----------------------------------------------------------------


def sgd(x: Any, g: Any, s: dict[str, Any], t: int, lr: float) -> Any:
    return x - lr * g


def momentum(x: Any, g: Any, s: dict[str, Any], t: int, lr: float, mu: float) -> Any:
    s["v"] = mu * s.get("v", 0) - lr * g
    return x + s["v"]


def nesterov(x: Any, g: Any, s: dict[str, Any], t: int, lr: float, mu: float) -> Any:
    s["v"] = mu * s.get("v", 0) - lr * g
    return x + mu * s["v"] - lr * g


def adagrad(x: Any, g: Any, s: dict[str, Any], t: int, lr: float, eps: float) -> Any:
    s["a"] = s.get("a", 0) + g * g
    return x - lr * g / np.sqrt(s["a"] + eps)


def rmsprop(x: Any, g: Any, s: dict[str, Any], t: int, lr: float, rho: float, eps: float) -> Any:
    s["a"] = rho * s.get("a", 0) + (1 - rho) * g * g
    return x - lr * g / np.sqrt(s["a"] + eps)


def adadelta(x: Any, g: Any, s: dict[str, Any], t: int, lr: float, rho: float, eps: float) -> Any:
    s["a"] = rho * s.get("a", 0) + (1 - rho) * g * g
    d = g * np.sqrt(s.get("d", 0) + eps) / np.sqrt(s["a"] + eps)
    s["d"] = rho * s.get("d", 0) + (1 - rho) * d * d
    return x - lr * d


def adam(x: Any, g: Any, s: dict[str, Any], t: int, lr: float, b1: float, b2: float, eps: float, wd: float = 0) -> Any:
    s["m"] = b1 * s.get("m", 0) + (1 - b1) * g
    s["v"] = b2 * s.get("v", 0) + (1 - b2) * g * g
    return x - lr * wd * x - lr * np.sqrt(1 - b2**t) / (1 - b1**t) * s["m"] / (np.sqrt(s["v"]) + eps)


def adamax(x: Any, g: Any, s: dict[str, Any], t: int, lr: float, b1: float, b2: float, eps: float) -> Any:
    s["m"] = b1 * s.get("m", 0) + (1 - b1) * g
    s["u"] = np.maximum(b2 * s.get("u", 0), abs(g))
    return x - lr / (1 - b1**t) * s["m"] / (s["u"] + eps)


def amsgrad(x: Any, g: Any, s: dict[str, Any], t: int, lr: float, b1: float, b2: float, eps: float) -> Any:
    s["m"] = b1 * s.get("m", 0) + (1 - b1) * g
    s["v"] = b2 * s.get("v", 0) + (1 - b2) * g * g
    s["w"] = np.maximum(s.get("w", 0), s["v"])
    return x - lr * np.sqrt(1 - b2**t) / (1 - b1**t) * s["m"] / (np.sqrt(s["w"]) + eps)


LOOPS = {
    "sgd": (sgd, {"learning_rate": 0.3}),
    "momentum": (momentum, {"learning_rate": 0.3, "momentum": 0.6}),
    "nesterov_momentum": (nesterov, {"learning_rate": 0.3, "momentum": 0.6}),
    "adagrad": (adagrad, {"learning_rate": 0.3, "epsilon": 1e-3}),
    "rmsprop": (rmsprop, {"learning_rate": 0.1, "rho": 0.7, "epsilon": 1e-3}),
    "adadelta": (adadelta, {"learning_rate": 0.5, "rho": 0.8, "epsilon": 1e-3}),
    "adam": (adam, {"learning_rate": 0.1, "beta1": 0.8, "beta2": 0.9, "epsilon": 1e-3}),
    "adamw": (adam, {"learning_rate": 0.1, "beta1": 0.8, "beta2": 0.9, "epsilon": 1e-3, "weight_decay": 0.1}),
    "adamax": (adamax, {"learning_rate": 0.1, "beta1": 0.8, "beta2": 0.9, "epsilon": 1e-3}),
    "amsgrad": (amsgrad, {"learning_rate": 0.1, "beta1": 0.8, "beta2": 0.9, "epsilon": 1e-3}),
}


@pytest.mark.parametrize("name", LOOPS)
def test_formulas_on_changing_gradients(name: str, rng: np.random.Generator) -> None:
    loop, kwargs = LOOPS[name]
    gradients = rng.normal(size=(8, 3))
    start = rng.normal(size=3)
    x, g = sj.shared(start, "x"), sj.vector("g")
    step = sj.function([g], updates=getattr(u, name)([g], [x], **kwargs), mode="reference")
    expected, state = start, {}  # type: ignore[var-annotated]
    for t, gradient in enumerate(gradients, start=1):
        step(gradient)
        expected = loop(expected, gradient, state, t, *kwargs.values())
        np.testing.assert_allclose(x.get_value(), expected, rtol=1e-10)


def kinds_of_numbers() -> list[tuple[str, Callable[[float], Any]]]:
    return [
        ("float", float),
        ("float64", np.float64),
        ("float32", np.float32),
        ("array", np.array),
        ("shared", sj.shared),
        ("expression", lambda v: sj.shared(np.float64(v)) * 1.0),
    ]


@pytest.mark.quick(30)
@pairwise(floatX=["float64", "float32"], kind=[kind for kind, _ in kinds_of_numbers()], name=LOOPS)
def test_float32_parameters_stay_so(name: str, kind: str, floatX: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sj.config, "floatX", floatX)
    convert = dict(kinds_of_numbers())[kind]
    kwargs = LOOPS[name][1]
    exact = minimized(getattr(u, name), steps=3, **kwargs)
    result = minimized(getattr(u, name), "float32", steps=3, **{k: convert(v) for k, v in kwargs.items()})
    np.testing.assert_allclose(result, exact, rtol=1e-4)
    x = sj.shared(np.ones(3, "float32"), "x")
    new = getattr(u, name)(cost(x), [x], **{k: convert(v) for k, v in kwargs.items()})
    for variable, expression in new.items():
        assert variable.dtype == expression.dtype == (floatX if variable.name == "t" else "float32")


def test_the_learning_rate_may_change_between_calls() -> None:
    x, rate = sj.shared(np.ones(2), "x"), sj.shared(0.5, "rate")
    step = sj.function([], updates=u.sgd(sj.sum(x), [x], rate), mode="reference")
    step()
    rate.set_value(0.1)
    step()
    np.testing.assert_allclose(x.get_value(), [0.4, 0.4])


def test_momentum_for_any_rule_and_some_parameters() -> None:
    a, b, g = sj.shared(np.ones(2), "a"), sj.shared(np.ones(2), "b"), sj.vector("g")
    new = u.apply_momentum(u.adagrad([g, g], [a, b], 0.1), params=[a], momentum=0.5)
    assert [v.name for v in new] == ["a.accu", "a", "b.accu", "b", "a.velocity"]
    step = sj.function([g], updates=new, mode="reference")
    expected_a, expected_b, velocity, state = np.ones(2), np.ones(2), np.zeros(2), {}  # type: ignore[var-annotated]
    for gradient in np.random.default_rng(0).normal(size=(5, 2)):
        step(gradient)
        moved = adagrad(expected_b, gradient, state, 0, 0.1, 1e-6) - expected_b
        velocity = 0.5 * velocity + moved
        expected_a, expected_b = expected_a + velocity, expected_b + moved
        np.testing.assert_allclose(a.get_value(), expected_a)
        np.testing.assert_allclose(b.get_value(), expected_b)


def test_nesterov_momentum_for_any_rule() -> None:
    a, g = sj.shared(np.ones(2), "a"), sj.vector("g")
    step = sj.function([g], updates=u.apply_nesterov_momentum(u.sgd([g], [a], 0.1), [a], 0.5), mode="reference")
    expected, state = np.ones(2), {}  # type: ignore[var-annotated]
    for gradient in np.random.default_rng(0).normal(size=(5, 2)):
        step(gradient)
        expected = nesterov(expected, gradient, state, 0, 0.1, 0.5)
        np.testing.assert_allclose(a.get_value(), expected)


def test_gradients_given_or_computed() -> None:
    a, b = sj.shared(1.0, "a"), sj.shared(2.0, "b")
    given = [a * 2, b]
    assert u.get_or_compute_grads(given, [a, b]) is given
    computed = u.get_or_compute_grads(a * b, [a, b])
    assert sj.function([], computed, mode="reference")() == [2.0, 1.0]
    with pytest.raises(ValueError, match="2 gradient expressions for 1 parameters"):
        u.get_or_compute_grads(given, [a])
    with pytest.raises(ValueError, match="gradient 1 has 0 axes"):  # it would be the gradient of each element
        u.sgd(given, [a, sj.shared([1.0, 2.0], "c")], 0.1)
    with pytest.raises(ValueError, match=r"entry 1 .*collect_shared_vars"):
        u.get_or_compute_grads(a * b, [a, b * 2])  # type: ignore[list-item]
    with pytest.raises(sj.GradientError, match="b"):
        u.sgd(a * a, [a, b], 0.1)


@pytest.mark.parametrize("shape, axes", [((4, 3), (0,)), ((4, 3, 2), (1, 2)), ((3, 2, 2, 2), (1, 2, 3))])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_norm_constraint(shape: tuple[int, ...], axes: tuple[int, ...], dtype: str) -> None:
    x = np.random.default_rng(1).normal(size=shape).astype(dtype)
    result = sj.function([], u.norm_constraint(sj.shared(x), np.float64(0.9)), mode="reference")()
    norms = np.sqrt((x**2).sum(axes, keepdims=True))
    assert result.dtype == dtype and (norms > 0.9).any()
    np.testing.assert_allclose(result, x * np.minimum(1, 0.9 / norms), rtol=1e-5)
    given = sj.function([], u.norm_constraint(x, 0.5, norm_axes=(1,)), mode="reference")()
    assert np.sqrt((given**2).sum(1)).max() < 0.5001
    with pytest.raises(ValueError, match="1 dimensions"):
        u.norm_constraint(sj.vector(), 1.0)


def test_total_norm_constraint() -> None:
    tensors = [np.full((2, 2), 3.0), np.full(4, 4.0, "float32")]  # of norm 10
    for limit, factor in ((5.0, 0.5), (20.0, 1.0)):
        scaled, norm = u.total_norm_constraint(tensors, limit, return_norm=True)
        *result, total = sj.function([], [*scaled, norm], mode="reference")()
        assert abs(total - 10) < 1e-6
        for before, after in zip(tensors, result, strict=True):
            assert after.dtype == before.dtype
            np.testing.assert_allclose(after, factor * before, rtol=1e-6)
    assert len(u.total_norm_constraint(tensors, 5.0)) == 2


@pytest.mark.parametrize("name", ["adam", "momentum"])
def test_compiled(name: str) -> None:
    kwargs, expected = PUBLISHED[name]
    x = sj.shared(np.ones(3), "x")
    step = sj.function([], cost(x), updates=getattr(u, name)(cost(x), [x], **kwargs))
    for _ in range(10):
        step()
    np.testing.assert_allclose(x.get_value(), expected, rtol=1e-5)


def test_parameters_are_a_list() -> None:
    network = DenseLayer(InputLayer((None, 3)), 2)
    w = sj.shared(1.0, "w")
    with pytest.raises(TypeError, match=r"must be a list .*DenseLayer.*get_all_params\(network, trainable=True\)"):
        u.adam(w * w, network)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"tensor_vars must be a list of expressions, .*: write \[it\]"):
        u.total_norm_constraint(sj.shared(np.ones((2, 3))), 1.0)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"must be a list .*write \[w\]"):
        u.sgd(w * w, w, 0.1)  # type: ignore[arg-type]


@pytest.mark.parametrize("rule", ["sgd", "momentum", "nesterov_momentum", *list(PUBLISHED)[3:], "adamw"])
@pytest.mark.parametrize("rate", [-0.1, np.nan, None, "fast"])
def test_a_rate_that_is_no_rate_is_an_error(rule: str, rate: Any) -> None:
    x = sj.shared(1.0, "x")
    with pytest.raises(ValueError, match=r"learning_rate of .* must be a number that is at least 0"):
        getattr(u, rule)(x * x, [x], learning_rate=rate)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda loss, x: u.adam(loss, [x], beta1=1.5),
            "beta1 of adam .* at least 0 and at most 1",
        ),
        (lambda loss, x: u.adamw(loss, [x], beta1=1), "beta1 of adamw must be less than 1, got 1"),
        (lambda loss, x: u.apply_momentum(u.sgd(loss, [x], 1), [sj.shared(0.0)]), "has no update, so it cannot get"),
        (lambda loss, x: u.amsgrad(loss, [x], beta2=np.nan), "beta2 of amsgrad must be a number"),
        (lambda loss, x: u.adamax(loss, [x], epsilon=-1), "epsilon of adamax must be a number"),
        (lambda loss, x: u.adamw(loss, [x], weight_decay=-1), "weight_decay of adamw must be a number"),
        (lambda loss, x: u.rmsprop(loss, [x], rho=-0.5), "rho of rmsprop must be a number"),
        (lambda loss, x: u.adadelta(loss, [x], rho=2), "rho of adadelta must be a number"),
        (lambda loss, x: u.momentum(loss, [x], 0.1, np.nan), "momentum of apply_momentum must be a number"),
        (lambda loss, x: u.nesterov_momentum(loss, [x], 0.1, -1), "momentum of apply_nesterov_momentum must be a"),
        (lambda loss, x: u.norm_constraint(x, -1.0, ()), "max_norm of norm_constraint must be a number"),
        (lambda loss, x: u.total_norm_constraint([x], np.nan), "max_norm of total_norm_constraint must be a number"),
    ],
)
def test_errors_name_the_number(make: Callable[..., object], message: str) -> None:
    x = sj.shared(1.0, "x")
    with pytest.raises(ValueError, match=message):
        make(x * x, x)
