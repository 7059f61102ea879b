"""From the source of a kernel to object code for a target, through LLVM. Nothing is loaded here.

We make a kernel's object code ourselves, so that a process can load it from the disk cache without importing LLVM's
compiler. The one symbol that it exports is known before it is compiled, so that kernels can call each other.
"""

import contextlib
import ctypes
import functools
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from llvmlite import binding as llvm
from llvmlite.binding import ffi
from llvmlite.binding.newpassmanagers import NewPassManager

from scanjit.errors import ArgumentError, InternalError
from scanjit.runtime import host, translation
from scanjit.runtime.undefined import undefined
from scanjit.runtime.unit import Unit
from scanjit.target import Target


class Translated(NamedTuple):
    """A kernel as text for LLVM. A kernel without vectors consists of loads, arithmetic of integers, and calls."""

    unit: Unit
    target: Target
    module: str
    arity: int
    has_vectors: bool
    has_stack: bool


def to_object(units: Sequence[Unit], target: Target, data: Mapping[str, bytes] = MappingProxyType({})) -> bytes:
    """An object file for a linker: ELF, COFF, Mach-O or WebAssembly, whichever the target uses. Nothing is loaded, so
    the target may be another machine than this one.

    It holds some units, each behind those that it calls, and `data` by name, each at a multiple of 64 bytes. Other
    files see the names of the data, and the `symbol` of each unit that no other unit calls: a function with C's calling
    convention. Each argument has 64 bits, even if an address has 32; so does each entry of the table that the main
    function of a program gets.

    Raises
    ------
    ArgumentError : this LLVM makes no code for the target.
    InternalError : the source does not compile.
    """
    with _joined(units, target, data) as (module, machine):
        return _object(machine, module)


def to_text(units: Sequence[Unit], target: Target) -> str:
    """The assembly of the file that `to_object` makes; raises as it does."""
    with _joined(units, target, {}) as (module, machine):
        return str(machine.emit_assembly(module))


@contextlib.contextmanager
def _joined(
    units: Sequence[Unit], target: Target, data: Mapping[str, bytes]
) -> Iterator[tuple[llvm.ModuleRef, llvm.TargetMachine]]:
    """The module of several units, and the machine that makes object code of it."""
    called = {symbol for unit in units for symbol, _ in unit.externals.values()}
    with _workshop() as workshop, llvm.parse_assembly(_holding(data, target), workshop.context) as whole:
        for unit in units:
            with _module(translate(unit, target, loaded=False), workshop, loaded=False) as module:
                whole.link_in(module)
        for unit in units:
            function = whole.get_function(unit.symbol)
            if unit.symbol in called:
                function.linkage = "internal"
            else:
                function.visibility = "hidden"
        yield whole, workshop.machine(target, False, 3)


def _holding(data: Mapping[str, bytes], target: Target) -> str:
    """A module with data."""
    lines = [f'target triple = "{target.triple}"', f'target datalayout = "{_data_layout(target)}"']
    for name, held in data.items():
        text = re.sub("..", r"\\\g<0>", held.hex())
        lines.append(f'@{name} = hidden constant [{len(held)} x i8] c"{text}", align 64')
    return "\n".join(lines)


def translate(unit: Unit, target: Target, loaded: bool = True) -> Translated:
    """The text for LLVM of a kernel, which will be loaded into this process, or else linked to others.

    Raises
    ------
    InternalError : the source does not compile; with the kernel's name and path.
    """
    layout = _data_layout(target)
    try:
        return Translated(unit, target, *translation.translate(unit, target, layout, loaded))
    except (TypeError, SyntaxError, RecursionError) as error:
        raise _failed(unit, error) from error


def to_load(translated: Translated) -> tuple[bytes, list[str]]:
    """Object code for this process, and the symbols that must exist when it is loaded."""
    with _optimised(translated) as (module, machine):
        code = _object(machine, module)
    return code, undefined(code)


def plain_object(text: str, target: Target) -> bytes:
    """Object code for this process of a module. It is hardly optimised: that takes 12 ms for the code that calls
    programs, and calls are not faster. They wait for atomics, and for what they call."""
    with _workshop() as workshop, llvm.parse_assembly(text, workshop.context) as module:
        module.verify()
        machine = workshop.machine(target, True, 0)
        _optimise(module, machine, thoroughly=False, stack=False)
        return _object(machine, module)


def to_assembly(unit: Unit, target: Target) -> str:
    """The assembly of the code that `to_load` makes; raises as `translate` and `to_load` do."""
    with _optimised(translate(unit, target)) as (module, machine):
        return str(machine.emit_assembly(module))


class _Workshop:
    """The objects of LLVM that one thread uses at a time, so that several threads can compile side by side."""

    def __init__(self) -> None:
        self.context = llvm.create_context()
        self.machine = functools.cache(_machine)


_idle: list[_Workshop] = []
"""The workshops that nobody uses now."""


@contextlib.contextmanager
def _workshop() -> Iterator[_Workshop]:
    """A workshop that nobody else uses meanwhile."""
    try:
        found = _idle.pop()
    except IndexError:
        found = _Workshop()
    try:
        yield found
    finally:
        _idle.append(found)


_ASK = """
import sys
import llvmlite.binding as llvm
llvm.initialize_all_targets()
llvm.Target.from_triple(sys.argv[1]).create_target_machine(cpu=sys.argv[2], features=sys.argv[3])
"""


def _machine(target: Target, loaded: bool, level: int) -> llvm.TargetMachine:
    """LLVM's machine for a target. Code that is `loaded` into this process may lie at any distance from the functions
    that it calls. The higher the `level`, from 0 to 3, the better the instructions."""
    if target.triple == host.TRIPLE:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
    else:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
    try:
        found = llvm.Target.from_triple(target.triple)
    except RuntimeError as error:
        raise ArgumentError(
            "LLVM, as llvmlite brings it, makes no code for this target", got=target.triple, fix=str(error), where=""
        ) from None
    _check_names(target.triple, target.name, target.features)
    options: dict[str, Any] = {"cpu": target.name, "features": target.features, "opt": level}
    if loaded:
        options |= {"jit": True, "reloc": "static" if target.is_x86 else "default"}
    else:
        options |= {"codemodel": "default", "reloc": "pic" if target.is_posix else "default"}
    if target.triple.startswith("riscv64") and target.has("d"):
        options["abiname"] = "lp64d"  # what all Linux systems use; a linker refuses to mix it with others
    return found.create_target_machine(**options)


@functools.cache
def _check_names(triple: str, name: str, features: str) -> None:
    """Raise an error if LLVM knows no such processor, or not all of these features.

    LLVM says so to standard error alone, and goes on without them. So another process asks it, unless the names are
    those of this machine, which are from LLVM, or a program that embeds Python does not say where Python lies.
    """
    if (triple, name, features) == host.names() or not (name or features) or not sys.executable:
        return
    import subprocess

    command = [sys.executable, "-P", "-c", _ASK, triple, name, features]
    asked = subprocess.run(command, capture_output=True, text=True, check=False)
    unknown = [line.split("(")[0].strip() for line in asked.stderr.splitlines() if "is not a recognized" in line]
    if unknown:
        raise ArgumentError(
            "LLVM, as llvmlite brings it, does not know this target",
            got="; ".join(dict.fromkeys(unknown)),
            fix="leave this out, or use LLVM's name for it",
            where="",
        )


@functools.cache
def _data_layout(target: Target) -> str:
    with _workshop() as workshop:
        return str(workshop.machine(target, True, 0).target_data)


def _failed(unit: Unit, error: Exception) -> InternalError:
    text = f"the generated kernel {unit.name} does not compile\n{type(error).__name__}: {error}"
    return InternalError(text, where=unit.path)


@contextlib.contextmanager
def _optimised(translated: Translated) -> Iterator[tuple[llvm.ModuleRef, llvm.TargetMachine]]:
    """The LLVM module of a kernel that this process will load, and the machine that makes object code of it.

    The module is closed at the end, even after an error, whose traceback may live long: closing it later would change
    the context while another thread works in it.
    """
    with _workshop() as workshop, _module(translated, workshop, loaded=True) as module:
        yield module, _machine_for(translated, workshop, loaded=True)


def _machine_for(translated: Translated, workshop: _Workshop, loaded: bool) -> llvm.TargetMachine:
    """LLVM's machine for a kernel. A kernel without vectors is not optimised much, as that would take longer than the
    kernel will ever run: for a training function of 1,000 lines 0.3 s instead of 0.03 s, to save some loads from the
    stack in each call."""
    return workshop.machine(translated.target, loaded, 3 if translated.has_vectors else 0)


@contextlib.contextmanager
def _module(translated: Translated, workshop: _Workshop, loaded: bool) -> Iterator[llvm.ModuleRef]:
    """The LLVM module of a kernel, optimised. It is closed at the end."""
    text = translated.module
    if not loaded or "windows" in translated.target.triple:
        # Nothing in it raises. Else there were tables for exceptions: on Windows, LLVM loads them only if memory is in
        # a certain order.
        text = re.sub(r"(?m)^(define .*\))", r"\1 nounwind", text)
    try:
        module = llvm.parse_assembly(text, workshop.context)
    except RuntimeError as error:
        raise _failed(translated.unit, error) from error
    with module:
        try:
            module.verify()
        except RuntimeError as error:
            raise _failed(translated.unit, error) from error
        machine = _machine_for(translated, workshop, loaded)
        _optimise(module, machine, translated.has_vectors, translated.has_stack)
        yield module


def _optimise(module: llvm.ModuleRef, machine: llvm.TargetMachine, thoroughly: bool, stack: bool) -> None:
    """Inline functions and keep variables in registers. With `thoroughly`, also simplify instructions, and compute the
    results of functions of constants: `10.0 ** x` needs no logarithm. With `stack`, LLVM also puts memory on the stack
    into registers, which it can once instructions are simple.

    LLVM's default passes do more: they unroll loops, look for vectors, for values that do not change in a loop, and for
    values that are computed twice. That takes ten times as long and finds nothing, because the source is explicit, and
    translation writes nothing twice.
    """
    passes = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options())
    manager = llvm.create_new_module_pass_manager()
    manager.add_always_inliner_pass()
    if thoroughly:
        manager.add_ipsccp_pass()
    manager.add_sroa_pass()
    if thoroughly:
        manager.add_instruction_combine_pass()
        manager.add_simplify_cfg_pass()
    if thoroughly and stack:
        manager.add_sroa_pass()
        manager.add_instruction_combine_pass()
    _beside_others(ffi.lib.LLVMPY_RunNewModulePassManager)(manager, module, passes)
    # llvmlite's own class never frees it, nor the 100 KB that belong to it.
    NewPassManager._dispose(manager)
    manager.detach()


def _object(machine: llvm.TargetMachine, module: llvm.ModuleRef) -> bytes:
    """The object file of a module."""
    with ffi.OutputString() as error:
        buffer = _beside_others(ffi.lib.LLVMPY_TargetMachineEmitToMemory)(machine, module, 1, error)
        if not buffer:
            raise InternalError(f"LLVM writes no object file: {error}", where="")
    try:
        return ctypes.string_at(ffi.lib.LLVMPY_GetBufferStart(buffer), ffi.lib.LLVMPY_GetBufferSize(buffer))
    finally:
        ffi.lib.LLVMPY_DisposeMemoryBuffer(buffer)


def _beside_others(function: Any) -> Callable[..., Any]:
    """A function of LLVM's without the lock that llvmlite holds in all of them because modules may share a context. The
    modules of a workshop share their context with nobody."""
    return getattr(function, "_cfn", function)
