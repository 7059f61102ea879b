"""Ten thousand ops, one after the other: every part of the engine works without a deep stack, in bounded pieces."""

import numpy as np
import pytest

import scanjit as sj

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


@pytest.mark.parametrize("name", OPS)
def test_a_chain_is_computed_in_pieces(name):
    x = sj.vector("x")
    given = np.linspace(-0.5, 0.5, 5)
    f = sj.function([x], chain(OPS[name], x, 900), mode="emulate")
    np.testing.assert_allclose(f(given), sj.function([x], chain(OPS[name], x, 900), mode="reference")(given))


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
