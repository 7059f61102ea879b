"""`custom`: values whose derivative is given by a rule. See `scanjit.derivatives.custom`."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from scanjit import errors
from scanjit.ir import Node, Op, new_input, parts
from scanjit.ops.batch import batch_graph
from scanjit.ops.chain import transposed
from scanjit.ops.stretch import all_over_batch, or_zeros, over_batch
from scanjit.records import record
from scanjit.signatures import OpFunction
from scanjit.types import Dimension


class DerivativeRule(ABC):
    """A function that computes cotangents of arguments from cotangents of results."""

    @abstractmethod
    def __call__(
        self, cotangents: Sequence[Node | None], results: Sequence[Node], arguments: Sequence[Node]
    ) -> list[Node | None]:
        """One cotangent for each argument, of its type. Results that are not floats have None as their cotangent."""

    def forward(
        self, tangents: Sequence[Node | None], results: Sequence[Node], arguments: Sequence[Node]
    ) -> Sequence[Node | None] | None:
        """One tangent for each result. None if there is no such rule: then it follows from the other one."""
        return None


@record
class BackwardRule(DerivativeRule):
    """A rule of our own: a function of the cotangents of the results, which are not None, of the results, and of the
    arguments."""

    backward: Callable[[Sequence[Node], Sequence[Node], Sequence[Node]], Sequence[Node]]

    def __call__(
        self, cotangents: Sequence[Node | None], results: Sequence[Node], arguments: Sequence[Node]
    ) -> list[Node | None]:
        given = [or_zeros(g, y) for g, y in zip(cotangents, results, strict=True)]
        return [*self.backward(given, results, arguments)]


@record
class _OverBatch(DerivativeRule):
    """The rule for a batch, made of the rule for one example. Every node has the axis of the batch in front."""

    rule: DerivativeRule

    def __call__(
        self, cotangents: Sequence[Node | None], results: Sequence[Node], arguments: Sequence[Node]
    ) -> list[Node | None]:
        found = self._of_one(self.rule, cotangents, results, arguments)
        assert found is not None
        return found

    def forward(
        self, tangents: Sequence[Node | None], results: Sequence[Node], arguments: Sequence[Node]
    ) -> Sequence[Node | None] | None:
        return self._of_one(self.rule.forward, tangents, results, arguments)

    def _of_one(
        self,
        rule: OpFunction[Sequence[Node | None] | None],
        derivatives: Sequence[Node | None],
        results: Sequence[Node],
        arguments: Sequence[Node],
    ) -> list[Node | None] | None:
        size = [*results, *arguments][0].type.shape[0]
        wide = [node for node in (*derivatives, *results, *arguments) if node is not None]
        symbols = {node: new_input(node.type.with_shape(node.type.shape[1:])) for node in wide}
        found = rule(
            [None if node is None else symbols[node] for node in derivatives],
            [symbols[node] for node in results],
            [symbols[node] for node in arguments],
        )
        if found is None:
            return None
        given = [node for node in found if node is not None]
        batched = iter(batch_graph(given, {symbol: node for node, symbol in symbols.items()}, size))
        return [None if node is None else over_batch(*next(batched), size) for node in found]


def _vjp(
    g: Sequence[Node | None], y: Sequence[Node], *operands: Node, results: int, rule: DerivativeRule | None
) -> tuple[Node | None, ...]:
    if rule is None:
        raise errors.GradientError(
            "a rule for derivatives is no part of a file or a pickle: what was read from one has no derivative here",
            got=repr(y[0]),
        )
    full = [
        None if not node.type.kind.floating else or_zeros(cotangent, node) for cotangent, node in zip(g, y, strict=True)
    ]
    return (*[None] * results, *rule(full, y, operands[results:]))


def _jvp(
    tangents: Sequence[Node | None], y: Sequence[Node], *operands: Node, results: int, rule: DerivativeRule | None
) -> Node | tuple[Node | None, ...] | None:
    found = None if rule is None else rule.forward(tangents[results:], y, operands[results:])
    return transposed(y[0].args[0], tangents) if found is None else tuple(found)


def _batch(
    args: Sequence[Node], batched: Sequence[bool], size: Dimension, *, results: int, rule: DerivativeRule | None
) -> list[tuple[Node, bool]]:
    node = CUSTOM(
        *all_over_batch(args, batched, size), results=results, rule=None if rule is None else _OverBatch(rule)
    )
    return [(part, True) for part in parts(node)]


CUSTOM: Op = Op(
    "custom",
    infer=lambda *operands, results, rule: tuple(operands[:results]),
    reference=lambda *arrays, results, rule: arrays[:results],
    vjp=_vjp,
    jvp=_jvp,
    batch=_batch,
    takes_halves=True,
    doc="the first operands (`results` of them); their derivative by the others, their arguments, is that of `rule`",
)
