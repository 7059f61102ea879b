"""Which of LLVM's passes run over kernels.

One pass of LLVM 20, which comes with Numba 0.62 to 0.65, merges shuffles wrongly where two sequences of them begin with
the same vector (llvm/llvm-project#188989). It is not among ours."""

import llvmlite.binding as llvm
import numpy as np
import pytest

import scanjit as sj
from scanjit.runtime import compiler, host

HALVES = """
define <4 x double> @halves(<4 x float> %x) {
  %low = shufflevector <4 x float> %x, <4 x float> poison, <2 x i32> <i32 0, i32 1>
  %high = shufflevector <4 x float> %x, <4 x float> poison, <2 x i32> <i32 2, i32 3>
  %a = fpext <2 x float> %low to <2 x double>
  %b = fpext <2 x float> %high to <2 x double>
  %both = shufflevector <2 x double> %a, <2 x double> %b, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  ret <4 x double> %both
}
"""
"""What that pass looks for: both halves of a vector are converted and put together again."""


def optimised(ours: bool) -> str:
    module = llvm.parse_assembly(HALVES)
    machine = compiler._machine(host.target(), True, 3)
    if ours:
        compiler._optimise(module, machine, True, True)
    else:
        options = llvm.create_pipeline_tuning_options()
        options.speed_level = 3
        passes = llvm.create_pass_builder(machine, options)
        passes.getModulePassManager().run(module, passes)
    return str(module)


@pytest.mark.skipif(not host.target().is_x86, reason="what a shuffle costs decides, and that is the processor's")
def test_shuffles_are_not_merged() -> None:
    assert "shufflevector" not in optimised(ours=False), "LLVM's default no longer has the pass: look for another sign"
    assert optimised(ours=True).count("shufflevector") == 3


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("base", [10.0, 0.5, -2.0, 1.0, 0.0, float("inf")])
def test_the_logarithm_of_a_known_base_is_known(base: float, dtype: str, rng: np.random.Generator) -> None:
    """The logarithm of a base that is a number is computed with the function; the bits are those of `pow`."""
    x, b = sj.tensor(("T",), dtype, "x"), sj.tensor((), dtype, "b")
    known, given = sj.function([x], base**x), sj.function([x, b], b**x)
    edges = [0.0, -0.0, 1.0, 2.0, -3.0, 0.5, np.inf, -np.inf, np.nan, 1e300, -1e300, 1e-300]
    with np.errstate(over="ignore", under="ignore"):
        values = np.concatenate([edges, rng.uniform(-400, 400, 200), rng.uniform(-2, 2, 200)]).astype(dtype)
    np.testing.assert_array_equal(known(values), given(values, np.array(base, dtype)))


def test_code_for_a_known_base_has_no_logarithm(capsys: pytest.CaptureFixture[str]) -> None:
    """A logarithm divides."""
    x, b = sj.tensor(("T",), name="x"), sj.tensor((), name="b")
    divisions = []
    for f in (sj.function([x], 10.0**x), sj.function([x, b], b**x)):
        sj.dprint(f, stage="assembly")
        divisions.append(capsys.readouterr().out.count("div"))
    assert divisions[0] == 0 < divisions[1]
