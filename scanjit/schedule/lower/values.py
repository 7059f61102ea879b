"""Graph nodes as values of nests: the expression that a nest computes at each of its points.

A node that lies in memory becomes a load. Any other one is computed where it is read; how, its op's `PointRule` says.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Sequence

from scanjit.ir import Node, Op
from scanjit.records import replace
from scanjit.schedule.lower import maps
from scanjit.schedule.lower.maps import IndexMap
from scanjit.schedule.lower.ranges import Ranges
from scanjit.schedule.nests import Access, Load, NestLoop, Position, Ref, Register, Value
from scanjit.signatures import DType
from scanjit.types import Dimension
from scanjit.walks import fold

NodeAt = tuple[Node, IndexMap]
"""A node, and the index map at which it is read."""


_COUNTS = {"none": 0, "first": 1, "all": None}
"""How many operands an op reads as arrays, by its `reads_memory`; None stands for all."""


def read_as_arrays(node: Node) -> Sequence[Node]:
    """The operands that an op reads as arrays."""
    return node.operands[: _COUNTS[node.op.reads_memory]]


class PointRule(ABC):
    """How an op's result is computed at one point, from values of its operands.

    Attributes
    ----------
    needs_array : whether it computes addresses in its first operand, which must then lie in memory.
    """

    needs_array: bool = False

    def cost(self, op: Op) -> int | None:
        """About how many instructions a point takes; None if the result must be stored."""
        return None

    def arrays(self, node: Node, known: Container[Node]) -> Sequence[Node]:
        """The nodes that are read as arrays, not as values at a point: operands, or what operands are made of. `known`
        has the nodes with a place."""
        return read_as_arrays(node)

    @abstractmethod
    def reads(self, builder: ValueBuilder, node: Node, at: IndexMap) -> Sequence[NodeAt]:
        """The nodes that this one is computed from at a point, and where each is read. `at` says which element of the
        node is computed."""

    @abstractmethod
    def value(self, builder: ValueBuilder, node: Node, at: IndexMap, values: Sequence[Value]) -> Value:
        """The value of the node at this point, from the values of its `reads`."""


class NotInline(Exception):
    """A node would have to lie in memory to be read in this way."""


class ValueBuilder:
    """Makes values of nodes, and remembers those that it made.

    Parameters
    ----------
    space : the loops over which values are computed.
    locate : the `Ref` of a node that lies in memory, None for one that does not.
    code : the number by which a node reports an index out of bounds.
    ranges : the ranges of integers.
    rule_of : the rule of an op, if it can be computed at a point.

    Attributes
    ----------
    registers : the carries that a nest with time holds in registers.
    stacked : in a nest with time, maps the row of a sequence to the sequence and the loop over time. None stands for
        a sequence that counts the rows, and lies nowhere.
    own_point : the map that reads a node of the shape of the space at the point that is computed.
    origins : for each access, the node that it reads, and whether it reads it just at the point that is computed.
    """

    def __init__(
        self,
        space: Sequence[NestLoop],
        locate: Callable[[Node], Ref | None],
        code: Callable[[Node], int],
        ranges: Ranges,
        rule_of: Callable[[Op], PointRule | None],
    ) -> None:
        self.space, self.locate, self.code, self.ranges, self.rule_of = space, locate, code, ranges, rule_of
        self.registers: dict[Node, Register] = {}
        self.stacked: dict[Node, tuple[Ref | None, NestLoop]] = {}
        self.origins: dict[Access, tuple[Node, bool]] = {}
        self._memo: dict[NodeAt, Value] = {}
        self.own_point = maps.identity(space)
        self._loops: dict[tuple[Dimension, ...], tuple[NestLoop, ...]] = {}

    def root(self, node: Node, at: IndexMap) -> Value:
        """The value of a node that is computed here, even if it also has a place in memory."""
        rule = self.rule_of(node.op)
        if rule is None:
            return self.load(node, self.reference(node), at)
        return rule.value(self, node, at, [self.value(*read) for read in rule.reads(self, node, at)])

    def value(self, node: Node, at: IndexMap) -> Value:
        """The value of a node at an index map."""
        return fold((node, at), self._reads, self._made, self._memo)

    def load(self, node: Node, ref: Ref, at: IndexMap) -> Load:
        """A node that lies in memory, at an index map."""
        load = Load(node.dtype, maps.place(ref, at))
        self.origins[load.access] = node, self._is_own_point(node, at)
        return load

    def widened(self, load: Load, dtype: DType) -> Load:
        """The load of a float of 16 bits, as one of another dtype."""
        access = replace(load.access)  # a new object, as the other load may be read too
        if load.access in self.origins:
            self.origins[access] = self.origins[load.access]
        return Load(dtype, access, load.when)

    def loops(self, sizes: tuple[Dimension, ...]) -> tuple[NestLoop, ...]:
        """Loops for a reduction: the same loops for equal sizes, so that equal sums are equal values."""
        return self._loops.setdefault(sizes, tuple(map(NestLoop, sizes)))

    def reference(self, node: Node) -> Ref:
        """Where a node lies, itself or as a view. Raises NotInline if it is not in memory."""
        ref = maps.view_ref(node, self.locate)
        if ref is None:
            raise NotInline(node.op.name)
        return ref

    def _reads(self, key: NodeAt) -> Sequence[NodeAt]:
        """The reads that a node is computed from. There are none if the node is not computed here."""
        node, at = key
        if node in self.registers or node in self.stacked or self.locate(node) is not None:
            return ()
        return self._rule(node).reads(self, node, at)

    def _made(self, key: NodeAt, values: list[Value]) -> Value:
        node, at = key
        if node in self.registers:
            if not self._is_own_point(node, at):  # a register holds the element of its own lane only
                raise NotInline
            return self.registers[node]
        if node in self.stacked:
            whole, time = self.stacked[node]
            if whole is None:
                return Position(node.dtype, 0, {time: 1})
            return Load(node.dtype, maps.place(whole, ((0, ((time, 1),)), *at)))
        ref = self.locate(node)
        return self._rule(node).value(self, node, at, values) if ref is None else self.load(node, ref, at)

    def _rule(self, node: Node) -> PointRule:
        rule = self.rule_of(node.op)
        if rule is None:
            raise NotInline(node.op.name)
        return rule

    def _is_own_point(self, node: Node, at: IndexMap) -> bool:
        """Whether a map reads a node just at the point that is computed. An axis of size 1 may be read in any way."""
        own = self.own_point
        if at == own or len(at) != len(own):
            return at == own
        return all(a == o or (dim == 1 and a == maps.FIXED) for a, o, dim in zip(at, own, node.type.shape, strict=True))
