"""Steps that change an element of a small array at a computed place, and also compute with all of the array.

If the element is stored alone, a vector that is then loaded there waits until the store has left the processor's
buffer of stores, which takes longer than all else in such a step. So the change becomes a choice in each lane: the new
value at the place, the old one elsewhere. A step of elementwise ops is then one nest, with the array in registers.

Arrays of which steps read and change single elements only, such as a delay line, stay as they are. So do tables of
which they also read short rows, for an extremum or its place: such a row is read element by element.
"""

import math
import operator
from collections.abc import Collection, Mapping, Sequence
from functools import reduce

import numpy as np

from scanjit import errors, types
from scanjit.ir import Node, constant, dependents, rebuild, rebuilt, replace, walk, with_body
from scanjit.ops.branch import IFELSE
from scanjit.ops.elementwise import ADD, EQUAL, where
from scanjit.ops.extremes import FEW_PLACES, FEW_TRUTHS, MAX, MIN, ArgReduction
from scanjit.ops.index import GATHER, SCATTER
from scanjit.ops.promotion import CAST, Elementwise
from scanjit.ops.reduction import Reduction
from scanjit.ops.roles import Roles
from scanjit.ops.scan import SCAN
from scanjit.ops.shape import CONCATENATE
from scanjit.ops.view import DIMSHUFFLE, reordered
from scanjit.rewrite.engine import Note, in_bodies, uses

MOST_BYTES = 512
"""A small array has at most this many bytes."""
MOST_WORK = 256
"""What the new value is made of is computed in all lanes only if this is at most so many operations on elements."""


def changes_in_lanes(outputs: list[Node], notes: list[Note]) -> list[Node]:
    """Change an element of a small array at a computed place by a choice in each lane, in steps that also compute with
    all of the array."""
    outputs = in_bodies(outputs, lambda inner: changes_in_lanes(inner, notes))
    return rebuilt(outputs, lambda old, scan: _changed(scan, notes) if scan.op is SCAN else None)


def _changed(scan: Node, notes: list[Note]) -> Node | None:
    """A scan with such choices; None if there are none."""
    roles, body = Roles.of(scan), scan.params["body"]
    single = _by_elements(body.inputs[: roles.carries], body.outputs)
    made: dict[Node, Node] = {}
    for node in walk(body.outputs):
        if node.op is SCATTER and node not in single and _is_small(node):
            made[node] = replace([_choice(node, single)], made)[0]
        elif isinstance(node.op, ArgReduction) or node.op in (MAX, MIN):
            if (row := node.operands[0]).op is GATHER and row.operands[0] in single and _is_short(row):
                made[node] = replace([_of_elements(node, row)], made)[0]
    if not made:
        return None
    if any(node.op is SCATTER for node in made):
        notes.append(Note("changes_in_lanes", scan.where, "elements of small arrays are chosen in lanes"))
    return with_body(scan, body.with_outputs(replace(body.outputs, made)))


def _by_elements(carries: Sequence[Node], outputs: Sequence[Node]) -> set[Node]:
    """The carries of which a step reads and changes single elements only, and their changes."""
    users, found = uses(outputs), set[Node]()
    for before, after in zip(carries, outputs, strict=False):
        line = [after]
        while line[-1].op is SCATTER:
            line.append(line[-1].operands[0])
        others = [user for node in line for user in users.get(node, ()) if not _takes_element(user, node, users)]
        if line[-1] is before and len(others) == 1 and others[0] is after:
            found.update(line)
    return found


def _takes_element(user: Node, node: Node, users: Mapping[Node, Sequence[Node]]) -> bool:
    """Whether a user of a node reads or changes single elements of it. An extreme element among a few is looked for one
    by one."""
    if isinstance(user.op, ArgReduction):
        return types.not_negative(FEW_PLACES - types.product(node.type.shape))
    if isinstance(user.op, Elementwise) and user.dtype == np.bool_ and user.type.shape == node.type.shape:
        return types.not_negative(FEW_TRUTHS - types.product(node.type.shape)) and _is_looked_for(user, users)
    if user.op in (SCAN, IFELSE):
        return _is_read_inside(user, node)
    return user.op in (GATHER, SCATTER) and user is not node and node not in set(user.operands[1:])


def _is_read_inside(user: Node, node: Node) -> bool:
    """Whether an inner loop or a branch reads single elements of a node, which does not change there."""
    body = user.params["body"]
    operands, users = user.operands[len(user.operands) - len(body.inputs) :], uses(body.outputs)
    moving = 0 if user.op is IFELSE else user.params["carries"] + user.params["sequences"]
    if node in set(operands[:moving]):
        return False
    inside = [inner for operand, inner in zip(operands, body.inputs, strict=True) if operand is node]
    readers = [(reader, inner) for inner in inside for reader in users.get(inner, ())]
    return all(reader.op is not SCATTER and _takes_element(reader, inner, users) for reader, inner in readers)


def _is_looked_for(values: Node, users: Mapping[Node, Sequence[Node]]) -> bool:
    """Whether nothing is read of some values but the place of the first one of which something is true."""
    if values.op is CAST and values.operands[0].dtype == np.bool_:
        return all(isinstance(user.op, ArgReduction) for user in users[values])
    found = users.get(values, ())
    return all(
        user is not values and isinstance(user.op, Elementwise) and _is_looked_for(user, users) for user in found
    )


def _is_short(row: Node) -> bool:
    """Whether a row, the elements along the last axis of an array at one place of the others, is short."""
    x, *indices = row.operands
    one = row.ndim == 1 and row.params["axis"] == 0 and len(indices) == x.ndim - 1
    return one and not any(index.ndim for index in indices) and types.not_negative(FEW_PLACES - row.type.shape[0])


def _of_elements(node: Node, row: Node) -> Node:
    """An extremum of a row, or its place, made of the elements one by one."""
    with errors.located(node.where):
        places = range(types.as_int(row.type.shape[0]))
        found = [GATHER(*row.operands, constant(place, "int64"), axis=0) for place in places]
        if isinstance(node.op, Reduction):
            while len(found) > 1:  # in pairs: the last extremum waits for few others
                found = [reduce(node.op.join, found[i : i + 2]) for i in range(0, len(found), 2)]
            return found[0]
        return node.op(CONCATENATE(*(DIMSHUFFLE(x, order=(None,)) for x in found), axis=0), axis=0)


def _is_small(node: Node) -> bool:
    """Whether a node changes one place of a small array."""
    x, _, *indices = node.operands
    size = types.product(x.type.shape)
    fits = isinstance(size, int) and 0 < size * x.dtype.itemsize <= MOST_BYTES
    return fits and node.params["axis"] == 0 and not any(index.ndim for index in indices)


def _choice(node: Node, single: Collection[Node]) -> Node:
    """What a change of one place gives, as a choice. The place is read from a table of all places, which reports a
    place that lies outside."""
    x, _, *indices = node.operands
    shape = tuple(map(types.as_int, x.type.shape[: len(indices)]))
    with errors.located(node.where):
        table = constant(np.arange(math.prod(shape)).reshape(shape), _integer(x, math.prod(shape)))
        lanes = reordered(table, (*range(len(shape)), *[None] * (x.ndim - len(shape))))
        new = _new_value(node, single)
        return where(EQUAL(lanes, GATHER(table, *indices, axis=0)), ADD(x, new) if node.params["add"] else new, x)


def _integer(x: Node, places: int) -> str:
    """The dtype of so many places in an array: one as wide as its elements, if it has so many numbers."""
    return next(f"int{8 * n}" for n in (1, 2, 4, 8) if n >= x.dtype.itemsize and places <= 1 << (8 * n - 1))


def _new_value(node: Node, single: Collection[Node]) -> Node:
    """The value that a change puts at its place. If it is made of elements of arrays at the same place, as in
    `h[k].set(0.9 * h[k])`, it is made of these whole arrays."""
    x, v, *indices = node.operands
    order = walk([v])
    made: dict[Node, Node] = {}
    for part in order:
        if part.op is GATHER and part.params["axis"] == 0:
            array, *places = part.operands
            same = array.type.shape == x.type.shape and len(places) == len(indices)
            if same and array not in single and all(map(operator.is_, places, indices)):
                made[part] = array
    moving = dependents(order, made)
    others = [part for part in order if part in moving and part not in made]
    costs = [part.op.cost if isinstance(part.op, Elementwise) else math.inf for part in others]
    if sum(costs) * types.as_int(types.product(x.type.shape)) > MOST_WORK:
        return v
    for part in others:
        made[part] = rebuild(part, tuple([made.get(arg, arg) for arg in part.args]))
    return made.get(v, v)
