"""`ifelse`: runs one of two graphs, and does not run the other one."""

from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np

from scanjit import errors, ir, types
from scanjit.ir import ORIGINS, PART, Graph, Node, Op, parts, replace, walk
from scanjit.ops.batch import batch_graph
from scanjit.ops.chain import Tangents, carries_gradient, connected, pullback, pushforward
from scanjit.ops.chosen import batch_chosen, select
from scanjit.ops.extremes import ANY
from scanjit.ops.probe import PRINT, without_probes
from scanjit.ops.stretch import or_zeros, over_batch, zeros_like
from scanjit.signatures import Array, Parameter
from scanjit.types import Dimension, Type
from scanjit.walks import bottom_up


def _infer(condition: Type, *operands: Type, body: Graph, sizes: tuple[tuple[int, Dimension], ...]) -> tuple[Type, ...]:
    if condition.dtype != np.bool_ or condition.ndim or len(body.inputs) != len(operands) or len(body.outputs) % 2:
        raise errors.InternalError("ifelse takes a bool scalar, and a graph of its operands with two equal halves")
    outside = {atom: dim for i, dim in sizes if (atom := body.inputs[i].dim_atom) is not None}
    inner, outputs = (
        [ir.map_dims(node.type, lambda dim: types.substitute(dim, outside)) for node in nodes]
        for nodes in (body.inputs, body.outputs)
    )
    half = len(outputs) // 2
    for pairs, what in (
        (zip(operands, inner, strict=True), "an operand of ifelse and the input of its graph"),
        (zip(outputs[:half], outputs[half:], strict=True), "the results of the branches of ifelse"),
    ):
        for a, b in pairs:
            types.agree(a, b, what)
    return tuple(outputs[:half])


def _reference(*operands: Array, **params: Parameter) -> Array:
    raise errors.InternalError("the reference interpreter runs branches itself: a body is not a function of arrays")


def _vjp(node: Node, g: Sequence[Node | None], needed: Sequence[bool]) -> list[Node | None]:
    """An ifelse between the pullbacks of both branches."""
    inputs, then, other = opened(node)
    seeds = {i: ir.new_input(out.type) for i, out in enumerate(then) if g[i] is not None}
    wanted = [i for i, need in enumerate(needed[1:]) if need and carries_gradient(inputs[i])]
    found = [
        pullback([half[i] for i in seeds], list(seeds.values()), [inputs[i] for i in wanted]) for half in (then, other)
    ]
    given = [(seed, cotangent) for i, seed in seeds.items() if (cotangent := g[i]) is not None]
    results = _derived(node, inputs, given, [inputs[i] for i in wanted], list(map(_not_printed, found)))
    cotangents = dict(zip(wanted, results, strict=True))
    return [None, *(cotangents.get(i) for i in range(len(inputs)))]


def _connected(node: Node, results: Collection[int], through: Callable[[Node], bool]) -> list[Node]:
    """The operands that some of the results depend on, in either branch."""
    inputs, then, other = opened(node)
    found = connected([half[i] for half in (then, other) for i in sorted(results)], through=through)
    return [operand for operand, inner in zip(node.operands[1:], inputs, strict=True) if inner in found]


def _not_printed(found: Sequence[Node | None]) -> list[Node | None]:
    """Derivatives without the prints of the branch itself, which prints already."""
    new = iter(without_probes([x for x in found if x is not None], [PRINT]))
    return [None if x is None else next(new) for x in found]


def _jvp(tangents: Tangents, y: Sequence[Node], *operands: Node, **params: Parameter) -> tuple[Node | None, ...]:
    node = y[0].args[0]
    inputs, then, other = opened(node)
    pairs = [(inputs[i], t) for i, t in enumerate(tangents[1:]) if t is not None]
    seeds = {inner: ir.new_input(inner.type) for inner, _ in pairs}
    given = [(seeds[inner], tangent) for inner, tangent in pairs]
    return tuple(_derived(node, inputs, given, then, [pushforward(half, seeds) for half in (then, other)]))


def _derived(
    node: Node,
    inputs: Sequence[Node],
    given: Sequence[tuple[Node, Node]],
    like: Sequence[Node],
    halves: Sequence[Sequence[Node | None]],
) -> list[Node | None]:
    """An ifelse with the condition of `node` that chooses between two lists of derivatives (None for zero) of the types
    of `like`. The derivatives may use the inputs, and the symbols in `given`: pairs of a symbol and its value."""
    kept = [i for i in range(len(like)) if any(half[i] is not None for half in halves)]
    then, other = ([or_zeros(half[i], like[i]) for i in kept] for half in halves)
    pairs = [*zip(inputs, node.operands[1:], strict=True), *given]
    results = dict(zip(kept, branch(node.operands[0], then, other, pairs), strict=True))
    return [results.get(i) for i in range(len(like))]


def _batch(
    args: Sequence[Node],
    batched: Sequence[bool],
    size: Dimension,
    *,
    body: Graph,
    sizes: tuple[tuple[int, Dimension], ...],
) -> list[tuple[Node, bool]]:
    if any(batched[i + 1] for i, _ in sizes):
        raise errors.NotSupportedError("the sizes inside a branch cannot differ between the examples of a batch")
    symbols, outputs = body.opened()
    inner = [
        ir.new_input(arg.type) if flag else symbol
        for symbol, arg, flag in zip(symbols, args[1:], batched[1:], strict=True)
    ]
    wide = {symbol: new for symbol, new in zip(symbols, inner, strict=True) if new is not symbol}
    half = len(outputs) // 2
    if batched[0]:
        chosen = ir.new_input(args[0].type)
        then = _of_chosen(outputs[:half], wide, chosen, size)
        other = _of_chosen(outputs[half:], wide, ~chosen, size)
        made = [select(chosen, a, b) for a, b in zip(then, other, strict=True)]
        return [(new, True) for new in replace(made, dict(zip([chosen, *inner], args, strict=True)))]
    found = batch_graph(outputs, wide, size)
    flags = [a or b for (_, a), (_, b) in zip(found[:half], found[half:], strict=True)]
    full = [over_batch(node, has or not flag, size) for (node, has), flag in zip(found, flags * 2, strict=True)]
    results = branch(args[0], full[:half], full[half:], list(zip(inner, args[1:], strict=True)))
    return list(zip(results, flags, strict=True))


def _of_chosen(outputs: Sequence[Node], wide: Mapping[Node, Node], chosen: Node, size: Dimension) -> Sequence[Node]:
    """As `batch_chosen`, but inside of an ifelse if it must not run when no example is chosen."""
    then, safe = batch_chosen(outputs, wide, chosen, size)
    return then if safe else captured(ANY(chosen, axes=(0,)), then, [zeros_like(node) for node in then])


IFELSE = Op(
    "ifelse",
    infer=_infer,
    reference=_reference,
    selective_vjp=_vjp,
    connected=_connected,
    jvp=_jvp,
    batch=_batch,
    is_branch=True,
    reads_memory="all",
    takes_halves=True,
    doc="where a condition holds, the first half of the outputs of a graph; else the second half, and only that is run",
)
"""The first operand is the condition, the others are the arguments of the graph `body`. `sizes`: for each operand whose
value is a size in the graph, a pair of its position among the graph's inputs and the dimension."""


def opened(node: Node) -> tuple[list[Node], list[Node], list[Node]]:
    """The inputs of the graph of an ifelse, and the outputs of both branches, to build from."""
    inputs, outputs = node.params["body"].opened()
    half = len(outputs) // 2
    return inputs, outputs[:half], outputs[half:]


def branch(
    condition: Node, then: Sequence[Node], other: Sequence[Node], pairs: Sequence[tuple[Node, Node]]
) -> tuple[Node, ...]:
    """The results of an ifelse. `pairs`: symbols in the branches, each with its value outside. Unused symbols are left
    out. Other outside nodes that the branches use become operands."""
    outputs = [*then, *other]
    if not outputs:
        return ()
    used = set(walk(outputs, {symbol for symbol, _ in pairs}))
    used |= {size for symbol, _ in pairs if symbol in used for size in ir.dim_nodes({"types": symbol.types})}
    pairs = [pair for pair in pairs if pair[0] in used]
    inner = [symbol for symbol, _ in pairs]
    captured = ir.free_variables(outputs, inner)
    body = Graph.of([*inner, *captured], outputs)
    operands = [condition, *(outer for _, outer in pairs), *captured]
    return parts(IFELSE(*operands, body=body, sizes=ir.sizes_in(body, operands[1:])))


def captured(condition: Node, then: Sequence[Node], other: Sequence[Node], at: Collection[Node] = ()) -> list[Node]:
    """The results of an ifelse. Its branches contain all nodes that they depend on, down to the origins or to the nodes
    `at`."""
    outputs = [*then, *other]
    stops, roots = _met(outputs, at), list(outputs)
    while True:
        outer = [node for node in walk(roots, stops) if node in stops or node.op in ORIGINS]
        more = {size for node in (*outer, *outputs) for size in ir.dim_nodes({"types": node.types})}.difference(outer)
        if not more:
            break
        stops |= more  # sizes in the types of operands and results are operands too
        roots += sorted(more, key=lambda node: node.serial)
    return list(branch(condition, then, other, [(node, node) for node in outer]))


def _met(outputs: Sequence[Node], at: Collection[Node]) -> set[Node]:
    """The nodes of a graph that are in `at`, or are parts of a node in `at`, down to the first ones."""
    return {
        node
        for node in walk(outputs, at)
        if not (node.several or node.is_closed) and (node in at or (node.op is PART and node.args[0] in at))
    }


def cut(outputs: Sequence[Node], at: Collection[Node], deeper: bool = False) -> dict[Node, Node]:
    """Take the nodes `at` out of branches: they become operands. With `deeper`, so do nodes of a branch that a branch
    inside of it computes too. Maps the old results of the branches to the new ones."""
    first = sorted(at, key=lambda node: node.serial)  # nodes that one branch lets out may be needed by a later one
    return _cut(walk([*first, *outputs]), at, (), deeper)


def _cut(order: Sequence[Node], at: Collection[Node], skipped: Collection[Node], deeper: bool) -> dict[Node, Node]:
    mapping: dict[Node, Node] = {}
    for node in order:
        if node.op is IFELSE and node not in skipped:
            condition, *operands = node.operands
            inside, given = node.params["body"](*operands), {*at, *operands}
            own = walk(inside, given)
            inner = _cut(own, {*at, *(x for x in own if not x.is_closed)} if deeper else at, given, deeper)
            inside = replace(inside, dict(zip(operands, operands, strict=True)) | inner) if inner else inside
            if inner or not _met(inside, given) <= set(operands):
                half = len(inside) // 2
                new = captured(condition, inside[:half], inside[half:], given)
                mapping |= {PART(node, index=i): result for i, result in enumerate(new)}
    return _closed(mapping)


def _closed(mapping: Mapping[Node, Node]) -> dict[Node, Node]:
    """A mapping of replacements, in which each replacement is applied to the others too."""
    done: dict[Node, Node] = {}
    for node in bottom_up(mapping, lambda node: [mapping[node]] if node in mapping else node.args):
        if node in mapping:
            done[node] = done.get(mapping[node], mapping[node])
        elif not done.keys().isdisjoint(node.args):
            done[node] = ir.rebuild(node, tuple([done.get(arg, arg) for arg in node.args]))
    return {old: done[old] for old in mapping}
