"""The generator itself: known answers, and one definition for NumPy, emulated lanes and machine code."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest

from scanjit.kinds import KINDS
from scanjit.ops import random as ops
from scanjit.runtime import compiler, host, kernels
from scanjit.simd import math_random
from scanjit.simd.numpy_lanes import NumpyLanes
from scanjit.target import target_for
from tests.simd.support import run_compiled, run_emulated, source_of

# philox4x32-10 of the file kat_vectors of Random123, the implementation by the authors: counter, key, result
KNOWN = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
]
F32, F64 = np.dtype("float32"), np.dtype("float64")
FLOATS = [(name, dtype) for name in ("uniform", "normal") for dtype in (F32, F64)]


def words(text: str) -> list[int]:
    return [int(word, 16) for word in text.split()]


def signed(low: int, high: int) -> np.ndarray:
    return np.array([low | high << 32], np.uint64).view(np.int64)


def lanes(array: np.ndarray) -> NumpyLanes:
    return NumpyLanes(array, KINDS["i64"])


def operands(count: int, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.integers(-(2**63), 2**63 - 1, count) for _ in range(3)]


@pytest.mark.parametrize(("counter", "key", "result"), KNOWN)
def test_known_answers(counter: str, key: str, result: str) -> None:
    assert [int(word) for word in ops.philox(words(counter), words(key))] == words(result)


@pytest.mark.parametrize(("counter", "key", "result"), KNOWN)
def test_known_answers_of_vectors(counter: str, key: str, result: str) -> None:
    c = words(counter)
    index, block = signed(c[0], c[1]), signed(c[2], c[3])
    found = math_random.philox(lanes(signed(*words(key))), lanes(block), lanes(index))
    assert [int(word.array[0]) & 0xFFFFFFFF for word in found] == words(result)  # type: ignore[attr-defined]
    bits = ops.RANDOM_BITS.reference(signed(*words(key)), block, index)
    assert bits == signed(*words(result)[:2])


def test_every_bit_of_key_and_counter_counts() -> None:
    zero = np.zeros(64, np.int64)
    single = np.int64(1) << np.arange(64)
    changed = [
        ops.RANDOM_BITS.reference(*(single if k == which else zero for k in range(3))).astype(np.uint64)
        for which in range(3)
    ]
    values = np.concatenate(changed)
    assert len(set(values.tolist())) == 192
    flipped = np.bitwise_count(values ^ ops.RANDOM_BITS.reference(zero, zero, zero).astype(np.uint64)[0])
    assert 28 < flipped.mean() < 36 and flipped.min() > 10


@pytest.mark.parametrize(("name", "dtype"), FLOATS)
def test_vectors_equal_the_reference(name: str, dtype: np.dtype) -> None:
    given = operands(5000)
    found = getattr(math_random, f"random_{name}_f{8 * dtype.itemsize}")(*map(lanes, given)).array
    expected = getattr(ops, f"RANDOM_{name.upper()}").reference(*given, dtype=dtype)
    assert found.dtype == expected.dtype == dtype
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("width", [1, host.target().lanes(8), 2 * host.target().lanes(8)])
def test_machine_code_equals_the_reference(width: int) -> None:
    """All functions in one kernel, in three widths: the same bits, with and without fused multiply-add."""
    floats = [(f"random_{name}_f{8 * dtype.itemsize}", dtype.itemsize) for name, dtype in FLOATS]
    count = 4 * width
    names = [*(name for name, _ in floats), "random_bits", "random_shuffle"]
    lines = [f"for i in range(0, {count}, {width}):"]
    lines += [f"    {x} = load_i64x{width}({a} + i*8)" for x, a in (("x", "a"), ("y", "b"), ("z", "c"))]
    lines += [f"    store(y{k} + i*{size}, {name}(x, y, z))" for k, (name, size) in enumerate(floats)]
    lines += ["    store(y4 + i*8, random_bits(x, y, z))"]
    shuffled = f"random_shuffle(x, y, iota_i64x{width}(i), splat_i64x{width}({count}))"
    lines += [f"    store(y5 + i*8, {shuffled})"]
    imports = [*names, "store", f"load_i64x{width}", f"iota_i64x{width}", f"splat_i64x{width}"]
    source = f"from scanjit.simd import {', '.join(imports)}\n\ndef kernel(a, b, c, y0, y1, y2, y3, y4, y5):\n"
    source += "\n".join("    " + line for line in lines) + "\n"
    given = operands(count)
    given[0][:], given[1][:] = given[0][0], given[1][0]  # one key and one block make one permutation
    expected = [getattr(ops, f"RANDOM_{name.upper()}").reference(*given, dtype=dtype) for name, dtype in FLOATS]
    expected.append(ops.RANDOM_BITS.reference(*given))
    expected.append(ops.RANDOM_SHUFFLE.reference(*given[:2], np.arange(count), np.int64(count)))
    for run in (run_emulated, run_compiled):
        results = [np.zeros_like(x) for x in expected]
        run(source, [*given, *results])
        np.testing.assert_equal(results, expected)


@pytest.mark.parametrize("dtype", [F32, F64])
def test_uniform_numbers_are_below_one(dtype: np.dtype) -> None:
    """Of all bits set, and of none."""
    top = np.uint64(0xFFFFFFFF)
    highest = ((top >> np.uint64(5)) * 2.0**26 + (top >> np.uint64(6))) * 2.0**-53
    assert highest == 1 - 2.0**-53 and np.float32(top >> np.uint64(8)) * np.float32(2.0**-24) == 1 - 2.0**-24
    x = ops.RANDOM_UNIFORM.reference(*operands(10000), dtype=dtype)
    assert x.min() >= 0 and x.max() < 1


@pytest.mark.parametrize("dtype", [F32, F64])
def test_logarithm_and_sine_are_accurate(dtype: np.dtype, rng: np.random.Generator) -> None:
    """What normal numbers are made of, against 40 digits; down to the smallest number that the logarithm meets."""
    smallest = -32 if dtype == F32 else -53
    edge = np.array([2.0**smallest, 0.5, 1.0, 1 - 2.0**-24, np.sqrt(0.5)])
    lengths = np.concatenate([rng.random(200), 2.0 ** rng.uniform(smallest, 0, 200), edge]).astype(dtype)
    angles = np.concatenate([rng.uniform(-0.5, 0.5, 200), [0.5, -0.5, 2.0**-40]]).astype(dtype)
    with mp.workdps(40):
        logs = [mp.log(mp.mpf(float(x))) for x in lengths]
        sines = [mp.sin(mp.pi * mp.mpf(float(x))) for x in angles]
        for got, exact in ((ops._log(lengths), logs), (ops._sine(angles), sines)):
            for value, true in zip(got, exact, strict=True):
                assert abs(mp.mpf(float(value)) - true) <= 3 * mp.mpf(
                    float(np.spacing(abs(dtype.type(float(true)))))
                ), true


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 1000])
def test_a_shuffle_is_a_permutation(size: int) -> None:
    for key in range(3):
        places = ops.RANDOM_SHUFFLE.reference(np.int64(key), np.int64(5), np.arange(size), np.int64(size))
        np.testing.assert_array_equal(np.sort(places), np.arange(size))


@pytest.mark.skipif(not host.target().is_x86, reason="assembly is made for this process")
@pytest.mark.parametrize(
    "lanes, features", [(4, "+avx2,+fma"), (8, "+avx2,+fma,+avx512f,+avx512vl,+avx512dq,+avx512bw")]
)
@pytest.mark.parametrize("name", ["random_uniform_f32", "random_uniform_f64"])
def test_a_round_of_vectors_is_few_instructions(name: str, lanes: int, features: str) -> None:
    """No instructions for the signs of words, and LLVM does not look through rounds: their words are hidden."""
    load = f"load_i64x{lanes}"
    call = f"store(out, {name}({load}(key), {load}(block), {load}(index)))"
    text = source_of([load, name, "store"], ["out", "key", "block", "index"], [call])
    target = target_for("x86_64-linux-gnu", "znver4" if lanes == 8 else "znver3", features)
    (unit,) = kernels.units([(text, "kernel", {})], target).values()
    assert compiler.translate(unit, target).module.count(" asm ") == 2 * ops.ROUNDS
    assembly = compiler.to_assembly(unit, target)
    assert assembly.count("vpmuludq") <= 2 * ops.ROUNDS
    assert assembly.count("vpsrlq") < 3 * ops.ROUNDS
    assert not any(each in assembly for each in ("vpsra", "vpmullq", "call"))
