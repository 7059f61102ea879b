"""Carries that count steps, such as `t` in `return ..., t + 1`, become sequences if much is computed of them.

The number of a step is known before the loop. What depends on it and on no other carry, such as `0.9**t` in a step of
Adam, then leaves the loop, and is computed for many steps at once.
"""

from scanjit import errors
from scanjit.ir import CONSTANT, Node, constant, dim_node
from scanjit.ops.elementwise import ADD, MUL, SUB
from scanjit.ops.promotion import Elementwise, cast
from scanjit.ops.shape import IOTA
from scanjit.rewrite.alike import change_loops
from scanjit.rewrite.engine import Note
from scanjit.rewrite.loop import OpenCarry, OpenScan

MUCH = 20
"""An op of at least this cost is worth a sequence."""
LARGEST = 2.0**40
"""Whole numbers up to this are counted without rounding, as a float64 too, for more steps than a loop can make."""


def counters(outputs: list[Node], notes: list[Note]) -> list[Node]:
    """Make a carry that counts steps a sequence, if a step computes something costly of it. Inner loops come first."""
    return change_loops(outputs, notes, _changed)


def _changed(scan: Node, notes: list[Note]) -> dict[int, Node] | None:
    loop = OpenScan.of(scan)
    counting = {id(carry): by for carry in loop.carries if (by := _step(carry)) is not None}
    chosen = [carry for carry in loop.carries if id(carry) in counting]
    rest = [carry for carry in loop.carries if id(carry) not in counting]
    alone = loop.depends(carry.inner for carry in chosen) - loop.depends(carry.inner for carry in rest)
    if loop.stop is not None or not any(map(_is_costly, alone)):
        return None
    with errors.located(scan.where):
        before, steps = IOTA(length=loop.length), dim_node(loop.length)
        if scan.params["reverse"]:
            before = SUB(SUB(steps, constant(1, "int64")), before)
        loop.carries = rest
        for carry in chosen:
            apart = constant(counting[id(carry)], carry.inner.dtype)
            rows, last = (ADD(carry.init, MUL(cast(number, apart.dtype), apart)) for number in (before, steps))
            loop.substitute({carry.inner: loop.x(rows)})
            loop.results = [last if result is carry else result for result in loop.results]
        notes.append(
            Note("counters", scan.where, "what depends on the number of the step alone is made before the loop")
        )
        return loop.finish().parts()


def _step(carry: OpenCarry) -> float | None:
    """By how much each step raises a carry, if that is a constant, and rounding never changes its value."""
    new = carry.new
    if carry.lag is not None or new.ndim or new.op not in (ADD, SUB) or new.dtype not in ("int64", "float64"):
        return None
    first, second = new.operands
    if new.op is ADD and second is carry.inner:
        first, second = second, first
    if first is not carry.inner or not _is_whole(second):
        return None
    if new.type.kind.floating and not _is_whole(carry.init):
        return None
    by = second.params["data"].array[()]
    return by if new.op is ADD else -by


def _is_whole(node: Node) -> bool:
    """Whether a node is known to be a whole number that is not large."""
    return (
        node.op is CONSTANT
        and not node.ndim
        and bool((found := node.params["data"].array) % 1 == 0 and abs(found) <= LARGEST)
    )


def _is_costly(node: Node) -> bool:
    return isinstance(node.op, Elementwise) and node.op.cost >= MUCH and node.type.kind.floating
