"""Loads and stores, compiled and emulated: alignment, masks, strides, order of lanes; and the emulator's faults."""

import ctypes
import mmap
from collections.abc import Iterator

import numpy as np
import pytest

import scanjit as sj
from scanjit.kinds import KINDS
from scanjit.runtime import compiler, host, kernels
from scanjit.runtime.emulation import check_written
from scanjit.simd import emulate
from scanjit.target import LEVELS, target_for, target_named

from .support import NATIVE, compiled, run_compiled, run_emulated, source_of


@pytest.mark.parametrize("kind", ["f64", "f32", "f16", "i64", "i8"])
def test_vectors_on_the_stack_overlap_at_any_place(kind: str, rng: np.random.Generator) -> None:
    """Also those that reach the end of the memory, which has no whole number of vectors."""
    size, room = KINDS[kind].size, 5 * NATIVE[kind] // 2 + 1
    widths = [2**k for k in range(NATIVE[kind].bit_length())]
    body = [f"place = stack({room * size})"]
    body += [f"store(place + {k * size}, load_{kind}x1(x + {k * size}))" for k in range(room)]
    for number in range(60):
        lanes = int(rng.choice(widths))
        start, stop, source = (int(k) * size for k in rng.integers(0, room - lanes + 1, 3))
        body.append(f"v{number} = load_{kind}x{lanes}(place + {start})")
        body.append(f"store(place + {stop}, load_{kind}x{lanes}(x + {source}))" if number % 2 else "")
        body.append(f"store(place + {source}, v{number})")
    body += [f"store(y + {k * size}, load_{kind}x1(place + {k * size}))" for k in range(room)]
    source = source_of(["stack", "store", *(f"load_{kind}x{lanes}" for lanes in widths)], ["x", "y"], body)
    x = rng.integers(1, 99, room).astype(KINDS[kind].dtype)
    found, expected = np.zeros_like(x), np.zeros_like(x)
    run_compiled(source, [x, found])
    run_emulated(source, [x, expected])
    np.testing.assert_array_equal(found, expected)
    assert len(set(found)) > 3


def test_a_state_that_is_rolled_stays_in_registers() -> None:
    copies = lambda to, source: [f"store({to} + {k}, load_f64x4({source} + {k}))" for k in range(0, 96, 32)]
    rolled = ["store(rolled, load_f64x1(state + 88))", *copies("rolled + 8", "state")[:2]]
    rolled += ["store(rolled + 72, load_f64x2(state + 64))", "store(rolled + 88, load_f64x1(state + 80))"]
    body = ["state = stack(128)", "rolled = stack(128)", *copies("state", "x"), "for i in range(n):"]
    body += ["    " + line for line in [*rolled, *copies("state", "rolled")]] + copies("x", "state")
    source = source_of("load_f64x1 load_f64x2 load_f64x4 stack store".split(), ["x", "n"], body)
    x = np.arange(12.0)
    run_compiled(source, [x, 5])
    np.testing.assert_array_equal(x, np.roll(np.arange(12.0), 5))
    target = target_for("x86_64-linux-gnu", "znver3", "+avx2,+fma")
    assembly = compiler.to_text([*kernels.units([(source, "kernel", {})], target).values()], target)
    assert "rsp" not in assembly and "vshufpd" in assembly


@pytest.mark.parametrize("first", [0, 8])
@pytest.mark.parametrize("form, sign", [("a * a", 1), ("-(a * a)", -1), ("-a * a", -1), ("a * a * -1.0", -1)])
def test_a_product_on_the_stack_is_rounded(form: str, sign: int, first: int) -> None:
    """As if it lay in memory: no sum behind it becomes a multiply-add."""
    x, y = np.full(2, 1.0 + 2.0**-30), np.zeros(2)
    body = ["place = stack(64)", "a = load_f64x2(x)", f"store(place + {first}, {form})"]
    body += [f"store(y, load_f64x2(place + {first}) - ({sign}.0))"]
    run_compiled(source_of(["load_f64x2", "stack", "store"], ["x", "y"], body), [x, y])
    np.testing.assert_array_equal(y, sign * (x * x - 1.0))


@pytest.mark.parametrize("kind", ["i8", "u8", "i16", "i32", "i64"])
def test_products_of_all_kinds_are_stored_on_the_stack(kind: str) -> None:
    x = np.array([3, 0, 5, 1]).astype(KINDS[kind].dtype)
    y = np.zeros_like(x)
    body = ["place = stack(64)", f"a = load_{kind}x4(x)", "store(place, a * a)", f"store(y, load_{kind}x4(place))"]
    run_compiled(source_of([f"load_{kind}x4", "stack", "store"], ["x", "y"], body), [x, y])
    np.testing.assert_array_equal(y, x * x)


@pytest.mark.parametrize(
    ("kind", "most"), [*((kind, 16) for kind in KINDS), ("f64", 1), ("i32", 1), ("bool", 1)], ids=lambda x: str(x)
)
def test_loads_and_stores(kind: str, most: int, rng: np.random.Generator) -> None:
    dtype, size = KINDS[kind].dtype, KINDS[kind].size
    lanes = min(NATIVE[kind], most)
    suffix = f"{kind}x{lanes}"
    loads = "load load_masked broadcast load_strided gather load_every_second load_every_fourth load_backwards".split()
    imports = [f"{name}_{suffix}" for name in loads]
    imports += [f"head_x{lanes}", f"load_i64x{lanes}", *"store store_masked store_strided scatter".split()]
    step = lanes * size
    body = [
        f"m = head_x{lanes}(count)",
        f"o = load_i64x{lanes}(offsets)",
        f"store(y, load_{suffix}(x + {size}))",  # not aligned to the vector
        f"store(y + {step}, load_masked_{suffix}(x, m))",
        f"store(y + {2 * step}, broadcast_{suffix}(x + {size}))",
        f"store(y + {3 * step}, load_strided_{suffix}(x, {3 * size}, m))",
        f"store(y + {4 * step}, load_strided_{suffix}(x + {lanes * size}, {-size}, m))",
        f"store(y + {5 * step}, gather_{suffix}(x, o, m))",
        f"v = load_{suffix}(x)",
        f"store_masked(y + {6 * step}, v, m)",
        f"store_strided(y + {7 * step}, {2 * size}, v, m)",
        f"scatter(y + {9 * step}, o, v, m)",
        f"store(y + {13 * step}, load_every_second_{suffix}(x + {size}, m))",
        f"store(y + {14 * step}, load_every_fourth_{suffix}(x, m))",
        f"store(y + {15 * step}, load_backwards_{suffix}(x + {lanes * size}, m))",
    ]
    source = source_of(imports, ["x", "y", "offsets", "count"], body)
    x = rng.integers(0, 2, 4 * lanes).astype(bool) if kind == "bool" else rng.integers(1, 99, 4 * lanes).astype(dtype)
    index = rng.integers(0, 3, lanes)  # places repeat: the last lane wins
    for count in sorted({0, 1, lanes - 1, lanes}):
        on = np.arange(lanes) < count
        expected = np.zeros((16, lanes), dtype)
        expected[0] = x[1 : lanes + 1]
        expected[1] = np.where(on, x[:lanes], 0)
        expected[2] = x[1]
        expected[3] = np.where(on, x[: 3 * lanes : 3], 0)
        expected[4] = np.where(on, x[lanes:0:-1], 0)
        expected[5] = np.where(on, x[index], 0)
        expected[6] = np.where(on, x[:lanes], 0)
        expected[7:9].reshape(-1)[::2][on] = x[:lanes][on]
        for lane in range(count):
            expected[9:].reshape(-1)[index[lane]] = x[lane]
        expected[13] = np.where(on, x[1 : 2 * lanes + 1 : 2], 0)
        expected[14] = np.where(on, x[::4], 0)
        expected[15] = expected[4]
        for run in (run_compiled, run_emulated):
            if run is run_compiled and 1 < count < lanes:
                continue  # a compile each
            y = np.zeros((16, lanes), dtype)
            run(source, [x, y, index * size, count])
            np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("kind", ["i8", "u8", "i16"])
@pytest.mark.parametrize("lanes", [4, 8, 16])
def test_a_masked_store_of_narrowed_lanes_writes_no_other_lane(kind: str, lanes: int) -> None:
    """LLVM made one store of four bytes of a truncation and a masked store of one lane."""
    if lanes > NATIVE["i32"]:
        pytest.skip("there are no such vectors here")
    body = [f"store_masked(y, cast_{kind}x{lanes}(load_i32x{lanes}(x)), head_x{lanes}(1))"]
    names = ["store_masked", f"cast_{kind}x{lanes}", f"load_i32x{lanes}", f"head_x{lanes}"]
    x, y = np.full(lanes, 7, "int32"), np.full(lanes, 5, KINDS[kind].dtype)
    run_compiled(source_of(names, ["x", "y"], body), [x, y])
    assert y.tolist() == [7] + [5] * (lanes - 1)


@pytest.fixture(scope="module")
def fence() -> Iterator[int]:
    """An address up to which memory may be used, and not beyond."""
    pages = mmap.mmap(-1, 2 * mmap.PAGESIZE)
    held = ctypes.c_char.from_buffer(pages)
    end = ctypes.addressof(held) + mmap.PAGESIZE
    protect = ctypes.CDLL(None).mprotect
    assert protect(ctypes.c_void_p(end), mmap.PAGESIZE, 0) == 0
    yield end
    assert protect(ctypes.c_void_p(end), mmap.PAGESIZE, mmap.PROT_READ | mmap.PROT_WRITE) == 0
    del held


@pytest.mark.skipif(not host.target().is_posix, reason="the fence is one of POSIX")
@pytest.mark.parametrize("level", [None, "x86-64-v2"], ids=str)
@pytest.mark.parametrize("kind", ["f16", "f32", "f64", "u8", "i16", "bool"])
def test_masked_loads_and_stores_touch_no_other_lane(
    kind: str, level: str | None, fence: int, rng: np.random.Generator
) -> None:
    """Any lanes, and all numbers of first lanes, next to memory that nobody may use. The level of no masked moves has
    them in pieces."""
    target = target_named(level) if level else host.target()
    assert target is not None
    if level and not host.target().has(*LEVELS["v2"]):
        pytest.skip("this processor is another one")
    dtype, size = KINDS[kind].dtype, KINDS[kind].size
    lanes = target.lanes(size)
    masks = [np.arange(lanes) < count for count in range(lanes + 1)]
    masks += [np.arange(lanes) >= lanes // 2, *(rng.random((20, lanes)) < 0.5)]
    names = [f"{load}_{kind}x{lanes}" for load in ("load", "load_masked")] + [f"load_boolx{lanes}"]
    body = [f"m = load_boolx{lanes}(on)", f"store(y, load_masked_{kind}x{lanes}(place, m))"]
    body += [f"store_masked(place, load_{kind}x{lanes}(z), m)"]
    source = source_of([*names, "store", "store_masked"], ["place", "y", "z", "on"], body)
    given, others = ((rng.random((2, lanes)) < 0.5) if kind == "bool" else rng.integers(1, 99, (2, lanes))).astype(
        dtype
    )
    with host.using(target):
        run = compiled(source)
    for on in masks:
        end = int(np.flatnonzero(on)[-1]) + 1 if on.any() else 0
        place = fence - end * size
        memory = np.frombuffer((ctypes.c_char * (end * size)).from_address(place), dtype)
        memory[:] = given[:end]
        found = np.full(lanes, 1, dtype)
        run(place, found.ctypes.data, others.ctypes.data, on.ctypes.data)
        np.testing.assert_array_equal(found, np.where(on, given, 0).astype(dtype))
        np.testing.assert_array_equal(memory, np.where(on, others, given)[:end])


@pytest.mark.parametrize("kind, lanes", [("f32", NATIVE["f32"]), ("f64", NATIVE["f64"]), ("u8", 16), ("i32", 4)])
def test_square_blocks_are_transposed(kind: str, lanes: int) -> None:
    dtype, size = KINDS[kind].dtype, KINDS[kind].size
    name = f"transpose_{kind}x{lanes}"
    source = source_of([name], ["y", "x"], [f"{name}(y, {(lanes + 1) * size}, x + {size}, {(lanes + 3) * size})"])
    x = np.arange(lanes * (lanes + 3)).astype(dtype).reshape(lanes, lanes + 3)
    for run in (run_compiled, run_emulated):
        y = np.zeros((lanes, lanes + 1), dtype)
        run(source, [y, x])
        np.testing.assert_array_equal(y[:, :lanes], x[:, 1 : lanes + 1].T)
        assert not y[:, lanes].any()


@pytest.mark.skipif(NATIVE["f64"] < 4, reason="such rows are added one by one")
def test_rows_are_turned_in_registers() -> None:
    x = sj.tensor((None, 8), "float64", "x")
    f = sj.function([x], sj.cumsum(x, -1))
    assert f"transpose_f64x{NATIVE['f64']}" in f.source and "scanjit_transpose" not in f.inspect_asm()


def emulated(body: list[str], *arguments: int, memory: emulate.Allocations) -> None:
    imports = (
        "load_f32x4 load_masked_f32x4 load_strided_f32x4 gather_f32x4 broadcast_f32x4 store store_masked scatter "
        "splat_f32x4 head_x4 load_i64x4 load_i64 store_i64 splat_i64x4 iota_i64x4"
    ).split()
    source = source_of(imports, ["p", "q"][: len(arguments)], body)
    emulate.load_source(source, memory)["kernel"](*arguments)


FAULTS = [
    ("load_f32x4(p + 20)", r"load of f32x4 at byte 20 of x \(32 bytes\): it ends at byte 36"),
    ("load_f32x4(p - 4)", r"at byte -4 of x"),
    ("load_f32x4(p + 2)", "not aligned to 4 bytes"),
    ("load_f32x4(p + 4096)", "at byte 4096 of x"),
    ("load_f32x4(64)", "no allocation"),
    ("broadcast_f32x4(p + 32)", "ends at byte 36"),
    ("load_masked_f32x4(p + 20, head_x4(4))", "ends at byte 36"),
    ("load_strided_f32x4(p, 12, head_x4(4))", "ends at byte 40"),
    ("load_strided_f32x4(p + 4, -4, head_x4(3))", "byte -4 of x"),
    ("gather_f32x4(p, iota_i64x4(0) * 2, head_x4(4))", "not aligned"),
    ("scatter(p, iota_i64x4(-1) * 4, splat_f32x4(0), head_x4(1))", "byte -4 of x"),
    ("store(p + 20, splat_f32x4(1))", "store of f32x4 at byte 20 of x"),
    ("store_masked(p + 20, splat_f32x4(1), head_x4(4))", "ends at byte 36"),
    ("store_i64(p + 4, 1)", "not aligned to 8"),
    ("load_i64(p + 32)", "ends at byte 40"),
]


@pytest.mark.parametrize(("text", "message"), FAULTS)
def test_faults(text: str, message: str) -> None:
    memory = emulate.Allocations()
    before = memory.add(np.zeros(8, np.float32), name="before")
    p = memory.add(np.zeros(8, np.float32), name="x")
    memory.add(np.zeros(8, np.float32), name="after")
    assert before != p
    with pytest.raises(emulate.MemoryFault, match=message):
        emulated([text], p, memory=memory)


def test_off_lanes_are_not_checked() -> None:
    memory = emulate.Allocations()
    p = memory.add(np.arange(8, dtype=np.float32), name="x")
    body = [
        "m = head_x4(3)",
        "store_masked(p + 20, load_masked_f32x4(p + 20, m), m)",
        "store_masked(p, load_strided_f32x4(p, 12, m), head_x4(0))",
        "scatter(p, iota_i64x4(5) * 4, gather_f32x4(p, iota_i64x4(5) * 4, m), m)",
        "load_masked_f32x4(12345, head_x4(-1))",
    ]
    emulated(body, p, memory=memory)


def test_read_only_and_freed() -> None:
    memory = emulate.Allocations()
    p = memory.add(np.zeros(8, np.float32), writable=False, name="weights")
    emulated(["load_f32x4(p)"], p, memory=memory)
    with pytest.raises(emulate.MemoryFault, match=r"weights.*read-only"):
        emulated(["store(p, splat_f32x4(1))"], p, memory=memory)
    memory.free(p)
    with pytest.raises(emulate.MemoryFault, match="no allocation"):
        emulated(["load_f32x4(p)"], p, memory=memory)
    frozen = np.zeros(4, np.float32)
    frozen.flags.writeable = False
    with pytest.raises(emulate.MemoryFault, match="read-only"):
        emulated(["store(p, splat_f32x4(1))"], memory.add(frozen), memory=memory)


def test_uninitialised_bytes() -> None:
    memory = emulate.Allocations()
    p = memory.allocate(64, "workspace")
    with pytest.raises(emulate.MemoryFault, match=r"workspace.*nothing has written"):
        emulated(["load_f32x4(p)"], p, memory=memory)
    emulated(["store_masked(p, splat_f32x4(1), head_x4(3))"], p, memory=memory)
    emulated(["load_masked_f32x4(p, head_x4(3))", "broadcast_f32x4(p + 8)"], p, memory=memory)
    for text in ("load_f32x4(p)", "load_masked_f32x4(p, head_x4(4))", "load_strided_f32x4(p, 12, head_x4(2))",
                 "load_i64(p + 8)", "gather_f32x4(p, iota_i64x4(0) * 4, head_x4(4))"):  # fmt: skip
        with pytest.raises(emulate.MemoryFault, match="nothing has written"):
            emulated([text], p, memory=memory)
    emulated(["store(p, splat_f32x4(1))", "store(p, load_f32x4(p))"], p, memory=memory)
    untracked = memory.allocate(16, tracked=False)
    emulated(["load_f32x4(p)"], untracked, memory=memory)


def test_results_that_are_not_written_whole() -> None:
    memory, array = emulate.Allocations(), np.zeros((2, 4), np.float32)
    p = memory.add(array, tracked=True)
    emulated(["store(p, splat_f32x4(1))"], p, memory=memory)
    np.testing.assert_array_equal(memory.written(p), [1] * 16 + [0] * 16)
    written = memory.written(p).view(array.dtype).reshape(array.shape)
    check_written([written[:1]])
    with pytest.raises(emulate.MemoryFault, match="result 1 has elements that nothing has written"):
        check_written([written[0], written[:, 1]])


def test_strided_arrays_and_values() -> None:
    memory = emulate.Allocations()
    whole = np.arange(40, dtype=np.float32)
    p = memory.add(whole[10:30:5], name="column")  # 4 elements, 20 bytes apart
    out = np.zeros(4, np.float32)
    body = ["store(q, load_strided_f32x4(p, 20, head_x4(4)))"]
    emulated(body, p, memory.add(out), memory=memory)
    assert out.tolist() == [10, 15, 20, 25]
    flipped = memory.add(out[::-1], name="flipped")
    emulated(["store(q, load_strided_f32x4(p, -4, head_x4(4)))"], flipped, memory.add(whole), memory=memory)
    assert whole[:4].tolist() == [25, 20, 15, 10]
    with pytest.raises(emulate.MemoryFault, match="column"):
        emulated(["load_f32x4(p + 56)"], p, memory=memory)


def test_loaded_values_do_not_change_with_memory() -> None:
    memory = emulate.Allocations()
    x = np.arange(8, dtype=np.float32)
    emulated(["v = load_f32x4(p)", "store(p, splat_f32x4(9))", "store(p + 16, v)"], memory.add(x), memory=memory)
    assert x.tolist() == [9, 9, 9, 9, 0, 1, 2, 3]
