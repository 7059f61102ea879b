"""Each function of complex numbers beside NumPy's: values, dtypes, gradients, errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from scanjit.ir import COMPLEX, OPS
from tests.complex_numbers.support import sampled

ELEMENTWISE: dict[str, Callable[..., Any]] = {
    name: getattr(np, name)
    for name in (
        "negative positive absolute sign sqrt exp exp2 expm1 log log2 log10 log1p sin cos tan arcsin arccos arctan "
        "sinh cosh tanh square reciprocal conj conjugate isnan isinf isfinite logical_not real imag angle"
    ).split()
}
PAIRS: dict[str, Callable[..., Any]] = {
    name: getattr(np, name) for name in "add subtract multiply divide power equal not_equal".split()
}
SHAPED: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda a, b: np.sum(a, axis=0),
    "mean": lambda a, b: np.mean(a, axis=1, keepdims=True),
    "var": lambda a, b: np.var(a, axis=0),
    "std": lambda a, b: np.std(a),
    "prod of two": lambda a, b: a[0] * b[1],
    "norm": lambda a, b: np.linalg.norm(a, axis=0),
    "matmul": lambda a, b: a @ b.T,
    "dot": lambda a, b: np.dot(a, b[0]),
    "vdot": lambda a, b: np.vdot(a, b),
    "outer": lambda a, b: np.outer(a[0], b[0]),
    "inner": lambda a, b: np.inner(a, b),
    "einsum": lambda a, b: np.einsum("ij,kj->ik", a, b),
    "tensordot": lambda a, b: np.tensordot(a, b, 2),
    "kron": lambda a, b: np.kron(a[0], b[0]),
    "round": lambda a, b: np.round(a),
    "round to decimals": lambda a, b: np.round(a, 1),
    "interp": lambda a, b: np.interp([-0.1, 0.2, 9.0], np.sort(a[0].real), a[0]),
    "interp outside": lambda a, b: np.interp([-9.0, 9.0], np.sort(a[0].real), a[0], left=2.0, right=3j),
    "trace": lambda a, b: np.trace(a),
    "transpose": lambda a, b: a.T,
    "reshape": lambda a, b: np.reshape(a, (-1,)),
    "concatenate": lambda a, b: np.concatenate([a, b], axis=1),
    "stack": lambda a, b: np.stack([a, b.real]),
    "where": lambda a, b: np.where(a.real > 0, a, b),
    "where real": lambda a, b: np.where(a.real > 0, a, 1.0),
    "flip": lambda a, b: np.flip(a, 1),
    "roll": lambda a, b: np.roll(a, 2, axis=1),
    "take": lambda a, b: np.take(a, np.array([2, 0]), axis=1),
    "slice": lambda a, b: a[1:, ::-1],
    "gather": lambda a, b: a[np.array([1, 0]), np.array([2, 2])],
    "mixed": lambda a, b: 2 * a + b / 3 - 1j * a * b.real + (1 - 2j),
    "from the left": lambda a, b: 1j / a + (2 - a) ** 2 + 2.0**a,
    "by imaginary numbers": lambda a, b: a / (1j * b.real) + b.real / (2j * a.imag),
    "tril": lambda a, b: np.tril(a),
    "pad": lambda a, b: np.pad(a, 1),
    "repeat": lambda a, b: np.repeat(a, 2, axis=0),
    "zeros_like": lambda a, b: np.zeros_like(a) + np.ones_like(b),
    "any": lambda a, b: np.any(a, axis=0),
    "cumsum": lambda a, b: np.cumsum(a, axis=1),
    "prod": lambda a, b: np.prod(a, axis=0),
    "prod of all": lambda a, b: np.prod(a),
    "prod kept": lambda a, b: np.prod(a, axis=(1,), keepdims=True),
    "prod of nothing": lambda a, b: np.prod(a[:0], axis=0),
    "cumprod": lambda a, b: np.cumprod(a, axis=0),
}


def everything(a: Any, b: Any) -> dict[str, Any]:
    found = {name: function(a) for name, function in ELEMENTWISE.items()}
    found |= {name: function(a, b) for name, function in PAIRS.items()}
    return found | {name: function(a, b) for name, function in SHAPED.items()}


@pytest.mark.quick(2)
@pytest.mark.parametrize("dtype, close", [("complex128", 1e-12), ("complex64", 2e-5)])
@pytest.mark.parametrize("mode", ["reference", "numba"])
def test_functions_are_those_of_numpy(dtype: str, close: float, mode: Any, rng: np.random.Generator) -> None:
    a, b = sampled(rng, (5, 7), dtype), sampled(rng, (5, 7), dtype)
    b[0, :3] = a[0, :3]
    symbols = [sj.tensor(("n", "m"), dtype, name) for name in "ab"]
    found = sj.function(symbols, everything(*symbols), mode=mode)(a, b)
    for name, expected in everything(a, b).items():
        assert found[name].dtype == expected.dtype, name
        np.testing.assert_allclose(found[name], expected, close, close, err_msg=name)


def test_large_small_and_special_numbers() -> None:
    """Nothing between overflows, and zeros, infinities and NaN are what they are in NumPy."""
    z = np.array(
        [1e200 + 1e200j, 1e-200 - 1e-200j, 3e300, 4e-320j, -1e200j, -2.0, 0.0, 800 + 1j, -800 - 1j, -0.25 + 0j]
    )
    names = ["absolute", "sqrt", "log", "angle", "reciprocal", "tanh", "sign"]
    f = sj.jit(lambda z: {name: getattr(np, name)(z) for name in names}, mode="reference")
    with np.errstate(all="ignore"):
        for name, found in f(z).items():
            expected = getattr(np, name)(z)
            finite = np.isfinite(expected)
            np.testing.assert_allclose(found[finite], expected[finite], 1e-12, err_msg=name)
    with_nan = np.array([np.nan + 2j, 1 - 1j * np.inf, 3.0])
    replaced = sj.jit(lambda z: np.nan_to_num(z, nan=7.0), mode="reference")(with_nan)
    np.testing.assert_array_equal(replaced, np.nan_to_num(with_nan, nan=7.0))
    odd = np.array([np.nan + 1j, 1 + 1j * np.nan, np.inf + 0j, 1 - 1j * np.inf])
    g = sj.jit(lambda z: [np.isnan(z), np.isinf(z), np.isfinite(z), abs(z)], mode="reference")
    np.testing.assert_equal(g(odd), (np.isnan(odd), np.isinf(odd), np.isfinite(odd), np.abs(odd)))


PARTS = [0.0, -0.0, 0.5, -3.0, 1000.0, np.inf, -np.inf]
WITH_LIMITS = "exp exp2 sin cos sinh cosh tan tanh sqrt log arcsin arccos arctan arcsinh arccosh arctanh".split()


@pytest.mark.parametrize("mode", ["reference", "emulate"])
def test_infinite_parts(mode: Any) -> None:
    """The limits are NumPy's; what overflows without an angle is no NaN (`exp(1000 + 0j)`). The C standard leaves
    the sign of an infinite part open where the other part is NaN."""
    z = np.array([complex(x, y) for x in PARTS for y in PARTS])
    f = sj.jit(lambda z: [getattr(np, name)(z) for name in WITH_LIMITS], mode=mode)
    with np.errstate(all="ignore"):
        for name, found in zip(WITH_LIMITS, f(z), strict=True):
            expected = getattr(np, name)(z)
            for part in (np.real, np.imag):
                ours, theirs = (np.where(np.isnan(w) & np.isinf(w), abs(part(w)), part(w)) for w in (found, expected))
                np.testing.assert_allclose(ours, theirs, 1e-12, 1e-12, err_msg=name)


def test_limits_that_numpy_lacks() -> None:
    """`expm1` has those of `exp`."""
    z = np.array([complex(x, y) for x, y in ((np.inf, 0), (1000, 0), (-np.inf, np.inf), (np.inf, np.inf))])
    found = sj.jit(np.expm1, mode="reference")(z)
    np.testing.assert_array_equal(found.real, [np.inf, np.inf, -1, np.inf])
    np.testing.assert_array_equal(found.imag, [0, 0, 0, np.nan])


def test_gradients_beside_limits() -> None:
    """The guards of the limits change no slope: where an angle or a size is exactly zero, too."""
    z = np.array([0j, 0.5 + 0j, 0.5j, -1.5 + 0j])
    sj.check_grad(
        lambda z: [np.exp(z), np.expm1(z), np.sinh(z), np.cosh(z), np.tanh(z), np.sin(z), np.arctanh(z / 3)],
        [z],
        order=2,
    )


DIFFERENTIABLE = [
    *(name for name in ELEMENTWISE if name not in ("sign", "isnan", "isinf", "isfinite", "logical_not")),
    *(name for name in PAIRS if "equal" not in name),
    *(name for name in SHAPED if name not in ("zeros_like", "any")),
]


def test_gradients_of_all_functions_are_those_of_their_parts(rng: np.random.Generator) -> None:
    a, b = sampled(rng, (2, 3)), sampled(rng, (2, 3))

    def costs(a: Any, b: Any) -> Any:
        found = everything(a, b)
        return [found[name] for name in DIFFERENTIABLE]

    sj.check_grad(costs, [a, b], order=1)
    sj.check_grad(lambda a: [np.exp(a) / a, abs(a), np.log(a), np.sqrt(a), np.tanh(a)], [a], order=2)


REFUSED: dict[str, Callable[[Any], Any]] = {
    "less": lambda z: z < 1,
    "greater_equal": lambda z: z >= z,
    "maximum": lambda z: np.maximum(z, 0),
    "max": lambda z: z.max(),
    "sort": lambda z: sj.sort(z),
    "argmax": lambda z: z.argmax(),
    "clip": lambda z: z.clip(0, 1),
    "floor": lambda z: np.floor(z),
    "floordiv": lambda z: z // 2,
    "mod": lambda z: z % 2,
    "erf": lambda z: sj.erf(z),
    "and": lambda z: z & 1,
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_meaning_for_complex_numbers_says_so(name: str) -> None:
    with pytest.raises(sj.DtypeError, match=f"{name} is not defined for complex numbers") as found:
        REFUSED[name](sj.vector("z", dtype="complex128"))
    assert "sj.abs" in str(found.value)


def test_complex_numbers_where_others_are_wanted() -> None:
    z = sj.vector("z", dtype="complex64")
    with pytest.raises(sj.DtypeError, match="complex numbers are given where real ones are wanted"):
        z.astype("float32")
    with pytest.raises(sj.DtypeError, match="does not fit the dtype"):
        sj.zeros(3)[0].set(1j)
    with pytest.raises(sj.ArgumentError, match="are indices"):
        sj.vector("x")[z]
    with pytest.raises(sj.ArgumentError, match="a size must be an integer"):
        sj.zeros(z[0])
    with pytest.raises(sj.DtypeError, match="not supported"):
        sj.vector("z", dtype="complex256")
    assert z.astype("bool").dtype == bool and z.astype("complex128").dtype == np.complex128
    assert (z + np.float64(1)).dtype == np.complex64 or np.result_type(np.complex64, np.float64) == np.complex128


def test_dtypes_promote_as_in_numpy() -> None:
    for dtype in ("bool", "int8", "int64", "float32", "float64", "complex64", "complex128"):
        for other in ("complex64", "complex128"):
            x, z = sj.vector("x", dtype=dtype), sj.vector("z", dtype=other)
            expected = (np.zeros(1, dtype) * np.zeros(1, other)).dtype
            assert (x * z).dtype == (z * x).dtype == sj.stack([x, z]).dtype == expected
        assert (sj.vector("x", dtype=dtype) * 1j).dtype == (np.zeros(1, dtype) * 1j).dtype


def test_no_node_has_complex_numbers_as_an_argument() -> None:
    """All that works on graphs sees real numbers alone."""
    z = sj.matrix("z", dtype="complex128")
    roots = [part for value in everything(z, z).values() for part in (value.args if value.op is COMPLEX else [value])]
    assert all(node.op is not COMPLEX for node in sj.ir.walk(roots))


def test_linear_ops_take_complex_numbers() -> None:
    """An op that is linear needs no rule for them: it does the same with both parts."""
    linear = [op for op in OPS.values() if op.is_linear and op.of_complex is None]
    assert len(linear) > 8
    for op in linear:
        op.check_takes_complex(None)


def test_products_with_what_is_known_to_be_real_cost_two_multiplications() -> None:
    z, x = sj.vector("z", dtype="complex128"), sj.vector("x")
    for product in (z * x, z * 2, 1j * z, z / x, x * z):
        products = [node for node in sj.ir.walk(product.args) if node.op.name in ("mul", "div")]
        assert len(products) <= 2, sj.pprint(product)
    assert len([n for n in sj.ir.walk((z * z).args) if n.op.name == "mul"]) <= 4


@pytest.mark.quick(2)
@pytest.mark.parametrize("mode", ["reference", "numba"])
@pytest.mark.parametrize("n", [3, 12])
def test_systems_of_equations(mode: Any, n: int) -> None:
    rng = np.random.default_rng(n)
    a, b = sampled(rng, (2, n, n)) + n * np.eye(n), sampled(rng, (2, n, 4))
    symbols = [sj.tensor((2, n, n), "complex128"), sj.tensor((2, n, 4), "complex128")]

    def found(a: Any, b: Any) -> list[Any]:
        return [np.linalg.solve(a, b), np.linalg.solve(a[0], b[0, :, 0]), np.linalg.inv(a), np.linalg.solve(a.real, b)]

    results = sj.function(symbols, found(*symbols), mode=mode)(a, b)
    for result, expected in zip(results, found(a, b), strict=True):
        np.testing.assert_allclose(result, expected, 1e-10, 1e-10)
    if n == 3:
        sj.check_grad(lambda a, b: np.linalg.solve(a, b), [a[0], b[0]])
    with pytest.raises(sj.DtypeError, match="max is not defined for complex numbers"):
        np.max(symbols[0])


@pytest.mark.parametrize("mode", ["reference", "numba"])
def test_derivatives_of_products(mode: Any) -> None:
    """Where one element is zero, the products of the others are the gradient; of order 2; in a batch; in a step."""
    z = sj.tensor(("m", "n"), "complex128", "z")
    product = sj.prod(z, axis=1)
    (first,) = sj.grad(sj.real(product).sum(), [z])
    (second,) = sj.grad((sj.abs(first) ** 2).sum(), [z])
    steps = sj.scan(lambda row, h: h + sj.prod(row), z, sj.zeros((), "complex128"))
    f = sj.function([z], [product, first, second, sj.vmap(sj.prod)(z), steps], mode=mode)
    given = sampled(np.random.default_rng(2), (3, 4))
    given[1, 2] = given[2, 0] = given[2, 3] = 0
    torch = pytest.importorskip("torch")
    x = torch.tensor(given, requires_grad=True)
    total = x[:, 0] * x[:, 1] * x[:, 2] * x[:, 3]
    (slope,) = torch.autograd.grad(total.real.sum(), x, create_graph=True)
    (curve,) = torch.autograd.grad((slope.abs() ** 2).sum(), x)
    found = f(given)
    for got, wanted in zip(found, (total, slope, curve, total, total.cumsum(0)), strict=True):
        np.testing.assert_allclose(got, wanted.detach().numpy(), 1e-12, 1e-14)


@pytest.mark.quick(2)
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("mode", ["reference", "emulate"])
def test_products_of_rows_of_any_length(dtype: str, mode: str, rng: np.random.Generator) -> None:
    """Those of few numbers a row are computed side by side; none at all have the product 1."""
    for shape, axis in (((37,), None), ((0,), None), ((5, 3), 0), ((5, 40), 0), ((4, 18), 1), ((2, 3, 4), (0, 2))):
        a = np.exp(1j * rng.normal(size=shape)).astype(dtype)
        for sizes in (shape, ("a", "b", "c")[: len(shape)]):
            z = sj.tensor(sizes, dtype, "z")
            found = sj.function([z], sj.prod(z, axis=axis), mode=mode)(a)
            np.testing.assert_allclose(found, np.prod(a, axis=axis), rtol=1e-5 if dtype == "complex64" else 1e-13)


@pytest.mark.parametrize(
    ("function", "slope"),
    [
        (sj.sqrt, lambda z: 0.5 / np.sqrt(z)),
        (sj.arcsin, lambda z: 1 / (np.sqrt(1 - z) * np.sqrt(1 + z))),
        (sj.arccos, lambda z: -1 / (np.sqrt(1 - z) * np.sqrt(1 + z))),
        (sj.arccosh, lambda z: 1 / (np.sqrt(z - 1) * np.sqrt(z + 1))),
    ],
)
def test_gradients_beside_and_above_zero(function: Callable[[Any], Any], slope: Callable[[Any], Any]) -> None:
    """There, a part of the number or of its distance to 1 is zero."""
    given = np.array([2j, -0.5j, 1e-3j, 1 + 2j, 1 - 0.5j, -1 + 2j, -1 - 0.5j])
    z = sj.tensor(("n",), "complex128")
    for part, factor in ((sj.real, 1), (sj.imag, 1j)):
        found = sj.function([z], sj.grad(sj.sum(part(function(z))), z), mode="reference")(given)
        np.testing.assert_allclose(found, np.conj(slope(given)) * factor, 1e-12)
