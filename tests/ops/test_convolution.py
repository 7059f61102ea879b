"""`conv1d` and `conv2d` against sums that are written out, and their derivatives."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from scanjit import errors
from scanjit.ir import walk
from scanjit.ops.index import SCATTER
from scanjit.ops.windows import WINDOWS
from tests.compare import all_close
from tests.ops.support import agrees, run

RNG = np.random.default_rng(0)
Pairs = list[tuple[int, int]]


def array(*shape: int, dtype: str = "float64") -> np.ndarray:
    return RNG.integers(-4, 5, shape).astype(dtype)


def convolved(
    x: np.ndarray,
    w: np.ndarray,
    zeros: Pairs,
    step: int = 1,
    dilation: int = 1,
    flip: bool = True,
    groups: int = 1,
) -> np.ndarray:
    """One place and one entry of the filters after the other."""
    x = np.pad(x, [(0, 0), (0, 0), *zeros])
    sizes = [(n - (k - 1) * dilation - 1) // step + 1 for n, k in zip(x.shape[2:], w.shape[2:], strict=True)]
    y = np.zeros((x.shape[0], w.shape[0], *sizes), x.dtype)
    for o in range(w.shape[0]):
        first = o // (w.shape[0] // groups) * w.shape[1]
        for place in np.ndindex(*sizes):
            for entry in np.ndindex(w.shape[2:]):
                at = tuple(p * step + e * dilation for p, e in zip(place, entry, strict=True))
                read = tuple(k - 1 - e if flip else e for k, e in zip(w.shape[2:], entry, strict=True))
                y[(slice(None), o, *place)] += (
                    x[(slice(None), slice(first, first + w.shape[1]), *at)] @ w[(o, ..., *read)]
                )
    return y


def reach(w: np.ndarray, dilation: int) -> list[int]:
    return [(k - 1) * dilation + 1 for k in w.shape[2:]]


BORDERS: dict[str, tuple[Any, Callable[[int], tuple[int, int]]]] = {
    "valid": ("valid", lambda r: (0, 0)),
    "full": ("full", lambda r: (r - 1, r - 1)),
    "half": ("half", lambda r: (r // 2, r // 2)),
    "int": (2, lambda r: (2, 2)),
    "pair": ((1, 2), lambda r: (1, 2)),
}


@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize(("step", "dilation"), [(1, 1), (2, 1), (1, 2), (3, 2)])
def test_conv1d(border: str, step: int, dilation: int) -> None:
    mode, zeros = BORDERS[border]
    for groups, flip in itertools.product((1, 2), (True, False)):
        x, w = array(2, 4, 9), array(6, 4 // groups, 3)
        agrees(
            lambda x, w, groups=groups, flip=flip: sj.conv1d(x, w, mode, step, dilation, flip, groups),
            lambda x, w, groups=groups, flip=flip: convolved(
                x, w, [zeros(reach(w, dilation)[0])], step, dilation, flip, groups
            ),
            x,
            w,
        )


@pytest.mark.parametrize("dtype", ["float64", "float32", "int32"])
def test_conv2d(dtype: str) -> None:
    x, w = array(2, 2, 5, 6, dtype=dtype), array(4, 2, 3, 2, dtype=dtype)
    agrees(sj.conv2d, lambda x, w: convolved(x, w, [(0, 0), (0, 0)]), x, w)
    agrees(lambda x, w: sj.conv2d(x, w, "full"), lambda x, w: convolved(x, w, [(2, 2), (1, 1)]), x, w)
    agrees(lambda x, w: sj.conv2d(x, w, (1, 0), 2), lambda x, w: convolved(x, w, [(1, 1), (0, 0)], 2), x, w)
    agrees(
        lambda x, w: sj.conv2d(x, w, ((0, 1), (2, 0)), filter_dilation=(2, 2), filter_flip=False),
        lambda x, w: convolved(x, w, [(0, 1), (2, 0)], 1, 2, False),
        x,
        w,
    )
    rows = sj.conv2d(sj.tensor((2, 2, 5, 6)), sj.tensor((4, 2, 3, 2)), subsample=(2, 3), filter_dilation=(1, 4))
    assert rows.type.shape == (2, 4, 2, 1)


@pytest.mark.parametrize("symbolic", [False, True])
def test_same_keeps_sizes(symbolic: bool) -> None:
    for dilation, width in ((1, 3), (2, 3), (2, 2), (3, 1)):
        x, w = array(1, 2, 7), array(3, 2, width)
        y = run(lambda x, w, d=dilation: sj.conv1d(x, w, "same", filter_dilation=d), x, w, symbolic=symbolic)
        half = (reach(w, dilation)[0] - 1) // 2
        np.testing.assert_array_equal(y, convolved(x, w, [(half, half)], 1, dilation))
        assert y.shape == (1, 3, 7)


@pytest.mark.parametrize(
    ("x", "w"),
    [
        ((0, 2, 4), (3, 2, 2)),
        ((2, 0, 4), (3, 0, 2)),
        ((2, 2, 4), (0, 2, 2)),
        ((1, 1, 1), (1, 1, 1)),
        ((2, 1, 3), (1, 1, 3)),
        ((1, 2, 1), (2, 2, 1)),
    ],
    ids=str,
)
def test_sizes_0_and_1(x: tuple[int, ...], w: tuple[int, ...]) -> None:
    a, b = array(*x), array(*w)
    agrees(sj.conv1d, lambda x, w: convolved(x, w, [(0, 0)]), a, b)
    symbols = sj.tensor3(), sj.tensor3()
    gradients = sj.grad(sj.conv1d(*symbols).sum(), symbols)
    for mode in ("reference", "emulate"):
        for value, of in zip(sj.function(symbols, gradients, mode=mode)(a, b), (a, b), strict=True):
            assert value.shape == of.shape


def test_no_input_at_all_but_zeros() -> None:
    agrees(lambda x, w: sj.conv1d(x, w, "full"), lambda x, w: np.zeros((1, 3, 2)), array(1, 2, 0), array(3, 2, 3))


# ---- derivatives -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("border", "step", "dilation", "groups"), [("valid", 1, 1, 1), ("half", 2, 1, 1), ((2, 0), 3, 2, 2)], ids=str
)
def test_derivatives(border: Any, step: int, dilation: int, groups: int) -> None:
    """Against differences, of the first and the second order."""
    x, w = array(2, 2, 6) / 3, array(2, 2 // groups, 3) / 3
    sj.check_grad(lambda x, w: sj.tanh(sj.conv1d(x, w, border, step, dilation, num_groups=groups)), [x, w], order=2)


def test_derivatives_in_two_dimensions() -> None:
    x, w = array(1, 2, 4, 3) / 3, array(2, 2, 2, 2) / 3
    sj.check_grad(lambda x, w: sj.tanh(sj.conv2d(x, w, (0, 1), (2, 1), (1, 2))), [x, w], order=2)


def test_jvp_is_the_product_rule() -> None:
    x, w, dx, dw = array(2, 2, 6), array(3, 2, 3), array(2, 2, 6), array(3, 2, 3)
    got = run(lambda x, w, dx, dw: sj.jvp(sj.conv1d(x, w, 1), [x, w], [dx, dw]), x, w, dx, dw)
    zeros = [(1, 1)]
    np.testing.assert_array_equal(got, convolved(dx, w, zeros) + convolved(x, dw, zeros))


@pytest.mark.parametrize("step", [1, 2])
def test_derivatives_of_any_order_are_convolutions(step: int) -> None:
    """Nothing is scattered, and the windows are never in memory: they are operands of products."""
    x, w = sj.tensor(("B", 2, "n")), sj.tensor((3, 2, 3))
    y = sj.conv1d(x, w, "half", step)
    first = sj.grad((y * y * y).sum(), [x, w])
    second = sj.grad(sum((g * g).sum() for g in first), [x, w])
    nodes = walk([*first, *second])
    assert not any(node.op is SCATTER for node in nodes)
    users = [node.op.name for node in nodes for arg in node.operands if arg.op is WINDOWS]
    assert users and set(users) == {"contract"}


def test_gradient_where_several_products_read_the_same_windows() -> None:
    """The windows' gradient is then a sum of products, of which each is a convolution."""
    x, v, w = array(2, 2, 6) / 3, array(3, 2, 3) / 3, array(3, 2, 3) / 3
    symbols = [sj.tensor(a.shape) for a in (x, v, w)]
    gradient = sj.grad((sj.conv1d(symbols[0], symbols[1]) * sj.conv1d(symbols[0], symbols[2])).sum(), symbols[0])
    assert not any(node.op is SCATTER for node in walk([gradient]))
    sj.check_grad(lambda x, v, w: (sj.conv1d(x, v) * sj.conv1d(x, w)).sum(), [x, v, w])


# ---- batches, loops, generated code ----------------------------------------------------------------------------------


@pytest.mark.parametrize("mapped", [(True, False), (False, True), (True, True)])
def test_vmap(mapped: tuple[bool, bool]) -> None:
    x, w = (array(*((5,) if m else ()), *shape) for m, shape in zip(mapped, ((2, 4, 6), (4, 2, 3)), strict=True))
    axes = [0 if m else None for m in mapped]

    def both(x: Any, w: Any) -> Any:
        y = sj.conv1d(x, w, "half", 2, num_groups=2)
        return y, sj.grad((y * y).sum(), x)

    got = run(lambda x, w: sj.vmap(both, axes)(x, w), x, w)
    rows = [run(both, x[i] if mapped[0] else x, w[i] if mapped[1] else w) for i in range(5)]
    for a, b in zip(got, zip(*rows, strict=True), strict=True):
        np.testing.assert_array_equal(a, np.stack(b))


@pytest.mark.parametrize("unroll", [False, True, 2])
@pytest.mark.parametrize("mode", ["reference", "emulate"])
def test_inside_a_scan(mode: str, unroll: Any) -> None:
    """A convolution of the state, and one of what does not depend on it; and their gradients."""
    steps, dtype = 3, "float64"
    xs, h, v, w = (sj.tensor(shape, dtype) for shape in ((steps, 2, 1, 4, 5), (2, 2, 4, 5), (2, 1, 3, 1), (2, 2, 3, 3)))

    def step(x: Any, h: Any, v: Any, w: Any) -> Any:
        return sj.tanh(sj.conv2d(x, v, "half") + sj.conv2d(h, w, "same"))

    rows = sj.scan(step, xs, h, [v, w], unroll=unroll)
    by_hand = [h]
    for t in range(steps):
        by_hand.append(step(xs[t], by_hand[-1], v, w))
    inputs = [xs, h, v, w]
    outputs = [rows[-1], *sj.grad((rows * rows).sum(), inputs)]
    expected = [by_hand[-1], *sj.grad(sum((row * row).sum() for row in by_hand[1:]), inputs)]
    arrays = [array(*node.type.shape) / 5 for node in inputs]
    got = sj.function(inputs, outputs, mode=mode)(*arrays)
    all_close(got, sj.function(inputs, expected, mode="reference")(*arrays), rtol=1e-10, atol=1e-12)


def test_a_loop_over_a_batch_of_filters() -> None:
    """`vmap` of a scan, with gradients: each example has filters of its own."""
    arrays = array(3, 2, 1, 2, 4) / 5, array(1, 2, 4) / 5, array(3, 2, 2, 3) / 5

    def both(xs: Any, h: Any, w: Any) -> Any:
        rows = sj.scan(lambda x, h, w: sj.tanh(x + sj.conv1d(h, w, "same")), xs, h, [w])
        return rows, *sj.grad((rows * rows).sum(), [xs, h, w])

    symbols = [sj.tensor((None,) * a.ndim) for a in arrays]
    outputs = list(sj.vmap(both, (0, None, 0))(*symbols))
    got = sj.function(symbols, outputs, mode="emulate")(*arrays)
    rows = [run(both, arrays[0][i], arrays[1], arrays[2][i]) for i in range(3)]
    for a, b in zip(got, zip(*rows, strict=True), strict=True):
        np.testing.assert_allclose(a, np.stack(b), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("mode", ["emulate", "numba"])
def test_generated_code(mode: str) -> None:
    """Values and gradients, in tiles and at their ragged ends."""
    x, w = sj.tensor(("B", 3, "rows", "n"), "float32"), sj.tensor((5, 3, 3, 2), "float32")
    y = sj.conv2d(x, w, (1, 0), (2, 1))
    outputs = [y, *sj.grad((y * y).sum(), [x, w])]
    compiled, reference = (sj.function([x, w], outputs, mode=m) for m in (mode, "reference"))
    for rows, n in ((5, 39), (2, 16), (3, 2)):
        arrays = array(2, 3, rows, n, dtype="float32"), array(5, 3, 3, 2, dtype="float32")
        all_close(compiled(*arrays), reference(*arrays), rtol=1e-5, atol=1e-3)


# ---- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("x", "w", "kwargs", "text"),
    [
        ((2, 3, 4), (2, 3, 5), {}, "reaches over 5 entries does not fit into the 4 entries of axis 2"),
        ((2, 3, 4), (2, 3, 3), {"filter_dilation": 2}, "reaches over 5 .* the 4 entries of axis 2"),
        ((2, 3, 4), (2, 3, 7), {"border_mode": 1}, "reaches over 7 .* the 6 entries"),
        ((2, 3, 4), (2, 3, 0), {}, "axis 2 must have 1 entry or more"),
        ((2, 3, 4), (2, 2, 3), {}, r"conv1d has another shape(.|\n)*\((2, 2, 3|2, 3, 4)\)(.|\n)*\((2, 3, 3|2, 2, 4)\)"),
        ((2, 3, 4), (2, 1, 3), {"num_groups": 2}, "input of conv1d with num_groups=2"),
        ((2, 4, 4), (3, 2, 3), {"num_groups": 2}, "filters of conv1d with num_groups=2"),
        ((2, 4, 4), (3, 4, 2), {"border_mode": "same"}, 'filters of conv1d with border_mode="same"'),
    ],
)
def test_sizes_that_do_not_fit(x: tuple[int, ...], w: tuple[int, ...], kwargs: dict[str, Any], text: str) -> None:
    """While building, if sizes are known; else when the function is called."""
    with pytest.raises(errors.ShapeError, match=text):
        sj.conv1d(sj.tensor(x), sj.tensor(w), **kwargs)
    symbols = sj.tensor3(), sj.tensor3()
    for mode in ("reference", "emulate"):
        with pytest.raises(errors.ShapeError, match=text):
            sj.function(symbols, sj.conv1d(*symbols, **kwargs), mode=mode)(np.ones(x), np.ones(w))


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: sj.conv1d(sj.matrix(), sj.tensor3()), "input of conv1d must have 3 axes"),
        (lambda: sj.conv2d(sj.tensor4(), sj.tensor3()), "filters of conv2d must have 4 axes"),
        (lambda: sj.conv1d(sj.tensor3(), sj.tensor3(), "vaild"), "no border_mode 'vaild'"),
        (lambda: sj.conv1d(sj.tensor3(), sj.tensor((1, 1, 0)), "full"), "filters that are not empty"),
        (lambda: sj.conv1d(sj.tensor3(), sj.tensor3(), -1), "got: *-1"),
        (lambda: sj.conv1d(sj.tensor3(), sj.tensor3(), 1.0), "got: *1.0"),
        (lambda: sj.conv2d(sj.tensor4(), sj.tensor4(), (1, 2, 3)), r"got: *\(1, 2, 3\)"),
        (lambda: sj.conv1d(sj.tensor3(), sj.tensor3(), subsample=0), "subsample of conv1d"),
        (lambda: sj.conv2d(sj.tensor4(), sj.tensor4(), filter_dilation=(1,)), "filter_dilation of conv2d"),
        (lambda: sj.conv1d(sj.tensor3(), sj.tensor3(), num_groups=True), "num_groups of conv1d"),
    ],
)
def test_arguments(call: Callable[[], Any], text: str) -> None:
    with pytest.raises(errors.ScanjitError, match=text):
        call()
