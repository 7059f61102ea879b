"""Local algebra of elements: the form of what comes out, and the same values as NumPy, NaN and inf included."""

from collections.abc import Callable

import numpy as np
import pytest

import scanjit as sj
from scanjit.ir import CONSTANT, OPS, PART, Graph, Node, constant, new_input
from scanjit.ops.index import GATHER
from scanjit.ops.promotion import cast
from scanjit.ops.scan import scan_node
from scanjit.ops.stretch import broadcast_to, full
from scanjit.runtime.reference import evaluate
from tests.rewrite.support import count, fn, same, simplified, symbol

SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, 2.5, -3.0, np.nan, np.inf, -np.inf, 1e-310])


def x(dtype: str = "float64") -> Node:
    return symbol("x", "n", dtype=dtype)


def env(*nodes: Node) -> dict[Node, np.ndarray]:
    """Special values, in all pairs."""
    left, right = (a.ravel() for a in np.meshgrid(SPECIAL, SPECIAL))
    return {node: (left if i == 0 else right).astype(node.dtype) for i, node in enumerate(nodes)}


Case = tuple[Callable[[Node, Node], Node], Callable[[Node, Node], Node]]
CASES: dict[str, Case] = {
    "x + 0": (lambda x, y: x + 0.0, lambda x, y: x),
    "0 + x": (lambda x, y: 0.0 + x, lambda x, y: x),
    "x - 0": (lambda x, y: x - 0.0, lambda x, y: x),
    "0 - x": (lambda x, y: 0.0 - x, lambda x, y: -x),
    "x * 1": (lambda x, y: x * 1.0, lambda x, y: x),
    "1 * x": (lambda x, y: 1.0 * x, lambda x, y: x),
    "x * -1": (lambda x, y: x * -1.0, lambda x, y: -x),
    "x / 1": (lambda x, y: x / 1.0, lambda x, y: x),
    "x / 4": (lambda x, y: x / 4.0, lambda x, y: x * 0.25),
    "--x": (lambda x, y: fn("neg", -x), lambda x, y: x),
    "x + -y": (lambda x, y: x + (-y), lambda x, y: x - y),
    "-x + y": (lambda x, y: (-x) + y, lambda x, y: y - x),
    "x - -y": (lambda x, y: x - (-y), lambda x, y: x + y),
    "-x * -y": (lambda x, y: (-x) * (-y), lambda x, y: x * y),
    "-x * y": (lambda x, y: (-x) * y, lambda x, y: -(x * y)),
    "-x * 3": (lambda x, y: (-x) * 3.0, lambda x, y: x * -3.0),
    "-(x * 3)": (lambda x, y: -(x * 3.0), lambda x, y: x * -3.0),
    "-x / -y": (lambda x, y: (-x) / (-y), lambda x, y: x / y),
    "-x / exp(y)": (lambda x, y: (-x) / fn("exp", y), lambda x, y: (-x) / fn("exp", y)),
    "exp(x) / -y": (lambda x, y: fn("exp", x) / (-y), lambda x, y: fn("exp", x) / (-y)),
    "x ** 1": (lambda x, y: x**1.0, lambda x, y: x),
    "x ** 2": (lambda x, y: x**2.0, lambda x, y: x * x),
    "x ** 0.3": (lambda x, y: x**0.3, lambda x, y: x**0.3),
    "x ** -1": (lambda x, y: x**-1.0, lambda x, y: 1.0 / x),
    "x ** 0": (lambda x, y: x**0.0, lambda x, y: full(1.0, x.type.shape, x.dtype)),
    "abs(abs(x))": (lambda x, y: abs(abs(x)), lambda x, y: abs(x)),
    "max(x, x)": (lambda x, y: fn("maximum", x, x), lambda x, y: x),
    "where(c, x, x)": (lambda x, y: fn("where", x > y, x, x), lambda x, y: x),
    "where(true, x, y)": (lambda x, y: fn("where", constant(True), x, y), lambda x, y: x),
    "where(false, x, y)": (lambda x, y: fn("where", constant(False), x, y), lambda x, y: y),
    "c & f(where(c, x, y))": (
        lambda x, y: (x > y) & (fn("where", x > y, x, y) * 2.0 < y),
        lambda x, y: (x > y) & (x * 2.0 < y),
    ),
    "f(where(c, x, y)) & ~c": (
        lambda x, y: (fn("where", x > y, x, y) * 2.0 < x) & ~(x > y),
        lambda x, y: ~(x > y) & (y * 2.0 < x),
    ),
    "c | f(where(c, x, y))": (
        lambda x, y: (x > y) | (fn("where", x > y, x, y) * 2.0 < x),
        lambda x, y: (x > y) | (y * 2.0 < x),
    ),
    "where(d & c, x, where(c, y, z))": (
        lambda x, y: fn("where", (x > 2.0) & (x > y), x, fn("where", x > y, y, x * y)),
        lambda x, y: fn("where", x > y, fn("where", x > 2.0, x, y), x * y),
    ),
    "where(~c & d, x, where(c, y, z))": (
        lambda x, y: fn("where", ~(x > y) & (x > 2.0), x, fn("where", x > y, y, x * y)),
        lambda x, y: fn("where", x > y, y, fn("where", x > 2.0, x, x * y)),
    ),
    "where(~c, x, y)": (lambda x, y: fn("where", ~(x > y), x, y), lambda x, y: fn("where", x > y, y, x)),
    "x + (2 * 3)": (lambda x, y: x + fn("mul", constant(2.0, x.dtype), constant(3.0, x.dtype)), lambda x, y: x + 6.0),
    "x + broadcast(0)": (lambda x, y: x + full(0.0, x.type.shape, x.dtype), lambda x, y: x),
    "x + broadcast(2)": (lambda x, y: x + full(2.0, x.type.shape, x.dtype), lambda x, y: x + 2.0),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_equations(name: str, dtype: str) -> None:
    before, after = CASES[name]
    a, b = symbol("x", "n", dtype=dtype), symbol("y", "n", dtype=dtype)
    node = before(a, b)
    new = simplified(node)
    assert new is simplified(after(a, b)), f"{new!r}"
    assert len(count([new])) <= len(count([node]))
    same([node], [new], env(a, b), exact=True)


COMPARED: dict[str, Case] = {
    "where(c, 1, x) < 2": (lambda c, x: fn("where", c, 1.0, x) < 2.0, lambda c, x: c | (x < 2.0)),
    "where(c, 2, x) < 2": (lambda c, x: fn("where", c, 2.0, x) < 2.0, lambda c, x: ~c & (x < 2.0)),
    "2 != where(c, x, 1)": (
        lambda c, x: sj.not_equal(2.0, fn("where", c, x, 1.0)),
        lambda c, x: ~c | sj.not_equal(2.0, x),
    ),
    "2 == where(c, x, nan)": (
        lambda c, x: sj.equal(2.0, fn("where", c, x, np.nan)),
        lambda c, x: c & sj.equal(2.0, x),
    ),
    "where(c, 1, 3) < 2": (lambda c, x: fn("where", c, 1.0, 3.0) < 2.0, lambda c, x: fn("where", c, 1.0, 3.0) < 2.0),
    "where(c, x, 1) < x": (lambda c, x: fn("where", c, x, 1.0) < x, lambda c, x: fn("where", c, x, 1.0) < x),
}


@pytest.mark.parametrize("name", COMPARED)
def test_comparisons_of_choices(name: str) -> None:
    before, after = COMPARED[name]
    a, b = x(), symbol("y", "n")
    node = before(a > b, a)
    new = simplified(node)
    assert new is simplified(after(a > b, a)), f"{new!r}"
    same([node], [new], env(a, b), exact=True)


KEPT: dict[str, Callable[[Node], Node]] = {
    "x * 0": lambda x: x * 0.0,
    "x - x": lambda x: x - x,
    "x / x": lambda x: x / x,
    "(x + 1) + 2": lambda x: (x + 1.0) + 2.0,
    "x == x": lambda x: fn("equal", x, x),
}


@pytest.mark.parametrize("name", KEPT)
def test_what_nan_and_rounding_forbid(name: str) -> None:
    node = KEPT[name](x())
    assert simplified(node) is node


def test_integers_times_zero() -> None:
    i = symbol("i", "n", dtype="int64")
    assert count([simplified(i * 0)])["mul"] == 0
    assert simplified(i + 0) is i


def test_square_root_is_what_numpy_makes_of_a_power() -> None:
    a = x()
    assert simplified(a**0.5) is fn("sqrt", a)


@pytest.mark.parametrize("n", [n for n in range(-16, 17) if n])
def test_powers_are_products(n: int) -> None:
    a, i = x(), symbol("i", "n", dtype="int64")
    power = fn("pow", a, constant(float(n)))
    new = simplified(power)
    assert not count([new])["pow"] and count([new])["mul"] <= 6
    ordinary = np.random.default_rng(0).uniform(-20, 20, 1000)
    got, want = (evaluate([node], {a: np.append(ordinary, SPECIAL)})[0] for node in (new, power))
    np.testing.assert_allclose(got, want, rtol=abs(n) * np.finfo("float64").eps)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(want))
    if n > 0:
        power = fn("pow", i, constant(n))
        new = simplified(power)
        assert not count([new])["pow"]
        same([power], [new], {i: np.arange(-9, 9)}, exact=True)


@pytest.mark.parametrize("n", [17.0, -17.0, 0.3, 1.5, -0.5, np.inf, np.nan])
def test_powers_that_are_no_products(n: float) -> None:
    power = fn("pow", x(), constant(n))
    assert simplified(power) is power


def test_constants_are_folded_where_the_result_is_small() -> None:
    small = fn("tanh", constant(np.arange(6.0)))
    new = simplified(small)
    assert new.op is CONSTANT
    same([small], [new], {}, exact=True)
    large = fn("tanh", constant(np.arange(6000.0)))
    assert simplified(large) is large


def test_an_error_is_not_folded_away() -> None:
    node = GATHER(constant(np.arange(3.0)), constant(np.int64(7)), axis=0)
    assert simplified(node) is node


@pytest.mark.parametrize("read", [lambda table, n: table[n], lambda table, n: sj.dynamic_slice(table, n, 2)])
def test_a_constant_is_read_at_the_place_of_a_size(read: Callable[[Node, Node], Node]) -> None:
    """The size is no node that the read has as an operand, and it is not known when the function is compiled."""
    a = symbol("a", "n")
    found = read(constant(np.arange(9.0)), a.shape[0])
    same([found], [simplified(found)], {a: np.zeros(3)}, exact=True)


def test_an_array_of_one_value_is_a_broadcast() -> None:
    assert simplified(constant(np.zeros((3, 4)))) is full(0.0, (3, 4))
    signed = constant(np.array([0.0, -0.0]))
    assert simplified(signed) is signed


def test_casts() -> None:
    a = symbol("a", "n", dtype="float32")
    assert simplified(cast(cast(a, "float64"), "float32")) is a
    b = symbol("b", "n")
    rounded = cast(cast(b, "float32"), "float64")
    assert simplified(rounded) is rounded
    i = symbol("i", "n", dtype="int8")
    assert simplified(cast(cast(i, "int32"), "float32")) is cast(i, "float32")
    wide = symbol("w", "n", dtype="int64")
    kept = cast(cast(wide, "float64"), "float32")  # rounds twice
    assert simplified(kept) is kept


def test_elementwise_ops_broadcast_by_themselves() -> None:
    a, b = symbol("a", 4), symbol("b", "B", 4)
    assert simplified(broadcast_to(a, b.type.shape) + b) is a + b
    both = fn("tanh", broadcast_to(a, b.type.shape))
    assert simplified(both) is broadcast_to(fn("tanh", a), b.type.shape)


def test_gradient_markers_have_done_their_work() -> None:
    a = x()
    if "stop_gradient" in OPS:
        assert simplified(fn("stop_gradient", fn("stop_gradient", a))) is a


@pytest.mark.parametrize("until", [False, True])
def test_a_loop_of_no_steps_gives_initial_values_and_no_rows(until: bool) -> None:
    a, lagged = symbol("a", 3), symbol("lagged", 5, 3)
    h, g = new_input(a.type), new_input(a.type)
    body = Graph.of([h, g], [h * 2.0, h + g, g, *([OPS["any"](h > 1.0, axes=(0,))] * until)])
    loop = scan_node(body, [a, lagged], [], [], 0, until=until, lags={1: 5})
    final, rows, *others = (PART(loop, index=i) for i in range(len(loop.types)))
    assert simplified(final) is a
    assert simplified(rows) is lagged
    if until:  # where one takes the last of the rows that ran fails when the function runs, if it fails
        assert [simplified(other) for other in others] == others
    else:
        (ys,) = map(simplified, others)
        assert ys.type == others[0].type and not count([ys])["scan"]
