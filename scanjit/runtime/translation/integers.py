"""Operations of integers of 64 bits, as Python has them but for overflow."""

from __future__ import annotations

from scanjit.runtime.translation.instructions import Instructions, Value
from scanjit.simd.types import BOOL, INT

BITWISE = {"and": "and", "or": "or", "xor": "xor"}
_ARITHMETIC = BITWISE | {"add": "add nsw", "sub": "sub nsw", "mul": "mul nsw", "shl": "shl", "shr": "ashr"}
_UNARY = {"neg": "sub nsw i64 0,", "invert": "xor i64 -1,", "pos": "add i64 0,"}
_COMPARISONS = {"lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge", "eq": "eq", "ne": "ne"}


def binary(to: Instructions, name: str, a: Value, b: Value) -> Value:
    """An operation of two integers."""
    if name in _ARITHMETIC:
        return to.get(INT, f"{_ARITHMETIC[name]} i64 {a.text}, {b.text}")
    if name not in ("floordiv", "mod"):
        raise TypeError(f"integers in kernels have no operator {name}")
    if isinstance(b.number, int) and b.number > 0 and b.number.bit_count() == 1:
        return to.get(INT, f"and i64 {a.text}, {b.number - 1}" if name == "mod" else _shifted(a, b.number))
    return _divided(to, name, a, b)


def unary(to: Instructions, name: str, a: Value) -> Value:
    """An operation of one integer."""
    return to.get(INT, f"{_UNARY[name]} {a.text}")


def compare(to: Instructions, name: str, a: Value, b: Value) -> Value:
    """A comparison of two integers."""
    return to.get(BOOL, f"icmp {_COMPARISONS[name]} i64 {a.text}, {b.text}")


def extremum(to: Instructions, name: str, a: Value, b: Value) -> Value:
    """`min` or `max` of two integers."""
    other = to.condition(f"icmp {'slt' if name == 'min' else 'sgt'} i64 {b.text}, {a.text}")
    return to.get(INT, f"select i1 {other}, i64 {b.text}, i64 {a.text}")


def _shifted(a: Value, power: int) -> str:
    return f"ashr i64 {a.text}, {power.bit_length() - 1}"


def _divided(to: Instructions, name: str, a: Value, b: Value) -> Value:
    """The quotient, rounded down, or what is left. Both are 0 for a divisor of 0."""
    zero = to.condition(f"icmp eq i64 {b.text}, 0")
    divisor = to.integer(f"select i1 {zero}, i64 1, i64 {b.text}")
    quotient, rest = (to.integer(f"{way} i64 {a.text}, {divisor}") for way in ("sdiv", "srem"))
    inexact = to.condition(f"icmp ne i64 {rest}, 0")
    apart = to.condition(f"icmp slt i64 {to.integer(f'xor i64 {rest}, {divisor}')}, 0")
    too_large = to.integer(f"zext i1 {to.condition(f'and i1 {inexact}, {apart}')} to i64")
    if name == "mod":
        more = to.integer(f"mul nsw i64 {too_large}, {divisor}")
        found = to.integer(f"add nsw i64 {rest}, {more}")
    else:
        found = to.integer(f"sub nsw i64 {quotient}, {too_large}")
    return to.get(INT, f"select i1 {zero}, i64 0, i64 {found}")
