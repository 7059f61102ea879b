"""From the source of a kernel to text for LLVM: a reader of the part of Python that kernels are written in.

Kernels are Python functions of integers. `Statements` reads the control flow, `Expressions` the arithmetic, and
`Instructions` keeps the text. Calls of `scanjit.simd` become calls of small functions that LLVM inlines; each of these
is made once in a process (`scanjit.simd.inlined`). All types follow from those of operands, so one walk over the source
is enough.

A kernel is also valid source for Numba. Numba would infer its types in several passes, and keep every variable in
memory until LLVM takes it out again. For a function of 6,000 lines that takes 6 s; this module takes 0.2 s.
"""

import ast
import ctypes
from collections.abc import Collection, Mapping

from scanjit.runtime.parsing import parsed
from scanjit.runtime.sharing_source import sharing_source
from scanjit.runtime.structures import STRUCTURES
from scanjit.runtime.translation.expressions import Expressions
from scanjit.runtime.translation.instructions import Instructions
from scanjit.runtime.translation.memory import MemoryWriter
from scanjit.runtime.translation.statements import Statements, is_sum, with_inner
from scanjit.runtime.translation.variables import parameters_of
from scanjit.runtime.unit import Unit
from scanjit.simd.sharing import TOGETHER
from scanjit.target import Target


def translate(unit: Unit, target: Target, data_layout: str, loaded: bool) -> tuple[str, int, bool, bool]:
    """A module of LLVM's in which the kernel is the only symbol that others see, how many arguments it takes, and
    whether it has vectors and memory on the stack. Other functions in the source become part of it, at the place of
    each call. `loaded` says that its code will be loaded into this process, and not linked to that of other kernels.

    Raises
    ------
    TypeError : the source holds something that kernels may not have, or operands that do not go together.
    SyntaxError : it is no Python.
    """
    tree = parsed(unit.source)
    names = [name for each in tree.body if isinstance(each, ast.ImportFrom) for name in each.names]
    if any(name.asname for name in names):
        raise TypeError("a kernel imports functions by their own names")
    imported = {name.name for name in names}
    functions = {each.name: each for each in tree.body if isinstance(each, ast.FunctionDef)}
    main = functions.pop(unit.name)
    parameters, instructions = parameters_of(main), Instructions(loaded, target.has_avx512)
    reads_numbers = target.is_x86 and not target.has_avx512 and any(map(is_sum, with_inner(main.body)))
    expressions = Expressions(instructions, unit.externals, imported, target, functions, reads_numbers=reads_numbers)
    Statements(instructions, expressions).write_function(main)
    if not loaded and any(name.startswith(TOGETHER) for name in instructions.parts):
        instructions.include(functions_together(target))
    module = instructions.module(unit.symbol, parameters, target.triple, data_layout)
    return module, len(parameters), instructions.has_vectors, instructions.has_stack


def functions_together(target: Target) -> dict[str, str]:
    """The functions with which threads share work, as the parts of a module by name."""
    outside = {"syscall", target.gives_way or ""}
    return functions(sharing_source(target), STRUCTURES, outside, target)


def functions(
    source: str, structures: Mapping[str, type[ctypes.Structure]], outside: Collection[str], target: Target
) -> dict[str, str]:
    """Functions that call kernels, or that kernels call (see `scanjit.runtime.translation.memory`), as the parts of a
    module by name. No other module sees them."""
    defined = {each.name: each for each in parsed(source).body if isinstance(each, ast.FunctionDef)}
    parts: dict[str, str] = {}
    for name, function in defined.items():
        to = Instructions()
        memory = MemoryWriter(to, target, structures, defined, outside)
        Statements(to, memory.expressions, memory).write_function(function)
        written = to.function(name, parameters_of(function), "internal i64")
        parts |= to.parts | {name: "\n".join(written)}
    return parts
