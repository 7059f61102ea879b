"""while_loop: lengths that the state decides, limits, derivatives, errors; associative_scan."""

import gc
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from scanjit.autodiff import grad
from scanjit.errors import ScanError
from scanjit.ir import Node, as_dim, constant, walk
from scanjit.loops import associative_scan, map, while_loop
from scanjit.ops.expect import VIA
from scanjit.runtime.gradcheck import check_grad
from scanjit.tensor import dot
from tests.loops.test_scan import run, symbol


def double(x: Any, limit: Any = 100.0, **options: Any) -> Any:
    return while_loop(lambda s: s < limit, lambda s: s * 2.0, x, **options)


@pytest.mark.parametrize("max_steps", [None, 50])
def test_runs_while_the_condition_holds(max_steps: int | None) -> None:
    x = symbol("x")
    result = double(x, max_steps=max_steps)
    assert [float(run(result, {x: v})[0]) for v in (3.0, 99.0, 100.0, 1e3)] == [192, 198, 100, 1e3]


EXCEEDED = "while_loop has not ended after max_steps = "


@pytest.mark.parametrize("mode", ["reference", "emulate", "numba"])
def test_more_steps_than_the_limit_are_an_error(mode: str) -> None:
    """In the state and all its derivatives; exactly as many as the limit are none."""
    x, n, calls = sj.scalar("x"), sj.scalar("n", "int64"), sj.shared(0.0, "calls")
    y = while_loop(lambda s: s[0] < 100, lambda s: (s[0] * 2.0, s[1] + 1, s[1] < 5), (x, 0, True), n)
    first = sj.grad(y[0], x)
    outputs = [*y, first, sj.grad(sj.grad(y[0] ** 2, x), x), sj.jvp(y[0], x, sj.constant(1.0))]
    f = sj.function([x, n], outputs, updates={calls: calls + 1}, mode=mode)
    assert [v.tolist() for v in f(3.0, 6)] == [192, 6, False, 64, 8192, 64]
    assert [v.tolist() for v in f(200.0, 0)] == [200, 0, True, 1, 2, 1]
    g = sj.function([x, n], first, mode=mode)
    assert g(3.0, 6) == 64
    for function, value, limit in ((f, 3.0, 5), (f, 3.0, 0), (g, 3.0, 5), (f, np.float64("-inf"), 7)):
        with pytest.raises(sj.AssertError) as caught:
            function(value, limit)
        text = str(caught.value)
        assert text.startswith(EXCEEDED + "n steps\n") and f"at:       {__file__}" in text and "to do:" in text
    assert calls.get_value() == 2


def test_a_known_limit_is_named_and_nan_ends() -> None:
    x = symbol("x")
    assert np.isnan(run(double(x, max_steps=2), {x: np.nan})[0])
    with pytest.raises(sj.AssertError, match=EXCEEDED + "3 steps"):
        run(double(x, max_steps=3), {x: 3.0})


def test_limits_count_where_a_loop_runs() -> None:
    """In the steps of a loop, in a branch that is taken, and for each example of a batch."""
    x, on = sj.vector("x"), sj.scalar("on", "bool")
    limited = lambda s: double(s, max_steps=3)
    each, mapped = sj.vmap(limited)(x), sj.map(limited, x)
    outputs = [mapped, each, sj.grad(mapped.sum(), x), sj.vmap(lambda s: sj.grad(limited(s), s))(x)]
    f = sj.function([x], outputs, mode="reference")
    assert [v.tolist() for v in f([20.0, 200.0, 60.0])] == [[160, 200, 120], [160, 200, 120], [8, 1, 2], [8, 1, 2]]
    for y in outputs:
        f = sj.function([x], y, mode="reference")
        with pytest.raises(sj.AssertError, match=EXCEEDED + "3 steps, in step [01] of"):
            f([20.0, 1.0, 60.0])
    for mode in ("reference", "emulate"):
        g = sj.function([x, on], sj.ifelse(on, lambda: limited(x[0]), lambda: x[0]), mode=mode)
        assert g([1.0], False) == 1 and g([20.0], True) == 160
        with pytest.raises(sj.AssertError, match=EXCEEDED):
            g([1.0], True)


def test_states_are_structures_and_numbers_are_weak() -> None:
    x = symbol("x", dtype="float32")

    def body(s: dict[str, Any]) -> dict[str, Any]:
        return {"power": s["power"] * x, "n": s["n"] + 1}

    result = while_loop(lambda s: s["n"] < 5, body, {"n": 0, "power": 1.0})
    assert list(result) == ["n", "power"]
    assert (result["n"].dtype, result["power"].dtype) == (np.int64, np.float32)
    assert [v.tolist() for v in run(list(result.values()), {x: np.float32(3)})] == [5, 243]


def test_newton_and_its_derivative() -> None:
    root = lambda a, **options: while_loop(
        lambda s: abs(s * s - a) > 1e-12, lambda s: 0.5 * (s + a / s), a * 0.0 + 1.0, **options
    )
    a = symbol("a")
    for options in ({}, {"max_steps": 30}):
        value, slope = run([root(a, **options), grad(root(a, **options), a)], {a: 2.0})
        np.testing.assert_allclose([value, slope], [2**0.5, 0.5 / 2**0.5], rtol=1e-9)


@pytest.mark.parametrize("max_steps", [None, 20])
def test_derivatives(max_steps: int | None) -> None:
    def loop(x: Node, w: Node) -> Any:
        body = lambda s: (s[0] * w + x * s[1], s[1] + 1.0)
        return while_loop(lambda s: s[1] < 4.5, body, (x, 1.0), max_steps=max_steps)[0]

    check_grad(loop, [np.array([0.3, -0.2]), np.array(0.9)])


def test_sizes_keep_what_they_are_made_of() -> None:
    """A size that a user holds outlives the symbol that it is the value of."""
    x = symbol("x")
    n = as_dim(sj.cast(x * 2.0, "int64"))
    gc.collect()
    assert run(sj.zeros(n + 1), {x: 2.0})[0].shape == (5,)


def test_inside_a_step_of_a_scan() -> None:
    x = symbol("x", "T")
    assert run(map(double, x), {x: np.array([3.0, 200.0, 60.0])})[0].tolist() == [192, 200, 120]


def test_the_value_needs_no_second_run() -> None:
    """The second computation hangs on `via` alone: where nothing is differentiated, a compiler drops it with it."""
    result = double(symbol("x"))
    assert result.op is VIA
    assert not any(node.op is VIA for node in walk([result.operands[0]]))


@pytest.mark.parametrize(
    ("cond", "body", "init", "words"),
    [
        (lambda s: s, lambda s: s, 1.0, "the condition of while_loop must be a boolean scalar"),
        (lambda s: s > np.zeros(2), lambda s: s, 1.0, "the condition of while_loop must be a boolean scalar"),
        (lambda s: None, lambda s: s, 1.0, "None"),
        (lambda s: s < 1, lambda s: None, 1.0, "the step returned None"),
        (lambda s: s < 1, lambda s: s + np.ones(2), 1.0, r"the state changes its shape: initial has shape \(\)"),
        (lambda s: s < 1, lambda s: s * 0.5, constant(np.float32(1)) * 1.0 < 2, "the state changes its dtype"),
        (lambda s: s[0] < 1, lambda s: s[0], (1.0, 2.0), "has another structure than its initial value"),
        (lambda s: s < 1, lambda s, t: s, 1.0, "the body of while_loop takes one argument, the whole state"),
        (lambda s, t: s < 1, lambda s: s, (1.0, 2), "the condition of while_loop takes one argument, the whole state"),
        (lambda s: s < 1, lambda s: s, "no", "the state is not a tensor"),
    ],
)
def test_errors(cond: Any, body: Any, init: Any, words: str) -> None:
    with pytest.raises(ScanError, match=words) as caught:
        while_loop(cond, body, init)
    assert caught.value.where.startswith(__file__)


def test_a_limit_must_be_a_number_of_steps() -> None:
    for given, words in ((-1, "max_steps is negative"), (2.5, "max_steps must be an integer")):
        with pytest.raises(ScanError, match=words):
            double(1.0, max_steps=given)


def test_associative_scan() -> None:
    x, m = symbol("x", "T"), symbol("m", "T", 2, 2)
    products = associative_scan(lambda a, b: a * b, x)
    assert products.type == x.type
    assert run(products, {x: np.array([2.0, 3.0, 4.0])})[0].tolist() == [2, 6, 24]
    assert run(products, {x: np.array([2.0])})[0].tolist() == [2]
    matrices = np.random.default_rng(0).integers(-2, 3, (4, 2, 2)).astype(float)
    expected = [matrices[0]]
    for matrix in matrices[1:]:
        expected.append(expected[-1] @ matrix)
    found = run(associative_scan(dot, m), {m: matrices})[0]
    np.testing.assert_array_equal(found, expected)


def test_associative_scan_of_a_linear_recurrence() -> None:
    """h = a * h + b, as pairs."""
    a, b = np.random.default_rng(1).normal(size=(2, 6))
    compose = lambda p, q: (p[0] * q[0], q[0] * p[1] + q[1])
    check_grad(lambda a, b: associative_scan(compose, (a, b))[1], [a, b])
    x, y = symbol("x", "T"), symbol("y", "T")
    h = 0.0
    for got, gain, more in zip(run(associative_scan(compose, (x, y))[1], {x: a, y: b})[0], a, b, strict=True):
        h = gain * h + more
        np.testing.assert_allclose(got, h, rtol=1e-12, atol=1e-13)


def test_associative_scan_needs_a_row() -> None:
    x = symbol("x", "T")
    with pytest.raises(ScanError, match="at least one row, got 0"):
        run(associative_scan(lambda a, b: a + b, x), {x: np.zeros(0)})
    with pytest.raises(ScanError, match="at least one row, got 0"):
        associative_scan(lambda a, b: a + b, np.zeros((0, 3)))
