"""Floats of 16 bits in lanes: all 65,536 of them widened, and numbers rounded, for vectors of 16, 32 and 64 bytes."""

from __future__ import annotations

import numpy as np
import pytest

from scanjit.arrays import named_dtype
from scanjit.kinds import kind_of
from scanjit.runtime import host
from scanjit.target import target_for
from tests.pairs import pairwise
from tests.simd.support import run_compiled, run_emulated, source_of

KINDS = {"float16": "f16", "bfloat16": "bf16"}


def _half(name: str) -> np.dtype:
    if name == "bfloat16":
        pytest.importorskip("ml_dtypes")
    dtype = named_dtype(name)
    assert kind_of(dtype).name == KINDS[name] and kind_of(dtype).is_half
    return dtype


def _floats(half: np.dtype) -> np.ndarray:
    """Halves, numbers next to them, and numbers in the middle of two, which are ties; and numbers of random bits."""
    exact = np.arange(0, 65536, 3, dtype=np.uint16).view(half).astype(np.float32)
    exact = exact[np.isfinite(exact)]
    middle = (exact[:-1].astype(np.float64) + exact[1:]) / 2
    near = [np.nextafter(exact, np.float32(end)) for end in (np.inf, -np.inf)]
    rest = np.random.default_rng(0).integers(0, 2**32, 8192, dtype=np.uint32).view(np.float32)
    return np.concatenate([exact, *near, middle.astype(np.float32), rest])


def _run(run, lines: list[str], names: list[str], x: np.ndarray, y: np.ndarray, lanes: int) -> np.ndarray:
    body = [f"for i in range(0, {len(x)}, {lanes}):", *("    " + line for line in lines)]
    run(source_of(names, ["x", "y"], body), [x, y])
    return y


@pairwise(run=[run_emulated, run_compiled], name=KINDS, lanes=[1, 8, 16, 32])
def test_every_half_is_widened_exactly(run, name: str, lanes: int) -> None:
    half, kind = _half(name), KINDS[name]
    step = 1 if lanes > 1 and run is run_compiled else 61  # one by one, and in the emulator, some of them
    x = np.ascontiguousarray(np.arange(0, 65536, step, dtype=np.uint16)[: 65536 // step // 32 * 32].view(half))
    lines = [f"store(y + i*4, cast_f32x{lanes}(load_{kind}x{lanes}(x + i*2)))"]
    names = ["store", f"cast_f32x{lanes}", f"load_{kind}x{lanes}"]
    found = _run(run, lines, names, x, np.zeros(len(x), np.float32), lanes)
    np.testing.assert_array_equal(found, x.astype(np.float32))


@pytest.mark.quick(8)
@pytest.mark.filterwarnings("ignore:.*encountered in cast")
@pairwise(run=[run_emulated, run_compiled], name=KINDS, lanes=[1, 8, 16, 32], given=["float32", "float64"])
def test_numbers_become_the_nearest_half(run, name: str, lanes: int, given: str) -> None:
    half, kind, wide = _half(name), KINDS[name], kind_of(given)
    x = _floats(half).astype(given)
    if given == "float64":  # so near to a tie that a float32 would be the tie
        x = np.concatenate([x, np.nextafter(x, np.inf)])
    x = x[:: 61 if run is run_emulated else 1]
    x = np.array(x[: len(x) // 32 * 32])
    x[:6] = np.nan, -np.nan, np.inf, -np.inf, -0.0, 1e-40
    lines = [f"store(y + i*2, cast_{kind}x{lanes}(load_{wide.name}x{lanes}(x + i*{wide.size})))"]
    names = ["store", f"cast_{kind}x{lanes}", f"load_{wide.name}x{lanes}"]
    found = _run(run, lines, names, x, np.zeros(len(x), half), lanes)
    nan = np.isnan(x)
    assert np.isnan(found[nan].astype(np.float32)).all()
    np.testing.assert_array_equal(found[~nan].view(np.uint16), x[~nan].astype(half).view(np.uint16))


@pytest.mark.parametrize("lanes", [1, 8, 32])
def test_instructions_give_the_bits_of_the_integer_code(lanes: int) -> None:
    """Of all float16, and of float32 of all kinds. NaNs of all payloads, also such as signal, are among both."""
    here = host.target()
    plain = target_for(here.triple, here.name, here.features.replace("+f16c", "-f16c"), here.vector_bytes)
    halves = np.arange(65536, dtype=np.uint16).view(np.float16)
    floats = np.concatenate([_floats(halves.dtype), halves[np.isnan(halves)].astype(np.float32)])
    floats = np.concatenate([floats, np.arange(0x7F800001, 0x7F900000, 4099, dtype=np.uint32).view(np.float32)])
    for x, kind, other in ((halves, "f16", "f32"), (floats[: len(floats) // 32 * 32], "f32", "f16")):
        found = []
        names = ["store", f"cast_{other}x{lanes}", f"load_{kind}x{lanes}"]
        load = f"load_{kind}x{lanes}(x + i*{x.itemsize})"
        for target, run, step in ((here, run_compiled, 1), (plain, run_compiled, 1), (here, run_emulated, 7)):
            given = np.ascontiguousarray(x[::step][: len(x) // step // 32 * 32])
            made = np.zeros(len(given), "float32" if other == "f32" else "float16")
            with host.using(target):
                lines = [f"store(y + i*{made.itemsize}, cast_{other}x{lanes}({load}))"]
                found.append(_run(run, lines, names, given, made, lanes).view(f"u{made.itemsize}"))
        np.testing.assert_array_equal(found[0], found[1])
        np.testing.assert_array_equal(found[0][::7][: len(found[2])], found[2])


@pytest.mark.parametrize("run", [run_emulated, run_compiled])
def test_masked_loads_and_stores_and_choices_move_bits(run) -> None:
    x, y = np.arange(1, 9, dtype=np.float16), np.full(8, 7, np.float16)
    names = ["load_masked_f16x8", "head_x8", "store_masked", "select", "splat_f16x8"]
    lines = [
        "v = load_masked_f16x8(x, head_x8(5))",
        "store_masked(y, select(head_x8(2), splat_f16x8(0.1), v), head_x8(6))",
    ]
    run(source_of(names, ["x", "y"], lines), [x, y])
    np.testing.assert_array_equal(y, np.array([0.1, 0.1, 3, 4, 5, 0, 7, 7], np.float16))


def test_lanes_of_halves_have_no_arithmetic() -> None:
    source = source_of(["load_f16x8", "store"], ["x"], ["store(x, load_f16x8(x) + load_f16x8(x))"])
    for run in (run_emulated, run_compiled):
        with pytest.raises(Exception, match=r"operator \+ is not defined for f16 vectors"):
            run(source, [np.zeros(8, np.float16)])
