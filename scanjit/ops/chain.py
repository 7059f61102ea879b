"""The chain rule over a graph: `pullback` from outputs to inputs (reverse mode), `pushforward` the other way.

Both build nodes. None stands for a derivative that is zero because no path leads from the one node to the other. Only
floats have derivatives.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from scanjit import errors
from scanjit.ir import PART, Node, new_input, parts, walk
from scanjit.ops.stretch import broadcast_to, or_zeros, sum_to
from scanjit.signatures import Parameter

Tangents = Sequence[Node | None]
"""A tangent for each operand; None where it is zero."""
Derivative = Node | tuple[Node | None, ...] | None
"""The cotangent or the tangent of a node (for several results: a tuple). None where it is zero."""


def carries_gradient(node: Node) -> bool:
    """Whether the values of a node, or one of its several results, are floats: only floats have derivatives."""
    return any(type_.kind.floating for type_ in node.types)


def differentiable(outputs: Iterable[Node], wrt: Iterable[Node], constant: Collection[Node] = ()) -> set[Node]:
    """The nodes on the paths from `wrt` to `outputs` whose ops all have derivatives. Paths through the `constant` nodes
    do not count.
    """
    wrt, constant = set(wrt), set(constant)
    found: set[Node] = set()
    for node in walk(outputs, constant):
        if node in constant or not carries_gradient(node):
            continue
        passes = node.op is PART or node.op.vjp is not None
        if node in wrt or (passes and any(arg in found for arg in node.operands)):
            found.add(node)
    return found


def connected(
    outputs: Iterable[Node], constant: Collection[Node] = (), through: Callable[[Node], bool] = carries_gradient
) -> set[Node]:
    """The nodes from which a path leads to one of `outputs`, through float nodes or those for which `through` is true.
    The derivative may be zero.

    Paths through the `constant` nodes do not count. An op with several results passes a path only to the operands that
    its used results depend on.
    """
    outputs, constant = list(outputs), set(constant)
    found = {node for node in outputs if node not in constant}
    used: dict[Node, set[int]] = {}  # of a node with several results: which of them
    for node in reversed(walk(outputs, constant)):
        if node not in found or not through(node):
            continue
        if node.op is PART:
            used.setdefault(node.args[0], set()).add(node.params["index"])
        operands = node.operands if node.op.connected is None else node.op.connected(node, used[node], through)
        found.update(operand for operand in operands if through(operand) and operand not in constant)
    return found


# ---- reverse mode ----------------------------------------------------------------------------------------------------


def pullback(
    outputs: Sequence[Node],
    cotangents: Sequence[Node | None],
    wrt: Sequence[Node],
    *,
    constant: Collection[Node] = (),
    fixed: Mapping[Node, Node] | None = None,
) -> list[Node | None]:
    """The cotangents of `wrt`, from those of `outputs`.

    Parameters
    ----------
    outputs : nodes. The same node may be given twice, and one may depend on another.
    cotangents : one for each output, of the output's type.
    wrt : nodes that the outputs may depend on; one may depend on another.
    constant : nodes that no cotangent flows through.
    fixed : a mapping from nodes to cotangents that are known. They replace the cotangents that would be computed.
    """
    fixed, constant = fixed or {}, set(constant)
    paths = differentiable(outputs, wrt, constant)
    wanted = set(wrt)
    arrived = _Arrived()
    for output, cotangent in zip(outputs, cotangents, strict=True):
        if cotangent is not None and output in paths:
            arrived.add_seed(output, cotangent)
    totals: dict[Node, Node] = {}
    for node in reversed(walk(outputs, constant)):
        if node not in paths:
            continue
        total = fixed[node] if node in fixed else arrived.total(node)
        if total is None:
            continue
        if node in wanted and isinstance(total, Node):
            totals[node] = total
        for operand, cotangent in zip(node.operands, _cotangents(node, total, paths), strict=True):
            if cotangent is not None and operand in paths:
                arrived.add(operand, _fitted(cotangent, operand, node))
        if node.op is PART and isinstance(total, Node):
            arrived.add_part(node, total)
    return [totals.get(node) for node in wrt]


class _Arrived:
    """The cotangents that have reached each node so far, in this order. They are added up when it is the node's
    turn."""

    def __init__(self) -> None:
        self._waiting: dict[Node, list[Node]] = {}
        self._seeds: dict[Node, list[Node]] = {}
        self._of_parts: dict[Node, dict[int, Node]] = {}

    def add_seed(self, node: Node, cotangent: Node) -> None:
        """Add the cotangent of an output. It is summed last: in the step of a loop it is a carry, and all other terms
        can be summed before it is known."""
        self._seeds.setdefault(node, []).append(cotangent)

    def add(self, node: Node, cotangent: Node) -> None:
        self._waiting.setdefault(node, []).append(cotangent)

    def add_part(self, part: Node, total: Node) -> None:
        self._of_parts.setdefault(part.args[0], {})[part.params["index"]] = total

    def total(self, node: Node) -> Derivative:
        """The sum of the cotangents of a node; None if there are none. For several results: a tuple of such sums."""
        if node.several:
            found = self._of_parts.pop(node, None)
            return None if found is None else tuple(found.get(i) for i in range(len(node.types)))
        waiting = self._waiting.pop(node, []) + self._seeds.pop(node, [])
        if not waiting:
            return None
        with errors.located(node.where):
            total = waiting[0]
            for cotangent in waiting[1:]:
                total = total + cotangent
        return total


def _cotangents(node: Node, total: Parameter, paths: Collection[Node]) -> Sequence[Node | None]:
    """The cotangents of a node's operands; None for those that are not needed, and for those that are zero."""
    nothing = [None] * node.arity
    needed = [operand in paths for operand in node.operands]
    if node.op is PART or not any(needed):
        return nothing
    with errors.located(node.where):
        if node.op.selective_vjp is not None:
            return node.op.selective_vjp(node, total, needed)
        assert node.op.vjp is not None  # else the node would be on no path
        return node.op.vjp(total, _results(node), *node.operands, **node.params)


def _results(node: Node) -> Node | tuple[Node, ...]:
    return parts(node) if node.several else node


def _fitted(cotangent: Node, operand: Node, node: Node) -> Node:
    """The cotangent in the shape of the operand, which the op may have stretched."""
    if cotangent.dtype != operand.dtype:
        raise errors.InternalError(
            f"a cotangent from {node.op.name} has another dtype than the operand",
            got=cotangent.type,
            expected=operand.type,
            where=node.where,
        )
    shape = operand.type.shape
    with errors.located(node.where):
        if cotangent.ndim < len(shape):
            return broadcast_to(cotangent, shape)
        cotangent = sum_to(cotangent, shape)
        stretched = any(a == 1 and b != 1 for a, b in zip(cotangent.type.shape, shape, strict=True))
        return broadcast_to(cotangent, shape) if stretched else cotangent


# ---- forward mode ----------------------------------------------------------------------------------------------------


def pushforward(outputs: Sequence[Node], tangents: Mapping[Node, Node | None]) -> list[Node | None]:
    """The tangents of `outputs`, from the tangents of some nodes (each of its node's type). None stands for a zero
    tangent."""
    known: dict[Node, Node | None] = dict(tangents)
    several: dict[Node, Sequence[Node | None]] = {}
    for node in walk(outputs, tangents):
        if node in known:
            continue
        if node.op is PART:
            known[node] = several[node.args[0]][node.params["index"]]
        elif node.several:
            several[node] = _tangents(node, [known[arg] for arg in node.operands])
        else:
            (known[node],) = _tangents(node, [known[arg] for arg in node.operands])
    return [known[output] for output in outputs]


def _tangents(node: Node, tangents: Tangents) -> Sequence[Node | None]:
    """The tangents of the results of a node; None where one is zero."""
    if all(tangent is None for tangent in tangents) or not carries_gradient(node):
        return [None] * len(node.types)
    with errors.located(node.where):
        if node.op.jvp is not None:
            found = node.op.jvp(tangents, _results(node), *node.operands, **node.params)
        elif node.op.is_linear:
            pairs = zip(tangents, node.operands, strict=True)
            found = node.op(*(or_zeros(tangent, operand) for tangent, operand in pairs), **node.params)
        elif node.op.vjp is not None:
            found = transposed(node, tangents)
        else:
            found = None
    results = found if isinstance(found, tuple) else [found] * len(node.types)
    for type_, tangent in zip(node.types, results, strict=True):
        if tangent is not None and (tangent.dtype != type_.dtype or tangent.ndim != type_.ndim):
            raise errors.InternalError(
                f"a tangent of {node.op.name} has another type", got=tangent.type, expected=type_, where=node.where
            )
    return results


def transposed(node: Node, tangents: Tangents) -> Derivative:
    """The tangent of a node whose op has a vjp but no jvp. The vjp is linear in the cotangent, and its transpose is the
    jvp."""
    several = node.several
    seeds = [new_input(type_) if type_.kind.floating else None for type_ in node.types]
    assert node.op.vjp is not None
    cotangents = node.op.vjp(tuple(seeds) if several else seeds[0], _results(node), *node.operands, **node.params)
    pairs = [
        (_fitted(cotangent, operand, node), tangent)
        for cotangent, operand, tangent in zip(cotangents, node.operands, tangents, strict=True)
        if cotangent is not None and tangent is not None
    ]
    if not pairs:
        return None
    wanted = [seed for seed in seeds if seed is not None]
    transposed = pullback([c for c, _ in pairs], [t for _, t in pairs], wanted)
    if not set(wanted).isdisjoint(walk(g for g in transposed if g is not None)):
        raise errors.GradientError(
            f"the derivative of {node.op.name} is not linear in the cotangent, so there is none in forward mode",
            got=repr(node),
            fix="use grad or vjp; or change the rule that a custom_vjp has",
        )
    found = iter(transposed)
    result = tuple(None if seed is None else next(found) for seed in seeds)
    return result if several else result[0]
