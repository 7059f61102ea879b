"""From the source of a kernel to object code for a target, through Numba. Nothing is loaded here; only here `runtime`
needs Numba.

Numba is used below its public API, for three reasons. A kernel's object code has to be ours, to be loaded from the
disk cache by a process that never imports Numba. Its one exported symbol has to be known before it is compiled, so
that kernels can call each other. And kernels are explicit about vectors, types and memory, so most of what `njit`
does to a function finds nothing to do: without it an LSTM tile compiles in 0.19 s instead of 0.31 s, to code of the
same speed.
"""

from __future__ import annotations

import functools
import operator
import struct
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from llvmlite import binding as llvm
from llvmlite import ir
from numba.core import (
    cgutils,
    codegen,
    compiler,
    compiler_machinery,
    cpu,
    funcdesc,
    imputils,
    interpreter,
    lowering,
    typed_passes,
    types,
    typing,
    untyped_passes,
)
from numba.core import ir as statements
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target
from numba.core.types import containers
from numba.core.types.misc import unliteral
from numba.core.typing import builtins as _declarations  # noqa: F401
from numba.core.typing import mathdecl, signature, templates
from numba.cpython import builtins, mathimpl, numbers, rangeobj  # noqa: F401

from scanjit.errors import ArgumentError, InternalError
from scanjit.runtime import host
from scanjit.runtime.unit import Unit
from scanjit.simd.llvm_lanes import TargetModule
from scanjit.target import Target

_RAISED = "scanjit_a_kernel_raised"


class Translated(NamedTuple):
    """A kernel as text for LLVM."""

    unit: Unit
    target: Target
    module: str
    arity: int


def to_object(unit: Unit, target: Target) -> bytes:
    """An object file that a linker takes: ELF, COFF, Mach-O or WebAssembly, as the target has it. Nothing is loaded, so
    the target may be another machine than this one.

    It exports `unit.symbol`, a function of C's calling convention. Each of its arguments has 64 bits, also where an
    address has 32; and so has each entry of the table that the main function of a program gets.

    Raises
    ------
    ArgumentError : this LLVM makes no code for the target.
    InternalError : the source does not compile.
    """
    return _emitted(translate(unit, target), loaded=False)[0]


def translate(unit: Unit, target: Target) -> Translated:
    """What Numba makes of a kernel: types, and text for LLVM. All in Python; LLVM itself may be at work meanwhile, in
    another thread, on another kernel.

    Raises
    ------
    InternalError : the source does not compile; with the kernel's name and path.
    """
    layout = _data_layout(target)
    try:
        namespace: dict[str, Any] = {"__name__": unit.name, "__file__": unit.path}
        for name, (symbol, arity) in unit.externals.items():
            namespace[name] = types.ExternalFunction(symbol, signature(types.void, *[types.intp] * arity))
        exec(compile(unit.source, unit.path, "exec"), namespace)
        function = namespace[unit.name]
        arity = _parameters(function)
        with global_compiler_lock:
            return Translated(unit, target, _module(function, arity, TargetModule(unit.symbol, target, layout)), arity)
    except Exception as error:
        raise _failed(unit, error) from error


def to_load(translated: Translated) -> tuple[bytes, list[str]]:
    """Object code for this process, and the symbols that have to be there when it is loaded.

    Raises
    ------
    InternalError : the kernel can raise, which nobody would see.
    """
    return _emitted(translated, loaded=True)


def _emitted(translated: Translated, loaded: bool) -> tuple[bytes, list[str]]:
    with _llvm:
        machine = _machine(translated.target, loaded)
        module = _optimised(translated, machine)
        code = machine.emit_object(module)
    if code[:5] == b"\x7fELF\x02":
        undefined = sorted(set(_undefined_in_elf(code)))
    else:  # near enough elsewhere: misses the few library calls that LLVM makes of its own intrinsics
        undefined = sorted(f.name for f in module.functions if f.is_declaration and not f.name.startswith("llvm."))
    if _RAISED in undefined:
        raise _failed(translated.unit, TypeError("it can raise an exception, which nobody would see"))
    return code, undefined


def to_assembly(unit: Unit, target: Target) -> str:
    """The text of what `to_load` gives; raises as `translate` and `to_load` do."""
    translated = translate(unit, target)
    with _llvm:
        machine = _machine(target, loaded=True)
        return str(machine.emit_assembly(_optimised(translated, machine)))


_llvm = threading.Lock()
"""Held while a machine of LLVM's is in use: each is made once."""


@functools.cache
def _machine(target: Target, loaded: bool) -> llvm.TargetMachine:
    """LLVM's idea of a target. Code that is `loaded` into this process may lie at any distance from what it calls."""
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
    options: dict[str, Any] = {"cpu": target.name, "features": target.features, "opt": 3}
    if loaded:
        options |= {"jit": True, "reloc": "static" if target.is_x86 else "default"}
    else:
        options |= {"codemodel": "default", "reloc": "pic" if target.is_posix else "default"}
    if target.triple.startswith("riscv64") and target.has("d"):
        options["abiname"] = "lp64d"  # what all Linux systems use; a linker refuses to mix it with others
    return found.create_target_machine(**options)


@functools.cache
def _data_layout(target: Target) -> str:
    with _llvm:
        return str(_machine(target, loaded=True).target_data)


def _failed(unit: Unit, error: Exception) -> InternalError:
    text = f"the generated kernel {unit.name} does not compile\n{type(error).__name__}: {error}"
    return InternalError(text, where=unit.path)


def _parameters(function: Callable[..., Any]) -> int:
    """The number of parameters of a function; TypeError if there are others than plain positional ones."""
    code = function.__code__
    if code.co_flags & 0x0C or code.co_kwonlyargcount or function.__defaults__:
        raise TypeError("a kernel takes positional arguments only")
    return int(code.co_argcount)


def _module(function: Callable[..., Any], arity: int, module: TargetModule) -> str:
    """Fill a module with the function, as Numba compiles it, and with an entry to it, which has the module's name. Only
    the entry has a name outside of the object file."""
    context = _context()
    library = _Library(context.codegen(), function.__name__, module)
    flags = compiler.Flags()
    flags.no_cpython_wrapper = flags.no_cfunc_wrapper = flags.no_compile = True
    flags.nrt = False
    flags.error_model = "numpy"
    arguments = (types.intp,) * arity
    described = compiler.compile_extra(
        context.typing_context, context, function, arguments, types.void, flags, {}, library, _Pipeline
    )
    for value in module.global_values:
        if value.blocks if isinstance(value, ir.Function) else value.initializer is not None:
            value.linkage = "internal"  # so that it is inlined
    _add_entry(module, context, described)
    return str(module)


def _add_entry(module: TargetModule, context: Any, described: Any) -> None:
    """Add a function of C's calling convention around one of Numba's."""
    entry = ir.Function(module, ir.FunctionType(ir.VoidType(), [ir.IntType(64)] * len(described.argtypes)), module.name)
    builder = ir.IRBuilder(entry.append_basic_block())
    inner = module.get_global(described.llvm_func_name)
    inner.attributes.add("alwaysinline")  # however large: its status is looked at here
    status, _ = context.call_conv.call_function(builder, inner, described.restype, described.argtypes, entry.args)
    # The optimiser proves that nothing is raised. Where it cannot, this call is left over, and `_emitted` says so.
    with builder.if_then(status.is_error, likely=False):
        builder.call(ir.Function(module, ir.FunctionType(ir.VoidType(), []), _RAISED), [])
    builder.ret_void()


def _optimised(translated: Translated, machine: llvm.TargetMachine) -> llvm.ModuleRef:
    """The LLVM module of a kernel, as it will become object code. Few calls: after each it waits for Python's lock."""
    try:
        module = llvm.parse_assembly(translated.module)
        module.verify()
    except RuntimeError as error:
        raise _failed(translated.unit, error) from error
    tuning = llvm.create_pipeline_tuning_options(speed_level=3)
    # What should be a vector is one already; vectorised remainders of loops are only more code.
    tuning.loop_vectorization = tuning.slp_vectorization = False
    passes = llvm.create_pass_builder(machine, tuning)
    passes.getModulePassManager().run(module, passes)
    return module


class _Pipeline(compiler.CompilerBase):
    """The passes of `njit` that kernels need: no closures, array expressions, inlining of overloads, rewrites of
    literals, lifetimes.

    There is no SSA form either (LLVM makes its own), so in a kernel a name has one type throughout. Nothing has a
    reference count, so nothing is told where variables end, either.
    """

    def define_pipelines(self) -> list[Any]:
        passes = compiler_machinery.PassManager("scanjit kernel")
        for step in (
            _Translation,
            untyped_passes.FixupArgs,
            typed_passes.NopythonTypeInference,
            _Lowering,
        ):
            passes.add_pass(step, step.__name__)
        passes.finalize()
        return [passes]


class _Interpreter(interpreter.Interpreter):
    """Numba's own, which then looks for forms of source that kernels do not have, such as `with`."""

    def post_process(self, peepholes: Any, func_ir: Any) -> Any:
        return super().post_process([step for step in peepholes if step in _NEEDED], func_ir)


_NEEDED = (
    interpreter.peep_hole_list_to_tuple,  # these two: calls of more than 30 arguments
    interpreter.peep_hole_call_function_ex_to_call_function_kw,
)


@compiler_machinery.register_pass(mutates_CFG=True, analysis_only=False)
class _Translation(compiler_machinery.FunctionPass):
    """From bytecode to untyped statements."""

    _name = "scanjit_translation"

    def __init__(self) -> None:
        super().__init__()

    def run_pass(self, state: Any) -> bool:
        state.func_ir = _Interpreter(state.func_id).interpret(state.bc)
        return True


class _Lower(lowering.Lower):
    """Numba's own without what it keeps for messages, for exceptions and for reference counts, statement by statement.

    A variable that one statement sets, and that no other block of statements reads, is a value of LLVM's; each other
    one is a place on the stack, which LLVM makes a value again.
    """

    def _find_singly_assigned_variable(self) -> None:
        found: dict[str, Any] = {}
        several: set[str] = set()
        for block in self.blocks.values():
            for statement in block.body:
                for name in _read(statement):
                    if found.get(name) is not block:
                        several.add(name)
                if isinstance(statement, statements.Assign):
                    if statement.target.name in found:
                        several.add(statement.target.name)
                    found[statement.target.name] = block
        self._singly_assigned_vars = found.keys() - several
        self._blk_local_varmap: dict[str, Any] = {}

    def pre_block(self, block: Any) -> None:
        self._cur_ir_block = block

    def lower_block(self, block: Any) -> None:
        self.pre_block(block)
        for statement in block.body:
            self.loc = statement.loc
            self.lower_inst(statement)
        self.post_block(block)

    def lower_inst(self, inst: Any) -> None:
        if not isinstance(inst, statements.Assign):
            super().lower_inst(inst)
            return
        name = inst.target.name
        value = self.lower_assign(self.typeof(name), inst)
        if name in self._singly_assigned_vars:
            self._blk_local_varmap[name] = value
        else:
            self.builder.store(value, self.getvar(name))


def _read(statement: Any) -> Iterator[str]:
    """The names of the variables that a statement reads."""
    value = statement.value if isinstance(statement, statements.Assign) else statement
    left = [value, *(value._kws if isinstance(value, statements.Expr) else vars(value)).values()]
    while left:
        part = left.pop()
        if isinstance(part, statements.Var):
            yield part.name
        elif isinstance(part, list | tuple):
            left += part


@compiler_machinery.register_pass(mutates_CFG=True, analysis_only=False)
class _Lowering(compiler_machinery.LoweringPass):
    """From typed statements to LLVM's; the result is the description of the function."""

    _name = "scanjit_lowering"

    def __init__(self) -> None:
        super().__init__()

    def run_pass(self, state: Any) -> bool:
        flags, context = state.flags, state.targetctx
        state.cr = funcdesc.PythonFunctionDescriptor.from_specialized_function(
            state.func_ir,
            state.typemap,
            state.return_type,
            state.calltypes,
            mangler=context.mangler,
            inline=flags.forceinline,
            noalias=flags.noalias,
            abi_tags=[flags.get_mangle_string()],
        )
        with context.push_code_library(state.library):
            _Lower(context, state.library, state.cr, state.func_ir, metadata=state.metadata).lower()
        return True


_types, _lowerings = templates.Registry(), imputils.Registry("scanjit")


@_types.register_global(min)
@_types.register_global(max)
class _Extremum(templates.AbstractTemplate):
    """`min` and `max` of two integers: Numba's own would be compiled as functions, from Python."""

    def generic(self, args: Any, kws: Any) -> Any:
        return signature(types.intp, types.intp, types.intp) if len(args) == 2 and not kws else None


def _extremum(comparison: str) -> Callable[..., Any]:
    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        a, b = args
        return builder.select(builder.icmp_signed(comparison, b, a), b, a)

    return lower


_lowerings.lower(min, types.Integer, types.Integer)(_extremum("<"))
_lowerings.lower(max, types.Integer, types.Integer)(_extremum(">"))


@_lowerings.lower(operator.add, containers.BaseTuple, containers.BaseTuple)
def _joined(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    """Two tuples as one: Python puts the arguments of a call together from tuples where there are more than 30, and
    Numba before 0.68 leaves them so."""
    parts = [part for value in args for part in cgutils.unpack_tuple(builder, value)]
    return context.make_tuple(builder, sig.return_type, parts)


class _Typing(typing.Context):
    """What can be called in kernels: operators and ranges of numbers, `min`, `max`, `math`, intrinsics.

    NumPy's rules for operators are left out: they would be tried, with exceptions inside, at each operation on vectors.
    So is whatever loads Numba's own target, with all that it knows of NumPy, and SciPy, and takes a third of a second.
    """

    def __init__(self) -> None:
        super().__init__()
        self._signatures: dict[tuple[Any, ...], Any] = {}

    def resolve_function_type(self, func: Any, args: Any, kws: Any) -> Any:
        """Kernels make the same calls over and over: each is looked up once."""
        if not isinstance(func, types.Type):  # an operator, to which literals are numbers like any others
            args = tuple(map(unliteral, args))
        key = (func, tuple(args), tuple(kws.items()))
        found = self._signatures.get(key)
        if found is None:
            found = self._signatures[key] = super().resolve_function_type(func, args, kws)
        return found

    def load_additional_registries(self) -> None:
        self.install_registry(mathdecl.registry)
        self.install_registry(_types)

    def _load_builtins(self) -> None:
        self._registries.setdefault(templates.builtin_registry, _Builtins(templates.builtin_registry))
        self.install_registry(templates.builtin_registry)


class _Builtins(templates.RegistryLoader):
    """Numba's built-in functions without those that are written in Python, and compiled when they are called."""

    def new_registrations(self, name: str) -> Iterator[Any]:
        for found in super().new_registrations(name):
            value = found[0] if name == "globals" else found
            if not any(value is other for other in (min, max)) and not _is_overload(value):
                yield found


def _is_overload(template: Any) -> bool:
    kinds = (templates._OverloadAttributeTemplate, templates._OverloadFunctionTemplate)
    return isinstance(template, type) and issubclass(template, kinds)


class _Context(cpu.CPUContext):
    """How what kernels call is lowered; each call is looked up once."""

    def get_function(self, fn: Any, sig: Any, _firstcall: bool = True) -> Any:
        key = (fn, sig)
        if key not in _implementations:
            _implementations[key] = super().get_function(fn, sig, _firstcall)
        return _implementations[key]

    def get_abi_sizeof(self, ty: Any) -> int:
        if ty not in _sizes:
            _sizes[ty] = super().get_abi_sizeof(ty)
        return _sizes[ty]

    def load_additional_registries(self) -> None:
        self.install_registry(mathimpl.registry)
        self.install_registry(_lowerings)

    def post_lowering(self, module: Any, library: Any) -> None:
        """Numba links its runtime here, for objects that are counted; kernels have none."""


_implementations: dict[tuple[Any, Any], Any] = {}
_sizes: dict[Any, int] = {}


class _Library(codegen.CPUCodeLibrary):
    """Has Numba write a kernel into a module of ours."""

    def __init__(self, own: Any, name: str, module: TargetModule) -> None:
        super(codegen.CPUCodeLibrary, self).__init__(own, name)  # its own would ask LLVM for a module
        self.module = module

    def create_ir_module(self, name: str) -> TargetModule:
        return self.module

    def add_ir_module(self, ir_module: Any) -> None:
        """Numba would give it to LLVM here."""

    def add_linking_library(self, library: Any) -> None:
        raise TypeError(f"it calls what Numba has to compile: {library.name}")


@functools.cache
def _context() -> Any:
    """How Numba lowers kernels, for any target. It takes sizes from this machine, of which kernels only ask those of
    integers and of tuples of them."""
    context = cpu_target.target_context.subtarget(typing_context=_Typing())
    context.__class__ = _Context  # it shares the definitions that Numba's own has or gets
    return context


def _undefined_in_elf(code: bytes) -> Iterator[str]:
    """The names of the undefined symbols of a 64-bit ELF object of this machine's byte order."""
    (headers,) = struct.unpack_from("=Q", code, 0x28)
    size, count = struct.unpack_from("=HH", code, 0x3A)
    sections = [struct.unpack_from("=IIQQQQIIQQ", code, headers + size * i) for i in range(count)]
    for _, kind, _, _, offset, length, link, _, _, item in sections:
        if kind == 2:  # a symbol table
            names = sections[link][4]
            for at in range(offset + item, offset + length, item):  # the first is no symbol
                name, _, _, section = struct.unpack_from("=IBBH", code, at)
                if section == 0:
                    yield code[names + name : code.index(b"\0", names + name)].decode()
