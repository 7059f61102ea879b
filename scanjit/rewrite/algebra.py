"""Local algebra of single elements: arithmetic, powers, casts, choices. Each rule states its equation.

Values must be those of NumPy, NaN and inf included: `x*0` is not 0 and `x - x` is not 0 for floats, and sums of
floats are never reassociated. The sign of a zero may change (`x + 0 -> x`).
"""

import math
from collections.abc import Callable

import numpy as np

from scanjit import errors, types
from scanjit.ir import CONSTANT, PART, SIZE, Node, constant, own_atoms
from scanjit.ops import elementwise as ops, functions
from scanjit.ops.custom import CUSTOM
from scanjit.ops.expect import VIA
from scanjit.ops.extremes import ArgReduction
from scanjit.ops.narrow import REMARK, ROUND_GRADIENT
from scanjit.ops.promotion import CAST
from scanjit.ops.scan import SCAN
from scanjit.ops.stretch import BROADCAST_TO, broadcast_to, full
from scanjit.rewrite.engine import RuleTable
from scanjit.rewrite.match import is_elementwise, is_filled, is_zero, like, scalar, stretch

rules = RuleTable()
taken_apart = RuleTable()
"""The rules for ops that stand for several other ops, and that cannot be computed themselves. They are applied even if
rewriting is turned off."""
FOLDED_BYTES = 4096


@rules.rule(among=[CONSTANT])
def fold(node: Node) -> Node | None:
    """op(constants) -> constant, where the result is small."""
    if node.op is BROADCAST_TO or not node.operands or node.several:
        return None
    if any(arg.op is not CONSTANT for arg in node.args) or own_atoms(node):
        return None  # a size that is not known may also be a parameter: `table[n]` reads at a place
    if math.prod(types.as_ints(node.type.shape)) * node.dtype.itemsize > FOLDED_BYTES:
        return None
    with np.errstate(all="ignore"), errors.suppressed(errors.ScanjitError, ArithmeticError, ValueError):
        value = np.asarray(node.op.reference(*(arg.params["data"].array for arg in node.args), **node.params))
        return constant(value) if value.dtype == node.dtype and value.shape == node.type.shape else None
    return None  # an op that raises an error shall raise it when the function runs


@rules.rule(SIZE)
def known_size(node: Node) -> Node | None:
    """size(number) -> the number"""
    dim = node.params["dim"]
    return constant(np.int64(dim)) if node.op is SIZE and isinstance(dim, int) else None


@rules.rule(CONSTANT)
def uniform_constant(node: Node) -> Node | None:
    """an array of one value -> the value, broadcast"""
    array = node.params["data"].array
    if array.ndim == 0 or array.size == 0 or array.nbytes > FOLDED_BYTES:
        return None
    first = array.reshape(-1)[0]
    if any(entry.tobytes() != first.tobytes() for entry in array.reshape(-1)):  # by bits: 0.0 and -0.0 differ
        return None
    return broadcast_to(constant(first), node.type.shape)


# ---- arithmetic ------------------------------------------------------------------------------------------------------


@rules.rule(ops.ADD, among=[CONSTANT, BROADCAST_TO, ops.NEG])
def add(node: Node) -> Node | None:
    """x + 0 -> x;  0 + x -> x;  x + -y -> x - y;  -x + y -> y - x"""
    a, b = node.operands
    if is_zero(b):
        return stretch(a, node)
    if is_zero(a):
        return stretch(b, node)
    if b.op is ops.NEG:
        return ops.SUB(a, b.operands[0])
    if a.op is ops.NEG:
        return ops.SUB(b, a.operands[0])
    return None


@rules.rule(ops.SUB, among=[CONSTANT, BROADCAST_TO, ops.NEG])
def sub(node: Node) -> Node | None:
    """x - 0 -> x;  0 - x -> -x;  x - -y -> x + y"""
    a, b = node.operands
    if is_zero(b):
        return stretch(a, node)
    if is_zero(a) and node.type.kind.floating:
        return stretch(ops.NEG(b), node)
    if b.op is ops.NEG:
        return ops.ADD(a, b.operands[0])
    return None


@rules.rule(ops.MUL, among=[CONSTANT, BROADCAST_TO, ops.NEG])
def mul(node: Node) -> Node | None:
    """x * 1 -> x;  x * -1 -> -x;  -x * -y -> x * y;  -x * c -> x * -c;  -x * y -> -(x * y);  integers: x * 0 -> 0"""
    a, b = node.operands
    for x, c in ((a, b), (b, a)):
        if is_filled(c, 1):
            return stretch(x, node)
        if is_filled(c, -1):
            return stretch(ops.NEG(x), node)
        if is_zero(c) and not node.type.kind.floating:
            return like(node, 0)
    if a.op is ops.NEG and b.op is ops.NEG:
        return ops.MUL(a.operands[0], b.operands[0])
    for x, y in ((a, b), (b, a)):
        if x.op is ops.NEG and node.type.kind.floating:
            if y.op is CONSTANT:
                return ops.MUL(x.operands[0], constant(-y.params["data"].array))
            return ops.NEG(ops.MUL(x.operands[0], y))
    return None


@rules.rule(ops.DIV, among=[CONSTANT, BROADCAST_TO, ops.NEG])
def div(node: Node) -> Node | None:
    """x / 1 -> x;  -x / -y -> x / y;  x / 2^k -> x * 2^-k (exact)"""
    a, b = node.operands
    if is_filled(b, 1):
        return stretch(a, node)
    if a.op is ops.NEG and b.op is ops.NEG:
        return ops.DIV(a.operands[0], b.operands[0])
    divisor = scalar(b)
    if divisor is not None and node.type.kind.floating and np.isfinite(divisor) and divisor != 0:
        mantissa, exponent = np.frexp(divisor)
        if abs(mantissa) == 0.5 and abs(exponent) < 100:
            return stretch(ops.MUL(a, constant(np.asarray(1 / divisor, node.dtype))), node)
    return None


@rules.rule(ops.NEG)
def neg(node: Node) -> Node | None:
    """--x -> x;  -(x * c) -> x * -c"""
    (x,) = node.operands
    if x.op is ops.NEG:
        return x.operands[0]
    if x.op is ops.MUL and x.type.kind.floating:
        for y, c in (x.operands, x.operands[::-1]):
            if c.op is CONSTANT:
                return ops.MUL(y, constant(-c.params["data"].array))
    return None


@rules.rule(functions.POW, among=[CONSTANT, BROADCAST_TO])
def power(node: Node) -> Node | None:
    """x^0 -> 1;  x^n -> x * x * ...;  x^-n -> 1 / x^n;  x^(1/2) -> sqrt(x)"""
    x, exponent = node.operands
    value, floating = scalar(exponent), node.type.kind.floating
    if value is None:
        return None
    if value == 0:
        return like(node, 1)
    if value == 0.5 and floating:
        return stretch(ops.SQRT(x), node)
    if abs(value) > _MOST_MULTIPLIED or value % 1 or (value < 0 and not floating):
        return None
    product = _multiplied(x, abs(int(value)))
    return stretch(product if value > 0 else ops.DIV(constant(np.ones((), x.dtype)), product), node)


_MOST_MULTIPLIED = 16
"""The largest exponent for which a power is computed as products. Each product rounds."""


def _multiplied(x: Node, count: int) -> Node:
    """`x` to the power of a positive integer, as products."""
    return x if count == 1 else ops.MUL(_multiplied(x, count // 2), _multiplied(x, count - count // 2))


@rules.rule(ops.ABS, ops.FLOOR, ops.CEIL, ops.ROUND, ops.TRUNC, ops.SIGN, functions.RELU)
def idempotent(node: Node) -> Node | None:
    """f(f(x)) -> f(x)"""
    (x,) = node.operands
    return x if x.op is node.op and x.params == node.params else None


@rules.rule(ops.MAXIMUM, ops.MINIMUM, ops.AND, ops.OR)
def both_the_same(node: Node) -> Node | None:
    """max(x, x) -> x"""
    a, b = node.operands
    return a if a is b else None


@rules.rule(ops.AND, ops.OR)
def with_the_neutral_one(node: Node) -> Node | None:
    """x | false -> x;  x & true -> x"""
    neutral = node.op is ops.AND
    for x, other in (node.operands, node.operands[::-1]):
        if node.dtype == np.bool_ and is_filled(other, neutral):
            return stretch(x, node)
    return None


@rules.nested(ops.INVERT, of=[ops.INVERT])
def invert(node: Node, x: Node) -> Node | None:
    """~~x -> x"""
    return x.operands[0]


# ---- casts, choices, markers -----------------------------------------------------------------------------------------


@rules.rule(CAST)
def cast(node: Node) -> Node | None:
    """cast(x, its own dtype) -> x;  cast(cast(x, a), b) -> cast(x, b), where a holds every value of x"""
    (x,) = node.operands
    dtype = node.params["dtype"]
    if x.dtype == dtype:
        return x
    if x.op is not CAST:
        return None
    (base,) = x.operands
    rounds = base.type.kind.integral and x.type.kind.floating and base.dtype.itemsize >= x.dtype.itemsize
    exact = np.can_cast(base.dtype, x.dtype, "safe") and not rounds
    if exact and (base.dtype == dtype or not base.type.is_half):  # halves become float32 before anything else
        return base if base.dtype == dtype else CAST(base, dtype=dtype)
    return None


@rules.rule(ops.LESS)
def never_below_zero(node: Node) -> Node | None:
    """x < 0 -> false, for integers that cannot be negative: so an index into a ring is never counted from its end"""
    left, right = node.operands
    if not is_zero(right) or not left.type.kind.integral or not _not_negative(left):
        return None
    return full(False, node.type.shape, "bool")


def _not_negative(node: Node, depth: int = 4) -> bool:
    """Whether integers are certainly at least 0. Places of extrema are. Sizes are, but not differences such as n - 5.
    x % n is, for n > 0. x & y and maximum(x, y) are if x or y is. minimum, clip and where are if each bound or choice
    is."""
    if (known := scalar(node)) is not None:
        return bool(known >= 0)
    if node.op is SIZE:
        return types.not_negative(node.params["dim"])
    if isinstance(node.op, ArgReduction):
        return True
    if depth == 0:
        return False
    below = [lambda x=x: _not_negative(x, depth - 1) for x in node.operands]
    if node.op is ops.MOD:
        by, known = node.operands[1], scalar(node.operands[1])
        return by.op is SIZE and _not_negative(by, 0) if known is None else bool(known > 0)
    if node.op in (ops.AND, ops.MAXIMUM):
        return any(found() for found in below)
    if node.op is ops.MINIMUM:
        return all(found() for found in below)
    return node.op in (ops.WHERE, ops.CLIP) and all(found() for found in below[1:])


@rules.rule(ops.WHERE)
def where(node: Node) -> Node | None:
    """where(true, x, y) -> x;  where(false, x, y) -> y;  where(c, x, x) -> x;  where(~c, x, y) -> where(c, y, x);
    where(c, where(c, x, _), where(c, _, y)) -> where(c, x, y);
    where(c & d, x, where(c, y, z)) -> where(c, where(d, x, y), z);  likewise for ~c"""
    condition, x, y = node.operands
    known = scalar(condition)
    if known is not None:
        return stretch(x if known else y, node)
    if x is y:
        return stretch(x, node)
    if condition.op is ops.INVERT and condition.dtype == np.bool_:
        return ops.WHERE(condition.operands[0], y, x)
    if _asks(x, condition) or _asks(y, condition):
        x, y = (b.operands[i] if _asks(b, condition) else b for i, b in enumerate((x, y), start=1))
        new = ops.WHERE(condition, x, y)
        return new if new.type.shape == node.type.shape else None
    both = condition.op is ops.AND and all(arg is not y for arg in x.operands)  # an index from the end of an axis
    for part, rest in (condition.operands, condition.operands[::-1]) if both else ():
        inverted = part.op is ops.INVERT
        if _asks(y, base := part.operands[0] if inverted else part):
            _, yes, no = y.operands
            yes, no = (yes, ops.WHERE(rest, x, no)) if inverted else (ops.WHERE(rest, x, yes), no)
            return stretch(ops.WHERE(base, yes, no), node)
    return None


def _asks(node: Node, condition: Node) -> bool:
    """Whether a node is a choice by the same condition."""
    return node.op is ops.WHERE and node.operands[0] is condition


@rules.rule(ops.EQUAL, ops.NOT_EQUAL, ops.LESS, ops.LESS_EQUAL, ops.GREATER, ops.GREATER_EQUAL, among=[ops.WHERE])
def of_choice(node: Node) -> Node | None:
    """where(c, 1, x) < 2 -> c | (x < 2);  where(c, 2, x) < 2 -> ~c & (x < 2): nothing waits for the choice"""
    choice = next((x for x in node.operands if x.op is ops.WHERE), None)
    if choice is None or all(scalar(x) is None for x in node.operands):
        return None
    condition, *chosen = choice.operands
    yes, no = (node.op(*(x if arg is choice else arg for arg in node.operands)) for x in chosen)
    if_yes, if_no = (None if (known := fold(x)) is None else scalar(known) for x in (yes, no))
    if (if_yes is None) == (if_no is None):
        return None
    if if_yes is None:
        found = ops.OR(ops.INVERT(condition), yes) if if_no else ops.AND(condition, yes)
    else:
        found = ops.OR(condition, no) if if_yes else ops.AND(ops.INVERT(condition), no)
    return stretch(found, node)


NEAR = 3
"""At most so many ops stand between a condition and a choice by it that the condition decides."""


@rules.counting(ops.AND, ops.OR)
def decided(node: Node, used: Callable[[Node], int]) -> Node | None:
    """c & f(where(c, x, _)) -> c & f(x);  c | f(where(c, _, y)) -> c | f(y): the result does not wait for a choice that
    does not matter"""
    if node.dtype != np.bool_:
        return None
    a, b = node.operands
    for condition, other in ((a, b), (b, a)):
        inverted = condition.op is ops.INVERT
        of = condition.operands[0] if inverted else condition
        found = _decided(other, of, (node.op is ops.AND) != inverted, used, NEAR)
        if found is not other:
            new = node.op(condition, found)
            return new if new.type.shape == node.type.shape else None
    return None


def _decided(node: Node, condition: Node, holds: bool, used: Callable[[Node], int], depth: int) -> Node:
    """A node where a condition holds, or does not: without choices by it. Only ops that nothing else uses change."""
    if _asks(node, condition):
        return node.operands[1 if holds else 2]
    if depth == 0 or not is_elementwise(node) or used(node) != 1:
        return node
    operands = [_decided(operand, condition, holds, used, depth - 1) for operand in node.operands]
    same = all(a is b for a, b in zip(operands, node.operands, strict=True))
    return node if same else node.op(*operands, **node.params)


@rules.rule(ops.STOP_GRADIENT, ops.CLIP_GRADIENT, ROUND_GRADIENT, REMARK, VIA)
def gradient_marker(node: Node) -> Node | None:
    """stop_gradient(x) -> x;  via(x, y) -> x: derivatives have been taken before graphs are rewritten"""
    return node.operands[0]


@taken_apart.nested(PART, of=[CUSTOM])
def custom(node: Node, given: Node) -> Node | None:
    """part(custom(x, y), 0) -> x: the rule for the derivative of x by y, which has been taken"""
    return given.operands[node.params["index"]]


@rules.nested(PART, of=[SCAN])
def loop_of_no_steps(node: Node, given: Node) -> Node | None:
    """a result of a loop of no steps -> the initial value of a carry; no rows

    If a loop with `until` counts the steps that ran, this number and the rows are still computed. With the constant 0,
    taking the last row would raise an error while the graph is rewritten, even in a branch that no call takes. Without
    rows, it would raise none in a step.
    """
    index = node.params["index"]
    if given.params["length"] != 0 or (given.params["until"] and index >= given.params["carries"]):
        return None
    return given.operands[index] if index < given.params["carries"] else full(0, node.type.shape, node.dtype)


# ---- elementwise ops and broadcasts ----------------------------------------------------------------------------------


@rules.rule(among=[BROADCAST_TO])
def elementwise_of_broadcasts(node: Node) -> Node | None:
    """f(broadcast(x), y) -> broadcast(f(x, y)): the op broadcasts by itself"""
    if not is_elementwise(node):
        return None
    bare = [arg.operands[0] if arg.op is BROADCAST_TO else arg for arg in node.operands]
    return stretch(node.op(*bare, **node.params), node)
