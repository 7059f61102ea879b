"""Loops in a step or a branch that decide there how many steps they run, compiled as loops that count."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from scanjit import ir
from scanjit.ops.branch import branch
from tests.compare import all_close

X = np.array([3.0, 200.0, 60.0, 45.0])


def double(v: Any, most: Any = None) -> Any:
    return sj.while_loop(lambda s: s < 100.0, lambda s: s * 2.0, v, most)


def bent(v: Any, most: Any = 6) -> Any:
    return sj.while_loop(lambda s: s < 100.0, lambda s: s * s / 40.0 + 2.0 * s, v, most)


def ending(v: Any, k: Any) -> Any:
    return sj.scan(lambda s: (s * 2.0, sj.until(s > 50.0)), outputs_info=v, n_steps=k)[-1]


def powers(v: Any) -> Any:
    """Rows that a loop stacks, read forwards and from the end by others."""
    rows = sj.scan(lambda s: (s * 1.5, sj.until(s > 90.0)), outputs_info=v, n_steps=sj.minimum(sj.cast(v, "int64"), 9))
    reads = lambda back: sj.reduce(lambda r, h: 0.5 * h + r, rows, sj.constant(0.0), go_backwards=back)
    return reads(False) - reads(True) + rows[-1]


def inner(v: Any) -> Any:
    """A loop of a length that this one computes, in another."""
    return sj.scan(lambda h: double(h * 0.3 + v, 50), outputs_info=v, n_steps=3)[-1]


def check(build: Callable[[Any], Any], mode: str = "emulate", values: Any = X) -> list[np.ndarray]:
    x = sj.vector("x")
    outputs = build(x)
    found, expected = (sj.function([x], outputs, mode=m)(values) for m in (mode, "reference"))
    all_close(found, expected, rtol=1e-12, atol=1e-13)
    return found


def test_loops_in_steps() -> None:
    found = check(
        lambda x: [
            sj.map(double, x),
            sj.map(lambda v: double(v, 50), x),
            sj.map(lambda v: ending(v, sj.cast(v, "int64")), x),
            sj.map(powers, x),
            sj.map(inner, x),
            sj.vmap(double)(x),
        ]
    )
    assert found[0].tolist() == [192, 200, 120, 180] and found[5].tolist() == found[0].tolist()


def test_gradients_of_loops_in_steps() -> None:
    def build(x: Any) -> list[Any]:
        y = sj.map(bent, x * 1.0)
        slope = sj.grad(y.sum(), x)
        h = sj.scan(lambda v, h: sj.tanh(bent(v + h, 9) * 0.01), x, sj.constant(0.5))
        return [y, slope, sj.grad(slope.sum(), x), sj.jvp(y, x, x), sj.grad(h.sum(), x)]

    found = check(build)
    eps = 1e-6
    above, below = (check(lambda x: [sj.map(bent, x)], "reference", X + e)[0] for e in (eps, -eps))
    np.testing.assert_allclose(found[1], (above - below) / (2 * eps), rtol=1e-5)


def test_limits_and_sizes_that_are_the_same_in_all_steps() -> None:
    """A limit, or a number of steps, that a run decides: of a value outside, of one that the step makes of it."""
    x, n = sj.vector("x"), sj.scalar("n", "int64")
    on = lambda v: sj.grad(bent(v, n + 4), v)
    steps = lambda v: sj.while_loop(lambda s: s[1] < n % 4, lambda s: (s[0] * v, s[1] + 1), (v, 0), n % 4)[0]
    either = lambda v: sj.ifelse(v > 50.0, lambda: steps(v), lambda: steps(-v))
    outputs = [sj.map(f, x) for f in (on, steps, either)] + [sj.grad(sj.map(either, x).sum(), x)]
    for mode in ("emulate", "reference"):
        found = sj.function([x, n], outputs, mode=mode)(X, 3)
        np.testing.assert_allclose(found[0], sj.function([x], sj.map(lambda v: sj.grad(bent(v), v), x), mode=mode)(X))
        np.testing.assert_allclose(found[1:4:2], [X**4, 4 * X**3])


def test_compiled() -> None:
    check(
        lambda x: [y := sj.map(bent, x), sj.grad(y.sum(), x), sj.map(lambda v: ending(v, sj.cast(v, "int64")), x)],
        "numba",
    )


def test_loops_in_branches_run_only_there() -> None:
    """Without the condition they would never end, or not within the limit."""
    x, on = sj.vector("x"), sj.scalar("on", "bool")
    far = lambda v: sj.while_loop(lambda s: s != 5.0, lambda s: s + 1.0, v)
    near = lambda v: sj.ifelse(v < 4.0, lambda: far(v), lambda: -v)
    limited = lambda v: sj.ifelse(v < 100.0, lambda: bent(v), lambda: sj.sqrt(v))
    for mode in ("emulate", "reference"):
        f = sj.function([x], [sj.map(near, x), sj.map(limited, x), sj.grad(sj.map(limited, x).sum(), x)], mode=mode)
        assert f([3.0, 200.0])[0].tolist() == [5, -200]
        g = sj.function([x, on], sj.ifelse(on, lambda: sj.grad(far(x[0] * x[0]), x), lambda: x), mode=mode)
        assert g([1.0], True).tolist() == [2] and g([3.0], False).tolist() == [3]


@pytest.mark.parametrize("mode", ["reference", "emulate"])
def test_errors_in_steps(mode: str) -> None:
    x = sj.vector("x")
    f = sj.function([x], sj.map(lambda v: double(v, 2), x), mode=mode)
    assert f([30.0, 200.0]).tolist() == [120, 200]
    with pytest.raises(sj.AssertError, match="max_steps = 2 steps, in step 1 of"):
        f([30.0, 3.0])
    g = sj.function([x], sj.map(lambda v: ending(v, sj.cast(v, "int64")), x), mode=mode)
    with pytest.raises(sj.OutOfBoundsError):
        g([3.0, 0.0])


def test_what_has_no_limit_is_refused() -> None:
    x = sj.vector("x")
    for build in (lambda v: sj.grad(bent(v, None), v), lambda v: sj.arange(sj.cast(v, "int64")).sum()):
        with pytest.raises(sj.NotSupportedError, match="depends on a value computed in that step"):
            sj.function([x], sj.map(build, x), mode="emulate")


@pytest.mark.parametrize("carried", [True, False])
def test_a_loop_in_a_step_whose_own_steps_compute_a_size_is_refused_as_such(carried: bool) -> None:
    """Such a loop stays where it is: it cannot be computed for all steps at once."""

    def middle(v: Any, s: Any) -> Any:
        powers = sj.scan(lambda p: (2.0 * p, sj.until(p > 4.0)), outputs_info=abs(v) + 0.3, n_steps=6)
        return s + sj.sort(powers)[:2].sum()

    def step(row: Any, h: Any) -> Any:
        return sj.tanh(0.7 * h + row), sj.reduce(middle, h if carried else row, sj.constant(0.0))

    x, h = sj.tensor(("T", 3), "float64"), sj.tensor((3,), "float64")
    last = sj.scan(step, x, [h, None])[1]
    for result in (last, last.sum()):
        with pytest.raises(sj.NotSupportedError, match="depends on a value computed in that step"):
            sj.function([x, h], result, mode="emulate")


def test_branches_that_give_sizes_to_each_other() -> None:
    """How often a loop runs in a branch depends on what a branch in it gives, in a step too."""

    def some(v: Any) -> Any:
        first = sj.ifelse(v > 50.0, lambda: double(v, 9), lambda: double(2.0 * v, 9))
        k = sj.cast(first, "int64") % 3 + 1
        last = lambda w: sj.while_loop(lambda s: s[1] < k, lambda s: (sj.sin(s[0] + w), s[1] + 1), (v, 0), 4)[0]
        return sj.ifelse(first > 150.0, lambda: last(v), lambda: last(first))

    def build(x: Any) -> list[Any]:
        whole = sj.ifelse(x.sum() > 0.0, lambda: some(x[0]) + some(x[2]), lambda: x[1])
        return [sj.grad(whole, x), sj.map(some, x)]

    check(build)


def test_a_value_is_no_size_because_one_in_the_same_place_of_an_inner_graph_is() -> None:
    k, m, c = (ir.new_input(sj.scalar("k", kind).type) for kind in ("int64", "int64", "bool"))
    v = ir.new_input(sj.vector("v").type.with_shape((ir.as_dim(m),)))
    (inner,) = branch(c, [v.sum()], [-v.sum()], [(m, m), (v, v)])
    graph = ir.Graph.of([k, m, v, c], [inner * k])
    assert inner.args[0].params["body"].inputs[0] is graph.inputs[0]
    assert ir.sizes_in(graph, [k, m, v, c]) == ((1, ir.as_dim(m)),)


def test_a_size_of_a_step_in_a_branch_is_refused() -> None:
    """Also where another size there is known before."""
    x, y, n = sj.vector("x"), sj.vector("y"), sj.scalar("n", "int64")
    part = y[: sj.abs(n - 1)]
    some = lambda v: sj.ifelse(v > 0.0, lambda: sj.ones(sj.cast(v, "int64")).sum() + part.sum() * v, lambda: v)
    with pytest.raises(sj.NotSupportedError, match="depends on a value computed in that step"):
        sj.function([x, y, n], sj.map(some, x), mode="emulate")


def test_a_length_that_is_a_product_has_a_limit_if_its_factors_have() -> None:
    def stacked(v: Any, length: Callable[[Any], Any]) -> Any:
        rows = sj.scan(lambda h: h * 0.5, outputs_info=v, n_steps=length(sj.cast(v, "int64")))
        return sj.reduce(lambda r, h: 0.5 * h + r, rows, sj.constant(0.0))

    n = sj.scalar("n", "int64")
    few = lambda k: sj.minimum(sj.maximum(k, 0), 3)
    x, given = sj.vector("x"), ([1.0, 2.0, 9.0, -4.0], 2)
    squares = sj.map(lambda v: stacked(v, lambda k: few(k) * few(k + 1) * sj.maximum(n, 0)), x)
    wanted, found = (sj.function([x, n], squares, mode=mode)(*given) for mode in ("reference", "emulate"))
    np.testing.assert_array_equal(found, wanted)
    unlimited = sj.map(lambda v: stacked(v, lambda k: k * n * n), x)
    with pytest.raises(sj.NotSupportedError, match="depends on a value computed in that step"):
        sj.function([x, n], unlimited, mode="emulate")


def test_the_advice_for_the_gradient_of_a_loop_whose_number_of_steps_a_step_computes_works() -> None:
    x, a = sj.vector("x"), sj.scalar("a")

    def slopes(limited: Callable[[Any], Any]) -> Any:
        def step(v: Any, t: Any, h: Any) -> Any:
            return sj.scan(lambda z: np.tanh(z * a + h + v), outputs_info=h, n_steps=limited(t + 1))[-1]

        return sj.grad(sj.scan(step, [x, sj.arange(x.shape[0])], 0.0).sum(), [x, a])

    given = np.array([0.5, -1.0, 2.0]), 0.3
    wanted = sj.function([x, a], slopes(lambda n: n), mode="reference")(*given)
    with pytest.raises(sj.NotSupportedError, match=r"give the size a limit: n_steps=sj.minimum\(n, 100\)"):
        sj.function([x, a], slopes(lambda n: n), mode="emulate")
    found = sj.function([x, a], slopes(lambda n: sj.minimum(n, 100)), mode="emulate")(*given)
    all_close(found, wanted, 1e-12)


def test_threads_know_themselves_how_many_steps_ran() -> None:
    """What counts them may be overwritten by one that goes on."""
    x = sj.tensor((20_000,), name="x")
    rows = sj.scan(lambda h: (h * 2.0, sj.until(h.sum() > 9.0)), outputs_info=x, n_steps=9)
    f = sj.function([x], rows, mode="emulate")
    assert f(np.arange(20_000.0) % 3 * (np.arange(20_000) < 3))[:, 1:3].tolist() == [
        [2.0, 4.0],
        [4.0, 8.0],
        [8.0, 16.0],
    ]
    assert "ran0 = step0 + 1" in f.source and "= load_i64(count" not in f.source


def test_the_last_row_of_no_steps_is_an_error_of_calls_that_take_it() -> None:
    take = sj.scalar("take", dtype="bool")

    def last() -> Any:
        return sj.scan(lambda h: (h + 1.0, sj.until(h > 3.0)), outputs_info=0.0, n_steps=0)[-1]

    f = sj.function([take], sj.ifelse(take, last, lambda: sj.constant(2.0)), mode="emulate")
    assert f(False) == 2.0
    with pytest.raises(sj.OutOfBoundsError):
        f(True)


@pytest.mark.parametrize("most", [None, 6, "x"])
def test_a_while_loop_counts_nothing(most: Any) -> None:
    """Whether it makes its first step is a branch. How many there are at most is known before."""
    x = sj.vector("x")
    most = x.shape[0] + 2 if most == "x" else most
    step = lambda x, h: sj.while_loop(lambda s: s < 100.0, lambda s: s * 2.0, x + 0.5 * h, most)
    f, reference = (sj.function([x], sj.scan(step, x, 0.0), mode=mode) for mode in ("emulate", "reference"))
    np.testing.assert_array_equal(f(X), reference(X))
    loop = str(sj.dprint(f, file="str", stage="rewritten")).split("name=while_loop")[1]
    assert "add" not in loop.split("until")[0]


@pytest.mark.parametrize("length", [0, None])
def test_the_last_row_of_no_steps_is_an_error_in_a_step(length: int | None) -> None:
    x = sj.vector("x")

    def step(h: Any) -> Any:
        return sj.scan(lambda row, h: (sj.tanh(h + row), sj.until(h > 3.0)), x[:length], h)[-1] + h

    f = sj.function([x], sj.scan(step, outputs_info=sj.constant(0.0), n_steps=3), mode="emulate")
    with pytest.raises(sj.OutOfBoundsError):
        f(np.zeros(0))


def test_the_last_row_of_a_loop_that_ends_is_a_carry() -> None:
    x = sj.vector("x")
    outputs = [sj.map(lambda v: ending(v, 30), x), sj.scan(lambda v, h: ending(v + 0.01 * h, 30), x, 0.0)]
    f, reference = (sj.function([x], outputs, mode=mode) for mode in ("emulate", "reference"))
    all_close(f(X), reference(X), rtol=1e-12)
    assert "(30" not in str(sj.dprint(f, file="str", stage="rewritten"))
