"""What only a fresh process can show: imports without Numba, other vector widths, object code of its own."""

import sys
from pathlib import Path

import pytest

from scanjit.errors import ArgumentError
from scanjit.runtime import compiler, host, kernels
from tests.scripts import python

from .support import NATIVE, source_of

ROOT = Path(__file__).parent.parent.parent
NEEDED = set("memset memcpy _GLOBAL_OFFSET_TABLE_ rintf rint floor floorf ceil ceilf trunc truncf".split())


def test_neither_the_emulation_nor_the_functions_need_numba() -> None:
    code = """
import sys, types
package = types.ModuleType("scanjit"); package.__path__ = [sys.argv[1] + "/scanjit"]
sys.modules["scanjit"] = package  # without what the package itself imports
import scanjit.simd, scanjit.simd.emulate as emulate
assert scanjit.simd.is_public("load_f32x16")
emulate.resolve("tanh", emulate.Allocations())
assert not any(name.split(".")[0] == "numba" for name in sys.modules)
scanjit.simd.tanh
assert not any(name.split(".")[0] == "numba" for name in sys.modules)
"""
    python(code, ROOT)


KERNEL = """
import ctypes, mmap, sys
import numpy as np
from scanjit.runtime import host
from scanjit.runtime.kernels import kernel
lanes, narrow = host.target().lanes(8), host.target().lanes(4)
assert [lanes, narrow] == [int(a) for a in sys.argv[1:3]], (lanes, narrow)
def body(name, vector):
    return f'''
        v = {vector}
        w = cast_f64x{lanes}(tanh(cast_f32x{lanes}(v)))
        {name} = sigmoid(v) + exp(-v) * log(v) + fma(sin(v), erf(v), pow(v, 1.5)) + w + mod(v, 0.7)'''
name = f"guarded_{lanes}"
kernel = kernel(f'''
from scanjit.simd import load_f64x{lanes}, load_masked_f64x{lanes}, store, store_masked, head_x{lanes}
from scanjit.simd import tanh, sigmoid, exp, log, sin, pow, erf, fma, mod, cast_f32x{lanes}, cast_f64x{lanes}
def {name}(x, y, n):
    i = 0
    while i + {lanes} <= n:{body("z", f"load_f64x{lanes}(x + i * 8)")}
        store(y + i * 8, z)
        i += {lanes}
    for _ in range(1):
        m = head_x{lanes}(n - i){body("z", f"load_masked_f64x{lanes}(x + i * 8, m)")}
        store_masked(y + i * 8, z, m)
''', name)

# both arrays end where a page ends that may not be touched
libc = ctypes.CDLL(None)
def guarded(count):
    page = mmap.PAGESIZE
    area = mmap.mmap(-1, 2 * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(area))
    assert libc.mprotect(ctypes.c_void_p(start + page), ctypes.c_size_t(page), 0) == 0
    return area, start + page - 8 * count
for n in (1, 3, 7, 8, 13, 37):
    keep_x, x = guarded(n)
    keep_y, y = guarded(n)
    view = lambda a: np.ctypeslib.as_array((ctypes.c_double * n).from_address(a))
    view(x)[:] = v = np.random.default_rng(n).uniform(0.1, 3, n)
    kernel(x, y, n)
    from math import erf
    want = 1 / (1 + np.exp(-v)) + np.exp(-v) * np.log(v) + np.sin(v) * np.array([erf(t) for t in v]) + v**1.5
    want += np.tanh(v) + np.mod(v, 0.7)
    np.testing.assert_allclose(view(y), want, rtol=0, atol=1e-6)
calls = [line for line in kernel.asm().splitlines() if "$fma" in line or ", fma" in line]
assert not calls, calls
print("ok", flush=True)
import os; os._exit(0)  # unmapping guarded pages that ctypes still exports would complain
"""


@pytest.mark.quick(1)
@pytest.mark.skipif(sys.platform == "win32", reason="mprotect")
@pytest.mark.parametrize(
    ("width", "cpu", "lanes"),
    [("64", "", "8 16"), ("32", "", "4 8"), ("16", "", "2 4"), ("8", "", "1 2"), ("16", "generic", "2 4")],
)
def test_widths_and_guarded_tails(width: str, cpu: str, lanes: str) -> None:
    environment = {"SCANJIT_VECTOR_BYTES": width} | ({"NUMBA_CPU_NAME": cpu} if cpu else {})
    assert python("import sys\n" + KERNEL, *lanes.split(), **environment).endswith("ok\n")


WIDER = """
import numpy as np, scanjit as sj
from scanjit.runtime import host
assert host.target().vector_bytes > host.target().register_bytes
given = np.random.default_rng(0).normal(size=(37, 70)) * 9
for dtype in ("float32", "int8", "uint8"):
    x = sj.matrix("x", dtype)
    outputs = [x.astype("float32") * 2, (x + x).astype("int8"), x.T + 0, sj.sort(x, 1), sj.cumsum(x, 0)]
    wide, reference = (sj.function([x], outputs, mode=mode) for mode in ("numba", "reference"))
    for got, want in zip(wide(given.astype(dtype)), reference(given.astype(dtype)), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5)
print("ok")
"""


@pytest.mark.quick(1)
@pytest.mark.skipif(not host.target().is_x86, reason="other processors have vectors of one width")
@pytest.mark.parametrize(("width", "features"), [("64", "+avx2,+fma"), ("32", "+sse4.2")])
def test_vectors_that_no_register_holds(width: str, features: str) -> None:
    """LLVM ended the process where a register was asked for that the processor does not have."""
    environment = {"SCANJIT_VECTOR_BYTES": width, "NUMBA_CPU_NAME": "x86-64", "NUMBA_CPU_FEATURES": features}
    assert python(WIDER, **environment).endswith("ok\n")


def test_bad_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCANJIT_VECTOR_BYTES", "48")
    with pytest.raises(ArgumentError, match=r"SCANJIT_VECTOR_BYTES is no width of vectors\n.*'48'\n.*4, 8, 16, 32, 64"):
        host.target()


LOADER = """
import ctypes, sys
import numpy as np
import llvmlite.binding as llvm
try:
    llvm.initialize()
except RuntimeError:
    pass  # newer versions initialise themselves
llvm.initialize_native_target()
llvm.initialize_native_asmprinter()
machine = llvm.Target.from_default_triple().create_target_machine()
engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
engine.add_object_file(llvm.ObjectFileRef.from_path(sys.argv[1]))
engine.finalize_object()
address = engine.get_function_address(sys.argv[2])
assert "numba" not in sys.modules
function = ctypes.CFUNCTYPE(None, *[ctypes.c_ssize_t] * 2)(address)
x = np.linspace(0.1, 2, 64)
y = np.zeros(64)
function(x.ctypes.data, y.ctypes.data)
print(abs(y - np.tanh(x) * np.sin(x) * np.cbrt(x)).max() < 1e-14)
"""


def test_object_code_needs_no_mathematics_of_others(tmp_path: Path) -> None:
    lanes = NATIVE["f64"]
    math = "tanh sin cos tan exp log sigmoid softplus erf erfc gammaln digamma cbrt arcsin arccos".split()
    math += "arctan log2 expm1 sinh cosh floor ceil round trunc sqrt log1p log10 exp2 log_sigmoid".split()
    binary = ["pow", "mod", "fmod", "floordiv", "arctan2"]
    body = [f"for i in range(0, 512, {8 * lanes}):", f"    v = load_f64x{lanes}(x + i)"]
    body += (
        ["    w = v"] + [f"    w = w + {name}(v)" for name in math] + [f"    w = w + {name}(v, w)" for name in binary]
    )
    body += [f"    w = w + cast_f64x{lanes}({name}(cast_f32x{lanes}(v)))" for name in math]
    body += ["    store(y + i, w)", "    store(y + i, tanh(v) * sin(v) * cbrt(v))"]
    casts = [f"cast_f32x{lanes}", f"cast_f64x{lanes}", f"load_f64x{lanes}"]
    assert set(loadable(source_of([*casts, "store", *math, *binary], ["x", "y"], body))[2]) <= NEEDED
    small = source_of(
        [f"load_f64x{lanes}", "store", "tanh", "sin", "cbrt"],
        ["x", "y"],
        [
            f"for i in range(0, 512, {8 * lanes}):",
            f"    v = load_f64x{lanes}(x + i)",
            "    store(y + i, tanh(v) * sin(v) * cbrt(v))",
        ],
    )
    symbol, code, undefined = loadable(small)
    assert set(undefined) <= NEEDED
    path = tmp_path / "kernel.o"
    path.write_bytes(code)
    assert python(LOADER, path, symbol) == "True\n"


def loadable(source: str) -> tuple[str, bytes, list[str]]:
    """The symbol of a kernel, its object code for this process, and what that needs."""
    (unit,) = kernels.units([(source, "kernel", {})], host.target()).values()
    return unit.symbol, *compiler.to_load(compiler.translate(unit, host.target()))
