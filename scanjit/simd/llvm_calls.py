"""LLVM's types of numbers, and calls of its functions by name."""

from collections.abc import Sequence

from llvmlite import ir

I1, I8, I32, I64 = ir.IntType(1), ir.IntType(8), ir.IntType(32), ir.IntType(64)
F32, F64 = ir.FloatType(), ir.DoubleType()


def declare(builder: ir.IRBuilder, name: str, result: ir.Type, arguments: Sequence[ir.Type]) -> ir.Function:
    """The module's declaration of a function, made once."""
    module = builder.module
    found = module.globals.get(name)
    if found is None:
        found = ir.Function(module, ir.FunctionType(result, arguments), name)
    return found


def call(builder: ir.IRBuilder, name: str, result: ir.Type, arguments: Sequence[ir.Value]) -> ir.Value:
    """Call a function or intrinsic by name."""
    return builder.call(declare(builder, name, result, [a.type for a in arguments]), arguments)
