"""The last row of a stacked carry is the final value of the carry: `ys[-1] -> carry`.

The same for the derivative of this: a sequence is added to a carry, and is zero except for the row that is read first.
That row is added to the carry's initial value instead.
"""

from scanjit import errors
from scanjit.ir import PART, Node, as_dim, rebuilt
from scanjit.ops.elementwise import ADD
from scanjit.ops.roles import Roles
from scanjit.ops.scan import SCAN
from scanjit.ops.shape import SET_SLICE, SLICE
from scanjit.ops.view import as_row, only_row
from scanjit.rewrite.alike import Alike
from scanjit.rewrite.engine import Note, in_bodies, map_scans, uses
from scanjit.rewrite.loop import OpenScan
from scanjit.rewrite.match import is_whole, is_zero, window_of, window_set
from scanjit.types import Dimension


def last_rows(outputs: list[Node], notes: list[Note]) -> list[Node]:
    """Replace the last row of a stacked carry by the carry's final value, so that the stack is not needed. That there
    is a last row is checked before anything runs."""
    outputs = in_bodies(outputs, lambda inner: last_rows(inner, notes))
    alike = Alike(_first_row)
    outputs = map_scans(outputs, lambda old, scan: alike(scan, notes))
    return rebuilt(outputs, lambda old, new: _final(new) if new.op is SLICE else None)


def _first_row(scan: Node, notes: list[Note]) -> dict[int, Node] | None:
    """carry' = f(carry + x_t) with x zero but for the first row that is read -> carry' = f(carry), x added to init"""
    loop = OpenScan.of(scan)
    first = scan.params["length"] - 1 if scan.params["reverse"] else 0
    rows = {inner: operand for operand, inner in loop.xs.items() if _is_row(operand, first)}
    if not rows:
        return None
    users = uses(loop.outputs)
    found = False
    for carry in loop.carries:
        used, *more = users.get(carry.inner) or [carry.inner]
        if more or used.op is not ADD or carry.lag is not None:
            continue
        a, b = used.operands
        x = b if a is carry.inner else a
        if x in rows and len(users[x]) == 1 and x.type.shape == carry.inner.type.shape:
            found = True
            value = rows[x].operands[1]
            with errors.located(scan.where):
                carry.init = carry.init + only_row(value)
            loop.substitute({used: carry.inner})
    if not found:
        return None
    notes.append(Note("last_rows", scan.where, "a sequence that is zero but for one row was added to an initial value"))
    return loop.finish().parts()


def _is_row(operand: Node, index: Dimension) -> bool:
    """Whether a sequence is zero but for one row, at this index."""
    if operand.op is not SET_SLICE or not is_zero(operand.operands[0]):
        return False
    (start, length, _), *rest = window_set(operand)
    return start == index and length == 1 and is_whole(tuple(rest), operand.type.shape[1:])


def _final(node: Node) -> Node | None:
    """ys[T - 1 : T] -> the final carry, with an axis of size 1; in a reverse loop, ys[0:1]; in a loop with `until`,
    ys[count - 1 : count]"""
    (part,) = node.operands
    if part.op is not PART or part.args[0].op is not SCAN:
        return None
    scan, index = part.args[0], part.params["index"]
    roles, outputs = Roles.of(scan), scan.params["body"].outputs
    if index not in roles.stacks:
        return None
    length = as_dim(PART(scan, index=roles.stacks.stop)) if roles.until else scan.params["length"]
    last = 0 if scan.params["reverse"] else length - 1
    (start, taken, _), *rest = window_of(node)
    if start != last or taken != 1 or not is_whole(tuple(rest), part.type.shape[1:]):
        return None
    carry = next((i for i in range(roles.carries) if outputs[i] is outputs[index] and i not in roles.lags), None)
    if carry is None:
        return None
    return as_row(PART(scan, index=carry))
