"""The expressions of kernels: integers, conditions, and calls, through which all operations on vectors are made."""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeGuard

from scanjit.runtime.translation import integers, straddling
from scanjit.runtime.translation.instructions import Instructions, KernelValue
from scanjit.simd.inlined import OPERATOR, inlined
from scanjit.simd.llvm_values import constant
from scanjit.simd.types import BOOL, FLOAT, INT, NOTHING, SimdType
from scanjit.target import Target

_OPERATORS = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "div",
    ast.FloorDiv: "floordiv",
    ast.Mod: "mod",
    ast.BitAnd: "and",
    ast.BitOr: "or",
    ast.BitXor: "xor",
    ast.LShift: "shl",
    ast.RShift: "shr",
    ast.Lt: "lt",
    ast.LtE: "le",
    ast.Gt: "gt",
    ast.GtE: "ge",
    ast.Eq: "eq",
    ast.NotEq: "ne",
    ast.USub: "neg",
    ast.Invert: "invert",
}
"""Maps the operators of Python's grammar to their names in `scanjit.simd` and `integers`."""
_LOAD = re.compile("load_[a-z0-9]+x[0-9]+")
"""The names of functions that load all lanes of a vector."""
_NOTHING = KernelValue(NOTHING, "")
_NUMBERS = {"inf": float("inf"), "nan": float("nan")}
"""The numbers that kernels import from `math`."""


class Expressions:
    """Writes the instructions of expressions.

    Parameters
    ----------
    instructions : where they are written.
    externals : the other kernels that are called, each with its symbol and its number of arguments.
    imported : the names that the source imports, from `scanjit.simd` and `math`.
    target : the machine that they are for.
    inside : the functions in the same source that are called, by name.
    more : what writes further kinds of expressions, or known ones in another way.
    reads_numbers : whether functions of vectors read numbers from memory (see `simd.numbers`).

    Attributes
    ----------
    write_inside : writes the body of one of these functions for some arguments.
    """

    def __init__(
        self,
        instructions: Instructions,
        externals: Mapping[str, tuple[str, int]],
        imported: Collection[str],
        target: Target,
        inside: Mapping[str, ast.FunctionDef],
        more: Mapping[type, Writer] = MappingProxyType({}),
        reads_numbers: bool = False,
    ) -> None:
        self.write_inside: Callable[[ast.FunctionDef, Sequence[KernelValue]], None]
        self._inside = inside
        self._to = instructions
        self._externals = externals
        self._imported = imported
        self._target = target
        self._reads_numbers = reads_numbers
        self._writers = {**_WRITERS, **more} if more else _WRITERS

    def value(self, expression: ast.expr) -> KernelValue:
        """The value of an expression."""
        write = self._writers.get(type(expression))
        if write is None:
            raise TypeError(f"kernels have no expression {type(expression).__name__}: {ast.unparse(expression)}")
        return write(self, expression)

    def truth(self, expression: ast.expr) -> KernelValue:
        """The value of an expression as a condition."""
        value = self.value(expression)
        return value if value.type is BOOL else integers.compare(self._to, "ne", self._whole(value), integers.ZERO)

    def integer(self, expression: ast.expr) -> KernelValue:
        """The value of an expression as an integer."""
        return self._whole(self.value(expression))

    def binary(self, operator: ast.operator, a: KernelValue, b: KernelValue) -> KernelValue:
        """An operation of two values."""
        name = _name_of(operator)
        if a.type is INT and b.type is INT:  # as nearly always
            return integers.binary(self._to, name, a, b)
        if _has_vector(a, b):
            return self._intrinsic(OPERATOR + name, [a, b])
        if a.type is BOOL and b.type is BOOL and name in integers.BITWISE:
            return self._to.pure(BOOL, f"{integers.BITWISE[name]} i1 {a.text}, {b.text}", a, b)
        return integers.binary(self._to, name, self._whole(a), self._whole(b))

    def call(self, expression: ast.Call) -> KernelValue:
        """The result of a call; None if it has none."""
        if not isinstance(expression.func, ast.Name) or expression.keywords:
            raise TypeError(f"no call of a kernel: {ast.unparse(expression)}")
        name, arguments = expression.func.id, [self.value(each) for each in expression.args]
        if name in self._externals:
            return self._kernel(name, arguments)
        if name in self._inside:
            self.write_inside(self._inside[name], arguments)
            return _NOTHING
        if name in ("min", "max") and len(arguments) == 2:
            return integers.extremum(self._to, name, *map(self._whole, arguments))
        if name == "stack" and len(arguments) == 1 and isinstance(arguments[0].number, int):
            return self._to.stack(arguments[0].number)
        if name in self._imported:
            return self._intrinsic(name, arguments)
        raise TypeError(f"{name} is nothing that a kernel can call")

    # ---- what each kind of expression becomes

    def _chain(self, expression: ast.BinOp) -> KernelValue:
        """The sum `a + b + c`, whose tree is as deep as the sum is long: hundreds of terms would be too deep for a
        recursion. A product that stands in a sum of floats is a part of a multiply-add; one that has a name is not."""
        operations: list[ast.BinOp] = []
        first: ast.expr = expression
        while isinstance(first, ast.BinOp):
            operations.append(first)
            first = first.left
        value = self.value(first)
        while operations:
            each = operations.pop()
            then = operations[-1] if operations else None
            if _is_sum(each) and _is_product(each.right):
                a, b = self.value(each.right.left), self.value(each.right.right)
                value = self._with_product(each.op, a, b, value, last=True)
            elif _is_product(each) and then is not None and _is_sum(then) and not _is_product(then.right):
                operations.pop()
                b, other = self.value(each.right), self.value(then.right)
                value = self._with_product(then.op, value, b, other, last=False)
            else:
                value = self.binary(each.op, value, self.value(each.right))
        return value

    def _with_product(
        self, operator: ast.operator, a: KernelValue, b: KernelValue, other: KernelValue, last: bool
    ) -> KernelValue:
        """The sum or difference of `a * b` and another value. The product may be the `last` operand."""
        kinds = {each.type for each in (a, b, other) if each.number is None}
        if not (len(kinds) == 1 and isinstance(kind := kinds.pop(), SimdType) and kind.kind.floating):
            product = self.binary(ast.Mult(), a, b)
            return self.binary(operator, *((other, product) if last else (product, other)))
        if isinstance(operator, ast.Sub) and last:
            a = self._negative(a)
        elif isinstance(operator, ast.Sub):
            other = self._negative(other)
        return self._intrinsic("fma", [a, b, other])

    def _called(self, expression: ast.Call) -> KernelValue:
        value = self.call(expression)
        if value.type is NOTHING:
            raise TypeError(f"a call without a result stands where a value is needed: {ast.unparse(expression)}")
        return value

    def _kernel(self, name: str, arguments: Sequence[KernelValue]) -> KernelValue:
        symbol, arity = self._externals[name]
        function = f'@"{symbol}"'
        if len(arguments) != arity:
            raise TypeError(f"{name} takes {arity} arguments, got {len(arguments)}")
        self._to.include({symbol: f"declare void {function}({', '.join(['i64'] * arity)})"})
        given = ", ".join(f"i64 {self._whole(each).text}" for each in arguments)
        self._to.do(f"call void {self._to.callee(function)}({given})")
        return _NOTHING

    def _intrinsic(self, name: str, arguments: Sequence[KernelValue]) -> KernelValue:
        function = inlined(name, tuple([each.type for each in arguments]), self._target, self._reads_numbers)
        if name.startswith("splat_") and arguments[0].number is not None:
            vector = function.result
            assert isinstance(vector, SimdType)
            self._to.has_vectors = True
            return KernelValue(vector, constant(vector.kind, vector.lanes, arguments[0].number).get_reference())
        if name == "store" and straddling.is_across(self._to, arguments[0], arguments[1].type):
            straddling.store(self._to, *arguments)
            return _NOTHING
        if _LOAD.fullmatch(name) and straddling.is_across(self._to, arguments[0], function.result):
            return straddling.load(self._to, arguments[0], function.result)
        self._to.include(function.parts)
        given = ", ".join([*[f"{each.type.text} {each.text}" for each in arguments], *function.more])
        apart = function.stays and not _has_vector(*arguments)  # LLVM looks into functions of vectors
        callee = self._to.callee(function.name) if apart else function.name
        call = f"call {function.result.text} {callee}({given})"
        if function.result is NOTHING:
            self._to.do(call)
            return _NOTHING
        return self._to.get(function.result, call)

    def _name(self, expression: ast.Name) -> KernelValue:
        if expression.id in self._imported and expression.id in _NUMBERS:
            return _constant(_NUMBERS[expression.id])
        return self._to.read(expression.id)

    def _unary(self, expression: ast.UnaryOp) -> KernelValue:
        if isinstance(expression.op, ast.Not):
            return integers.inverted(self._to, self.truth(expression.operand))
        name, value = _name_of(expression.op), self.value(expression.operand)
        if name == "neg":
            return self._negative(value)
        return self._intrinsic(OPERATOR + name, [value]) if _has_vector(value) else self._of_integer(name, value)

    def _negative(self, value: KernelValue) -> KernelValue:
        if _has_vector(value):
            return self._intrinsic(OPERATOR + "neg", [value])
        return self._of_integer("neg", value) if value.number is None else _constant(-value.number)

    def _of_integer(self, name: str, value: KernelValue) -> KernelValue:
        return integers.unary(self._to, name, self._whole(value))

    def _compare(self, expression: ast.Compare) -> KernelValue:
        values = [self.value(each) for each in (expression.left, *expression.comparators)]
        found = [
            self._compared(_name_of(operator), a, b)
            for operator, a, b in zip(expression.ops, values, values[1:], strict=False)
        ]
        for other in found[1:]:
            found[0] = self._to.pure(BOOL, f"and i1 {found[0].text}, {other.text}", found[0], other)
        return found[0]

    def _compared(self, name: str, a: KernelValue, b: KernelValue) -> KernelValue:
        if _has_vector(a, b):
            return self._intrinsic(OPERATOR + name, [a, b])
        return integers.compare(self._to, name, self._whole(a), self._whole(b))

    def _both_or_either(self, expression: ast.BoolOp) -> KernelValue:
        """`a and b`, `a or b`: b is computed only if a does not decide."""
        to, both = self._to, isinstance(expression.op, ast.And)
        after, known = to.label("end"), []
        with contextlib.ExitStack() as undecided:
            for each in expression.values[:-1]:
                condition, more = self.truth(each), to.label("more")
                known.append(f"[ {'false' if both else 'true'}, %{to.block} ]")
                to.branch(condition, *((more, after) if both else (after, more)))
                to.start(more)
                undecided.enter_context(to.sometimes())
            known.append(f"[ {self.truth(expression.values[-1]).text}, %{to.block} ]")
            to.jump(after)
        to.start(after)
        return to.get(BOOL, f"phi i1 {', '.join(known)}")

    def _whole(self, value: KernelValue) -> KernelValue:
        """The value as an integer."""
        if value.type is BOOL:
            return integers.whole(self._to, value)
        if value.type is not INT:
            raise TypeError(f"expected an integer, got {value.type.name}")
        return value


Writer = Callable[[Expressions, Any], KernelValue]
_WRITERS: Mapping[type, Writer] = {
    ast.BinOp: Expressions._chain,
    ast.BoolOp: Expressions._both_or_either,
    ast.Call: Expressions._called,
    ast.Compare: Expressions._compare,
    ast.Constant: lambda _, expression: _constant(expression.value),
    ast.Name: Expressions._name,
    ast.UnaryOp: Expressions._unary,
}
"""Maps the kinds of expressions to what writes them. (An object that keeps methods of its own refers to itself: it
stays until Python looks for cycles.)"""


def _is_sum(expression: ast.BinOp) -> bool:
    return isinstance(expression.op, ast.Add | ast.Sub)


def _is_product(expression: ast.expr) -> TypeGuard[ast.BinOp]:
    return isinstance(expression, ast.BinOp) and isinstance(expression.op, ast.Mult)


def _name_of(operator: ast.operator | ast.unaryop | ast.cmpop) -> str:
    """The name of an operator."""
    name = _OPERATORS.get(type(operator))
    if name is None:
        raise TypeError(f"kernels have no operator {type(operator).__name__}")
    return name


def _has_vector(*values: KernelValue) -> bool:
    return any([isinstance(each.type, SimdType) for each in values])


def _constant(number: object) -> KernelValue:
    if isinstance(number, bool):
        return KernelValue(BOOL, str(number).lower(), number)
    if isinstance(number, int):
        if not -(2**63) <= number < 2**64:
            raise TypeError(f"{number} has more than 64 bits")
        return KernelValue(INT, str(number), number)
    if isinstance(number, float):
        return KernelValue(FLOAT, FLOAT.llvm.format_constant(number), number)
    raise TypeError(f"kernels have no constant {number!r}")
