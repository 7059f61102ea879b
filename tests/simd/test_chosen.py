"""The lanes that a mask chooses: their bits, their number, and vectors that begin with them."""

import numpy as np
import pytest

from scanjit.kinds import KINDS
from scanjit.runtime import host
from scanjit.target import Target, target_for

from .support import NATIVE, compiled, run_compiled, run_emulated, source_of

TARGETS = {"here": "", "avx2": "+avx2,+fma", "sse": "+sse4.2"}


def target_called(name: str) -> Target:
    if name != "here" and not host.target().has("avx2"):
        pytest.skip("the instructions of x86-64")
    return target_for(host.target().triple, features=TARGETS[name]) if TARGETS[name] else host.target()


@pytest.mark.quick(3)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", ["f32", "i64", "i32", "f64"])
def test_chosen_lanes_come_first(kind: str, target: str, rng: np.random.Generator) -> None:
    """Each store begins where the one before it had its last chosen lane: as NumPy's `compress`."""
    with host.using(target_called(target)):
        for lanes in sorted({1, 4, 8, NATIVE[kind]}):
            size, n = KINDS[kind].size, 37 * lanes
            x = rng.integers(-100, 100, n).astype(KINDS[kind].dtype)
            chosen = rng.random(n) < np.repeat(rng.random(37), lanes)
            chosen[: 2 * lanes] = np.arange(2 * lanes) < lanes  # all lanes, and none
            body = [
                "at = 0",
                f"for i in range(0, {n}, {lanes}):",
                f"    mask = load_boolx{lanes}(m + i)",
                f"    store(y + at*{size}, compress(load_{kind}x{lanes}(x + i*{size}), mask))",
                "    at += count_lanes(mask)",
                "store_i64(z, at)",
            ]
            imports = [f"load_boolx{lanes}", f"load_{kind}x{lanes}", "store", "store_i64", "compress", "count_lanes"]
            source = source_of(imports, ["x", "m", "y", "z"], body)
            for run in (run_compiled, run_emulated):
                y, z = np.zeros(n + lanes, x.dtype), np.zeros(1, np.int64)
                run(source, [x, chosen, y, z])
                assert z[0] == chosen.sum()
                np.testing.assert_array_equal(y[: z[0]], x[chosen])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", ["f32", "i64"])
def test_chosen_lanes_come_first_and_the_others_last(kind: str, target: str) -> None:
    """The others backwards. A vector for each mask of eight lanes."""
    with host.using(target_called(target)):
        for lanes in sorted({1, 4, 8, NATIVE[kind]}):
            size, many = KINDS[kind].size, 256
            x = np.arange(many * lanes).astype(KINDS[kind].dtype).reshape(many, lanes)
            chosen = (np.arange(many)[:, None] >> np.arange(lanes) % 8 & 1).astype(bool)
            body = [
                f"for i in range(0, {many * lanes}, {lanes}):",
                f"    x = load_{kind}x{lanes}(a + i*{size})",
                f"    store(b + i*{size}, to_ends(x, load_boolx{lanes}(m + i)))",
            ]
            imports = [f"load_boolx{lanes}", f"load_{kind}x{lanes}", "store", "to_ends"]
            source = source_of(imports, ["a", "m", "b"], body)
            wanted = [[*row[some], *row[~some][::-1]] for row, some in zip(x, chosen, strict=True)]
            for run in (run_compiled, run_emulated):
                y = np.zeros_like(x)
                run(source, [x, chosen, y])
                np.testing.assert_array_equal(y, wanted)


@pytest.mark.parametrize("lanes", [1, 2, 4, 8, 16, 32, 64])
def test_bits_of_masks(lanes: int, rng: np.random.Generator) -> None:
    """The first lane is the lowest bit. The first bit of 0 is at 64."""
    chosen = rng.random((70, lanes)) < np.linspace(0, 1, 70)[:, None]
    body = [
        f"for i in range({len(chosen)}):",
        f"    bits = lane_bits(load_boolx{lanes}(m + i*{lanes}))",
        "    store_i64(y + i*8, bits)",
        "    store_i64(z + i*8, first_bit(bits))",
    ]
    source = source_of([f"load_boolx{lanes}", "lane_bits", "first_bit", "store_i64"], ["m", "y", "z"], body)
    wanted = [sum(1 << k for k in range(lanes) if row[k]) for row in chosen]
    for run in (run_compiled, run_emulated):
        y, z = np.zeros(len(chosen), np.int64), np.zeros(len(chosen), np.int64)
        run(source, [chosen, y, z])
        assert y.view(np.uint64).tolist() == wanted
        assert z.tolist() == [int(row.argmax()) if row.any() else 64 for row in chosen]


def test_no_instruction_stores_some_lanes_one_after_the_other() -> None:
    """Such instructions are slow on some processors: lanes are moved in a register."""
    if not host.target().has_avx512:
        pytest.skip("the instructions of AVX-512")
    body = ["store(y, compress(load_f32x16(x), load_boolx16(m)))"]
    kernel = compiled(source_of(["load_boolx16", "load_f32x16", "store", "compress"], ["x", "m", "y"], body))
    lines = [line for line in kernel.asm().splitlines() if "vcompress" in line or "vpcompress" in line]
    assert lines
    assert not any(line.rstrip().endswith(")") or "(%" in line for line in lines)
