"""Fission, second part. If a step computes a value from its carries that no later step needs, the value leaves the
loop. It is computed for all steps at once, after the loop.

Sums leave too. A carry `acc' = acc + g` that nothing else reads ends as `init + sum over time of g`. If g is a product,
the sum is one product that sums over time too: `sum_t h_t^T dz_t`, the gradient of a weight.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from scanjit import errors
from scanjit.ir import PART, Node, dependents, users_among, walk
from scanjit.ops.elementwise import ADD
from scanjit.ops.promotion import Elementwise
from scanjit.ops.stretch import SUM
from scanjit.rewrite.accumulate import Term, accumulated
from scanjit.rewrite.alike import change_loops
from scanjit.rewrite.engine import Note
from scanjit.rewrite.loop import Finished, Later, OpenCarry, OpenScan, Y
from scanjit.rewrite.match import at_most, shows_all
from scanjit.rewrite.split import (
    OverTime,
    are_cheap,
    changes_size,
    fits_lanes,
    is_heavy,
    is_product,
    is_scalar,
    is_small,
    is_tiny,
    names,
    size,
    tied,
    up_closure,
)
from scanjit.types import Dimension
from scanjit.walks import top_down


def hoist_post(outputs: list[Node], notes: list[Note]) -> list[Node]:
    """After a loop, compute for all steps at once the values that no carry depends on. Sums over the steps leave too.
    Inner loops come first."""
    return change_loops(outputs, notes, lambda scan, notes: _Fission(scan, notes).parts())


class _Fission:
    """The fission of one loop."""

    def __init__(self, scan: Node, notes: list[Note]) -> None:
        self.scan, self.notes = scan, notes
        self.loop = loop = OpenScan.of(scan)
        self.ys = [r.node for r in loop.results if isinstance(r, Y)]
        self.terms: dict[int, list[Term]] = {}  # for each carry: the summands that leave the loop
        self.kept = {id(c): c.new for c in loop.carries}
        self.carried = loop.depends(c.inner for c in loop.carries)
        self.waits = is_scalar(loop) and not fits_lanes(loop)

    def parts(self) -> dict[int, Node] | None:
        """The results of the loop, or None if nothing leaves it."""
        loop = self.loop
        if loop.stop is None:  # rows after the last step must not be summed
            self._sums(certain=True)
        self.split = self._split()
        if loop.stop is None:
            self._sums(certain=False)
        if not self.terms and not self.split.leaving:
            return None
        with errors.located(self.scan.where):
            return self._split_results()

    def _split(self, extra: Sequence[Node] = (), kept: dict[int, Node] | None = None) -> _Post:
        kept = self.kept if kept is None else kept
        sums = [base for terms in self.terms.values() for term in terms for base in term.bases]
        core = [kept[id(c)] for c in self.loop.carries]
        return _Post(self.loop, self.ys, [*sums, *extra], core)

    # ---- sums over time ----------------------------------------------------------------------------------------------

    def _sums(self, certain: bool) -> None:
        """Take sums out of the loop. With `certain`, the sums that should always leave; without, those whose operands
        are stored anyway."""
        for carry in self.loop.carries:
            if carry.lag is not None:
                continue
            for term in accumulated(self.loop, carry, self.kept[id(carry)]):
                leaves = self._is_dear(carry, term) if certain else self._free(carry, term)
                if leaves and certain == term.certain:
                    self.terms.setdefault(id(carry), []).append(term)
                    self.kept[id(carry)] = term.without(self.kept[id(carry)])
                    if not certain:
                        self.split = self._split()

    def _is_dear(self, carry: OpenCarry, term: Term) -> bool:
        """Whether a sum takes less time outside. A few instructions on numbers take none in a loop whose steps wait for
        each other: outside, their operands would have to be stored and loaded."""
        if not self.waits or self.carried.isdisjoint(term.bases):
            return True
        needed = set(walk([*(self.kept[id(c)] for c in self.loop.carries if c is not carry), *self.loop.ends]))
        return not are_cheap([node for node in walk(term.bases) if node in self.carried and node not in needed])

    def _free(self, carry: OpenCarry, term: Term) -> bool:
        kept = {**self.kept, id(carry): term.without(self.kept[id(carry)])}
        after = self._split(term.bases, kept)
        return at_most(after.stored_size(), self.split.stored_size())

    # ---- taking it apart ---------------------------------------------------------------------------------------------

    def _split_results(self) -> dict[int, Node]:
        loop, split = self.loop, self.split
        targets = [y for y in dict.fromkeys(split.ys) if y in split.leaving or y in split.known]
        stored = list(split.stored())
        outer: dict[Node, Node] = {}
        over_time = OverTime(loop)

        def after(finished: Finished, node: Node) -> Node:
            if not outer:
                stacks = {s: finished.y(s) for s in stored}
                outer.update(zip(targets, over_time(targets, stacks), strict=True))
            return outer[node] if node in outer else finished.y(node)

        self._results(after)
        loop.results += map(Y, stored)
        self._note(targets)
        return loop.finish().parts()

    def _results(self, after: Callable[[Finished, Node], Node]) -> None:
        loop = self.loop
        for i, result in enumerate(loop.results):
            if isinstance(result, Y):
                loop.results[i] = partial(_taken, after, result.node)
            elif isinstance(result, OpenCarry) and id(result) in self.terms:
                loop.results[i] = self._total(result, self.terms[id(result)], after)
        gone = [c for c in loop.carries if id(c) in self.terms and self.kept[id(c)] is c.inner]
        for carry in loop.carries:
            carry.new = self.kept[id(carry)]
        loop.carries = [c for c in loop.carries if not any(c is g for g in gone)]

    def _total(self, carry: OpenCarry, terms: list[Term], after: Callable[[Finished, Node], Node]) -> Later:
        def total(finished: Finished) -> Node:
            inside = any(c is carry for c in finished.loop.carries)
            value = finished.carry(carry) if inside else carry.init
            for term in terms:
                value = ADD(value, term.total(lambda base: SUM(after(finished, base), axes=(0,))))
            return value

        return total

    def _note(self, targets: Sequence[Node]) -> None:
        sums = sum(len(terms) for terms in self.terms.values())
        if sums:
            text = f"{sums} sums over the steps leave the loop"
            self.notes.append(Note("hoist_post", self.scan.where, text))
        if self.split.leaving:
            text = f"feeds no carry, and is done over all of time after the loop: {names(self.split.leaving)}"
            self.notes.append(Note("hoist_post", self.scan.where, text))


def _taken(after: Callable[[Finished, Node], Node], node: Node, finished: Finished) -> Node:
    return after(finished, node)


class _Post:
    """Decides which nodes leave. Its inputs are the ys, the values that are summed over time, and the nodes that the
    next step needs (`core`)."""

    def __init__(self, loop: OpenScan, ys: Sequence[Node], sums: Sequence[Node], core: Sequence[Node]) -> None:
        self.loop, self.ys = loop, [*ys, *sums]
        ys, summed = self.ys, set(sums)
        self.order = order = walk([*ys, *core, *loop.ends])
        varying = dependents(order, [*(c.inner for c in loop.carries), *loop.xs.values()])
        inside = [node for node in order if changes_size(node, varying, loop.length)]
        self.carried = dependents(order, [*(c.inner for c in loop.carries), *inside])  # and what is known there only
        needed = set(walk([*core, *loop.ends, *tied(order, varying, loop.length)]))
        self.post = [n for n in order if n in self.carried and n not in needed and n.args]
        self.users = users_among(order)
        inputs = {*(c.inner for c in loop.carries), *loop.xs.values(), *loop.consts.values()}
        self.known = {y for y in summed if y not in self.carried}  # values of sequences and constants alone
        self.inputs = inputs
        # small values are stored and summed; they need not be computed outside
        summed = {n for n in summed if not is_small(n)}
        first = [n for n in self.post if is_product(n, varying) or (n in summed and not is_tiny(n))]
        self.leaving = up_closure(first, self.users)
        tiny = [n for n in self.post if is_tiny(n)]
        before, at = self.leaving, self._stored_bytes()
        self._without_bulk(tiny)
        if are_cheap(tiny) and at_most(at, self._stored_bytes()):
            self.leaving = before
        self._grow()

    def _without_bulk(self, tiny: Sequence[Node]) -> None:
        """Let tiny nodes leave, with all their users, unless the loop then stores more large values. In `h[k + 1]` the
        sum stays: if it left, the gather would leave too, and a gather outside reads the whole `h` of each step."""
        before, at = self.leaving, self._bulk()
        self.leaving = before | up_closure(tiny, self.users)
        if at_most(self._bulk(), at):
            return
        self.leaving = before
        for node in reversed(tiny):
            before = self.leaving
            self.leaving = before | up_closure([node], self.users)
            if not at_most(self._bulk(), at):
                self.leaving = before

    def _bulk(self) -> Dimension:
        """How many elements of values that are not tiny are stored in each step."""
        return size(n for n in self.stored() if not is_small(n))

    def _grow(self) -> None:
        """Let more nodes leave: heavy ops and all nodes that use them, if the loop then stores no more; light ops, if
        it stores less."""
        at = self.stored_size()
        for node in reversed(self.post):
            if is_heavy(node) and node not in self.leaving and node.op is not PART:  # a part leaves with its node
                at = self._try(self.leaving | up_closure([node], self.users), at, equal=True)
        self._try(self.leaving, at, equal=False)

    def _try(self, leaving: set[Node], at: Dimension, equal: bool) -> Dimension:
        """Let `leaving` leave, and the light ops before them that do not make the loop store more. Undo it all if the
        loop then stores more than before."""
        before, self.leaving = self.leaving, leaving
        size = self.stored_size()
        for node in reversed(self.post):
            if node not in self.leaving and self._is_next(node):
                self.leaving = self.leaving | {node}
                more = self.stored_size()
                if at_most(more, size):
                    size = more
                else:
                    self.leaving = self.leaving - {node}
        if at_most(size, at) and (equal or size != at):
            return size
        self.leaving = before
        return at

    def _is_next(self, node: Node) -> bool:
        """Whether a node is light, and everything that uses it leaves."""
        users = self.users.get(node, ())
        light = isinstance(node.op, Elementwise) or shows_all(node)
        return light and bool(users) and all(user in self.leaving for user in users)

    def stored(self) -> dict[Node, None]:
        """The values that the loop must store in each step: ys that stay, and operands of nodes that leave."""
        found: dict[Node, None] = {}
        for y in self.ys:
            if y not in self.leaving and y not in self.known:
                found[y] = None
        read = [arg for node in self.order if node in self.leaving for arg in node.args]  # a set has no order
        stays = lambda node: node in self.carried and node not in self.leaving
        shows = lambda node: shows_all(node) and node not in self.inputs
        for node in top_down(read, lambda node: node.args if stays(node) and shows(node) else ()):
            if stays(node) and not shows(node):
                if node.several:
                    raise errors.InternalError("a result of several parts cannot be stored", got=node)
                found[node] = None
        return found

    def stored_size(self) -> Dimension:
        """How many elements are stored in each step."""
        return size(self.stored())

    def _stored_bytes(self) -> Dimension:
        total: Dimension = 0
        for node in self.stored():
            total = size([node]) * node.dtype.itemsize + total
        return total
