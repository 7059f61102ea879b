"""Loops inside a step (or a branch) whose number of steps is computed there: `while_loop`, and its gradient.

Memory and the bounds of loops are planned before anything runs, from sizes that are known then. If a step computes the
number of steps of an inner loop, that number becomes a condition to end: the inner loop counts its steps, and has an
upper bound that is known before. It reads the row of a sequence at its counter. Its stacks have as many rows as the
upper bound. Sums over its steps become carries. A loop always runs its first step, so it is put into a branch that is
taken if there is a step. If that is all that is computed, as for a `while_loop`, the loop counts nothing.

A loop with stacks stays as it is if no upper bound is known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from scanjit import errors, ir, types
from scanjit.ir import BOUND, CONSTANT, PART, SIZE, Graph, Node, apply, rebuilt, replace, walk
from scanjit.ops.branch import IFELSE, captured
from scanjit.ops.elementwise import MAXIMUM, MINIMUM, WHERE
from scanjit.ops.expect import EXPECT, SPECIFY_SHAPE
from scanjit.ops.index import GATHER
from scanjit.ops.promotion import CAST
from scanjit.ops.roles import Roles, without_lags
from scanjit.ops.scan import SCAN
from scanjit.ops.shape import IOTA, SET_SLICE, SLICE, window
from scanjit.ops.stretch import constant_value, full
from scanjit.ops.view import View, as_row, only_row
from scanjit.rewrite.algebra_shape import rules as shapes
from scanjit.rewrite.engine import Note, Rewriter
from scanjit.rewrite.loop import OpenCarry, OpenScan
from scanjit.rewrite.match import is_whole, is_zero, window_of, window_set
from scanjit.rewrite.padded import Padded, number
from scanjit.rewrite.scan_fold import folded
from scanjit.rewrite.scan_merge import merge
from scanjit.rewrite.scan_prune import prune
from scanjit.types import Atom, Dimension

_MOST_ROWS = 2**40
"""A loop of more steps than this has no limit from which its memory could be planned."""


def own_lengths(outputs: list[Node], notes: list[Note]) -> list[Node]:
    """Make a loop count its steps, if an outer step or branch computes their number. The loop then runs at most as many
    steps as are known before. (A number that does not change from step to step is left alone: `hoist` takes it out of
    the step.)"""
    return outputs if ir.sizes_are_given(outputs) else StepLevel((), False, False, notes).rewritten(outputs)


def all_own_lengths(outputs: list[Node]) -> list[Node]:
    """As `own_lengths`, for the end of the pipeline, when no computation leaves a loop any more."""
    return StepLevel((), False, True, []).rewritten(outputs)


_Row = Callable[[OpenScan, Node, Node], Node]
"""A function that makes the row of a sequence in a step. It takes the loop, whether the step runs, and the number of
the row."""


class StepLevel:
    """The graph of a function, a step or a branch. `moving` are the inputs that a step around it computes. In a branch,
    results of loops and branches in it are not known before either; `inside` a step, no result of it is. `last` says
    that nothing else that a step computes is known."""

    inside = False

    def __init__(self, moving: Sequence[Node], branch: bool, last: bool, notes: list[Note]) -> None:
        self.moving, self.branch, self.last, self.notes = set(moving), branch, last, notes
        self.limits: dict[Node, Dimension] = {}
        """An upper bound for each number of steps that a loop has counted."""
        self.padded = Padded(self.moves, self.most)

    def rewritten(self, outputs: list[Node]) -> list[Node]:
        """The outputs, with loops that count."""
        if self._is_concerned(outputs):
            outputs = self._with_last_rows(merge(outputs, self.notes))
            outputs = folded(outputs, lambda scan: self.moves(_ran(scan)), number)
            outputs = Rewriter(shapes)(prune(merge(outputs, self.notes), self.notes))  # two numbers of steps may be one
        used = {(node.args[0], node.params["index"]) for node in walk(outputs) if node.op is PART}
        parts: dict[Node, dict[int, Node]] = {}

        def replaced(old: Node, new: Node) -> Node | None:
            if old.op is PART and old.args[0] in parts:
                return parts[old.args[0]][old.params["index"]]
            new = self._with_body(new)
            with errors.located(old.where):
                if new.op is SCAN and self.moves(new.params["length"]):
                    found = self._counting(new, [i for i in range(len(old.types)) if (old, i) in used])
                    if found is not None:
                        parts[old] = found
                elif new.op is SIZE and self.moves(new.params["dim"]):
                    return number(new.params["dim"])
                elif self._is_cut(new) and (read := self.padded.read(new)) is not None:
                    return read
            return new

        return rebuilt(outputs, replaced)

    def _is_concerned(self, outputs: Sequence[Node]) -> bool:
        return any(
            any(self.moves(dim) for type_ in node.types for dim in type_.shape)
            or self._is_cut(node)
            or (node.op is SCAN and self.moves(node.params["length"]))
            for node in walk(outputs)
        )

    def _is_cut(self, node: Node) -> bool:
        """Whether the node has sizes that are known before, and reads or makes rows whose number or place is not."""
        moving = any(self.moves(dim) for arg in node.args for type_ in arg.types for dim in type_.shape)
        places = node.params["start"] if node.op in (SLICE, SET_SLICE) else ()
        return (moving or any(map(self.moves, places))) and not any(
            self.moves(dim) for type_ in node.types for dim in type_.shape
        )

    def _with_last_rows(self, outputs: list[Node]) -> list[Node]:
        """The outputs, in which the last rows of such loops' stacks are read from their final carries."""
        found = {
            node: last for node in walk(outputs) if node.op is SLICE and (last := self._last_row(node)) is not None
        }
        return replace(outputs, found)

    def _last_row(self, node: Node) -> Node | None:
        """ys[T - 1 : T] -> the final carry, with an axis of size 1. It is out of bounds if there was no step."""
        (first, count, _), *rest = window_of(node)
        stack = node.operands[0]
        while stack.op is SLICE and stack.params["start"][0] == 0 and stack.params["step"][0] == 1:
            stack = stack.operands[0]
        if stack.op is not PART or stack.args[0].op is not SCAN or not is_whole(tuple(rest), node.type.shape[1:]):
            return None
        scan, index = stack.args[0], stack.params["index"]
        roles, new = Roles.of(scan), scan.params["body"].outputs
        ran = _ran(scan)
        if not self.moves(ran) or scan.params["reverse"] or count != 1:
            return None
        carry = next((i for i in range(roles.carries) if new[i] is new[index]), None)
        if carry is None or first != ran - 1:
            return None
        final = PART(scan, index=carry)
        if carry in roles.lags:  # it has the rows before the last one too
            row = window(final, 0, roles.lags[carry] - 1, 1)
        else:
            row = as_row(final)
        return GATHER(row, apply(MINIMUM, number(ran), 1) - 1 + IOTA(length=1), axis=0)

    def _with_body(self, node: Node) -> Node:
        """The node with its graph rewritten, if it has a graph."""
        body = node.params.get("body")
        if not isinstance(body, Graph) or all(atom.kind != "value" for atom in ir.atoms_of(node)):
            return node
        roles = Roles.of(node) if node.op is SCAN else None
        if roles is not None:
            before, rows, fixed = roles.split(body.inputs)
            _, _, consts = roles.split(node.operands)
            inside = [*before, *rows, *(inner for inner, k in zip(fixed, consts, strict=True) if self._is_moving(k))]
        else:
            pairs = zip(body.inputs, node.operands[1:], strict=True)
            inside = [inner for inner, operand in pairs if self._is_moving(operand)]
        level = StepLevel(inside, node.op is IFELSE, self.last, self.notes)
        level.inside = self.inside or node.op is SCAN
        given = node.operands[len(node.operands) - len(body.inputs) :]
        changing = roles.carries if roles is not None else 0
        for inner, operand in list(zip(body.inputs, given, strict=True))[changing:]:
            limit = self._most_of(operand) if inner.type.kind.integral else None
            if limit is not None and all(atom.kind == "size" for atom in types.atoms(limit)):
                level.limits[inner] = limit
        new = level.rewritten(list(body.outputs))
        if all(a is b for a, b in zip(new, body.outputs, strict=True)):
            return node
        return ir.with_body(node, Graph.of(body.inputs, new))

    # ---- what is known before ----------------------------------------------------------------------------------------

    def moves(self, dim: Dimension) -> bool:
        """Whether a size depends on values that are computed here."""
        return any(atom.kind == "value" and self._is_moving(atom.node) for atom in types.atoms(dim))

    def _is_moving(self, node: Node) -> bool:
        if node.op is BOUND:
            return node in self.moving
        if self.inside and (self.last or self.branch):
            return not node.is_closed
        if not self.moving and not self.branch:
            return False
        return any(other in self.moving or (self.branch and other.op in (SCAN, IFELSE)) for other in walk([node]))

    def most(self, dim: Dimension) -> Dimension | None:
        """An upper bound, known before the loop, of a size that is computed here; None if there is none."""
        if not self.moves(dim):
            return dim if not isinstance(dim, int) or dim < _MOST_ROWS else None
        atom = types.as_atom(dim)
        if atom is None:  # a sum: of what has a limit, and what is known
            total: Dimension = 0
            for atoms, factor in types.terms(dim):
                part = types.monomial(atoms)
                limit = self._most_of_product(atoms) if self.moves(part) else part
                if factor < 0 and self.moves(part):
                    limit = 0 if all(map(_is_not_negative, atoms)) else self._least(part)
                if limit is None:
                    return None
                total = total + limit * factor
            return total
        if atom.kind == "value":
            return self._most_of(atom.node)
        if atom.kind == "//":
            limit, divisor = self.most(atom.args[0]), atom.args[1]
            return limit // divisor if limit is not None and isinstance(divisor, int) and divisor > 0 else None
        if atom.kind not in ("min", "max"):
            return None
        found = [limit for arg in atom.args if (limit := self.most(arg)) is not None]
        if atom.kind == "min":
            return found[0] if found else None
        return types.maximum(*found) if len(found) == 2 else None

    def _least(self, dim: Dimension) -> Dimension | None:
        """A lower bound, known before the loop, of a size that is computed here; None if there is none."""
        atom = types.as_atom(dim)
        known = [arg for arg in atom.args if not self.moves(arg)] if atom is not None and atom.kind == "max" else []
        return known[0] if known else None

    def _most_of_product(self, atoms: Sequence[Atom]) -> Dimension | None:
        """Such an upper bound for a product. It is the product of the bounds if no factor is negative."""
        limits = [limit for atom in atoms if (limit := self.most(types.dim_of(atom))) is not None]
        safe = len(atoms) == 1 or all(types.not_negative(types.dim_of(atom)) for atom in atoms)
        return types.product(limits) if safe and len(limits) == len(atoms) else None

    def _most_of(self, node: Node) -> Dimension | None:
        """Such an upper bound for the values of an integer tensor."""
        known = constant_value(node)
        if known is not None and known.size:
            return self.most(int(known.max()))
        if node in self.limits:
            return self.limits[node]
        if node.op in (SIZE, BOUND):
            return None if node in self.moving or node.ndim else self.most(ir.as_dim(node))
        if _counts(node):
            return self.most(node.args[0].params["length"])
        if node.op in (WHERE, MAXIMUM, MINIMUM):
            found = [self._most_of(arg) for arg in node.operands[-2:]]
            known_ones = [limit for limit in found if limit is not None]
            if node.op is MINIMUM:
                return known_ones[0] if known_ones else None
            return types.maximum(*known_ones) if len(known_ones) == 2 else None
        if isinstance(node.op, View):
            return self._most_of(node.operands[0])
        if node.op is CAST and node.operands[0].type.kind.integral:
            return self._most_of(node.operands[0])
        return None

    # ---- loops that count --------------------------------------------------------------------------------------------

    def _counting(self, scan: Node, used: Sequence[int]) -> dict[int, Node] | None:
        """The results of a loop, computed by one that counts its steps; None if that is not possible."""
        if scan.params["lags"]:  # where in a ring its last value is depends on how many steps there were
            params, operands = without_lags(scan.params, scan.operands)
            scan = scan.op(*operands, **params)
        roles, length = Roles.of(scan), scan.params["length"]
        stacks = [i for i in used if i in roles.stacks]
        steps = None if roles.sequences or stacks else self._all_or_none(length)
        if steps is not None:
            whole = ir.parts(ir.with_params(scan, length=steps))
            return self._results(scan, whole[0].args[0], {i: whole[i] for i in used}, number(length))
        most = self.most(length)
        if most is None and not stacks:
            most = types.LARGEST
        sources = {x: self._rows(x) for x in roles.split(scan.operands)[1]}
        if most is None or any(source is None for source in sources.values()):
            return None
        loop, total = OpenScan.of(scan), number(length)
        counter = OpenCarry(ir.constant(np.int64(0)), ir.new_input(total.type, "step"), total)
        counter.new = counter.inner + 1
        last = loop.const(total)
        row = last - counter.new if scan.params["reverse"] else counter.inner
        runs = counter.inner < last
        rows = {inner: sources[x](loop, runs, row) for x, inner in loop.xs.items()}  # type: ignore[misc]
        loop.xs = {}
        loop.carries.append(counter)
        loop.results[roles.carries :] = [
            result if i in stacks else None for i, result in enumerate(loop.results[roles.carries :], roles.carries)
        ]
        loop.substitute(rows)
        over = counter.new >= last
        loop.stop = over if loop.stop is None else over | loop.stop
        loop.length = most
        new = loop.finish(until=True, reverse=False, truncate=-1, unroll=False)
        self.notes.append(Note("own_lengths", scan.where, "a loop whose length is computed around it counts its steps"))
        return self._results(scan, new.node, {i: part for i, part in new.parts().items() if i in used}, total)

    def _all_or_none(self, length: Dimension) -> Dimension | None:
        """How many steps a loop makes at most, if a condition says whether it makes any, as that of `while_loop` does
        before the first one. None for other loops."""
        atom = types.as_atom(length)
        if atom is None or atom.kind != "value" or atom.node.op is not WHERE:
            return None
        some = [arg for arg in atom.node.args[1:] if not is_zero(arg)]
        steps = ir.as_dim(some[0]) if len(some) == 1 else None
        return None if steps is None or self.moves(steps) else steps

    def _results(self, scan: Node, counting: Node, parts: dict[int, Node], total: Node) -> dict[int, Node]:
        """The results of the counting loop, in a branch that is taken if the loop has a step."""
        roles, length = Roles.of(scan), scan.params["length"]
        end = roles.stacks.stop
        idle = {
            i: scan.operands[i] if i < roles.carries else full(0, part.type.shape, part.dtype)
            for i, part in parts.items()
        }
        at = {operand for operand in counting.operands if operand.op is not CONSTANT}
        found = dict(zip(parts, captured(total >= 1, list(parts.values()), list(idle.values()), at), strict=True))
        limit = self.most(length)
        if end in found and limit is not None:
            self.limits[found[end]] = limit
        for i in found:
            if i in roles.stacks:
                start, step = (length - 1, -1) if scan.params["reverse"] else (0, 1)
                found[i] = window(found[i], 0, start, length, step)
        return found

    def _rows(self, x: Node) -> _Row | None:
        """A function that makes the rows of a sequence in steps. None if the sequence is made of something that steps
        cannot read."""
        if x.op is SET_SLICE and (found := self._row_set(x)) is not None:
            return found
        if is_zero(x):
            return lambda loop, runs, row: full(0, x.type.shape[1:], x.dtype)
        source = self._source(x)
        if source is None:
            return None
        base, start, step = source

        def read(loop: OpenScan, runs: Node, row: Node) -> Node:
            index = apply(WHERE, runs, loop.const(number(start)) + row * step, 0)
            return GATHER(loop.const(base), index, axis=0)  # what does not run may be computed, and reads row 0

        return read

    def _row_set(self, x: Node) -> _Row | None:
        """The same for a sequence of which one row was set, as the gradient of `ys[-1]` sets one. None for any other
        sequence."""
        around, value = x.operands
        (start, count, _), *rest = window_set(x)
        others = self._rows(around)
        if others is None or count != 1 or not is_whole(tuple(rest), x.type.shape[1:]):
            return None
        row_set = only_row(value)

        def read(loop: OpenScan, runs: Node, row: Node) -> Node:
            return apply(WHERE, row == loop.const(number(start)), loop.const(row_set), others(loop, runs, row))

        return read

    def _source(self, x: Node) -> tuple[Node, Dimension, int] | None:
        """A tensor whose size is known before, and the place of the rows of `x` in it: the first row and the step."""
        start: Dimension = 0
        step = 1
        while any(self.moves(dim) for dim in x.type.shape) or (x.op is SLICE and self.moves(x.params["start"][0])):
            if x.op in (EXPECT, SPECIFY_SHAPE):
                x = x.operands[0]
            elif x.op is SLICE:
                (first, _, apart), *rest = window_of(x)
                x, start, step = x.operands[0], first + start * apart, step * apart
                for axis, (low, count, every) in enumerate(rest, 1):
                    x = window(x, axis, low, count, every)
            else:
                whole = None if any(map(self.moves, x.type.shape[1:])) else self.padded.of(x)
                return None if whole is None else (whole, start, step)
        return x, start, step


def _counts(node: Node) -> bool:
    """Whether a node is the number of steps of a loop that a condition ends."""
    if node.op is not PART or node.args[0].op is not SCAN:
        return False
    (scan,) = node.args
    return bool(scan.params["until"]) and node.params["index"] == len(scan.types) - 1


def _is_not_negative(atom: Atom) -> bool:
    return atom.not_negative or (atom.kind == "value" and _counts(atom.node))


def _ran(scan: Node) -> Dimension:
    """How many steps a scan makes."""
    return ir.as_dim(ir.parts(scan)[-1]) if scan.params["until"] else scan.params["length"]
