"""Local algebra of indices: of gathers whose index is known, and of sums of scatters."""

from collections.abc import Callable

from scanjit.ir import SIZE, Node
from scanjit.ops.elementwise import ADD
from scanjit.ops.index import GATHER, SCATTER
from scanjit.ops.shape import IOTA, window
from scanjit.ops.view import DIMSHUFFLE
from scanjit.rewrite.engine import RuleTable
from scanjit.rewrite.match import at_most, is_zero, scalar

rules = RuleTable()


@rules.rule(GATHER)
def gather_of_iota(node: Node) -> Node | None:
    """x[iota(n)] -> x[:n];  x[iota(n) + a] -> x[a : a + n]"""
    if len(node.operands) != 2:
        return None
    x, index = node.operands
    axis, start = node.params["axis"], 0
    if index.op is ADD:
        for a, b in (index.operands, index.operands[::-1]):
            if a.op is IOTA and b.ndim == 0 and (first := scalar(b)) is not None:
                index, start = a, int(first)
                break
    if index.op is not IOTA:
        return None
    length = index.type.shape[0]
    if start < 0 or not at_most(start + length, x.type.shape[axis]):
        return None
    return window(x, axis, start, length)


@rules.rule(GATHER)
def gather_of_a_known_entry(node: Node) -> Node | None:
    """x[i], i a number that is certainly inside -> a slice without its axis"""
    if len(node.operands) != 2 or node.operands[1].ndim:
        return None
    (x, index), axis = node.operands, node.params["axis"]
    known = scalar(index)
    at = index.params["dim"] if index.op is SIZE else None if known is None else int(known)
    if at is None or not at_most(0, at) or not at_most(at + 1, x.type.shape[axis]):
        return None
    entry = window(x, axis, at, 1)
    return DIMSHUFFLE(entry, order=tuple(a for a in range(x.ndim) if a != axis))


# ---- scatters --------------------------------------------------------------------------------------------------------


@rules.counting(ADD)
def add_of_a_scatter(node: Node, used: Callable[[Node], int]) -> Node | None:
    """a + scatter(0, v, i) -> scatter(a, v, i), if it adds: the gradient of `x[i]` is added where it belongs, and no
    other element is touched"""
    for a, b in (node.operands, node.operands[::-1]):
        if a.type == b.type == node.type and (chain := _added_to_zeros(b, used)):
            for link in chain:
                a = SCATTER(a, *link.operands[1:], **link.params)
            return a
    return None


def _added_to_zeros(node: Node, used: Callable[[Node], int]) -> list[Node]:
    """The scatters, the first one first, that make a node out of zeros by adding. None if there is anything else, or if
    something else uses the result of one of them."""
    chain = list[Node]()
    while node.op is SCATTER and node.params["add"] and used(node) == 1:
        chain.insert(0, node)
        node = node.operands[0]
    return chain if is_zero(node) else []
