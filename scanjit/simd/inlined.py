"""Functions and operators of vectors as text for LLVM. Each is written once in a process, for LLVM to inline."""

import functools
import itertools
import re
from typing import NamedTuple

from llvmlite import ir

from scanjit.target import Target

from .intrinsics import make, operator_of
from .llvm_values import TargetModule
from .register_masks import has_register
from .types import HELD_MASK, NOTHING, Type, mask_type

str(ir.MetaDataString(ir.Module(), "x"))
# llvmlite fills a table when it writes its first string. Another thread that writes one meanwhile would find half of
# it.

OPERATOR = "operator "
"""The names of operators begin with this here, as functions may have the same names."""


class Inlined(NamedTuple):
    """A function of LLVM's: its `name` in text, the type of its `result`, and the `parts` that every module needs which
    calls it. Parts are the text of the function and of all that it refers to, by name. If it `stays`, LLVM does not
    inline it; then it takes `more` operands, which are constants, behind the arguments."""

    name: str
    result: Type
    parts: dict[str, str]
    stays: bool = False
    more: tuple[str, ...] = ()


@functools.cache
def inlined(name: str, arguments: tuple[Type, ...], target: Target, reads_numbers: bool = False) -> Inlined:
    """A function of this package, or an operator (`operator add`), for arguments of these types. It may read numbers
    from memory (see `simd.numbers`).

    Raises
    ------
    TypeError : it takes no such arguments.
    """
    intrinsic = operator_of(name.removeprefix(OPERATOR)) if name.startswith(OPERATOR) else make(name)
    try:
        signature = intrinsic.typing(*[mask_type(1) if each is HELD_MASK else each for each in arguments])
    except TypeError as error:
        raise TypeError(f"{name}({', '.join(each.name for each in arguments)}): {error}") from None
    module = TargetModule(name, target, reads_numbers)
    symbol = f"scanjit {name} {' '.join(each.name + ' held' * (each is HELD_MASK) for each in arguments)}"
    kind = ir.FunctionType(signature.result.llvm, [each.llvm for each in arguments])
    function = ir.Function(module, kind, symbol)
    function.attributes.add("alwaysinline")
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    given = [_taken(builder, each, value) for each, value in zip(arguments, function.args, strict=True)]
    result = intrinsic.lowering(builder, signature, given)
    if (call := _only_call(function)) is not None:
        del module.globals[symbol]
        more = tuple([f"{each.type} {each.get_reference()}" for each in call.args[len(arguments) :]])
        return Inlined(call.callee.get_reference(), signature.result, _parts(module), True, more)
    if signature.result is NOTHING:
        builder.ret_void()
    elif signature.result is mask_type(1) and has_register(result):
        pair = builder.insert_value(ir.Constant(HELD_MASK.llvm, ir.Undefined), result, 0)
        builder.ret(builder.insert_value(pair, result.in_register, 1))
        function.ftype.return_type = function.return_value.type = HELD_MASK.llvm  # llvmlite writes text later
        return Inlined(function.get_reference(), HELD_MASK, _parts(module))
    else:
        builder.ret(result)
    return Inlined(function.get_reference(), signature.result, _parts(module))


def _taken(builder: ir.IRBuilder, type_: Type, value: ir.Value) -> ir.Value:
    """A value as functions take it: of a mask in both forms, the bit, which has the other form as an attribute."""
    if type_ is not HELD_MASK:
        return value
    bit = builder.extract_value(value, 0)
    bit.in_register = builder.extract_value(value, 1)
    return bit


def _only_call(function: ir.Function) -> ir.CallInstr | None:
    """The call that is all that a function does: of a function that is not inlined, with the arguments, and constants
    behind them. None if it does anything else."""
    match function.entry_basic_block.instructions:
        case [ir.CallInstr(callee=ir.Function(attributes=attributes)) as call] if "noinline" in attributes:
            given, more = call.args[: len(function.args)], call.args[len(function.args) :]
            if given == list(function.args) and all(isinstance(each, ir.Constant) for each in more):
                return call
    return None


def _parts(module: TargetModule) -> dict[str, str]:
    """The text of each part of a module, by name. None of them is visible outside the module that it is put into."""
    numbers = {f"!{i}": metadata(str(item).split(" = ", 1)[1]) for i, item in enumerate(module.metadata)}
    parts = {number: f"{number} = {text}" for number, text in numbers.values()}
    for name, value in module.globals.items():
        if value.blocks if isinstance(value, ir.Function) else value.initializer is not None:
            value.linkage = "internal"
        parts[name] = re.sub(r"!\d+\b", lambda found: numbers[found[0]][0], str(value)) if numbers else str(value)
    return parts


_numbered: dict[str, str] = {}
_counter = itertools.count()


def metadata(text: str) -> tuple[str, str]:
    """A number for a piece of metadata. It is the same for the same text, so that parts of several modules go
    together."""
    return _numbered.setdefault(text, f"!{next(_counter)}"), text
