"""Products of tensors against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import scanjit as sj
from scanjit import errors
from scanjit.ir import walk
from scanjit.ops.contraction import CONTRACT
from tests.ops.support import agrees, run

RNG = np.random.default_rng(0)


def array(*shape: int, dtype: str = "float64") -> np.ndarray:
    return RNG.integers(-4, 5, shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["float64", "float32", "int32", "bool"])
@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((2, 3), (3, 4)),
        ((3,), (3, 4)),
        ((2, 3), (3,)),
        ((3,), (3,)),
        ((5, 2, 3), (3, 4)),
        ((2, 3), (5, 3, 4)),
        ((5, 2, 3), (5, 3, 4)),
        ((5, 1, 2, 3), (6, 3, 4)),
        ((1, 2, 3), (1, 3, 4)),
        ((1, 2, 3), (5, 3, 1)),
        ((3,), (5, 3, 4)),
        ((5, 2, 3), (3,)),
        ((2, 0), (0, 3)),
        ((1, 1), (1, 1)),
    ],
    ids=str,
)
def test_matmul(a: tuple[int, ...], b: tuple[int, ...], dtype: str) -> None:
    x, y = array(*a, dtype=dtype), array(*b, dtype=dtype)
    agrees(lambda x, y: x @ y, np.matmul, x, y)
    agrees(lambda y: x @ y, lambda y: np.matmul(x, y), y)
    agrees(lambda x: np.matmul(x, y), lambda x: np.matmul(x, y), x)


@pytest.mark.parametrize(("known", "unknown"), [((3, 1), 2), ((3, 1), 1), ((1,), 1), ((1,), 2)])
def test_a_size_of_one_that_is_summed_over_meets_one_that_is_not_known(known: tuple[int, ...], unknown: int) -> None:
    x, y = sj.tensor(known), sj.tensor((None,) * unknown)
    product, other = sj.function([x, y], x @ y, mode="reference"), sj.function([x, y], y.T @ x.T, mode="reference")
    a, b = array(*known), array(1, *[4] * (unknown - 1))
    np.testing.assert_array_equal(product(a, b), a @ b)
    np.testing.assert_array_equal(other(a, b), b.T @ a.T)
    with pytest.raises(errors.ShapeError, match="sums over"):
        product(a, array(2, *[4] * (unknown - 1)))
    with pytest.raises(errors.ShapeError):
        sj.tensor(known) @ sj.tensor((2, 4))


@pytest.mark.parametrize(
    ("a", "b"),
    [((), (3,)), ((3,), ()), ((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 4)), ((2, 3), (3, 4)), ((5, 2, 3), (4, 3, 2))],
    ids=str,
)
def test_dot(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    agrees(sj.dot, np.dot, array(*a), array(*b))
    agrees(lambda x, y: x.dot(y), np.dot, array(*a), array(*b))


def test_others() -> None:
    a, b = array(2, 3, 4), array(4, 3, 5)
    agrees(
        lambda x, y: np.tensordot(x, y, axes=([1, 2], [1, 0])), lambda x, y: np.tensordot(x, y, ([1, 2], [1, 0])), a, b
    )
    agrees(lambda x, y: sj.tensordot(x, y, 1), lambda x, y: np.tensordot(x, y, 1), a, b)
    agrees(lambda x, y: sj.tensordot(x, y, 0), lambda x, y: np.tensordot(x, y, 0), a, b)
    agrees(lambda x, y: sj.tensordot(x, y, (-1, 0)), lambda x, y: np.tensordot(x, y, (-1, 0)), a, b)
    agrees(sj.outer, np.outer, a, b)
    agrees(sj.inner, np.inner, a, array(5, 4))
    agrees(sj.vdot, np.vdot, array(6), array(2, 3))


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        ("ij,jk->ik", [(2, 3), (3, 4)]),
        ("ij,jk", [(2, 3), (3, 4)]),
        ("bij,bjk->bik", [(5, 2, 3), (5, 3, 4)]),
        ("i,j->ij", [(2,), (3,)]),
        ("ij->ji", [(2, 3)]),
        ("ij->", [(2, 3)]),
        ("ij->j", [(2, 3)]),
        ("ii->i", [(3, 3)]),
        ("ii", [(3, 3)]),
        ("iij,j->i", [(3, 3, 2), (2,)]),
        ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 5)]),
        ("ij,ij,k->k", [(2, 3), (2, 3), (4,)]),
        ("i,i,i->", [(3,), (3,), (3,)]),
        ("...ij,...jk->...ik", [(5, 2, 3), (3, 4)]),
        ("...ij,...jk", [(5, 1, 2, 3), (6, 3, 4)]),
        ("b...,b->...", [(2, 3, 4), (2,)]),
        ("i...->...", [(2, 3, 4)]),
        ("ba", [(2, 3)]),
    ],
)
def test_einsum(text: str, shapes: list[tuple[int, ...]]) -> None:
    arrays = [array(*shape) for shape in shapes]
    agrees(lambda *xs: sj.einsum(text, *xs), lambda *xs: np.einsum(text, *xs), *arrays)
    agrees(lambda *xs: np.einsum(text, *xs), lambda *xs: np.einsum(text, *xs), *arrays)


@pytest.mark.parametrize("offset", [-3, -1, 0, 1, 2, 5])
def test_diagonals(offset: int) -> None:
    for shape in ((3, 3), (2, 4), (4, 2)):
        x = array(*shape)
        agrees(lambda x: sj.diagonal(x, offset), lambda x: np.diagonal(x, offset), x)
        agrees(lambda x: sj.diag(x, offset), lambda x: np.diag(x, offset), x)
        agrees(lambda x: x.trace(offset), lambda x: x.trace(offset), x)
    agrees(lambda x: sj.diag(x, offset), lambda x: np.diag(x, offset), array(3))
    agrees(lambda x: sj.diagonal(x, offset, 0, 2), lambda x: np.diagonal(x, offset, 0, 2), array(3, 2, 4))


def test_dtypes_are_promoted() -> None:
    assert (sj.fmatrix() @ sj.imatrix()).dtype == np.float64
    assert (sj.fmatrix() @ np.ones((2, 2), "float32")).dtype == np.float32
    assert sj.dot(sj.ivector(), sj.lvector()).dtype == np.int64


def test_equal_products_are_one_node() -> None:
    x, w = sj.matrix(), sj.matrix()
    assert x @ w is sj.dot(x, w) is sj.tensordot(x, w, 1) is sj.einsum("pq,qr->pr", x, w)
    assert sum(node.op is CONTRACT for node in walk([x @ w])) == 1


def test_errors_show_the_shapes() -> None:
    with pytest.raises(errors.ShapeError, match=r"do not fit\s+got: +shapes \(2, 3\) and \(4, 5\)"):
        sj.tensor((2, 3)) @ sj.tensor((4, 5))
    with pytest.raises(errors.ShapeError, match="the sizes that a product sums over"):
        run(lambda a, b: a @ b, array(2, 3), array(4, 5), symbolic=True)
    with pytest.raises(errors.ShapeError, match="no scalars"):
        sj.matrix() @ sj.scalar()
    with pytest.raises(errors.ArgumentError, match="another number of operands"):
        sj.einsum("ij,jk", sj.matrix())
    with pytest.raises(errors.ShapeError, match="do not fit the operand"):
        sj.einsum("ijk->i", sj.matrix())
    with pytest.raises(errors.ArgumentError, match="names axes once"):
        sj.einsum("ij->ii", sj.matrix())
