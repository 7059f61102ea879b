"""Reductions, `argmax` and `argmin`: an operand combined over loops of its own."""

from collections.abc import Sequence

import numpy as np

from scanjit.ir import Node
from scanjit.kinds import kind_of
from scanjit.ops.elementwise import EQUAL, INVERT, WHERE
from scanjit.ops.extremes import ARGMIN, MIN, ArgReduction
from scanjit.ops.promotion import CAST
from scanjit.schedule.lower.maps import IndexMap
from scanjit.schedule.lower.values import NodeAt, PointRule, ValueBuilder
from scanjit.schedule.nests import Apply, Literal, NestLoop, Position, Reduce, Value


class ReductionRule(PointRule):
    """A rule for all of them."""

    def reads(self, builder: ValueBuilder, node: Node, at: IndexMap) -> Sequence[NodeAt]:
        """The operand: its other axes are those of the result, in order."""
        over, rest = _loops(builder, node), iter(at)
        x = node.operands[0]
        return [(x, tuple((0, ((over[axis], 1),)) if axis in over else next(rest) for axis in range(x.ndim)))]

    def value(self, builder: ValueBuilder, node: Node, at: IndexMap, values: Sequence[Value]) -> Value:
        """All of its elements, combined."""
        loops, (term,) = tuple(_loops(builder, node).values()), values
        if isinstance(node.op, ArgReduction) and isinstance(term, Apply) and term.op is CAST:
            answers = term.args[0]
            if kind_of(answers.dtype).is_mask:
                return _first(loops[0], Apply(answers.dtype, INVERT, (answers,), {}) if node.op is ARGMIN else answers)
        return Reduce(node.dtype, node.op, loops, term)


def _first(loop: NestLoop, answers: Value) -> Value:
    """The first place at which an answer is true, the least of all these; 0 if there is none."""
    size = loop.size
    dtype = np.dtype("int32" if isinstance(size, int) and size < 1 << 31 else "int64")
    nowhere = Literal(dtype, size) if isinstance(size, int) else Position(dtype, size, {})
    found = Reduce(dtype, MIN, (loop,), Apply(dtype, WHERE, (answers, Position(dtype, 0, {loop: 1}), nowhere), {}))
    place = Apply(dtype, WHERE, (Apply(np.dtype("bool"), EQUAL, (found, nowhere), {}), Literal(dtype, 0), found), {})
    return place if dtype == np.int64 else Apply(np.dtype("int64"), CAST, (place,), {"dtype": np.dtype("int64")})


def _loops(builder: ValueBuilder, node: Node) -> dict[int, NestLoop]:
    """The axes that are reduced, each with the loop over it."""
    axes = node.params["axes"] if "axes" in node.params else (node.params["axis"],)
    return dict(zip(axes, builder.loops(tuple(node.operands[0].type.shape[a] for a in axes)), strict=True))
