"""The values of nodes when a function of a whole sequence is cut into blocks of steps.

A node becomes `TimeRows` (it has an entry for each step), `Last` (it is one value for all steps up to now, such as the
last value of a carry), `Begun` (it depends on the first steps alone), or `Fixed` (it depends on no step).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from scanjit import errors, ir, types
from scanjit.ir import Node
from scanjit.ops.elementwise import where
from scanjit.ops.index import GATHER
from scanjit.ops.shape import CONCATENATE, IOTA, window
from scanjit.ops.stretch import full
from scanjit.records import record, replace
from scanjit.show.identifiers import free_name
from scanjit.types import Atom, Dimension


@record
class Fixed:
    """A node that depends on no step. It is the same for all blocks."""

    node: Node


@record
class Begun:
    """A value of the first steps, such as `x[0]`: after step `late`, it is the same for all blocks."""

    node: Node
    late: int


@record
class Last:
    """One value for all steps up to the end of the block."""

    node: Node


@record
class TimeRows:
    """A node with a time axis.

    In the function of the whole sequence, of `T` steps, the axis has `T + more` entries. In that of a block, `node` has
    one entry for each step of the block: at step `t`, this is entry `t + lead`. So the first `lead` entries are known
    before the first step: they are the last ones of `before`. If `lead` is negative, entry 0 comes `-lead` steps late.
    The entries of `node` at the steps before are not in the whole sequence.

    An axis that several axes were reshaped to has `outer * steps * inner` entries.
    """

    node: Node
    axis: int
    lead: int = 0
    more: int = 0
    before: Node | None = None
    outer: Dimension = 1
    inner: Dimension = 1

    @property
    def merged(self) -> bool:
        """Whether the time axis has entries of other axes too."""
        return self.outer != 1 or self.inner != 1

    @property
    def early(self) -> int:
        """How many entries `before` has."""
        return 0 if self.before is None else types.as_int(self.before.type.shape[self.axis])

    def entry(self, start: int, stop: int) -> Node:
        """The entries from `start` to `stop`, which are known before the first step."""
        assert self.before is not None
        shift = self.early - self.lead
        return window(self.before, self.axis, shift + start, stop - start)


Value = Fixed | Begun | Last | TimeRows


def latest(values: Sequence[Value]) -> int:
    """The step after which all of these values are known that depend on the first steps alone; 0 if none does."""
    return max([value.late for value in values if isinstance(value, Begun)], default=0)


@dataclass(eq=False)
class StatePart:
    """A part of the state: the input of a block (`before`), its result (`after`), and the input of the first block."""

    name: str
    before: Node
    initial: Node
    after: Node


class Cut:
    """A function of a whole sequence while it is cut: its time, and the state that was found to be needed.

    Parameters
    ----------
    time : the size of the time axis. In the function of a block, it is the number of steps of the block.
    fed : the nodes that depend on inputs which hold results of the block before.
    """

    def __init__(self, time: Atom, fed: Collection[Node]) -> None:
        self.time, self.steps, self.fed = time, types.dim_of(time), fed
        self.states: list[StatePart] = []
        self._histories: dict[tuple[Node, int, Node | None], tuple[int, Node]] = {}
        self._counted: Node | None = None

    # ---- sizes

    def has_time(self, dim: Dimension) -> bool:
        """Whether a dimension depends on the number of steps."""
        return any(atom is self.time for atom in types.atoms(dim))

    def more(self, dim: Dimension) -> int | None:
        """`n` if the dimension is the number of steps plus n, else None."""
        difference = self.of_many(dim) - self.steps
        return difference if isinstance(difference, int) else None

    def of_many(self, dim: Dimension) -> Dimension:
        """The dimension in a sequence of many steps: `max(T - 2, 0)` is `T - 2`, and `min(T, 1)` is 1."""

        def of_atom(atom: Atom) -> Dimension:
            if atom.kind in ("max", "min") and isinstance(atom.args[1], int):
                length = self.of_many(atom.args[0])
                if isinstance(length - self.steps, int):
                    return length if atom.kind == "max" else atom.args[1]
            return types.dim_of(atom)

        terms = [types.product(map(of_atom, atoms)) * factor for atoms, factor in types.terms(dim)]
        return sum(terms, start=0)

    def is_sized(self, node: Node) -> bool:
        """Whether a size of a node depends on the number of steps, if there are many."""
        found: list[bool] = []

        def noted(dim: Dimension) -> Dimension:
            found.append(self.has_time(self.of_many(dim)))
            return dim

        for value in (node.types, *node.params.values()):
            ir.map_dims(value, noted)
        return any(found)

    def applied(self, node: Node, operands: list[Node], more: int, count: Dimension | None = None) -> Node:
        """The node's op on operands of a block. In the whole sequence, they have `more` entries than there are steps.
        With `count`, the op on operands that have so many entries."""
        size = (self.steps if count is None else count) - more
        dims = {self.time: size}
        params = {k: ir.map_dims(v, lambda d: types.substitute(self.of_many(d), dims)) for k, v in node.params.items()}
        with errors.located(node.where):
            return node.op(*operands, **params)

    # ---- state

    def state(self, name: str, initial: Node) -> StatePart:
        """A new part of the state. Its value after the block is set later by the caller."""
        symbol = ir.new_input(initial.type, self._unused(name))
        self.states.append(StatePart(str(symbol.name), symbol, initial, symbol))
        return self.states[-1]

    def _unused(self, name: str) -> str:
        base = "".join(c if c.isascii() and c.isalnum() else "_" for c in name).strip("_").lower() or "state"
        base = f"s_{base}" if base[0].isdigit() else base
        return free_name(base, {state.name for state in self.states})

    def counted(self) -> Node:
        """The number of steps before the block."""
        if self._counted is None:
            state = self.state("steps", ir.constant(0, "int64"))
            self._counted, state.after = state.before, state.before + ir.SIZE(dim=self.steps)
        return self._counted

    def numbers(self) -> Node:
        """The numbers of the steps of a block."""
        return IOTA(length=self.steps) + self.counted()

    def first(self, rows: TimeRows, start: int, length: int) -> Begun:
        """Some of the first entries, which a state keeps when they have come."""
        axis, known = rows.axis, max(rows.lead - start, 0)
        shape = list(rows.node.type.shape)
        shape[axis] = length - known
        later = full(0, shape, rows.node.dtype)
        initial = CONCATENATE(rows.entry(start, rows.lead), later, axis=axis) if known else later
        state = self.state("first", initial)
        place = IOTA(length=length) + (start - rows.lead) - self.counted()
        here = (place >= 0) & (place < ir.dim_node(self.steps))
        both = CONCATENATE(state.before, rows.node, axis=axis)
        state.after = GATHER(both, where(here, place + length, IOTA(length=length)), axis=axis)
        return Begun(state.after, start + length - 1 - rows.lead)

    def delayed(self, rows: TimeRows, count: int) -> TimeRows:
        """The same entries, each `count` steps later: the state holds as many."""
        if count == 0:
            return rows
        node = window(self.history(rows, count), rows.axis, 0, self.steps)
        lead = rows.lead - count
        return replace(rows, node=node, lead=lead, before=rows.entry(0, lead) if lead > 0 else None)

    def history(self, rows: TimeRows, count: int) -> Node:
        """The entries of the last `count` steps before the block, and then those of the block."""
        axis, key = rows.axis, (rows.node, rows.axis, rows.before)
        known, longer = self._histories.get(key, (0, rows.node))
        if count > known:
            state = self.state("past", _early(rows, count, known))
            longer = CONCATENATE(state.before, longer, axis=axis)
            state.after = window(longer, axis, self.steps, count - known)
            self._histories[key] = known, longer = count, longer
        return window(longer, axis, known - count, self.steps + count)


def _early(rows: TimeRows, count: int, known: int) -> Node:
    """The entries of the steps `-count` to `-known`, not included, which are before the first step. They are 0 if the
    whole sequence has none."""
    shape = list(rows.node.type.shape)
    first, last = rows.early - count, rows.early - known
    shape[rows.axis] = min(last, 0) - min(first, 0)
    parts = [full(0, shape, rows.node.dtype)] if first < 0 else []
    if rows.before is not None and last > 0:
        parts.append(window(rows.before, rows.axis, max(first, 0), last - max(first, 0)))
    return parts[0] if len(parts) == 1 else CONCATENATE(*parts, axis=rows.axis)
