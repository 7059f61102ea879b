"""Complex arrays in and out of functions: arguments, results, shared variables, jit, files, exports."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from tests.complex_numbers.support import sampled, slope
from tests.export.support import exported


def test_arrays_go_in_without_a_copy() -> None:
    z = sj.tensor(("n", 3), "complex64", "z")
    f = sj.function([z], z * 2, mode="reference")
    given = np.arange(6, dtype=np.float32).reshape(2, 3) * np.complex64(1j)
    (slot,) = f._slots
    taken = slot.convert(given)
    assert np.shares_memory(taken, given) and taken.shape == (2, 3, 2) and taken.dtype == np.float32
    found = f(given)
    assert found.dtype == np.complex64 and found.flags.c_contiguous and found.flags.writeable
    np.testing.assert_array_equal(found, 2 * given)
    for other in (given.T.copy().T, given[::-1][::-1], given.astype(">c8"), given.tolist()):
        np.testing.assert_array_equal(f(other), 2 * given)


@pytest.mark.parametrize("mode", ["reference", "emulate", "numba"])
def test_shapes_of_arguments_and_results(mode: Any) -> None:
    """Scalars, no elements, sizes above 256, results that are arguments, one result twice."""
    s, z = sj.scalar("s", dtype="complex128"), sj.matrix("z", dtype="complex128")
    f = sj.function([s, z], (z, z, s, {"sum": (z * s).sum(), "real": z.real, "none": sj.constant(1j)}), mode=mode)
    for shape in ((0, 3), (1, 1), (3, 300)):
        value = sampled(np.random.default_rng(0), shape)
        a, b, c, rest = f(2j, value)
        np.testing.assert_array_equal(a, value)
        np.testing.assert_array_equal(b, value)
        assert not np.shares_memory(a, b) and not np.shares_memory(a, value)
        assert c == 2j and c.shape == () and rest["none"] == 1j and rest["real"].dtype == np.float64
        np.testing.assert_allclose(rest["sum"], (value * 2j).sum(), 1e-12, 1e-12)


def test_arguments_that_do_not_fit() -> None:
    z, x = sj.tensor(("n", 2), "complex64", "z"), sj.vector("x")
    f = sj.function([z, x], [z.sum() + x.sum()], name="f", mode="reference")
    with pytest.raises(sj.DtypeError, match="values could be lost") as found:
        f(np.zeros((1, 2)), np.zeros(1, complex))
    assert "complex64(n, 2)" in str(found.value)
    with pytest.raises(sj.DtypeError, match=r"values could be lost[^$]*pass its \.real"):
        f(np.zeros((1, 2), np.complex64), [1j])
    with pytest.raises(sj.DtypeError, match="the complex 1j"):
        sj.function([sj.scalar("r")], [], mode="reference")(1j)
    with pytest.raises(sj.ShapeError, match="must have 2 dimensions, not 1") as shape:
        f(np.zeros(2, np.complex64), [0.0])
    assert "an array of shape (2,)" in str(shape.value) and "complex64(n, 2)" in str(shape.value)
    with pytest.raises(sj.ShapeError, match=r"dimension 1 of .* has size 3 instead of 2"):
        f(np.zeros((4, 3), np.complex64), [0.0])
    with pytest.raises(sj.ArgumentError, match=r"z: complex64\(n, 2\)"):
        f()
    assert "z: complex64(n, 2)" in repr(f) and repr(sj.function([z], z, mode="reference")).count("complex64(n, 2)") == 2


def test_shared_variables() -> None:
    w = sj.shared([1j, 2.0], "w")
    assert repr(w) == "<shared w: complex128(2)>" and w.dtype == "complex128"
    assert w.get_value().dtype == np.complex128
    f = sj.function([], [w, (w * w).sum()], updates={w: w * 1j}, mode="reference")
    first, total = f()
    np.testing.assert_array_equal(first, [1j, 2])
    assert total == 3
    np.testing.assert_array_equal(w.get_value(), [-1, 2j])
    w.set_value([5, 6])
    np.testing.assert_array_equal(w.get_value(borrow=True), [5, 6])
    assert not w.get_value(borrow=True).flags.owndata and w.get_value().dtype == np.complex128
    with pytest.raises(sj.ShapeError, match="dimension 0"):
        w.set_value([1j])
    again = pickle.loads(pickle.dumps(w))
    np.testing.assert_array_equal(again.get_value(), [5, 6])
    g = sj.function([], sj.grad((abs(w) ** 2).sum(), w), mode="reference")
    np.testing.assert_allclose(g(), [10, 12])
    _, updates = sj.scan(lambda: {w: w * 1j}, n_steps=3, return_updates=True)
    sj.function([], updates=updates, mode="reference")()
    np.testing.assert_allclose(w.get_value(), [-5j, -6j])
    with pytest.raises(sj.DtypeError, match="does not fit"):
        sj.function([], updates={sj.shared(1.0): w.sum()})


def test_jit_takes_complex_arrays_and_numbers() -> None:
    f = sj.jit(lambda z, x, n: {"a": z * x + n, "b": np.real(z)}, mode="reference")
    found = f(np.array([1 + 1j], np.complex64), np.float32([2]), 1j)
    assert found["a"].dtype == np.complex64 and found["b"].dtype == np.float32
    np.testing.assert_array_equal(found["a"], [2 + 3j])
    assert f(1j, 2.0, 1)["a"] == 1 + 2j
    nested = sj.jit(lambda p: p["z"][0] * p["c"], mode="reference")
    assert nested({"z": [np.array([1j, 2])], "c": 2j})[0] == -2


def test_a_size_is_known_of_one_part_alone() -> None:
    """The gradient of a part that nothing needs is zeros of the size of `z`; that of the other has the size of `x`."""
    z, x = sj.tensor(("n",), "complex128", "z"), sj.tensor((3,), name="x")
    gradients = [sj.grad((part * x).sum(), z) for part in (np.real(z), np.imag(z))]
    assert [g.type.shape for g in gradients] == [(3,), (3,)]
    found = sj.function([z, x], gradients, mode="reference")(np.ones(3) * 1j, [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(found, [[1, 2, 3], [1j, 2j, 3j]])


def test_value_and_grad_of_complex_parameters(rng: np.random.Generator) -> None:
    a, b = sampled(rng, (3,)), rng.normal(size=3)

    def cost(p: Any) -> Any:
        return np.abs(np.exp(p["a"] * p["b"]) - 2j).sum() + np.real(p["a"][0])

    value, slopes = sj.value_and_grad(cost, mode="reference")({"a": a, "b": b})
    assert np.isclose(value, cost({"a": a, "b": b}))
    np.testing.assert_allclose(slopes["a"], slope(lambda a: cost({"a": a, "b": b}), a), 1e-6)
    assert slopes["a"].dtype == np.complex128 and slopes["b"].dtype == np.float64


def test_givens_replace_complex_symbols() -> None:
    z, y = sj.vector("z", dtype="complex128"), sj.vector("y", dtype="complex128")
    f = sj.function([y], z * 2, givens={z: y + 1j}, mode="reference")
    np.testing.assert_array_equal(f([1.0]), [2 + 2j])
    assert sj.function([], z.sum(), givens={z: [1j, 2]}, mode="reference")() == 2 + 1j


def test_files_and_pickles(tmp_path: Path) -> None:
    z, w = sj.matrix("z", dtype="complex64"), sj.shared(np.complex64([[2j]]), "w")
    f = sj.function([z], {"y": (z * w, z.real)}, updates={w: w * 2}, mode="reference")
    value = np.complex64([[1 + 1j]])
    f.save(tmp_path / "f.sj")
    for g in (sj.load(tmp_path / "f.sj"), pickle.loads(pickle.dumps(f))):
        y, real = g(value)["y"]
        assert y.dtype == np.complex64 and y[0, 0] == -2 + 2j and real[0, 0] == 1
        assert g.shared[0].get_value()[0, 0] == 4j
        assert repr(g) == repr(f)


def test_wrong_functions() -> None:
    z = sj.vector("z", dtype="complex128")
    with pytest.raises(sj.ArgumentError, match="input 0 is not a symbol"):
        sj.function([z * 2], z)
    with pytest.raises(sj.ArgumentError, match="needs a value for 'z'"):
        sj.function([], z.sum())
    with pytest.raises(sj.ArgumentError, match="inputs 0 and 1 are the same symbol"):
        sj.function([z, z], z)


def test_export_to_numpy(tmp_path: Path) -> None:
    z, w = sj.tensor(("n", 2), "complex64", "z"), sj.shared([1j, 2.0], "w")
    states = sj.scan(lambda row, h: 0.5j * h + row, z, np.zeros(2, np.complex64))
    f = sj.function([z], {"states": states, "products": (z * w, z.real), "z": z}, name="f", updates={w: w + 1})
    module = exported(f, tmp_path)
    value = sampled(np.random.default_rng(0), (5, 2), "complex64")
    for _ in range(2):
        expected, found = f(value), module.model(value)
        for name in ("states", "z"):
            assert found[name].dtype == np.complex64
            np.testing.assert_allclose(found[name], expected[name], 1e-6, 1e-6)
        np.testing.assert_allclose(found["products"][0], expected["products"][0], 1e-6)
    with pytest.raises(TypeError, match="z must be an array of complex64, got complex128"):
        module.model(value.astype(complex))


def test_torch_calls_it_with_its_own_convention(rng: np.random.Generator) -> None:
    torch = pytest.importorskip("torch")

    def cost(z: Any, x: Any, exp: Any) -> Any:
        return abs(exp(z * x) - 2j).sum(), z * x

    f = sj.torch.as_function(lambda z, x: cost(z, x, np.exp), mode="reference")
    z, x = (torch.tensor(value, requires_grad=True) for value in (sampled(rng, (3,)), rng.normal(size=3)))
    value, product = f(z, x)
    (value + product.real.sum()).backward()
    found = z.grad.numpy().copy(), x.grad.numpy().copy()
    z.grad = x.grad = None
    expected, other = cost(z, x, torch.exp)
    (expected + other.real.sum()).backward()
    assert product.dtype == torch.complex128
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(product, other)
    np.testing.assert_allclose(found[0], z.grad.numpy())
    np.testing.assert_allclose(found[1], x.grad.numpy())
    torch.testing.assert_close(f(z.conj(), x)[1], z.conj() * x)
