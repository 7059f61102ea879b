"""From the source of a kernel to text for LLVM: a reader of the part of Python that kernels are written in.

Kernels are Python functions of integers. `Statements` reads the control flow, `Expressions` the arithmetic, and
`Instructions` keeps the text. Calls of `scanjit.simd` become calls of small functions that LLVM inlines: each of these
is made once in a process (`scanjit.simd.inlined`). All types follow from those of operands, so one walk over the source
is enough.

A kernel is also valid source for Numba. Numba would infer its types in several passes, and keep every variable in
memory until LLVM takes it out again: for a function of 6,000 lines that takes 6 s, and this takes 0.2 s.
"""

import ast

from scanjit.runtime.parsing import parsed
from scanjit.runtime.translation.expressions import Expressions
from scanjit.runtime.translation.instructions import Instructions
from scanjit.runtime.translation.statements import Statements
from scanjit.runtime.translation.variables import in_memory
from scanjit.runtime.unit import Unit
from scanjit.target import Target


def translate(unit: Unit, target: Target, data_layout: str) -> tuple[str, int, bool]:
    """A module of LLVM's in which the kernel is the only symbol for others, how many arguments it takes, and whether it
    has vectors.

    Raises
    ------
    TypeError : the source holds something that kernels are not written in, or operands that do not go together.
    SyntaxError : it is no Python.
    """
    tree = parsed(unit.source)
    names = [name for each in tree.body if isinstance(each, ast.ImportFrom) for name in each.names]
    if any(name.asname for name in names):
        raise TypeError("a kernel imports functions by their own names")
    imported = {name.name for name in names}
    function = next(each for each in tree.body if isinstance(each, ast.FunctionDef) and each.name == unit.name)
    parameters = _parameters(function.args)
    instructions = Instructions(in_memory(function.body, parameters))
    statements = Statements(instructions, Expressions(instructions, unit.externals, imported, target))
    statements.write_function(function.body, parameters)
    module = instructions.module(unit.symbol, parameters, target.triple, data_layout)
    return module, len(parameters), instructions.has_vectors


def _parameters(given: ast.arguments) -> list[str]:
    """The names of a function's parameters."""
    if given.posonlyargs or given.kwonlyargs or given.vararg or given.kwarg or given.defaults:
        raise TypeError("a kernel takes positional arguments only")
    return [each.arg for each in given.args]
