"""Leaves out parts of products that a mask makes needless. A batch of sequences of different lengths then costs about
as much as all of their steps together, without the padding.

A recurrent step with a mask is `where(mask, new, old)`. Where the mask is false, nobody needs the products in `new`,
and in the gradient their operands are zero. For each product, the pass looks for a mask of rows that nobody reads, or
of terms that are zero. Such a product becomes a `contract_where`, of which the generated code leaves out what it can.

Finite results stay the same to the last bit. A zero times NaN or an infinity, which padding may hold, counts as zero:
the gradient of the original graph would be NaN, while that of the generated code need not be.

Facts about zeros go forwards through the graph, facts about unwanted values backwards. Both enter and leave loops: if a
step reads a row of a mask, that row is a mask in the step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scanjit import errors, ir, types
from scanjit.ir import PART, Node, apply, rebuild, walk
from scanjit.ops.contraction import CONTRACT, CONTRACT_WHERE
from scanjit.ops.elementwise import INVERT, WHERE
from scanjit.ops.promotion import CAST
from scanjit.ops.scan import SCAN
from scanjit.records import replace as changed
from scanjit.rewrite.engine import Note
from scanjit.rewrite.loop import OpenScan, Y
from scanjit.rewrite.masks import NOWHERE, Facts, Mask, either, mask_of, unwanted, zeros
from scanjit.rewrite.split import OverTime

LEAST_TERMS = 8
"""Sums of fewer terms than this are not worth a test."""


def guards(outputs: list[Node], notes: list[Note]) -> list[Node]:
    """Skip the parts of products that a mask makes zero: a product becomes `contract_where`. This is the last pass,
    since no rule knows that op."""
    if not _has_masks(outputs):
        return outputs
    met = _Met()
    done = _Asked(_Level(outputs, {}, met), dict.fromkeys(outputs, NOWHERE), met).rewritten(notes)
    return [done[output] for output in outputs]


def _has_masks(outputs: Sequence[Node]) -> bool:
    return any(
        node.op is WHERE or (node.op is CAST and node.operands[0].type.kind.is_mask) for node in ir.walk_inside(outputs)
    )


class _Met:
    """The bodies of the loops that were met so far. Equal ones are looked at once, if their inputs are zero at the same
    places, and again if other results of them are wanted."""

    def __init__(self) -> None:
        self._levels: dict[object, _Level] = {}
        self._asked: dict[object, _Asked] = {}

    def level(self, outputs: Sequence[Node], zero: Mapping[Node, Facts]) -> _Level:
        """The level of a body. One with loops in it belongs to one loop: what it makes of these is put into them."""
        key = tuple(outputs), _key(zero)
        found = self._levels.get(key) or _Level(outputs, zero, self)
        if not found.loops:
            self._levels[key] = found
        return found

    def asked(self, level: _Level, wanted: Mapping[Node, Facts]) -> _Asked:
        """A level of which these results are wanted."""
        key = level, _key(wanted)
        if key not in self._asked:
            self._asked[key] = _Asked(level, wanted, self)
        return self._asked[key]


def _key(facts: Mapping[Node, Facts]) -> object:
    """A key that is equal for equal facts about the same nodes."""
    return tuple([(node, None if some is None else tuple(some.items())) for node, some in facts.items()])


class _Level:
    """A graph, the whole one or the body of a loop: where its nodes are zero, and a `_Body` for each of its loops.
    `zero` says where its inputs are zero."""

    def __init__(self, outputs: Sequence[Node], zero: Mapping[Node, Facts], met: _Met) -> None:
        self.order, self.zero = walk(outputs), dict(zero)
        self.loops: dict[Node, _Body] = {}
        for node in self.order:
            if node.op is SCAN:
                self.loops[node] = _Body(node, self, met)
            elif node.op is PART:
                made = self.loops.get(node.args[0])
                self.zero[node] = NOWHERE if made is None else made.zero_part(node.params["index"])
            elif node not in self.zero:
                self.zero[node] = NOWHERE if node.several else zeros(node, self.known)

    def known(self, node: Node) -> Facts:
        """Where a node is zero."""
        return self.zero[node]


class _Asked:
    """A level, and where its nodes are not wanted, given where its outputs are not."""

    def __init__(self, level: _Level, wanted: Mapping[Node, Facts], met: _Met) -> None:
        self.level = level
        self.idle: dict[Node, Facts] = {}
        """Where nodes are not wanted, by the users that were met so far. A node without such a user has no entry."""
        self.wants: dict[Node, Node] = {}
        """For each node that is wanted everywhere: a user that wants all of it."""
        self._done: dict[object, dict[Node, Node]] = {}
        for node, facts in wanted.items():
            self.use(node, facts, node)
        for node in reversed(level.order):
            facts = self.idle.get(node)
            if node.op is SCAN:
                level.loops[node].ask(self, met)
            elif node.op is not PART:
                for i, x in enumerate(node.operands):
                    self.use(x, unwanted(node, i, facts, level.known), node)
            for x in node.args[node.arity :]:
                self.use(x, NOWHERE, node)

    def use(self, node: Node, facts: Facts, user: Node) -> None:
        """Note one more user of a node, and where that user does not want it."""
        self.idle[node] = either(self.idle.get(node), facts)
        if facts is not None and not facts:
            self.wants.setdefault(node, user)

    def guard(self, node: Node) -> tuple[Mask, tuple[int, ...]] | None:
        """A mask for a product, and the labels of the mask's axes. Prefers masks that leave out rows of the result."""
        (a, b), (left, right, out) = node.operands, (node.params[name] for name in ("left", "right", "out"))
        sizes = [dim for dim, label in zip(a.type.shape, left, strict=True) if label not in out]
        summed = types.product(sizes)
        if not sizes or (isinstance(summed, int) and summed < LEAST_TERMS):
            return None
        zero = self.level.zero
        known = (self.idle.get(node), out), (zero[a], left), (zero[b], right)
        found = {(mask, tuple(labels[a] for a in mask.axes)) for facts, labels in known for mask in facts or ()}
        if not found:
            return None
        return max(found, key=lambda g: (set(g[1]) <= set(out), len(g[1]), -g[0].node.serial, g[0].holds, g[1]))

    def guarded(self, notes: list[Note], within: _Body | None) -> dict[Node, tuple[Node, tuple[int, ...]]]:
        """The products of this level that get a guard: the bool node, and the labels."""
        found = {}
        for node in self.level.order:
            chosen = self.guard(node) if node.op is CONTRACT and not node.type.kind.is_mask else None
            if chosen is not None:
                mask, labels = chosen
                found[node] = (_bare(mask) if within is None else within.inside(mask)), labels
                notes.append(Note("guards", node.where, _words(node, labels)))
            elif node.op is CONTRACT and node in self.wants and within is not None and within.masks:
                user = self.wants[node]
                text = f"a product {node.type} is computed in full: all of it is wanted by {user.op.name}"
                notes.append(Note("guards", user.where or node.where, text))
        return found

    def rewritten(self, notes: list[Note], within: _Body | None = None) -> dict[Node, Node]:
        """Maps each node to its replacement."""
        guarded = self.guarded(notes, within)
        key = tuple(guarded.items())
        if key not in self._done:
            self._done[key] = self._with_guards(guarded, notes)
        return self._done[key]

    def _with_guards(self, guarded: Mapping[Node, tuple[Node, tuple[int, ...]]], notes: list[Note]) -> dict[Node, Node]:
        done: dict[Node, Node] = {}
        new: set[Node] = set()
        """The nodes that are not as they were."""
        parts: dict[Node, dict[int, Node]] = {}
        for node in self.level.order:
            if node.op is SCAN:
                made = self.level.loops[node].rewritten(notes)
                if made is not None:
                    parts[node] = dict(zip(made, _among(list(made.values()), done), strict=True))
                    new.add(node)
                    continue
            if node not in guarded and new.isdisjoint(node.args):
                done[node] = node
                continue
            new.add(node)
            if node.op is PART and node.args[0] in parts:
                done[node] = parts[node.args[0]][node.params["index"]]
                continue
            args = tuple(done[arg] for arg in node.args)
            if node in guarded:
                mask, labels = guarded[node]
                (mask,) = _among([mask], done)
                with errors.located(node.where):
                    done[node] = CONTRACT_WHERE(*args[:2], mask, **node.params, where=labels)
            else:
                done[node] = rebuild(node, args)
        return done


def _among(nodes: Sequence[Node], done: dict[Node, Node]) -> list[Node]:
    """Nodes over those that were replaced as nodes over the replacements."""
    met = [node for node in walk(nodes, done) if node in done]
    return ir.replace(nodes, {node: done[node] for node in met})


def _bare(mask: Mask) -> Node:
    """The bool node that is true where a mask counts as true."""
    return mask.node if mask.holds else apply(INVERT, mask.node)


def _words(node: Node, labels: Sequence[int]) -> str:
    """What a guard does, for a note."""
    kind = "rows" if set(labels) <= set(node.params["out"]) else "terms"
    return f"a product {node.type} leaves out {kind} where a mask is false"


class _Body:
    """The step of a loop, between facts outside and facts inside."""

    def __init__(self, scan: Node, outer: _Level, met: _Met) -> None:
        self.loop = loop = OpenScan.of(scan)
        self.scan, self.over_time = scan, OverTime(loop)
        self.carried = loop.depends(c.inner for c in loop.carries)
        self.masks: dict[Node, tuple[Node, tuple[int, ...]]] = {}
        """For each mask outside: the mask inside, and for each axis of the mask outside the axis of the value in a step
        (-1: time)."""
        for node in walk([*loop.outputs, *loop.xs.values()]):
            if not node.several and node.type.kind.is_mask:
                self._meet(mask_of(node))
        zero = {inner: self._entering(outer.zero[x]) for x, inner in loop.xs.items()}
        zero |= dict.fromkeys((*loop.consts.values(), *(c.inner for c in loop.carries)), NOWHERE)
        zero |= {node: {own: False} for node in zero if node.type.kind.is_mask and (own := mask_of(node)) is not None}
        self.level = met.level(loop.outputs, zero)

    def _meet(self, mask: Mask | None) -> None:
        outside = None if mask is None else self._lifted(Mask(mask.node, tuple(range(len(mask.axes)))))
        if mask is not None and outside is not None:
            self.masks.setdefault(outside.node, (mask.node, tuple(a - 1 for a in outside.axes)))

    def _is_carried(self, node: Node) -> bool:
        """Whether a bool node of the step, or a view of one, depends on a carry."""
        return not self.carried.isdisjoint(walk([node], self.carried))

    def _lifted(self, mask: Mask) -> Mask | None:
        """A mask of a value in a step as a mask of the values of all steps, with time as the first axis."""
        if self._is_carried(mask.node):
            return None
        try:
            (whole,) = self.over_time([mask.node], {})
        except errors.NotSupportedError:  # each step has a mask of its own size
            return None
        found = mask_of(whole)
        if found is None:
            return None
        return changed(found, axes=tuple(0 if a == 0 else mask.axes[a - 1] + 1 for a in found.axes), holds=mask.holds)

    def _leaving(self, facts: Facts) -> Facts:
        """Facts about a value in a step as facts about the values of all steps."""
        if facts is None:
            return None
        lifted = {mask: self._lifted(mask) for mask in facts}
        return {new: facts[mask] for mask, new in lifted.items() if new is not None}

    def _entering(self, facts: Facts) -> Facts:
        """Facts about the values of all steps as facts about the value in a step. Keeps masks that the step computes or
        reads."""
        if facts is None:
            return None
        found = {}
        for mask, finite in facts.items():
            inner, axes = self.masks.get(mask.node, (None, ()))
            pairs = dict(zip(axes, mask.axes, strict=True)) if inner is not None else {}
            if inner is not None and pairs.pop(-1, 0) == 0 and 0 not in pairs.values():
                found[Mask(inner, tuple(pairs[a] - 1 for a in sorted(pairs)), mask.holds)] = finite
        return found

    def zero_part(self, index: int) -> Facts:
        """Where a result of the loop is zero. If the loop may stop early, the rows of steps that did not run are
        undefined."""
        result = self.loop.results[index] if index < self.loop.own else None
        if self.loop.stop is not None or not isinstance(result, Y):
            return NOWHERE
        return self._leaving(self.level.zero[result.node])

    def ask(self, outer: _Asked, met: _Met) -> None:
        """Find out where nodes of the step are not wanted, and from these where those of the graph around are not."""
        loop = self.loop
        wanted: dict[Node, Facts] = dict.fromkeys(loop.outputs, NOWHERE)
        fed = {*(c.new for c in loop.carries), *loop.ends}
        for y in loop.ys:
            wanted[y] = NOWHERE if y in fed else None
        for i, result in enumerate(loop.results[: loop.own]):
            part = PART(self.scan, index=i)
            if isinstance(result, Y) and part in outer.idle and result.node not in fed:
                wanted[result.node] = either(wanted[result.node], self._entering(outer.idle[part]))
        self.asked = met.asked(self.level, wanted)
        fixed = {*loop.consts, *(c.init for c in loop.carries)}
        for x in self.scan.operands:
            inner = loop.xs.get(x)
            facts = NOWHERE if inner is None else self._leaving(self.asked.idle.get(inner))
            if x in fixed:
                facts = NOWHERE
            outer.use(x, facts, self.scan)

    def inside(self, mask: Mask) -> Node:
        """The bool node of a mask. One that a step computes from rows alone is a row of what is computed before the
        loop."""
        loop, bare = self.loop, _bare(mask)
        if self._is_carried(mask.node) or bare in {*loop.xs.values(), *loop.consts.values()}:
            return bare
        lifted = self._lifted(Mask(bare, tuple(range(bare.ndim))))
        if lifted is None or lifted.axes != tuple(range(bare.ndim + 1)):
            return bare
        return loop.x(lifted.node)

    def rewritten(self, notes: list[Note]) -> dict[int, Node] | None:
        """The results of the loop, if something in it has changed."""
        done = self.asked.rewritten(notes, self)
        new = [done[node] for node in self.loop.outputs]
        if all(a is b for a, b in zip(new, self.loop.outputs, strict=True)):
            return None
        self.loop.set_outputs(new)
        return self.loop.finish().parts()
