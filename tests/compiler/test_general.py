"""Nests that compute each point by itself are functions of their sizes and steps: few serve many."""

import re

import numpy as np
import pytest

import scanjit as sj
from tests.fuzz.check import Config


def functions(f):
    """The names of the functions but the main one."""
    return [name for name in re.findall(r"^def (\w+)\(", f.source, re.MULTILINE)][1:]


def checked(inputs, outputs, arrays, dtype="float64"):
    """The compiled function, after its results were compared with those of the interpreter, in both modes."""
    f = sj.function(inputs, outputs)
    expected = sj.function(inputs, outputs, mode="reference")(*arrays)
    for mode in ("numba", "emulate"):
        for got, wanted in zip(sj.function(inputs, outputs, mode=mode)(*arrays), expected, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=2e-6 if dtype == "float32" else 1e-13)
    return f


def numbers(*shape, dtype="float64", seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_copies_of_all_shapes_are_one_function(dtype):
    x, y = sj.tensor((7, 512), dtype=dtype, name="x"), sj.tensor((9, 256), dtype=dtype, name="y")
    z = sj.tensor((256,), dtype=dtype, name="z")
    rows = sj.concatenate([x[:, :256], y, sj.broadcast_to(z, (3, 256))], axis=0)
    columns = sj.concatenate([y, y * 0 + z, y], axis=1)
    arrays = [numbers(7, 512, dtype=dtype), numbers(9, 256, dtype=dtype), numbers(256, dtype=dtype)]
    f = checked([x, y, z], [rows, columns], arrays, dtype)
    assert len(functions(f)) <= 2  # copies, and the sum


@pytest.mark.quick(4)
@pytest.mark.parametrize("size", [512, "n"])
@pytest.mark.parametrize("length", [0, 1, 15, 16, 300, 512, 70_001])
def test_updates_of_vectors_and_of_windows_of_matrices(size, length):
    if size == 512 and length != 512:
        return
    m, g = sj.tensor((3, size), name="m"), sj.tensor((3, 2 * size if size == 512 else "k"), name="g")
    v, w = sj.tensor((size,), name="v"), sj.tensor((size,), name="w")
    rate = sj.scalar("rate")
    cut = g[:, : m.shape[1]]
    outputs = [abs(m) * 0.5 + abs(cut) * (1 - rate), abs(v) * 0.5 + abs(w) * (1 - rate)]
    arrays = [numbers(3, length), numbers(3, 2 * length), numbers(length), numbers(length), 0.25]
    f = checked([m, g, v, w, rate], outputs, arrays)
    assert len(functions(f)) == 1


@pytest.mark.quick(2)
@pytest.mark.parametrize("length", [1, 17, 513, 100_003])
def test_an_element_for_all_points_stays_where_it_is(length):
    """Threads share the points, and the first element is read beside the points that begin with it."""
    x = sj.vector("x")
    checked([x], [x * x[0], sj.exp(x) * x[0]], [numbers(length)])


def test_rows_of_few_points_keep_their_number():
    x, y = sj.tensor(("n", 16), name="x"), sj.tensor(("n", 8), name="y")
    f = checked([x, y], [sj.concatenate([x, y], axis=1)], [numbers(50, 16), numbers(50, 8)])
    assert "range(0, 16, 8)" in f.source or "range(0, 16, 4)" in f.source or "range(0, 16, 2)" in f.source


@pytest.mark.parametrize("width", [16, 64])
@pytest.mark.parametrize("rows", [1, 3, 10])
def test_pieces_end_between_vectors_that_are_computed_side_by_side(width, rows):
    """A row is whole tiles of several vectors; a thread's piece of it need not be."""
    y = sj.tensor(("n", 8), name="y")
    root = y
    for _ in range(4):
        root = sj.sqrt(root * root + 1.0) / 2
    given = numbers(rows, 8)
    with Config(width=width, threads=2).active():
        f = sj.function([y], root, mode="emulate")
        np.testing.assert_allclose(f(given), sj.function([y], root, mode="reference")(given))
