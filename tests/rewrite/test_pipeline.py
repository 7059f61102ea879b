"""The whole pipeline on recurrences as users write them: the exact form of what comes out, and equal values."""

from collections.abc import Callable
from typing import Any

import pytest

from scanjit.autodiff import grad
from scanjit.ir import Node
from scanjit.loops import scan
from tests.rewrite.support import body, checked, count, cut, fn, mm, scans, shape, symbol, total, values

I, H = 2, 4


def cells() -> dict[str, Any]:
    """x, two initial states, and weights for four gates."""
    return {
        "x": symbol("x", "T", "B", I),
        "h": symbol("h", "B", H),
        "c": symbol("c", "B", H),
        "W": symbol("W", I, 4 * H),
        "R": symbol("R", H, 4 * H),
        "b": symbol("b", 4 * H),
    }


def lstm(p: dict[str, Node]) -> list[Node]:
    def step(x: Node, h: Node, c: Node) -> tuple[Node, Node]:
        z = mm(x, p["W"]) + mm(h, p["R"]) + p["b"]
        i, f, g, o = (cut(z, k * H, (k + 1) * H) for k in range(4))
        c = fn("sigmoid", f) * c + fn("sigmoid", i) * fn("tanh", g)
        return fn("sigmoid", o) * fn("tanh", c), c

    return scan(step, [p["x"]], [p["h"], p["c"]])


def test_lstm_forward() -> None:
    """x @ W is one product outside; the core has one product a gate, with slices of R."""
    h, c = lstm(cells())
    outputs, _ = checked([h, c])
    (loop,) = scans(outputs)
    assert count(outputs)["contract"] == 1
    assert shape(loop) == (2, 1, 2, 2)
    inside = body(loop)
    assert inside["contract"] == 4 and inside["sigmoid"] == 3 and inside["tanh"] == 2
    assert inside["slice"] == 12  # of R, of x @ W and of b; the sums are of gates


def test_lstm_gradient() -> None:
    p = cells()
    h, _ = lstm(p)
    cost = total(h * h)
    outputs, _ = checked([cost, *grad(cost, list(p.values()))])
    forward, backward = scans(outputs)
    # h; then, for the gradient, h and c before the step, the four gates and tanh(c)
    assert shape(forward) == (2, 1, 2, 8)
    assert body(forward)["contract"] == 4
    # reads c before the step, the cotangents of h, and the five residuals; makes dz
    assert shape(backward) == (2, 7, 1, 1)
    inside = body(backward)
    assert inside["contract"] == 1 and inside["concatenate"] == 1
    assert inside["sigmoid"] == inside["tanh"] == inside["slice"] == inside["set_slice"] == 0
    # x @ W; dz @ W^T; the gradients of W and R; that of b is a sum
    assert count(outputs)["contract"] == 4
    assert count(outputs)["sum"] == 2


@pytest.mark.parametrize("make", [lstm])
def test_forward_alone_stores_no_residuals(make: Callable[[dict[str, Node]], list[Node]]) -> None:
    outputs, _ = checked([make(cells())[0]])
    (loop,) = scans(outputs)
    assert shape(loop)[3] == 1


def test_values_helper_covers_all_inputs() -> None:
    p = cells()
    assert len(values(lstm(p))) == 6
