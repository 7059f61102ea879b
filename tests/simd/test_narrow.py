"""Numbers of 16 and 8 bits, and sums of their products: the same in vectors of every width, compiled and emulated."""

import numpy as np
import pytest

from scanjit.kinds import KINDS
from scanjit.ops.narrow import PAIR_BFLOAT16, QUAD_INT8, QUAD_UINT8, to_bfloat16 as rounded, to_int8
from scanjit.runtime import host
from scanjit.simd import emulate
from scanjit.target import target_for

from .support import compiled, run_compiled, run_emulated, source_of, special_values


def nearest(x: np.ndarray) -> np.ndarray:
    """The nearest bfloat16 of each number, found by comparing with both neighbours."""
    down = (x.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
    up = (down.view(np.uint32) + np.uint32(0x10000)).view(np.float32)
    wide, low, high = (value.astype(float) for value in (x, down, up))
    largest = np.abs(low) == float(np.uint32(0x7F7F0000).view(np.float32))
    high = np.where(largest, np.sign(low) * 2.0**128, high)  # where float32 ends, infinity follows
    even = (down.view(np.uint32) >> 16) & 1 == 0
    below, above = np.abs(wide - low), np.abs(high - wide)
    return np.where((below < above) | ((below == above) & even), down, up)


def points() -> np.ndarray:
    rng = np.random.default_rng(3)
    bits = rng.integers(0, 2**32, 4096, dtype=np.uint32)
    ties = (bits & np.uint32(0xFFFF0000)) | np.uint32(0x8000)
    x = np.concatenate([bits.view(np.float32), ties.view(np.float32), special_values("f32")])
    return np.concatenate([x, np.ones(-len(x) % 64, np.float32)])


def test_numbers_are_rounded_to_the_nearest() -> None:
    x = points()
    finite = np.isfinite(x)
    got = rounded(x)
    np.testing.assert_array_equal(got[finite], nearest(x[finite]))
    assert np.isnan(got[np.isnan(x)]).all() and (got[np.isinf(x)] == x[np.isinf(x)]).all()
    assert (got.view(np.uint32) & 0xFFFF == 0).all()
    assert rounded(x[:6].reshape(2, 3)).shape == (2, 3)


@pytest.mark.quick(3)
@pytest.mark.parametrize("lanes", [1, 2, 8, 16, 32])
def test_generated_code_rounds_as_numpy_does(lanes: int) -> None:
    x = points()
    n, y, pairs = len(x), np.empty_like(points()), np.empty(len(x), np.int32)
    body = [f"for i in range(0, n * 4, {lanes * 4}):", f"    v = load_f32x{lanes}(x + i)"]
    body += ["    store(y + i, round_bf16(v))", "    store(p + i, pair_bf16(v, v * -2.0))"]
    source = source_of([f"load_f32x{lanes}", "store", "round_bf16", "pair_bf16"], ["x", "y", "p", "n"], body)
    for run in (run_compiled, run_emulated):
        y[:], pairs[:] = 0, 0
        run(source, [x, y, pairs, n])
        np.testing.assert_array_equal(y.view(np.int32), rounded(x).view(np.int32))
        with np.errstate(all="ignore"):
            wanted = PAIR_BFLOAT16.reference(x, x * np.float32(-2))
        ordinary = ~np.isnan(x)
        np.testing.assert_array_equal(pairs[ordinary], wanted[ordinary])


def sums(dot: str, lanes: int, *operands: np.ndarray) -> list[np.ndarray]:
    """`dot_bf16`, `dot_apart` or `dot_i8` of operands, the total first, compiled and emulated."""
    loads = [f"load_{'f32' if x.dtype == np.float32 else 'i32'}x{lanes}" for x in operands]
    body = [f"for i in range(0, n * 4, {lanes * 4}):"]
    body += [f"    store(y + i, {dot}({', '.join(f'{load}(x{k} + i)' for k, load in enumerate(loads))}))"]
    source = source_of([*set(loads), "store", dot], [*(f"x{k}" for k in range(len(loads))), "y", "n"], body)
    found = [np.empty_like(operands[0]), np.empty_like(operands[0])]
    for run, y in zip((run_compiled, run_emulated), found, strict=True):
        run(source, [*operands, y, len(y)])
    return found


def test_products_of_pairs_are_rounded_alike_everywhere(rng: np.random.Generator) -> None:
    n = 512
    values = [(rng.normal(size=n) * 2.0 ** rng.integers(-30, 30, n)).astype(np.float32) for _ in range(5)]
    a, b = PAIR_BFLOAT16.reference(*values[:2]), PAIR_BFLOAT16.reference(*values[2:4])
    low, high = (rounded(x).astype(float) * rounded(y) for x, y in (values[::2][:2], values[1::2][:2]))
    wanted = ((values[4] + high).astype(np.float32) + low).astype(np.float32)  # the second numbers first
    for lanes in (1, 2, 4, 8, 16, 32):
        apart = sums("dot_apart", lanes, values[4], *map(rounded, values[:2]), b)
        for got in (*sums("dot_bf16", lanes, values[4], a, b), *apart):
            np.testing.assert_array_equal(got, wanted)
    if host.target().is_x86 and host.target().has("avx2", "fma"):
        with host.using(target_for(host.target().triple, features="+avx2,+fma")):  # without the instruction
            np.testing.assert_array_equal(sums("dot_bf16", 8, values[4], a, b)[0], wanted)


@pytest.mark.quick(3)
@pytest.mark.parametrize("lanes", [1, 2, 8, 16, 32])
def test_generated_code_packs_integers_as_numpy_does(lanes: int) -> None:
    x = np.concatenate([points(), np.linspace(-140, 140, 1024, dtype=np.float32)])
    n, results = len(x), [np.empty(len(x), dtype) for dtype in (np.float32, np.int32, np.int32)]
    body = [f"for i in range(0, n * 4, {lanes * 4}):", f"    v = load_f32x{lanes}(x + i)"]
    body += ["    store(r + i, round_i8(v))", "    store(s + i, quad_i8(v, -v, v * 0.5, v * 0.25))"]
    body += ["    store(u + i, quad_u8(v, -v, v * 0.5, v * 0.25))"]
    source = source_of(
        [f"load_f32x{lanes}", "store", "round_i8", "quad_i8", "quad_u8"], ["x", "r", "s", "u", "n"], body
    )
    with np.errstate(all="ignore"):
        rounded_to_int8 = to_int8(x)
        quads = [op.reference(x, -x, x * np.float32(0.5), x * np.float32(0.25)) for op in (QUAD_INT8, QUAD_UINT8)]
    for run in (run_compiled, run_emulated):
        for result in results:
            result[:] = 99
        run(source, [x, *results, n])
        np.testing.assert_equal(results, [rounded_to_int8, *quads])


def test_sums_of_products_of_quads_are_exact(rng: np.random.Generator) -> None:
    n = 512
    left, right = rng.integers(0, 256, (n, 4)), rng.integers(-128, 128, (n, 4))
    left[0], right[0], left[1], right[1] = 255, 127, 255, -128  # the largest sums, which do not saturate
    total = rng.integers(-(2**31), 2**31, n)
    wanted = (total + (left * right).sum(1)).astype(np.int32)  # wraps
    a, b = left.astype(np.uint8).view(np.int32).ravel(), right.astype(np.int8).view(np.int32).ravel()
    for lanes in (1, 2, 4, 8, 16, 32):
        for got in sums("dot_i8", lanes, total.astype(np.int32), a, b):
            np.testing.assert_array_equal(got, wanted)
    for features in ("sse4.2", "avx2 fma", "avx512f avx512vl avx512dq avx512bw"):  # without the instruction
        if host.target().is_x86 and host.target().has(*features.split()):
            with host.using(target_for(host.target().triple, features="+" + features.replace(" ", ",+"))):
                for lanes in (1, 4, 8, 16):
                    got = sums("dot_i8", lanes, total.astype(np.int32), a, b)[0]
                    np.testing.assert_array_equal(got, wanted)


def test_wrong_operands() -> None:
    pairs, numbers = (emulate.NumpyLanes(np.zeros(4, KINDS[k].dtype), KINDS[k]) for k in ("i32", "f32"))
    for name, operands, wrong in (
        ("dot_bf16", (numbers, numbers, pairs), "packed numbers"),
        ("dot_bf16", (numbers, pairs, numbers), "packed numbers"),
        ("dot_apart", (numbers, numbers, pairs, pairs), "f32"),
        ("dot_apart", (numbers, numbers, numbers, numbers), "packed numbers"),
    ):
        with pytest.raises(TypeError, match=f"expected {wrong} of 4 lanes"):
            emulate.resolve(name, emulate.Allocations())(*operands)
    body = ["store(x, dot_bf16(load_f32x4(x), load_f32x4(x), load_i32x4(x)))"]
    with pytest.raises(Exception, match="expected simd_i32x4, got simd_f32x4"):
        compiled(source_of(["load_f32x4", "load_i32x4", "store", "dot_bf16"], ["x"], body))
