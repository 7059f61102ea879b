"""Minima and maxima of floats that are one instruction: a nest with time that computes them as if nothing were NaN.

NumPy's maximum is NaN if either operand is. The instruction of x86 returns the second operand if either is NaN: to mend
that takes a comparison and a selection, and carries wait for the selection. So a turn of several steps is computed with
the instruction alone, and once more with all three if a first operand was NaN.

Few first operands need a test. An operand that is NaN may make another value NaN that is tested. A carry that stays NaN
needs one test at the end of the turn.
"""

from collections.abc import Iterable

from scanjit.kinds import kind_of
from scanjit.ops.elementwise import ABS, ADD, DIV, MAXIMUM, MINIMUM, MUL, NEG, SUB
from scanjit.schedule.nests import Apply, Extrema, Literal, Nest, Register, Value, rereads, walk_values
from scanjit.target import Target
from scanjit.walks import bottom_up

_PASSES_ON = (ADD, SUB, MUL, DIV, NEG, ABS, MAXIMUM, MINIMUM)
"""Ops of floats whose result is NaN if an operand is."""


def extrema(nest: Nest, target: Target) -> Extrema | None:
    """The extrema of a nest that are computed as if nothing were NaN; None if there are none."""
    short = nest.time is not None and not nest.space and nest.unroll > 1
    if not short or not target.is_x86 or nest.reach is not None or not nest.repeatable or rereads(nest.stores):
        return None
    single = dict.fromkeys(filter(_is_slow, nest.values))
    if len({value.dtype for value in single}) != 1:
        return None
    firsts = dict.fromkeys(_unsigned(value.operands[0]) for value in single)
    carried = {r: _shown([u], single) for r, u in zip(nest.registers, nest.updates, strict=True)}
    carried = {register: shown for register, shown in carried.items() if register in shown}
    alone = [value for value in firsts if not any(value in shown for shown in carried.values())]
    tested = [value for value in alone if not any(value in _shown([o], single) for o in alone if o is not value)]
    left = firsts.keys() - _shown(tested, single)
    registers = tuple(register for register, shown in carried.items() if not shown.isdisjoint(left))
    return Extrema(tuple(single), tuple(tested), registers)


def _is_slow(value: Value) -> bool:
    """Whether a value is an extremum of floats for which a carry waits, and of which no operand is a number: LLVM knows
    that a number is not NaN."""
    if not isinstance(value, Apply) or value.op not in (MAXIMUM, MINIMUM) or not kind_of(value.dtype).floating:
        return False
    if any(isinstance(operand, Literal) for operand in value.operands):
        return False
    return any(isinstance(part, Register) for part in walk_values([value]))


def _unsigned(value: Value) -> Value:
    """A value that is NaN if and only if the given one is: without signs."""
    while isinstance(value, Apply) and value.op in (NEG, ABS):
        value = value.operands[0]
    return value


def _shown(roots: Iterable[Value], single: Iterable[Value]) -> set[Value]:
    """The values that make one of the roots NaN if they are NaN, the roots included."""

    def passed(value: Value) -> tuple[Value, ...]:
        if value in single:
            return value.operands[1:]
        return value.operands if isinstance(value, Apply) and value.op in _PASSES_ON else ()

    return set(bottom_up(roots, passed))
