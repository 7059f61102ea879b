"""The array API standard: docs/reference/array_api.md says what is here, and what is here gives what NumPy gives.

After a deliberate change, run `SCANJIT_UPDATE_GOLDEN=1 python -m pytest tests/test_array_api.py`.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from scanjit.tensor import standard
from tests.ops.support import run, same

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "array_api.md"
XP = sj.vector().__array_namespace__()
MAIN = [name for section, names in standard.NAMES.items() if section not in ("linalg", "fft") for name in names.split()]


def module(section: str, xp: Any) -> Any:
    """Where the functions of a section are."""
    return getattr(xp, section) if section in ("linalg", "fft") else xp


def row(section: str, name: str) -> str:
    function = getattr(module(section, XP), name, None)
    own = (
        None
        if function is None
        else next((n for n in (name, standard.OTHERWISE.get(name)) if hasattr(sj, n or "")), None)
    )
    if function is None:
        sized = name in standard.VALUE_DECIDES and hasattr(sj, name)
        return (
            f"| `{name}` | " + ("with a size: `sj." + name + "`" if sized else f"no: {standard.NOT_HERE[name]}") + " |"
        )
    return f"| `{name}` | " + (f"yes, `sj.{own}`" if own == name else f"yes: `sj.{own}`" if own else "yes") + " |"


def page() -> str:
    every = [(section, name) for section, names in standard.NAMES.items() for name in names.split()]
    count = sum(hasattr(module(section, XP), name) for section, name in every)
    tables = [
        f"## {section}\n\n| The standard's name | Here |\n|---|---|\n"
        + "\n".join(row(section, name) for name in names.split())
        for section, names in standard.NAMES.items()
    ]
    return (
        "# The array API standard\n\n"
        f"`x.__array_namespace__()` of a symbol `x` has the functions of the [Python array API standard]"
        f"(https://data-apis.org/array-api/) {XP.__array_api_version__} that are here, by the standard's names: "
        f"{count} of {len(every)}. Compiled code gives NumPy's numbers for all {len(compared())} of them that compute "
        "something (the others, such as `finfo`, need no symbols). Code that asks an array for its namespace builds "
        "graphs from symbols:\n\n"
        "```python\nimport scanjit as sj\n\n\ndef softmax(x):\n    xp = x.__array_namespace__()\n"
        "    e = xp.exp(x - xp.max(x, axis=-1, keepdims=True))\n    return e / xp.sum(e, axis=-1, keepdims=True)\n\n\n"
        'x = sj.matrix("x")\nf = sj.function([x], softmax(x))\n```\n\n'
        "Without `dtype`, new arrays of floats have the dtype `sj.config.floatX`. "
        "Symbols have no values while a graph is built. So `bool(x)` and `int(x)` raise an error, and a function whose "
        "result has a size that values decide takes the size. A test makes this page and compares each function with "
        "NumPy's.\n\n" + "\n\n".join(tables) + "\n"
    )


def test_the_page_says_what_is_here() -> None:
    if os.environ.get("SCANJIT_UPDATE_GOLDEN"):
        PAGE.write_text(page())
    assert PAGE.read_text() == page()


# ---- beside NumPy ----------------------------------------------------------------------------------------------------

RNG = np.random.default_rng(0)
SHAPES = [((), ()), ((5,), (5,)), ((0,), (1,)), ((2, 3), (3,)), ((2, 1), (1, 4))]
WHOLE = "bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor bitwise_invert".split()
ELEMENTWISE = [n for n in standard.NAMES["Elementwise"].split() if hasattr(XP, n)]
LOGICAL = "logical_and logical_or logical_xor logical_not".split()
FLOATING = (
    "acos acosh asin asinh atan atan2 atanh copysign cos cosh divide exp expm1 hypot log log10 log1p log2 logaddexp "
    "reciprocal signbit sin sinh sqrt tan tanh"
).split()
"""Functions that the standard defines for floats alone."""
UNCHECKED = set("clip conj imag real".split())
"""Elementwise functions that have a case of their own below."""


def dtypes(name: str) -> list[str]:
    if name in LOGICAL:
        return ["bool"]
    return ["int32", "int64", "uint8"] if name in WHOLE else ["float32", "float64"] + ["int64"] * (name not in FLOATING)


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise(name: str) -> None:
    theirs = getattr(np, name)
    operands = getattr(theirs, "nin", 1)
    for dtype in dtypes(name) if name not in UNCHECKED else ["float64"]:
        for shapes in SHAPES:
            arrays = [(RNG.normal(size=shape) * 3).astype(dtype) for shape in shapes[:operands]]
            if dtype == "uint8" or "shift" in name:
                arrays = [abs(a) for a in arrays]
            if np.dtype(dtype).kind in "iu" and operands == 2:
                arrays[1] = arrays[1] | arrays[1].dtype.type(1)  # what integers give by 0 is not in the standard
            if name == "pow":
                arrays[0], arrays[1] = abs(arrays[0]), abs(arrays[1])
            args = (*arrays, *((-1, 2) if name == "clip" else ()))
            with np.errstate(all="ignore"):
                expected = theirs(*args)
                got = run(lambda *nodes, rest=args[operands:]: getattr(XP, name)(*nodes, *rest), *arrays)
            tolerance = 1e-6 if dtype == "float32" else 1e-14
            same(got, expected, tolerance, tolerance)


X = RNG.normal(size=(3, 4))
S = RNG.normal(size=(2, 3, 3)) + 3 * np.eye(3)
CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "arange": (lambda xp, x: x + xp.arange(1, 9, 2, dtype=x.dtype), (X,)),
    "eye": (lambda xp, x: x + xp.eye(3, 4, k=1), (X,)),
    "full": (lambda xp, x: x + xp.full((3, 4), 7.0), (X,)),
    "full_like": (lambda xp, x: xp.full_like(x, 2.0), (X,)),
    "linspace": (lambda xp, x: x + xp.linspace(0.0, 1.0, 4), (X,)),
    "meshgrid": (lambda xp, x: list(xp.meshgrid(x[0], x[:, 0], indexing="ij")), (X,)),
    "ones": (lambda xp, x: x + xp.ones((3, 4)), (X,)),
    "ones_like": (lambda xp, x: xp.ones_like(x), (X,)),
    "empty": (lambda xp, x: x + 0 * xp.empty((3, 4)) if xp is XP else x, (X,)),
    "empty_like": (lambda xp, x: x + 0 * xp.empty_like(x) if xp is XP else x, (X,)),
    "tril": (lambda xp, x: xp.tril(x, k=-1), (X,)),
    "triu": (lambda xp, x: xp.triu(x, k=1), (X,)),
    "zeros": (lambda xp, x: x + xp.zeros((3, 4)), (X,)),
    "zeros_like": (lambda xp, x: xp.zeros_like(x), (X,)),
    "asarray": (lambda xp, x: xp.asarray(x), (X,)),
    "astype": (lambda xp, x: xp.astype(x, xp.float32), (X,)),
    "take": (lambda xp, x: xp.take(x, xp.asarray([2, 0]), axis=1), (X,)),
    "take_along_axis": (lambda xp, x: xp.take_along_axis(x, xp.asarray([[1], [0], [3]]), axis=1), (X,)),
    "matmul": (lambda xp, x: xp.matmul(x, xp.matrix_transpose(x)), (X,)),
    "matrix_transpose": (lambda xp, x: xp.matrix_transpose(x), (X,)),
    "tensordot": (lambda xp, x: xp.tensordot(x, x, axes=((0,), (0,))), (X,)),
    "vecdot": (lambda xp, x: xp.vecdot(x, x, axis=0), (X,)),
    "broadcast_arrays": (lambda xp, x: list(xp.broadcast_arrays(x, x[:1])), (X,)),
    "broadcast_to": (lambda xp, x: xp.broadcast_to(x, (2, 3, 4)), (X,)),
    "concat": (lambda xp, x: xp.concat((x, x), axis=1), (X,)),
    "expand_dims": (lambda xp, x: xp.expand_dims(x, axis=1), (X,)),
    "flip": (lambda xp, x: xp.flip(x, axis=1), (X,)),
    "moveaxis": (lambda xp, x: xp.moveaxis(x, 0, 1), (X,)),
    "permute_dims": (lambda xp, x: xp.permute_dims(x, (1, 0)), (X,)),
    "repeat": (lambda xp, x: xp.repeat(x, 2, axis=1), (X,)),
    "reshape": (lambda xp, x: xp.reshape(x, (2, 6)), (X,)),
    "roll": (lambda xp, x: xp.roll(x, 1, axis=0), (X,)),
    "squeeze": (lambda xp, x: xp.squeeze(x[:1], axis=0), (X,)),
    "stack": (lambda xp, x: xp.stack((x, x), axis=-1), (X,)),
    "tile": (lambda xp, x: xp.tile(x, (2, 1)), (X,)),
    "unstack": (lambda xp, x: list(xp.unstack(x, axis=1)), (X,)),
    "where": (lambda xp, x: xp.where(x > 0, x, -1.0), (X,)),
    "count_nonzero": (lambda xp, x: xp.count_nonzero(x > 0, axis=1), (X,)),
    "cumulative_prod": (lambda xp, x: xp.cumulative_prod(x, axis=1), (X,)),
    "cumulative_sum": (lambda xp, x: xp.cumulative_sum(x, axis=1, include_initial=True), (X,)),
    "std": (lambda xp, x: xp.std(x, axis=0, correction=1.0), (X,)),
    "var": (lambda xp, x: xp.var(x, axis=1, correction=1.0, keepdims=True), (X,)),
    "diff": (lambda xp, x: xp.diff(x, axis=0, n=2), (X,)),
    "all": (lambda xp, x: xp.all(x > -1, axis=0), (X,)),
    "any": (lambda xp, x: xp.any(x > 1, axis=1, keepdims=True), (X,)),
    **{
        name: (lambda xp, x, name=name: getattr(xp, name)(x, axis=1, keepdims=True), (X,))
        for name in ("argmax", "argmin", "max", "mean", "min", "prod", "sum")
    },
    "argsort": (lambda xp, x: xp.argsort(x, axis=0), (X,)),
    "searchsorted": (lambda xp, x: xp.searchsorted(xp.asarray([-1.0, 0.0, 1.0]), x), (X,)),
    "sort": (lambda xp, x: xp.sort(x, axis=1), (X,)),
}
A = S @ S.mT
EXTENSIONS: dict[str, Callable[..., Any]] = {
    "linalg.cholesky": lambda xp, a: xp.linalg.cholesky(a[0] @ a[0].T),
    "linalg.cross": lambda xp, a: xp.linalg.cross(a[0], a[1]),
    "linalg.det": lambda xp, a: xp.linalg.det(a),
    "linalg.diagonal": lambda xp, a: xp.linalg.diagonal(a, offset=1),
    "linalg.eigh": lambda xp, a: xp.linalg.eigh(a[0] + a[0].T)[0],
    "linalg.eigvalsh": lambda xp, a: xp.linalg.eigvalsh(a[0] + a[0].T),
    "linalg.qr": lambda xp, a: xp.linalg.qr(a)[1],
    "linalg.svd": lambda xp, a: xp.linalg.svd(a, full_matrices=False)[1],
    "linalg.svdvals": lambda xp, a: xp.linalg.svdvals(a),
    "linalg.pinv": lambda xp, a: xp.linalg.pinv(a),
    "linalg.matrix_rank": lambda xp, a: xp.linalg.matrix_rank(a),
    "linalg.inv": lambda xp, a: xp.linalg.inv(a),
    "linalg.matmul": lambda xp, a: xp.linalg.matmul(a, a),
    "linalg.matrix_power": lambda xp, a: xp.linalg.matrix_power(a[0], 3),
    "linalg.matrix_transpose": lambda xp, a: xp.linalg.matrix_transpose(a),
    "linalg.outer": lambda xp, a: xp.linalg.outer(a[0, 0], a[0, 1]),
    "linalg.slogdet": lambda xp, a: list(xp.linalg.slogdet(a)),
    "linalg.solve": lambda xp, a: xp.linalg.solve(a[0], a[1]),
    "linalg.tensordot": lambda xp, a: xp.linalg.tensordot(a, a, axes=((1,), (2,))),
    "linalg.trace": lambda xp, a: xp.linalg.trace(a),
    "linalg.vecdot": lambda xp, a: xp.linalg.vecdot(a, a),
    "linalg.vector_norm": lambda xp, a: xp.linalg.vector_norm(a, axis=-1, ord=1),
    "fft.fft": lambda xp, a: xp.abs(xp.fft.fft(a, axis=1)),
    "fft.ifft": lambda xp, a: xp.abs(xp.fft.ifft(a)),
    "fft.rfft": lambda xp, a: xp.abs(xp.fft.rfft(a)),
    "fft.fftfreq": lambda xp, a: xp.fft.fftfreq(5, d=0.5) + a[0, 0, 0],
    "fft.rfftfreq": lambda xp, a: xp.fft.rfftfreq(6, d=0.5) + a[0, 0, 0],
    "fft.fftshift": lambda xp, a: xp.fft.fftshift(a),
    "fft.ifftshift": lambda xp, a: xp.fft.ifftshift(a, axes=(1, 2)),
    "fft.irfft": lambda xp, a: xp.fft.irfft(a, n=4),
    "fft.fftn": lambda xp, a: xp.abs(xp.fft.fftn(a)),
    "fft.ifftn": lambda xp, a: xp.abs(xp.fft.ifftn(a, axes=(1, 2))),
    "fft.rfftn": lambda xp, a: xp.abs(xp.fft.rfftn(a, s=(3, 4), axes=(0, 2))),
    "fft.irfftn": lambda xp, a: xp.fft.irfftn(a),
    "fft.hfft": lambda xp, a: xp.fft.hfft(a),
    "fft.ihfft": lambda xp, a: xp.abs(xp.fft.ihfft(a)),
    "linalg.matrix_norm": lambda xp, a: xp.linalg.matrix_norm(a, ord="nuc", keepdims=True),
}
CASES |= {name: (function, (A,)) for name, function in EXTENSIONS.items()}
WITHOUT_SYMBOLS = {"can_cast", "finfo", "iinfo", "isdtype", "result_type"}


@pytest.mark.quick(46)
@pytest.mark.parametrize("name", [name for name in CASES if "." in name or hasattr(XP, name)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_beside_numpy(name: str, dtype: str) -> None:
    function, arrays = CASES[name]
    arrays = tuple(a.astype(dtype) for a in arrays)
    expected = function(np, *arrays)
    symbols = [sj.tensor(a.shape, dtype) for a in arrays]
    in_generated_code = sj.function(symbols, function(XP, *symbols), mode="emulate")(*arrays)
    for result in (run(lambda *nodes: function(XP, *nodes), *arrays), in_generated_code):
        for ours, theirs in zip(*([v] if not isinstance(v, list) else v for v in (result, expected)), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-5 if dtype == "float32" else 1e-13)
            assert ours.shape == theirs.shape


@pytest.mark.quick(23)
@pytest.mark.parametrize("name", [name for name in CASES if "." in name or hasattr(XP, name)])
def test_generated_code(name: str) -> None:
    """In both floating types at once. Each op that they are made of is compiled in tests of the compiler."""
    function, arrays = CASES[name]
    given = [a.astype(dtype) for dtype in ("float32", "float64") for a in arrays]
    symbols = [sj.tensor(a.shape, a.dtype) for a in given]
    half = len(arrays)
    expected = [function(np, *given[:half]), function(np, *given[half:])]
    found = sj.function(symbols, [function(XP, *symbols[:half]), function(XP, *symbols[half:])], mode="emulate")(*given)
    for one, other, close in zip(found, expected, (1e-5, 1e-12), strict=True):
        for ours, theirs in zip(*([v] if not isinstance(v, list) else v for v in (one, other)), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=close)
            assert ours.shape == theirs.shape


@pytest.mark.quick(3)
@pytest.mark.parametrize("dtype", ["bool", "int32", "int64", "uint8", "float32", "float64"])
def test_elementwise_compiled(dtype: str) -> None:
    """All functions at once, of rows of a size that is not known before."""
    names = [n for n in ELEMENTWISE if dtype in dtypes(n) and n not in UNCHECKED]
    arrays = [(abs(RNG.normal(size=(2, 37))) * 2 + 1).astype(dtype) for _ in range(2)]
    symbols = [sj.tensor((2, "n"), dtype) for _ in arrays]
    counts = {name: getattr(getattr(np, name), "nin", 1) for name in names}
    f = sj.function(symbols, {name: getattr(XP, name)(*symbols[:n]) for name, n in counts.items()})
    with np.errstate(all="ignore"):
        for name, ours in f(*arrays).items():
            theirs = getattr(np, name)(*arrays[: counts[name]])
            same(ours, theirs, *(1e-6 if dtype == "float32" else 1e-14,) * 2)


def compared() -> set[str]:
    """The functions that are compared with NumPy's in compiled code."""
    return {name for name in CASES if "." in name or hasattr(XP, name)} | set(ELEMENTWISE)


def test_every_function_is_compared() -> None:
    every = {name for name in MAIN if hasattr(XP, name)}
    for part in ("linalg", "fft"):
        every |= {f"{part}.{n}" for n in standard.NAMES[part].split() if hasattr(getattr(XP, part), n)}
    assert every - compared() == WITHOUT_SYMBOLS


def test_dtypes() -> None:
    x = sj.vector("x", dtype="float32")
    assert XP.result_type(x, 1) == XP.result_type(x, XP.int8) == XP.float32
    assert XP.can_cast(x, XP.float64) and not XP.can_cast(x, XP.int64)
    assert XP.finfo(x).bits == 32 and XP.iinfo(XP.int8).max == 127
    assert XP.isdtype(x.dtype, "real floating")


def test_what_the_namespace_says_of_itself() -> None:
    """Its answers are those of NumPy, with the dtypes that are here."""
    info, theirs = XP.__array_namespace_info__(), np.__array_namespace_info__()
    assert info.capabilities().keys() == theirs.capabilities().keys()
    assert info.default_device() in info.devices() == list(theirs.devices())
    assert info.default_dtypes(device="cpu") == theirs.default_dtypes()
    for kind in (None, "bool", "signed integer", ("real floating", "complex floating"), "numeric"):
        assert info.dtypes(kind=kind) == {n: d for n, d in theirs.dtypes(kind=kind).items() if hasattr(XP, n)}
    with pytest.raises(sj.ArgumentError, match="on one device"):
        info.dtypes(device="cuda")


@pytest.mark.parametrize(("real", "pair"), [("float64", "complex128"), ("float32", "complex64")])
def test_default_dtypes_are_those_of_new_arrays(real: str, pair: str) -> None:
    with sj.config.using(floatX=real):
        defaults = XP.__array_namespace_info__().default_dtypes()
        assert (defaults["real floating"], defaults["complex floating"]) == (real, pair)
        made = [XP.zeros(2), XP.ones(2), XP.empty(2), XP.eye(2), XP.full(2, 0.5), XP.asarray(0.5), XP.asarray([0.5, 1])]
        made += [XP.arange(0.5), XP.arange(0, 1, 0.5), XP.linspace(0, 1, 3), XP.fft.fftfreq(4), XP.fft.rfftfreq(4)]
        made += [sj.logspace(0, 1, 3), sj.geomspace(1, 2, 3), XP.asarray([])]
        assert {x.dtype for x in made} == {defaults["real floating"]}
        assert {x.dtype for x in (XP.asarray([1j]), XP.full(2, 1j), XP.linspace(0, 1j, 3))} == {np.dtype(pair)}
        assert {x.dtype for x in (XP.asarray([1, 2]), XP.full(2, 1), XP.arange(3))} == {defaults["integral"]}
        assert {XP.asarray(np.float64(1)).dtype, XP.full(2, np.ones(2)).dtype, XP.asarray([np.ones(1)]).dtype} == {
            np.dtype("float64")
        }


def test_versions() -> None:
    x = sj.vector("x")
    assert x.__array_namespace__(api_version="2023.12") is XP
    with pytest.raises(sj.ArgumentError, match="this version of the array API standard is not supported"):
        x.__array_namespace__(api_version="1999.12")
    with pytest.raises(sj.ArgumentError, match="one must be named"):
        XP.cumulative_sum(sj.matrix("x"))


def test_a_device_and_copies() -> None:
    """There is one device, and symbols are never copied."""
    x = sj.matrix("x")
    assert XP.zeros((2, 3), device="cpu") is XP.zeros((2, 3)) is XP.empty((2, 3), device=None)
    with pytest.raises(sj.ArgumentError, match="on one device"):
        XP.zeros((2, 3), device="cuda")
    assert XP.asarray(x, copy=True, device=None) is XP.astype(x, x.dtype, copy=False) is x
    assert XP.reshape(x, (-1,), copy=None) is x.reshape(-1)
    assert x.mT is XP.matrix_transpose(x)
