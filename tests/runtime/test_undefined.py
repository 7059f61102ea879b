"""What object files need of others: for each format the right names, and enough of them for LLVM to load the file."""

import sys

import pytest

from scanjit.runtime import compiler, host, kernels
from scanjit.runtime.undefined import undefined
from scanjit.runtime.unit import Unit
from scanjit.target import Target, target_for
from tests.scripts import python

TRIPLES = (
    "x86_64-linux-gnu",
    "aarch64-linux-gnu",
    "x86_64-apple-macosx",
    "arm64-apple-macosx",
    "x86_64-pc-windows-msvc",
    "aarch64-pc-windows-msvc",
)
ROUNDING = """from scanjit.simd import floor, load_f64x2, store, trunc

def rounding(x, y):
    v = load_f64x2(x)
    store(y, floor(v) + trunc(v * 3.0))
"""
CALLER = """from scanjit.simd import load_f64x2, store

def caller(x, y, line):
    callee(x, y)
"""
LARGE_STACK = """from scanjit.simd import load_f64x2, stack, store

def large_stack(x, y):
    place = stack(100000)
    for i in range(0, 100000, 16):
        store(place + i, load_f64x2(x))
    callee(place, y)
"""
MEETING = """from scanjit.simd import barrier

def meeting(place, line):
    barrier(place, 0, 2, line)
"""


def made(source: str, name: str, triple: str, **externals: int) -> tuple[Unit, Target]:
    target = target_for(triple)
    given = [(f"def {callee}({', '.join('ab'[:arity])}): pass", callee, {}) for callee, arity in externals.items()]
    units = kernels.units([*given, (source, name, externals)], target)
    return units[name], target


@pytest.mark.parametrize("triple", TRIPLES)
def test_names_are_those_of_c(triple: str) -> None:
    """The first processors with 64 bits of x86 have no instruction that rounds."""
    unit, target = made(ROUNDING, "rounding", triple)
    for code in (compiler.to_object([unit], target), compiler.to_load(compiler.translate(unit, target))[0]):
        assert undefined(code) == (["floor", "trunc"] if target.is_x86 else [])


@pytest.mark.parametrize("triple", TRIPLES)
def test_another_kernel_is_one_of_them(triple: str) -> None:
    unit, target = made(CALLER, "caller", triple, callee=2)
    code, names = compiler.to_load(compiler.translate(unit, target))
    assert names == undefined(code) == [unit.externals["callee"][0]] and names[0].startswith("scanjit_callee_")


@pytest.mark.parametrize("triple", TRIPLES)
def test_what_instructions_become(triple: str) -> None:
    """A large stack is looked at by a function of Windows, which no declaration in LLVM's module names."""
    unit, target = made(LARGE_STACK, "large_stack", triple, callee=2)
    _, names = compiler.to_load(compiler.translate(unit, target))
    assert ("__chkstk" in names) == ("windows" in triple)
    assert set(names) <= {"__chkstk", unit.externals["callee"][0]}


@pytest.mark.parametrize("triple", TRIPLES)
def test_who_waits_lets_others_run(triple: str) -> None:
    """Linux has a call of the system with which threads sleep; elsewhere they give up their turn. The instructions in
    between say that somebody waits."""
    unit, target = made(MEETING, "meeting", triple)
    module = compiler.translate(unit, target, loaded=False).module
    wanted = "syscall" if "linux" in triple else "SwitchToThread" if "windows" in triple else "sched_yield"
    assert undefined(compiler.to_object([unit], target)) == [wanted]
    assert ("llvm.x86.sse2.pause" if target.is_x86 else "llvm.aarch64.isb") in module


LOAD = '''
import ctypes, sys
import llvmlite.binding as llvm
import numpy as np
from scanjit.runtime import compiler
from tests.runtime.test_undefined import LARGE_STACK, ROUNDING, made

triple = sys.argv[1]
windows = "windows" in triple
convention, mark = ("win64cc", "") if windows else ("ccc", "_")
llvm.initialize_native_target()
llvm.initialize_native_asmprinter()
llvm.initialize_native_asmparser()

def engine(triple):
    """It takes files of one format."""
    target = llvm.Target.from_triple(triple)
    return llvm.create_mcjit_compiler(llvm.parse_assembly(""), target.create_target_machine(jit=True))

ours, theirs = engine(llvm.get_process_triple()), engine(triple)
llvm.load_library_permanently("libm.so.6")

def add(text):
    ours.add_module(llvm.parse_assembly(text))
    ours.finalize_object()

text = "@seen = internal global i64 0\\n"
for name in ("floor", "trunc"):
    text += f"declare double @{name}(double)\\ndefine {convention} double @our_{name}(double %0) {{\\n"
    text += f"  %r = call double @{name}(double %0)\\n  ret double %r\\n}}\\n"
# the function of Windows leaves all registers as they are; the stack of Linux grows by itself
text += "define void @our___chkstk() naked {\\n  call void asm sideeffect \\"ret\\", \\"\\"()\\n  unreachable\\n}\\n"
text += f"define {convention} void @our_callee(i64 %a, i64 %b) {{\\n  %p = inttoptr i64 %a to ptr\\n"
text += "  %q = inttoptr i64 %b to ptr\\n  %at = getelementptr double, ptr %p, i64 12498\\n"
text += "  %v = load <2 x double>, ptr %at, align 8\\n  store <2 x double> %v, ptr %q, align 8\\n  ret void\\n}\\n"
add(text)

x = np.array([0.3, -0.7])
for source, name, externals, want in (
    (ROUNDING, "rounding", {}, np.floor(x) + np.trunc(x * 3)),
    (LARGE_STACK, "large_stack", {"callee": 2}, x),
):
    unit, target = made(source, name, triple, **externals)
    code, names = compiler.to_load(compiler.translate(unit, target))
    for needed in names:  # if one were missing among them, LLVM would end this process
        which = "our_callee" if needed.startswith("scanjit_callee_") else f"our_{needed}"
        llvm.add_symbol(mark + needed, ours.get_function_address(which))  # the mark is removed on macOS only
    theirs.add_object_file(llvm.ObjectFileRef.from_data(code))
    theirs.finalize_object()
    llvm.add_symbol(f"real_{name}", theirs.get_function_address(unit.symbol))
    add(f"declare {convention} void @real_{name}(i64, i64)\\ndefine void @run_{name}(i64 %a, i64 %b) {{\\n"
        f"  call {convention} void @real_{name}(i64 %a, i64 %b)\\n  ret void\\n}}\\n")
    y = np.zeros(2)
    word = ctypes.c_int64
    ctypes.CFUNCTYPE(None, word, word)(ours.get_function_address(f"run_{name}"))(x.ctypes.data, y.ctypes.data)
    np.testing.assert_allclose(y, want, rtol=1e-14)
print("same")
'''


@pytest.mark.skipif(not (host.target().is_x86 and sys.platform == "linux"), reason="runs code for other systems here")
@pytest.mark.parametrize("triple", ["x86_64-apple-macosx", "x86_64-pc-windows-msvc"])
def test_files_of_other_systems_run_here(triple: str) -> None:
    """With the names that were found, LLVM loads a Mach-O and a COFF file; their functions are right."""
    assert python(LOAD, triple) == "same\n"
