"""What only a fresh process can show: imports without Numba, other vector widths, object code of its own."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from .support import NATIVE, compiled, source_of

ROOT = Path(__file__).parent.parent.parent
LIBM = set(
    "sin cos tan asin acos atan atan2 lgamma erfc cbrt fmod fmodf memset memcpy _GLOBAL_OFFSET_TABLE_ rintf rint floor "
    "floorf ceil ceilf trunc truncf exp exp2 log".split()
)


def run(code: str, *arguments: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.strip()


def test_no_numba_before_a_compiled_function_is_asked_for() -> None:
    code = """
import sys, types
package = types.ModuleType("scanjit"); package.__path__ = [sys.argv[1] + "/scanjit"]
sys.modules["scanjit"] = package  # without what the package itself imports
import scanjit.simd, scanjit.simd.cpu as cpu, scanjit.simd.emulate as emulate
cpu.describe(), cpu.lanes("float32"), scanjit.simd.is_public("load_f32x16")
emulate.resolve("tanh", emulate.Memory())
assert not any(name.split(".")[0] == "numba" for name in sys.modules)
scanjit.simd.tanh
assert "numba" in sys.modules
"""
    run(code, str(ROOT))


KERNEL = """
import ctypes, mmap, sys
import numpy as np
from numba import njit
from scanjit.simd import cpu
lanes, narrow = cpu.lanes("f64"), cpu.lanes("f32")
assert [lanes, narrow] == [int(a) for a in sys.argv[1:3]], (lanes, narrow)
source = f'''
from scanjit.simd import load_f64x{lanes}, load_masked_f64x{lanes}, store, store_masked, head_x{lanes}
from scanjit.simd import tanh, sigmoid, exp, log, sin, pow, erf, fma, mod, cast_f32x{lanes}, cast_f64x{lanes}
def body(v):
    w = cast_f64x{lanes}(tanh(cast_f32x{lanes}(v)))
    return sigmoid(v) + exp(-v) * log(v) + fma(sin(v), erf(v), pow(v, 1.5)) + w + mod(v, 0.7)
def kernel(x, y, n):
    i = 0
    while i + {lanes} <= n:
        store(y + i * 8, body(load_f64x{lanes}(x + i * 8)))
        i += {lanes}
    m = head_x{lanes}(n - i)
    store_masked(y + i * 8, body(load_masked_f64x{lanes}(x + i * 8, m)), m)
'''
names = {}
exec(source, names)
names["body"] = njit(error_model="numpy", inline="always")(names["body"])
kernel = njit("void(intp, intp, intp)", error_model="numpy")(names["kernel"])

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
calls = [line for line in kernel.inspect_asm(kernel.signatures[0]).splitlines() if "$fma" in line or ", fma" in line]
assert not any("fmaf" in line for line in calls), calls
print("ok", flush=True)
import os; os._exit(0)  # unmapping guarded pages that ctypes still exports would complain
"""


@pytest.mark.skipif(sys.platform == "win32", reason="mprotect")
@pytest.mark.parametrize(
    ("width", "cpu", "lanes"),
    [("64", "", "8 16"), ("32", "", "4 8"), ("16", "", "2 4"), ("8", "", "1 1"), ("16", "generic", "2 4")],
)
def test_widths_and_guarded_tails(width: str, cpu: str, lanes: str) -> None:
    environment = {"SCANJIT_VECTOR_BYTES": width} | ({"NUMBA_CPU_NAME": cpu} if cpu else {})
    assert run("import sys\n" + KERNEL, *lanes.split(), **environment).endswith("ok")


def test_bad_width() -> None:
    code = "from scanjit.simd import cpu\ntry: cpu.vector_bytes()\nexcept ValueError as error: print(error)"
    assert "SCANJIT_VECTOR_BYTES must be" in run(code, SCANJIT_VECTOR_BYTES="48")


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
function = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 2, *[ctypes.c_ssize_t] * 2)(address)
x = np.linspace(0.1, 2, 64)
y = np.zeros(64)
slot = ctypes.c_void_p()
assert function(ctypes.byref(slot), ctypes.byref(slot), x.ctypes.data, y.ctypes.data) == 0
print(abs(y - np.tanh(x) * np.sin(x) * np.cbrt(x)).max() < 1e-14)
"""


@pytest.mark.skipif(shutil.which("nm") is None, reason="needs nm")
def test_object_code_needs_only_libm(tmp_path: Path) -> None:
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
    source = source_of([*casts, "store", *math, *binary], ["x", "y"], body)
    kernel = compiled(source)
    result = kernel.overloads[kernel.signatures[0]]
    path = tmp_path / "kernel.o"
    path.write_bytes(result.library._get_compiled_object())
    undefined = subprocess.run(["nm", "-u", str(path)], capture_output=True, text=True, check=True).stdout.split()
    wrappers = ("Py", "_Py", "numba_", "NRT_")  # what the wrapper for Python calls, which the engine does not build
    names = {name for name in undefined if len(name) > 1 and name not in ("U", "w")}
    kept = {name for name in names if not name.startswith(wrappers)}
    assert kept <= LIBM, kept - LIBM
    small = source_of(
        [f"load_f64x{lanes}", "store", "tanh", "sin", "cbrt"],
        ["x", "y"],
        [
            f"for i in range(0, 512, {8 * lanes}):",
            f"    v = load_f64x{lanes}(x + i)",
            "    store(y + i, tanh(v) * sin(v) * cbrt(v))",
        ],
    )
    described = bare_object(small, path)
    undefined = subprocess.run(["nm", "-u", str(path)], capture_output=True, text=True, check=True).stdout.split()
    assert {name for name in undefined if len(name) > 1} <= LIBM
    assert run(LOADER, str(path), described) == "True"
    assert np.isfinite(lanes)


def bare_object(source: str, path: Path) -> str:
    """Write the object code of a kernel without wrappers, as the engine makes it; returns its symbol."""
    from numba.core import compiler, types
    from numba.core.registry import cpu_target

    names: dict[str, object] = {}
    exec(source, names)
    flags = compiler.Flags()
    flags.no_cpython_wrapper = True
    flags.no_cfunc_wrapper = True
    flags.error_model = "numpy"
    result = compiler.compile_extra(
        cpu_target.typing_context, cpu_target.target_context, names["kernel"], (types.intp,) * 2, types.void, flags, {}
    )
    path.write_bytes(result.library._get_compiled_object())
    return str(result.fndesc.llvm_func_name)
