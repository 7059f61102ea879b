"""The forward loop stores expensive values, so that the loop of the gradient need not compute them again.

A derivative consists of two loops. F, the forward loop, returns the carries before each step. R, the reverse loop,
reads these carries, and F's sequences and constants. From these it computes F's values again. This pass makes F stack
the expensive ones of these values too, such as `exp(x_t @ w)`, and R read them. Any loop that reads rows of another
loop is an R.
"""

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import field

import numpy as np

from scanjit import errors, types
from scanjit.ir import ORIGINS, PART, Node, rebuilt, replace, users_among, walk, with_body, with_params
from scanjit.ops.elementwise import DIV
from scanjit.ops.extremes import compared_with_extreme
from scanjit.ops.index import GATHER
from scanjit.ops.promotion import CAST, KEEP, Elementwise, cast, keep
from scanjit.ops.roles import Roles
from scanjit.ops.scan import SCAN
from scanjit.ops.shape import SLICE, window
from scanjit.ops.view import View
from scanjit.records import record
from scanjit.rewrite.engine import Note, in_bodies, map_scans
from scanjit.rewrite.loop import OpenScan
from scanjit.rewrite.match import at_most, is_whole, window_of
from scanjit.rewrite.split import is_small, saves_memory, size
from scanjit.types import Dimension
from scanjit.walks import top_down

COSTLY = 8
"""An elementwise op of at least this cost is stored rather than computed again."""
_FEW = 8 * COSTLY
LONG = 64
"""A guess at the length of an axis whose length is not known."""

Rows = tuple[Dimension, int]
"""The rows of a stack that a sequence consists of: the first row, and the step."""


@record(frozen=False)
class _Plan:
    """The values that a loop R reads from a loop F: nodes of R's body, each with the same value in F's body,
    maybe in 16 bits."""

    source: Node
    rows: Rows
    values: dict[Node, Node]


@record(frozen=False)
class _Plans:
    keep: dict[Node, list[Node]] = field(default_factory=dict)
    take: dict[Node, list[_Plan]] = field(default_factory=dict)


def save(outputs: list[Node], notes: list[Note]) -> list[Node]:
    """Stack expensive values in a forward loop, so that the loop of its gradient need not compute them again. Inner
    loops come first: the outer loop can then stack what an inner one stacks."""
    outputs = in_bodies(outputs, lambda inner: save(inner, notes))
    return _planned(outputs, lambda scan: _plans(scan, notes))


def _planned(outputs: list[Node], plans_of: Callable[[Node], list[_Plan]]) -> list[Node]:
    """Carry out the plans of all scans."""
    plans = _Plans()
    for node in walk(outputs):
        if node.op is SCAN:
            for plan in plans_of(node):
                plans.take.setdefault(node, []).append(plan)
                plans.keep.setdefault(plan.source, []).extend(plan.values.values())
    if not plans.take:
        return outputs
    kept: dict[Node, dict[Node, Node]] = {}
    return map_scans(outputs, lambda old, scan: _carried_out(old, scan, plans, kept))


# ---- which values ----------------------------------------------------------------------------------------------------


def _plans(scan: Node, notes: list[Note]) -> list[_Plan]:
    """The plans of one scan: the values that it should take from each scan whose stacks it reads."""
    found = []
    for source, rows in _sources(scan):
        given, stored = (
            _correspondence(scan, source, rows),
            source.params["stored"] if scan.params["gradient"] else None,
        )
        values = _Choice(scan, source, given).values()
        if values:
            found.append(_Plan(source, rows, {node: keep(value, stored) for node, value in values.items()}))
            names = ", ".join(sorted({node.op.name for node in values}))
            how = f", float32 as {stored}" if stored else ""
            text = f"the forward loop stores {len(values)} values for the gradient{how}: {names}"
            notes.append(Note("save", scan.where, text))
    return found


def _sources(scan: Node) -> dict[tuple[Node, Rows], None]:
    """The scans whose stacks a scan reads, and which rows of them."""
    sources: dict[tuple[Node, Rows], None] = {}
    for operand in Roles.of(scan).split(scan.operands)[1]:
        base, rows = _stacked(operand)
        if base.op is PART and base.args[0].op is SCAN and _is_stack(base):
            sources[base.args[0], rows] = None
    return sources


def _stacked(operand: Node) -> tuple[Node, Rows]:
    """A sequence as some rows of another one: the other sequence, and which rows."""
    if operand.op is SLICE and is_whole(window_of(operand)[1:], operand.operands[0].type.shape[1:]):
        start, _, step = window_of(operand)[0]
        return operand.operands[0], (start, step)
    return operand, (0, 1)


def _cut(x: Node, rows: Rows, length: Dimension) -> Node:
    """Some rows of a sequence, as `Rows` says."""
    start, step = rows
    base, (first, by) = _stacked(x)  # the normal form: a slice of a slice is one slice
    return window(base, 0, first + by * start, length, by * step)


def _correspondence(scan: Node, source: Node, rows: Rows) -> dict[Node, Node]:
    """Maps inputs of R's body to nodes of F's body."""
    mine, theirs = Roles.of(scan), Roles.of(source)
    _, xs, consts = mine.split(scan.operands)
    _, rows_in, fixed_in = mine.split(scan.params["body"].inputs)
    _, their_xs, their_consts = theirs.split(source.operands)
    _, their_rows, their_fixed = theirs.split(source.params["body"].inputs)
    length = scan.params["length"]
    known = {_cut(x, rows, length): inner for x, inner in zip(their_xs, their_rows, strict=True)}
    fixed = dict(zip(their_consts, their_fixed, strict=True))
    found: dict[Node, Node] = {}
    for operand, inner in zip(xs, rows_in, strict=True):
        base, at = _stacked(operand)
        if base.op is PART and base.args[0] is source and at == rows:
            if _is_stack(base):
                found[inner] = source.params["body"].outputs[base.params["index"]]
        elif operand in known:
            found[inner] = known[operand]
    found |= {inner: fixed[operand] for operand, inner in zip(consts, fixed_in, strict=True) if operand in fixed}
    return found


def _is_stack(part: Node) -> bool:
    """Whether a part of a scan is one of its ys."""
    return part.params["index"] in Roles.of(part.args[0]).stacks


def _computes_again(loop: Node) -> bool:
    """Whether the gradient of a loop computes all of a step again: one with `until`, around a loop with checkpoints."""
    return loop.params["until"] and any(map(saves_memory, walk(loop.params["body"].outputs)))


class _Choice:
    """The values of R's body that F should keep."""

    def __init__(self, scan: Node, source: Node, given: dict[Node, Node]) -> None:
        self.nothing = _computes_again(source)
        body = scan.params["body"]
        self.order = walk(body.outputs)
        self.rows = set(Roles.of(scan).split(body.inputs)[1])
        widened = {node: value for node in self.order if (value := _widened(node, given)) is not None}
        self.given = given = given | widened
        self.rows |= widened.keys()
        self.ys = set(Roles.of(source).split_results(source.params["body"].outputs)[1])
        self.fixed = set(Roles.of(source).split(source.params["body"].inputs)[2])
        self.outputs = set(body.outputs)
        self.again: set[Node] = set()  # nodes that can be computed from F's inputs
        self.known: set[Node] = set()  # those of them that use no input of R
        for node in self.order:
            if node in given or (node.op not in ORIGINS and all(arg in self.again for arg in node.args)):
                self.again.add(node)
                if node not in given and all(arg in self.known for arg in node.args):
                    self.known.add(node)
        self.parts = self._parts_of_states(set(Roles.of(source).split(source.params["body"].inputs)[0]))
        images = [node for node in self.order if node in self.again]
        self.image = dict(zip(images, replace(images, given), strict=True))

    def values(self) -> dict[Node, Node]:
        """Maps the chosen nodes of R's body to nodes of F's body."""
        if self.nothing:
            return {}
        return {node: self.image[node] for node in self._moved(self._without_light(self._asked()))}

    def _parts_of_states(self, states: Collection[Node]) -> set[Node]:
        """The entries that R reads of states of which it reads nothing but a few entries. F then need not store these
        states: a buffer of thousands of entries, of which each step changes one."""
        users = users_among(self.order)
        found: set[Node] = set()
        for row in self.rows:
            if self.given.get(row) in states:
                found.update(self._few_entries(row, users))
        return found

    def _few_entries(self, row: Node, users: dict[Node, list[Node]]) -> list[Node]:
        """All reads of a row, if they are entries, and few."""
        reads: dict[Node, None] = {}
        left = [row]
        while left:
            at = left.pop()
            for user in users.get(at, []):
                if isinstance(user.op, View):
                    left.append(user)
                elif user.op is GATHER and user in self.again and not any(arg is at for arg in user.args[1:]):
                    reads[user] = None
                else:
                    return []
            if at in self.outputs:
                return []
        return list(reads) if _are_few(list(reads), row) else []

    def _demand(self) -> list[Node]:
        """The values that R could compute from F's and that the rest of R's body uses."""
        rest = [node for node in self.order if node not in self.again]
        used = [arg for node in rest for arg in node.args] + [node for node in self.order if node in self.outputs]
        return list(dict.fromkeys(node for node in used if node in self.again))

    def _asked(self) -> dict[Node, None]:
        """The expensive values that R needs: the first ones met on the way back from the values that the rest of R
        uses."""
        chosen: dict[Node, None] = {}
        self.cheap: set[Node] = set()
        for node in top_down(self._demand(), lambda node: node.args if node in self.cheap else ()):
            if node in self.given or node in self.known:
                continue
            if self._wanted(node):
                chosen[node] = None
            else:
                self.cheap.add(node)
        return chosen

    def _without_light(self, chosen: dict[Node, None]) -> dict[Node, None]:
        """Leave out functions of values that are stored anyway, such as the tanh of a cell's state, and quotients of
        such values. To compute one again costs about as much time as to store and read it, and no memory. Quotients of
        numbers stay: a loop over numbers waits for its chain, not for memory."""
        for node in list(chosen):
            others = {**dict.fromkeys(chosen), **self.given}
            others.pop(node)
            if self.image[node] in self.ys or not isinstance(node.op, Elementwise):
                continue
            if len(node.operands) != 1 and (node.op is not DIV or is_small(node)):
                continue
            cone = [at for at in walk([node], others) if at not in others and at not in self.known]
            light = all(isinstance(at.op, Elementwise | View) for at in cone)
            if light and sum(at.op.cost for at in cone if isinstance(at.op, Elementwise)) <= node.op.cost + COSTLY:
                del chosen[node]
                self.cheap.update(cone)
        return chosen

    def _wanted(self, node: Node) -> bool:
        if node.several or not self._stacks(node):
            return False
        if node.op is SLICE:  # part of an expensive value whose rest may not be needed
            base = node.operands[0]
            return base not in self.given and is_costly(base) and self.image[base] not in self.ys
        if isinstance(node.op, View):
            return False
        if node in self.parts:
            return True
        if self.image[node] in self.ys or compared_with_extreme(self.image[node]) is not None:
            return True
        return is_costly(node) and not self._grows(node)

    def _stacks(self, node: Node) -> bool:
        """Whether F can stack a value: it has the same size in all steps."""
        atoms = {atom for dim in self.image[node].type.shape for atom in types.atoms(dim)}
        return all(atom.kind != "value" or atom.node in self.fixed for atom in atoms)

    def _grows(self, node: Node) -> bool:
        """Whether a few elementwise ops make the value from rows that are smaller than the value. It is then faster to
        compute it again than to store and read it."""
        cost, rows = 0, set()
        for at in walk([node], self.given):
            if at in self.given:
                rows.update([at] if at in self.rows else [])
            elif isinstance(at.op, Elementwise):
                cost += at.op.cost
            elif not isinstance(at.op, View) and at not in self.known:
                return False
        return cost <= _FEW and not at_most(size([node]), size(rows))

    def _moved(self, chosen: dict[Node, None]) -> dict[Node, None]:
        """Store `x + y` instead of `x` and `y` (two products, say), if nothing else needs these and the sum is no
        larger. The result of an expensive function such as `exp` is stored itself: its derivative is computed from it.
        """
        while True:
            users = users_among(node for node in self.order if node in self.cheap or node not in self.again)
            better = next(
                (
                    uses[0]
                    for node in chosen
                    if self.image[node] not in self.ys and not _is_function(node)
                    if (uses := users.get(node, [])) and all(u is uses[0] for u in uses) and node not in self.outputs
                    if uses[0] in self.cheap and isinstance(uses[0].op, Elementwise)
                    if uses[0].type.shape == node.type.shape and uses[0].type.kind.floating
                ),
                None,
            )
            if better is None:
                return chosen
            self.cheap.discard(better)
            chosen[better] = None
            self._forget(better, chosen, users)

    def _forget(self, better: Node, chosen: dict[Node, None], users: dict[Node, list[Node]]) -> None:
        """Drop values that only `better` needs, since `better` itself is stored now."""
        stack = list(better.args)
        gone = {better}
        while stack:
            node = stack.pop()
            if node in self.outputs or not all(user in gone for user in users.get(node, [])):
                continue
            if node in chosen:
                del chosen[node]
                gone.add(node)
            elif node in self.cheap:
                self.cheap.discard(node)
                gone.add(node)
                stack.extend(node.args)


def _are_few(reads: Sequence[Node], row: Node) -> bool:
    """Whether some reads have at most half of the elements of a row."""
    return 0 < 2 * sum(map(_elements, reads)) <= _elements(row)


def _elements(node: Node) -> int:
    """About how many elements a node has: `LONG` along an axis of unknown length."""
    return math.prod(dim if isinstance(dim, int) else LONG for dim in node.type.shape)


def _widened(node: Node, given: dict[Node, Node]) -> Node | None:
    """The value of F that equals a node of R's body, rounded to the 16 bits in which F keeps it for R."""
    image = given.get(node.operands[0]) if node.op is CAST and node.dtype == np.float32 else None
    return image.operands[0] if image is not None and image.op is KEEP else None


def _is_function(node: Node) -> bool:
    return isinstance(node.op, Elementwise) and node.op.cost >= COSTLY


def is_costly(node: Node) -> bool:
    """Whether a value is stored rather than computed again."""
    if isinstance(node.op, Elementwise):
        return _is_function(node)
    if node.op is PART:
        return node.args[0].op is SCAN
    return not node.op.moves_data and node.op is not GATHER  # what it reads lies in memory


# ---- 16 bits ---------------------------------------------------------------------------------------------------------


def with_stored(outputs: Sequence[Node], stored: str, given: Sequence[Node] = ()) -> list[Node]:
    """The outputs, with loops that keep float32 in 16 bits for their gradients, present and later ones. Nodes that
    `given` nodes are computed from stay as they are."""
    known = set(walk(given))

    def marked(old: Node, new: Node) -> Node | None:
        body = new.params.get("body")
        if old in known or body is None:
            return old if old in known else None
        new = with_body(new, body.with_outputs(with_stored(body.outputs, stored)))
        return with_params(new, stored=stored) if new.op is SCAN and not new.params["gradient"] else new

    return _planned(rebuilt(outputs, marked), lambda scan: [] if scan in known else _plans_of_carries(scan, known))


def _plans_of_carries(scan: Node, known: Collection[Node]) -> list[_Plan]:
    """The carries that the loop of a gradient reads of its forward loop, before each step. For each of them, a row in
    16 bits takes the place of the row in float32."""
    found = []
    roles, inputs = Roles.of(scan), scan.params["body"].inputs
    for source, rows in _sources(scan) if scan.params["gradient"] else ():
        before = set(Roles.of(source).split(source.params["body"].inputs)[0])
        given = _correspondence(scan, source, rows)
        values = {row: keep(given[row], source.params["stored"]) for row in roles.split(inputs)[1] if row in given}
        values = {row: kept for row, kept in values.items() if given[row] in before and kept is not given[row]}
        if values and source not in known and not source.params["gradient"]:
            found.append(_Plan(source, rows, values))
    return found


# ---- doing it --------------------------------------------------------------------------------------------------------


def _carried_out(old: Node, scan: Node, plans: _Plans, kept: dict[Node, dict[Node, Node]]) -> dict[int, Node] | None:
    keep, take = list(dict.fromkeys(plans.keep.get(old, []))), plans.take.get(old, [])
    if not keep and not take:
        return None
    loop = OpenScan.of(scan)
    with errors.located(scan.where):
        ys = {value: loop.add_y(node) for value, node in zip(keep, replace(keep, loop.same), strict=True)}
        for plan in take:
            stacks = kept[plan.source]
            nodes = replace(list(plan.values), loop.same)
            rows = [_cut(stacks[value], plan.rows, scan.params["length"]) for value in plan.values.values()]
            loop.substitute({node: cast(loop.x(row), node.dtype) for node, row in zip(nodes, rows, strict=True)})
        finished = loop.finish()
        kept[old] = {value: finished.y(y.node) for value, y in ys.items()}
        return finished.parts()
