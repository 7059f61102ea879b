"""Products of matrices in registers: beside NumPy, in the emulation, and compiled where the processor has them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest

from scanjit.ops.narrow import _contracted_pairs, _contracted_quads, _pair  # the references of products of packs
from scanjit.runtime import host
from tests.targets import with_matrices

from .support import assembly, run_compiled, run_emulated, source_of

RUNS = [run_emulated, *([run_compiled] if host.target().has_matrices else [])]


def product(kind: str, rows: int, terms: int, count: int, begun: bool, parts: Sequence[int] = ()) -> str:
    """The source of `count` products of a left matrix, computed in `parts` that begin at these matrices."""
    name, sums = f"add_products{count}_{kind}", [f"begin_sums{count}", f"end_sums{count}"]
    rights = ", ".join(f"right + {64 * k}" for k in range(count))
    given = f"left, {4 * max(terms, 1)}, {terms}, {64 * count}, {rights}"
    calls = [f"{name}({first}, {stop}, {given})" for first, stop in itertools.pairwise((0, *parts, -(-terms // 16)))]
    body = [f"begin_matrices({rows}, {terms})", f"{sums[0]}(sums, {int(begun)})", *calls, f"{sums[1]}(sums)"]
    names = [name, *sums, "begin_matrices", "end_matrices"]
    return source_of(names, ["sums", "left", "right"], [*body, "end_matrices()"])


def packed(rng: np.random.Generator, kind: str, shape: tuple[int, ...]) -> np.ndarray:
    """Packs of random numbers, some of them close to zero."""
    if kind != "bf16":
        return rng.integers(-(2**31), 2**31, shape).astype(np.int32)
    numbers = rng.standard_normal((2, *shape)) * 2.0 ** np.where(rng.random((2, *shape)) < 0.1, -127, 0)
    return _pair(*numbers.astype(np.float32))


@pytest.mark.parametrize("kind", ["bf16", "u8i8", "i8u8"])
@pytest.mark.parametrize(
    ("rows", "terms", "count", "begun"),
    [(16, 16, 4, 0), (1, 1, 1, 1), (5, 47, 3, 1), (16, 0, 2, 0), (3, 32, 2, 0), (7, 17, 4, 1), (2, 0, 1, 1)],
)
def test_products(kind: str, rows: int, terms: int, count: int, begun: bool) -> None:
    """Those of int8 are exact; those of bfloat16 have the same bits in the emulation as in the registers."""
    rng = np.random.default_rng(rows + terms)
    left, right = packed(rng, kind, (rows, max(terms, 1))), packed(rng, kind, (max(terms, 1), count, 16))
    exact = kind != "bf16"
    multiply = _contracted_quads if exact else _contracted_pairs
    factors = [(left[:, :terms], (0, 1)), (right[:terms], (1, 2, 3))]
    (a, at), (b, to) = reversed(factors) if kind == "i8u8" else factors  # the integers of the first one have no sign
    wanted = multiply(a, b, left=at, right=to, out=(0, 2, 3)) + 7 * begun
    found = []
    for run, parts in itertools.product(RUNS, [(), (0, 1), (1, 1, 2, 9), (7,)]):
        sums = np.full((rows, count, 16), 7, np.int32 if exact else np.float32)
        run(product(kind, rows, terms, count, begun, parts), [sums, left, right])
        np.testing.assert_allclose(sums, wanted, rtol=0 if exact else 1e-5, atol=0 if exact else 1e-5)
        found.append(sums.view(np.int32))
    np.testing.assert_array_equal(found, [found[0]] * len(found))


def test_sizes_are_set_before() -> None:
    sums, left, right = (np.zeros(16, np.int32) for _ in range(3))
    with pytest.raises(ValueError, match="1 to 16 rows, got 17"):
        run_emulated(product("u8i8", 17, 1, 1, False), [sums, left, right])
    source = product("u8i8", 1, 1, 1, False).replace("begin_matrices(1, 1)", "begin_matrices(1, 2)")
    with pytest.raises(ValueError, match="for 2 terms, not for 1"):
        run_emulated(source, [sums, left, right])


@pytest.mark.parametrize(("kind", "instruction"), [("bf16", "tdpbf16ps"), ("u8i8", "tdpbusd"), ("i8u8", "tdpbsud")])
def test_instructions(kind: str, instruction: str) -> None:
    """Four products in a turn of the loop, and four behind it."""
    text = assembly(product(kind, 16, 40, 4, False), with_matrices())
    assert text.count(instruction) == 8 and "ldtilecfg" in text and "tilerelease" in text
