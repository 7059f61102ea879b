"""Functions that rearrange and make tensors, against NumPy, for known and unknown sizes."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from scanjit import errors
from scanjit.autodiff import grad
from scanjit.runtime.reference import evaluate
from tests.ops.support import agrees, differences, run, same

X = np.arange(24.0).reshape(2, 3, 4)
EMPTY = np.zeros((0, 3))


@pytest.mark.parametrize("shape", [(4, 6), (-1,), -1, 24, (2, -1, 2), (3, 1, -1), (2, 3, 4), [6, 4]], ids=str)
def test_reshape(shape: Any) -> None:
    agrees(lambda x: sj.reshape(x, shape), lambda x: np.reshape(x, shape), X)
    agrees(lambda x: np.reshape(x, shape), lambda x: np.reshape(x, shape), X)


def test_reshape_with_symbols() -> None:
    x = sj.tensor(("T", "B", "H"))
    assert x.reshape(-1, x.shape[2]).type.shape[0] == x.reshape((x.shape[0] * x.shape[1], -1)).type.shape[0]
    assert str(x.reshape(x.shape[0], -1).type.shape[1]) == "B*H"
    assert x.reshape(x.shape) is x
    agrees(lambda x: x.reshape(x.shape[1], -1), lambda x: x.reshape(x.shape[1], -1), X)
    agrees(lambda x: x.reshape(-1, x.shape[1] * 2), lambda x: x.reshape(-1, x.shape[1] * 2), X)
    agrees(lambda x: x.reshape((x.shape[0], 0, 7)), lambda x: x.reshape((x.shape[0], 0, 7)), EMPTY)
    agrees(lambda x, n: x.reshape(n, -1), lambda x, n: x.reshape(int(n), -1), X, np.array(6))


@pytest.mark.parametrize("shape", [-1, 24, (4, 6), (2, -1, 2), (3, 2, 2, 2), [1, -1, 1]])
def test_elements_in_the_order_of_fortran(shape: Any) -> None:
    agrees(lambda x: np.reshape(x, shape, order="F"), lambda x: np.reshape(x, shape, order="F"), X)
    agrees(lambda x: x.reshape(shape, order="F"), lambda x: x.reshape(shape, order="F"), X)
    agrees(lambda x: np.ravel(x, "F"), lambda x: np.ravel(x, "F"), X)
    agrees(lambda x: x.flatten(order="F"), lambda x: x.flatten(order="F"), X)
    agrees(lambda x: x.flatten("F"), lambda x: x.flatten("F"), X)
    agrees(lambda x: x.flatten(2, "F"), lambda x: x.reshape((2, -1), order="F"), X)


def test_shapes_that_are_vectors_in_the_order_of_fortran() -> None:
    for given in (lambda n: n, lambda n: sj.stack([n[0], n[1]]), lambda n: [n[0], n[1]]):
        found = run(lambda x, n, g=given: sj.reshape(x, g(n), 2, "F"), X, np.array([4, 6]))
        np.testing.assert_array_equal(found, X.reshape((4, 6), order="F"))
    fixed = sj.function([], sj.reshape(X, np.array([4, 6]), order="F"), mode="reference")()
    np.testing.assert_array_equal(fixed, X.reshape((4, 6), order="F"))
    with pytest.raises(errors.ArgumentError, match=r"order of elements is not known\n.*'A'\n.*'C' or 'F'"):
        sj.matrix().reshape(-1, order="A")


def test_reshape_must_keep_the_number_of_elements() -> None:
    with pytest.raises(errors.ShapeError, match="the number of elements before and after a reshape"):
        sj.tensor((2, 3)).reshape(4, 2)
    with pytest.raises(errors.ShapeError, match="only one size can be -1"):
        sj.matrix().reshape(-1, -1)
    with pytest.raises(errors.ShapeError, match="must not be negative"):
        sj.matrix().reshape(-2, 3)
    with pytest.raises(errors.ShapeError, match="not defined beside a size of 0"):
        sj.tensor((3, 2)).reshape(0, -1)
    with pytest.raises(errors.ShapeError, match="the number of elements"):
        run(lambda x: x.reshape(-1, 5), X, symbolic=True)
    with pytest.raises(errors.ArgumentError, match="a size must be an integer"):
        sj.matrix().reshape(2.5, 2)


@pytest.mark.parametrize(
    ("fn", "numpy_fn"),
    [
        (lambda x: x.T, lambda x: x.T),
        (lambda x: x.transpose(2, 0, 1), lambda x: x.transpose(2, 0, 1)),
        (lambda x: sj.transpose(x, (0, 2, 1)), lambda x: np.transpose(x, (0, 2, 1))),
        (lambda x: np.transpose(x, axes=(0, 2, 1)), lambda x: np.transpose(x, (0, 2, 1))),
        (lambda x: x.dimshuffle(1, "x", 2, 0), lambda x: x.transpose(1, 2, 0)[:, None]),
        (lambda x: sj.dimshuffle(x, (0, 1, 2, "x")), lambda x: x[..., None]),
        (lambda x: sj.swapaxes(x, 0, -1), lambda x: np.swapaxes(x, 0, -1)),
        (lambda x: sj.moveaxis(x, 0, -1), lambda x: np.moveaxis(x, 0, -1)),
        (lambda x: sj.moveaxis(x, [0, 1], [-1, 0]), lambda x: np.moveaxis(x, [0, 1], [-1, 0])),
        (lambda x: sj.expand_dims(x, (0, -1)), lambda x: np.expand_dims(x, (0, -1))),
        (lambda x: sj.squeeze(x[:, :1], 1), lambda x: np.squeeze(x[:, :1], 1)),
        (lambda x: x.ravel(), lambda x: x.ravel()),
        (lambda x: x.flatten(), lambda x: x.flatten()),
        (lambda x: sj.flatten(x, 2), lambda x: x.reshape(2, 12)),
        (lambda x: sj.broadcast_to(x, (5, 2, 3, 4)), lambda x: np.broadcast_to(x, (5, 2, 3, 4))),
        (lambda x: sj.broadcast_to(x[0], (7, 3, 4)), lambda x: np.broadcast_to(x[0], (7, 3, 4))),
        (lambda x: np.reshape(x, shape=(4, 6), order="C"), lambda x: np.reshape(x, (4, 6))),
        (lambda x: sj.flip(x), np.flip),
        (lambda x: sj.flip(x, (0, 2)), lambda x: np.flip(x, (0, 2))),
        (lambda x: sj.tile(x, 2), lambda x: np.tile(x, 2)),
        (lambda x: sj.tile(x, (2, 1, 3)), lambda x: np.tile(x, (2, 1, 3))),
        (lambda x: sj.tile(x[0, 0], (2, 2)), lambda x: np.tile(x[0, 0], (2, 2))),
        (lambda x: sj.repeat(x, 3, axis=1), lambda x: np.repeat(x, 3, axis=1)),
        (lambda x: sj.repeat(x, 2), lambda x: np.repeat(x, 2)),
        (lambda x: sj.repeat(x, [0, 2, 1], axis=1), lambda x: np.repeat(x, [0, 2, 1], axis=1)),
        (lambda x: sj.roll(x, 1, axis=1), lambda x: np.roll(x, 1, axis=1)),
        (lambda x: sj.roll(x, -5), lambda x: np.roll(x, -5)),
        (lambda x: sj.roll(x, (1, -2), axis=(0, 2)), lambda x: np.roll(x, (1, -2), axis=(0, 2))),
        (lambda x: sj.atleast_3d(x[0]), lambda x: np.atleast_3d(x[0])),
        (lambda x: sj.atleast_3d(x[0, 0]), lambda x: np.atleast_3d(x[0, 0])),
        (lambda x: sj.atleast_2d(x[0, 0]), lambda x: np.atleast_2d(x[0, 0])),
        (lambda x: sj.atleast_1d(x[0, 0, 0]), lambda x: np.atleast_1d(x[0, 0, 0])),
        (lambda x: sj.tril(x, 1), lambda x: np.tril(x, 1)),
        (lambda x: sj.triu(x, -1), lambda x: np.triu(x, -1)),
        (lambda x: sj.concatenate([x, x[:, :1]], axis=1), lambda x: np.concatenate([x, x[:, :1]], axis=1)),
        (lambda x: np.concatenate([x, np.ones((1, 3, 4))]), lambda x: np.concatenate([x, np.ones((1, 3, 4))])),
        (lambda x: sj.stack([x, x * 2], axis=-1), lambda x: np.stack([x, x * 2], axis=-1)),
        (lambda x: sj.vstack([x[0], x[1]]), lambda x: np.vstack([x[0], x[1]])),
        (lambda x: sj.hstack([x[0], x[1]]), lambda x: np.hstack([x[0], x[1]])),
        (lambda x: sj.hstack([x[0, 0], x[1, 0]]), lambda x: np.hstack([x[0, 0], x[1, 0]])),
        (lambda x: sj.split(x, 2, axis=2), lambda x: np.split(x, 2, axis=2)),
        (lambda x: sj.split(x, [1, 3, 9], axis=2), lambda x: np.split(x, [1, 3, 9], axis=2)),
        (lambda x: sj.zeros_like(x), np.zeros_like),
        (lambda x: sj.ones_like(x, "int8"), lambda x: np.ones_like(x, "int8")),
        (lambda x: np.full_like(x, 7), lambda x: np.full_like(x, 7)),
        (lambda x: sj.as_tensor(np.shape(x)), lambda x: np.array(x.shape)),
        (lambda x: sj.as_tensor(np.size(x)), lambda x: np.asarray(x.size)),
    ],
)
def test_against_numpy(fn: Any, numpy_fn: Any) -> None:
    agrees(fn, numpy_fn, X)
    agrees(fn, numpy_fn, X.astype("int16"))


@pytest.mark.parametrize("width", [1, (2, 1), ((0, 1), (2, 0)), ((1, 1),), [[1, 0], [0, 1]]], ids=str)
def test_pad(width: Any) -> None:
    x = np.arange(12.0).reshape(4, 3)
    agrees(lambda x: sj.pad(x, width, constant_values=5), lambda x: np.pad(x, width, constant_values=5), x)
    for mode in ("constant", "edge", "reflect", "symmetric", "wrap"):
        agrees(lambda x, m=mode: sj.pad(x, width, m), lambda x, m=mode: np.pad(x, width, m), x)


def test_padding_by_a_symbol() -> None:
    x = np.arange(3.0)
    agrees(lambda x, n: sj.pad(x, (n, 0)), lambda x, n: np.pad(x, (int(n), 0)), x, np.array(2))
    got = run(lambda x: grad((sj.pad(x, 2, "reflect") ** 3).sum(), x), x)
    np.testing.assert_allclose(got, differences(lambda x: (np.pad(x, 2, "reflect") ** 3).sum(), [x], 0), rtol=1e-6)
    with pytest.raises(errors.OutOfBoundsError):
        sj.pad(sj.tensor((2,)), 2, "reflect")
    with pytest.raises(errors.ArgumentError, match="mode of pad is unknown"):
        sj.pad(sj.vector(), 2, "mean")
    with pytest.raises(errors.ArgumentError, match="must not be negative"):
        sj.pad(sj.vector(), -1)


def test_parts_of_nothing() -> None:
    agrees(lambda x: sj.roll(x, 1, axis=0), lambda x: np.roll(x, 1, axis=0), EMPTY)
    agrees(lambda x: sj.split(x, 2), lambda x: np.split(x, 2), EMPTY)
    agrees(lambda x: sj.flip(x), np.flip, EMPTY)
    agrees(lambda x: sj.tile(x, (2, 2)), lambda x: np.tile(x, (2, 2)), EMPTY)


def test_split_must_be_even() -> None:
    with pytest.raises(errors.ShapeError, match="equal parts"):
        sj.split(sj.tensor((5,)), 2)
    with pytest.raises(errors.ShapeError, match="an axis of 5 entries has no 2 equal parts"):
        run(lambda x: sj.split(x, 2), np.zeros(5), symbolic=True)


def test_dtypes_are_promoted() -> None:
    x, y = sj.fvector(), sj.ivector()
    assert sj.concatenate([x, y]).dtype == np.float64
    assert sj.stack([y, y]).dtype == np.int32
    assert sj.as_tensor([y[0], 1]).dtype == np.int64


def test_sizes_that_differ() -> None:
    with pytest.raises(errors.ShapeError, match="dimension 1 of tensors to concatenate"):
        sj.concatenate([sj.tensor((2, 3)), sj.tensor((2, 4))])
    with pytest.raises(errors.ShapeError, match="agree in rank"):
        sj.concatenate([sj.matrix(), sj.vector()])
    with pytest.raises(errors.ShapeError, match="scalars cannot be concatenated"):
        sj.concatenate([sj.scalar(), sj.scalar()])
    with pytest.raises(errors.ArgumentError, match="takes a sequence of tensors"):
        sj.concatenate([])
    with pytest.raises(errors.ShapeError, match="only axes of size 1 can be squeezed"):
        sj.squeeze(sj.tensor((2, 1)), 0)
    with pytest.raises(errors.ShapeError, match="must be all axes, once each"):
        sj.transpose(sj.matrix(), (0, 0))
    with pytest.raises(errors.ShapeError):
        sj.broadcast_to(sj.tensor((2, 3)), (2, 4))


# ---- made of nothing but sizes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "bounds", [(5,), (0,), (-2,), (2, 7), (7, 2), (1, 8, 3), (8, 1, -3), (8, 2, -3), (0, 1, 0.25), (3, 3)], ids=str
)
def test_arange(bounds: tuple[Any, ...]) -> None:
    same(evaluate([sj.arange(*bounds)], {})[0], np.arange(*bounds))
    if all(isinstance(b, int) for b in bounds):
        ends = [np.asarray(b) for b in bounds[:2]]
        agrees(
            lambda *ends: sj.arange(*ends, *bounds[2:]), lambda *ends: np.arange(*map(int, ends), *bounds[2:]), *ends
        )


def test_creation() -> None:
    for fn, expected in (
        (sj.zeros((2, 3)), np.zeros((2, 3))),
        (sj.ones(4, "int8"), np.ones(4, "int8")),
        (sj.full((2, 2), 3), np.full((2, 2), 3)),
        (sj.full(3, np.float32(2)), np.full(3, np.float32(2))),
        (sj.eye(3), np.eye(3)),
        (sj.eye(2, 4, 1, "int32"), np.eye(2, 4, 1, "int32")),
        (sj.eye(4, 2, -1), np.eye(4, 2, -1)),
        (sj.identity(2, "bool"), np.identity(2, "bool")),
        (sj.linspace(0, 1, 5), np.linspace(0, 1, 5)),
        (sj.arange(3, dtype="float32"), np.arange(3, dtype="float32")),
    ):
        same(evaluate([fn], {})[0], expected)


def test_creation_with_sizes_of_others() -> None:
    x = np.zeros((3, 2))
    agrees(lambda x: sj.ones((x.shape[0] * 2, 3)), lambda x: np.ones((6, 3)), x)
    agrees(lambda x: sj.zeros(x.shape, "float32"), lambda x: np.zeros((3, 2), "float32"), x)
    agrees(lambda x: sj.eye(x.shape[0], x.shape[1]), lambda x: np.eye(3, 2), x)
    agrees(lambda n: sj.zeros((n, n + 1)), lambda n: np.zeros((4, 5)), np.array(4))
    agrees(lambda n: sj.full((n // 2,), 1.0), lambda n: np.ones(2), np.array(5))


def test_one_hot() -> None:
    labels = np.array([[0, 2], [3, -1]], "int32")
    expected = (labels[..., None] == np.arange(3)).astype("float32")
    agrees(lambda x: sj.one_hot(x, 3, "float32"), lambda x: expected, labels)
    with pytest.raises(errors.DtypeError, match="takes integers"):
        sj.one_hot(sj.vector(), 3)


def test_sizes_are_checked_at_run_time() -> None:
    for fn in (sj.zeros, sj.arange, lambda n: sj.one_hot(sj.constant([0]), n), lambda n: sj.tile(sj.constant([0]), n)):
        with (
            pytest.raises(errors.ScanjitError, match="must not be negative: -1")
            if fn is not sj.arange
            else nullcontext()
        ):
            run(fn, np.array(-1))
    with pytest.raises(errors.ShapeError, match="must be equal"):
        run(lambda x: sj.repeat(x, [1, 2], axis=0), np.zeros(3), symbolic=True)
    with pytest.raises(errors.ShapeError, match="must be equal"):
        run(lambda x: sj.einsum("ii->i", x), np.zeros((2, 3)), symbolic=True)


@pytest.mark.parametrize("mode", ["reference", "emulate"])
def test_sizes_that_follow_from_an_array(mode: str) -> None:
    """`n - 2` for an array of one row."""
    x = sj.matrix("x")
    n = x.shape[0]
    makers = {
        "broadcast_to": sj.broadcast_to(x.sum(axis=0), (n - 2, 3)),
        "full": sj.full((n - 2, 3), 1.0),
        "tile": sj.tile(x.sum(axis=0), n - 2),
        "in a step": sj.scan(lambda row, total: total + sj.ones(n - 2).sum() + row.sum(), x, sj.constant(0.0)),
    }
    for made in makers.values():
        f = sj.function([x], made, mode=mode)
        f(np.ones((3, 3)))
        with pytest.raises(errors.ShapeError, match="must not be negative: -1"):
            f(np.ones((1, 3)))


@pytest.mark.parametrize("mode", ["reference", "emulate"])
def test_specified_shapes(mode: str) -> None:
    """Of inputs, of what is cut to a computed size, and inside of a loop; errors show both shapes whole."""
    x, w, n = sj.matrix("x"), sj.vector("w"), sj.iscalar("n")
    same = sj.specify_shape(w, (x.shape[1],), "w {0}")
    assert same.shape == x.shape[1:] and sj.specify_shape(x, (None, x.shape[1])) is x
    rows = sj.specify_shape(x[:n], (w.shape[0], None), "the rows")
    looped = sj.scan(lambda row, total: total + sj.specify_shape(w, row.shape, "w in the loop"), x, sj.zeros_like(x[0]))
    cases = [
        (
            (x, w),
            sj.grad(((x @ same) ** 2).sum(), w),
            np.full(2, 12.0),
            np.ones(3),
            r"w \{0\} has .* got: +\(3,\).*\(2,\)",
        ),
        ((w, x, n), rows, np.ones((2, 2)), 1, r"the rows has .* got: +\(1, 2\).*\(2, 2\)"),
        ((x, w), looped, np.outer([1, 2, 3], np.ones(2)), np.ones(4), r"w in the loop .* got: +\(4,\).*\(2,\)"),
    ]
    good = {x: np.ones((3, 2)), w: np.ones(2), n: np.array(2, "int32")}
    for symbols, output, expected, wrong, message in cases:
        f = sj.function(list(symbols), output, mode=mode)
        given = [good[symbol] for symbol in symbols]
        np.testing.assert_array_equal(f(*given), expected)
        with pytest.raises(sj.ShapeError, match=f"(?s){message}"):
            f(*given[:-1], wrong)


def test_shapes_that_cannot_be() -> None:
    x = sj.tensor((3, None), name="x")
    for shape in ((3,), (2, None), (3, 4, None)):
        with pytest.raises(sj.ShapeError, match="x has another shape"):
            sj.specify_shape(x, shape, "x")
    with pytest.raises(sj.ShapeError, match="a tensor has another shape"):
        sj.specify_shape(sj.zeros(x.shape[1]), (x.shape[1] + 1,))


def test_errors_of_creation() -> None:
    with pytest.raises(errors.ShapeError, match="must not be negative"):
        sj.zeros((2, -1))
    with pytest.raises(errors.ArgumentError, match="must not be 0"):
        sj.arange(0, 5, 0)
    with pytest.raises(errors.NotSupportedError, match="step of a range must be known"):
        sj.arange(0, 5, sj.iscalar())
    with pytest.raises(errors.NotSupportedError, match="range of floats must be known"):
        sj.arange(0.5, sj.iscalar())
    with pytest.raises(errors.ArgumentError, match="a size must be an integer"):
        sj.zeros((sj.scalar(),))
    with pytest.raises(errors.ShapeError, match="part of a matrix"):
        sj.tril(sj.vector())


def test_a_shape_that_is_a_vector() -> None:
    x, sizes = sj.vector("x"), sj.lvector("sizes")
    f = sj.function([x, sizes], x.reshape(sizes, ndim=2), mode="reference")
    assert f(np.arange(6.0), [2, 3]).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert x.reshape((2, -1), ndim=2).ndim == 2 and sj.reshape(x, -1, ndim=1).ndim == 1
    with pytest.raises(sj.ShapeError, match="the shape that reshape gets"):
        f(np.arange(6.0), [1, 2, 3])
    with pytest.raises(sj.ArgumentError, match="ndim of reshape is the number of sizes"):
        x.reshape((2, 3), ndim=3)


def test_evenly_spaced_numbers_between_symbols() -> None:
    x, y, z = sj.scalar("x"), sj.tensor(("n",), "float32", "y"), sj.scalar("z", "complex128")
    makes = [
        lambda lib, x, y, z: lib.linspace(x, 2.0, 5),
        lambda lib, x, y, z: lib.linspace(0, y, 4, endpoint=False),
        lambda lib, x, y, z: lib.linspace(x, y, 7),
        lambda lib, x, y, z: lib.linspace(z, 1j, 3),
        lambda lib, x, y, z: lib.linspace(x, 3, 1),
        lambda lib, x, y, z: lib.linspace(x, 3, 0),
        lambda lib, x, y, z: lib.linspace(x - 3.1, 46, 50, dtype="int64"),
        lambda lib, x, y, z: lib.linspace(-1, 1, 4, dtype="int8"),
        lambda lib, x, y, z: lib.geomspace(1, 1000, 4, dtype="int64"),
        lambda lib, x, y, z: lib.geomspace([-1, 2], [-256, 1024], 9, dtype="int32"),
        lambda lib, x, y, z: lib.logspace(0, 3, 4, dtype="int64"),
    ]
    given = 0.1, np.array([1.5, -2.0], "float32"), 1 + 2j
    found = sj.function([x, y, z], [make(sj, x, y, z) for make in makes], mode="reference")(*given)
    for value, make in zip(found, makes, strict=True):
        np.testing.assert_allclose(value, make(np, *given), 1e-6)
    for make in (sj.linspace, sj.geomspace):  # Python numbers are weak
        assert {make(y[0], 2.0, 3).dtype, make(1, y, 3).dtype, make(np.float32(1), np.float32(2), 3).dtype} == {y.dtype}
    sj.check_grad(lambda a: sj.linspace(a, a * a, 4) ** 2, 0.7, order=2)
    with pytest.raises(sj.ArgumentError, match="the number of numbers must be at least 0"):
        sj.linspace(x, 1.0, -1)


def test_sizes_of_axes_and_all_elements_in_a_row() -> None:
    x, values = sj.tensor((None, 3), name="x"), np.arange(6.0).reshape(2, 3)
    f = sj.function([x], [np.size(x), np.size(x, 0), np.concatenate([x, x[0]], axis=None)], mode="reference")
    total, rows, row = f(values)
    assert (total, rows, np.size(x, 1), np.size(x, -1)) == (6, 2, 3, 3)
    assert np.array_equal(row, np.concatenate([values, values[0]], axis=None))
    with pytest.raises(errors.ShapeError, match="axis 2 is out of bounds"):
        np.size(x, 2)


@pytest.mark.parametrize("mode", ["reference", "emulate"])
def test_sizes_of_a_reshape_are_not_negative(mode: Any) -> None:
    """The product of two negative ones may be the number of elements."""
    x, n, m = sj.vector("x"), sj.lscalar("n"), sj.lscalar("m")
    for shape in ((n, m), (n, -1)):
        y = x.reshape(shape)
        f = sj.function([x, n, m], [y.sum(), y.T.reshape(-1).sum()], mode=mode)
        assert f(np.arange(6.0), 2, 3) == [15, 15]
        with pytest.raises(sj.ShapeError, match="a size must not be negative: -2"):
            f(np.arange(6.0), -2, -3)
