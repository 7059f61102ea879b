"""Functions of vectors give the same bits whether their numbers lie in registers or in memory."""

from collections.abc import Sequence

import numpy as np
import pytest

from scanjit.kinds import KINDS
from scanjit.runtime import compiler, kernels
from scanjit.simd.inlined import inlined
from scanjit.simd.table import FUNCTIONS
from scanjit.simd.types import simd_type
from scanjit.target import target_for
from tests.simd import support

NAMES = [name for name, each in FUNCTIONS.items() if not each.inline and each.families == "f" and each.arity <= 2]
AVX512 = "+avx2,+fma,+avx512f,+avx512vl,+avx512dq,+avx512bw"


def source(names: Sequence[str], kind: str, lanes: int, sums: bool) -> str:
    """A kernel that stores functions of one or two vectors at `x` to the rows of `y`. It may have a loop of sums, too,
    with `n` turns."""
    load, splat, nbytes = f"load_{kind}x{lanes}", f"splat_{kind}x{lanes}", lanes * KINDS[kind].size
    body = [f"a = {load}(x)", f"b = {load}(x + {nbytes})"]
    if sums:
        body += [f"s = {splat}(0.0)", f"t = {splat}(0.0)", "if n:", "    for k in range(n):"]
        body += [f"        c = {load}(x + {nbytes}*k)", "        s = fma(c, c, s)", "        t = fma(a, c, t)"]
        body += ["store(y, s + t)"]
    for i, name in enumerate(names):
        body.append(f"store(y + {nbytes * i}, {name}({', '.join('ab'[: FUNCTIONS[name].arity])}))")
    return support.source_of([*names, "fma", load, splat, "store"], ["x", "y", "n"], body)


@pytest.mark.parametrize("kind", support.FLOATS)
def test_the_same_bits(kind: str) -> None:
    """All functions, at special values and at others."""
    lanes, rng = support.NATIVE[kind], np.random.default_rng(0)
    if lanes == 1:
        pytest.skip("no vectors")
    values = np.concatenate([support.special_values(kind), 3 * rng.standard_normal(9 * lanes)])
    values = values.astype(KINDS[kind].dtype)
    whole, apart = (support.compiled(source(NAMES, kind, lanes, sums)) for sums in (True, False))
    for start in range(0, len(values) - 2 * lanes, lanes):
        given, results = values[start : start + 2 * lanes].copy(), []
        for run in (whole, apart):
            result = np.zeros((len(NAMES), lanes), given.dtype)
            run(given.ctypes.data, result.ctypes.data, 0)
            results.append(result)
        np.testing.assert_array_equal(*results, err_msg=f"of {given}")


@pytest.mark.parametrize(
    "features, sums, reads", [("+avx2,+fma", True, True), ("+avx2,+fma", False, False), (AVX512, True, False)]
)
def test_where_numbers_lie(features: str, sums: bool, reads: bool) -> None:
    """They lie in memory in kernels with loops of sums, where the processor has sixteen registers."""
    target = target_for("x86_64-linux-gnu", features=features)
    lanes = target.lanes(4)
    unit = kernels.units([(source(["tanh"], "f32", lanes, sums), "kernel", {})], target)["kernel"]
    module = compiler.translate(unit, target).module
    assert f"scanjit.tanh.f32x{lanes}" in module
    assert (f"scanjit.tanh.f32x{lanes}.numbers" in module) == reads


@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_the_same_functions_are_calls(kind: str) -> None:
    """Instructions that read numbers make no function long, and those that it seldom runs none short."""
    target = target_for("x86_64-linux-gnu", features="")
    vector, calls = simd_type(KINDS[kind], target.lanes(KINDS[kind].size)), {}
    for name, function in FUNCTIONS.items():
        if "f" in function.families:
            for reads in (False, True):
                parts = inlined(name, (vector,) * function.arity, target, reads).parts
                calls[name, reads] = [part for part, text in parts.items() if " noinline" in text]
            assert calls[name, True] == calls[name, False]
    assert calls["gammaln", True] and not calls["tanh", True]
