"""Linear recurrences: a nest with time whose carries are `h = a*h + b`, with `a` and `b` known without `h`.

A step of a scalar recurrence waits for the one before it. In a linear recurrence, several steps together are again
`h = A*h + B`. The lanes of a vector compute the A and B of 16 steps side by side (a prefix sum of pairs (a, b)), and
then only one multiply-add in 16 steps waits.

Steps that read only what was returned many steps before do not wait for each other at all.
"""

from collections.abc import Sequence

from scanjit import types
from scanjit.ir import Op
from scanjit.kinds import kind_of
from scanjit.ops.elementwise import ADD, DIV, MUL, NEG, SUB, WHERE
from scanjit.schedule.nests import Apply, Fetch, Lanewise, Linear, Literal, Nest, Register, Value, walk_values
from scanjit.walks import fold

APART = 3
"""Where steps read what earlier ones have stored, several are done at a time only if that was as many vectors of steps
before. (It must be one; but a vector that is read in part from each of two that were just stored waits for both.)"""


def lanewise(nest: Nest, lanes: int) -> Lanewise | None:
    """The steps of a nest that are done as many at a time as a vector has lanes; None if all are done one by one."""
    found = linear(nest) if lanes > 1 else None
    if found is None or nest.time is None:
        return None
    steps = nest.time.size // lanes * lanes
    if nest.reach is not None:
        steps = steps * types.minimum(nest.reach // (APART * lanes), 1)
    return None if steps == 0 else Lanewise(tuple(found), steps)


def linear(nest: Nest) -> list[Linear] | None:
    """The carries of a nest, in an order in which each depends only on itself and those before it. None if there is no
    such order, or if one of them is not linear. A nest without carries, which reads what it has stored, has none."""
    if nest.time is None or nest.space or (not nest.registers and nest.reach is None):
        return None
    if not all(kind_of(register.dtype).floating for register in nest.registers):
        return None
    if any(isinstance(value, Fetch) for value in nest.values):
        return None
    left = dict(zip(nest.registers, nest.updates, strict=True))
    found: list[Linear] = []
    while left:
        solved = None
        for register, update in left.items():
            if not (_registers(update) & left.keys()) - {register}:
                solved = _form(register, update)
                if solved is not None:
                    break
        if solved is None:
            return None
        found.append(solved)
        del left[solved.register]
    return found


def _registers(value: Value) -> set[Register]:
    return {part for part in walk_values([value]) if isinstance(part, Register)}


ONE = object()
"""The factor 1, until something has to be computed with it. A factor or a term of None is 0."""


def _form(register: Register, update: Value) -> Linear | None:
    reader = _Reader(register, update)
    try:
        factor, term = reader.pair(update)
    except _NotLinear:
        return None
    return Linear(register, factor if isinstance(factor, Value) else None, term, factor is None)


class _NotLinear(Exception):
    pass


class _Reader:
    """Finds `a` and `b` in an expression of a carry."""

    def __init__(self, register: Register, update: Value) -> None:
        self.register = register
        self.known: dict[Value, tuple[object, Value | None]] = {}
        self.varying: set[Value] = set()
        """The values that depend on the carry."""
        for value in walk_values([update]):
            if value is register or not self.varying.isdisjoint(value.operands):
                self.varying.add(value)

    def pair(self, value: Value) -> tuple[object, Value | None]:
        """(factor, term); a factor may be `ONE`."""
        return fold(value, self._inner, self._pair, self.known)

    def _inner(self, value: Value) -> Sequence[Value]:
        return value.args if isinstance(value, Apply) and value in self.varying else ()

    def _pair(self, value: Value, args: list[tuple[object, Value | None]]) -> tuple[object, Value | None]:
        if value is self.register:
            return ONE, None
        if value not in self.varying:
            return None, value
        if not isinstance(value, Apply):
            raise _NotLinear
        op = value.op
        if op in (ADD, SUB):
            (a, x), (b, y) = args
            return self._sum(op, a, b), self._sum(op, x, y)
        if op is NEG:
            ((a, x),) = args
            return self._sum(SUB, None, a), self._sum(SUB, None, x)
        if op in (MUL, DIV) and args[1][0] is None:
            return self._scaled(op, args[0][0], value.args[1]), self._scaled(op, args[0][1], value.args[1])
        if op is MUL and args[0][0] is None:
            return self._scaled(op, args[1][0], value.args[0]), self._scaled(op, args[1][1], value.args[0])
        if op is WHERE and args[0][0] is None:
            return self._either(value, args[1][0], args[2][0]), self._either(value, args[1][1], args[2][1])
        raise _NotLinear

    def _value(self, factor: object) -> Value:
        """A factor as an expression."""
        if factor is ONE:
            return Literal(self.register.dtype, 1.0)
        if factor is None:
            return Literal(self.register.dtype, 0.0)
        assert isinstance(factor, Value)
        return factor

    def _apply(self, op: Op, *args: Value) -> Value:
        return Apply(self.register.dtype, op, args, {})

    def _sum(self, op: Op, left: object, right: object) -> Value | None:
        if right is None:
            return left  # type: ignore[return-value]
        if left is None and op is ADD:
            return right  # type: ignore[return-value]
        if left is None:
            return self._apply(NEG, self._value(right))
        return self._apply(op, self._value(left), self._value(right))

    def _scaled(self, op: Op, factor: object, by: Value) -> Value | None:
        if factor is None:
            return None
        if factor is ONE and op is MUL:
            return by
        return self._apply(op, self._value(factor), by)

    def _either(self, value: Apply, yes: object, no: object) -> Value | None:
        if yes is None and no is None:
            return None
        return self._apply(WHERE, value.args[0], self._value(yes), self._value(no))
