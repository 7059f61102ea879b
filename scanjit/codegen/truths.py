"""What is known of truth values behind branches."""

from collections.abc import Mapping

from scanjit.kinds import kind_of
from scanjit.ops.elementwise import (
    AND,
    EQUAL,
    GREATER,
    GREATER_EQUAL,
    INVERT,
    LESS,
    LESS_EQUAL,
    NOT_EQUAL,
    OR,
    WHERE,
    XOR,
)
from scanjit.schedule.nests import Apply, Literal, Value

_LESS, _EQUAL, _GREATER, _UNLIKE = 1, 2, 4, 8
"""How two numbers compare, as sets of one; NaN is unlike all numbers."""
_ALL = _LESS | _EQUAL | _GREATER | _UNLIKE
_HOLDS = {
    LESS: _LESS,
    LESS_EQUAL: _LESS | _EQUAL,
    EQUAL: _EQUAL,
    NOT_EQUAL: _ALL - _EQUAL,
    GREATER_EQUAL: _GREATER | _EQUAL,
    GREATER: _GREATER,
}
"""When comparisons hold."""


def truth_of(value: Value, decided: Mapping[Value, bool]) -> bool | None:
    """Whether a truth value is true, as far as this follows from others; None for other values, too."""
    if not decided or not kind_of(value.dtype).is_mask:
        return None
    if value in decided or not isinstance(value, Apply):
        return decided.get(value)
    if value.op in _HOLDS:
        possible, holds = _possible(value, decided), _HOLDS[value.op]
        return False if not possible & holds else True if not possible & ~holds else None
    truths = [truth_of(arg, decided) for arg in value.args]
    if value.op is WHERE:
        same = truths[1] if truths[1] is truths[2] else None
        return same if truths[0] is None else truths[2 - truths[0]]
    if value.op in (AND, OR) and (value.op is OR) in truths:
        return value.op is OR
    if value.op not in (AND, OR, XOR, INVERT) or None in truths:
        return None
    if value.op is INVERT:
        return not truths[0]
    return truths[0] is not truths[1] if value.op is XOR else value.op is AND


def _possible(comparison: Apply, decided: Mapping[Value, bool]) -> int:
    """How the two sides of a comparison may compare."""
    left, right = comparison.args
    found = _ALL if kind_of(left.dtype).floating else _ALL - _UNLIKE
    for other, truth in decided.items():
        if isinstance(other, Apply) and other.op in _HOLDS:
            ways = _HOLDS[other.op] if truth else _ALL - _HOLDS[other.op]
            if other.args[0] is right and other.args[1] is left:
                found &= sum({_LESS: _GREATER, _GREATER: _LESS}.get(way, way) for way in (1, 2, 4, 8) if way & ways)
            elif other.args[0] is left:
                found &= _moved(ways, other.args[1], right)
    return found


def _moved(ways: int, old: Value, new: Value) -> int:
    """How a value may compare to a new number, if it compares in one of some ways to the old one."""
    if old is new:
        return ways
    if not isinstance(old, Literal) or not isinstance(new, Literal):
        return _ALL
    before, after = (literal.dtype.type(literal.number) for literal in (old, new))
    if not (before < after or before > after):
        return ways if before == after else _ALL
    nearer = _GREATER if before < after else _LESS
    found = ways & _UNLIKE
    if ways & nearer:
        found |= _LESS | _EQUAL | _GREATER
    return found | (_LESS | _GREATER) - nearer if ways & ~(nearer | _UNLIKE) else found
