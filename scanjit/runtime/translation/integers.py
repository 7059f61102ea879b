"""Operations on integers of 64 bits, as Python has them except for overflow. None of them has effects. Operations on
known numbers are computed here."""

import operator
from collections.abc import Callable

from scanjit.runtime.translation.instructions import Instructions, KernelValue
from scanjit.simd.types import BOOL, INT

BITWISE = {"and": "and", "or": "or", "xor": "xor"}
_ARITHMETIC = BITWISE | {"add": "add nsw", "sub": "sub nsw", "mul": "mul nsw", "shl": "shl", "shr": "ashr"}
_UNARY = {"neg": "sub i64 0,", "invert": "xor i64 -1,"}
_COMPARISONS = {"lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge", "eq": "eq", "ne": "ne"}
_FOLDED: dict[str, Callable[[int, int], int]] = {
    **{name: getattr(operator, name) for name in ("add", "sub", "mul", "xor", *_COMPARISONS)},
    **{"and": operator.and_, "or": operator.or_, "min": min, "max": max},
    **{"floordiv": lambda a, b: a // b if b else 0, "mod": lambda a, b: a % b if b else 0},
}
"""The operations that are computed here if both operands are known."""

FALSE, TRUE = KernelValue(BOOL, "false", False), KernelValue(BOOL, "true", True)
ZERO, ONE = KernelValue(INT, "0", 0), KernelValue(INT, "1", 1)


def binary(to: Instructions, name: str, a: KernelValue, b: KernelValue) -> KernelValue:
    """An operation of two integers."""
    if (known := _folded(name, a, b)) is not None:
        return known
    if name == "add" and a.stack is not None and isinstance(b.number, int):
        place, offset = a.stack
        return to.on_stack(place, offset + b.number)
    if name == "mul" and a.beyond is not None and isinstance(b.number, int):
        base, number = a.beyond
        return beyond(to, binary(to, "mul", base, b), number * b.number)
    if name == "add" and a.beyond is not None:
        return beyond(to, binary(to, "add", a.beyond[0], b), a.beyond[1])
    if name == "add" and b.beyond is not None:
        return beyond(to, binary(to, "add", a, b.beyond[0]), b.beyond[1])
    if name in _ARITHMETIC:
        return to.pure(INT, f"{_ARITHMETIC[name]} i64 {a.text}, {b.text}", a, b)
    if name not in ("floordiv", "mod"):
        raise TypeError(f"integers in kernels have no operator {name}")
    if isinstance(b.number, int) and b.number > 0 and b.number.bit_count() == 1:
        shift = (
            f"and i64 {a.text}, {b.number - 1}" if name == "mod" else f"ashr i64 {a.text}, {b.number.bit_length() - 1}"
        )
        return to.pure(INT, shift, a)
    return _divided(to, name, a, b)


def beyond(to: Instructions, base: KernelValue, number: int) -> KernelValue:
    """The sum of an integer and a number. In sums and multiples of it, the number is added last: what is computed of
    the integer alone is then written once."""
    return to.pure(INT, f"add nsw i64 {base.text}, {number}", base)._replace(beyond=(base, number))


def unary(to: Instructions, name: str, a: KernelValue) -> KernelValue:
    """An operation of one integer."""
    return to.pure(INT, f"{_UNARY[name]} {a.text}", a)


def compare(to: Instructions, name: str, a: KernelValue, b: KernelValue) -> KernelValue:
    """A comparison of two integers."""
    return _folded(name, a, b) or to.pure(BOOL, f"icmp {_COMPARISONS[name]} i64 {a.text}, {b.text}", a, b)


def extremum(to: Instructions, name: str, a: KernelValue, b: KernelValue) -> KernelValue:
    """`min` or `max` of two integers."""
    return _folded(name, a, b) or select(to, compare(to, "lt" if name == "min" else "gt", b, a), b, a)


def select(to: Instructions, condition: KernelValue, yes: KernelValue, no: KernelValue) -> KernelValue:
    """One of two values of one type."""
    if condition.number is not None:
        return yes if condition.number else no
    name = yes.type.text
    return to.pure(yes.type, f"select i1 {condition.text}, {name} {yes.text}, {name} {no.text}", condition, yes, no)


def inverted(to: Instructions, condition: KernelValue) -> KernelValue:
    """Whether a condition is false."""
    return to.pure(BOOL, f"xor i1 {condition.text}, true", condition)


def whole(to: Instructions, condition: KernelValue) -> KernelValue:
    """A condition as 0 or 1."""
    return to.pure(INT, f"zext i1 {condition.text} to i64", condition)


def _folded(name: str, a: KernelValue, b: KernelValue) -> KernelValue | None:
    """The result as a constant, if both operands are known and it has no more than 64 bits."""
    if name not in _FOLDED or not isinstance(a.number, int) or not isinstance(b.number, int):
        return None
    result = _FOLDED[name](a.number, b.number)
    if isinstance(result, bool):
        return TRUE if result else FALSE
    return KernelValue(INT, str(result), result) if -(2**63) <= result < 2**63 else None


def _divided(to: Instructions, name: str, a: KernelValue, b: KernelValue) -> KernelValue:
    """The quotient, rounded down, or the remainder. Both are 0 for a divisor of 0.

    Processors stop the program at a divisor of 0, and at the lowest integer divided by -1. So these two divisors are
    replaced by 1. The remainder is then 0; the quotient is the product with the original divisor.
    """
    special = to.pure(BOOL, f"icmp ult i64 {binary(to, 'add', b, ONE).text}, 2", b)
    divisor = select(to, special, ONE, b)
    quotient, rest = (to.pure(INT, f"{way} i64 {a.text}, {divisor.text}", a, divisor) for way in ("sdiv", "srem"))
    apart = compare(to, "lt", binary(to, "xor", rest, divisor), ZERO)
    inexact = compare(to, "ne", rest, ZERO)
    too_large = whole(to, to.pure(BOOL, f"and i1 {inexact.text}, {apart.text}", inexact, apart))
    if name == "mod":
        return binary(to, "add", rest, binary(to, "mul", too_large, divisor))
    product = to.pure(INT, f"mul i64 {a.text}, {b.text}", a, b)
    return select(to, special, product, binary(to, "sub", quotient, too_large))
