"""Scans and branches as Scan, Loop and If."""

from collections.abc import Sequence

import numpy as np

from scanjit import ir
from scanjit.ir import Graph, Node
from scanjit.onnx.exporting import cells
from scanjit.onnx.exporting.writer import Writer
from scanjit.ops.roles import Roles, without_lags
from scanjit.ops.shape import SLICE
from scanjit.rewrite.match import is_whole, window_of
from scanjit.show.identifiers import writable
from scanjit.types import Type

_COUNT, _CONDITION = Type(np.dtype("int64")), Type(np.dtype("bool"))


def scan(w: Writer, node: Node, *operands: str) -> list[str]:
    """A Scan; or a Loop, if there are no sequences, or if a condition ends it."""
    if node.params["lags"]:
        params, more = without_lags(node.params, node.operands)
        plain = node.op(*more, **params)
        w.stands_for(plain, node)
        return scan(w, plain, *operands, *w.write(more[node.arity :]))
    roles = Roles.of(node)
    found = cells.written(w, node, roles, operands) if w.root.with_cells else None
    if found is not None:
        return found
    write = _loop if roles.until or not roles.sequences else _scan
    return write(w, node, roles, operands)


def _scan(w: Writer, node: Node, roles: Roles, operands: Sequence[str]) -> list[str]:
    body = node.params["body"]
    inits, xs, consts = roles.split(operands)
    before, rows, fixed = roles.split(body.inputs)
    inner = w.inner(fixed, consts)
    infos = [*(inner.input(bound, "state") for bound in before), *(inner.input(bound, "row") for bound in rows)]
    stacked = _stacked(w, node, roles)
    results = inner.typed([*body.outputs[: roles.carries], *stacked])
    graph = inner.graph(_label(node), infos, results)
    turned = int(node.params["reverse"])
    found = w.several(
        "Scan",
        [*inits, *xs],
        len(results),
        body=graph,
        num_scan_inputs=len(xs),
        scan_input_directions=[turned] * len(xs),
        scan_output_directions=[turned] * len(stacked) or None,
    )
    return [*found[: roles.carries], *_each(body, roles, stacked, found[roles.carries :])]


def _stacked(w: Writer, node: Node, roles: Roles) -> list[Node]:
    """The results of the body that must be stacked: those in use, each once."""
    used = w.used(node)
    return list(dict.fromkeys(y for i, y in _ys(node.params["body"], roles) if i in used))


def _ys(body: Graph, roles: Roles) -> list[tuple[int, Node]]:
    return [(i, body.outputs[i]) for i in roles.stacks]


def _each(body: Graph, roles: Roles, stacked: Sequence[Node], names: Sequence[str]) -> list[str]:
    """The names of the stacked results of a scan, in their order; "" for unused ones."""
    known = dict(zip(stacked, names, strict=True))
    return [known.get(y, "") for _, y in _ys(body, roles)]


def _label(node: Node) -> str:
    return writable(node.params["name"] or "step")


def _loop(w: Writer, node: Node, roles: Roles, operands: Sequence[str]) -> list[str]:
    """A Loop. Each step gathers its row of each sequence. If a condition ends the loop, one more state counts the
    steps."""
    body, length, turned = node.params["body"], node.params["length"], node.params["reverse"]
    if turned and roles.until:
        raise w.refuse(node, "a loop that a condition ends, over rows from the last to the first")
    inits, xs, consts = roles.split(operands)
    before, rows, fixed = roles.split(body.inputs)
    last = w.op("Sub", w.dim(length), w.constant(1, np.int64)) if turned and xs else ""
    number, going = w.names.new("number"), w.names.new("going")
    inner = w.inner(fixed, consts)
    infos = [inner.info(number, _COUNT), inner.info(going, _CONDITION)]
    infos += [inner.input(bound, "state") for bound in before]
    counter = w.names.new("count")
    infos += [inner.info(counter, _COUNT)] if roles.until else []
    at = inner.op("Sub", last, number) if last else number
    for bound, name in zip(rows, xs, strict=True):
        inner.define(bound, inner.op("Gather", name, at, axis=0))
    stacked = _stacked(w, node, roles)
    results = inner.typed([*body.outputs[: roles.carries], *stacked, *body.outputs[roles.stacks.stop :]])
    after, ys = results[: roles.carries], results[roles.carries : roles.carries + len(stacked)]
    count: list[tuple[str, Type]] = []
    if roles.until:
        going = inner.op("Not", results[-1][0])
        count = [(inner.op("Add", number, inner.constant(1, np.int64)), _COUNT)]
    graph = inner.graph(_label(node), infos, [(going, _CONDITION), *after, *count, *ys])
    started = [w.constant(0, np.int64)] if roles.until else []
    found = w.several(
        "Loop",
        [w.dim(length), w.constant(True), *inits, *started],
        roles.carries + len(count) + len(ys),
        body=graph,
    )
    rows_of = found[roles.carries + len(count) :]
    each = _each(body, roles, stacked, [_flipped(w, y) if turned else y for y in rows_of])
    if roles.until:
        w.define(ir.parts(node)[-1], found[roles.carries])
        each = [_filled(w, node, i, y) if y else y for i, y in zip(roles.stacks, each, strict=True)]
    return [*found[: roles.carries], *each, *found[roles.carries : roles.carries + len(count)]]


def _filled(w: Writer, node: Node, i: int, y: str) -> str:
    """A stack of a loop that a condition ends. A Loop stacks the rows of the steps that ran. What reads only these
    reads the result of the Loop; if something reads more, zeros stand for the rest."""
    users, type_ = w.used(node).get(i, ()), node.types[i]
    cuts = [user for user in users if user.op is SLICE and _cuts_to_what_ran(user)]
    for user in cuts:
        w.define(user, y)
    if len(cuts) == len(users):
        return y
    rest = node.params["length"] - ir.as_dim(ir.parts(node)[-1])
    return w.op("Concat", y, w.full(np.zeros((), type_.dtype), (rest, *type_.shape[1:])), axis=0)


def _cuts_to_what_ran(user: Node) -> bool:
    """Whether a slice of a stack is the rows of the steps that ran, whole."""
    (stack,) = user.operands
    ran = ir.as_dim(ir.parts(stack.args[0])[-1])
    return is_whole(window_of(user), (ran, *stack.type.shape[1:]))


def _flipped(w: Writer, y: str) -> str:
    """A tensor with its rows in the reverse order."""
    return w.op("Slice", y, w.ints(-1), w.ints(-(2**62)), w.ints(0), w.ints(-1))


def ifelse(w: Writer, node: Node, condition: str, *operands: str) -> list[str]:
    """An If. Its two graphs use the values around them."""
    body = node.params["body"]
    half = len(body.outputs) // 2
    graphs = []
    for outputs, label in ((body.outputs[:half], "then"), (body.outputs[half:], "other")):
        inner = w.inner(body.inputs, operands)
        graphs.append(inner.graph(label, [], inner.typed(outputs)))
    return w.several("If", [condition], half, then_branch=graphs[0], else_branch=graphs[1])
