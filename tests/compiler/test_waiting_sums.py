"""Steps that wait for each other say which of their sums are multiply-adds: those of which the product comes last."""

import numpy as np
import pytest

import scanjit as sj
from scanjit.runtime import host
from tests.pairs import pairwise


def rotation(x, a, b):
    """Of no sum comes the product so much later than the other operand that a multiply-add ends first."""
    return [0.9 * a - 0.3 * b + x, 0.3 * a + 0.9 * b + x]


def late_product(x, a):
    return 0.7 * x + 0.3 * abs(a)


def late_addend(x, a):
    return abs(a) + 0.3 * x


def from_late(x, a):
    return x - 0.3 * abs(a)


def late_minus(x, a):
    return 0.3 * abs(a) - x


def both(x, a):
    """The product is part of two sums."""
    change = 0.3 * abs(a)
    return (0.5 * a + change) - (change - 0.5) * x


CLOSE = {"float32": 1e-5, "float64": 1e-13}
"""Differences, of the largest number."""
STEPS = {
    "rotation": (rotation, 2),
    "late_product": (late_product, 1),
    "late_addend": (late_addend, 1),
    "from_late": (from_late, 1),
    "late_minus": (late_minus, 1),
    "both": (both, 1),
}


def made(name, mode, dtype="float64", shape=("T",), gradient=False):
    step, states = STEPS[name]
    x = sj.tensor(shape, dtype, "x")
    ys = sj.scan(step, x, [sj.zeros_like(x[0])] * states, return_list=True)
    outputs = [ys[0], *sj.grad(sum((y * y).sum() for y in ys), [x])] if gradient else [ys[0]]
    return sj.function([x], outputs, mode=mode)


@pytest.mark.quick(12)
@pairwise(
    gradient=[False, True], shape=[("T",), ("T", "N"), ("T", 3), (300,)], dtype=["float32", "float64"], name=STEPS
)
def test_values_and_gradients(name, dtype, shape, gradient, rng: np.random.Generator):
    given = rng.standard_normal([{"T": 19, "N": 261}.get(size, size) for size in shape]).astype(dtype)
    wanted, *others = (made(name, mode, dtype, shape, gradient)(given) for mode in ("reference", "emulate", "numba"))
    for found in others:
        for one, right in zip(found, wanted, strict=True):
            np.testing.assert_allclose(one, right, rtol=0, atol=CLOSE[dtype] * abs(right).max())


def text(name):
    """The lines that compute a step."""
    return made(name, "emulate").source


def test_a_product_that_comes_last_is_part_of_the_sum():
    for name, line in (("late_product", "fma(k0, abs_0, "), ("from_late", "fma(-"), ("late_minus", ", -")):
        lines = [part for part in text(name).splitlines() if "fma(" in part and "import" not in part]
        assert any(line in part for part in lines), (name, lines)


def test_a_product_that_comes_first_is_not():
    assert "fma(" not in text("rotation")
    assert "fma(" not in text("late_addend")


@pytest.mark.skipif(not host.target().has_fma, reason="a product is never joined with a sum")
def test_llvm_joins_no_product_with_a_sum(rng: np.random.Generator):
    """To the last bit what two roundings give, where one would give something else."""
    given = rng.standard_normal(500)
    a = b = 0.0
    wanted = []
    for x in given:
        a, b = 0.9 * a - 0.3 * b + x, 0.3 * a + 0.9 * b + x
        wanted.append(a)
    np.testing.assert_array_equal(made("rotation", "numba")(given)[0], wanted)


def test_a_step_with_much_to_compute_has_the_fewest_operations():
    x = sj.vector("x")
    step = lambda x, h: h + sum((x + i) * (x - i) for i in range(60))
    f = sj.function([x], sj.scan(step, x, 0.0), mode="emulate")
    assert f.source.count("fma(") >= 60
