"""Ten thousand ops, one after the other: every part of the engine works without a deep stack, in bounded pieces."""

import pickle

import numpy as np
import pytest

import scanjit as sj
from scanjit import types
from tests.export.support import exported

LONG = 10_000


def chain(op, x, count=LONG):
    for i in range(count):
        x = op(x, i)
    return x


OPS = {
    "tanh": lambda z, i: sj.tanh(z),
    "mixed": lambda z, i: (sj.sin, sj.tanh, np.cos)[i % 3](z),
    "views": lambda z, i: sj.tanh(z)[::-1],
    "two_operands": lambda z, i: sj.tanh(z) * z,
}


@pytest.mark.quick(2)
@pytest.mark.parametrize("name", OPS)
def test_a_chain_is_computed_in_pieces(name):
    x = sj.vector("x")
    given = np.linspace(-0.5, 0.5, 5)
    f = sj.function([x], chain(OPS[name], x, 900), mode="emulate")
    np.testing.assert_allclose(f(given), sj.function([x], chain(OPS[name], x, 900), mode="reference")(given))


@pytest.mark.slow
def test_ten_thousand_ops_are_calls_of_one_kernel():
    x = sj.vector("x")
    f = sj.function([x], chain(OPS["tanh"], x))
    given = np.linspace(-0.5, 0.5, 21)
    np.testing.assert_allclose(f(given), chain(lambda z, i: np.tanh(z), given), rtol=1e-10)
    assert f.source.count("\ndef tanh_") <= 2  # equal pieces, and what is left
    assert f.source.count("\n") < 2_000


def test_the_gradient_of_ten_thousand_ops():
    x = sj.vector("x")
    given = np.linspace(-0.5, 0.5, 5)
    slope = sj.grad(chain(OPS["tanh"], x, 900).sum(), x)
    f, wanted = (sj.function([x], slope, mode=mode) for mode in ("emulate", "reference"))
    np.testing.assert_allclose(f(given), wanted(given), rtol=1e-9)


def check(inputs, output, *values, **tolerance):
    f, wanted = (sj.function(inputs, output, mode=mode) for mode in ("emulate", "reference"))
    np.testing.assert_allclose(f(*values), wanted(*values), **tolerance)


STEPS = {
    "elementwise": lambda a, h: chain(OPS["tanh"], a + h, 500),
    "linear": lambda a, h: chain(lambda z, i: z + a * i * 1e-3, h, 400),
    "longer_than_a_nest": lambda a, h: chain(OPS["tanh"], a + h, 2_100),
    "masked": lambda a, h: sj.where(a > 0, chain(OPS["tanh"], a + h, 400), h),
}


@pytest.mark.quick(2)
@pytest.mark.parametrize("name", STEPS)
def test_a_long_step_of_a_loop(name):
    x = sj.vector("x")
    check([x], sj.scan(STEPS[name], sequences=x, outputs_info=0.0), np.array([0.3, -0.2, 0.5]), rtol=1e-9)


def test_the_gradient_of_a_long_step():
    x = sj.vector("x")
    h = sj.scan(lambda a, h: chain(OPS["tanh"], a + h, 300), sequences=x, outputs_info=0.0)
    check([x], sj.grad(h.sum(), x), np.array([0.3, -0.2, 0.5]), rtol=1e-7, atol=1e-12)


def test_what_many_results_share_is_computed_once():
    """A product of numbers and its gradient: each derivative uses a part of two chains."""
    xs = [sj.scalar(f"x{i}") for i in range(400)]
    product = xs[0]
    for x in xs[1:]:
        product = product * sj.tanh(x)
    f = sj.function(xs, sj.grad(product, xs), mode="emulate")
    values = np.linspace(2.0, 3.0, 400)
    slopes = np.tanh(values)
    whole = values[0] * np.prod(slopes[1:])
    wanted = [whole / values[0], *(whole / slopes[1:] * (1 - slopes[1:] ** 2))]
    np.testing.assert_allclose(f(*values), wanted, rtol=1e-9)
    assert f.source.count("\n") < 30_000  # it was 140,000 where each derivative made its part anew


def test_branches_that_follow_each_other_or_lie_inside_each_other():
    x = sj.vector("x")
    f = sj.function(
        [x], chain(lambda z, i: sj.ifelse(z.sum() > 0, lambda: -z, lambda: sj.tanh(z)), x, 30), mode="emulate"
    )
    given = np.array([0.3, 0.5])
    np.testing.assert_allclose(f(given), chain(lambda z, i: -z if z.sum() > 0 else np.tanh(z), given, 30))

    wanted = sj.function(
        [x], chain(lambda z, i: sj.ifelse(z.sum() > 0, lambda: -z, lambda: sj.tanh(z)), x, 30), mode="reference"
    )
    np.testing.assert_allclose(f(given), wanted(given), rtol=1e-9)  # which is not to run each branch again and again

    def nested(depth, z):
        return z if depth == 0 else sj.ifelse(z.sum() > depth, lambda: -z, lambda: nested(depth - 1, z * 1.5))

    check([x], nested(25, x), given)


def test_long_branches():
    x = sj.vector("x")
    y = sj.ifelse(x.sum() > 0, lambda: chain(OPS["tanh"], x, 250), lambda: chain(OPS["mixed"], x, 250))
    for sign in (1, -1):
        check([x], sj.grad(y.sum(), x), sign * np.array([0.3, 0.5]), rtol=1e-9)


def test_a_long_chain_is_shown_saved_and_exported(tmp_path):
    x = sj.vector("x")
    y = chain(OPS["mixed"], x, 1_200)
    f = sj.function([x], y, mode="reference")
    given = np.array([0.3, -0.2])
    wanted = f(given)
    assert sj.pprint(y).count("cos(") > 300
    assert len(str(sj.function([x], y, mode="emulate").explain()).splitlines()) < 100
    f.save(tmp_path / "f.sj")
    np.testing.assert_array_equal(sj.load(tmp_path / "f.sj")(given), wanted)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(f))(given), wanted)
    check([x], sj.jvp(y, x, x), given, rtol=1e-9)
    check([x], sj.vmap(lambda v: chain(OPS["tanh"], v, 500))(x), given)


def halved(x, count):
    """Each size is a function of two that are functions of the size before."""
    for _ in range(count):
        x = np.concatenate([x[::2], x[:3]])
    return x


def test_sizes_that_are_functions_of_functions_of_sizes(tmp_path):
    x = sj.vector("x")
    f = sj.function([x], halved(x, 12), mode="reference", name="model")
    given = np.linspace(-1.0, 1.0, 37)
    wanted = halved(given, 12)
    np.testing.assert_array_equal(f(given), wanted)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(f))(given), wanted)
    f.save(tmp_path / "f.sj")
    np.testing.assert_array_equal(sj.load(tmp_path / "f.sj")(given), wanted)
    np.testing.assert_array_equal(exported(f, tmp_path).model(given), wanted)
    (size,) = halved(x, 12).type.shape
    assert len(repr(pickle.loads(pickle.dumps(size)))) == len(repr(size))


def test_functions_of_sizes_deeper_than_the_stack(tmp_path):
    n = types.size("n")
    for i in range(400):
        n = (2 * n + i) // 3
    assert pickle.loads(pickle.dumps(n)) is n
    x = sj.tensor(("n",), name="x")
    f = sj.function([x], sj.ones((n,)), mode="reference", name="model")
    wanted = f(np.ones(9)).shape
    assert pickle.loads(pickle.dumps(f))(np.ones(9)).shape == wanted
    f.save(tmp_path / "f.sj")
    assert sj.load(tmp_path / "f.sj")(np.ones(9)).shape == wanted
    assert exported(f, tmp_path).model(np.ones(9)).shape == wanted
