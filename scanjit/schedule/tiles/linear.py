"""Linear recurrences: a nest with time whose carries are `h = a*h + b`, with `a` and `b` known without `h`.

A step of a scalar recurrence waits for the one before it. In a linear recurrence, several steps together are again
`h = A*h + B`. The lanes of a vector compute the A and B of 16 steps side by side (a prefix sum of pairs (a, b)), and
then only one multiply-add in 16 steps waits.

The same holds of `h = max(low, min(high, a*h + b))` if `a` is positive. A running maximum is one, and the time that the
next customer of a queue waits: `wait = max(0, wait + served - passed)`. Sums of integers may wrap around, so a vector
of steps is computed one by one if its terms, its bounds or the carry are large.

A minimum or maximum that no step reads needs no composing: each lane keeps one of its own steps.

Steps that read only what was returned many steps before do not wait for each other at all.
"""

from collections.abc import Sequence
from typing import NamedTuple

from scanjit import types
from scanjit.ir import Op
from scanjit.kinds import kind_of
from scanjit.ops.elementwise import ADD, CLIP, DIV, MAXIMUM, MINIMUM, MUL, NEG, SUB, WHERE
from scanjit.schedule.nests import Apply, Lanewise, Linear, Literal, Nest, Register, Tile, Value, one_of, walk_values
from scanjit.signatures import DType
from scanjit.walks import fold

APART = 3
"""If steps read what earlier steps stored, a vector of steps is computed at a time only if that was stored at least
this many vectors of steps before. (One would be enough for right results. But a vector that is read in part from each
of two vectors that were just stored waits for both.)"""


def lanewise(nest: Nest, tile: Tile) -> Lanewise | None:
    """The steps of a nest that are computed as many at a time as a vector has lanes. None if all are computed one by
    one."""
    lanes = tile.lanes
    found = linear(nest, tile.horizontal) if lanes > 1 else None
    if found is None or nest.time is None:
        return None
    steps = nest.time.size // lanes * lanes
    if nest.reach is not None:
        steps = steps * types.minimum(nest.reach // (APART * lanes), 1)
    return None if steps == 0 else Lanewise(tuple(found), steps)


def linear(nest: Nest, in_rows: bool = False) -> list[Linear] | None:
    """The carries of a nest, in an order in which each depends only on itself and those before it. None if there is no
    such order, or if one of them is not linear. Also None for several points, unless they are `in_rows`: each point
    goes through all steps before the next one does. The list is empty for a nest without carries that reads what it has
    stored."""
    if nest.time is None or (nest.space and not in_rows) or (not nest.registers and nest.reach is None):
        return None
    if nest.until is not None or not all(_counts(register.dtype) for register in nest.registers):
        return None
    if any(value.reports for value in nest.values):
        return None
    left = dict(zip(nest.registers, nest.updates, strict=True))
    found: list[Linear] = []
    while left:
        solved = None
        for register, update in left.items():
            if not (_registers(update) & left.keys()) - {register}:
                solved = _form(register, update, _unread(register, nest))
                if solved is not None:
                    break
        if solved is None:
            return None
        found.append(solved)
        del left[solved.register]
    return found


def _counts(dtype: DType) -> bool:
    """Whether lanes can hold registers of a dtype: floats, and integers of at least 32 bits."""
    kind = kind_of(dtype)
    return kind.floating or (kind.integral and dtype.itemsize >= 4)


def _registers(*values: Value) -> set[Register]:
    return {part for part in walk_values(values) if isinstance(part, Register)}


def _unread(register: Register, nest: Nest) -> bool:
    """Whether nothing but its own next step reads a carry."""
    stored = [value for store in nest.stores for value in store.values]
    others = [update for other, update in zip(nest.registers, nest.updates, strict=True) if other is not register]
    return register not in _registers(*stored, *others)


ONE = object()
"""The factor 1, as long as nothing is computed with it. A factor or a term of None is 0."""


class _Form(NamedTuple):
    """`max(low, min(high, factor * register + term))`."""

    factor: object = None
    term: Value | None = None
    low: Value | None = None
    high: Value | None = None

    @property
    def bounded(self) -> bool:
        """Whether there is a bound."""
        return self.low is not None or self.high is not None


def _form(register: Register, update: Value, unread: bool) -> Linear | None:
    reader = _Reader(register, update)
    try:
        form = reader.form(update)
    except _NotLinear:
        return None
    if form.factor is not None and kind_of(register.dtype).is_half:  # lanes cannot multiply and add such floats
        return None
    factor = form.factor if isinstance(form.factor, Value) else None
    extremum = form.factor is ONE and form.term is None and (form.low is None) != (form.high is None)
    signed = reader.floating and form.term is not None and factor is not None and _constants(factor) <= 0
    return Linear(register, factor, *form[1:], form.factor is None, unread and extremum, signed)


def _constants(factor: Value) -> float:
    """The smallest constant that a factor is, chooses or is a multiple of; 1 if there is none."""
    if isinstance(factor, Apply) and factor.op in (WHERE, MUL):
        return min(map(_constants, factor.args[factor.op is WHERE :]))
    return factor.number if isinstance(factor, Literal) else 1.0


class _NotLinear(Exception):
    pass


class _Reader:
    """Finds the form of expressions of a carry."""

    def __init__(self, register: Register, update: Value) -> None:
        self.register, self.floating = register, kind_of(register.dtype).floating
        self.known: dict[Value, _Form] = {}
        self.varying: set[Value] = set()
        """The values that depend on the carry."""
        for value in walk_values([update]):
            if value is register or not self.varying.isdisjoint(value.operands):
                self.varying.add(value)

    def form(self, value: Value) -> _Form:
        """The form of a value. Raises _NotLinear if it has none."""
        return fold(value, self._inner, self._form, self.known)

    def _inner(self, value: Value) -> Sequence[Value]:
        return value.args if isinstance(value, Apply) and value in self.varying else ()

    def _form(self, value: Value, args: list[_Form]) -> _Form:
        if value is self.register:
            return _Form(ONE)
        if value not in self.varying:
            return _Form(None, value)
        if not isinstance(value, Apply):
            raise _NotLinear
        op = value.op
        if op is CLIP:
            return self._bound(MINIMUM, self._bound(MAXIMUM, args[0], args[1]), args[2])
        if op in (MAXIMUM, MINIMUM):
            moving, still = args if args[1].factor is None else reversed(args)
            return self._bound(op, moving, still)
        if op is WHERE and args[0].factor is None:
            return self._either(value, args[1], args[2])
        if any(arg.bounded for arg in args):
            return self._shifted(op, *args)
        if op in (ADD, SUB):
            a, b = args
            if not self.floating and b.factor is not None and (op is SUB or a.factor is not None):
                raise _NotLinear
            return _Form(self._sum(op, a.factor, b.factor), self._sum(op, a.term, b.term))
        if not self.floating:
            raise _NotLinear
        if op is NEG:
            return _Form(self._sum(SUB, None, args[0].factor), self._sum(SUB, None, args[0].term))
        if op in (MUL, DIV) and args[1].factor is None:
            return self._scaled(op, args[0], value.args[1])
        if op is MUL and args[0].factor is None:
            return self._scaled(op, args[1], value.args[0])
        raise _NotLinear

    # ---- bounds ------------------------------------------------------------------------------------------------------

    def _bound(self, op: Op, moving: _Form, still: _Form) -> _Form:
        """The minimum or maximum of a form and a value that does not depend on the carry."""
        positive = isinstance(moving.factor, Literal) and moving.factor.number > 0
        if still.factor is not None or not (moving.factor is ONE or positive):
            raise _NotLinear
        low, high = (None if b is None else self._apply(op, b, still.term) for b in (moving.low, moving.high))
        if op is MAXIMUM:
            return moving._replace(low=low or still.term)
        return moving._replace(low=low, high=high or still.term)

    def _shifted(self, op: Op, *args: _Form) -> _Form:
        """A bounded form, plus or minus a value that does not depend on the carry."""
        if op not in (ADD, SUB) or not self.floating:
            raise _NotLinear
        moving, still = args if op is SUB or args[1].factor is None else reversed(args)
        if still.factor is not None:
            raise _NotLinear
        low, high = (None if b is None else self._sum(op, b, still.term) for b in moving[2:])
        return _Form(moving.factor, self._sum(op, moving.term, still.term), low, high)

    # ---- factors and terms -------------------------------------------------------------------------------------------

    def _value(self, factor: object) -> Value:
        """A factor as an expression."""
        if isinstance(factor, Value):
            return factor
        return self._literal(one_of(self.register.dtype) if factor is ONE else 0.0 if self.floating else 0)

    def _literal(self, number: float) -> Value:
        return Literal(self.register.dtype, number)

    def _apply(self, op: Op, *args: object) -> Value:
        return Apply(self.register.dtype, op, tuple(map(self._value, args)), {})

    def _sum(self, op: Op, left: object, right: object) -> Value | None:
        if right is None:
            return left  # type: ignore[return-value]
        if left is None and op is ADD:
            return right  # type: ignore[return-value]
        if left is None:
            negated = self._value(right)
            if self.floating and isinstance(negated, Literal):
                return self._literal(-negated.number)
            return self._apply(NEG, negated)
        return self._apply(op, self._value(left), self._value(right))

    def _scaled(self, op: Op, form: _Form, by: Value) -> _Form:
        factor, term = (None if part is None else self._apply(op, self._value(part), by) for part in form[:2])
        return _Form(by if form.factor is ONE and op is MUL else factor, term)

    def _either(self, value: Apply, yes: _Form, no: _Form) -> _Form:
        if yes.bounded or no.bounded:
            raise _NotLinear
        nothing = self._literal(-0.0 if self.floating else 0)  # a sum of -0.0 and 0.0 is 0.0

        def chosen(a: object, b: object, missing: Value | None) -> Value | None:
            return None if a is b is None else self._apply(WHERE, value.args[0], a or missing, b or missing)

        return _Form(chosen(yes.factor, no.factor, None), chosen(yes.term, no.term, nothing))
