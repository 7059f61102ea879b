"""Products of matrices in registers: beside NumPy, in the emulation, and compiled where the processor has them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from scanjit.ops.narrow import _contracted_pairs, _contracted_quads, _pair  # the references of products of packs
from scanjit.runtime import host
from scanjit.target import target_for

from .support import assembly, run_compiled, run_emulated, source_of

FEATURES = "+avx512f,+avx512vl,+avx512dq,+avx512bw,+avx512bf16,+avx512vnni,+amx-bf16,+amx-int8"
TARGET = replace(target_for("x86_64-unknown-linux-gnu", "sapphirerapids", FEATURES), has_matrices=True)
RUNS = [run_emulated, *([run_compiled] if host.target().has_matrices else [])]


def product(kind: str, rows: int, terms: int, count: int, begun: bool) -> str:
    """The source of `count` products of a left matrix."""
    name = f"multiply_matrices{count}_{kind}"
    rights = ", ".join(f"right + {64 * k}" for k in range(count))
    call = f"{name}(sums, {int(begun)}, left, {4 * max(terms, 1)}, {terms}, {64 * count}, {rights})"
    body = [f"begin_matrices({rows}, {terms})", call, "end_matrices()"]
    return source_of([name, "begin_matrices", "end_matrices"], ["sums", "left", "right"], body)


def packed(rng: np.random.Generator, kind: str, shape: tuple[int, ...]) -> np.ndarray:
    """Packs of random numbers, some of them close to zero."""
    if kind == "i8":
        return rng.integers(-(2**31), 2**31, shape).astype(np.int32)
    numbers = rng.standard_normal((2, *shape)) * 2.0 ** np.where(rng.random((2, *shape)) < 0.1, -127, 0)
    return _pair(*numbers.astype(np.float32))


@pytest.mark.parametrize("kind", ["bf16", "i8"])
@pytest.mark.parametrize(
    ("rows", "terms", "count", "begun"),
    [(16, 16, 4, 0), (1, 1, 1, 1), (5, 47, 3, 1), (16, 0, 2, 0), (3, 32, 2, 0), (7, 17, 4, 1), (2, 0, 1, 1)],
)
def test_products(kind: str, rows: int, terms: int, count: int, begun: bool) -> None:
    """Those of int8 are exact; those of bfloat16 have the same bits in the emulation as in the registers."""
    rng = np.random.default_rng(rows + terms)
    left, right = packed(rng, kind, (rows, max(terms, 1))), packed(rng, kind, (max(terms, 1), count, 16))
    exact = kind == "i8"
    multiply = _contracted_quads if exact else _contracted_pairs
    wanted = multiply(left[:, :terms], right[:terms], left=(0, 1), right=(1, 2, 3), out=(0, 2, 3)) + 7 * begun
    found = []
    for run in RUNS:
        sums = np.full((rows, count, 16), 7, np.int32 if exact else np.float32)
        run(product(kind, rows, terms, count, begun), [sums, left, right])
        np.testing.assert_allclose(sums, wanted, rtol=0 if exact else 1e-5, atol=0 if exact else 1e-5)
        found.append(sums.view(np.int32))
    np.testing.assert_array_equal(found, [found[0]] * len(found))


def test_sizes_are_set_before() -> None:
    sums, left, right = (np.zeros(16, np.int32) for _ in range(3))
    with pytest.raises(ValueError, match="1 to 16 rows, got 17"):
        run_emulated(product("i8", 17, 1, 1, False), [sums, left, right])
    source = product("i8", 1, 1, 1, False).replace("begin_matrices(1, 1)", "begin_matrices(1, 2)")
    with pytest.raises(ValueError, match="for 2 terms, not for 1"):
        run_emulated(source, [sums, left, right])


@pytest.mark.parametrize(("kind", "instruction"), [("bf16", "tdpbf16ps"), ("i8", "tdpbusd")])
def test_instructions(kind: str, instruction: str) -> None:
    """Four products in a turn of the loop, and four behind it."""
    text = assembly(product(kind, 16, 40, 4, False), TARGET)
    assert text.count(instruction) == 8 and "ldtilecfg" in text and "tilerelease" in text


# ---- in programs -----------------------------------------------------------------------------------------------------

Case = tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]
CASES: dict[str, Case] = {
    "plain": (lambda a, b: a @ b, ((20, 33), (33, 48))),
    "odd columns": (lambda a, b: a @ b, ((5, 64), (64, 100))),
    "rows of three axes": (lambda a, b: a @ b, ((3, 7, 32), (32, 64))),
    "a batch": (lambda a, b: a @ b, ((2, 9, 32), (2, 32, 32))),
    "turned": (lambda a, b: a @ b.T, ((17, 40), (35, 40))),
    "a turned left operand": (lambda a, b: a.T @ b, ((40, 17), (40, 32))),
    "a turned left operand of many columns": (lambda a, b: a.T @ b, ((40, 17), (40, 144))),
    "one row": (lambda a, b: a @ b, ((1, 40), (40, 64))),
    "four products": (
        lambda a, b: (a @ b[:, :40]) * (a @ b[:, 40:80]) + (a @ b[:, 80:120]) * (a @ b[:, 120:]),
        ((18, 50), (50, 160)),
    ),
    "right operands of other widths": (
        lambda a, b: (a @ b[:, :32]) * (a @ (b[:, 32:64] * 2)),
        ((6, 20), (20, 96)),
    ),
    "five products": (lambda a, b: sum((a @ b[:, k::5]) * k for k in range(5)), ((18, 50), (50, 160))),
    "long sums": (lambda a, b: a @ b, ((9, 1500), (1500, 32))),
    "no terms": (lambda a, b: a @ b, ((9, 0), (0, 32))),
    "a step": (
        lambda a, b: sj.scan(lambda x, h: abs(x + h @ b), a, sj.zeros((a.shape[1], 24), "float32")),
        ((4, 19, 24), (24, 24)),
    ),
}


@pytest.mark.parametrize("weights", ["bfloat16", "int8"])
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_programs(name: str, known: bool, weights: str, rng: np.random.Generator) -> None:
    """With sizes that are known and that are not, emulated: as with other instructions."""
    f, shapes = CASES[name]
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    sizes = [shape if known else (None,) * len(shape) for shape in shapes]
    found = []
    for target in (TARGET, replace(TARGET, has_matrices=False)):
        with host.using(target):
            symbols = [sj.tensor(size, "float32") for size in sizes]
            g = sj.mixed(sj.function(symbols, f(*symbols), mode="emulate"), weights=weights)
        found.append(g(*arrays))
    if weights == "int8":
        np.testing.assert_array_equal(*found)
    else:
        np.testing.assert_allclose(*found, rtol=2e-5, atol=2e-5 * max(shapes[0]))


@pytest.mark.parametrize("weights", ["bfloat16", "int8"])
def test_registers_are_used(weights: str) -> None:
    """A step of an LSTM multiplies four right matrices at a time; 16 rows behind the sums are computed one by one."""
    xs, w = sj.tensor(("T", "B", 128), "float32"), sj.tensor((32, 128), "float32")

    def step(x: Any, h: Any, c: Any) -> Any:
        i, f, o, u = sj.split(x + h @ w, 4, axis=1)
        c = sj.sigmoid(f) * c + sj.sigmoid(i) * sj.tanh(u)
        return sj.sigmoid(o) * sj.tanh(c), c

    with host.using(TARGET):
        hs, _ = sj.scan(step, xs, [sj.zeros((xs.shape[1], 32), "float32")] * 2)
        f = sj.mixed(sj.function([xs, w], hs, mode="emulate"), weights=weights)
        source = f.source
    kind = {"bfloat16": "bf16", "int8": "i8"}[weights]
    assert f"multiply_matrices4_{kind}(" in source and "dot_" not in source
    assert "16 rows x 1 vectors lie in registers for matrices" in str(f.explain())


def test_weights_of_gradients_are_computed_in_registers() -> None:
    """`x.T @ dy`: the terms of a row of `x.T` are copied, so that they are neighbours."""
    x, w = sj.tensor(("B", 48), "float32"), sj.tensor((48, 256), "float32")
    with host.using(TARGET):
        f = sj.mixed(sj.function([x, w], sj.grad((sj.tanh(x @ w) ** 2).sum(), [w]), mode="emulate"))
        assert f.source.count("multiply_matrices4_bf16(") >= 2 and "dot_bf16" not in f.source


@pytest.mark.skipif(not host.target().has_matrices, reason="the processor has no registers for matrices")
@pytest.mark.parametrize("weights", ["bfloat16", "int8"])
@pytest.mark.parametrize("batch", [1, 3, 16, 40])
def test_bits_do_not_depend_on_threads(weights: str, batch: int, rng: np.random.Generator) -> None:
    xs, w = sj.tensor(("T", "B", 128), "float32"), sj.tensor((128, 128), "float32")
    hs = sj.scan(lambda x, h: sj.tanh(x + h @ w), xs, sj.zeros((xs.shape[1], 128), "float32"))
    f = sj.mixed(sj.function([xs, w], hs), weights=weights)
    arrays = [rng.standard_normal(s).astype(np.float32) for s in ((5, batch, 128), (128, 128))]
    found = []
    for threads in (1, 2, 3, 8):
        sj.config.threads = threads
        found.append(f(*arrays).view(np.int32))
    np.testing.assert_array_equal(found, [found[0]] * 4)
