"""Generated code is Numba code: Numba compiles it as it stands, to the same results."""

import ast
import re

import numba
import numpy as np
import pytest

import scanjit.numba  # makes `scanjit.simd` known to Numba
from scanjit.codegen.places import SYNC_WORDS
from scanjit.runtime.kernels import kernel
from scanjit.runtime.program import Staged
from tests.golden.programs import PROGRAMS

assert scanjit.numba


@pytest.mark.parametrize("name", [pytest.param("garch", marks=pytest.mark.slow), "softmax"])
def test_numba_types_and_compiles_all_kernels_of_a_program(name: str) -> None:
    source = Staged(*PROGRAMS[name](), name, "emulate").source
    functions = [each for each in ast.parse(source).body if isinstance(each, ast.FunctionDef)]
    namespace: dict[str, object] = {}
    exec(source, namespace)
    namespace |= {each.name: numba.njit(namespace[each.name]) for each in functions}
    for each in functions:
        namespace[each.name].compile((numba.int64,) * len(each.args.args))  # type: ignore[attr-defined]


def test_numba_computes_the_same_bits() -> None:
    source = """
from scanjit.simd import exp, fma, head_x8, load_masked_f32x8, select, splat_f32x8, store_masked


def smooth(x, y, n):
    for i in range(0, n, 8):
        inside = head_x8(n - i)
        value = load_masked_f32x8(x + 4*i, inside)
        scaled = fma(value, splat_f32x8(0.5), exp(-value)) * 3 - 0.25
        store_masked(y + 4*i, select(value < 0.0, scaled, value), inside)
"""
    namespace: dict[str, object] = {}
    exec(source, namespace)
    x = np.random.default_rng(0).normal(size=37).astype(np.float32)
    ours, theirs = np.zeros_like(x), np.zeros_like(x)
    kernel(source, "smooth")(x.ctypes.data, ours.ctypes.data, x.size)
    numba.njit(namespace["smooth"])(x.ctypes.data, theirs.ctypes.data, x.size)
    np.testing.assert_array_equal(ours, theirs)
    assert (ours != x).any()


def test_an_error_names_the_function_and_its_arguments() -> None:
    from scanjit.simd import tanh

    @numba.njit
    def wrong(x):
        return tanh(x)

    with pytest.raises(numba.TypingError, match=re.escape("tanh(int64): no operand is a vector")):
        wrong(3)


def test_numba_finds_the_functions_with_which_threads_share_work() -> None:
    from scanjit.simd import first_piece, store_i64

    @numba.njit
    def begin(log, sync, line):
        store_i64(log, first_piece(sync, 1, 3, 0, 30, 1, 0, line))

    log, sync, number, line = (np.zeros(n, np.int64) for n in (1, SYNC_WORDS + 8, 1, 32))
    line[0] = number.ctypes.data
    begin(log.ctypes.data, -(-sync.ctypes.data // 64) * 64, line.ctypes.data)
    assert log[0] == 10
