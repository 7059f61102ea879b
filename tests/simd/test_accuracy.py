"""Errors of vector math against mpmath, in units in the last place, and the special cases."""

import itertools
from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np
import pytest

from scanjit.kinds import KINDS
from scanjit.simd import emulate, table

from .support import FLOATS, NATIVE, compiled, same, source_of, special_values


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + mp.exp(-x))


def _softplus(x: Any) -> Any:
    return max(x, 0) + mp.log1p(mp.exp(-abs(x)))


def _bessel(order: int, x: Any) -> Any:
    return mp.besseli(order, x) * mp.exp(-abs(x))


def _gammaln(x: Any) -> Any:
    """Far below 0 mpmath takes the logarithm of a product whose factors it knows to few digits."""
    if x > 0:
        return mp.loggamma(x)
    with mp.workdps(40 + max(0, int(mp.log10(-x)))):
        return mp.log(mp.pi / abs(x * mp.sinpi(x))) - mp.loggamma(-x)


def _many_digits(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(x: Any) -> Any:
        with mp.workdps(350):  # to reduce huge angles
            return function(x)

    return call


# name: (mpmath, dense range, domain as a predicate)
Everywhere = lambda x: True
ORACLES: dict[str, tuple[Callable[..., Any], tuple[float, float], Callable[[float], bool]]] = {
    "sqrt": (mp.sqrt, (0, 100), lambda x: x >= 0),
    "exp": (mp.exp, (-110, 95), Everywhere),
    "exp2": (lambda x: mp.mpf(2) ** x, (-160, 130), Everywhere),
    "expm1": (mp.expm1, (-5, 5), Everywhere),
    "tanh": (mp.tanh, (-10, 10), Everywhere),
    "sigmoid": (_sigmoid, (-20, 20), Everywhere),
    "sinh": (mp.sinh, (-10, 10), Everywhere),
    "cosh": (mp.cosh, (-10, 10), Everywhere),
    "log": (mp.log, (0.3, 3), lambda x: x > 0),
    "log1p": (mp.log1p, (-0.9, 3), lambda x: x > -1),
    "log2": (lambda x: mp.log(x) / mp.log(2), (0.3, 3), lambda x: x > 0),
    "log10": (lambda x: mp.log(x) / mp.log(10), (0.3, 3), lambda x: x > 0),
    "softplus": (_softplus, (-20, 20), Everywhere),
    "log_sigmoid": (lambda x: -_softplus(-x), (-20, 20), Everywhere),
    "sin": (_many_digits(mp.sin), (-20, 20), Everywhere),
    "cos": (_many_digits(mp.cos), (-20, 20), Everywhere),
    "tan": (_many_digits(mp.tan), (-20, 20), Everywhere),
    "erf": (mp.erf, (-6, 6), Everywhere),
    "erfc": (mp.erfc, (-3, 27), lambda x: x < 1e6),
    "gammaln": (_gammaln, (-20, 30), lambda x: x > 0 or x != np.floor(x)),
    "digamma": (mp.digamma, (0.01, 30), lambda x: 1e-300 < x < 1e300),
    "cbrt": (lambda x: mp.cbrt(abs(x)) * mp.sign(x), (-10, 10), Everywhere),
    "arcsin": (mp.asin, (-1, 1), lambda x: abs(x) <= 1),
    "arccos": (mp.acos, (-1, 1), lambda x: abs(x) <= 1),
    "arctan": (mp.atan, (-10, 10), Everywhere),
    "arcsinh": (mp.asinh, (-10, 10), Everywhere),
    "arccosh": (mp.acosh, (1, 10), lambda x: x >= 1),
    "arctanh": (mp.atanh, (-1, 1), lambda x: abs(x) < 1),
    "erfinv": (mp.erfinv, (-1, 1), lambda x: abs(x) < 1),
    "i0e": (lambda x: _bessel(0, x), (-30, 30), lambda x: abs(x) < 1e4),
    "i1e": (lambda x: _bessel(1, x), (-30, 30), lambda x: abs(x) < 1e4),
}
UNARY = [*ORACLES]


def points(name: str, kind: str, count: int = 500) -> np.ndarray:
    """Random bits, a dense range, many magnitudes, special values."""
    rng = np.random.default_rng(sum(map(ord, name)))
    dtype = KINDS[kind].dtype
    low, high = ORACLES[name][1]
    integer = f"u{dtype.itemsize}"
    random_bits = rng.integers(0, np.iinfo(integer).max, count, dtype=integer).view(dtype)
    magnitudes = rng.standard_normal(count) * 10 ** rng.uniform(-6, 3, count)
    wide = rng.uniform(-760, 720, count // 2)
    parts = [random_bits, rng.uniform(low, high, 2 * count), magnitudes, wide, special_values(kind)]
    with np.errstate(over="ignore"):
        result = np.concatenate([np.asarray(part).astype(dtype) for part in parts])
    return np.append(result, np.zeros(-len(result) % 64, dtype))


@pytest.fixture(scope="module", params=FLOATS)
def kernels(request: Any) -> tuple[str, dict[str, Callable[..., np.ndarray]]]:
    """Each function, compiled and emulated, from one generated file a dtype."""
    kind = request.param
    lanes, size = NATIVE[kind], KINDS[kind].size
    binary = ["pow", "arctan2", "fmod"]
    body = [f"for i in range(0, n * {size}, {lanes * size}):", f"    v = load_{kind}x{lanes}(x + i)"]
    for k, name in enumerate([*UNARY, *binary]):
        body.append("    if which == 0:".replace("0", str(k)))
        if name in binary:
            body.append(f"        store(y + i, {name}(v, load_{kind}x{lanes}(z + i)))")
        else:
            body.append(f"        store(y + i, {name}(v))")
    source = source_of([f"load_{kind}x{lanes}", "store", *UNARY, *binary], ["which", "x", "z", "y", "n"], body)
    kernel = compiled(source)
    memory = emulate.Allocations()
    result: dict[str, Callable[..., np.ndarray]] = {}
    for k, name in enumerate([*UNARY, *binary]):

        def run(x: np.ndarray, z: np.ndarray | None = None, k: int = k) -> np.ndarray:
            y, other = np.empty_like(x), x if z is None else z
            kernel(k, x.ctypes.data, other.ctypes.data, y.ctypes.data, len(x))
            return y

        def emulated(x: np.ndarray, z: np.ndarray | None = None, name: str = name) -> np.ndarray:
            # one vector as long as the data: the same definition, and quick
            operands = [emulate.NumpyLanes(v, KINDS[kind]) for v in (x, z) if v is not None]
            return emulate.quiet(emulate.resolve(name, memory))(*operands).array

        result[name], result["emulated " + name] = run, emulated
    return kind, result


def errors(kind: str, got: np.ndarray, exact: list[Any], unit_floor: float = 0.0) -> list[float]:
    """Distances in units in the last place of the exact values (of the smallest subnormal below the normal range)."""
    info = np.finfo(KINDS[kind].dtype)
    result = []
    with mp.workdps(40):
        for value, true in zip(got.tolist(), exact, strict=True):
            with np.errstate(over="ignore"):
                rounded = KINDS[kind].dtype.type(float(true))
            if value == float(rounded):
                result.append(0.5)
            elif not np.isfinite(value) or not np.isfinite(rounded):
                # an overflow one unit early or late
                edge = mp.mpf(float(info.max)) * (1 - mp.mpf(2.0**-20))
                result.append(1.0 if abs(true) > edge and abs(value) > edge else mp.inf)
            else:
                unit = np.spacing(max(abs(rounded), info.tiny, info.dtype.type(unit_floor)))
                result.append(float(abs(mp.mpf(value) - true) / mp.mpf(float(unit))))
    return result


@pytest.mark.quick(8)
@pytest.mark.parametrize("name", UNARY)
def test_error_bounds(name: str, kernels: Any) -> None:
    kind, functions = kernels
    oracle, _, domain = ORACLES[name]
    x = points(name, kind)
    with np.errstate(all="ignore"):
        inside = np.array([np.isfinite(v) and domain(float(v)) for v in x])
    with mp.workdps(40):
        exact = [oracle(mp.mpf(v)) for v in x[inside].tolist()]
    bound = table.BOUNDS[name][FLOATS.index(kind)]
    floor = 1.0 if name == "gammaln" else 0.0  # near its zeros at 1 and 2 the bound is absolute
    for label in (name, "emulated " + name):
        got = functions[label](x)
        found = errors(kind, got[inside], exact, floor)
        worst = int(np.argmax(found))
        assert found[worst] <= bound, (label, kind, x[inside][worst], got[inside][worst], found[worst])


SPECIAL = {  # values at -inf, -0, 0, inf
    "sqrt": (np.nan, -0.0, 0.0, np.inf), "exp": (0.0, 1.0, 1.0, np.inf), "exp2": (0.0, 1.0, 1.0, np.inf),
    "expm1": (-1.0, -0.0, 0.0, np.inf), "tanh": (-1.0, -0.0, 0.0, 1.0), "sigmoid": (0.0, 0.5, 0.5, 1.0),
    "sinh": (-np.inf, -0.0, 0.0, np.inf), "cosh": (np.inf, 1.0, 1.0, np.inf),
    "log": (np.nan, -np.inf, -np.inf, np.inf), "log1p": (np.nan, -0.0, 0.0, np.inf),
    "log2": (np.nan, -np.inf, -np.inf, np.inf), "log10": (np.nan, -np.inf, -np.inf, np.inf),
    "softplus": (0.0, np.log(2), np.log(2), np.inf), "log_sigmoid": (-np.inf, -np.log(2), -np.log(2), -0.0),
    "sin": (np.nan, -0.0, 0.0, np.nan), "cos": (np.nan, 1.0, 1.0, np.nan), "tan": (np.nan, -0.0, 0.0, np.nan),
    "erf": (-1.0, -0.0, 0.0, 1.0), "erfc": (2.0, 1.0, 1.0, 0.0), "gammaln": (np.inf, np.inf, np.inf, np.inf),
    "digamma": (np.nan, np.inf, -np.inf, np.inf), "cbrt": (-np.inf, -0.0, 0.0, np.inf),
    "arcsin": (np.nan, -0.0, 0.0, np.nan), "arccos": (np.nan, np.pi / 2, np.pi / 2, np.nan),
    "arcsinh": (-np.inf, -0.0, 0.0, np.inf), "arccosh": (np.nan, np.nan, np.nan, np.inf),
    "arctanh": (np.nan, -0.0, 0.0, np.nan), "erfinv": (np.nan, -0.0, 0.0, np.nan), "i0e": (0.0, 1.0, 1.0, 0.0),
    "i1e": (-0.0, -0.0, 0.0, 0.0), "arctan": (-np.pi / 2, -0.0, 0.0, np.pi / 2),
}  # fmt: skip


@pytest.mark.parametrize("name", UNARY)
def test_special_cases(name: str, kernels: Any) -> None:
    kind, functions = kernels
    dtype = KINDS[kind].dtype
    x = np.array([-np.inf, -0.0, 0.0, np.inf, np.nan] + [1.0] * 59, dtype)
    expected = np.array([*SPECIAL[name], np.nan], dtype)
    for label in (name, "emulated " + name):
        got = functions[label](x)[:5]
        assert same(got, expected, 1).all(), (label, got, expected)


def test_results_stay_in_range(kernels: Any) -> None:
    kind, functions = kernels
    x = np.linspace(-25, 25, 64 * 500).astype(KINDS[kind].dtype)
    for name in ("tanh", "erf", "sin", "cos"):
        assert (np.abs(functions[name](x)) <= 1).all(), name
    assert ((functions["sigmoid"](x) >= 0) & (functions["sigmoid"](x) <= 1)).all()


@pytest.mark.parametrize("name", ["log", "log2", "log10", "log1p"])
def test_logarithms_of_numbers_next_to_1(kernels: Any, name: str) -> None:
    """Where the parts of a result nearly cancel, their rounding errors count most."""
    kind, functions = kernels
    x = np.append(np.linspace(0.953, 0.985, 512), np.linspace(1.03, 1.04, 512)).astype(KINDS[kind].dtype)
    x -= name == "log1p"
    with mp.workdps(40):
        exact = [ORACLES[name][0](mp.mpf(v)) for v in x.tolist()]
    for label in (name, "emulated " + name):
        assert max(errors(kind, functions[label](x), exact)) <= table.BOUNDS[name][FLOATS.index(kind)]


def test_logarithms_of_powers_are_exact(kernels: Any) -> None:
    kind, functions = kernels
    lowest, highest, tens = (-149, 127, 11) if kind == "f32" else (-1074, 1023, 23)
    for name, base, exponents in (("log2", 2.0, range(lowest, highest + 1)), ("log10", 10.0, range(tens))):
        wanted = np.resize(np.array(exponents, KINDS[kind].dtype), -(-len(exponents) // 64) * 64)
        powers = (np.float64(base) ** wanted.astype(np.float64)).astype(wanted.dtype)
        for label in (name, "emulated " + name):
            np.testing.assert_array_equal(functions[label](powers), wanted)


def test_sin_and_cos_of_hard_arguments(kernels: Any) -> None:
    kind, functions = kernels
    near = (np.arange(1, 449) * np.pi / 2).astype(KINDS[kind].dtype)
    huge = np.array([1e6, 1.5e6, 1e8, 2e8, 1e12, 1e20, 1e25, 1e30] * 7, KINDS[kind].dtype)
    # of all numbers, these are the nearest to multiples of pi/2 (J.-M. Muller, "Elementary Functions", 11.4)
    nearest = [16367173 * 2.0**72] if kind == "f32" else [6381956970095103 * 2.0**797, 6411027962775774 * 2.0**-48]
    huge = np.append(huge, (nearest * 8)[:8]).astype(KINDS[kind].dtype)
    for name, x in itertools.product(("sin", "cos", "tan"), (near, huge)):
        exact = [ORACLES[name][0](mp.mpf(v)) for v in x.tolist()]
        for label in (name, "emulated " + name):
            assert max(errors(kind, functions[label](x), exact)) <= 1.0, label


def test_powers(kernels: Any, rng: np.random.Generator) -> None:
    kind, functions = kernels
    dtype = KINDS[kind].dtype
    scale = 7 if kind == "f64" else 1
    x = np.concatenate([np.exp(rng.uniform(-30, 30, 1024)), rng.uniform(0.5, 2, 1024)]).astype(dtype)
    y = np.concatenate([rng.uniform(-3, 3, 1024) * scale, rng.uniform(-140, 140, 1024) * scale]).astype(dtype)
    with mp.workdps(40):
        exact = [mp.mpf(a) ** mp.mpf(b) for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    for label in ("pow", "emulated pow"):
        found = errors(kind, functions[label](x, y), exact)
        assert max(found) <= table.BOUNDS["pow"][FLOATS.index(kind)], (label, x[np.argmax(found)], y[np.argmax(found)])


def test_special_powers_and_angles(kernels: Any) -> None:
    kind, functions = kernels
    values = np.concatenate([special_values(kind), np.array([3.0, -3.0, 2.5, -2.5, 2.0**53, 2.0**24 - 1, -7.0])])
    pairs = np.array(list(itertools.product(values, values)), KINDS[kind].dtype)
    pairs = np.concatenate([pairs, np.ones((-len(pairs) % 64, 2), KINDS[kind].dtype)])
    x, y = np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1])
    with np.errstate(all="ignore"):
        for name, expected in (("pow", np.power(x, y)), ("arctan2", np.arctan2(x, y))):
            for label in (name, "emulated " + name):
                got = functions[label](x, y)
                tiny = np.abs(got.astype(np.longdouble) - expected) <= 2 * np.finfo(x.dtype).smallest_subnormal
                agree = same(got, expected, 2) | (tiny & (expected != 0))
                assert agree.all(), (label, x[~agree][:5], y[~agree][:5], got[~agree][:5], expected[~agree][:5])


def test_angles_of_all_magnitudes(kernels: Any) -> None:
    """Far and near points; of some, a coordinate is subnormal, but the angle is not."""
    kind, functions = kernels
    dtype, rng = KINDS[kind].dtype, np.random.default_rng(6)
    info = np.finfo(dtype)
    y, x = (np.ldexp(rng.uniform(1, 2, 1024), rng.integers(info.minexp - 20, info.maxexp, 1024)) for _ in "yx")
    near = np.minimum(y, info.max / 512) * 2.0 ** rng.uniform(-8, 8, 1024)
    x = np.where(rng.random(1024) < 0.5, near, x) * rng.choice([-1, 1], 1024)
    y, x = y.astype(dtype), x.astype(dtype)
    y[:256] = rng.integers(1, 2**20, 256) * info.smallest_subnormal
    with mp.workdps(40):
        exact = [mp.atan2(mp.mpf(a), mp.mpf(b)) for a, b in zip(y.tolist(), x.tolist(), strict=True)]
    for label in ("arctan2", "emulated arctan2"):
        found = errors(kind, functions[label](y, x), exact)
        worst = int(np.argmax(found))
        assert found[worst] <= table.BOUNDS["arctan2"][FLOATS.index(kind)], (label, y[worst], x[worst], found[worst])


def test_gammaln_next_to_its_zeros(kernels: Any, rng: np.random.Generator) -> None:
    """Above 0, errors are small beside the value, too."""
    kind, functions = kernels
    x = rng.choice([1.0, 2.0], 512) + rng.choice([-1, 1], 512) * 10 ** rng.uniform(-7, -0.31, 512)
    x = x.astype(KINDS[kind].dtype)
    with mp.workdps(40):
        exact = [mp.loggamma(mp.mpf(v)) for v in x.tolist()]
    for label in ("gammaln", "emulated gammaln"):
        assert max(errors(kind, functions[label](x), exact)) <= 9.0, label


def test_remainders(kernels: Any) -> None:
    """Exact, however large the quotient is."""
    kind, functions = kernels
    rng, dtype = np.random.default_rng(7), KINDS[kind].dtype
    whole = f"u{dtype.itemsize}"
    x, y, tiny = (rng.integers(0, most, 2048, whole).view(dtype) for most in (np.iinfo(whole).max,) * 2 + (2**20,))
    edges = np.array(list(itertools.product(special_values(kind), repeat=2)), dtype)
    edges = np.concatenate([edges, np.ones((-len(edges) % 64, 2), dtype)])
    with np.errstate(all="ignore"):
        multiples = y * rng.integers(0, 100, 2048).astype(dtype)
        below = np.nextafter(multiples, dtype.type(0))
        for a, b in ((x, y), (x, tiny), (tiny, tiny[::-1]), (multiples, y), (below, y), (edges[:, 0], edges[:, 1])):
            a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
            for label in ("fmod", "emulated fmod"):
                assert same(functions[label](a, b), np.fmod(a, b)).all(), label


def test_digamma_below_zero(kernels: Any) -> None:
    kind, functions = kernels
    x = -np.random.default_rng(2).uniform(0.01, 20, 256).astype(KINDS[kind].dtype)
    with mp.workdps(40):
        exact = np.array([float(mp.digamma(mp.mpf(v))) for v in x.tolist()])
    got = functions["digamma"](x)
    tolerance = 1e-13 if kind == "f64" else 1.3e-7
    assert (np.abs(got - exact) <= tolerance * np.maximum(1, np.abs(exact))).all()
    assert np.isnan(functions["digamma"](np.array([-1.0, -2.0, -30.0] + [1.0] * 61, x.dtype))[:3]).all()


def test_compiled_and_emulated_differ_by_roundings_only(kernels: Any) -> None:
    kind, functions = kernels
    x = np.random.default_rng(1).uniform(0.01, 5, 1024).astype(KINDS[kind].dtype)
    for name in UNARY:
        with np.errstate(all="ignore"):
            assert same(functions[name](x), functions["emulated " + name](x), 8).all(), name
