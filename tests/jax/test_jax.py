"""Compiled functions as functions of JAX's arrays: values, JAX's transformations and their compositions, errors."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from scanjit.jax import JaxFunction
from tests.optional import optional

jax, needs_jax = optional("jax")
jnp, _ = optional("jax.numpy")


@pytest.fixture(autouse=True)
def _doubles() -> Any:
    if jax is None:
        yield
    else:
        before = jax.config.jax_enable_x64
        jax.config.update("jax_enable_x64", True)
        yield
        jax.config.update("jax_enable_x64", before)


def rnn(x: Any, w: Any, h: Any) -> Any:
    """A small network: its states, and the last of them."""
    rows = sj.scan(lambda row, state, w: sj.tanh(row + state @ w), x, h, w)
    return rows, {"last": rows[-1], "energy": (rows * rows).sum()}


def theirs(x: Any, w: Any, h: Any) -> Any:
    def step(state: Any, row: Any) -> Any:
        state = jnp.tanh(row + state @ w)
        return state, state

    _, rows = jax.lax.scan(step, h, x)
    return rows, {"last": rows[-1], "energy": (rows * rows).sum()}


def some(dtype: str = "float64") -> list[Any]:
    rng = np.random.default_rng(0)
    return [jnp.asarray(rng.normal(0, 0.7, shape).astype(dtype)) for shape in ((4, 2, 3), (3, 3), (2, 3))]


def close(found: Any, expected: Any, rtol: float = 1e-9, atol: float = 1e-10) -> None:
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol, atol), found, expected)


def made(mode: str = "reference") -> Any:
    return sj.jax.as_function(rnn, mode)


def cost(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args: (f(*args)[0] ** 3).sum() + f(*args)[1]["energy"]


@needs_jax
@pytest.mark.parametrize(("mode", "dtype"), [("reference", "float64"), ("emulate", "float32"), ("numba", "float32")])
def test_values_and_gradients_are_jaxs(mode: str, dtype: str) -> None:
    f, args = made(mode), some(dtype)
    tolerance = (1e-9, 1e-10) if dtype == "float64" else (1e-4, 1e-4)
    close(f(*args), theirs(*args), *tolerance)
    expected = jax.grad(cost(theirs), (0, 1, 2))(*args)
    close(jax.grad(cost(f), (0, 1, 2))(*args), expected, *tolerance)
    close(jax.jit(jax.grad(cost(f), (0, 1, 2)))(*args), expected, *tolerance)
    assert f(*args)[0].dtype == dtype


@needs_jax
def test_forward_mode_and_second_derivatives() -> None:
    f, (x, w, h) = made(), some()
    close(jax.jvp(f, (x, w, h), (h[0] * x, w, h)), jax.jvp(theirs, (x, w, h), (h[0] * x, w, h)))
    expected = jax.hessian(cost(theirs), 1)(x, w, h)
    close(jax.hessian(cost(f), 1)(x, w, h), expected)
    close(jax.jacrev(jax.jacrev(cost(f), 1), 1)(x, w, h), expected)
    close(jax.jacfwd(jax.jacfwd(cost(f), 1), 1)(x, w, h), expected)


@needs_jax
def test_batches() -> None:
    f, (x, w, h) = made(), some()
    xs = jnp.stack([x, 2 * x, -x], axis=1)
    axes = (1, None, None)
    close(jax.vmap(f, axes)(xs, w, h), jax.vmap(theirs, axes)(xs, w, h))
    close(jax.vmap(jax.grad(cost(f), 1), axes)(xs, w, h), jax.vmap(jax.grad(cost(theirs), 1), axes)(xs, w, h))
    total = lambda f: lambda w: jax.vmap(cost(f), axes)(xs, w, h).sum()
    close(jax.grad(total(f))(w), jax.grad(total(theirs))(w))


@needs_jax
def test_inside_of_loops_and_conditions() -> None:
    f, (x, w, h) = made(), some()
    xs = jnp.stack([x, 2 * x, -x])

    def looped(f: Any) -> Any:
        def step(state: Any, x: Any) -> Any:
            found = f(x, w_, state)[1]
            return found["last"], found["energy"]

        def run(w: Any) -> Any:
            nonlocal w_
            w_ = w
            return jax.lax.scan(step, h, xs)[1].sum()

        w_ = w
        return run

    def chosen(f: Any) -> Any:
        return lambda w: jax.lax.cond(w[0, 0] > 0, lambda: cost(f)(x, w, h), lambda: 2 * cost(f)(x, w, h))

    def repeated(f: Any) -> Any:
        return lambda w: jax.lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, f(x, w, s[1])[1]["last"]), (0, h))

    for build in (looped, chosen):
        close(jax.jit(build(f))(w), build(theirs)(w))
        close(jax.jit(jax.grad(build(f)))(w), jax.grad(build(theirs))(w))
        many = jnp.stack([w, -w])
        close(jax.jit(jax.vmap(jax.jit(jax.grad(build(f)))))(many), jax.vmap(jax.grad(build(theirs)))(many))
    close(jax.jit(repeated(f))(w), repeated(theirs)(w))
    close(jax.grad(jax.checkpoint(cost(f)), 1)(x, w, h), jax.grad(cost(theirs), 1)(x, w, h))


@needs_jax
def test_nested_arguments_integers_and_other_sizes() -> None:
    f = sj.jax.as_function(lambda p, n: {"y": p["a"] * n + p["b"][0], "n": n + 1, "big": p["a"] > 0}, "reference")
    for size in (3, 300, 0):
        p, n = {"a": jnp.linspace(-1, 1, size), "b": [jnp.asarray(2.0)]}, jnp.arange(size)
        found = f(p, n)
        close(found["y"], p["a"] * n + 2.0)
        close(found["n"], n + 1)
        np.testing.assert_array_equal(found["big"], p["a"] > 0)
        slope = jax.grad(lambda p, n: f(p, n)["y"].sum())(p, n)
        close(slope["a"], 1.0 * n)
        close(slope["b"][0], 1.0 * size)
    assert len(f._programs.made()) == 1


@needs_jax
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_numbers_take_the_dtype_of_the_floats(dtype: str) -> None:
    f = sj.jax.as_function(lambda x, a: sj.scan(lambda x, h: h + a * (x - h), x, x[0]), "reference")
    x = jnp.arange(3, dtype=dtype)
    for found in (f(x, 0.5), jax.jit(f)(x, 0.5), f(x, jnp.sin(0.5)), jax.vmap(f, (None, 0))(x, jnp.ones(2, dtype))):
        assert found.dtype == dtype
    assert jax.grad(lambda a: f(x, a).sum())(0.5) == 3.0  # the rows are 0, a and a + a (2 - a)
    product = sj.jax.as_function(lambda x, a: x * a, "reference")
    assert product(x.astype("float32"), 2j).dtype == "complex64"
    assert product(jnp.arange(3), 0.5).dtype == jnp.asarray(0.5).dtype
    assert product(x, np.float64(0.5)).dtype == "float64"  # a number with a dtype


@needs_jax
def test_a_compiled_function_by_names() -> None:
    x, w = sj.vector("x"), sj.scalar("w")
    f = sj.jax.as_function(sj.function([x, w], [x * w, w], mode="reference"))
    close(f(w=2.0, x=[1.0, 3.0]), [np.array([2.0, 6.0]), np.array(2.0)])
    assert isinstance(f, JaxFunction) and "scanjit.jax" in repr(f)


def _turned(x: Any, w: Any) -> Any:
    """A damped rotation, in scanjit's and in JAX's words."""
    return sj.scan(lambda row, h: w * h + row, x, sj.zeros((), "complex128"))


def _turned_by_jax(x: Any, w: Any) -> Any:
    def step(h: Any, row: Any) -> Any:
        h = w * h + row
        return h, h

    return jax.lax.scan(step, jnp.zeros((), "complex128"), x)[1]


@needs_jax
@pytest.mark.parametrize("compiled", [False, True])
def test_complex_arguments_and_results(compiled: bool, rng: np.random.Generator) -> None:
    """Values, both derivatives, batches and `jit`, beside JAX's own, whose convention the gradients follow."""
    x, w = sj.tensor(("n",), "complex128", "x"), sj.tensor((), "complex128", "w")
    ours = sj.jax.as_function(sj.function([x, w], _turned(x, w)) if compiled else _turned)
    given = jnp.asarray(rng.normal(size=5) + 1j * rng.normal(size=5)), jnp.asarray(0.4 + 0.5j)
    np.testing.assert_allclose(jax.jit(ours)(*given), _turned_by_jax(*given), rtol=1e-12, atol=1e-13)
    together = jnp.stack([given[0], 2j * given[0]]), given[1]
    for f, args in (
        (lambda f: lambda x, w: jax.grad(lambda x, w: (abs(f(x, w)) ** 2).sum(), (0, 1))(x, w), given),
        (lambda f: lambda x, w: jax.jvp(f, (x, w), (1j * x, w * w)), given),
        (lambda f: jax.vmap(f, (0, None)), together),
    ):
        for got, wanted in zip(f(ours)(*args), f(_turned_by_jax)(*args), strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-13)
    weak = sj.jax.as_function(lambda z: {"both": (z * 1j, sj.abs(z))})(3.0 + 4.0j)["both"]
    assert (complex(weak[0]), float(weak[1])) == (-4 + 3j, 5.0)


@needs_jax
def test_errors() -> None:
    with pytest.raises(sj.ArgumentError, match="only a function can become a function for"):
        sj.jax.as_function(3)  # type: ignore[arg-type]
    state = sj.shared(np.zeros(2))
    with pytest.raises(sj.ArgumentError, match="updates shared variables, which a function for JAX cannot"):
        sj.jax.as_function(sj.function([], state, updates={state: state + 1}, mode="reference"))
    with pytest.raises(sj.ArgumentError, match="by position"):
        made()(x=1.0)
    x = sj.vector("x")
    compiled = sj.jax.as_function(sj.function([x], x * 2, mode="reference"))
    with pytest.raises(sj.ArgumentError, match=r"has another type(.|\n)*jax_enable_x64"):
        compiled(jnp.ones(3, "float32"))
    sized = sj.jax.as_function(lambda x: sj.filter(lambda v: v > 0, x), "reference")
    with pytest.raises(sj.ShapeError, match=r"depends on values(.|\n)*at: .*test_jax.py"):
        sized(jnp.ones(3))
    checked = sj.jax.as_function(lambda x: sj.assert_(x > 0, x, "positive"), "reference")
    with pytest.raises(Exception, match=r"AssertError: positive"):
        jax.block_until_ready(checked(-jnp.ones(3)))
