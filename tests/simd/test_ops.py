"""Every operation, for every element kind and lanes 1, 4 and native: compiled, emulated and NumPy agree."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

import scanjit as sj
from scanjit.kinds import KINDS
from scanjit.runtime import host

from .support import (
    FLOATS,
    INTEGERS,
    NATIVE,
    SIGNED,
    assembly,
    run_compiled,
    run_emulated,
    same,
    source_of,
    special_values,
)


class Case(NamedTuple):
    """One expression of the vectors a, b, c and its meaning."""

    text: str
    reference: Callable[..., Any]
    result: str | None = None  # element kind of the result, None for that of the operands
    lanes: int | None = None  # of the result, None for those of the operands
    ulp: float = 0


def _tree(combine: Callable[..., Any]) -> Callable[..., Any]:
    def reduce(x: np.ndarray) -> np.ndarray:
        while len(x) > 1:
            half = len(x) // 2
            x = combine(x[:half], x[half:])
        return x

    return reduce


def _to_int(kind: str) -> Callable[..., Any]:
    """Float to int: truncate, saturate to 32 or 64 bits, wrap."""
    wide = np.iinfo(np.int64 if kind == "i64" else np.int32)

    def cast(x: np.ndarray) -> np.ndarray:
        values = [
            0 if v != v else wide.min if v <= wide.min else wide.max if v >= wide.max else int(v) for v in x.tolist()
        ]
        return np.array(values, np.int64).astype(KINDS[kind].dtype)

    return cast


def _floordiv_trunc(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.where(b == 0, 0, np.fmod(a, np.where(b == 0, 1, b))).astype(a.dtype)


def cases(kind: str, lanes: int) -> Iterator[Case]:
    suffix = f"{kind}x{lanes}"
    yield Case("a + b", lambda a, b, c: a + b)
    yield Case("a - b", lambda a, b, c: a - b)
    yield Case("a * b", lambda a, b, c: a * b)
    yield Case("a * 3", lambda a, b, c: a * a.dtype.type(3))
    yield Case("7 - a", lambda a, b, c: a.dtype.type(7) - a)
    yield Case("a * b + c", lambda a, b, c: a * b + c, ulp=1e9)  # fused or not; cancellation decides: see fma below
    yield Case("minimum(a, b)", lambda a, b, c: np.where(a != a, a, np.where(a < b, a, b)))
    yield Case("maximum(a, b)", lambda a, b, c: np.where(a != a, a, np.where(a > b, a, b)))
    if lanes == 1 and kind in ("f32", "f64"):
        yield Case("foreseen_minimum(a, b)", lambda a, b, c: np.where(a != a, a, np.where(a < b, a, b)))
        yield Case("foreseen_maximum(a, b)", lambda a, b, c: np.where(a != a, a, np.where(a > b, a, b)))
    yield Case("floordiv(a, b)", lambda a, b, c: np.floor_divide(a, b))
    yield Case("mod(a, b)", lambda a, b, c: np.mod(a, b))
    yield Case("abs(a)", lambda a, b, c: np.abs(a))
    yield Case("-a", lambda a, b, c: -a)
    yield Case("sign(a)", lambda a, b, c: np.sign(a))
    yield Case("select(a < b, a, c)", lambda a, b, c: np.where(a < b, a, c))
    yield Case("select_freely(a < b, a, c)", lambda a, b, c: np.where(a < b, a, c))
    yield Case("select(a < b, a, 1)", lambda a, b, c: np.where(a < b, a, a.dtype.type(1)))
    for sign, ufunc in {
        "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal, "==": np.equal, "!=": np.not_equal,
    }.items():  # fmt: skip
        yield Case(f"a {sign} b", lambda a, b, c, ufunc=ufunc: ufunc(a, b), "bool")
    yield Case("(a < b) & (a == a) | (b > c)", lambda a, b, c: (a < b) & (a == a) | (b > c), "bool")
    yield Case("~(a < b) ^ (b < c)", lambda a, b, c: ~(a < b) ^ (b < c), "bool")
    yield Case("reduce_and(a < b)", lambda a, b, c: (a < b).all(keepdims=True), "bool", 1)
    yield Case("reduce_or(a < b)", lambda a, b, c: (a < b).any(keepdims=True), "bool", 1)
    yield Case("reduce_min(a)", lambda a, b, c: _tree(np.minimum)(a), None, 1)
    yield Case("reduce_max(a)", lambda a, b, c: _tree(np.maximum)(a), None, 1)
    yield Case("reduce_add(b)", lambda a, b, c: _tree(np.add)(b), None, 1)
    yield Case("reduce_mul(b)", lambda a, b, c: _tree(np.multiply)(b), None, 1)
    yield Case(f"splat_{suffix}(lane(a, {lanes - 1}))", lambda a, b, c: np.repeat(a[-1:], lanes))
    yield Case(f"spread_x{lanes}(lane0(a))", lambda a, b, c: np.repeat(a[:1], lanes))
    for target in (*FLOATS, *INTEGERS, "bool"):
        convert = _to_int(target) if kind in FLOATS and target in INTEGERS else _astype(target)
        yield Case(f"cast_{target}x{lanes}(a)", lambda a, b, c, convert=convert: convert(a), target)
    if kind in FLOATS:
        whole = "i32" if kind == "f32" else "i64"
        yield Case("a / b", lambda a, b, c: a / b)
        yield Case("1.0 / a", lambda a, b, c: a.dtype.type(1) / a)
        yield Case("fmod(a, b)", lambda a, b, c: np.fmod(a, b))
        yield Case("sqrt(a)", lambda a, b, c: np.sqrt(a))
        yield Case("floor(a)", lambda a, b, c: np.floor(a))
        yield Case("ceil(a)", lambda a, b, c: np.ceil(a))
        yield Case("trunc(a)", lambda a, b, c: np.trunc(a))
        yield Case("round(a)", lambda a, b, c: np.rint(a))
        yield Case("copysign(a, b)", lambda a, b, c: np.copysign(a, b))
        yield Case("isnan(a)", lambda a, b, c: np.isnan(a), "bool")
        yield Case("isinf(a)", lambda a, b, c: np.isinf(a), "bool")
        yield Case("isfinite(a)", lambda a, b, c: np.isfinite(a), "bool")
        yield Case(f"bitcast_{whole}x{lanes}(a)", lambda a, b, c: a.view(KINDS[whole].dtype), whole)
        yield Case(f"bitcast_{suffix}(bitcast_{whole}x{lanes}(a))", lambda a, b, c: a)
        return
    yield Case("fma(a, b, c)", lambda a, b, c: a * b + c)
    yield Case("fmod(a, b)", lambda a, b, c: _floordiv_trunc(a, b))
    yield Case("a & b", lambda a, b, c: a & b)
    yield Case("a | 5", lambda a, b, c: a | a.dtype.type(5))
    yield Case("a ^ b", lambda a, b, c: a ^ b)
    yield Case("~a", lambda a, b, c: ~a)
    yield Case("a << 3", lambda a, b, c: np.left_shift(a, a.dtype.type(3)))
    yield Case("a >> 2", lambda a, b, c: np.right_shift(a, a.dtype.type(2)))
    yield Case("a << b", lambda a, b, c: np.left_shift(a, b))
    yield Case("a >> b", lambda a, b, c: np.right_shift(a, b))
    yield Case("pow(a, abs(b) & 15)", lambda a, b, c: np.power(a, np.abs(b) & a.dtype.type(15)))
    yield Case("reduce_or(a)", lambda a, b, c: _tree(np.bitwise_or)(a), None, 1)
    yield Case(f"iota_{suffix}(3)", lambda a, b, c: (np.arange(lanes) + 3).astype(a.dtype))


def _astype(target: str) -> Callable[..., Any]:
    return lambda x: x.astype(KINDS[target].dtype)


def operands(kind: str, rows: int, lanes: int) -> list[np.ndarray]:
    rng = np.random.default_rng(7)
    dtype = KINDS[kind].dtype
    if kind in FLOATS:
        pool = np.concatenate([special_values(kind), rng.standard_normal(60) * 10.0 ** rng.uniform(-3, 6, 60)])
    else:
        info = np.iinfo(dtype)
        edges = np.array([info.min, info.min + 1, info.max, info.max - 1, 0, 1, 2, 3])
        pool = np.concatenate([edges, rng.integers(-9, 9, 20) if kind in SIGNED else rng.integers(0, 9, 20)])
        pool = np.concatenate([pool, rng.integers(info.min, info.max, 30, dtype=np.int64)])
    return [rng.choice(pool.astype(dtype), rows * lanes) for _ in range(3)]


@pytest.mark.quick(3)
@pytest.mark.parametrize("width", ["1", "4", "native"])
@pytest.mark.parametrize("kind", [*FLOATS, *INTEGERS])
def test_operations(kind: str, width: str) -> None:
    lanes = NATIVE[kind] if width == "native" else int(width)
    suffix, size = f"{kind}x{lanes}", KINDS[kind].size
    rows = max(8, 256 // lanes)
    a, b, c = operands(kind, rows, lanes)
    listed = list(cases(kind, lanes))
    imports, body = {f"load_{suffix}", "store", f"splat_{suffix}", f"spread_x{lanes}", "lane", "lane0"}, []
    for name in "abc":
        body.append(f"    {name} = load_{suffix}({name}_address + row * {lanes * size})")
    outputs: list[np.ndarray] = []
    for k, case in enumerate(listed):
        result, width_out = KINDS[case.result or kind], case.lanes or lanes
        outputs.append(np.zeros((rows, width_out), result.dtype))
        body.append(f"    store(out{k} + row * {width_out * result.size}, {case.text})")
        imports |= {word for word in _words(case.text) if word not in "abc"}
    parameters = ["a_address", "b_address", "c_address", *(f"out{k}" for k in range(len(listed)))]
    source = source_of(sorted(imports), parameters, [f"for row in range({rows}):", *body])
    emulated = [o.copy() for o in outputs]
    run_compiled(source, [a, b, c, *outputs])
    run_emulated(source, [a, b, c, *emulated])
    with np.errstate(all="ignore"):
        for case, out, emu in zip(listed, outputs, emulated, strict=True):
            if case.text == "a * b + c" and kind in FLOATS:
                continue
            for row in range(rows):
                part = slice(row * lanes, (row + 1) * lanes)
                expected = np.asarray(case.reference(a[part], b[part], c[part])).astype(out.dtype)
                for label, got in (("compiled", out[row]), ("emulated", emu[row])):
                    assert same(got, expected).all(), (label, case.text, a[part], b[part], got, expected)


def _words(text: str) -> set[str]:
    import re

    return set(re.findall(r"[a-z_][a-z0-9_]*", text))


@pytest.mark.parametrize("kind", FLOATS)
def test_fma_is_within_one_rounding(kind: str, rng: np.random.Generator) -> None:
    lanes, size = NATIVE[kind], KINDS[kind].size
    a, b, c = (rng.uniform(0.5, 2, lanes * 8).astype(KINDS[kind].dtype) for _ in range(3))
    suffix = f"{kind}x{lanes}"
    step = lanes * size
    body = [f"for i in range({len(a) // lanes}):"]
    body += [f"    {v} = load_{suffix}({p} + i * {step})" for v, p in zip("abc", "pqr", strict=True)]
    body += [f"    store(y + i * {step}, fma(a, b, c))", f"    store(z + i * {step}, a * b + 1.5)"]
    source = source_of([f"load_{suffix}", "store", "fma"], ["p", "q", "r", "y", "z"], body)
    exact = a.astype(np.longdouble) * b + c
    weak = a.astype(np.longdouble) * b + 1.5
    for run in (run_compiled, run_emulated):
        y, z = np.zeros_like(a), np.zeros_like(a)
        run(source, [a, b, c, y, z])
        assert (np.abs(y - exact) <= np.spacing(y)).all()
        assert (np.abs(z - weak) <= np.spacing(z)).all()


def test_integer_powers_of_negative_exponents() -> None:
    a = np.array([0, 1, -1, 2, -1, 1, -3, 5], np.int64)
    b = np.array([-1, -5, -3, -1, -4, 0, -2, 0], np.int64)
    source = source_of(["load_i64x8", "store", "pow"], list("pqy"), ["store(y, pow(load_i64x8(p), load_i64x8(q)))"])
    for run in (run_compiled, run_emulated):
        y = np.zeros_like(a)
        run(source, [a, b, y])
        assert y.tolist() == [0, 1, -1, 0, 1, 1, 0, 1]


def test_masks_and_scalars() -> None:
    imports = (
        "head_x8 store any_of all_of splat_boolx8 load_i64 store_i64 iota_i64x8 lane_i64 concat_lanes splat_f32x8 "
        "splat_i8x8 load_boolx8 broadcast_boolx8 reduce_and select splat_f64x8"
    ).split()
    body = [
        "for n in range(-2, 11):",
        "    m = head_x8(n)",
        "    store(y + 8 * (n + 2), m)",
        "    if any_of(m):",
        "        store_i64(counts, load_i64(counts) + 1)",
        "    if all_of(m):",
        "        store_i64(counts + 8, load_i64(counts + 8) + 1)",
        "store_i64(counts + 16, lane_i64(iota_i64x8(40), 2))",
        "store(z, concat_lanes(splat_boolx8(True), load_boolx8(flags)))",
        "store(z + 16, broadcast_boolx8(flags))",
        "store(f, select(load_boolx8(flags), splat_f32x8(0.1), splat_f32x8(n + 3)))",
        "store(g, splat_i8x8(300))",
        "store(h, splat_f64x8(0.2))",
    ]
    parameters = ["y", "counts", "z", "flags", "f", "g", "h", "unused"]
    source = source_of(imports, parameters, body)
    flags = np.array([2, 0, 1, 255, 0, 0, 1, 0], np.uint8)  # any byte but 0 is true
    for run in (run_compiled, run_emulated):
        y, counts, z = np.zeros((13, 8), bool), np.zeros(3, np.int64), np.zeros(24, np.uint8)
        f, g, h = np.zeros(8, np.float32), np.zeros(8, np.int8), np.zeros(8)
        run(source, [y, counts, z, flags, f, g, h, 0])
        assert y.sum(1).tolist() == [0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 8, 8]
        assert y[7].tolist() == [True] * 5 + [False] * 3
        assert counts.tolist() == [10, 3, 42]
        assert z.tolist() == [1] * 8 + (flags != 0).astype(int).tolist() + [1] * 8
        assert f.tolist() == [np.float32(0.1) if v else 13.0 for v in flags]
        assert g.tolist() == [44] * 8 and h.tolist() == [0.2] * 8


@pytest.mark.parametrize(
    "expression",
    [
        "load_f32x4(p) + load_i32x4(p)", "load_f32x4(p) & 1", "load_i32x4(p) / 2", "load_i32x4(p) * 0.5",
        "-(load_f32x4(p) < 1)", "exp(load_i32x4(p))", "select(load_f32x4(p), 1, 2)", "~load_f32x4(p)",
    ],
)  # fmt: skip
def test_type_errors_in_both(expression: str) -> None:
    source = source_of(["load_f32x4", "load_i32x4", "exp", "select", "store"], ["p"], [f"store(p, {expression})"])
    p = np.zeros(4, np.float32)
    with pytest.raises(Exception, match=r"(?i)vector|operand|defined|mask|cast|float"):
        run_compiled(source, [p])
    with pytest.raises((TypeError, ValueError)):
        run_emulated(source, [p])


def test_unknown_names() -> None:
    import scanjit.simd as simd

    for name in ("load_f8x4", "load_f32x3", "load_f32x128", "nothing", "head_f32x4", "splat", "iota_f32x4"):
        with pytest.raises((AttributeError, ValueError)):
            getattr(simd, name)
    assert simd.tanh is simd.tanh and simd.load_f32x4 is simd.load_f32x4


@pytest.mark.parametrize("kind", ["i32", "i64"])
@pytest.mark.parametrize("source", ["f32", "f64"])
def test_floats_next_to_the_ends_of_integers(source: str, kind: str) -> None:
    """What is beyond an end becomes the end, in vectors as in single lanes, and in the emulation."""
    dtype, limits = KINDS[source].dtype.type, np.iinfo(KINDS[kind].dtype)
    ends = np.array([limits.min, limits.max, -1, 0], dtype)
    near = np.concatenate([np.nextafter(ends, dtype(to)) for to in (-np.inf, np.inf)])
    x = np.concatenate([ends, near, 2 * ends, ends / 2, np.array([np.nan, np.inf, -np.inf, 2.5, -2.5], dtype)])
    x = np.concatenate([x, np.zeros(-len(x) % 16, dtype)])
    wanted = np.array([0 if v != v else int(np.clip(v, -(2.0**64), 2.0**64)) for v in x.tolist()], object)
    wanted = np.clip(wanted, limits.min, limits.max).astype(KINDS[kind].dtype)
    step, into = KINDS[source].size, KINDS[kind].size
    for lanes in (1, 4, 8, 16):
        names = [f"load_{source}x{lanes}", f"cast_{kind}x{lanes}", "store"]
        body = [f"for i in range(0, {len(x)}, {lanes}):"]
        body += [f"    store(y + i * {into}, cast_{kind}x{lanes}(load_{source}x{lanes}(x + i * {step})))"]
        for run in (run_compiled, run_emulated):
            y = np.zeros(len(x), KINDS[kind].dtype)
            run(source_of(names, ["x", "y"], body), [x, y])
            np.testing.assert_array_equal(y, wanted)


@pytest.mark.skipif(not host.target().is_x86, reason="other processors have instructions for it")
def test_integers_are_made_of_whole_vectors_of_floats() -> None:
    """LLVM computed one lane after the other, which took 15 times as long."""
    x = sj.tensor((64,), "float32", "x")
    text = sj.function([x], x.astype("int32")).inspect_asm()
    assert "cvttps2dq" in text and "cvttss2si" not in text


@pytest.mark.skipif(not host.target().is_x86, reason="assembly is made for this process")
def test_a_remainder_of_one_number_is_that_of_the_instruction() -> None:
    """It is not computed from the quotient, and its sign is guessed: both would be waited for."""
    body = ["x = load_i64x1(p)", "for i in range(n):", "    x = mod(x, load_i64x1(q + i*8))", "store(p, x)"]
    text = assembly(source_of(["load_i64x1", "mod", "store"], ["p", "q", "n"], body), host.target())
    assert "imul" not in text
    assert "\tjs\t" in text
