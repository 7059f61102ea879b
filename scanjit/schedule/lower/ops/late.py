"""Chains of minima and maxima in the steps of a nest, reordered so that the result of the last step comes last.

In `min(min(up, left), diagonal)`, where `left` is the result of the last step, two operations wait for that step. In
`min(min(up, diagonal), left)`, one does. The value is the same in any order.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from scanjit.ops.elementwise import MAXIMUM, MINIMUM
from scanjit.schedule.nests import Apply, Register, Value, substitute, walk_values


def late_last(roots: Sequence[Value]) -> list[Value]:
    """The same values, with the operands of minima and maxima in this order: those that depend on no register, those
    computed from registers, registers."""
    rank: dict[Value, int] = {}
    values = walk_values(roots)
    for value in values:
        below = max((rank[operand] for operand in value.operands), default=0)
        rank[value] = 2 if isinstance(value, Register) else min(below, 1)
    new: dict[Value, Value] = {}
    uses = Counter([*roots, *(operand for value in values for operand in value.operands)])
    inner = {
        arg
        for value in values
        if _is_extremum(value)
        for arg in value.operands
        if _is_same(value, arg) and uses[arg] == 1  # others would have to compute it again
    }
    for value in values:
        if isinstance(value, Apply) and _is_extremum(value) and value not in inner:
            new |= _reordered(value, rank, inner)
    get = substitute(roots, new)
    return [get(root) for root in roots]


def _reordered(value: Apply, rank: Mapping[Value, int], inner: Collection[Value]) -> dict[Value, Value]:
    """Maps an extremum to the same extremum with its operands in order. Empty if they are in order already."""
    operands = _operands(value, inner)
    wanted = sorted(operands, key=rank.__getitem__)
    if wanted == operands:
        return {}
    found = wanted[0]
    for operand in wanted[1:]:
        found = Apply(value.dtype, value.op, (found, operand), value.params)
    return {value: found}


def _operands(value: Value, inner: Collection[Value]) -> list[Value]:
    """The operands of an extremum of several values, from the first to the last. Some of them are written as `inner`
    extrema."""
    found: list[Value] = []
    left = [*reversed(value.operands)]
    while left:  # no recursion: there may be hundreds
        part = left.pop()
        if part in inner:
            left += reversed(part.operands)
        else:
            found.append(part)
    return found


def _is_same(value: Value, arg: Value) -> bool:
    return isinstance(value, Apply) and isinstance(arg, Apply) and value.op is arg.op and value.dtype == arg.dtype


def _is_extremum(value: Value) -> bool:
    return isinstance(value, Apply) and value.op in (MAXIMUM, MINIMUM)
